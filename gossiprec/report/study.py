"""The study of a report, in the form in which its sections use it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gossiprec.base.errors import LogError
from gossiprec.figures.study.quantity import Quantity, format_label
from gossiprec.figures.study.table_reader import Point, StudyTable, read_study
from gossiprec.report.blocks import TableBlock, TableColumn
from gossiprec.runs import open_run
from gossiprec.runs.lock import LOCK, UNKNOWN, is_locked, resolve_status
from gossiprec.runs.run_files import read_regular

MARK, RUNS = "study.json", "runs"


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

    def point_text(self, point: Point) -> str:
        """Return a combination as text: the values of the axes that vary."""
        words = (f"{name} {format_label(point[self.table.axis_index(name)])}" for name in self.table.varying)
        return ", ".join(words) or "the unmodified scenario"

    def run_link(self, run: str) -> list[str]:
        """Return the name of a run and the address of its report, which is empty if there is no report."""
        report = self.table.path / RUNS / run / "report.html"
        return [run, os.path.relpath(report, self.home) if report.exists() else ""]

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
    return ReportStudy(read_study(path, or_empty=True), _mark(path), home)


def study_status(path: Path) -> str:
    """Return the status in ``study.json``, or ``killed`` or ``unknown`` if no process appears to run the study."""
    mark = _mark(path)
    status = str(mark.get("status"))
    if status == "running" and not is_locked(path / LOCK):
        return resolve_status(mark.get("writer"))
    return status


def is_running(path: Path) -> bool:
    """Return whether a study may still be running."""
    return study_status(path) in ("running", UNKNOWN)


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


def _mark(path: Path) -> Mapping[str, Any]:
    try:
        mark = json.loads(read_regular(path / MARK))
    except (OSError, ValueError) as error:
        raise LogError(f"cannot read {path / MARK}: {error}") from error
    if not isinstance(mark, dict):
        raise LogError(f"cannot read {path / MARK}: it is not a mapping")
    return mark
