"""Item sets that an attack has reconstructed, joined with the truth, next to guessing the most popular items."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gossiprec.adversaries.attacks import ItemSets
from gossiprec.adversaries.attacks.findings import Finding
from gossiprec.base.arrays import I64, Bools
from gossiprec.base.errors import ScenarioError
from gossiprec.measures.ranking import nanmean


def item_set_findings(found: ItemSets, is_member: Bools) -> Iterator[Finding]:
    """Yield the results of reconstructed sets, as means over victims.

    Parameters
    ----------
    found : ItemSets
    is_member : ndarray of bool, shape (n_users, n_items)
        Whether each user has trained on each item.
    """
    sizes = np.diff(found.offsets)
    users = np.repeat(found.victims, sizes)
    hits = np.bincount(
        np.repeat(np.arange(len(sizes)), sizes)[is_member[users, found.items]], minlength=len(sizes)
    ).astype(np.float64)
    own = is_member[found.victims].sum(axis=1)
    counts = is_member.sum(axis=0)
    popular = np.array(
        [
            _popular_hits(counts, is_member[user], size)
            for user, size in zip(found.victims, sizes, strict=True)
        ]
    )
    for name, right in (("", hits), ("popularity_", popular)):
        precision = np.divide(right, sizes, out=np.zeros(len(sizes)), where=sizes > 0)
        recall = np.divide(right, own, out=np.zeros(len(sizes)), where=own > 0)
        total = precision + recall
        f1 = np.divide(2 * precision * recall, total, out=np.zeros(len(sizes)), where=total > 0)
        for measure, values in (("precision", precision), ("recall", recall), ("f1", f1)):
            yield Finding(f"reconstruction_{name}{measure}", found.labels, nanmean(values))
        if not name:
            yield Finding("reconstruction_exact", found.labels, nanmean((f1 == 1).astype(np.float64)))
    yield Finding("reconstruction_heard", found.labels, len(np.unique(found.victims)) / len(is_member))


def _popular_hits(counts: I64, own: Bools, size: int) -> float:
    """Return how many of a user's items are among the most popular ones, in expectation over orders of ties."""
    if not size:
        return 0.0
    border = np.partition(counts, len(counts) - size)[len(counts) - size]
    above, tied = counts > border, counts == border
    return float(np.count_nonzero(own & above) + (size - np.count_nonzero(above)) * own[tied].mean())


def check_item_sets(subject: str, found: ItemSets, shape: tuple[int, ...]) -> None:
    """Refuse sets that cannot be joined with the truth.

    Parameters
    ----------
    subject : str
        The section and the name of the attack.
    found : ItemSets
    shape : (n_users, n_items)

    Raises
    ------
    ScenarioError
    """
    n_users, n_items = shape
    whole = len(found.offsets) == len(found.victims) + 1 and (np.diff(found.offsets) >= 0).all()
    if not whole or found.offsets[0] != 0 or found.offsets[-1] != len(found.items):
        raise ScenarioError(
            f"{subject}: item_sets() has {len(found.victims)} victims, {len(found.offsets)} offsets and "
            f"{len(found.items)} items; expected ascending offsets from 0 to the number of items; fix the attack"
        )
    for name, ids, end in (("victim", found.victims, n_users), ("item", found.items, n_items)):
        wrong = ids[(ids < 0) | (ids >= end)]
        if len(wrong):
            raise ScenarioError(
                f"{subject}: item_sets() names {name} {wrong[0]}; expected 0 to {end - 1}; fix the attack"
            )
    sets = np.repeat(np.arange(len(found.victims)), np.diff(found.offsets)) * n_items + found.items
    if len(np.unique(sets)) < len(sets):
        raise ScenarioError(
            f"{subject}: item_sets() names an item of a victim twice; expected each once; fix the attack"
        )
