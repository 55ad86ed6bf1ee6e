"""The report of the study: one table, the missing runs, and every number as csv."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from analysis.all_papers import paper_rows
from analysis.all_papers.table import LEVELS, METRICS, TableLine, baseline_value, make_table
from analysis.papers.document import Heading, ParagraphBlock
from analysis.papers.report import INTERVALS, Pages, ReportInput, StudyReport, missing_blocks
from analysis.papers.verdict import Runs
from gossiprec.figures.figure_files import Cell

CSV_HEADER = ("row", "number", "seed", "value")
_ABOUT = (
    "**No ranking of papers.** Rows differ in model, loop and rates, none of which was tuned here; read a number "
    "together with the settings of its row and with what its adversary saw. *Utility* ranks all items that a user does "
    "not have, at the report with the best Recall@20 on validation items. *Exposure*: share of the users to whom the "
    "poisoners' item is shown, in another run with 1 % of poisoners, at its own best report. *Communities*: the share "
    "of the most similar users that is found, next to the most that any ranking could find and to guessing. "
    "*Advantage*: the share of a user's items that are guessed minus the share of other items that are guessed. *Local "
    "epochs to 95 %*: per client, until validation first reached 95 % of its best. *Seconds* are of the plain run."
)


class TableReport(StudyReport):
    """The report with one table of all recommenders."""

    def make_pages(self, study: ReportInput, figures: Path) -> Pages:
        """Return the only page; it has no pictures."""
        data = ", ".join(sorted({str(run.scenario["dataset"]["name"]) for run in study.finished}))
        blocks = [
            study.opening_paragraph(
                lambda progress: (
                    f"Every recommender of all papers on {data or 'no data yet'}: same split, same seeds. {progress}"
                )
            ),
            ParagraphBlock(f"{_ABOUT} {INTERVALS}"),
            Heading(2, "All recommenders", "table"),
            make_table(paper_rows().values(), study.runs, study.reasons),
            *missing_blocks(study.reasons),
        ]
        return {"report": ("Every recommender in one table", blocks)}

    def csv_table(self, study: ReportInput) -> tuple[Sequence[str], Iterable[Sequence[Cell]]]:
        """Return each number of the table by row and seed."""
        return CSV_HEADER, csv_rows(study.runs, study.reasons)


REPORT = TableReport()


def csv_rows(runs: Runs, reasons: Mapping[str, str]) -> Iterator[list[Cell]]:
    """Yield each number of the table by row and seed."""
    for name, row in paper_rows().items():
        for number, values in TableLine(row, runs, reasons).numbers().items():
            for seed, value in values.items():
                yield [name, number, seed, value]
    for order in LEVELS:
        for metric in METRICS:
            for seed, value in baseline_value(order, metric, runs).items():
                yield [order, metric, seed, value]
