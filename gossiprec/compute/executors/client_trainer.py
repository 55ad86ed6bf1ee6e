"""The interface of a trainer of clients that keep no model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from gossiprec.base.arrays import F32
from gossiprec.base.rng import generator
from gossiprec.compute.executors.base import ExecutorContext
from gossiprec.compute.store.update import Update
from gossiprec.compute.store.update_store import UpdateStore
from gossiprec.federated.base import ClientContext
from gossiprec.models.feeds.base import Columns


@dataclass(frozen=True)
class TrainingTask:
    """One local update to run.

    Attributes
    ----------
    node, update : int
        The node, and the number of the update among the node's.
    target : int
        Handle of the version from which the update starts.
    sent : int
        Handle under which the extras of that version are stored.
    told : ndarray of float32, shape (user_upload_width,), or None
        The user upload of the client, or None if it has sent none yet.
    """

    node: int
    update: int
    target: int
    sent: int
    told: F32 | None = field(default=None, compare=False)


class ClientTrainer(ABC):
    """The interface of objects that run local updates; a client's bytes depend only on its own samples.

    Users' rows and private weights, with their Adam moments, are in the store and are updated there. Moments of items
    and shared weights start at zero in each update.

    Parameters
    ----------
    work : ExecutorContext
    store : UpdateStore

    Attributes
    ----------
    name : str
        The executor's name in a scenario.
    parallel : bool
        Whether several threads may train different nodes at once.
    divides : bool
        Whether the trainer uses several threads itself, and takes all tasks of a wave in one call.
    """

    name: str
    parallel: ClassVar[bool] = False
    divides: ClassVar[bool] = False

    def __init__(self, work: ExecutorContext, store: UpdateStore) -> None:
        self.work, self.store = work, store

    def warm_up(self) -> None:  # noqa: B027 (most have nothing to warm up)
        """Do slow one-time work before the first task."""

    def extra_samples(self, lesson: TrainingTask) -> Columns:
        """Return the recommender's extra samples for a client, empty if there are none."""
        work = self.work
        if work.recommender is None:
            return {}
        positives = work.feed.positives[lesson.node]
        return work.recommender.extra_samples(lesson.node, positives, self.store.extras(lesson.sent))

    def changed(self, lesson: TrainingTask, drawn: Columns) -> Columns:
        """Return a client's samples after the recommender has changed and extended them."""
        work = self.work
        if work.recommender is None:
            return drawn
        draw = generator(work.seed, "changed-samples", lesson.node, work.training.draw_of(lesson.update))
        changed = work.recommender.transform_samples(drawn, self.at_hand(lesson), draw)
        more = self.extra_samples(lesson)
        if not more:
            return changed
        return {name: np.concatenate([column, more[name]]) for name, column in changed.items()}

    def at_hand(self, lesson: TrainingTask) -> ClientContext:
        """Return the data that a client has for a task."""
        work, store = self.work, self.store
        return ClientContext(
            seed=work.seed,
            node=lesson.node,
            update=lesson.update,
            layout=work.layout,
            positives=work.feed.positives[lesson.node],
            history=work.feed.history(lesson.node),
            own=store.own[lesson.node, : store.layout.user_width],
            version=store.version(lesson.target),
            extras=store.extras(lesson.sent),
            told=lesson.told,
        )

    def telling(self, lessons: Sequence[TrainingTask]) -> list[TrainingTask]:
        """Return the tasks with the current user uploads of their clients."""
        assert self.work.recommender is not None
        found = []
        for some in self.by_what_was_sent(lessons):
            rows = self.work.recommender.user_uploads([self.at_hand(lesson) for lesson in some])
            found += [
                replace(lesson, told=np.array(row, np.float32))
                for lesson, row in zip(some, rows, strict=True)
            ]
        return found

    def by_what_was_sent(self, lessons: Sequence[TrainingTask]) -> list[list[TrainingTask]]:
        """Return the tasks grouped by version and extras, which are compared as objects."""
        alike: dict[tuple[int, int], list[TrainingTask]] = defaultdict(list)
        for lesson in lessons:
            version, extras = self.store.version(lesson.target), self.store.extras(lesson.sent)
            alike[id(version), id(extras)].append(lesson)
        return list(alike.values())

    @abstractmethod
    def train(self, lessons: Sequence[TrainingTask]) -> Iterator[tuple[TrainingTask, Update]]:
        """Yield each task with its update."""
