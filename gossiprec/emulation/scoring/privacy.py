"""The privacy budget that nodes have spent: what is accounted, events for the log, and a section of the summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gossiprec.base.arrays import F64, I64
from gossiprec.defences import Policy, PrivacySpent
from gossiprec.runs.checkpoint_state import Stateful

if TYPE_CHECKING:
    from gossiprec.emulation.assembly.prepare import PreparedRun


@dataclass(frozen=True)
class UserUploadBudget:
    """The budget of the user rows that clients upload in addition to updates; epsilons add up.

    A row is uploaded before a client trains, so it is spent whatever happens to the update.

    Attributes
    ----------
    epsilon : float
        Of one row.
    n_users : int
    """

    epsilon: float
    n_users: int

    def spent(self, updates: I64) -> PrivacySpent:
        """Return the epsilon of each user, given its number of local updates."""
        nodes = np.arange(self.n_users)
        spent = self.epsilon * updates[nodes].astype(np.float64)
        return PrivacySpent(nodes, spent, np.full(self.n_users, 1.0 / self.epsilon), delta=0.0)


class PrivacyLedger(Stateful):
    """The record of all policies that account for privacy.

    Parameters
    ----------
    policies : sequence of Policy
        Policies that may account by updates and pushes.
    n_nodes : int
    by_coordinates : sequence of Policy
        Policies that may account number by number.
    items_in_the_open : bool
        Whether messages show which items they concern, which accounting number by number does not cover.
    told : ToldRows, optional
        The budget of uploaded user rows; the log adds it to the budget of policies.
    choices_in_the_open : bool
        Whether receivers and merge weights depend on items of a node, without noise.
    told_in_the_open : bool
        Whether clients send values about their users, besides updates, that no epsilon covers.
    """

    checkpointed = ("told", "updates", "pushes", "coordinates")

    def __init__(
        self,
        policies: Sequence[Policy],
        n_nodes: int,
        by_coordinates: Sequence[Policy] = (),
        *,
        items_in_the_open: bool = False,
        told: UserUploadBudget | None = None,
        choices_in_the_open: bool = False,
        told_in_the_open: bool = False,
    ) -> None:
        self._policies = policies
        self._by_coordinates = by_coordinates
        self._items_in_the_open = items_in_the_open
        self._told_rows = told
        self._choices_in_the_open = choices_in_the_open
        self._told_in_the_open = told_in_the_open
        self._told = np.zeros(n_nodes)
        self._updates = self._pushes = self._coordinates = np.zeros(n_nodes, np.int64)

    def changes(self, updates: I64, pushes: I64, coordinates: I64) -> tuple[I64, F64]:
        """Return the nodes that have spent more since the last call, ascending, and the epsilon of each so far."""
        self._updates, self._pushes, self._coordinates = updates, pushes, coordinates.copy()
        now = np.zeros_like(self._told)
        for privacy in self._spent():
            now[privacy.nodes] = privacy.epsilon
        if self._told_rows is not None:
            rows = self._told_rows.spent(updates)
            now[rows.nodes] += rows.epsilon
        changed = np.flatnonzero(now != self._told)
        self._told = now
        return changed, now[changed]

    def summary(self) -> dict[str, Any] | None:
        """Return the run's privacy figures as of the last call, or None if no policy accounts for privacy."""
        spent, told = self._spent(), self._of_told_rows()
        if not spent:
            return None if told is None else {**told, "updates_in_the_open": True}
        epsilon = np.concatenate([privacy.epsilon for privacy in spent])
        noise = np.concatenate([privacy.noise_multiplier for privacy in spent])
        return {
            "nodes": len(epsilon),
            "delta": max(privacy.delta for privacy in spent),
            "epsilon_max": epsilon.max(),
            "epsilon_mean": epsilon.mean(),
            "noise_multiplier_min": noise.min(),
            "noise_multiplier_max": noise.max(),
            **self._of_coordinates(spent),
            **({"told_rows": told} if told else {}),
            **({"choices_in_the_open": True} if self._choices_in_the_open else {}),
            **({"told_in_the_open": True} if self._told_in_the_open else {}),
        }

    def _of_told_rows(self) -> dict[str, Any] | None:
        """Return the privacy figures of uploaded user rows."""
        if self._told_rows is None:
            return None
        spent = self._told_rows.spent(self._updates)
        return {
            "nodes": len(spent.nodes),
            "delta": 0.0,
            "epsilon_max": spent.epsilon.max(),
            "epsilon_mean": spent.epsilon.mean(),
            "noise_multiplier_min": spent.noise_multiplier.min(),
            "noise_multiplier_max": spent.noise_multiplier.max(),
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
            **({"items_in_the_open": True} if self._items_in_the_open else {}),
        }

    def _spent(self) -> list[PrivacySpent]:
        whole = [policy.privacy_spent(self._updates.copy(), self._pushes.copy()) for policy in self._policies]
        composed = [
            policy.privacy_spent_by_coordinate(self._coordinates.copy()) for policy in self._by_coordinates
        ]
        found = (*composed, *whole)  # the log holds the budget of whole messages, if both exist
        return [privacy for privacy in found if privacy is not None]


def accounted_policies(prepared: PreparedRun) -> list[Policy]:
    """Return the policies that account for privacy by the training and the pushes of nodes.

    If clients send updates, rewriting does not hide which items were touched: no budget covers whole messages, only
    the numbers in them.
    """
    if not prepared.mode.reveals_items:
        return prepared.policies
    transforms = [policy.transform() for policy in prepared.policies]
    return [
        policy
        for policy, transform in zip(prepared.policies, transforms, strict=True)
        if transform is None or not transform.rewrites
    ]


def user_upload_budget(prepared: PreparedRun) -> UserUploadBudget | None:
    """Return the budget of the user rows that clients upload, or None if they upload none or it is unknown."""
    recommender = prepared.recommender
    if recommender is None or not prepared.user_upload_width or recommender.user_upload_epsilon is None:
        return None
    return UserUploadBudget(recommender.user_upload_epsilon, prepared.split.n_users)


def tells_openly(prepared: PreparedRun) -> bool:
    """Return whether clients send values about their users that no epsilon covers."""
    return bool(prepared.user_upload_width) and user_upload_budget(prepared) is None
