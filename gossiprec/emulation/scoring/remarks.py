"""Remarks on the utility of a run: what it is not better than, and where a metric says nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gossiprec.base.ragged import Ragged
from gossiprec.measures.direction import better_sign, compare_values
from gossiprec.measures.ranking import CUTOFF, PADDING

if TYPE_CHECKING:
    from gossiprec.emulation.assembly.prepare import PreparedRun
    from gossiprec.emulation.scoring.utility import UtilityEvaluator


@dataclass(frozen=True)
class Tie:
    """Users for whom all scores are equal at the last report.

    Attributes
    ----------
    n_users : int
    node : int
        One of them.
    updates : int
        Local updates of its model, or of the coordinator's if all share a model.
    time : float
        Of the report.
    """

    n_users: int
    node: int
    updates: int
    time: float


@dataclass(frozen=True)
class Remarks:
    """The remarks on the utility of a run.

    Attributes
    ----------
    n_users : int
    utility : mapping of str to float
        Metrics at the last report.
    baselines : mapping of str to mapping of str to float
        Metrics of test items for each baseline order of the items, by its name.
    few_candidates : mapping of str to int
        The users for whom a metric is uninformative, by metric: K reaches the number of candidates.
    few_to_judge : int
        Nodes that score models by :data:`.CUTOFF` candidates or fewer.
    tie : Tie or None
        None if no user has equal scores for all items.
    """

    n_users: int
    utility: Mapping[str, float]
    baselines: Mapping[str, Mapping[str, float]]
    few_candidates: Mapping[str, int]
    few_to_judge: int = 0
    tie: Tie | None = None

    @property
    def metrics_not_above_baselines(self) -> dict[str, list[str]]:
        """The metrics that are not better than the same metric of a baseline order, by the name of the order."""
        return {
            order: [
                name
                for name, value in found.items()
                if compare_values(name, self.utility.get(name, math.nan), value) <= 0
            ]
            for order, found in self.baselines.items()
        }

    def summary(self) -> dict[str, object]:
        """Return the fields of the summary."""
        return {
            "baselines": {order: dict(found) for order, found in self.baselines.items()},
            "not_above": self.metrics_not_above_baselines,
            "few_candidates": dict(self.few_candidates),
            "tied_users": self.tie.n_users if self.tie else 0,
        }

    def notes(self) -> Iterator[str]:
        """Yield a sentence for each remark."""
        for order, names in self.metrics_not_above_baselines.items():
            found = self.baselines[order]
            for sign, words, why in ((1, "above", ""), (-1, "better than", " (lower is better)")):
                own = [name for name in names if better_sign(name) == sign]
                pairs = (f"{n} {100 * self.utility[n]:.1f} % against {100 * found[n]:.1f} %" for n in own)
                if own:
                    yield f"utility is not {words} {order}: {', '.join(pairs)}{why}"
        for name, count in self.few_candidates.items():
            yield (
                f"{name} is meaningless for {count:,} of {self.n_users:,} users, because K reaches the "
                "number of their candidates; lower K"
            )
        if self.few_to_judge:
            yield (
                f"{self.few_to_judge:,} nodes score received models on {CUTOFF} candidates or fewer, so "
                f"every model has a hit among the first {CUTOFF}"
            )
        if self.tie:
            yield (
                f"all scores of {self.tie.n_users:,} of {self.n_users:,} users are equal, including node "
                f"{self.tie.node} (time {self.tie.time:.6g}, after {self.tie.updates:,} local updates): such "
                "a model cannot rank items; if it was trained, its last layer may have no active unit"
            )


def count_nodes_with_few_candidates(candidates: Ragged | None) -> int:
    """Return the number of nodes that score models by :data:`.CUTOFF` candidates or fewer."""
    if candidates is None:
        return 0
    few = np.count_nonzero(candidates.values != PADDING, axis=1) - 1 <= CUTOFF
    return len(np.unique(candidates.row_of_each_value[few]))


def make_remarks(
    prepared: PreparedRun, evaluator: UtilityEvaluator, utility: Mapping[str, float], time: float
) -> Remarks:
    """Return the remarks on the utility at the last report, at a virtual time."""
    components, tied, tie = prepared.components, evaluator.users_with_tied_scores, None
    if len(tied):
        node = int(tied[0])
        trained = components.mode.trained_node(node, components.protocol.n_users)
        tie = Tie(len(tied), node, int(prepared.planner.update_counts[trained]), time)
    few = evaluator.count_users_with_few_candidates()
    judging = count_nodes_with_few_candidates(prepared.executor.work.candidates)
    return Remarks(components.split.n_users, utility, evaluator.baseline_metrics(), few, judging, tie)
