"""Tables of studies: in a paper's layout with ours next to it, by setting; of summaries; of the price of federation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.papers.comparison import (
    BEST,
    LAST,
    LEVELS,
    Comparison,
    PrintedNumber,
    SummaryColumns,
    baseline_score,
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
    Heading,
    ParagraphBlock,
)
from analysis.papers.verdict import PerSeed, Runs, Verdict, format_mean_text, judge_agreement
from gossiprec.figures.figure_files import Cell

DASH = "–"
DIGITS = 4


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
        found = [setting for setting in own if _has_runs(paper, table, setting, runs)]
        for place, setting in enumerate(found or own[:1]):
            grid = _grid(paper, table, setting, runs)
            if place == 0:
                yield ParagraphBlock(f"Setting `{setting}`:")
                yield grid
            else:
                yield Collapsible(f"Setting {setting}", (grid,))


def format_mean(
    values: PerSeed, number: PrintedNumber | None = None, *small: str, digits: int = DIGITS
) -> GridCell:
    """Return a mean over seeds with half of its 95 % interval, and a mark if there is a printed number."""
    if not values:
        return GridCell(DASH, kind=Verdict.NOT_RUN.word)
    text = format_mean_text(values, digits)
    below = (f"n = {len(values)}", *small)
    if number is None:
        return GridCell(text, below)
    verdict = judge_agreement(number.band, values)
    return GridCell(text, below, mark=verdict.mark, kind=verdict.word)


def format_epochs(epochs: Sequence[int], unit: str = "epoch") -> str:
    """Return the epochs, or other units, of a reporting point as text."""
    low, high = min(epochs), max(epochs)
    return f"{unit} {low}" if low == high else f"{unit}s {low} to {high}"


def _has_runs(paper: Comparison, table: str, setting: str, runs: Runs) -> bool:
    return any(experiment_name(setting, method) in runs for method in paper.rows[table].values())


def _grid(paper: Comparison, table: str, setting: str, runs: Runs) -> Grid:
    numbers = paper.printed_numbers_in(setting, table)
    names = [experiment_name(setting, method) for method in paper.rows[table].values()]
    looks = [
        look
        for look in paper.reporting_points
        if look == LAST or any(reported_epochs(paper, runs, name, look) for name in names)
    ]
    rows = [
        [
            GridCell(order),
            *(
                field
                for column in paper.metrics
                for field in _level(paper, runs, setting, column, order, looks)
            ),
        ]
        for order in LEVELS
    ]
    for (row, _), name in zip(paper.rows[table].items(), names, strict=True):
        fields = [GridCell(row)]
        for column in paper.metrics:
            number = numbers.get((row, column))
            fields.append(GridCell(f"{number.value:.5f}" if number else DASH, kind="printed"))
            fields += [_field(paper, runs, name, column, look, number) for look in looks]
        rows.append(fields)
    columns = [GridColumn("method"), *(GridColumn(column, ("printed", *looks)) for column in paper.metrics)]
    return Grid(f"{table}, {setting}", columns, rows)


def _level(
    paper: Comparison, runs: Runs, setting: str, column: str, order: str, looks: Sequence[str]
) -> list[GridCell]:
    """Return the fields of an order without training: no printed number, and the same value at every epoch."""
    return [
        GridCell(DASH, kind="printed"),
        format_mean(baseline_score(paper, runs, setting, column, order)),
        *[GridCell("")] * (len(looks) - 1),
    ]


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
    rows = []
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
        rows.append([GridCell(quantity), GridCell(f"{number.value:,}", kind="printed"), shown])
    return Grid(table, [GridColumn("quantity"), GridColumn("printed"), GridColumn("ours")], rows)


CSV_HEADER = (
    "table",
    "row",
    "column",
    "published",
    "setting",
    "experiment",
    "look",
    "seed",
    "epoch",
    "measured",
)


def csv_rows(paper: Comparison, runs: Runs) -> Iterator[list[Cell]]:
    """Yield a row per table, setting, reporting point and seed; unprinted rows have no published number."""
    for table, rows in paper.rows.items():
        for row, method in rows.items():
            for column in paper.metrics:
                for setting in paper.settings:
                    if table not in paper.tables_of_setting(setting):
                        continue
                    number = paper.printed_numbers_in(setting, table).get((row, column))
                    experiment = experiment_name(setting, method)
                    about: list[Cell] = [
                        table,
                        row,
                        column,
                        number.value if number else None,
                        setting,
                        experiment,
                    ]
                    for look in paper.reporting_points:
                        epochs = reported_epochs(paper, runs, experiment, look)
                        for seed, value in reported_score(paper, runs, experiment, column, look).items():
                            yield [*about, look, seed, epochs[seed], value]


Rows = Iterable[Sequence[GridCell]]


def setting_tables(
    title: str,
    name: str,
    about: str,
    columns: Iterable[GridColumn | str],
    rows: Mapping[str, Rows],
    heads: int = 1,
) -> Iterator[DocumentBlock]:
    """Yield a section with a table per setting that has rows; nothing if none has.

    Parameters
    ----------
    title, name : str
        Title of the section, and the name of its link.
    about : str
        The explanation above the tables.
    columns : iterable of GridColumn or str
    rows : mapping of str to iterable
        Rows by setting.
    heads : int
        Number of first columns that are row headings.
    """
    found = {setting: own for setting, some in rows.items() if (own := list(some))}
    titles = [GridColumn(column) if isinstance(column, str) else column for column in columns]
    if found:
        yield Heading(2, title, name)
        yield ParagraphBlock(about)
    for setting, own in found.items():
        yield Heading(3, f"Setting {setting}", f"{name}-{setting}")
        yield Grid(f"{title}, {setting}", titles, own, heads)


def summary_cells(numbers: SummaryColumns, runs: Runs, experiment: str) -> list[GridCell]:
    """Return the fields of an experiment's row: its numbers from summaries."""
    return [
        format_mean(
            numbers.values_by_seed(runs, experiment, column), digits=numbers.digits.get(column, DIGITS)
        )
        for column in numbers.columns
    ]


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
    rows_in : callable
        Maps a setting to its federated rows.
    """

    paper: Comparison
    rows_in: Callable[[str], Iterable[FederatedRow]]

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

    def tables(self, runs: Runs, shown: Iterable[str], **heading: Any) -> Iterator[DocumentBlock]:
        """Yield a table per setting with runs: the shown metrics of both rows, and the utility kept.

        `heading` has the title, the name and the explanation of the section.
        """
        shown = tuple(shown)
        parts = ("federated", "centralised", "kept, %", "kept as published, %")
        columns: list[GridColumn | str] = [
            "row",
            "centralised row",
            "best is last",
            *(GridColumn(column, parts) for column in shown),
        ]
        rows = {
            setting: [
                self._line(runs, setting, row, shown)
                for row in self.rows_in(setting)
                if row.experiment in runs
            ]
            for setting in self.paper.settings
        }
        yield from setting_tables(columns=columns, rows=rows, heads=2, **heading)

    def _line(self, runs: Runs, setting: str, row: FederatedRow, shown: Sequence[str]) -> list[GridCell]:
        is_last = "no" if has_converged(self.paper, runs, row.experiment) else "yes"
        fields = [GridCell(row.row), GridCell(row.central_row), GridCell(is_last)]
        for column in shown:
            fields += [
                format_mean(reported_score(self.paper, runs, one, column, BEST))
                for one in (row.experiment, row.central)
            ]
            kept = self.kept_utility(runs, row, column)
            fields.append(format_mean(kept, digits=0) if kept else GridCell(DASH, kind=Verdict.NOT_RUN.word))
            fields.append(GridCell(f"{self.printed_kept_utility(setting, row, column):.0f}", kind="printed"))
        return fields
