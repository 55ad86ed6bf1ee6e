"""The judges of results: each kind of result names the one that joins it with the truth, found when it is needed."""

from __future__ import annotations

import functools
from abc import ABC
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gossiprec.adversaries.attacks import Attack
from gossiprec.adversaries.attacks.findings import Finding
from gossiprec.base.arrays import F32, F64, I64, Bools
from gossiprec.base.registry import Registry
from gossiprec.data.split import Split
from gossiprec.emulation.scoring.ranking_scores import GROUP, RankingScores
from gossiprec.models.feeds.base import positives_bitset
from gossiprec.runs.checkpoint_state import Stateful

if TYPE_CHECKING:
    from gossiprec.emulation.assembly.user_groups import UserGroup

Judged = Iterator[tuple[Finding, bool]]
"""Findings, and whether the summary keeps each of them for now."""


@dataclass(frozen=True)
class Truth:
    """What a run knows and no attack sees.

    Attributes
    ----------
    split : Split
    groups : sequence of UserGroup
        Groups of users for which results are found, too.
    seed : int
        Of the resamples of victims for intervals.
    own_rows : callable
        () -> the rows of users that clients without a model keep, shape (n_users, user_width).
    """

    split: Split
    groups: Sequence[UserGroup] = ()
    seed: int = 0
    own_rows: Callable[[], F32] = lambda: np.zeros((0, 0), np.float32)

    @functools.cached_property
    def is_member(self) -> Bools:
        """Whether each user has trained on each item, shape (n_users, n_items)."""
        bits = positives_bitset(self.split.train, self.split.n_items)
        return np.unpackbits(bits, axis=1, bitorder="little")[:, : self.split.n_items].astype(np.bool_)


class Judge(Stateful, ABC):
    """A judge of one kind of results.

    Parameters
    ----------
    truth : Truth
    rankings : RankingScores
        The rankings of the run, which are scored before all other results of a report.
    """

    def __init__(self, truth: Truth, rankings: RankingScores) -> None:
        self._truth, self._rankings = truth, rankings

    def check(self, subject: str, found: Any, attack: Attack) -> None:
        """Refuse results that cannot be joined with the truth; `subject` is the section and the name of the attack.

        Raises
        ------
        PluginError
        """

    def findings(self, found: Any, users: I64 | None = None) -> Iterator[Finding]:
        """Yield the findings about all victims, or about those among the users of a group."""
        yield from ()

    def judge(self, found: Any, round: int) -> Judged:
        """Yield the findings at a report about all victims, and about those in each group."""
        yield from ((finding, True) for finding in self.findings(found))
        for group in self._truth.groups:
            for finding in self.findings(found, group.users):
                yield finding_of_group(group, finding), True

    def figures(self, found: Any) -> Mapping[str, Any]:
        """Return the figures of guesses that are judged once, at the end of the run."""
        return {}

    def summary(self) -> dict[str, list[dict[str, Any]]]:
        """Return the sections of the summary that only this kind of results has."""
        return {}

    def notes(self, per_node: Mapping[str, tuple[I64, F64]]) -> list[str]:
        """Return the notes on findings with values per node that mean less than they seem to."""
        return []


JUDGES: Registry[type[Judge]] = Registry("judge", __package__)


def finding_of_group(group: UserGroup, finding: Finding) -> Finding:
    """Return the finding about a group of users, of which the values per node are left out."""
    return Finding(GROUP + finding.measure, {**finding.labels, group.by: group.name}, finding.value)
