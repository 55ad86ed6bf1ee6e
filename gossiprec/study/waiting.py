"""Tasks in the order in which they are handed out: no two at a time compile the same kernels."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from gossiprec.study.task import Task


class Waiting:
    """Tasks that have not been handed out.

    The first task of each signature goes alone until its kernels are compiled; they are then on disk for all.
    """

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = deque(tasks)
        self._compiling: set[str] = set()
        self._compiled: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def take(self) -> Task | None:
        """Return the next task that may start now, if any."""
        task = next((task for task in self._tasks if task.signature not in self._compiling), None)
        if task is not None:
            self._tasks.remove(task)
            if task.signature not in self._compiled:
                self._compiling.add(task.signature)
        return task

    def put_back(self, task: Task) -> None:
        """Let a task be handed out again, before the others."""
        self._tasks.appendleft(task)

    def compiled(self, task: Task) -> None:
        """Note that the kernels of a task are there, or that nobody is compiling them any more."""
        self._compiling.discard(task.signature)
        self._compiled.add(task.signature)
