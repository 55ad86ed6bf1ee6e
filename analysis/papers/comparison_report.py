"""The report of a comparison: overview, tables, figures and findings, from whatever runs exist."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.papers.comparison import BEST, LAST, Comparison
from analysis.papers.curve_figures import draw_figures
from analysis.papers.document import Collapsible, DocumentBlock, Heading, ImageBlock, ParagraphBlock
from analysis.papers.figure_spec import PaperFigure
from analysis.papers.overview import overview_blocks, run_time_blocks
from analysis.papers.page import write_pages
from analysis.papers.printed_orders import order_tables
from analysis.papers.report_parts import INTERVALS, claim_blocks, missing_blocks, versions_used
from analysis.papers.seed_statistics import Runs
from analysis.papers.study_file import Scale
from analysis.papers.tables import CSV_HEADER, csv_rows, paper_tables
from analysis.papers.verdict import ClaimVerdict, Verdict
from gossiprec.figures.figure_files import csv_bytes
from gossiprec.runs.atomic_write import replace_file


@dataclass(frozen=True)
class StudyReport:
    """The parts of the report on a paper's study.

    Attributes
    ----------
    paper : Comparison
    beside : str
        What the runs are compared with, as a whole sentence.
    about : str
        Why there are several settings, as text above their list.
    below : str
    drawings : mapping of str to PaperFigure
    sections : callable
        Maps runs to the sections between figures and times.
    claims : callable
        Maps runs to the verdicts on the paper's claims.
    experiments : collection of str
        All experiments of the study.
    kind : str
        Name of the groups of runs in the table of times.
    kind_of : callable
        Maps an experiment to its group.
    """

    paper: Comparison
    beside: str
    about: str
    below: str
    drawings: Mapping[str, PaperFigure]
    sections: Callable[[Runs], Iterable[DocumentBlock]]
    claims: Callable[[Runs], list[ClaimVerdict]]
    experiments: Collection[str]
    kind: str
    kind_of: Callable[[str], str]

    def write(
        self,
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
            All finished runs of the whole study, not only the selected ones.
        reasons : mapping of str to str
            Why an experiment has no finished run.
        planned, epochs : int
            Number of runs of the whole study, and epochs of each.
        scale : {'full', 'tiny'}
        """
        paper = self.paper
        pictures = draw_figures(self.drawings, runs, folder / "figures")
        opening, looks = self._opening(planned, epochs, runs, scale), describe_reporting_points(paper)
        report: list[DocumentBlock] = [
            opening,
            *overview_blocks(paper, runs),
            _legend(looks),
            Heading(2, "Tables", "tables"),
            *paper_tables(paper, runs),
            *self._figures(pictures),
            *self.sections(runs),
            *run_time_blocks(runs, planned, self.experiments, self.kind, self.kind_of),
            *missing_blocks(reasons),
        ]
        findings: list[DocumentBlock] = [
            opening,
            ParagraphBlock(looks),
            ParagraphBlock(INTERVALS),
            *order_tables(paper, runs),
            *claim_blocks(self.claims(runs)),
        ]
        written = write_pages(
            folder,
            {
                "report": (f"The {paper.title} study", report),
                "findings": (f"Findings of the {paper.title} study", findings),
            },
        )
        replace_file(folder / "cells.csv", csv_bytes(CSV_HEADER, csv_rows(paper, runs)))
        return written

    def _opening(self, planned: int, epochs: int, runs: Runs, scale: Scale) -> ParagraphBlock:
        made = [run for seeds in runs.values() for run in seeds.values()]
        there = f"{len(made)} of {planned} runs, of {epochs} epochs each, are finished"
        if scale == "tiny":
            return ParagraphBlock(
                "**Scale tiny: small synthetic data and short runs, to try the study; no number here says anything "
                f"about the paper.** {there}."
            )
        versions = versions_used(made)
        by = f", made by gossiprec {', '.join(versions)}" if versions else ""
        settings = "\n".join(f"- `{setting}`: {words}." for setting, words in self.paper.settings.items())
        return ParagraphBlock(f"{self.beside} {there}{by}. {self.about}\n\n{settings}\n\n{self.below}")

    def _figures(self, pictures: Mapping[str, Sequence[Path]]) -> Iterator[DocumentBlock]:
        """Yield the figures of each setting, the first setting's in view and the others collapsed."""
        yield Heading(2, "Figures", "figures")
        undrawn = [name for name in self.drawings if name not in pictures]
        open_ = True
        for setting in self.paper.settings:
            shown = [
                ImageBlock(f"figures/{name}.svg", drawing.caption, f"figures/{name}.csv")
                for name, drawing in self.drawings.items()
                if name in pictures and drawing.setting == setting
            ]
            if shown and open_:
                yield from shown
                open_ = False
            elif shown:
                yield Collapsible(f"Setting {setting}: {len(shown)} figures", shown)
        if undrawn:
            yield Collapsible(
                f"Not drawn, for want of runs: {len(undrawn)}", (ParagraphBlock(", ".join(undrawn)),)
            )


def describe_reporting_points(paper: Comparison) -> str:
    """Return the explanation of the reporting points."""
    reference = paper.reference
    return (
        f"*{LAST}*: the same for all. *{paper.at_print}*: the first {paper.unit} at which {reference} comes to its "
        f"printed {paper.leading}, the same for all methods of a seed; it compares them where the print may have been "
        f"taken. *{BEST}*: of each run its own, by {paper.leading} on the items kept for validation."
    )


def _legend(looks: str) -> ParagraphBlock:
    marks = "; ".join(
        f"{one.mark} *{one.word}*: {one.meaning}" for one in Verdict if one is not Verdict.UNJUDGED
    )
    return ParagraphBlock(f"{looks}\n\n{marks}; the band is ± 15 % of the print. {INTERVALS}")
