"""Stored versions: models that a run keeps at its reports, and that a later run reads in place of training.

If all reports are stored, every trained model is, by its node and local update; all other models follow from these by
merging, so observers receive the same messages as in the run. Of chosen reports the models of all nodes are stored.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np

from gossiprec.base.arrays import F32, I64
from gossiprec.base.errors import LogError
from gossiprec.compute.plan.program import Program
from gossiprec.compute.store.arena import Arena
from gossiprec.runs.run_files import versions_path
from gossiprec.runs.run_tables import read_arrays, write_arrays

RunTasks = Callable[[Program, I64], None]
MOST_UPDATES = 2**32
"""Above the number of local updates of any node."""


class StoredVersions:
    """The versions of a run that are neither stored nor read.

    Attributes
    ----------
    computes : bool
        Whether tasks are run: not if all models come from stored versions of chosen reports.
    """

    computes = True

    def wrap(self, arena: Arena, run: RunTasks) -> RunTasks:
        """Return the function that runs tasks."""
        return run

    def begin(self, report: int) -> None:
        """Begin the events before a report, numbered from 1."""

    def read_models(self, current: I64) -> bool:
        """Read the nodes' models at a report into their rows, if needed; return whether they are known."""
        return True

    def write(self, current: I64, *, last: bool) -> None:
        """Store the versions of a report."""


NO_VERSIONS = StoredVersions()
"""For runs that neither store versions nor read them."""


class VersionWriter(StoredVersions):
    """The writer of versions.

    Parameters
    ----------
    folder : Path
        The run directory.
    reports : {"all", "last"} or tuple of int
        The reports, by their numbers, from 1.
    arena : Arena
    """

    def __init__(self, folder: Path, reports: Literal["all", "last"] | tuple[int, ...], arena: Arena) -> None:
        self._folder, self._reports, self._arena = folder, reports, arena
        self._report = 0
        self._trained: list[tuple[I64, F32]] = []

    def wrap(self, arena: Arena, run: RunTasks) -> RunTasks:
        """Return a function that runs tasks, and copies the trained models if all reports are stored."""

        def run_and_copy(program: Program, tasks: I64) -> None:
            run(program, tasks)
            trained = tasks[program.update[tasks] >= 0]
            if len(trained):
                self._trained.append((_keys(program, trained), arena.load(program.target[trained])))

        return run_and_copy if self._reports == "all" else run

    def begin(self, report: int) -> None:
        """Begin the events before a report."""
        self._report = report

    def write(self, current: I64, *, last: bool) -> None:
        """Store the trained models, or the nodes' models if the report is a chosen one."""
        nodes = np.arange(len(current))
        if self._reports == "all":
            empty = (np.zeros(0, np.int64), np.zeros((0, self._arena.layout.row_size), np.float32))
            keys, rows = map(np.concatenate, zip(empty, *self._trained, strict=True))
            order, self._trained = np.argsort(keys), []
            keys, rows = keys[order], rows[order]
        elif last if self._reports == "last" else self._report in self._reports:
            keys, rows = nodes * MOST_UPDATES, self._arena.models(current, nodes)
        else:
            return
        write_arrays(
            versions_path(self._folder, self._report),
            {"keys": keys, "rows": rows.astype(self._arena.rows.dtype)},
        )


class VersionReader(StoredVersions):
    """The reader of versions that another run has stored.

    Parameters
    ----------
    folder : Path
        That run's directory.
    trained : bool
        Whether its files have every trained model.
    """

    def __init__(self, folder: Path, *, trained: bool) -> None:
        self._folder, self.computes = folder, trained
        self._keys, self._rows = np.zeros(0, np.int64), np.zeros((0, 0), np.float32)
        self._arena: Arena | None = None

    def wrap(self, arena: Arena, run: RunTasks) -> RunTasks:
        """Return a function that runs tasks, with stored models in place of training."""
        self._arena = arena

        def run_with_stored(program: Program, tasks: I64) -> None:
            is_trained = program.update[tasks] >= 0
            if not is_trained.all():
                run(program, tasks[~is_trained])
            if is_trained.any():
                trained = tasks[is_trained]
                arena.store(program.target[trained], self._find(_keys(program, trained)), None)

        return run_with_stored

    def begin(self, report: int) -> None:
        """Read the file of a report, if the run has stored it."""
        path = versions_path(self._folder, report)
        found = read_arrays(path)
        self._keys, self._rows = found.get("keys", self._keys[:0]), found.get("rows", self._rows[:0])
        if self._keys.ndim != 1 or self._rows.ndim != 2 or len(self._keys) != len(self._rows):
            raise LogError(f"{path}: found arrays of other shapes; {_NEXT}")

    def read_models(self, current: I64) -> bool:
        """Return whether the report is stored, after the nodes' models are read if nothing is computed."""
        if self.computes:
            return True
        if len(self._keys):
            assert self._arena is not None
            self._arena.store(current, self._find(np.arange(len(current)) * MOST_UPDATES), None)
        return len(self._keys) > 0

    def _find(self, keys: I64) -> F32:
        assert self._arena is not None
        at = np.searchsorted(self._keys, keys)
        known = at < len(self._keys)
        known[known] = self._keys[at[known]] == keys[known]
        if not known.all() or self._rows.shape[1:] != self._arena.rows.shape[1:]:
            node, update = divmod(int(keys[~known][0]) if not known.all() else 0, MOST_UPDATES)
            raise LogError(
                f"{self._folder}: found no stored version of node {node} (local update {update}); {_NEXT}"
            )
        return self._rows[at]


_NEXT = "expected the versions that the run stored; observe it without them: --replay"


def _keys(program: Program, tasks: I64) -> I64:
    """Return the keys of trained models, by node and local update."""
    return program.node[tasks].astype(np.int64) * MOST_UPDATES + program.update[tasks]
