"""The results of attacks over a run: rankings, findings and guesses, joined with the truth, which no attack sees."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gossiprec.adversaries.attacks.findings import RATES, Finding
from gossiprec.base.arrays import F64, I64, Bools
from gossiprec.base.errors import PluginError, ScenarioError
from gossiprec.base.machine import ThreadPool
from gossiprec.base.registry import registry_name
from gossiprec.emulation.assembly.attack_hook import AttackHook
from gossiprec.emulation.scoring.judges import JUDGES, Judge, Judged, Truth, finding_of_group
from gossiprec.emulation.scoring.ranking_scores import RankingScores, mean_known
from gossiprec.measures.selectors import attack_key
from gossiprec.numerics.relevance import MIA
from gossiprec.rules import ReportsFindings
from gossiprec.runs.checkpoint_state import Stateful

if TYPE_CHECKING:
    from gossiprec.emulation.assembly.prepare import PreparedRun
    from gossiprec.emulation.assembly.user_groups import UserGroup

LABELS = {"observer", "relevance", "momentum"}
"""Labels of the rates of guesses."""
KINDS = ("item_scores", "item_sets", "attribute_scores")
"""Methods of an attack that return results of one kind each, other than guesses."""

Row = dict[str, Any]


class AttackResults(Stateful):
    """The results of all attacks over a run.

    Parameters
    ----------
    truth : Truth
    meters : sequence of (str, AttackHook)
        The attacks by name, those on further virtual nodes left out: their rankings come with the others'.
    parts : sequence of object
        Parts of the coordinator, of which some report findings.
    defended : ndarray of bool, shape (n_users,), optional
        Users of whom the nodes use any policy; no user by default.
    threads : ThreadPool, optional
        Scores adversaries in parallel.

    Attributes
    ----------
    rankings : RankingScores
    first_adversaries : ndarray of int64
        The users that rank others before the run.
    now_per_node : dict of str to (nodes, values)
        The values per node of the results of the last report, by measure.
    """

    checkpointed = ("kept", "per_node")

    def __init__(
        self,
        truth: Truth,
        meters: Sequence[tuple[str, AttackHook]] = (),
        parts: Sequence[object] = (),
        defended: Bools | None = None,
        threads: ThreadPool | None = None,
    ) -> None:
        self._truth, self._meters, self._parts = truth, meters, parts
        first = [ranking for _, meter in meters for ranking in meter.attack.rankings()]
        sizes = [size for ranking in first for size in ranking.community_sizes]
        self.rankings = RankingScores(truth.split, sizes, defended, threads, truth.groups)
        self.rankings.check_rankings(first)
        own = (ranking.adversaries for ranking in first)
        self.first_adversaries = np.concatenate([np.zeros(0, np.int64), *own])
        self._judges: dict[str, Judge] = {}
        self._kept: dict[str, Row] = {}
        self._per_node: dict[str, tuple[I64, F64]] = {}
        self.now_per_node: dict[str, tuple[I64, F64]] = {}

    def report(self, *, time: float, round: int) -> tuple[list[Row], list[Row]]:
        """Return the rows of ``attacks.csv`` and of ``findings.csv`` at a report.

        Raises
        ------
        PluginError
            If a result cannot be joined with the truth, or a study cannot choose it.
        ScenarioError
            If two rankings or two findings have the same labels.
        """
        ranked = [(name, ranking) for name, meter in self._meters for ranking in meter.rankings_by_node()]
        rows = self.rankings.score([ranking for _, ranking in ranked], time=time, round=round)
        of_rankings = ((ranked[k][0], found) for k, found in enumerate(self.rankings.more_findings))
        reported = itertools.chain(self._reported(time), of_rankings)
        return rows, self.note(reported, time=time, round=round)

    def _reported(self, now: float) -> Iterator[tuple[str, Any]]:
        """Yield results other than rankings, by the name of the attack, or of the coordinator's rule or server."""
        for name, meter in self._meters:
            attack = meter.attack
            subject = f"{'adversaries' if attack.sends else 'observers'}: {name}"
            findings = meter.timed_call(lambda attack: list(attack.findings(now)), attack)
            unannounced = {finding.measure for finding in findings} - {*attack.measures}
            if unannounced:
                raise PluginError(
                    f"{subject} reports {', '.join(sorted(unannounced))}, which no study can collect; list every "
                    "reported measure in the attack's `measures`"
                )
            calls = (meter.timed_call(lambda method: list(method()), getattr(attack, kind)) for kind in KINDS)
            results = [*itertools.chain.from_iterable(calls)]
            for found in results:
                self._judge(found.judge).check(subject, found, attack)
            for found in itertools.chain(attack.guesses(), findings, results):
                yield name, found
        for part in self._parts:
            for measure, value in part.findings().items() if isinstance(part, ReportsFindings) else ():
                yield registry_name(part), Finding(measure, {}, value)

    def note(self, reported: Iterable[tuple[str, Any]], *, time: float, round: int) -> list[Row]:
        """Return one row of ``findings.csv`` per finding; call it after the report's rankings have been scored.

        Parameters
        ----------
        reported : iterable of (attack, result or finding)
            Or findings about rankings, each with whether the summary keeps it.
        time : float
        round : int

        Raises
        ------
        ScenarioError
            If two findings have the same labels.
        """
        rows: dict[str, Row] = {}
        per_node: dict[str, tuple[I64, F64]] = {}
        for attack, found in reported:
            for finding, is_kept in found if isinstance(found, list) else self._judged(found, round):
                about = {"attack": attack, "measure": finding.measure, "labels": dict(finding.labels)}
                row = {"time": time, "round": round, **about, "value": float(finding.value)}
                labels = "/".join(filter(None, (attack, attack_key(**finding.labels))))
                name = f"{finding.measure}[{labels}]"
                if rows.setdefault(name, row) is not row:
                    raise ScenarioError(
                        f"observers: two findings have the same name {name}; change an option of one of the "
                        "observers, or add a label that distinguishes the findings"
                    )
                if is_kept:
                    self._kept[name] = row
                if finding.per_node is not None:
                    per_node[name] = finding.per_node
        self._per_node |= per_node
        self.now_per_node = self.rankings.now_per_node | per_node
        return list(rows.values())

    def _judge(self, name: str) -> Judge:
        if name not in self._judges:
            self._judges[name] = JUDGES[name](self._truth, self.rankings)
        return self._judges[name]

    def _judged(self, found: Any, round: int) -> Judged:
        """Return findings, and whether the summary keeps each of them for now."""
        if isinstance(found, Finding):
            return ((finding, True) for finding in itertools.chain([found], self._parts_of(found)))
        return self._judge(found.judge).judge(found, round)

    def _parts_of(self, found: Finding) -> Iterator[Finding]:
        """Yield the mean over each group of a finding with values per node."""
        nodes, values = (np.zeros(0, np.int64), np.zeros(0)) if found.per_node is None else found.per_node
        for group in self._truth.groups:
            mean = mean_known(np.asarray(values, np.float64)[np.isin(nodes, group.users)])
            if mean is not None:
                yield finding_of_group(group, replace(found, value=mean))

    def figures_of_uploads(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the figures of attacks on uploads at the end of the run, by the section of the summary."""
        for _, meter in self._meters:
            guesses = meter.timed_call(meter.attack.upload_guesses)
            if guesses is not None:
                yield guesses.section, self._judge(guesses.judge).figures(guesses)

    def state(self) -> dict[str, Any]:
        """Return the results so far, for a checkpoint."""
        judges = {name: judge.state() for name, judge in self._judges.items()}
        return {**super().state(), "rankings": self.rankings.state(), "judges": judges}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the state that :meth:`state` returned."""
        super().restore(state)
        self.rankings.restore(state["rankings"])
        for name, of_judge in state["judges"].items():
            self._judge(name).restore(of_judge)

    def summary(self) -> dict[str, list[Row]]:
        """Return the sections of the summary, of findings only if there are any."""
        about = ("attack", "measure", "labels", "round", "value")
        findings = [{name: row[name] for name in about} for row in self._kept.values()]
        sections = {name: rows for judge in self._judges.values() for name, rows in judge.summary().items()}
        found = {**sections, "findings": findings}
        return {"attacks": self.rankings.summary(), **{name: rows for name, rows in found.items() if rows}}

    def notes(self) -> list[str]:
        """Return the notes on results that mean less than they seem to."""
        return [note for judge in self._judges.values() for note in judge.notes(self._per_node)]

    def values_per_node(self) -> list[tuple[str, I64, F64]]:
        """Return measure, node ids and values of each node's results, and of the share of adversaries that found it."""
        own = ((name, *values) for name, values in self._per_node.items())
        return [*self.rankings.values_per_node(), *own]


def make_attack_results(prepared: PreparedRun, groups: Sequence[UserGroup]) -> AttackResults:
    """Return the record of a run's attacks."""
    components, scenario = prepared.components, prepared.components.scenario
    defended = np.zeros(components.split.n_users, np.bool_)
    for policy in components.policies:
        defended[policy.nodes] = True
    truth = Truth(components.split, groups, scenario.seed, lambda: prepared.own_rows)
    parts = [part for _, part in components.coordinator_parts]
    names = [choice.name for choice in (*scenario.observers, *scenario.adversaries)]
    meters = prepared.ranking_meters
    names += ["uploads"] * (len(meters) - len(names))  # an attack on uploads comes last
    return AttackResults(truth, [*zip(names, meters, strict=True)], parts, defended, prepared.threads)


def membership_metric_rows(findings: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, float]]:
    """Yield the rates among findings as metrics, such as ``mia_precision[coordinator,b0.99,0.2]``.

    Findings that an attack calls by these names itself, with other labels, stay findings.
    """
    for row in findings:
        of_guesses = row["measure"] in RATES and row["labels"].keys() == LABELS
        if of_guesses and not math.isnan(row["value"]):
            about, rule = row["labels"], row["labels"]["relevance"].removeprefix(MIA)
            yield f"{row['measure']}[{about['observer']},b{about['momentum']:g},{rule}]", row["value"]
