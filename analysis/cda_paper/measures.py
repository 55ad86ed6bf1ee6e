"""Measures behind the cells of a table, and the cells of the report.

A measure is a number per seed, from the runs of one or two experiments. A cell is a printed number with its readings
(``readings.yaml``), its results, and a row of ``cells.csv``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from analysis.cda_paper import PUBLISHED, STUDY, table_momentum
from analysis.papers.comparison import PrintedNumber, summary_value
from analysis.papers.verdict import PerSeed, Runs, Verdict, format_mean_text, judge_agreement, mean
from gossiprec.base.arrays import F64, I64
from gossiprec.base.rounding import difference
from gossiprec.figures.attack_selection import AttackKey
from gossiprec.measures.selectors import FILTERS
from gossiprec.runs import Run

RULES = ("standardized", "ndcg", "mean_score")
MAIN_RULE = RULES[0]


class RunNumber(ABC):
    """A number per seed."""

    @property
    @abstractmethod
    def uses_relevance_rule(self) -> bool:
        """Whether it depends on the relevance rule."""

    @property
    @abstractmethod
    def experiments(self) -> tuple[str, ...]:
        """The experiments that it needs."""

    @abstractmethod
    def value_of_runs(self, runs: Mapping[str, Run], relevance_rule: str) -> float | None:
        """Return its value for one seed, given a run of each experiment, or None if the runs lack it."""

    def values_by_seed(self, runs: Runs, relevance_rule: str = MAIN_RULE) -> PerSeed:
        """Return its value for each seed with all runs."""
        of_each = [runs.get(name, {}) for name in self.experiments]
        found = {
            seed: self.value_of_runs({name: runs[name][seed] for name in self.experiments}, relevance_rule)
            for seed in of_each[0]
            if all(seed in other for other in of_each)
        }
        return {seed: value for seed, value in found.items() if value is not None}

    def mean_over_seeds(self, runs: Runs, relevance_rule: str = MAIN_RULE) -> float:
        """Return its mean over seeds; NaN without any."""
        return mean(self.values_by_seed(runs, relevance_rule))


@dataclass(frozen=True)
class AttackNumber(RunNumber):
    """A number of one attack's line of ``summary.json``.

    Attributes
    ----------
    experiment : str
    observer : str
        Name of the observer, such as ``coalition-5%``.
    momentum : float, optional
        Momentum; None for the experiment's own.
    k : int
    quantity : str
        ``max_aac``, ``best10_min``, ``best10_mean``, ``upper_bound``, ``random_bound``.
    relevance : str, optional
        The attack's own rule, such as ``mia-0.2``; by default the requested rule.
    """

    experiment: str
    observer: str
    momentum: float | None = None
    k: int = 50
    quantity: str = "max_aac"
    relevance: str | None = None

    @property
    def uses_relevance_rule(self) -> bool:
        """Whether it has no rule of its own; bounds have none."""
        return self.relevance is None and not self.quantity.endswith("_bound")

    @property
    def experiments(self) -> tuple[str, ...]:
        """The experiment of the attack."""
        return (self.experiment,)

    def with_quantity(self, quantity: str) -> AttackNumber:
        """Return another number of the same attack."""
        return replace(self, quantity=quantity)

    def value_of_runs(self, runs: Mapping[str, Run], relevance_rule: str) -> float | None:
        """Return the number of the attack's line."""
        for line in summary_value(runs[self.experiment], "attacks") or ():
            if self.matches_key(AttackKey("", *(line[name] for name in FILTERS)), relevance_rule):
                value = line[self.quantity]
                return None if value is None else 100 * float(value)
        return None

    def matches_key(self, key: AttackKey, relevance_rule: str = MAIN_RULE) -> bool:
        """Return whether a key belongs to this attack under a relevance rule."""
        wanted = table_momentum(self.experiment) if self.momentum is None else self.momentum
        labels = (key.observer, key.relevance, key.community_size)
        return (
            labels == (self.observer, self.relevance or relevance_rule, self.k)
            and abs(key.momentum - wanted) < 1e-6
        )

    def adversary_accuracies(self, run: Run, relevance_rule: str = MAIN_RULE) -> tuple[I64, F64] | None:
        """Return the adversaries and their accuracies (fractions) at the best round, or None if there are none."""
        found = (
            own
            for label, own in run.adversaries.items()
            if self.matches_key(AttackKey.from_label("", label), relevance_rule)
        )
        return next(found, None)


@dataclass(frozen=True)
class FunctionNumber(RunNumber):
    """A number that a function reads from the runs of a seed."""

    read: Callable[[Mapping[str, Run], str], float | None]
    experiments: tuple[str, ...] = ()
    uses_relevance_rule: bool = True

    def value_of_runs(self, runs: Mapping[str, Run], relevance_rule: str) -> float | None:
        """Return the value that the function reads."""
        return self.read(runs, relevance_rule)


def function_number(
    experiment: str, read: Callable[[Run, str], float | None], *, uses_relevance_rule: bool = True
) -> FunctionNumber:
    """Return the measure that a function reads from a run of one experiment under a rule."""
    return FunctionNumber(lambda runs, rule: read(runs[experiment], rule), (experiment,), uses_relevance_rule)


def combine_by_seed(
    first: RunNumber, second: RunNumber, join: Callable[[float, float], float]
) -> FunctionNumber:
    """Return two measures combined seed by seed, such as a difference."""

    def read(runs: Mapping[str, Run], rule: str) -> float | None:
        a, b = first.value_of_runs(runs, rule), second.value_of_runs(runs, rule)
        return None if a is None or b is None else join(a, b)

    names = tuple(dict.fromkeys((*first.experiments, *second.experiments)))
    return FunctionNumber(read, names, first.uses_relevance_rule or second.uses_relevance_rule)


def single_attack(experiment: str, k: int = 50, quantity: str = "max_aac") -> AttackNumber:
    """Return the attack by the coordinator, or by single nodes if there is no coordinator."""
    return AttackNumber(
        experiment, "coordinator" if "fedavg" in experiment else "single", k=k, quantity=quantity
    )


def number_from_accuracies(attack: AttackNumber, compute: Callable[[F64, float], float]) -> FunctionNumber:
    """Return the value of `compute` on an attack's accuracies and its random bound (fractions), in percent."""

    def read(run: Run, rule: str) -> float | None:
        found = attack.adversary_accuracies(run, rule)
        bound = attack.with_quantity("random_bound").value_of_runs({attack.experiment: run}, rule)
        return None if found is None or bound is None else 100 * float(compute(found[1], bound / 100))

    return function_number(attack.experiment, read)


def accuracy_over_adversaries_of(attack: AttackNumber, other: AttackNumber) -> FunctionNumber:
    """Return the mean accuracy (percent) of an attack over the adversaries of another, at its own best round."""

    def read(run: Run, rule: str) -> float | None:
        own, among = attack.adversary_accuracies(run, rule), other.adversary_accuracies(run, rule)
        if own is None or among is None:
            return None
        return 100 * float(np.mean(own[1][np.isin(own[0], among[0])]))

    return function_number(attack.experiment, read)


def membership_rate(attack: AttackNumber, threshold: float, quantity: str) -> FunctionNumber:
    """Return a number of membership inference at the best round of its community attack (a fraction)."""

    def read(run: Run, _: str) -> float | None:
        lines = summary_value(run, "membership") or ()
        lines = [line for line in lines if line["observer"] == attack.observer]
        found = [line[quantity] for line in lines if abs(line["threshold"] - threshold) < 1e-9]
        return next((float(value) for value in reversed(found) if value is not None), None)

    return function_number(attack.experiment, read, uses_relevance_rule=False)


def utility_number(experiment: str, metric: str = "hr@20") -> FunctionNumber:
    """Return the quality of the recommendations at the end of a run in percent."""
    return summary_number(experiment, "utility", metric, factor=100)


def summary_number(experiment: str, *keys: str, factor: int = 1) -> FunctionNumber:
    """Return a number of ``summary.json``, times a factor; several keys lead into mappings."""

    def read(run: Run, _: str) -> float | None:
        value = summary_value(run, *keys)
        return factor * float(value) if isinstance(value, int | float) else None

    return function_number(experiment, read, uses_relevance_rule=False)


def read_number(spec: Mapping[str, Any]) -> RunNumber:
    """Return the number that an entry of a plan names.

    Parameters
    ----------
    spec : mapping
        One of the keys of this function's cases, with the other arguments of the number; facts of the row or the
        column that this number does not use are ignored.
    """
    match spec:
        case {"attack": _}:
            return _attack(spec)
        case {"utility": experiment}:
            return utility_number(experiment, spec.get("metric", "hr@20"))
        case {"summary": experiment, "keys": keys}:
            return summary_number(experiment, *keys)
        case {"membership": experiment, "threshold": threshold, "rate": rate}:
            return membership_rate(single_attack(experiment), threshold, rate)
        case {"among": [first, second]}:
            return accuracy_over_adversaries_of(_attack(first), _attack(second))
        case {"largest": attack}:
            return number_from_accuracies(_attack(attack), lambda found, _: float(found.max()))
        case {"quantile": share, "of": attack}:
            return number_from_accuracies(_attack(attack), lambda found, _: float(np.quantile(found, share)))
        case {"fraction": words, "of": attack}:
            return number_from_accuracies(_attack(attack), _fraction(words))
    operation = next(key for key in _OPERATIONS if key in spec)
    first, second = (read_number(one) for one in spec[operation])
    return combine_by_seed(first, second, _OPERATIONS[operation])


def _attack(spec: Mapping[str, Any]) -> AttackNumber:
    """Return an attack of an experiment; by default the coordinator's, or single nodes' if there is none."""
    names = ("observer", "momentum", "k", "quantity", "relevance")
    return replace(single_attack(spec["attack"]), **{name: spec[name] for name in names if name in spec})


def _fraction(words: str) -> Callable[[F64, float], float]:
    """Return the function for a fraction of the adversaries, such as ``above 0.8`` or ``below guessing``."""
    relation, level = words.rsplit(" ", 1)
    compare = {"above": np.greater, "below": np.less, "equal to": np.equal}[relation]
    return lambda found, random: float(
        np.mean(compare(difference(found, random if level == "guessing" else float(level)), 0))
    )


_OPERATIONS: dict[str, Callable[[float, float], float]] = {
    "difference": difference,
    "ratio": lambda a, b: a / b if b else float("nan"),
    "product": lambda a, b: a * b,
    "loss": lambda a, b: 100 * (a - b) / a if a else float("nan"),
    "share": lambda part, whole: part / (whole - part),
}
"""Numbers made of two numbers: the loss is in percent of the first, the share relative to the rest of the whole."""


def format_mean_number(measure: RunNumber, runs: Runs, digits: int = 1) -> str:
    """Return a mean over seeds as text, with ± half of its 95 % interval if the seeds differ."""
    return format_mean_text(measure.values_by_seed(runs), digits)


COLUMNS: dict[str, str] = STUDY.read("readings")["titles"]
"""Titles of columns."""
OTHER_RULES: dict[str, str] = STUDY.read("readings")["other_rules"]
_LABELS = {"tables": "table", "datasets": "dataset", "rows": "row", "columns": "column"}
_NOT_OF_NUMBER = ("setting", "note", "rules", "rows")


@dataclass(frozen=True)
class ReportCell:
    """A number of the report: the printed number, with its measure or the reason for none.

    Attributes
    ----------
    variant : str
        The reading of the paper that was run, such as users and K; empty if there is only one.
    rule : str
        The relevance rule that is compared with the printed number.
    note : str
        Why it differs, or cannot be reproduced: one sentence per line.
    """

    printed: PrintedNumber
    variant: str = ""
    measure: RunNumber | None = None
    why_not: str = ""
    rule: str = MAIN_RULE
    note: str = ""

    @property
    def attack(self) -> AttackNumber | None:
        """The attack behind it, which has bounds, or None for other numbers."""
        return self.measure if isinstance(self.measure, AttackNumber) else None


@cache
def report_cells() -> tuple[ReportCell, ...]:
    """Return the cells in the order of the paper: for every printed number, the setting compared first, then others."""
    cells: list[ReportCell] = []
    for number in PUBLISHED.printed_numbers:
        entry = next(one for one in STUDY.read("readings")["readings"] if _applies(one, number))
        if "why_not" in entry:
            cells.append(ReportCell(number, why_not=entry["why_not"]))
            continue
        own = list(_cells(number, entry["read"]))
        cells += own
        if number.column == "best10":
            # a printed 60.3 % is no multiple of 1/K, so it cannot be a least accuracy
            also = PrintedNumber(**{**vars(number), "column": "best10_mean"})
            cells += [cell for cell in _cells(also, entry["read"]) if cell.attack]
    for entry in STUDY.read("readings")["unprinted"]:
        cells += _cells(PrintedNumber(**entry["number"], value=""), entry["read"])
    return tuple(cells)


def _cells(number: PrintedNumber, readings: list[dict[str, Any]]) -> Iterator[ReportCell]:
    """Yield a cell per reading and relevance rule; a number that uses no rule has one cell."""
    plan = STUDY.read("readings")
    remarks = [one["text"] for one in plan["remarks"] if _applies(one, number)]
    for one in readings:
        if number.row not in one.get("rows", (number.row,)):
            continue
        facts = [plan["columns"].get(number.column, {}), plan["rows"].get(number.row, {})]
        own = {key: value for key, value in one.items() if key not in _NOT_OF_NUMBER}
        spec: dict[str, Any] = {}
        for part in (*facts, own, one.get("rows", {}).get(number.row, {})):
            spec |= part
        measure = read_number(spec)
        for rule in one.get("rules", (MAIN_RULE,)) if measure.uses_relevance_rule else (MAIN_RULE,):
            own_note = "; ".join(part for part in (one.get("note"), OTHER_RULES.get(rule)) if part)
            note = "\n".join(part for part in (own_note, *remarks) if part)
            yield ReportCell(number, one.get("setting", ""), measure, rule=rule, note=note)


def _applies(entry: Mapping[str, Any], number: PrintedNumber) -> bool:
    """Return whether an entry applies to a printed number; labels that it does not list do not matter."""
    return all(getattr(number, label) in entry[key] for key, label in _LABELS.items() if key in entry)


@dataclass(frozen=True)
class CellResult:
    """A cell and its result from the runs."""

    cell: ReportCell
    values: PerSeed
    verdict: Verdict

    @property
    def setting(self) -> str:
        """The setting that was run, with the relevance rule if that matters."""
        parts = [self.cell.variant] if self.cell.variant else []
        if self.cell.measure and self.cell.measure.uses_relevance_rule:
            parts.append(self.cell.rule)
        return "; ".join(parts)


@dataclass(frozen=True)
class NumberResults:
    """A number of the paper with the result of each setting, the setting compared first at the front."""

    printed: PrintedNumber
    results: tuple[CellResult, ...]

    @property
    def first(self) -> CellResult:
        """The result of the setting compared first."""
        return self.results[0]

    @cached_property
    def nearest(self) -> CellResult:
        """The result nearest to the printed number; on ties, the first."""
        return min(self.results, key=lambda result: result.verdict)

    @property
    def first_with_run(self) -> CellResult:
        """The first result with a run, or the first of all if there is none."""
        return next((result for result in self.results if result.values), self.first)


def collect_number_results(runs: Runs) -> list[NumberResults]:
    """Return every number of the report, in the order of the paper."""
    found: dict[PrintedNumber, list[CellResult]] = {}
    for cell in report_cells():
        found.setdefault(cell.printed, []).append(compute_cell_result(cell, runs))
    return [NumberResults(number, tuple(results)) for number, results in found.items()]


def compute_cell_result(cell: ReportCell, runs: Runs) -> CellResult:
    """Return the result of a cell from the runs."""
    values = cell.measure.values_by_seed(runs, cell.rule) if cell.measure else {}
    verdict = judge_agreement(cell.printed.band, values) if cell.measure else Verdict.UNJUDGED
    return CellResult(cell, values, verdict)


def count_verdicts(results: Iterable[CellResult]) -> list[int]:
    """Return the number of results per verdict, in the order of the verdicts."""
    counted = Counter(result.verdict for result in results)
    return [counted[verdict] for verdict in Verdict]


CSV_HEADER = (
    "table", "dataset", "row", "column", "published", "band_low", "band_high",
    "variant", "place", "rule", "verdict", "relevance", "seed", "measured",
)  # fmt: skip
Row = list[str | int | float | None]


def csv_rows(found: Sequence[NumberResults], runs: Runs) -> Iterator[Row]:
    """Yield a row for each seed and relevance rule.

    ``variant`` is the setting, and ``place`` is 1 for the setting compared first. ``rule`` is the relevance rule that
    is compared with the printed number, and ``verdict`` the result over all seeds. ``relevance`` is the rule of the
    number itself. Attacks also have rows for the rules that no setting compares.
    """
    for group in found:
        number = group.printed
        low, high = number.band or (None, None)
        about: Row = [number.table, number.dataset, number.row, number.column, number.value, low, high]
        for place, result in enumerate(group.results, start=1):
            cell, measure = result.cell, result.cell.measure
            if measure is None:
                continue
            rule = cell.rule if measure.uses_relevance_rule else ""
            for relevance in (rule, *_others(group, cell)) if rule else ("",):
                for seed, value in measure.values_by_seed(runs, relevance or cell.rule).items():
                    own: Row = [cell.variant, place, rule, result.verdict.word, relevance, seed, value]
                    yield [*about, *own]


def _others(group: NumberResults, cell: ReportCell) -> list[str]:
    """Return the further rules for which a cell's numbers are written: those without a cell of their own."""
    if cell.attack is None:
        return []
    same = [one.cell for one in group.results if one.cell.measure == cell.measure]
    compared = {one.rule for one in same}
    return [rule for rule in RULES if rule not in compared] if cell is same[0] else []
