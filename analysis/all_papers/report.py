"""The report of the study: one table, the missing runs, and every number as csv."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from analysis.all_papers.plan import paper_rows
from analysis.all_papers.table import LEVELS, METRICS, TableLine, baseline_value, make_table
from analysis.papers.document import Heading, ParagraphBlock, write_pages
from analysis.papers.report import INTERVALS, missing_blocks, versions_used
from analysis.papers.study_file import Scale
from analysis.papers.verdict import Runs
from gossiprec.figures.figure_files import Cell, csv_bytes
from gossiprec.runs.run_files import replace_file

CSV_HEADER = ("row", "number", "seed", "value")
_READ = (
    "**No ranking of papers.** Rows differ in model, loop and rates, none of which was tuned here; read a number "
    "beside the settings of its row and what its adversary saw. *Utility* ranks all items that a user has not had, at "
    "the report with the best Recall@20 on items kept for validation. *Exposure*: share of the users who are shown "
    "the poisoners' item, in another run with 1 % of poisoners, at its own such report. *Communities*: share found of "
    "the most similar users, beside what any ranking could find and what guessing finds. *Advantage*: share of the "
    "items had that are guessed, less the share of others that are. *Local epochs to 95 %*: of a client, when "
    "validation first came to 95 % of its best. *Seconds* are of the plain run."
)


def write_report(
    folder: Path, runs: Runs, reasons: Mapping[str, str], *, planned: int, scale: Scale = "full"
) -> list[Path]:
    """Write report and ``cells.csv``, each file in one step; return the paths of the texts.

    Parameters
    ----------
    folder : Path
    runs : mapping
        All finished runs of the whole study, not only the selected ones.
    reasons : mapping of str to str
        Why an experiment has no finished run.
    planned : int
        Number of runs of the whole study.
    scale : {'full', 'tiny'}
    """
    blocks = [
        ParagraphBlock(_opening(runs, planned, scale)),
        ParagraphBlock(f"{_READ} {INTERVALS}"),
        Heading(2, "All recommenders", "table"),
        make_table(paper_rows().values(), runs, reasons),
        *missing_blocks(reasons),
    ]
    written = write_pages(folder, {"report": ("Every recommender in one table", blocks)})
    replace_file(folder / "cells.csv", csv_bytes(CSV_HEADER, csv_rows(runs, reasons)))
    return written


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


def _opening(runs: Runs, planned: int, scale: Scale) -> str:
    made = [run for seeds in runs.values() for run in seeds.values()]
    there = f"{len(made)} of {planned} runs are finished"
    if scale == "tiny":
        return f"**Scale tiny: small synthetic data and short runs; no number here means anything.** {there}."
    data = ", ".join(sorted({str(run.scenario["dataset"]["name"]) for run in made})) or "no data yet"
    versions = versions_used(made)
    by = f", made by gossiprec {', '.join(versions)}" if versions else ""
    return f"Every recommender of all papers on {data}: same split, same seeds. {there}{by}."
