"""The privacy budget that nodes have spent: what is accounted, events for the log, and a section of the summary."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from gossiprec.base.arrays import F64, I64
from gossiprec.defences import Policy, PrivacySpent
from gossiprec.emulation.assembly.prepare import PreparedRun
from gossiprec.emulation.run.run_part import RUN_PARTS, ReportInProgress, RunContext, RunPart
from gossiprec.runs.reader import Columns


def spend_on_uploads(epsilon: float, n_users: int, updates: I64) -> PrivacySpent:
    """Return the budget of the user rows that clients upload in addition to updates; epsilons add up.

    A row is uploaded before a client trains, so it is spent whatever happens to the update.

    Parameters
    ----------
    epsilon : float
        Of one row.
    n_users : int
    updates : ndarray of int64, shape (n_nodes,)
        Local updates of each node.
    """
    nodes = np.arange(n_users)
    spent = epsilon * updates[nodes].astype(np.float64)
    return PrivacySpent(nodes, spent, np.full(n_users, 1.0 / epsilon), delta=0.0)


@RUN_PARTS.register("ledger")
class PrivacyLedger(RunPart):
    """The record of all policies that account for privacy.

    Parameters
    ----------
    policies : sequence of Policy
        Policies that may account by updates and pushes.
    n_nodes : int
    count_rewritten : callable
        Returns the numbers that each node's messages held so far, of those that policies rewrite, given its pushes.
    by_coordinates : sequence of Policy
        Policies that may account number by number.
    reveals_items : bool
        Whether messages show which items they concern, which accounting number by number does not cover.
    uploads : callable, optional
        Returns the budget of uploaded user rows, given the local updates of each node; the log adds it to
        the budget of policies.
    revealed : mapping of str to bool, optional
        What else messages show without noise, by its key in the summary: ``choices_in_the_open``, receivers and merge
        weights that depend on items of a node, and ``told_in_the_open``, values about users that no epsilon covers.
    """

    checkpointed = ("logged", "updates", "pushes", "coordinates")

    def __init__(
        self,
        policies: Sequence[Policy],
        n_nodes: int,
        count_rewritten: Callable[[I64], I64],
        by_coordinates: Sequence[Policy] = (),
        *,
        reveals_items: bool = False,
        uploads: Callable[[I64], PrivacySpent] | None = None,
        revealed: Mapping[str, bool] | None = None,
    ) -> None:
        self._policies, self._count_rewritten = policies, count_rewritten
        self._by_coordinates = by_coordinates
        self._uploads = uploads
        self._reveals_items = reveals_items
        self._revealed = revealed or {}
        self._logged = np.zeros(n_nodes)
        self._updates = self._pushes = self._coordinates = np.zeros(n_nodes, np.int64)

    @classmethod
    def make(cls, run: RunContext) -> PrivacyLedger:
        """Return the ledger of a run's policies and of the user rows that its clients upload."""
        prepared = run.prepared
        recommender, uploads, has_uploads = (
            prepared.components.coordination.recommender,
            None,
            bool(prepared.components.user_upload_width),
        )
        if recommender is not None and has_uploads and recommender.user_upload_epsilon is not None:
            uploads = partial(
                spend_on_uploads, recommender.user_upload_epsilon, prepared.components.split.n_users
            )
        return cls(
            accounted_policies(prepared),
            prepared.components.protocol.n_nodes,
            run.prepared.seams.sizes.count_rewritten_values,
            prepared.components.policies,
            reveals_items=prepared.components.mode.reveals_items,
            uploads=uploads,
            revealed={
                "choices_in_the_open": prepared.components.protocol.choices_follow_data,
                "told_in_the_open": has_uploads and uploads is None,
            },
        )

    def rows(self, report: ReportInProgress) -> Iterator[tuple[str, Columns]]:
        """Yield the privacy budget of the nodes that have spent more since the last report, nodes ascending."""
        nodes, epsilon = self.newly_spent(report.updates, report.pushes)
        columns = {
            "time": np.full(len(nodes), report.time),
            "node": nodes.astype(np.int32),
            "epsilon": epsilon,
        }
        yield "privacy", columns

    def newly_spent(self, updates: I64, pushes: I64) -> tuple[I64, F64]:
        """Return the nodes that have spent more since the last call, ascending, and the epsilon of each so far."""
        self._updates, self._pushes = updates, pushes
        self._coordinates = self._count_rewritten(pushes).copy()
        epsilon = np.zeros_like(self._logged)
        for spent in self._spent():
            epsilon[spent.nodes] = spent.epsilon
        if self._uploads is not None:
            rows = self._uploads(updates)
            epsilon[rows.nodes] += rows.epsilon
        changed = np.flatnonzero(epsilon != self._logged)
        self._logged = epsilon
        return changed, epsilon[changed]

    def summary(self) -> Mapping[str, Any]:
        """Return the run's privacy figures as of the last call, None if no policy accounts for privacy."""
        return {"privacy": self._figures()}

    def _figures(self) -> dict[str, Any] | None:
        spent = self._spent()
        uploads = None if self._uploads is None else _figures([self._uploads(self._updates)])
        if not spent:
            return None if uploads is None else {**uploads, "updates_in_the_open": True}
        return {
            **_figures(spent),
            **self._of_coordinates(spent),
            **({"told_rows": uploads} if uploads else {}),
            **{name: True for name, revealed in self._revealed.items() if revealed},
        }

    def _of_coordinates(self, spent: Sequence[PrivacySpent]) -> dict[str, Any]:
        """Return the additional figures of accounting number by number."""
        composed = [privacy for privacy in spent if privacy.epsilon_per_coordinate is not None]
        if not composed:
            return {}
        nodes = np.concatenate([privacy.nodes for privacy in composed])
        return {
            "epsilon_per_coordinate": max(privacy.epsilon_per_coordinate or 0.0 for privacy in composed),
            "coordinates_max": int(self._coordinates[nodes].max()),
            **({"items_in_the_open": True} if self._reveals_items else {}),
        }

    def _spent(self) -> list[PrivacySpent]:
        whole = [policy.privacy_spent(self._updates.copy(), self._pushes.copy()) for policy in self._policies]
        composed = [
            policy.privacy_spent_by_coordinate(self._coordinates.copy()) for policy in self._by_coordinates
        ]
        # the log holds the budget of whole messages, if both exist
        return [privacy for privacy in (*composed, *whole) if privacy is not None]


def _figures(spent: Sequence[PrivacySpent]) -> dict[str, Any]:
    epsilon = np.concatenate([privacy.epsilon for privacy in spent])
    noise = np.concatenate([privacy.noise_multiplier for privacy in spent])
    return {
        "nodes": len(epsilon),
        "delta": max(privacy.delta for privacy in spent),
        "epsilon_max": epsilon.max(),
        "epsilon_mean": epsilon.mean(),
        "noise_multiplier_min": noise.min(),
        "noise_multiplier_max": noise.max(),
    }


def accounted_policies(prepared: PreparedRun) -> list[Policy]:
    """Return the policies that account for privacy by the training and the pushes of nodes.

    If clients send updates, rewriting does not hide which items were touched: no budget covers whole messages, only
    the numbers in them.
    """
    if not prepared.components.mode.reveals_items:
        return prepared.components.policies
    transforms = [policy.transform() for policy in prepared.components.policies]
    return [
        policy
        for policy, transform in zip(prepared.components.policies, transforms, strict=True)
        if transform is None or not transform.rewrites
    ]
