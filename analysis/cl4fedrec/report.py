"""The report of the study: where it stands, tables, figures and findings, whatever part of the runs is there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from analysis.cl4fedrec.csv_rows import CSV_HEADER, csv_rows
from analysis.cl4fedrec.curves import AT_PRINT, BEST, LAST
from analysis.cl4fedrec.experiments import SETTINGS, setting_in_words
from analysis.cl4fedrec.figures import draw_figures, drawings
from analysis.cl4fedrec.findings import claims
from analysis.cl4fedrec.orders import order_tables
from analysis.cl4fedrec.overview import item_vectors, overview, times
from analysis.cl4fedrec.plan import Scale
from analysis.cl4fedrec.tables import paper_tables
from analysis.papers.document import Block, Fold, Heading, Picture, Text
from analysis.papers.page import write_pages
from analysis.papers.report_parts import INTERVALS, claim_list, made_with, missing
from analysis.papers.seeds import Runs
from analysis.papers.verdict import Verdict
from gossiprec.eventlog.atomic_write import replace_file
from gossiprec.figures.output import csv_bytes

_LOOKS_IN_WORDS = (
    f"*{LAST}*: the same for all. *{AT_PRINT}*: the first epoch at which Original comes to its printed Recall@20, the "
    "same for all methods of a seed; it compares them where the print may have been taken. "
    f"*{BEST}*: of each run its own, by Recall@20 on the items kept for validation."
)


def write_report(
    folder: Path,
    runs: Runs,
    reasons: Mapping[str, str],
    *,
    planned: int,
    epochs: int,
    scale: Scale = "full",
) -> list[Path]:
    """Write report, findings, pictures and ``cells.csv``, each file in one step; return the paths of the texts.

    Parameters
    ----------
    folder : Path
    runs : mapping
        All finished runs of the whole study, not only those that were asked for now.
    reasons : mapping of str to str
        Experiment to why it has no finished run.
    planned, epochs : int
        How many runs the whole study has, and how long each is.
    scale : {'full', 'tiny'}
    """
    pictures = draw_figures(runs, folder / "figures")
    opening = _opening(planned, epochs, runs, scale)
    written = write_pages(
        folder,
        {
            "report": (
                "The CL4FedRec study",
                [
                    opening,
                    *overview(runs),
                    _legend(),
                    Heading(2, "Tables", "tables"),
                    *paper_tables(runs),
                    *_figures(pictures),
                    *item_vectors(runs),
                    *times(runs, planned),
                    *missing(reasons),
                ],
            ),
            "findings": (
                "Findings of the CL4FedRec study",
                [
                    opening,
                    Text(_LOOKS_IN_WORDS),
                    Text(INTERVALS),
                    *order_tables(runs),
                    *claim_list(claims(runs)),
                ],
            ),
        },
    )
    replace_file(folder / "cells.csv", csv_bytes(CSV_HEADER, csv_rows(runs)))
    return written


def _opening(planned: int, epochs: int, runs: Runs, scale: Scale) -> Text:
    made = [run for seeds in runs.values() for run in seeds.values()]
    there = f"{len(made)} of {planned} runs, of {epochs} epochs each, are finished"
    if scale == "tiny":
        return Text(
            "**Scale tiny: small synthetic data and short runs, to try the study; no number here says anything about "
            f"the paper.** {there}."
        )
    versions = made_with(made)
    by = f", made by gossiprec {', '.join(versions)}" if versions else ""
    settings = "\n".join(f"- `{setting}`: {setting_in_words(setting)}." for setting in SETTINGS)
    return Text(
        "Beside arXiv 2403.20107 (CL4FedRec, rCL4FedRec) on MovieLens-1M. "
        f"{there}{by}. The text does not say how the data are split but by 80/20, how updates are aggregated, nor how "
        f"clients train; so each is run in named settings, compared in this order:\n\n{settings}\n\n"
        "PSMU and HiCS are reconstructions: no code of them was at hand."
    )


def _legend() -> Text:
    marks = "; ".join(
        f"{one.mark} *{one.word}*: {one.meaning}" for one in Verdict if one is not Verdict.UNJUDGED
    )
    return Text(f"{_LOOKS_IN_WORDS}\n\n{marks}; the band is ± 15 % of the print. {INTERVALS}")


def _figures(pictures: Mapping[str, Sequence[Path]]) -> Iterator[Block]:
    """Yield the figures of each setting, those of the first setting in sight and the others in folds."""
    yield Heading(2, "Figures", "figures")
    undrawn = [name for name in drawings() if name not in pictures]
    open_ = True
    for setting in SETTINGS:
        shown = [
            Picture(f"figures/{name}.svg", drawing.caption, f"figures/{name}.csv")
            for name, drawing in drawings().items()
            if name in pictures and drawing.setting == setting
        ]
        if shown and open_:
            yield from shown
            open_ = False
        elif shown:
            yield Fold(f"Setting {setting}: {len(shown)} figures", shown)
    if undrawn:
        yield Fold(f"Not drawn, for want of runs: {len(undrawn)}", (Text(", ".join(undrawn)),))
