"""Updates of clients that are stored during a run, so that a request to forget can use them."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from gossiprec.base.arrays import F32, F64, I64, Bools
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import Options
from gossiprec.base.registry import registry_name
from gossiprec.compute.inbox_reducer import RoundAnswers
from gossiprec.emulation.assembly.prepare import PreparedRun
from gossiprec.emulation.unlearning import Unlearner
from gossiprec.rules.aggregators import Aggregator, ModelDelta, RoundSums


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
        rule = prepared.receivers.get(prepared.protocol.n_users)
        found, remedy = None, ""
        if prepared.mode.title != "clients without a model":
            found, remedy = prepared.mode.title, "set protocol to {name: fedavg, client_model: none, ...}"
        elif prepared.scenario.coordinator.sees != "updates":
            found = f"coordinator.sees: {prepared.scenario.coordinator.sees}"
            remedy = "set it to updates, because single updates are revised"
        elif rule is None or not rule.rule.from_sums:
            found = f"the rule {rule.name if rule else None}"
            remedy = "set protocol.merge to samples, mean, sum or touched-mean"
        elif prepared.server is not None:
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
