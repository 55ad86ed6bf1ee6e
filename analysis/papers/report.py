"""Tables and reports of studies, from existing runs: common parts, and the comparison with a paper's tables."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from analysis.papers import claims
from analysis.papers.claims import HELD, NOT_HELD, UNDECIDED, ClaimVerdict, SettingEvidence
from analysis.papers.comparison import (
    BEST,
    LAST,
    LEVELS,
    Comparison,
    PrintedNumber,
    baseline_score,
    belongs_to,
    experiment_name,
    has_converged,
    reported_epochs,
    reported_score,
    table_title,
)
from analysis.papers.document import (
    Collapsible,
    DocumentBlock,
    Grid,
    GridCell,
    GridColumn,
    GridRow,
    Heading,
    ImageBlock,
    ParagraphBlock,
    make_grid,
    write_pages,
)
from analysis.papers.figures import PaperFigure, draw_figures
from analysis.papers.study import PaperStudyFile, Scale
from analysis.papers.verdict import PerSeed, Runs, Verdict, format_mean_text, judge_agreement
from gossiprec.cli.progress import format_clock_time
from gossiprec.figures.figure_files import Cell, csv_bytes
from gossiprec.runs import Run
from gossiprec.runs.run_files import replace_file

DASH = "–"
DIGITS = 4
INTERVALS = "± is half of the 95 % interval over seeds (Student's t); a number without ± is from one seed."


def dash_cell(why: str = "") -> GridCell:
    """Return the field of a number without runs, with the reason in small print."""
    return GridCell(DASH, (why,) if why else (), kind=Verdict.NOT_RUN.word)


def mean_cell(values: PerSeed, digits: int, *small: str, why: str = "") -> GridCell:
    """Return a mean over seeds with half of its 95 % interval; without values a dash and the reason."""
    return GridCell(format_mean_text(values, digits), small) if values else dash_cell(why)


def format_mean(
    values: PerSeed, number: PrintedNumber | None = None, *small: str, digits: int = DIGITS
) -> GridCell:
    """Return the field of a mean with its number of seeds, and a mark if there is a printed number."""
    below = (f"n = {len(values)}", *small)
    if number is None or not values:
        return mean_cell(values, digits, *below)
    verdict = judge_agreement(number.band, values)
    return GridCell(format_mean_text(values, digits), below, mark=verdict.mark, kind=verdict.word)


def format_epochs(epochs: Sequence[int], unit: str = "epoch") -> str:
    """Return the epochs, or other units, of a reporting point as text."""
    low, high = min(epochs), max(epochs)
    return f"{unit} {low}" if low == high else f"{unit}s {low} to {high}"


def paper_tables(paper: Comparison, runs: Runs) -> Iterator[DocumentBlock]:
    """Yield every table: a heading, the first setting with a run, and the others in collapsible parts."""
    for table, title in paper.published.titles.items():
        yield Heading(3, f"{table_title(table)}: {title}", table)
        if table in paper.published.notes:
            yield ParagraphBlock(f"As published: {paper.published.notes[table]}.")
        if table not in paper.rows:
            yield _statistics(paper, table, runs)
            continue
        own = [setting for setting in paper.settings if table in paper.tables_of_setting(setting)]
        methods = paper.rows[table].values()
        found = [
            setting for setting in own if any(experiment_name(setting, method) in runs for method in methods)
        ]
        first, *others = found or own[:1]
        yield ParagraphBlock(f"Setting `{first}`:")
        yield _table(paper, table, first, runs)
        for setting in others:
            yield Collapsible(f"Setting {setting}", (_table(paper, table, setting, runs),))


def _table(paper: Comparison, table: str, setting: str, runs: Runs) -> Grid:
    """Return a table in a setting: the orders without training, then the rows of the paper."""
    numbers = paper.printed_numbers_in(setting, table)
    names = {row: experiment_name(setting, method) for row, method in paper.rows[table].items()}
    looks = [
        look
        for look in paper.reporting_points
        if look == LAST or any(reported_epochs(paper, runs, name, look) for name in names.values())
    ]
    rows: list[GridRow] = []
    for order in LEVELS:  # no printed number, and the same value at every epoch
        rows.append([order])
        for column in paper.metrics:
            level = format_mean(baseline_score(paper, runs, setting, column, order))
            rows[-1] += [GridCell(DASH, kind="printed"), level, *[""] * (len(looks) - 1)]
    for row, name in names.items():
        rows.append([row])
        for column in paper.metrics:
            number = numbers.get((row, column))
            rows[-1].append(GridCell(f"{number.value:.5f}" if number else DASH, kind="printed"))
            rows[-1] += [_field(paper, runs, name, column, look, number) for look in looks]
    columns = [GridColumn(column, ("printed", *looks)) for column in paper.metrics]
    return make_grid(f"{table}, {setting}", ["method", *columns], rows)


def _field(
    paper: Comparison, runs: Runs, name: str, column: str, look: str, number: PrintedNumber | None
) -> GridCell:
    values = reported_score(paper, runs, name, column, look)
    epochs = [epoch for seed, epoch in reported_epochs(paper, runs, name, look).items() if seed in values]
    return format_mean(values, number, *([format_epochs(epochs, paper.unit_of(name))] if epochs else []))


def _statistics(paper: Comparison, table: str, runs: Runs) -> Grid:
    """Return the size of the data next to the printed size."""
    numbers = paper.published.numbers_of_table(table).values()
    keys = {"users": "nodes"}
    rows: list[GridRow] = []
    for number in numbers:
        key = keys.get(number.column, number.column)
        settings = (paper.data[number.row],) if number.row in paper.data else paper.judged_settings
        run = next(
            (run for name in runs if paper.setting_of(name) in settings for run in runs[name].values()), None
        )
        ours = (run.summary or {}).get(key) if run is not None else None
        verdict = judge_agreement(number.band, {} if ours is None else {0: float(ours)})
        shown = GridCell(DASH if ours is None else f"{ours:,}", mark=verdict.mark, kind=verdict.word)
        quantity = f"{number.row}, {number.column}" if paper.data else number.column
        rows.append([quantity, GridCell(f"{number.value:,}", kind="printed"), shown])
    return make_grid(table, ("quantity", "printed", "ours"), rows)


def setting_tables(
    title: str,
    name: str,
    about: str,
    columns: Sequence[GridColumn | str],
    rows: Mapping[str, Iterable[Sequence[GridCell | str]]],
    heads: int = 1,
) -> Iterator[DocumentBlock]:
    """Yield a section with a table per setting that has rows; nothing if none has.

    Parameters
    ----------
    title, name : str
        Title of the section, and the name of its link.
    about : str
        The explanation above the tables.
    columns : sequence of GridColumn or str
    rows : mapping of str to iterable
        Rows by setting.
    heads : int
        Number of first columns that are row headings.
    """
    found = {setting: own for setting, some in rows.items() if (own := list(some))}
    if found:
        yield Heading(2, title, name)
        yield ParagraphBlock(about)
    for setting, own in found.items():
        yield Heading(3, f"Setting {setting}", f"{name}-{setting}")
        yield make_grid(f"{title}, {setting}", columns, own, heads)


def leakage_tables(
    paper: Comparison,
    runs: Runs,
    labels: Sequence[str],
    utility: Sequence[str],
    rows: Callable[[str], Iterable[Sequence[str]]],
) -> Iterator[DocumentBlock]:
    """Yield, per setting, utility at the last report and the numbers of summaries about leakage.

    Parameters
    ----------
    paper : Comparison
    runs : mapping
    labels : sequence of str
        Titles of the labels of a row.
    utility : sequence of str
        The metrics shown.
    rows : callable
        Maps a setting to rows: the labels, and the method at the end.
    """
    found: dict[str, list[GridRow]] = {}
    for setting in paper.settings:
        for *own, method in rows(setting):
            name = experiment_name(setting, method)
            scores = (reported_score(paper, runs, name, column, LAST) for column in utility)
            leaks = (
                format_mean(
                    paper.leakage.values_by_seed(runs, name, column),
                    digits=paper.leakage.digits.get(column, DIGITS),
                )
                for column in paper.leakage.columns
            )
            if name in runs:
                found.setdefault(setting, []).append([*own, *map(format_mean, scores), *leaks])
    titles = (*labels, *utility, *paper.leakage.columns)
    yield from setting_tables("Leakage of uploads", "leaks", paper.leakage.about, titles, found, len(labels))


@dataclass(frozen=True)
class FederatedRow:
    """A federated row of a table and the centralised row of the same model, each with its experiment."""

    row: str
    experiment: str
    central_row: str
    central: str


@dataclass(frozen=True)
class FederationPrice:
    """Federated rows compared with centralised rows of the same model, each at its best validation report.

    Attributes
    ----------
    paper : Comparison
    title, name, about : str
        Title, name and explanation of the section.
    columns : sequence of str
        The metrics shown.
    rows : mapping of str to str
        The centralised row by federated row of the main table.
    setting : str
        The setting of centralised rows, if it is not that of the federated ones.
    """

    paper: Comparison
    title: str
    name: str
    about: str
    columns: Sequence[str]
    rows: Mapping[str, str]
    setting: str = ""

    def rows_in(self, setting: str) -> Iterator[FederatedRow]:
        """Yield every federated row of a setting, next to the centralised row of its model."""
        methods = self.paper.rows[self.paper.main_table(setting)]
        for row, central in self.rows.items():
            names = experiment_name(setting, methods[row]), self.central_experiment(setting, central)
            yield FederatedRow(row, names[0], central, names[1])

    def central_experiment(self, setting: str, row: str) -> str:
        """Return the experiment of a centralised row."""
        return experiment_name(self.setting or setting, self.paper.rows[self.paper.main_table(setting)][row])

    def kept_utility(self, runs: Runs, row: FederatedRow, column: str) -> PerSeed:
        """Return the utility of a federated row in percent of the centralised row's, by seed."""
        ours, central = (
            reported_score(self.paper, runs, one, column, BEST) for one in (row.experiment, row.central)
        )
        return {seed: 100 * value / central[seed] for seed, value in ours.items() if central.get(seed)}

    def printed_kept_utility(self, setting: str, row: FederatedRow, column: str) -> float:
        """Return the printed utility of a federated row in percent of the centralised row's."""
        table = self.paper.main_table(setting)
        ours, central = (
            self.paper.published.printed_value(table, one, column) for one in (row.row, row.central_row)
        )
        return 100 * ours / central

    def tables(self, runs: Runs) -> Iterator[DocumentBlock]:
        """Yield a table per setting with runs: the shown metrics of both rows, and the utility kept."""
        parts = ("federated", "centralised", "kept, %", "kept as published, %")
        columns: list[GridColumn | str] = ["row", "centralised row", "best is last"]
        columns += [GridColumn(column, parts) for column in self.columns]
        lines: dict[str, list[GridRow]] = {}
        for setting in self.paper.settings:
            for row in self.rows_in(setting):
                if row.experiment in runs:
                    lines.setdefault(setting, []).append(self._line(runs, setting, row))
        yield from setting_tables(self.title, self.name, self.about, columns, lines, heads=2)

    def _line(self, runs: Runs, setting: str, row: FederatedRow) -> GridRow:
        is_last = "no" if has_converged(self.paper, runs, row.experiment) else "yes"
        fields: GridRow = [row.row, row.central_row, is_last]
        for column in self.columns:
            for experiment in (row.experiment, row.central):
                fields.append(format_mean(reported_score(self.paper, runs, experiment, column, BEST)))
            fields.append(format_mean(self.kept_utility(runs, row, column), digits=0))
            fields.append(GridCell(f"{self.printed_kept_utility(setting, row, column):.0f}", kind="printed"))
        return fields


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
    rows = [[reason, ", ".join(names)] for reason, names in found.items()]
    yield make_grid("Missing", ("why", "experiments without a finished run"), rows)


def overview_blocks(paper: Comparison, runs: Runs) -> Iterator[DocumentBlock]:
    """Yield, per setting, the reference compared with popularity and the paper, and the number of held orders."""
    yield Heading(2, "In short", "short")
    found = [setting for setting in paper.settings if any(belongs_to(name, setting) for name in runs)]
    if not found:
        yield ParagraphBlock("No run is finished.")
        return
    number = " and ".join(
        dict.fromkeys(str(len(claims.printed_orders(paper, setting))) for setting in paper.judged_settings)
    )
    yield ParagraphBlock(
        f"{paper.leading} of the most popular items and of {paper.reference} (printed {_prints(paper)}), and the "
        f"verdicts on the {number} printed orders ([findings](findings.md)): held / not held / undecided. "
        "One seed decides nothing."
    )
    margins = {setting: claims.order_margins(paper, runs, setting) for setting in found}
    looks = [look for look in paper.reporting_points if any(look in by_look for by_look in margins.values())]
    looks = looks or [LAST]
    titles = ("popularity", f"{paper.reference}, last epoch", f"{paper.reference} reaches its printed value")
    columns = ("setting", *titles, GridColumn("printed orders", tuple(looks)))
    rows = [
        [setting, *_reference_fields(paper, runs, setting), *_order_fields(paper, setting, by_look, looks)]
        for setting, by_look in margins.items()
    ]
    yield make_grid("In short", columns, rows)


def _prints(paper: Comparison) -> str:
    """Return the printed value of the reference, by setting if it differs between settings."""
    found = {setting: f"{paper.printed_reference(setting):.5f}" for setting in paper.judged_settings}
    if len(set(found.values())) == 1:
        return next(iter(found.values()))
    return ", ".join(f"{value} in {setting}" for setting, value in found.items())


def _reference_fields(paper: Comparison, runs: Runs, setting: str) -> GridRow:
    reference = experiment_name(setting, paper.rows[paper.main_table(setting)][paper.reference])
    passed = list(reported_epochs(paper, runs, reference, paper.point_at_printed_value).values())
    is_judged = reference in runs and setting in paper.judged_settings
    return [
        format_mean(baseline_score(paper, runs, setting, paper.leading, "popularity")),
        format_mean(reported_score(paper, runs, reference, paper.leading, LAST)),
        format_epochs(passed, paper.unit) if passed else "never" if is_judged else DASH,
    ]


def _order_fields(
    paper: Comparison, setting: str, by_look: claims.OrderMargins, looks: Sequence[str]
) -> Iterator[GridCell | str]:
    for look in looks:
        if setting in paper.judged_settings and look in by_look:
            counts = claims.count_verdicts(by_look[look].values())
            yield " / ".join(str(counts[verdict]) for verdict in (HELD, NOT_HELD, UNDECIDED))
        else:
            yield dash_cell()


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
        clocks = (format_clock_time(seconds) for seconds in (each, max(own), left * each))
        rows.append((one, f"{len(own)} of {due}", *clocks))
    titles = (kind, "finished", "time of a run", "longest", "estimated time of the rest, sequentially")
    yield make_grid("Times", titles, rows)


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

    def opening_paragraph(self, text: str) -> ParagraphBlock:
        """Return the first paragraph, with a sentence on progress in place of ``{progress}``."""
        length = f", of {self.epochs} epochs each," if self.epochs else ""
        progress = f"{len(self.finished)} of {self.planned} runs{length} are finished"
        if self.scale == "tiny":
            return ParagraphBlock(
                "**Scale tiny: small synthetic data and short runs, to try the study; no number here says anything "
                f"about the paper.** {progress}."
            )
        versions = versions_used(self.finished)
        by = f", made by gossiprec {', '.join(versions)}" if versions else ""
        return ParagraphBlock(text.replace("{progress}", f"{progress}{by}."))


Pages = Mapping[str, tuple[str, Sequence[DocumentBlock]]]
"""Title and parts of each page, by the name of its file."""


class StudyReport(ABC):
    """The report of a study: pages, and every number in ``cells.csv``.

    Attributes
    ----------
    csv_header : tuple of str
        The columns of ``cells.csv``.
    """

    csv_header: ClassVar[tuple[str, ...]]

    def write(self, folder: Path, runs: Runs, reasons: Mapping[str, str], **about: Any) -> list[Path]:
        """Write the pages, their pictures and ``cells.csv``, each file in one step; return the paths of the pages.

        `about` has the other attributes of :class:`ReportInput`.
        """
        study = ReportInput(runs, reasons, **about)
        written = write_pages(folder, self.make_pages(study, folder / "figures"))
        replace_file(folder / "cells.csv", csv_bytes(self.csv_header, self.csv_rows(study)))
        return written

    @abstractmethod
    def make_pages(self, study: ReportInput, figures: Path) -> Pages:
        """Return the pages of the report, and draw their pictures into the folder `figures`."""

    @abstractmethod
    def csv_rows(self, study: ReportInput) -> Iterator[Sequence[Cell]]:
        """Yield the rows of ``cells.csv``."""


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

    csv_header = (
        *("table", "row", "column", "published", "setting"),
        *("experiment", "look", "seed", "epoch", "measured"),
    )

    def judge_claims(self, runs: Runs) -> list[ClaimVerdict]:
        """Return the verdicts on the claims beyond the tables' orders, in every setting that was run."""
        return claims.judge_in_settings(
            self.paper, runs, {**claims.declared_claims(self.paper), **self.claims}
        )

    def make_pages(self, study: ReportInput, figures: Path) -> Pages:
        """Return the report and the findings."""
        paper, runs, texts = self.paper, study.runs, self.study.plan["report"]
        pictures = draw_figures(self.drawings, runs, figures)
        opening, looks = study.opening_paragraph(self._opening()), describe_reporting_points(paper)
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
            *claims.order_tables(paper, runs),
            *claims.claim_blocks(self.judge_claims(runs)),
        ]
        return {
            "report": (f"The {paper.title} study", report),
            "findings": (f"Findings of the {paper.title} study", findings),
        }

    def csv_rows(self, study: ReportInput) -> Iterator[Sequence[Cell]]:
        """Yield a row per table, setting, reporting point and seed; unprinted rows have no published number."""
        paper = self.paper
        labels = [
            (table, row, column, setting)
            for table, rows in paper.rows.items()
            for row, column, setting in itertools.product(rows, paper.metrics, paper.settings)
            if table in paper.tables_of_setting(setting)
        ]
        for table, row, column, setting in labels:
            number = paper.printed_numbers_in(setting, table).get((row, column))
            name = experiment_name(setting, paper.rows[table][row])
            about = (table, row, column, number.value if number else None, setting, name)
            for look in paper.reporting_points:
                epochs = reported_epochs(paper, study.runs, name, look)
                for seed, value in reported_score(paper, study.runs, name, column, look).items():
                    yield [*about, look, seed, epochs[seed], value]

    def _opening(self) -> str:
        texts = self.study.plan["report"]
        settings = "\n".join(f"- `{setting}`: {words}." for setting, words in self.paper.settings.items())
        return f"{texts['compared']} {{progress}} {texts['about']}\n\n{settings}\n\n{texts['below']}"

    def _figures(self, pictures: Mapping[str, Sequence[Path]]) -> Iterator[DocumentBlock]:
        """Yield the figures of each setting, the first setting's in view and the others collapsed."""
        yield Heading(2, "Figures", "figures")
        undrawn = [name for name in self.drawings if name not in pictures]
        drawn: dict[str, list[ImageBlock]] = {setting: [] for setting in self.paper.settings}
        for name in pictures:
            drawing = self.drawings[name]
            image = ImageBlock(f"figures/{name}.svg", drawing.caption, f"figures/{name}.csv")
            drawn[drawing.setting].append(image)
        first, *others = [(setting, own) for setting, own in drawn.items() if own] or [("", [])]
        yield from first[1]
        for setting, own in others:
            yield Collapsible(f"Setting {setting}: {len(own)} figures", own)
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
