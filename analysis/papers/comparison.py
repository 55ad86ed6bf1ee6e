"""The printed numbers of a paper, and the comparison of a study with them: rows by method, in named settings.

The printed numbers may come from runs that have not converged, in which rows differ only in speed. Methods are
therefore compared at three reporting points (*looks*): at the last epoch, which is the same for all; at the epoch at
which a reference first reaches its printed value, also the same for all; and each at its own best epoch by the
validation items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from analysis.papers.study import PaperStudyFile
from analysis.papers.verdict import Band, PerSeed, Runs, tolerance_band
from gossiprec.base.rounding import difference
from gossiprec.measures.direction import best_place
from gossiprec.runs import Run


@dataclass(frozen=True)
class PrintedNumber:
    """One printed number.

    Attributes
    ----------
    table : str
        Name such as ``table2``, or ``text`` for numbers quoted in the text.
    dataset : str
        Data set of the row; empty if the table has only one.
    row, column : str
        A method and a metric, as the paper writes them; for the text an id and a quantity.
    value : float or str
        A string if the paper gives a range, or nothing.
    note : str
        Fault of the printed number, if any.
    band : (float, float), optional
        Lowest and highest value that count as near, or None if the number is not judged.
    unjudged : str
        Why it is not judged.
    """

    table: str
    dataset: str
    row: str
    column: str
    value: Any
    note: str = ""
    band: Band | None = None
    unjudged: str = ""

    @property
    def number(self) -> float | None:
        """The printed number, or None if the paper gives a range or nothing."""
        return None if isinstance(self.value, str) else self.value


@dataclass(frozen=True)
class PublishedTables:
    """The printed numbers of a paper, read from a file.

    A table has a title, perhaps a note, columns, and rows: labels (the data set if there are several, and the row) and
    a value per column. ``bands`` names rules for the width of a band; a table has one for all its columns or one per
    column, and perhaps others for some rows.
    """

    path: Path

    @cached_property
    def titles(self) -> dict[str, str]:
        """The title of each table, in the order of the paper."""
        found = {table: own["title"] for table, own in self._content["tables"].items()}
        return {**found, **({"text": "Numbers quoted in the text"} if "text" in self._content else {})}

    @cached_property
    def notes(self) -> dict[str, str]:
        """Remarks on printed tables, by table."""
        return {table: own["note"] for table, own in self._content["tables"].items() if "note" in own}

    @cached_property
    def printed_numbers(self) -> tuple[PrintedNumber, ...]:
        """Every printed number, in the order of the paper."""
        return (*self._of_tables(), *self._of_text())

    def numbers_of_table(self, table: str) -> dict[tuple[str, str], PrintedNumber]:
        """Return the printed numbers of a table by row and column."""
        return {(one.row, one.column): one for one in self.printed_numbers if one.table == table}

    def printed_value(self, table: str, row: str, column: str) -> float:
        """Return one printed number.

        Raises
        ------
        KeyError
            If it is not printed.
        """
        return float(self.numbers_of_table(table)[row, column].value)

    def _of_tables(self) -> Iterator[PrintedNumber]:
        for table, own in self._content["tables"].items():
            for line in own["rows"]:
                *datasets, row = line[: -len(own["columns"])]
                bands = own.get("row_bands", {}).get(row, own.get("band", "near"))
                for column, value in zip(own["columns"], line[-len(own["columns"]) :], strict=True):
                    if value is not None:
                        rule = bands[column] if isinstance(bands, dict) else bands
                        band = self._band(value, rule)
                        yield PrintedNumber(table, "".join(datasets), row, column, value, "", *band)

    def _of_text(self) -> Iterator[PrintedNumber]:
        for one in self._content.get("text", ()):
            band = self._band(one["value"], one.get("band", "percent"))
            labels = (one["where"], one["id"], one["quantity"])
            yield PrintedNumber("text", *labels, one["value"], one.get("note", ""), *band)

    def _band(self, value: float | str, rule: str | list[float]) -> tuple[Band | None, str]:
        """Return the band of a printed number, and the reason if it has none."""
        if isinstance(value, str):
            return None, "the text gives a range"
        if isinstance(rule, list):
            return (rule[0], rule[1]), ""
        width = self._content["bands"][rule]
        return (None, width["unjudged"]) if "unjudged" in width else (tolerance_band(value, **width), "")

    @cached_property
    def _content(self) -> Any:
        return yaml.safe_load(self.path.read_text(encoding="utf-8"))


AT_20 = {"Recall@20": "recall@20", "NDCG@20": "full_ndcg@20"}
"""The columns of most papers, with the names of the metrics in runs."""
LEVELS = ("popularity", "random")
"""Orders of the items that need no training, measured in every run."""
LAST, BEST = "last epoch", "best validation epoch"


@dataclass(frozen=True)
class SummaryColumns:
    """Columns of a table with numbers from ``summary.json``, as a plan declares them.

    Attributes
    ----------
    about : str
        What the columns mean.
    columns : mapping of str to str
        The key of each column's number in a summary, with dots.
    digits : mapping of str to int
        Number of decimals of a column, if it is not four.
    shown : mapping of str to (str, str)
        The column in each panel of a figure, and the column of its reference, such as the value for guessing; the
        latter is empty if there is none.
    """

    about: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    digits: Mapping[str, int] = field(default_factory=dict)
    shown: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def values_by_seed(self, runs: Runs, experiment: str, column: str) -> PerSeed:
        """Return the number of a column, by seed, for runs that report it."""
        return read_by_seed(runs.get(experiment, {}), summary_value, *self.columns[column].split("."))


@dataclass(frozen=True)
class Comparison:
    """A paper's tables and how they are reproduced. An experiment is named by its setting and its method.

    Attributes
    ----------
    title : str
        Title of the paper.
    settings : mapping of str to str
        Settings in which the tables are compared, in this order, with their descriptions.
    rows : mapping
        Method by table and row; unprinted rows are further readings of printed ones.
    main : str
        The table that names the methods; the others refer to them.
    reference : str
        The row of it with the printed value, in the leading column, that may show at which epoch the paper's numbers
        were taken.
    published : PublishedTables
    page : str
        The page that explains the study.
    unprinted : sequence of str
        Settings on data without printed numbers.
    apart : sequence of str
        Methods with other epochs than the rest: they are compared only at their best validation epoch.
    metrics : mapping of str to str
        The paper's columns, with the names of the metrics in runs.
    leading : str
        The column that chooses epochs: the one at which the reference reaches its printed value, and the best one by
        validation items.
    tables : mapping of str to sequence of str
        Tables by setting, the one that names the methods first; by default all of `rows`.
    data : mapping of str to str
        Setting by row of the table of the data; for other rows any judged setting.
    unit : str
        Unit of the reports' numbers, except for methods in `apart`.
    claims : sequence of mapping
        Further claims (:func:`analysis.papers.claims.declared_claims`).
    leakage : SummaryColumns
        Numbers of summaries about leakage.
    """

    title: str
    settings: Mapping[str, str]
    rows: Mapping[str, Mapping[str, str]]
    main: str
    reference: str
    published: PublishedTables
    page: str
    unprinted: Sequence[str] = ()
    apart: Sequence[str] = ()
    metrics: Mapping[str, str] = field(default_factory=lambda: AT_20)
    leading: str = "Recall@20"
    tables: Mapping[str, Sequence[str]] = field(default_factory=dict)
    data: Mapping[str, str] = field(default_factory=dict)
    unit: str = "epoch"
    claims: Sequence[Mapping[str, Any]] = ()
    leakage: SummaryColumns = field(default_factory=SummaryColumns)

    @property
    def validation(self) -> str:
        """The metric that chooses a run's best epoch, if it was measured."""
        return f"val_{self.metrics[self.leading]}"

    @property
    def point_at_printed_value(self) -> str:
        """The reporting point at which the reference reaches its printed value."""
        return f"when {self.reference} reaches its printed value"

    @property
    def reporting_points(self) -> tuple[str, ...]:
        """Reporting points at which methods are compared (*looks*)."""
        return LAST, self.point_at_printed_value, BEST

    def tables_of_setting(self, setting: str) -> Sequence[str]:
        """Return the tables that are reproduced in a setting."""
        return self.tables.get(setting, tuple(self.rows))

    def main_table(self, setting: str) -> str:
        """Return the table that names the methods of a setting."""
        return self.tables_of_setting(setting)[0] if setting in self.tables else self.main

    def printed_reference(self, setting: str) -> float:
        """Return the printed value of the reference in the leading column."""
        return self.published.printed_value(self.main_table(setting), self.reference, self.leading)

    @property
    def judged_settings(self) -> tuple[str, ...]:
        """The settings with printed numbers."""
        return tuple(setting for setting in self.settings if setting not in self.unprinted)

    def printed_numbers_in(self, setting: str, table: str) -> dict[tuple[str, str], PrintedNumber]:
        """Return the printed numbers for the data of a setting, by row and column of a table."""
        is_there = setting not in self.unprinted and table in self.tables_of_setting(setting)
        return self.published.numbers_of_table(table) if is_there else {}

    def is_compared_at(self, method: str, point: str) -> bool:
        """Return whether a method is compared at a reporting point."""
        return point == BEST or method not in self.apart

    def has_other_epochs(self, experiment: str) -> bool:
        """Return whether an experiment has other epochs than the rest."""
        setting = self.setting_of(experiment)
        return any(experiment == experiment_name(setting, method) for method in self.apart)

    def unit_of(self, experiment: str) -> str:
        """Return the unit of an experiment's report numbers."""
        return "epoch" if self.has_other_epochs(experiment) else self.unit

    def setting_of(self, experiment: str) -> str:
        """Return the setting of an experiment."""
        return next(setting for setting in self.settings if belongs_to(experiment, setting))


def experiment_name(setting: str, method: str) -> str:
    """Return the name of an experiment."""
    return f"{setting}-{method}"


def table_title(table: str) -> str:
    """Return the label of a table in text: ``Table 2`` for ``table2``."""
    return table.replace("table", "Table ") if table.startswith("table") else table.capitalize()


def belongs_to(experiment: str, setting: str) -> bool:
    """Return whether an experiment belongs to a setting."""
    return experiment.startswith(f"{setting}-")


def load_comparison(study: PaperStudyFile) -> Comparison:
    """Return the comparison of a study's plan, with the printed numbers in the same folder."""
    plan, published = study.plan, PublishedTables(study.path.with_name("published.yaml"))
    claims, leakage = plan.get("claims", ()), SummaryColumns(**plan.get("leakage", {}))
    return Comparison(
        rows=plan["rows"], published=published, claims=claims, leakage=leakage, **plan["comparison"]
    )


def selectable_names(study: PaperStudyFile) -> dict[str, tuple[str, ...]]:
    """Return the experiments of each name for ``--only``: parts over all settings and per setting, groups, experiments.

    A part of a plan is a list or a mapping of methods, perhaps nested; a setting has a part if it has all its
    experiments. A group is a list of patterns of names, by default one for each setting.
    """
    parts, there = study.plan["parts"], study.experiments
    found: dict[str, tuple[str, ...]] = {}
    for part in dict.fromkeys(part for own in parts.values() for part in own):
        by_setting = {
            f"{part}-{setting}": tuple(
                dict.fromkeys(experiment_name(setting, method) for method in flat_methods(own.get(part, ())))
            )
            for setting, own in parts.items()
        }
        whole = {name: own for name, own in by_setting.items() if own and set(own) <= set(there)}
        wanted = {name for own in whole.values() for name in own}
        found |= {part: tuple(name for name in there if name in wanted), **whole}
    groups = study.plan.get("groups") or {one: [f"{one}-*"] for one in study.plan["comparison"]["settings"]}
    for group, patterns in groups.items():
        found[group] = tuple(name for name in there if any(fnmatch(name, one) for one in patterns))
    return {**found, **{name: (name,) for name in there}}


def flat_methods(methods: Any) -> Iterator[str]:
    """Yield the methods of a list or a mapping of a plan, in order, also of nested ones."""
    if isinstance(methods, str):
        yield methods
    else:
        for one in methods.values() if isinstance(methods, Mapping) else methods:
            yield from flat_methods(one)


def metric_by_epoch(run: Run, metric: str) -> dict[int, float]:
    """Return a metric of a run by epoch; empty if it was not measured."""
    columns = run.metrics
    own = columns["metric"] == metric
    return dict(zip(columns["round"][own].tolist(), columns["value"][own].tolist(), strict=True))


def metric_by_epoch_and_seed(runs: Runs, experiment: str, metric: str) -> dict[int, PerSeed]:
    """Return a metric by epoch and seed, at the epochs that every seed has."""
    curves = {seed: metric_by_epoch(run, metric) for seed, run in runs.get(experiment, {}).items()}
    if not curves:
        return {}
    common = set.intersection(*(set(one) for one in curves.values()))
    return {epoch: {seed: one[epoch] for seed, one in curves.items()} for epoch in sorted(common)}


def reported_epochs(paper: Comparison, runs: Runs, experiment: str, look: str) -> dict[int, int]:
    """Return the epoch of a reporting point, for each seed that has one."""
    if look == paper.point_at_printed_value:
        if paper.has_other_epochs(experiment):
            return {}
        passed = _passing(paper, runs, paper.setting_of(experiment))
        return {seed: passed[seed] for seed in runs.get(experiment, {}) if seed in passed}
    found = {}
    for seed, run in runs.get(experiment, {}).items():
        by_epoch = metric_by_epoch(run, paper.metrics[paper.leading] if look == LAST else paper.validation)
        if look == LAST and by_epoch:
            found[seed] = max(by_epoch)
        elif (place := best_place(paper.validation, [*by_epoch.values()])) is not None:
            found[seed] = [*by_epoch][place]
    return found


def _passing(paper: Comparison, runs: Runs, setting: str) -> dict[int, int]:
    """Return the first epoch, by seed, at which the reference reaches its printed value."""
    main = paper.main_table(setting)
    wanted = paper.printed_numbers_in(setting, main).get((paper.reference, paper.leading))
    if wanted is None:
        return {}
    reference = experiment_name(setting, paper.rows[main][paper.reference])
    found = {}
    for seed, run in runs.get(reference, {}).items():
        by_epoch = metric_by_epoch(run, paper.metrics[paper.leading])
        reached = [epoch for epoch, value in by_epoch.items() if difference(value, wanted.value) >= 0]
        if reached:
            found[seed] = min(reached)
    return found


def reported_score(paper: Comparison, runs: Runs, experiment: str, column: str, look: str) -> PerSeed:
    """Return a number of a table (a fraction) at a reporting point, by seed."""
    metric = paper.metrics.get(column, column)
    return {
        seed: by_epoch[epoch]
        for seed, epoch in reported_epochs(paper, runs, experiment, look).items()
        if epoch in (by_epoch := metric_by_epoch(runs[experiment][seed], metric))
    }


def baseline_score(paper: Comparison, runs: Runs, setting: str, column: str, order: str) -> PerSeed:
    """Return the number of an order that needs no training, by seed; it is the same in every run of a setting."""
    found: PerSeed = {}
    for experiment, own in runs.items():
        if belongs_to(experiment, setting):
            for seed, run in own.items():
                by_epoch = metric_by_epoch(run, f"{paper.metrics[column]}[{order}]")
                if by_epoch:
                    found.setdefault(seed, next(iter(by_epoch.values())))
    return dict(sorted(found.items()))


def seed_differences(first: PerSeed, second: PerSeed) -> PerSeed:
    """Return first - second for the seeds that both have."""
    return {seed: difference(value, second[seed]) for seed, value in first.items() if seed in second}


def has_converged(paper: Comparison, runs: Runs, experiment: str) -> bool:
    """Return whether every seed's best validation report comes before its last."""
    best, last = (reported_epochs(paper, runs, experiment, look) for look in (BEST, LAST))
    return bool(best) and all(epoch < last[seed] for seed, epoch in best.items())


def summary_value(run: Run, *path: str) -> Any:
    """Return an entry of a run's summary, or None."""
    found: Any = run.summary
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def finding(run: Run, attack: str, measure: str, **labels: str) -> float | None:
    """Return a finding of a run's summary, or None if there is no number."""
    for row in summary_value(run, "findings") or ():
        is_other = row["attack"] != attack or row["measure"] != measure
        if not is_other and labels.items() <= row["labels"].items() and row["value"] is not None:
            return None if np.isnan(row["value"]) else float(row["value"])
    return None


def read_by_seed(seeds: Mapping[int, Run], read: Callable[..., Any], *arguments: Any) -> PerSeed:
    """Return the number that a function of a run and the arguments reads, by seed, for the runs that have it."""
    found = {seed: read(run, *arguments) for seed, run in seeds.items()}
    return {seed: float(value) for seed, value in found.items() if value is not None}
