"""The evaluation of a run: accounted policies, upload budget, utility evaluator, and coordinator tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gossiprec.defences import Policy
from gossiprec.emulation.assembly.executor_selection import thread_count
from gossiprec.emulation.assembly.poisoners import attacked_items
from gossiprec.emulation.assembly.prepare import PreparedRun
from gossiprec.emulation.scoring.privacy import UserUploadBudget
from gossiprec.emulation.scoring.utility import UtilityEvaluator, select_target_items

if TYPE_CHECKING:
    from gossiprec.emulation.assembly.prepare import PreparedRun


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
    if recommender is None or not prepared.told_width or recommender.told_epsilon is None:
        return None
    return UserUploadBudget(recommender.told_epsilon, prepared.split.n_users)


def tells_openly(prepared: PreparedRun) -> bool:
    """Return whether clients send values about their users that no epsilon covers."""
    return bool(prepared.told_width) and user_upload_budget(prepared) is None


def make_utility_evaluator(prepared: PreparedRun, *, beside: bool = True) -> UtilityEvaluator:
    """Return the evaluator of recommendations; `beside` adds baseline orders, unless other shards measure them."""
    scenario, split, evaluate = prepared.scenario, prepared.split, prepared.scenario.evaluate
    attacked = attacked_items(prepared.attackers)
    targets = attacked if evaluate.targets == "attacked" else select_target_items(evaluate.targets, split)
    return UtilityEvaluator(
        split, evaluate.metrics, prepared.executor, scenario.seed, targets, evaluate.beside if beside else (),
        evaluate.mask, thread_count(scenario), attacked=attacked, keep_users=evaluate.activity_groups is not None,
    )  # fmt: skip


def coordinator_tables(prepared: PreparedRun) -> dict[str, npt.NDArray[Any]]:
    """Return the coordinator's items and shared weights by the names of their tables.

    Returns
    -------
    dict of str to ndarray
        ``items``, shape (n_items, width); each shared block in its own shape; ``popularity``, shape (n_items,):
        training interactions of each item.
    """
    store, layout, n_items = prepared.executor.store, prepared.layout, prepared.split.n_items
    coordinator = np.array([prepared.protocol.n_users], np.int64)
    row = store.models(prepared.planner.current, coordinator)[0].astype(np.float32)
    found = layout.version_tables(row[layout.items.start : layout.shared.stop])
    return {**found, "popularity": np.bincount(prepared.split.train.values, minlength=n_items)}
