"""Ground truth of the community detection attack: the users most similar to each user.

References
----------
"On the Resilience of Collaborative Learning-based Recommender Systems Against Community Detection Attack",
arXiv:2306.08929: the community of a user is the K others with the largest Jaccard similarity of item sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from gossiprec.base.arrays import F64, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.ragged import Ragged, row_entries

BLOCK_CELLS = 2_000_000
"""Similarities held at once: about 100 MB with the temporaries, for any number of users."""


@dataclass(frozen=True, eq=False)
class Communities(Ragged):
    """The K nearest users of some users, one community per row; users tied at the border are fractional members.

    If `c` users are nearer than the border and `g` users tie at it, each tied user is a member by ``(K - c) / g``:
    the probability that it is among the K nearest under random tie-breaking. Each community adds up to K.

    Attributes
    ----------
    offsets : ndarray of int64, shape (n + 1,)
    values : ndarray of int32, shape (offsets[-1],)
        User ids, ascending per community. At least one per community.
    share : ndarray of float64, shape (offsets[-1],)
        Membership of each listed user, 0 to 1.
    rest : ndarray of float64, shape (n,)
        Membership of each user that the community does not list: 0, or a fraction if most users tie at its border.
    k : int
    n_users : int
    """

    share: F64
    rest: F64
    k: int
    n_users: int

    @property
    def tied_fractions(self) -> F64:
        """Share of each community that depends on ties, shape (n,)."""
        certain = np.add.reduceat(self.share == 1.0, self.offsets[:-1], dtype=np.float64)
        return np.asarray(1.0 - certain / self.k)

    def select(self, rows: I64) -> Communities:
        """Return some of the communities."""
        entries, _ = row_entries(self.offsets, rows)
        sizes = self.sizes[rows]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return Communities(
            offsets, self.values[entries], self.share[entries], self.rest[rows], self.k, self.n_users
        )

    def select_range(self, low: int, high: int) -> Communities:
        """Return the communities `low` to ``high - 1``, without a copy."""
        begin, end = self.offsets[low], self.offsets[high]
        return Communities(
            self.offsets[low : high + 1] - begin, self.values[begin:end], self.share[begin:end],
            self.rest[low:high], self.k, self.n_users,
        )  # fmt: skip

    def membership_matrix(self) -> F64:
        """Return the membership of every user in every community, shape (n, n_users)."""
        found = np.repeat(self.rest[:, None], self.n_users, axis=1)
        found[self.row_of_each_value, self.values] = self.share
        return found

    @classmethod
    def joined(cls, parts: Sequence[Communities]) -> Communities:
        """Return the communities of several parts (at least one) as one object."""
        sizes = np.concatenate([part.sizes for part in parts])
        values, share, rest = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "share", "rest")
        )
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return cls(offsets, values, share, rest, parts[0].k, parts[0].n_users)

    @classmethod
    def nearest(cls, similarity: F64, k: int) -> Communities:
        """Return the `k` users of the largest similarity in each row.

        Parameters
        ----------
        similarity : ndarray of float64, shape (n, n_users)
            The value for the user itself must be below all others of its row.
        k : int
            1 to ``n_users - 1``.
        """
        n_users = similarity.shape[1]
        border = -np.partition(-similarity, k - 1, axis=1)[:, k - 1, None]
        nearer, tied = similarity > border, similarity == border
        n_nearer, n_tied = np.count_nonzero(nearer, axis=1), np.count_nonzero(tied, axis=1)
        fraction = np.minimum((k - n_nearer) / n_tied, 1.0)
        spread = (fraction < 1.0) & (2 * n_tied > n_users)  # then the other users are listed, which are fewer
        listed = np.where(spread[:, None], ~tied, nearer | tied)
        rows, ids = np.nonzero(listed)
        share = np.where(nearer[rows, ids], 1.0, np.where(tied[rows, ids], fraction[rows], 0.0))
        offsets = np.concatenate([[0], np.cumsum(np.count_nonzero(listed, axis=1))])
        return cls(offsets, ids.astype(np.int32), share, np.where(spread, fraction, 0.0), k, n_users)


def jaccard_communities(sets: Ragged, users: I64 | None = None, *, n_items: int, k: int) -> Communities:
    """Return the `k` other users with the largest Jaccard similarity to each user.

    Parameters
    ----------
    sets : Ragged of int
        The item ids of each user; a repeated item counts once.
    users : ndarray of int64, shape (n,), optional
        The users at the centres of the communities; all users if omitted.
    n_items : int
        Size of the id space.
    k : int
        Community size, 1 <= k <= n_users - 1.

    Raises
    ------
    ScenarioError
        If there are fewer than `k` other users.

    Notes
    -----
    Quotients of small integers are correctly rounded, so equal similarities are equal numbers and ties are exact. The
    published code breaks ties by id; here ties carry no information: see :class:`Communities`.
    """
    return jaccard_communities_by_size(sets, users, n_items=n_items, sizes=(k,))[k]


def jaccard_communities_by_size(
    sets: Ragged, users: I64 | None = None, *, n_items: int, sizes: Iterable[int]
) -> dict[int, Communities]:
    """Return the communities of several sizes; see :func:`jaccard_communities`."""
    n_users = len(sets)
    parts: dict[int, list[Communities]] = {k: [] for k in sizes}
    for k in parts:
        if not 1 <= k < n_users:
            raise ScenarioError(
                f"community_size is {k}, but each of the {n_users} users has only {max(n_users - 1, 0)} "
                f"other users; set observers.community_size between 1 and {max(n_users - 1, 1)}"
            )
    for block in jaccard_blocks(sets, np.arange(n_users) if users is None else users, n_items=n_items):
        for k, found in parts.items():
            found.append(Communities.nearest(block, k))
    no_users = np.zeros((0, n_users))
    return {k: Communities.joined(found or [Communities.nearest(no_users, k)]) for k, found in parts.items()}


def jaccard_blocks(sets: Ragged, users: I64, *, n_items: int) -> Iterator[F64]:
    """Yield the Jaccard similarities of some users to all users, in blocks of users; -1 to themselves."""
    n_users = len(sets)
    ones = np.ones(sets.values.size, dtype=np.float32)  # counts up to 2**24 are exact
    owns = sparse.csr_matrix((ones, sets.values, sets.offsets), shape=(n_users, n_items), copy=True)
    owns.sum_duplicates()
    owns.data[:] = 1.0
    sizes = np.diff(owns.indptr)
    owned_by = owns.T.tocsr()
    height = max(1, BLOCK_CELLS // n_users)
    for start in range(0, len(users), height):
        some = users[start : start + height]
        common = (owns[some] @ owned_by).toarray().astype(np.float64)
        union = sizes[some, None] + sizes[None, :] - common
        similarity = np.divide(common, union, out=common, where=union > 0)
        similarity[np.arange(len(some)), some] = -1.0
        yield similarity
