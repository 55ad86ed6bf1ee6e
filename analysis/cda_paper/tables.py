"""The tables as the paper lays them out: its rows and columns, each printed number beside ours with a verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from analysis.cda_paper.cells import COLUMNS, NO_GOWALLA_TABLE
from analysis.cda_paper.published import notes, printed, titles
from analysis.cda_paper.rule_tables import heads_of, row_names, rule_table
from analysis.cda_paper.verdicts import Group, Result, counts
from analysis.cda_paper.wording import (
    DASH,
    dataset_in_words,
    measured_entry,
    printed_entry,
    table_in_words,
)
from analysis.papers.document import Block, Column, Entry, Fold, Grid, Heading, Text
from analysis.papers.seeds import Runs
from analysis.papers.verdict import Verdict

_SETTING = Column("setting; rule")
Picked = Sequence[tuple[Group, Result]]
"""Numbers of a table, each with the result that is shown."""


def paper_tables(found: Sequence[Group], runs: Runs) -> list[Block]:
    """Return every table: a heading, the setting compared first, and the further ones in folds."""
    blocks: list[Block] = []
    for name, title in titles().items():
        own = [group for group in found if group.printed.table == name]
        if not own:
            continue
        blocks.append(Heading(3, f"{table_in_words(name)}: {title}{_one_dataset(own)}", name))
        if name == "text":
            every = [(group, result) for group in own for result in group.results]
            blocks += [_text(own), *_remarks(name, own, every)]
            continue
        first = [(group, group.shown) for group in own]
        blocks += [_grid(table_in_words(name), own, first, hints=True), *_remarks(name, own, first)]
        blocks += _folds(table_in_words(name), own, runs)
    return blocks


def _one_dataset(own: Sequence[Group]) -> str:
    """Return the name of the data set, where a table has only one."""
    datasets = {group.printed.dataset for group in own}
    return f" ({dataset_in_words(datasets.pop())})" if len(datasets) == 1 else ""


def _folds(title: str, own: Sequence[Group], runs: Runs) -> Iterator[Fold]:
    """Yield a fold for each further setting that was run, with what is said of it alone, and one for the rules."""
    for setting, picked in _further(own).items():
        if any(result.values for _, result in picked):
            blocks: list[Block] = [_grid(f"{title}: {setting}", own, picked)]
            own_notes = dict.fromkeys(note for group, result in picked for note in _only(group, result))
            if own_notes:
                blocks.append(Text("\n".join(f"- {note}" for note in own_notes)))
            yield Fold(f"Further setting: {setting}: {_tally(picked)}", blocks)
    by_rule = rule_table(title, own, runs)
    if by_rule.rows:
        yield Fold("Under each relevance rule, and beside guessing", (by_rule,))


def _tally(picked: Picked) -> str:
    """Return how many printed numbers have each verdict, by its mark."""
    found = counts(result for group, result in picked if group.printed in printed())
    told = (f"{verdict.mark} {count}" for verdict, count in zip(Verdict, found, strict=True) if count)
    return " ".join(told) or "nothing printed"


def _only(group: Group, result: Result) -> list[str]:
    """Return what is said of a result and not of the one shown first."""
    said = group.shown.cell.note.splitlines()
    return [note for note in result.cell.note.splitlines() if note not in said]


def _further(own: Sequence[Group]) -> dict[str, list[tuple[Group, Result]]]:
    """Return the results that are not shown first, by their settings."""
    found: dict[str, list[tuple[Group, Result]]] = {}
    for group in own:
        for result in group.results:
            if result is not group.shown:
                found.setdefault(result.setting, []).append((group, result))
    return found


def _grid(label: str, own: Sequence[Group], picked: Picked, *, hints: bool = False) -> Grid:
    """Return the paper's rows and columns with one result in each field.

    Parameters
    ----------
    label : str
    own : sequence of Group
        All numbers of the table: they say which columns there are.
    picked : sequence of (Group, Result)
    hints : bool
        Whether a field says which other setting comes nearer.
    """
    columns = dict.fromkeys(group.printed.column for group in own)
    is_printed = {group.printed.column for group in own if group.printed in printed()}
    rows: dict[tuple[str, str], dict[str, tuple[Group, Result]]] = {}
    for group, result in picked:
        place = (group.printed.dataset, group.printed.row)
        rows.setdefault(place, {})[group.printed.column] = (group, result)
    heads, has_settings = heads_of(own), any(result.setting for _, result in picked)
    lines = []
    for place, fields in rows.items():
        setting = next((r.setting for _, r in fields.values() if r.setting), "")
        line = [Entry(words) for words in row_names(*place, heads)]
        for column in columns:
            line += _field(fields.get(column), setting, is_printed=column in is_printed, hints=hints)
        lines.append([*line, *([Entry(setting)] if has_settings else [])])
    titles = [
        Column(COLUMNS.get(column, column), ("print", "ours") if column in is_printed else ("ours",))
        for column in columns
    ]
    last = [_SETTING] if has_settings else []
    return Grid(label, [*(Column(head) for head in heads), *titles, *last], lines, len(heads))


def _field(
    picked: tuple[Group, Result] | None, setting: str, *, is_printed: bool, hints: bool
) -> list[Entry]:
    if picked is None:
        return [Entry(DASH)] * (1 + is_printed)
    group, result = picked
    small = [result.setting] if result.setting not in ("", setting) else []
    if hints and is_printed and group.best.verdict < result.verdict:
        small.append(f"{group.best.verdict.mark} with {group.best.setting}")
    ours = measured_entry(result, *small, has_verdict=is_printed)
    return [printed_entry(group.printed), ours] if is_printed else [ours]


def _text(own: Sequence[Group]) -> Grid:
    """Return a table with a line for each reading of a number in the text."""
    columns = [Column(title) for title in ("where", "what", "print", "ours", "reading; rule")]
    rows = []
    for group in own:
        number = group.printed
        for place, result in enumerate(group.results):
            what = Entry(number.column, (number.note,) if number.note else ())
            about = [Entry(number.dataset), what, printed_entry(number)]
            ours = [measured_entry(result), Entry(result.cell.why_not or result.setting)]
            rows.append([*(about if place == 0 else [Entry("")] * 3), *ours])
    return Grid(table_in_words("text"), columns, rows)


def _remarks(name: str, own: Sequence[Group], picked: Picked) -> list[Text]:
    """Return what is said of the print, and of the results that are shown: each remark once, with its rows."""
    of_row: dict[str, dict[str, None]] = {}
    for group, result in picked:
        for note in result.cell.note.splitlines():
            of_row.setdefault(note, {})[_row(group, own)] = None
    every = {_row(group, own) for group in own}
    lines = [f"- The print: {notes()[name]}"] if name in notes() else []
    lines += [f"- {_begin(rows, every)}{note}" for note, rows in of_row.items()]
    lines += [
        f"- {dataset_in_words(dataset)}: {NO_GOWALLA_TABLE}"
        for dataset in dict.fromkeys(group.printed.dataset for group in own if group.printed.value == "")
    ]
    return [Text("\n".join(lines))] if lines else []


def _row(group: Group, own: Sequence[Group]) -> str:
    number = group.printed
    if number.table == "text":
        return number.dataset
    return " ".join(row_names(number.dataset, number.row, heads_of(own)))


def _begin(rows: Mapping[str, None], every: set[str]) -> str:
    """Return which rows a remark is about; nothing if it is about all."""
    return "" if rows.keys() == every else f"{', '.join(rows)}: "
