"""The executor of clients that keep no model, and the interface of the trainers that it runs.

A client trains the rows that it touches of the version that it was sent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from gossiprec.base.arrays import F32, I64
from gossiprec.base.machine import ThreadPool
from gossiprec.base.rng import generator
from gossiprec.compute.executors.base import Executor, ExecutorContext, TrainingExecutor
from gossiprec.compute.local_update import TrainingSettings
from gossiprec.compute.plan.program import Program
from gossiprec.compute.store import ScoringView
from gossiprec.compute.store.update import Update
from gossiprec.compute.store.update_store import UpdateStore
from gossiprec.federated import ClientContext
from gossiprec.models.feeds.base import Columns


@dataclass(slots=True)  # making a frozen one takes three times as long
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
    upload : ndarray of float32, shape (user_upload_width,), or None
        The user upload of the client, or None if it has sent none yet.
    """

    node: int
    update: int
    target: int
    sent: int
    upload: F32 | None = field(default=None, compare=False)


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
    threads_internally : bool
        Whether the trainer uses several threads itself, and takes all tasks of a wave in one call.
    """

    name: str
    parallel: ClassVar[bool] = False
    threads_internally: ClassVar[bool] = False

    def __init__(self, work: ExecutorContext, store: UpdateStore) -> None:
        self.work, self.store = work, store

    def use_training(self, training: TrainingSettings) -> None:
        """Train with another learning rate and other constants of Adam from now on."""
        self.work = replace(self.work, training=training)

    def warm_up(self) -> None:  # noqa: B027 (most have nothing to warm up)
        """Do slow one-time work before the first task."""

    def extra_samples(self, task: TrainingTask) -> Columns:
        """Return the recommender's extra samples for a client, empty if there are none."""
        work = self.work
        if work.recommender is None:
            return {}
        positives = work.feed.positives[task.node]
        return work.recommender.extra_samples(task.node, positives, self.store.extras(task.sent))

    def transformed_samples(self, task: TrainingTask, drawn: Columns) -> Columns:
        """Return a client's samples after the recommender has changed and extended them."""
        work = self.work
        if work.recommender is None:
            return drawn
        draw = generator(work.seed, "changed-samples", task.node, work.training.negatives_update(task.update))
        changed = work.recommender.transform_samples(drawn, self.client_context(task), draw)
        more = self.extra_samples(task)
        if not more:
            return changed
        return {name: np.concatenate([column, more[name]]) for name, column in changed.items()}

    def client_context(self, task: TrainingTask) -> ClientContext:
        """Return the data that a client has for a task."""
        work, store = self.work, self.store
        return ClientContext(
            seed=work.seed,
            node=task.node,
            update=task.update,
            layout=work.layout,
            positives=work.feed.positives[task.node],
            history=work.feed.history(task.node),
            own=store.own[task.node, : store.layout.user_width],
            version=store.version(task.target),
            extras=store.extras(task.sent),
            user_upload=task.upload,
        )

    def with_user_uploads(self, tasks: Sequence[TrainingTask]) -> list[TrainingTask]:
        """Return the tasks with the current user uploads of their clients."""
        assert self.work.recommender is not None
        found = []
        for some in self.group_by_version(tasks):
            rows = self.work.recommender.user_uploads([self.client_context(task) for task in some])
            found += [
                replace(task, upload=np.array(row, np.float32)) for task, row in zip(some, rows, strict=True)
            ]
        return found

    def group_by_version(self, tasks: Sequence[TrainingTask]) -> list[list[TrainingTask]]:
        """Return the tasks grouped by version and extras, which are compared as objects."""
        groups: dict[tuple[int, int], list[TrainingTask]] = defaultdict(list)
        for task in tasks:
            version, extras = self.store.version(task.target), self.store.extras(task.sent)
            groups[id(version), id(extras)].append(task)
        return list(groups.values())

    def score_all_items(self, models: ScoringView, threads: ThreadPool) -> F32 | None:
        """Return the scores of all items, shape (n_models, n_items), or None if the scoring executor computes them."""
        return None

    @abstractmethod
    def train(self, tasks: Sequence[TrainingTask]) -> Iterator[tuple[TrainingTask, Update]]:
        """Yield each task with its update."""


class ClientExecutor(TrainingExecutor):
    """The executor that adopts the versions sent to clients and trains the clients.

    It uses one thread, unless the trainer is compiled: calls of stacks are short, and two threads wait for each other's
    GIL; on two cores they made 0.8 of the passes of one thread.

    Parameters
    ----------
    trainer : ClientTrainer
    scoring : Executor
        Scores whole models, and is the kind of executor that attacks use. Its context holds no nodes' models.
    """

    def __init__(self, trainer: ClientTrainer, scoring: Executor) -> None:
        super().__init__(trainer.work, scoring)
        self.name = trainer.name  # type: ignore[misc]
        self.parallel, self.threads_internally = trainer.parallel, trainer.threads_internally
        self._trainer = trainer
        self._bytes: dict[tuple[int, int], int] = {}

    def use_training(self, training: TrainingSettings) -> None:
        """Train with other numbers."""
        super().use_training(training)
        self._trainer.use_training(training)

    @property
    def store(self) -> UpdateStore:
        """The store of versions and updates."""
        return self._trainer.store

    def warm_up(self) -> None:
        """Compile the training and the scoring kernels."""
        self._trainer.warm_up()
        self._scoring.warm_up_scores()

    def score_all(self, models: ScoringView, threads: ThreadPool) -> F32:
        """Return the scores of all items; by the trainer, if it can."""
        plain = not (models.contexts or models.histories)
        found = self._trainer.score_all_items(models, threads) if plain else None
        return super().score_all(models, threads) if found is None else found

    @property
    def update_bytes(self) -> dict[tuple[int, int], int]:
        """Size of each trained update, by (node, number of the update)."""
        return self._bytes

    def run(self, program: Program, tasks: I64) -> None:
        """Run `tasks` of one wave: first all adopt the versions that they were sent, then local updates run."""
        sent = self._adopt(program, tasks[program.push[tasks] < 0] if len(program.push) else tasks)
        trains = tasks[program.update[tasks] >= 0]
        columns = (part[trains].tolist() for part in (program.node, program.update, program.target))
        trainings = [
            TrainingTask(node, update, target, sent[task])
            for task, node, update, target in zip(trains.tolist(), *columns, strict=True)
        ]
        self.store.adopt_sent_user_rows((training.node, training.sent) for training in trainings)
        recommender, uploads = self.work.recommender, self.store.user_upload_width > 0
        if uploads and recommender is not None and recommender.uploads_before_training:
            trainings = self._trainer.with_user_uploads(trainings)
        for training, trained in self._trainer.train(trainings):
            update = self._with_upload(training, trained) if uploads else trained
            self.store.store_payload(training.target, update)
            if self.store.received is not None:
                self.store.received.note(training.node, update, self.store.extras(training.sent))
            self._bytes[training.node, training.update] = update.size_bytes

    def _with_upload(self, task: TrainingTask, update: Update) -> Update:
        """Return an update with the user upload of its client."""
        upload = task.upload if task.upload is not None else self._trainer.with_user_uploads([task])[0].upload
        return replace(update, user=upload)

    def _adopt(self, program: Program, tasks: I64) -> dict[int, int]:
        """Set each task's target to the version that it adopts last, or its source; return the handle of each."""
        sent = dict(zip(tasks.tolist(), program.adopted_rows(tasks).tolist(), strict=True))
        targets, trained = program.target[tasks].tolist(), (program.update[tasks] >= 0).tolist()
        versions = {handle: self.store.version(handle) for handle in set(sent.values())}
        for from_, target, trains in zip(sent.values(), targets, trained, strict=True):
            self.store.store_payload(target, versions[from_])
            if not trains and (extras := self.store.extras(from_)):  # another task may train it
                self.store.attach_extras(target, extras)
        return sent
