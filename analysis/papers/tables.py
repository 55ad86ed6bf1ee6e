"""The tables in the layout of the paper, with each number next to ours at every reporting point, by setting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.papers.comparison import LAST, LEVELS, Comparison, PrintedNumber, experiment_name, table_title
from analysis.papers.curves import baseline_score, reported_epochs, reported_score
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
