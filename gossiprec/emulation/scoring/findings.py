"""The findings of attacks in tidy form: rows of ``findings.csv``, and their section of the summary."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator
from typing import Any

from gossiprec.adversaries.attacks.base import MembershipGuesses
from gossiprec.adversaries.attacks.findings import RATES, Finding
from gossiprec.base.arrays import F64, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.data.split import Split
from gossiprec.emulation.scoring.accuracy import AttackRecord
from gossiprec.emulation.scoring.membership import MembershipRecord
from gossiprec.runs.adversaries import attack_key
from gossiprec.runs.checkpoint_state import Stateful

Row = dict[str, Any]


class FindingRecord(Stateful):
    """The findings of a run: those that attacks report, and their guesses joined with the truth.

    Parameters
    ----------
    split : Split
        The truth.
    rankings : AttackRecord
        The ranking made of guesses decides which are summarised: those of the report at which it was best. If no
        ranking is made of them, the last are kept, as for other findings.
    """

    changing = ("membership", "kept", "per_node")

    def __init__(self, split: Split, rankings: AttackRecord) -> None:
        self._split = split
        self._rankings = rankings
        self._membership: dict[str, Row] = {}
        self._kept: dict[str, Row] = {}
        self._per_node: dict[str, tuple[I64, F64]] = {}

    def note(
        self, reported: Iterable[tuple[str, MembershipGuesses | Finding]], *, time: float, round: int
    ) -> list[Row]:
        """Return one row of ``findings.csv`` per finding; call it after the report's rankings have been scored.

        Parameters
        ----------
        reported : iterable of (attack, guesses or finding)
        time : float
        round : int

        Raises
        ------
        ScenarioError
            If two findings have the same labels.
        """
        rows: dict[str, Row] = {}
        for attack, found in reported:
            for finding, is_kept in self._findings(found, round):
                about = {"attack": attack, "measure": finding.measure, "labels": dict(finding.labels)}
                row = {"time": time, "round": round, **about, "value": float(finding.value)}
                name = _name(attack, finding)
                if rows.setdefault(name, row) is not row:
                    raise ScenarioError(
                        f"observers: two findings have the same name {name}; change an option of one of the "
                        "observers, or add a label that distinguishes the findings"
                    )
                if is_kept:
                    self._kept[name] = row
                if finding.per_node is not None:
                    self._per_node[name] = finding.per_node
        return list(rows.values())

    def _findings(self, found: MembershipGuesses | Finding, round: int) -> Iterator[tuple[Finding, bool]]:
        """Yield findings, and whether the summary keeps each of them for now."""
        if isinstance(found, Finding):
            yield found, True
            return
        for row in self._truth.score(found):
            about = {name: row[name] for name in ("observer", "relevance", "momentum")}
            is_best = self._rankings.best_round(about) in (round, None)
            if is_best:
                told = {name: value for name, value in row.items() if name != "relevance"}
                self._membership[str(about)] = {"round": round, **told}
            for measure in RATES:
                rate = row[measure.removeprefix("mia_")]
                yield Finding(measure, about, math.nan if rate is None else rate), is_best

    @functools.cached_property
    def _truth(self) -> MembershipRecord:
        return MembershipRecord(self._split.train, self._split.n_items)

    def summary(self) -> dict[str, list[Row]]:
        """Return the sections of the summary; empty if nothing was found."""
        about = ("attack", "measure", "labels", "round", "value")
        findings = [{name: row[name] for name in about} for row in self._kept.values()]
        sections = {"membership": list(self._membership.values()), "findings": findings}
        return {name: rows for name, rows in sections.items() if rows}

    def per_node(self) -> list[tuple[str, I64, F64]]:
        """Return measure, node ids and values of the findings that have per-node values, as last reported."""
        return [(name, *values) for name, values in self._per_node.items()]


def _name(attack: str, finding: Finding) -> str:
    told = "/".join(filter(None, (attack, attack_key(**finding.labels))))
    return f"{finding.measure}[{told}]"
