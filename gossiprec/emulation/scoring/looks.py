"""What metrics look at, seen in several places: each has looked at the models of some users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gossiprec.arrays import I32, I64
from gossiprec.emulation.scoring.whole_lists import WholeLists
from gossiprec.measures.base import NOWHERE, RelevantRanks, TargetRanks, TopItems


@dataclass(frozen=True)
class Lists:
    """What one kind of metric sees of the lists of some users.

    Attributes
    ----------
    kind : type
        :class:`RelevantRanks` or another.
    users : ndarray of int64, shape (n_lists,)
    seen : ndarray of int32, shape (n_lists, width)
        Ranks or items.
    """

    kind: type[Any]
    users: I64
    seen: I32

    def as_seen(self, blocks: Sequence[I64], n_items: int) -> list[Any]:
        """Return what metrics take: of relevant items block by block of users, as wide as a block's longest list."""
        if self.kind is TargetRanks:
            return [TargetRanks(self.seen)]
        if self.kind is TopItems:
            return [TopItems(self.seen, n_items)]
        found = []
        for users in blocks:
            some = self.seen[np.isin(self.users, users)]
            width = int((some != NOWHERE).sum(axis=1).max(initial=0))
            found.append(RelevantRanks(some[:, :width]))
        return found


@dataclass(frozen=True)
class Look:
    """What metrics look at of the models of some users.

    Attributes
    ----------
    lists : list of Lists
        One for each kind.
    tests : ndarray of int64, shape (n,)
        Places of their test items among all.
    ranks : ndarray of int32, shape (n,)
        Of these test items, each among its candidates.
    tied : ndarray of int64
        Those of the users of whom all scores are equal.
    """

    lists: list[Lists]
    tests: I64
    ranks: I32
    tied: I64


def lists_of(whole: WholeLists, users: I64, seen: Mapping[type[Any], list[Any]]) -> list[Lists]:
    """Return what was seen of the lists of some users, and whose each is."""
    found = []
    for kind, [part] in ((kind, parts) for kind, parts in seen.items() if parts):
        if isinstance(part, RelevantRanks):
            found.append(Lists(kind, users[whole.has_relevant(users, kind)], part.ranks))
        else:
            found.append(Lists(kind, users, part.ranks if isinstance(part, TargetRanks) else part.items))
    return found


def joined_lists(parts: Sequence[Lists]) -> list[Lists]:
    """Return the lists of each kind as one, users ascending; short rows end with nothing."""
    joined = []
    for kind in {part.kind: None for part in parts}:
        some = [part for part in parts if part.kind is kind]
        users = np.concatenate([part.users for part in some])
        seen = np.full((len(users), max(part.seen.shape[1] for part in some)), NOWHERE, np.int32)
        low = 0
        for part in some:
            seen[low : low + len(part.users), : part.seen.shape[1]] = part.seen
            low += len(part.users)
        order = np.argsort(users, kind="stable")
        joined.append(Lists(kind, users[order], seen[order]))
    return joined
