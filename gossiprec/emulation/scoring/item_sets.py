"""Item sets that an attack has reconstructed, joined with the truth, next to guessing the most popular items."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gossiprec.adversaries.attacks import ItemSets
from gossiprec.adversaries.attacks.findings import Finding
from gossiprec.base.arrays import F64, I64, Bools
from gossiprec.base.errors import ScenarioError
from gossiprec.data.split import Transitions
from gossiprec.measures.ranking import mean_by_user, nanmean


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
    for measure, value in _rates(hits, popular, sizes, own):
        per_node = mean_by_user(found.victims, value)
        yield Finding(f"reconstruction_{measure}", found.labels, nanmean(value), per_node=per_node)
        if measure == "f1":
            yield Finding("reconstruction_exact", found.labels, nanmean((value == 1).astype(np.float64)))
    yield Finding("reconstruction_heard", found.labels, len(np.unique(found.victims)) / len(is_member))


def _rates(hits: F64, popular: F64, sizes: I64, own: I64) -> Iterator[tuple[str, F64]]:
    """Yield precision, recall and F1 per victim, and those of guesses of as many of what is most popular."""
    for name, right in (("", hits), ("popularity_", popular)):
        precision = np.divide(right, sizes, out=np.zeros(len(sizes)), where=sizes > 0)
        recall = np.divide(right, own, out=np.zeros(len(sizes)), where=own > 0)
        total = precision + recall
        f1 = np.divide(2 * precision * recall, total, out=np.zeros(len(sizes)), where=total > 0)
        yield from ((name + "precision", precision), (name + "recall", recall), (name + "f1", f1))


def move_set_findings(found: ItemSets, moves: Transitions, n_items: int) -> Iterator[Finding]:
    """Yield the results of reconstructed moves, as means over victims with moves.

    Parameters
    ----------
    found : ItemSets
        With :attr:`ItemSets.previous`.
    moves : Transitions
        The users' moves in training; those without a known item before, and to the same item, count for nothing.
    n_items : int
    """
    assert found.previous is not None
    users = np.repeat(np.arange(len(moves.items)), moves.items.sizes)
    known = (moves.previous >= 0) & (moves.previous != moves.items.values)
    pairs = moves.previous.astype(np.int64) * n_items + moves.items.values
    true, popularity = np.unique(np.unique(np.stack([users, pairs])[:, known], axis=1)[1], return_counts=True)
    sets = [
        np.unique(each)
        for each in np.split(
            pairs[known], np.cumsum(np.bincount(users[known], minlength=len(moves.items)))[:-1]
        )
    ]
    guessed = np.split(found.previous.astype(np.int64) * n_items + found.items, found.offsets[1:-1])
    victims, hits, popular, sizes, own, right = [], [], [], [], [], []
    for victim, guess in zip(found.victims.tolist(), guessed, strict=True):
        truth = sets[victim]
        if not len(truth):
            continue
        forward, backward = (
            np.isin(guess, truth),
            np.isin(guess % n_items * n_items + guess // n_items, truth),
        )
        one_way = forward != backward
        if one_way.any():
            right.append(forward[one_way].mean())
        victims.append(victim)
        hits.append(forward.sum())
        popular.append(_popular_hits(popularity, np.isin(true, truth), min(len(guess), len(true))))
        sizes.append(len(guess))
        own.append(len(truth))
    found_right, popular_right = np.array(hits, np.float64), np.array(popular, np.float64)
    for measure, value in _rates(
        found_right, popular_right, np.array(sizes, np.int64), np.array(own, np.int64)
    ):
        per_node = mean_by_user(np.array(victims, np.int64), value)
        yield Finding(f"moves_{measure}", found.labels, nanmean(value), per_node=per_node)
    yield Finding("moves_order", found.labels, nanmean(np.array(right, np.float64)))
    yield Finding("moves_heard", found.labels, len(np.unique(found.victims)) / len(moves.items))


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
    before = found.items[:0] if found.previous is None else found.previous
    named = (("victim", found.victims, n_users), ("item", found.items, n_items), ("item", before, n_items))
    for name, ids, end in named:
        wrong = ids[(ids < 0) | (ids >= end)]
        if len(wrong):
            raise ScenarioError(
                f"{subject}: item_sets() names {name} {wrong[0]}; expected 0 to {end - 1}; fix the attack"
            )
    sets = np.repeat(np.arange(len(found.victims)), np.diff(found.offsets)) * n_items + found.items
    if found.previous is not None:
        sets = sets * n_items + found.previous
    if len(np.unique(sets)) < len(sets):
        raise ScenarioError(
            f"{subject}: item_sets() names an item of a victim twice; expected each once; fix the attack"
        )
