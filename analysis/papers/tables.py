"""The tables as the paper lays them out, each number beside ours in every look, setting by setting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.papers.comparison import LAST, LEVELS, Comparison, name_of, table_in_words
from analysis.papers.curves import chosen_epochs, level, score
from analysis.papers.document import Block, Column, Entry, Fold, Grid, Heading, Text
from analysis.papers.published import Printed
from analysis.papers.seeds import PerSeed, Runs, interval, mean
from analysis.papers.verdict import Verdict, agreement

DASH = "–"
DIGITS = 4


def paper_tables(paper: Comparison, runs: Runs) -> Iterator[Block]:
    """Yield every table: a heading, the first setting of which there is a run, and the further ones in folds."""
    for table, title in paper.published.titles.items():
        yield Heading(3, f"{table_in_words(table)}: {title}", table)
        if table in paper.published.notes:
            yield Text(f"The print: {paper.published.notes[table]}.")
        if table not in paper.rows:
            yield _statistics(paper, table, runs)
            continue
        own = [setting for setting in paper.settings if table in paper.tables_in(setting)]
        found = [setting for setting in own if _has_runs(paper, table, setting, runs)]
        for place, setting in enumerate(found or own[:1]):
            grid = _grid(paper, table, setting, runs)
            if place == 0:
                yield Text(f"Setting `{setting}`:")
                yield grid
            else:
                yield Fold(f"Setting {setting}", (grid,))


def measured(values: PerSeed, number: Printed | None = None, *small: str, digits: int = DIGITS) -> Entry:
    """Return a mean over seeds with half of its 95 % interval, and a mark where there is a print to agree with."""
    if not values:
        return Entry(DASH, kind=Verdict.NOT_RUN.word)
    text, half = f"{mean(values):.{digits}f}", interval(values)[1] - mean(values)
    if half > 0:  # NaN with one seed
        text += f" ± {half:.{digits}f}"
    below = (f"n = {len(values)}", *small)
    if number is None:
        return Entry(text, below)
    verdict = agreement(number.band, values)
    return Entry(text, below, mark=verdict.mark, kind=verdict.word)


def epochs_in_words(epochs: Sequence[int], unit: str = "epoch") -> str:
    """Return which epochs, or other units, a look took."""
    low, high = min(epochs), max(epochs)
    return f"{unit} {low}" if low == high else f"{unit}s {low} to {high}"


def _has_runs(paper: Comparison, table: str, setting: str, runs: Runs) -> bool:
    return any(name_of(setting, method) in runs for method in paper.rows[table].values())


def _grid(paper: Comparison, table: str, setting: str, runs: Runs) -> Grid:
    numbers = paper.printed_in(setting, table)
    names = [name_of(setting, method) for method in paper.rows[table].values()]
    looks = [
        look
        for look in paper.looks
        if look == LAST or any(chosen_epochs(paper, runs, name, look) for name in names)
    ]
    rows = [
        [
            Entry(order),
            *(
                field
                for column in paper.metrics
                for field in _level(paper, runs, setting, column, order, looks)
            ),
        ]
        for order in LEVELS
    ]
    for (row, _), name in zip(paper.rows[table].items(), names, strict=True):
        fields = [Entry(row)]
        for column in paper.metrics:
            number = numbers.get((row, column))
            fields.append(Entry(f"{number.value:.5f}" if number else DASH, kind="printed"))
            fields += [_field(paper, runs, name, column, look, number) for look in looks]
        rows.append(fields)
    columns = [Column("method"), *(Column(column, ("print", *looks)) for column in paper.metrics)]
    return Grid(f"{table}, {setting}", columns, rows)


def _level(
    paper: Comparison, runs: Runs, setting: str, column: str, order: str, looks: Sequence[str]
) -> list[Entry]:
    """Return the fields of an order that nobody learns: no print, and the same number at every epoch."""
    return [
        Entry(DASH, kind="printed"),
        measured(level(paper, runs, setting, column, order)),
        *[Entry("")] * (len(looks) - 1),
    ]


def _field(paper: Comparison, runs: Runs, name: str, column: str, look: str, number: Printed | None) -> Entry:
    values = score(paper, runs, name, column, look)
    epochs = [epoch for seed, epoch in chosen_epochs(paper, runs, name, look).items() if seed in values]
    return measured(values, number, *([epochs_in_words(epochs, paper.unit_of(name))] if epochs else []))


def _statistics(paper: Comparison, table: str, runs: Runs) -> Grid:
    """Return the size of the data beside the print."""
    numbers = paper.published.of_table(table).values()
    keys = {"users": "nodes"}
    rows = []
    for number in numbers:
        key = keys.get(number.column, number.column)
        settings = (paper.data[number.row],) if number.row in paper.data else paper.judged
        run = next(
            (run for name in runs if paper.setting_of(name) in settings for run in runs[name].values()), None
        )
        ours = (run.summary or {}).get(key) if run is not None else None
        verdict = agreement(number.band, {} if ours is None else {0: float(ours)})
        shown = Entry(DASH if ours is None else f"{ours:,}", mark=verdict.mark, kind=verdict.word)
        what = f"{number.row}, {number.column}" if paper.data else number.column
        rows.append([Entry(what), Entry(f"{number.value:,}", kind="printed"), shown])
    return Grid(table, [Column("what"), Column("print"), Column("ours")], rows)
