"""The runs and the study of a report, in the form in which its sections use them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gossiprec.base.errors import LogError
from gossiprec.figures.attack_selection import FIELDS, AttackKey, attack_curves, run_names
from gossiprec.figures.study.quantity import Quantity, format_label
from gossiprec.figures.study.table_reader import Point, StudyTable, order_quantities, read_study
from gossiprec.report import ChartAxis, TableBlock, TableColumn
from gossiprec.runs import Run, open_run
from gossiprec.runs.lock import LOCK, is_locked, resolve_status
from gossiprec.runs.manifest import read_study_mark
from gossiprec.runs.reader import Columns

CLOCKS = {"round": ChartAxis("round"), "time": ChartAxis("virtual time (mean wake periods)")}
"""Clocks of a run's tables, by column."""

LABELS = FIELDS[1:]
"""Labels of attacks."""

OF_NODES = {"found": "exposure", "accuracy": "attack accuracy"}
"""Measures of nodes that belong to an attack; both are fractions of a community."""


@dataclass(frozen=True)
class ReportRuns:
    """Some runs, with names that distinguish them."""

    runs: Sequence[Run]

    @cached_property
    def runs_by_name(self) -> dict[str, Run]:
        """Runs by name."""
        return dict(zip(run_names(self.runs), self.runs, strict=True))

    @property
    def is_single_run(self) -> bool:
        """Whether it is a single run."""
        return len(self.runs) == 1

    @cached_property
    def attacks(self) -> dict[AttackKey, Columns]:
        """The rows of ``attacks.csv`` of each attack of each run."""
        return {
            key: c for name, run in self.runs_by_name.items() for key, c in attack_curves(run, name).items()
        }

    @cached_property
    def log_ends(self) -> dict[str, float]:
        """Virtual time up to which the log of each run has events."""
        return {name: logged_until(run) for name, run in self.runs_by_name.items()}

    def label_with_run(self, name: str, words: str) -> str:
        """Return a label for a part of a run: with the run's name if there are several runs."""
        return words if self.is_single_run else f"{name}: {words}" if words else name

    @cached_property
    def _varying(self) -> list[str]:
        """The labels in which attacks differ."""
        return [name for name in LABELS if len({getattr(key, name) for key in self.attacks}) > 1]

    @property
    def common_labels_text(self) -> str:
        """The labels that all attacks share apart from their observers, as a sentence; empty if there are none."""
        same = [name for name in LABELS[1:] if name not in self._varying]
        key = next(iter(self.attacks))
        return f"All with {', '.join(key.field_text(name) for name in same)}." if same else ""

    def attack_text(self, key: AttackKey) -> str:
        """Return an attack as text: its observer, its varying labels, and its run if there are several."""
        words = (key.field_text(name) for name in LABELS if name == "observer" or name in self._varying)
        return self.label_with_run(key.run, ", ".join(words))

    def measure_text(self, measure: str, run: str) -> str:
        """Return a measure of nodes as text; it may be ``found[single/ndcg/b0.9/k5]``."""
        kind, bracket, label = measure.removesuffix("]").partition("[")
        if not bracket or kind not in OF_NODES:
            return measure.replace("_", " ")
        key = AttackKey.from_label(run, label)
        shown = (key.field_text(name) for name in LABELS if name == "observer" or name in self._varying)
        return f"{OF_NODES[kind]}, {', '.join(shown)}"

    def events(self, kind: str) -> Iterator[tuple[str, Iterator[Columns]]]:
        """Yield the names of the runs that logged a kind of event, with its rows piece by piece."""
        for name, run in self.runs_by_name.items():
            if run.log.rows.get(kind):
                yield name, run.log.iter_event_blocks(kind)


def logged_until(run: Run) -> float:
    """Return the virtual time up to which the log of a run has events; 0 if it is empty."""
    ends = [run.log.time_span(kind) for kind in ("wake", "message", "evaluate") if run.log.rows.get(kind)]
    return max((end[1] for end in ends if end), default=0.0)


def thin_indices(n_points: int, most: int) -> npt.NDArray[Any]:
    """Return about `most` evenly chosen indices of the points, including the first and the last."""
    return np.unique(np.linspace(0, n_points - 1, min(n_points, most)).round().astype(np.int64))


RUNS = "runs"
MOST_MEANS = 12_000
"""Means that the charts of a study show, which bounds the size of its page."""
LEAST_MEASURES = 4
"""Measures that have a chart in any case."""


@dataclass(frozen=True)
class ReportStudy:
    """A study as stored in its folder.

    Attributes
    ----------
    table : StudyTable
    mark : mapping
        The content of ``study.json``.
    home : Path
        The folder of the page, from which links go to the reports of single runs.
    """

    table: StudyTable
    mark: Mapping[str, Any]
    home: Path

    @cached_property
    def measures(self) -> list[Quantity]:
        """All measures, those of attacks first."""
        return order_quantities(self.table)

    @cached_property
    def charted(self) -> list[Quantity]:
        """The first measures, of which charts are shown."""
        return self.measures[: max(LEAST_MEASURES, MOST_MEANS // max(1, len(self.table.runs)))]

    def point_text(self, point: Point) -> str:
        """Return a combination as text: the values of the axes that vary."""
        words = (f"{name} {format_label(point[self.table.axis_index(name)])}" for name in self.table.varying)
        return ", ".join(words) or "the unmodified scenario"

    def run_link(self, run: str) -> list[str]:
        """Return the name of a run and the address of its report, which is empty if there is no report."""
        return page_link(self.table.path / RUNS / run, self.home)

    def runs_table(self, point: Point, quantities: Iterable[Quantity]) -> TableBlock:
        """Return the table of the single runs of a combination."""
        shown = list(quantities)
        values = [self.table.values[quantity].get(point, {}) for quantity in shown]
        rows = [
            [seed, self.run_link(run), *(of.get(seed) for of in values)]
            for seed, run in self.table.runs[point].items()
        ]
        return TableBlock(
            f"The runs of {self.point_text(point)}",
            [TableColumn("seed"), TableColumn("run", "link"), *quantity_columns(shown)],
            rows,
        )


def page_link(run: Path, home: Path) -> list[str]:
    """Return the name of a run's folder and the address of its page from `home`, empty if it has none."""
    page = run / "report.html"
    return [run.name, os.path.relpath(page, home) if page.exists() else ""]


def quantity_columns(quantities: Iterable[Quantity]) -> list[TableColumn]:
    """Return a column for each quantity."""
    return [
        TableColumn(quantity.name_with_labels(), "percent" if quantity.is_share else "number")
        for quantity in quantities
    ]


def read_report_study(path: Path, home: Path) -> ReportStudy:
    """Read a study, even if none of its runs is finished.

    Raises
    ------
    LogError
        If the folder cannot be read as a study.
    """
    return ReportStudy(read_study(path, or_empty=True), read_study_mark(path), home)


def study_status(path: Path) -> str:
    """Return the status in ``study.json``, or ``killed`` or ``unknown`` if no process appears to run the study."""
    mark = read_study_mark(path)
    status = str(mark.get("status"))
    if status == "running" and not is_locked(path / LOCK):
        return resolve_status(mark.get("writer"))
    return status


def unfinished_runs(path: Path) -> dict[str, str]:
    """Return the runs of a study that have begun and not ended, with their status as text."""
    found = {}
    for folder in sorted((path / RUNS).glob("*/")):
        try:
            run = open_run(folder)
        except LogError as error:  # it was killed before it had all its files
            found[folder.name] = str(error)
        else:
            if run.status not in ("complete", "failed"):
                found[folder.name] = run.status_text
    return found
