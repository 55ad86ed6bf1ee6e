"""The tables as the paper lays them out: its rows and columns, each printed number beside ours with a verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from analysis.cda_paper.cells import COLUMNS, NO_GOWALLA_TABLE
from analysis.cda_paper.document import Block, Column, Entry, Fold, Grid, Heading, Text
from analysis.cda_paper.measures import RULES, Runs, mean
from analysis.cda_paper.published import notes, printed, titles
from analysis.cda_paper.verdicts import Group, Result
from analysis.cda_paper.wording import (
    DASH,
    dataset_in_words,
    measured_entry,
    measured_in_words,
    printed_entry,
    printed_in_words,
    row_in_words,
    table_in_words,
)

PRINTED_RANDOM = {"movielens-100k": 5.3, "foursquare-nyc": 3.6}
"""Random bounds of Tables 4 and 5, percent."""
_SETTING = Column("setting; rule")
Picked = Sequence[tuple[Group, Result]]
"""Numbers of a table, each with the result that is shown."""


def paper_tables(found: Sequence[Group], runs: Runs) -> list[Block]:
    """Return every table: a heading, the setting compared first, and the further ones in folds."""
    blocks: list[Block] = []
    for name, title in titles().items():
        own = [group for group in found if group.printed.table == name]
        blocks.append(Heading(3, f"{table_in_words(name)}: {title}{_one_dataset(own)}", name))
        if name == "text":
            blocks += [_text(own), *_remarks(name, own)]
            continue
        first = [(group, group.shown) for group in own]
        blocks += [_grid(table_in_words(name), own, first, hints=True), *_remarks(name, own)]
        blocks += _folds(table_in_words(name), own, runs)
    return blocks


def _one_dataset(own: Sequence[Group]) -> str:
    """Return the name of the data set, where a table has only one."""
    datasets = {group.printed.dataset for group in own}
    return f" ({dataset_in_words(datasets.pop())})" if len(datasets) == 1 else ""


def _folds(title: str, own: Sequence[Group], runs: Runs) -> Iterator[Fold]:
    for setting, picked in _further(own).items():
        if any(result.values for _, result in picked):
            yield Fold(f"Further setting: {setting}", (_grid(f"{title}: {setting}", own, picked),))
    by_rule = _by_rule(title, own, runs)
    if by_rule.rows:
        yield Fold("Under each relevance rule, and beside guessing", (by_rule,))


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
    heads, has_settings = _heads(own), any(result.setting for _, result in picked)
    lines = []
    for place, fields in rows.items():
        setting = next((r.setting for _, r in fields.values() if r.setting), "")
        line = [Entry(words) for words in _place(*place, heads)]
        for column in columns:
            line += _field(fields.get(column), setting, is_printed=column in is_printed, hints=hints)
        lines.append([*line, *([Entry(setting)] if has_settings else [])])
    titles = [
        Column(COLUMNS.get(column, column), ("print", "ours") if column in is_printed else ("ours",))
        for column in columns
    ]
    last = [_SETTING] if has_settings else []
    return Grid(label, [*(Column(head) for head in heads), *titles, *last], lines, len(heads))


def _heads(own: Sequence[Group]) -> list[str]:
    """Return what names a row: the data set, the setting of the paper, or both."""
    datasets, rows = ({getattr(group.printed, key) for group in own} for key in ("dataset", "row"))
    return [*(["data"] if len(datasets) > 1 else []), *(["row"] if len(rows) > 1 else [])]


def _place(dataset: str, row: str, heads: Sequence[str]) -> list[str]:
    return [dataset_in_words(dataset) if head == "data" else row_in_words(row) for head in heads]


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


def _by_rule(title: str, own: Sequence[Group], runs: Runs) -> Grid:
    """Return what each relevance rule measures, the bounds, and how often guessing is beaten in print and here."""
    heads = _heads(own)
    columns = [
        *heads, "what", "print", *RULES, "random bound", "upper bound", "print / random", "ours / random", "setting",
    ]  # fmt: skip
    rows = []
    for group in own:
        number, cell, values = group.printed, group.shown.cell, group.shown.values
        attack = cell.attack
        if attack is None or not attack.uses_rule or not values:
            continue
        random, upper = (attack.of(bound).mean(runs) for bound in ("random_bound", "upper_bound"))
        by_rule = [attack.per_seed(runs, rule) for rule in RULES]
        texts = [
            COLUMNS.get(number.column, number.column),
            printed_in_words(number) or DASH,
            *(measured_in_words(found, number) if found else DASH for found in by_rule),
            f"{random:.1f}",
            f"{upper:.1f}",
            _times(number.number, _printed_random(group)),
            _times(mean(values), random),
            cell.variant,
        ]
        rows.append([Entry(t) for t in (*_place(number.dataset, number.row, heads), *texts)])
    return Grid(f"{title}: relevance rules", [Column(name) for name in columns], rows, len(heads))


def _printed_random(group: Group) -> float:
    """Return what the paper prints for guessing: in Table 9 for each K, elsewhere for each data set."""
    number = group.printed
    if number.table != "table9":
        return PRINTED_RANDOM.get(number.dataset, float("nan"))
    others = (other for other in printed() if other.table == "table9" and other.column == "random")
    return next(float(other.value) for other in others if other.row == number.row)


def _times(value: float | None, bound: float) -> str:
    return f"{value / bound:.1f}" if value is not None and np.isfinite(bound) and bound else DASH


def _remarks(table: str, own: Sequence[Group]) -> list[Text]:
    """Return what is said of the print, and of single rows, each remark once."""
    found: dict[str, dict[str, None]] = {}
    for group in own:
        number, heads = group.printed, _heads(own)
        where = (
            number.dataset if number.table == "text" else " ".join(_place(number.dataset, number.row, heads))
        )
        for note in (result.cell.note for result in group.results if result.cell.note):
            found.setdefault(note, {})[where] = None
        if number.value == "":
            found.setdefault(NO_GOWALLA_TABLE, {})[dataset_in_words(number.dataset)] = None
    lines = [f"- {', '.join(where)}: {note}" for note, where in found.items()]
    if table in notes():
        lines.insert(0, f"- The print: {notes()[table]}")
    return [Text("\n".join(lines))] if lines else []
