"""The report of a comparison, from existing runs, and the parts of a report that every study has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.papers.comparison import BEST, LAST, Comparison, belongs_to, experiment_name
from analysis.papers.curves import baseline_score, reported_epochs, reported_score
from analysis.papers.document import (
    Collapsible,
    DocumentBlock,
    Grid,
    GridCell,
    GridColumn,
    Heading,
    ImageBlock,
    ParagraphBlock,
    write_pages,
)
from analysis.papers.figures import PaperFigure, draw_figures
from analysis.papers.printed_orders import (
    count_order_verdicts,
    measured_reporting_points,
    order_tables,
    printed_orders,
)
from analysis.papers.study_file import Scale
from analysis.papers.tables import CSV_HEADER, csv_rows, format_epochs, format_mean, paper_tables
from analysis.papers.verdict import (
    HELD,
    MARKS,
    NOT_HELD,
    NOT_MEASURED,
    UNDECIDED,
    ClaimVerdict,
    Runs,
    Verdict,
)
from gossiprec.figures.figure_files import csv_bytes
from gossiprec.runs import Run
from gossiprec.runs.run_files import replace_file

INTERVALS = "± is half of the 95 % interval over seeds (Student's t); a number without it is of one seed."


def claim_blocks(
    claims: Sequence[ClaimVerdict], title: str = "What the paper claims"
) -> Iterator[DocumentBlock]:
    """Yield each claim with its verdict and evidence."""
    yield Heading(2, title)
    for claim in claims:
        look = MARKS.get(claim.verdict, Verdict.NOT_RUN)
        evidence = "\n".join(f"- {line}" for line in claim.evidence)
        yield ParagraphBlock(f"{look.mark} **{claim.claim}: {claim.verdict}.**\n\n{evidence}")


def versions_used(runs: Iterable[Run]) -> list[str]:
    """Return the versions of gossiprec, with commits, that made these runs."""
    return sorted({f"{run.manifest.get('gossiprec')} ({_commit(run)})" for run in runs})


def _commit(run: Run) -> str:
    commit = str(run.manifest.get("git_commit") or "no commit")
    return f"{commit[:10]}-dirty" if commit.endswith("-dirty") else commit[:10]


def format_clock(seconds: float) -> str:
    """Return a duration as ``h:mm:ss`` or ``m:ss``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def missing_blocks(reasons: Mapping[str, str]) -> Iterator[DocumentBlock]:
    """Yield each reason with the experiments that have no finished run because of it."""
    yield Heading(2, "Missing", "missing")
    if not reasons:
        yield ParagraphBlock("Nothing: every experiment has a finished run.")
        return
    found: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        found.setdefault(" ".join(reason.split())[:400], []).append(name)
    rows = [[GridCell(reason), GridCell(", ".join(names))] for reason, names in found.items()]
    yield Grid("Missing", [GridColumn("why"), GridColumn("experiments without a finished run")], rows)


def overview_blocks(paper: Comparison, runs: Runs) -> Iterator[DocumentBlock]:
    """Yield, per setting, the reference compared with popularity and the paper, and the number of orders that hold."""
    yield Heading(2, "In short", "short")
    found = [setting for setting in paper.settings if any(belongs_to(name, setting) for name in runs)]
    if not found:
        yield ParagraphBlock("No run is finished.")
        return
    number = " and ".join(dict.fromkeys(str(len(printed_orders(paper, setting))) for setting in paper.judged))
    yield ParagraphBlock(
        f"{paper.leading} of the most popular items and of {paper.reference} (printed {_prints(paper)}), and the "
        f"verdicts on the {number} printed orders ([findings](findings.md)): held / not held / undecided. "
        "One seed decides nothing."
    )
    looks = [
        look
        for look in paper.looks
        if any(look in measured_reporting_points(paper, runs, setting) for setting in found)
    ]
    looks = looks or [LAST]
    rows = [[GridCell(setting), *_state(paper, runs, setting, looks)] for setting in found]
    titles = ("popularity", f"{paper.reference}, last epoch", f"{paper.reference} passes its print")
    columns = [
        GridColumn("setting"),
        *(GridColumn(title) for title in titles),
        GridColumn("printed orders", tuple(looks)),
    ]
    yield Grid("In short", columns, rows)


def _prints(paper: Comparison) -> str:
    """Return the printed value of the reference, by setting if it differs between settings."""
    found = {setting: f"{paper.reference_print(setting):.5f}" for setting in paper.judged}
    if len(set(found.values())) == 1:
        return next(iter(found.values()))
    return ", ".join(f"{value} in {setting}" for setting, value in found.items())


def _state(paper: Comparison, runs: Runs, setting: str, looks: Sequence[str]) -> list[GridCell]:
    reference = experiment_name(setting, paper.rows[paper.main_in(setting)][paper.reference])
    passed = list(reported_epochs(paper, runs, reference, paper.at_print).values())
    is_told = reference in runs and setting in paper.judged
    said = format_epochs(passed, paper.unit) if passed else "never" if is_told else "–"
    counts = [count_order_verdicts(paper, runs, setting, look) for look in looks]
    return [
        format_mean(baseline_score(paper, runs, setting, paper.leading, "popularity")),
        format_mean(reported_score(paper, runs, reference, paper.leading, LAST)),
        GridCell(said),
        *(
            GridCell(" / ".join(str(own[verdict]) for verdict in (HELD, NOT_HELD, UNDECIDED)))
            if own[NOT_MEASURED] < sum(own.values()) and setting in paper.judged
            else GridCell("–", kind=Verdict.NOT_RUN.word)
            for own in counts
        ),
    ]


def run_time_blocks(
    runs: Runs, planned: int, experiments: Collection[str], kind: str, kind_of: Callable[[str], str]
) -> Iterator[DocumentBlock]:
    """Yield the duration of runs of each kind, and an estimate for the missing ones.

    Parameters
    ----------
    runs : mapping
    planned : int
        Number of runs of the whole study.
    experiments : collection of str
        All experiments of the study.
    kind : str
        Name of the groups of runs.
    kind_of : callable
        Maps an experiment to its group.
    """
    taken: dict[str, list[float]] = {}
    for name, seeds in runs.items():
        for run in seeds.values():
            taken.setdefault(kind_of(name), []).append(float((run.summary or {})["wall_seconds"]))
    yield Heading(2, "Times", "times")
    yield ParagraphBlock(
        f"All finished runs together took {format_clock(sum(sum(own) for own in taken.values()))}."
    )
    if not taken:
        return
    n_seeds = planned // len(experiments)
    rows = []
    for one, own in taken.items():
        due = n_seeds * sum(kind_of(name) == one for name in experiments)
        each, left = sum(own) / len(own), max(due - len(own), 0)
        said = (
            one,
            f"{len(own)} of {due}",
            format_clock(each),
            format_clock(max(own)),
            format_clock(left * each),
        )
        rows.append([GridCell(text) for text in said])
    titles = (kind, "finished", "time of a run", "longest", "estimated time of the rest, sequentially")
    yield Grid("Times", [GridColumn(title) for title in titles], rows)


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
                f"Not drawn, because runs are missing: {len(undrawn)}", (ParagraphBlock(", ".join(undrawn)),)
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
