"""Reconstructed item sets and moves, checked and joined with the truth, which no attack sees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gossiprec.adversaries.attacks import Attack, ItemSets
from gossiprec.adversaries.attacks.findings import Finding
from gossiprec.base.arrays import F64, I64, Bools
from gossiprec.data.training_data import Transitions
from gossiprec.emulation.scoring.judges import JUDGES, Judge, Judged
from gossiprec.emulation.scoring.result_checks import check_ids, check_offsets, check_once, refuse_own
from gossiprec.measures.ranking import mean_by_user, nanmean


@JUDGES.register("item-sets")
class ItemSetJudge(Judge):
    """The judge of reconstructed sets of items, and of moves; groups of victims are not judged apart."""

    def check(self, subject: str, found: ItemSets, attack: Attack) -> None:
        """Refuse sets that cannot be joined with the truth."""
        split = self._truth.split
        pools = attack.pools or [*attack.nodes[:, None]]
        check_item_sets(subject, found, (split.n_users, split.n_items), pools)

    def judge(self, found: ItemSets, round: int) -> Judged:
        """Yield the results of sets, or of moves."""
        split = self._truth.split
        if found.previous is None:
            findings = item_set_findings(found, self._truth.is_member)
        else:
            assert split.check_ins is not None, "only models of moves have moves"
            findings = move_set_findings(found, split.check_ins.train, split.n_items)
        yield from ((finding, True) for finding in findings)


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
    is_hit, own = is_member[users, found.items], is_member[found.victims]
    places = np.repeat(np.arange(len(sizes)), sizes)
    hits = np.bincount(places[is_hit], minlength=len(sizes)).astype(np.float64)
    counts = is_member.sum(axis=0)
    pairs = zip(own, sizes, strict=True)
    popular = np.array([_popular_hits(counts - items, items, size) for items, size in pairs])
    for measure, value in _set_rates(hits, popular, sizes, own.sum(axis=1)):
        per_node = mean_by_user(found.victims, value)
        yield Finding(f"reconstruction_{measure}", found.labels, nanmean(value), per_node=per_node)
        if measure == "f1":
            yield Finding("reconstruction_exact", found.labels, nanmean((value == 1).astype(np.float64)))
    yield Finding("reconstruction_heard", found.labels, len(np.unique(found.victims)) / len(is_member))


def _set_rates(hits: F64, popular: F64, sizes: I64 | F64, own: I64 | F64) -> Iterator[tuple[str, F64]]:
    """Yield precision, recall and F1 per victim, and of guesses of as many of those that most other users have."""
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
    ends = np.cumsum(np.bincount(users[known], minlength=len(moves.items)))[:-1]
    sets = [np.unique(each) for each in np.split(pairs[known], ends)]
    guessed = np.split(found.previous.astype(np.int64) * n_items + found.items, found.offsets[1:-1])
    rows, right = [], []
    for victim, guess in zip(found.victims.tolist(), guessed, strict=True):
        truth = sets[victim]
        if not len(truth):
            continue
        forward = np.isin(guess, truth)
        backward = np.isin(guess % n_items * n_items + guess // n_items, truth)
        one_way = forward != backward
        if one_way.any():
            right.append(forward[one_way].mean())
        is_own = np.isin(true, truth)
        popular = _popular_hits(popularity - is_own, is_own, len(guess), n_items * (n_items - 1))
        rows.append((victim, forward.sum(), popular, len(guess), len(truth)))
    victims, *columns = np.array(rows, np.float64).reshape(-1, 5).T
    for measure, value in _set_rates(*columns):
        per_node = mean_by_user(victims.astype(np.int64), value)
        yield Finding(f"moves_{measure}", found.labels, nanmean(value), per_node=per_node)
    yield Finding("moves_order", found.labels, nanmean(np.array(right, np.float64)))
    yield Finding("moves_heard", found.labels, len(np.unique(found.victims)) / len(moves.items))


def _popular_hits(others: I64, own: Bools, size: int, n_all: int | None = None) -> float:
    """Return how many of a user's items are among those of most other users, in expectation over orders of ties.

    Parameters
    ----------
    others : ndarray of int64, shape (n,)
        Number of other users that have each item.
    own : ndarray of bool, shape (n,)
    size : int
        Number of guessed items.
    n_all : int, optional
        Number of all items; no user has those after the first n.
    """
    if not size:
        return 0.0
    n, n_all = len(others), len(others) if n_all is None else n_all
    border = np.partition(others, n - size)[n - size] if size <= n else 0
    above, tied = others > border, others == border
    n_tied = np.count_nonzero(tied) + (0 if border else n_all - n)
    open_places = size - np.count_nonzero(above)
    return float(np.count_nonzero(own & above) + open_places * np.count_nonzero(own & tied) / n_tied)


def check_item_sets(subject: str, found: ItemSets, shape: tuple[int, ...], pools: Sequence[I64]) -> None:
    """Refuse sets that cannot be joined with the truth.

    Parameters
    ----------
    subject : str
        The section and the name of the attack.
    found : ItemSets
    shape : (n_users, n_items)
    pools : sequence of ndarrays of int64
        The attack's own nodes, of which those of a pool attack together. With several, a node of one may be the victim
        of another.

    Raises
    ------
    PluginError
    """
    n_users, n_items = shape
    known = np.intersect1d(found.victims, pools[0]) if len(pools) == 1 else found.victims[:0]
    refuse_own(subject, known, "item_sets()")
    check_offsets(f"{subject}: item_sets() has", found.offsets, len(found.victims), len(found.items))
    names = f"{subject}: item_sets() names"
    before = found.items[:0] if found.previous is None else found.previous
    check_ids(names, "victim", found.victims, n_users)
    for ids in (found.items, before):
        check_ids(names, "item", ids, n_items)
    sets = np.repeat(np.arange(len(found.victims)), np.diff(found.offsets)) * n_items + found.items
    check_once(names, "an item of a victim", sets if found.previous is None else sets * n_items + before)
