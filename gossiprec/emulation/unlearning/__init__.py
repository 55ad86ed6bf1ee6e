"""Unlearning methods, one file each: how a finished run is rid of the data of some users."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from gossiprec.base.arrays import F32, F64, I64, Bools
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import NoOptions, Options
from gossiprec.base.registry import Registry, registry_name
from gossiprec.compute.inbox_reducer import RoundAnswers
from gossiprec.emulation.assembly.prepare import PreparedRun
from gossiprec.emulation.run.live_run import LiveRun
from gossiprec.rules.aggregators import Aggregator, ModelDelta, RoundSums
from gossiprec.runs import Run
from gossiprec.scenario import Scenario


@dataclass(frozen=True)
class FinalModels:
    """The models of all nodes at the end of a run.

    Attributes
    ----------
    run : LiveRun
        A run that has ended.
    version : ndarray of float32, shape (n_columns,), or None
        Version of the coordinator in place of the run's own, if clients hold no model.
    """

    run: LiveRun
    version: F32 | None = None

    @property
    def prepared(self) -> PreparedRun:
        """The parts of the run: data, network, executor and models."""
        return self.run.prepared

    def model(self, node: int) -> dict[str, npt.NDArray[np.float32]]:
        """Return a copy of the model of a node by block, as :meth:`LiveRun.model`."""
        with self._in_place():
            return self.run.model(node)

    def scores(self, users: I64) -> F32:
        """Return the scores of all items by the models of some users, shape (n_users, n_items)."""
        with self._in_place():
            return self.run.scores(users)

    def rows(self, nodes: I64) -> F32:
        """Return copies of the models of some nodes as rows of the run's layout, shape (n_nodes, row_size)."""
        prepared = self.prepared
        with self._in_place():
            found = prepared.executor.store.models(prepared.planner.current_rows, nodes)
        return np.array(found, np.float32)

    @contextmanager
    def _in_place(self) -> Iterator[None]:
        """Let the store hold :attr:`version` as the coordinator's current one until the body ends."""
        if self.version is None:
            yield
            return
        store = self.prepared.executor.store
        handle = self.prepared.planner.current_row(self.prepared.components.protocol.n_users)
        own = np.array(store.merged_columns(handle))
        store.store_merged(handle, handle, self.version, None)
        try:
            yield
        finally:
            store.store_merged(handle, handle, own, None)


@dataclass(frozen=True)
class Forgotten:
    """The result of an unlearning method.

    Attributes
    ----------
    models : FinalModels
    sent_bytes : int
        Bytes of all messages after the request, until the unlearned models exist.
    stored_bytes : int
        Bytes that clients and coordinator must have stored before the request, in total.
    local_epochs : int
        Local epochs of all nodes after the request, also of nodes without samples.
    seconds : float
        Wall time of the method on this machine, without what the original run computes in any case.
    updates : ndarray of int64, shape (n_nodes,), or None
        Local updates of each node after the request; None if there are none.
    """

    models: FinalModels
    sent_bytes: int = 0
    stored_bytes: int = 0
    local_epochs: int = 0
    seconds: float = 0.0
    updates: I64 | None = None

    @classmethod
    def by_run(cls, live: LiveRun, ended: Run, before: I64 | int = 0) -> Forgotten:
        """Return the models of a run, with the costs of all of it but the local updates `before` it."""
        summary, prepared = ended.summary or {}, live.prepared
        epochs = int(np.sum(before)) * prepared.executor.work.training.local_epochs
        return cls(
            FinalModels(live),
            sent_bytes=int(summary["bytes"]["sent"]),
            local_epochs=int(summary["node_updates"]) - epochs,
            seconds=float(summary["wall_seconds"]),
            updates=prepared.planner.update_counts - before,
        )


@dataclass(frozen=True)
class UnlearningRequest:
    """A request to forget some users after a run.

    Attributes
    ----------
    without : Scenario
        The scenario of the run without these users' data (``dataset.without``).
    removed : ndarray of int64, shape (n_removed,)
        Node ids of the users, ascending.
    models : FinalModels
        The models at the end of the run.
    start : callable
        Returns the run of a scenario, in a temporary directory and before its first event.
    """

    without: Scenario
    removed: I64
    models: FinalModels
    start: Callable[[Scenario], LiveRun]


class Unlearner(ABC):
    """An unlearning method; there is one object per request.

    Parameters
    ----------
    options : Options
        Options of the class's own type.
    """

    Options: ClassVar[type[Options]] = NoOptions
    stores_updates: ClassVar[bool] = False
    """Whether it needs the updates that clients sent during the run, which :meth:`note_round` gets."""

    def __init__(self, options: Any) -> None:
        self.options = options

    def check(self, prepared: PreparedRun) -> None:
        """Refuse a run after which the method does not work.

        Raises
        ------
        ScenarioError
        """
        if not prepared.components.mode.sends_messages:
            raise ScenarioError(
                f"method {registry_name(self)}: found {prepared.components.mode.title}, in which no node has its own "
                "data; expected gossip or a federation; use retrain"
            )

    def note_round(self, answers: RoundAnswers, removed: I64) -> None:  # noqa: B027 (only if it stores updates)
        """Store what the method needs of a round of the run, in the order of time.

        Parameters
        ----------
        answers : RoundAnswers
        removed : ndarray of int64
            The users that will ask to be forgotten. What is stored before the request must not depend on them.
        """

    @abstractmethod
    def forget(self, request: UnlearningRequest) -> Forgotten:
        """Return the models without the users' data, and their cost."""


UNLEARNERS: Registry[type[Unlearner]] = Registry("unlearning method", __name__, group="unlearners")


class StoredUpdateOptions(Options):
    """Options of methods that store updates."""

    keep: Annotated[float, Field(gt=0, le=1)] = 0.5
    """fraction of the items in an update that is stored: those with the largest changes"""


def largest_changes(update: ModelDelta, keep: float) -> ModelDelta:
    """Return an update with a fraction of its items, those of largest Euclidean change; of equal ones the first.

    The number of items is rounded up. Shared weights are kept whole.
    """
    number = math.ceil(keep * len(update.items))
    lengths = np.square(update.rows.astype(np.float64)).sum(axis=1)
    kept = np.sort(np.argsort(-lengths, kind="stable")[:number])
    return ModelDelta(update.items[kept], update.rows[kept], update.shared)


def stored_bytes(update: ModelDelta) -> int:
    """Return the size of an update: item ids, their rows, and shared weights, 4 bytes each."""
    return 4 * int(len(update.items) + update.rows.size + update.shared.size)


class StoredRound(NamedTuple):
    """The stored updates of a round.

    Attributes
    ----------
    rule : Aggregator
        The run's rule, which needs sums only (``from_sums``).
    updates : list of ModelDelta
    weights : ndarray of float64, shape (n_updates,)
    stays : ndarray of bool, shape (n_updates,)
        Whether each is of a user who stays.
    n_columns : int
    """

    rule: Aggregator
    updates: list[ModelDelta]
    weights: F64
    stays: Bools
    n_columns: int

    def change(self, some: Bools) -> F32:
        """Return the change of the version by the rule over some of the updates; zeros without any."""
        nothing = np.zeros(self.n_columns, np.float32)
        chosen = np.flatnonzero(some).tolist()
        if not chosen:
            return nothing
        mass = float(self.weights[chosen].sum())
        total, touched = np.zeros(self.n_columns), np.full(self.n_columns, mass)
        end, width = self.n_columns - len(self.updates[0].shared), max(self.updates[0].rows.shape[1], 1)
        touched[:end] = 0.0
        sums, masses = (numbers[:end].reshape(-1, width) for numbers in (total, touched))
        for k in chosen:
            update, weight = self.updates[k], self.weights[k]
            sums[update.items] += weight * update.rows.astype(np.float64)
            masses[update.items] += weight
            total[end:] += weight * update.shared.astype(np.float64)
        return self.rule.reduce_sums(nothing, RoundSums(total, mass, touched))


class StoresUpdates(Unlearner):
    """A method that stores the updates of all clients during the run.

    Attributes
    ----------
    n_bytes, n_remaining_bytes : int
        Bytes of all stored updates, and of those of the users who stay.
    """

    Options = StoredUpdateOptions
    options: StoredUpdateOptions
    stores_updates = True

    def __init__(self, options: StoredUpdateOptions) -> None:
        super().__init__(options)
        self.n_bytes = self.n_remaining_bytes = 0

    def check(self, prepared: PreparedRun) -> None:
        """Refuse runs without updates of single clients that are added up."""
        components, found, remedy = prepared.components, None, ""
        rule = components.inboxes.receivers.get(components.protocol.n_users)
        title, sees = components.mode.title, components.scenario.coordinator.sees
        if title != "clients without a model":
            found, remedy = title, "set protocol to {name: fedavg, client_model: none, ...}"
        elif sees != "updates":
            found = f"coordinator.sees: {sees}"
            remedy = "set it to updates, because single updates are revised"
        elif rule is None or not rule.rule.from_sums:
            found = f"the rule {rule.name if rule else None}"
            remedy = "set protocol.merge to samples, mean, sum or touched-mean"
        elif components.coordination.server is not None:
            found = "a coordinator that changes what it aggregates (protocol.server, recommender)"
            remedy = "remove it"
        if found is not None:
            raise ScenarioError(
                f"method {registry_name(self)}: found {found}; expected a coordinator that adds up updates of single "
                f"clients; {remedy}, or use fine-tune or retrain"
            )

    def store(self, answers: RoundAnswers, removed: I64) -> StoredRound:
        """Return the stored updates of a round, and count their bytes."""
        assert answers.inbox.deltas is not None, "see check"
        updates = [largest_changes(update, self.options.keep) for update in answers.inbox.deltas]
        stays = ~np.isin(answers.clients, removed)
        sizes = np.array([stored_bytes(update) for update in updates], np.int64)
        self.n_bytes += int(sizes.sum())
        self.n_remaining_bytes += int(sizes[stays].sum())
        return StoredRound(answers.rule, updates, answers.inbox.weights, stays, len(answers.published))
