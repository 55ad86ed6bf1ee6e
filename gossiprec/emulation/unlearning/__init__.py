"""Unlearning methods, one file each: how a finished run is rid of the data of some users."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F32, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import NoOptions, Options
from gossiprec.base.registry import Registry, registry_name
from gossiprec.compute.inbox_reducer import OnAggregate, RoundAnswers
from gossiprec.emulation.assembly.prepare import PreparedRun
from gossiprec.emulation.run.live_run import LiveRun
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
        handle = self.prepared.planner.current_row(self.prepared.protocol.n_users)
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
        Passes of clients over their samples after the request.
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


class StartRun(Protocol):
    """A function that prepares the run of a scenario in a temporary directory."""

    def __call__(self, scenario: Scenario, on_aggregate: OnAggregate | None = None) -> LiveRun:
        """Return the run before its first event; `on_aggregate` changes what the coordinator aggregates."""


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
    start : StartRun
    """

    without: Scenario
    removed: I64
    models: FinalModels
    start: StartRun


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
        if not prepared.mode.sends_messages:
            raise ScenarioError(
                f"method {registry_name(self)}: found {prepared.mode.title}, in which no node has its own data; "
                "expected gossip or a federation; use retrain"
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
