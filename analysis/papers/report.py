"""Reports of studies, from existing runs: what all have in common, and the report of a comparison with tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from analysis.papers.claims import (
    HELD,
    NOT_HELD,
    NOT_MEASURED,
    UNDECIDED,
    ClaimVerdict,
    SettingEvidence,
    claim_blocks,
    count_order_verdicts,
    declared_claims,
    judge_in_settings,
    measured_reporting_points,
    order_tables,
    printed_orders,
)
from analysis.papers.comparison import (
    BEST,
    LAST,
    Comparison,
    baseline_score,
    belongs_to,
    experiment_name,
    reported_epochs,
    reported_score,
)
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
from analysis.papers.study import PaperStudyFile, Scale
from analysis.papers.tables import CSV_HEADER, csv_rows, format_epochs, format_mean, paper_tables
from analysis.papers.verdict import Runs, Verdict
from gossiprec.cli.progress import format_clock_time
from gossiprec.figures.figure_files import Cell, csv_bytes
from gossiprec.runs import Run
from gossiprec.runs.run_files import replace_file

INTERVALS = "± is half of the 95 % interval over seeds (Student's t); a number without ± is from one seed."


def versions_used(runs: Iterable[Run]) -> list[str]:
    """Return the versions of gossiprec, with commits, that made these runs."""
    return sorted({f"{run.manifest.get('gossiprec')} ({_commit(run)})" for run in runs})


def _commit(run: Run) -> str:
    commit = str(run.manifest.get("git_commit") or "no commit")
    return f"{commit[:10]}-dirty" if commit.endswith("-dirty") else commit[:10]


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
    """Yield, per setting, the reference compared with popularity and the paper, and the number of held orders."""
    yield Heading(2, "In short", "short")
    found = [setting for setting in paper.settings if any(belongs_to(name, setting) for name in runs)]
    if not found:
        yield ParagraphBlock("No run is finished.")
        return
    number = " and ".join(
        dict.fromkeys(str(len(printed_orders(paper, setting))) for setting in paper.judged_settings)
    )
    yield ParagraphBlock(
        f"{paper.leading} of the most popular items and of {paper.reference} (printed {_prints(paper)}), and the "
        f"verdicts on the {number} printed orders ([findings](findings.md)): held / not held / undecided. "
        "One seed decides nothing."
    )
    looks = [
        look
        for look in paper.reporting_points
        if any(look in measured_reporting_points(paper, runs, setting) for setting in found)
    ]
    looks = looks or [LAST]
    rows = [[GridCell(setting), *_state(paper, runs, setting, looks)] for setting in found]
    titles = ("popularity", f"{paper.reference}, last epoch", f"{paper.reference} reaches its printed value")
    columns = [
        GridColumn("setting"),
        *(GridColumn(title) for title in titles),
        GridColumn("printed orders", tuple(looks)),
    ]
    yield Grid("In short", columns, rows)


def _prints(paper: Comparison) -> str:
    """Return the printed value of the reference, by setting if it differs between settings."""
    found = {setting: f"{paper.printed_reference(setting):.5f}" for setting in paper.judged_settings}
    if len(set(found.values())) == 1:
        return next(iter(found.values()))
    return ", ".join(f"{value} in {setting}" for setting, value in found.items())


def _state(paper: Comparison, runs: Runs, setting: str, looks: Sequence[str]) -> list[GridCell]:
    reference = experiment_name(setting, paper.rows[paper.main_table(setting)][paper.reference])
    passed = list(reported_epochs(paper, runs, reference, paper.point_at_printed_value).values())
    is_judged = reference in runs and setting in paper.judged_settings
    when = format_epochs(passed, paper.unit) if passed else "never" if is_judged else "–"
    counts = [count_order_verdicts(paper, runs, setting, look) for look in looks]
    return [
        format_mean(baseline_score(paper, runs, setting, paper.leading, "popularity")),
        format_mean(reported_score(paper, runs, reference, paper.leading, LAST)),
        GridCell(when),
        *(
            GridCell(" / ".join(str(own[verdict]) for verdict in (HELD, NOT_HELD, UNDECIDED)))
            if own[NOT_MEASURED] < sum(own.values()) and setting in paper.judged_settings
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
        f"All finished runs together took {format_clock_time(sum(sum(own) for own in taken.values()))}."
    )
    if not taken:
        return
    n_seeds = planned // len(experiments)
    rows = []
    for one, own in taken.items():
        due = n_seeds * sum(kind_of(name) == one for name in experiments)
        each, left = sum(own) / len(own), max(due - len(own), 0)
        texts = (
            one,
            f"{len(own)} of {due}",
            format_clock_time(each),
            format_clock_time(max(own)),
            format_clock_time(left * each),
        )
        rows.append([GridCell(text) for text in texts])
    titles = (kind, "finished", "time of a run", "longest", "estimated time of the rest, sequentially")
    yield Grid("Times", [GridColumn(title) for title in titles], rows)


@dataclass(frozen=True)
class ReportInput:
    """What a report is made of.

    Attributes
    ----------
    runs : mapping
        All finished runs of the whole study, not only the selected ones.
    reasons : mapping of str to str
        Why an experiment has no finished run.
    planned, epochs : int
        Number of runs of the whole study, and epochs of each; 0 epochs if the study has no common number.
    scale : {'full', 'tiny'}
    """

    runs: Runs
    reasons: Mapping[str, str]
    planned: int
    epochs: int = 0
    scale: Scale = "full"

    @property
    def finished(self) -> list[Run]:
        """All finished runs."""
        return [run for seeds in self.runs.values() for run in seeds.values()]

    def opening_paragraph(self, place_progress: Callable[[str], str]) -> ParagraphBlock:
        """Return the first paragraph, given a function that places the sentence on progress into the text."""
        length = f", of {self.epochs} epochs each," if self.epochs else ""
        progress = f"{len(self.finished)} of {self.planned} runs{length} are finished"
        if self.scale == "tiny":
            return ParagraphBlock(
                "**Scale tiny: small synthetic data and short runs, to try the study; no number here says anything "
                f"about the paper.** {progress}."
            )
        versions = versions_used(self.finished)
        by = f", made by gossiprec {', '.join(versions)}" if versions else ""
        return ParagraphBlock(place_progress(f"{progress}{by}."))


Pages = Mapping[str, tuple[str, Sequence[DocumentBlock]]]
"""Title and parts of each page, by the name of its file."""


class StudyReport(ABC):
    """The report of a study: pages, and every number in ``cells.csv``."""

    def write(
        self,
        folder: Path,
        runs: Runs,
        reasons: Mapping[str, str],
        *,
        planned: int,
        epochs: int = 0,
        scale: Scale = "full",
    ) -> list[Path]:
        """Write the pages, their pictures and ``cells.csv``, each file in one step; return the paths of the pages.

        The other parameters are the attributes of :class:`ReportInput`.
        """
        study = ReportInput(runs, reasons, planned, epochs, scale)
        written = write_pages(folder, self.make_pages(study, folder / "figures"))
        replace_file(folder / "cells.csv", csv_bytes(*self.csv_table(study)))
        return written

    @abstractmethod
    def make_pages(self, study: ReportInput, figures: Path) -> Pages:
        """Return the pages of the report, and draw their pictures into the folder `figures`."""

    @abstractmethod
    def csv_table(self, study: ReportInput) -> tuple[Sequence[str], Iterable[Sequence[Cell]]]:
        """Return the header and the rows of ``cells.csv``."""


@dataclass(frozen=True)
class PaperReport(StudyReport):
    """The report of a study that compares methods with a paper's tables.

    Attributes
    ----------
    study : PaperStudyFile
        Its plan has the texts of the report, under ``report``: ``compared`` (the paper and the data, a sentence),
        ``about`` (why there are several settings), ``below`` (remarks), and ``groups`` (what groups of runs are).
    paper : Comparison
    drawings : mapping of str to PaperFigure
    sections : callable
        Maps runs to the sections between figures and times.
    group_of : callable
        Maps an experiment to its group in the table of times.
    claims : mapping of str to callable
        The evidence of claims that the plan cannot declare.
    """

    study: PaperStudyFile
    paper: Comparison
    drawings: Mapping[str, PaperFigure]
    sections: Callable[[Runs], Iterable[DocumentBlock]]
    group_of: Callable[[str], str]
    claims: Mapping[str, SettingEvidence] = field(default_factory=dict)

    def judge_claims(self, runs: Runs) -> list[ClaimVerdict]:
        """Return the verdicts on the claims beyond the tables' orders, in every setting that was run."""
        return judge_in_settings(self.paper, runs, {**declared_claims(self.paper), **self.claims})

    def make_pages(self, study: ReportInput, figures: Path) -> Pages:
        """Return the report and the findings."""
        paper, runs, texts = self.paper, study.runs, self.study.plan["report"]
        pictures = draw_figures(self.drawings, runs, figures)
        opening, looks = study.opening_paragraph(self._opening), describe_reporting_points(paper)
        report: list[DocumentBlock] = [
            opening,
            *overview_blocks(paper, runs),
            _legend(looks),
            Heading(2, "Tables", "tables"),
            *paper_tables(paper, runs),
            *self._figures(pictures),
            *self.sections(runs),
            *run_time_blocks(runs, study.planned, self.study.experiments, texts["groups"], self.group_of),
            *missing_blocks(study.reasons),
        ]
        findings: list[DocumentBlock] = [
            opening,
            ParagraphBlock(looks),
            ParagraphBlock(INTERVALS),
            *order_tables(paper, runs),
            *claim_blocks(self.judge_claims(runs)),
        ]
        return {
            "report": (f"The {paper.title} study", report),
            "findings": (f"Findings of the {paper.title} study", findings),
        }

    def csv_table(self, study: ReportInput) -> tuple[Sequence[str], Iterable[Sequence[Cell]]]:
        """Return the numbers of all tables."""
        return CSV_HEADER, csv_rows(self.paper, study.runs)

    def _opening(self, progress: str) -> str:
        texts = self.study.plan["report"]
        settings = "\n".join(f"- `{setting}`: {words}." for setting, words in self.paper.settings.items())
        return f"{texts['compared']} {progress} {texts['about']}\n\n{settings}\n\n{texts['below']}"

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
        f"*{LAST}*: the same for all. *{paper.point_at_printed_value}*: the first {paper.unit} at which "
        f"{reference} reaches its printed {paper.leading}, equal for all methods of a seed; the printed numbers may be "
        f"of this {paper.unit}. "
        f"*{BEST}*: the best of each run, by {paper.leading} on the items kept for validation."
    )


def _legend(looks: str) -> ParagraphBlock:
    marks = "; ".join(
        f"{one.mark} *{one.word}*: {one.meaning}" for one in Verdict if one is not Verdict.UNJUDGED
    )
    return ParagraphBlock(f"{looks}\n\n{marks}; the band is ± 15 % of the printed number. {INTERVALS}")
