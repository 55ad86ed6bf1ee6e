"""The tables in the layout of the paper, with each printed number next to ours and a verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from analysis.cda_paper.cells import COLUMNS, NO_GOWALLA_TABLE
from analysis.cda_paper.formatting import (
    DASH,
    dataset_title,
    measured_field,
    printed_field,
    table_title,
)
from analysis.cda_paper.published import printed_numbers, table_notes, table_titles
from analysis.cda_paper.rule_tables import row_heads, row_names, rule_table
from analysis.cda_paper.verdicts import CellResult, NumberResults, count_verdicts
from analysis.papers.document import (
    Collapsible,
    DocumentBlock,
    Grid,
    GridCell,
    GridColumn,
    Heading,
    ParagraphBlock,
)
from analysis.papers.seed_statistics import Runs
from analysis.papers.verdict import Verdict

_SETTING = GridColumn("setting; rule")
Picked = Sequence[tuple[NumberResults, CellResult]]
"""Numbers of a table, each with the result to show."""


def paper_tables(found: Sequence[NumberResults], runs: Runs) -> list[DocumentBlock]:
    """Return every table: a heading, the setting compared first, and the others in collapsible parts."""
    blocks: list[DocumentBlock] = []
    for name, title in table_titles().items():
        own = [group for group in found if group.printed.table == name]
        if not own:
            continue
        blocks.append(Heading(3, f"{table_title(name)}: {title}{_one_dataset(own)}", name))
        if name == "text":
            every = [(group, result) for group in own for result in group.results]
            blocks += [_text(own), *_remarks(name, own, every)]
            continue
        first = [(group, group.shown) for group in own]
        blocks += [_grid(table_title(name), own, first, hints=True), *_remarks(name, own, first)]
        blocks += _folds(table_title(name), own, runs)
    return blocks


def _one_dataset(own: Sequence[NumberResults]) -> str:
    """Return the name of the data set if a table has only one."""
    datasets = {group.printed.dataset for group in own}
    return f" ({dataset_title(datasets.pop())})" if len(datasets) == 1 else ""


def _folds(title: str, own: Sequence[NumberResults], runs: Runs) -> Iterator[Collapsible]:
    """Yield a collapsible part per further setting that was run, with its own remarks, and one for the rules."""
    for setting, picked in _further(own).items():
        if any(result.values for _, result in picked):
            blocks: list[DocumentBlock] = [_grid(f"{title}: {setting}", own, picked)]
            own_notes = dict.fromkeys(note for group, result in picked for note in _only(group, result))
            if own_notes:
                blocks.append(ParagraphBlock("\n".join(f"- {note}" for note in own_notes)))
            yield Collapsible(f"Further setting: {setting}: {_tally(picked)}", blocks)
    by_rule = rule_table(title, own, runs)
    if by_rule.rows:
        yield Collapsible("Under each relevance rule, and beside guessing", (by_rule,))


def _tally(picked: Picked) -> str:
    """Return the number of printed numbers per verdict, with its mark."""
    found = count_verdicts(result for group, result in picked if group.printed in printed_numbers())
    told = (f"{verdict.mark} {count}" for verdict, count in zip(Verdict, found, strict=True) if count)
    return " ".join(told) or "nothing printed"


def _only(group: NumberResults, result: CellResult) -> list[str]:
    """Return the notes of a result that the result shown first does not have."""
    said = group.shown.cell.note.splitlines()
    return [note for note in result.cell.note.splitlines() if note not in said]


def _further(own: Sequence[NumberResults]) -> dict[str, list[tuple[NumberResults, CellResult]]]:
    """Return the results that are not shown first, by their settings."""
    found: dict[str, list[tuple[NumberResults, CellResult]]] = {}
    for group in own:
        for result in group.results:
            if result is not group.shown:
                found.setdefault(result.setting, []).append((group, result))
    return found


def _grid(label: str, own: Sequence[NumberResults], picked: Picked, *, hints: bool = False) -> Grid:
    """Return a grid with the paper's rows and columns and one result in each field.

    Parameters
    ----------
    label : str
    own : sequence of NumberResults
        All numbers of the table, which determine its columns.
    picked : sequence of (NumberResults, CellResult)
    hints : bool
        Whether a field names another setting that is nearer.
    """
    columns = dict.fromkeys(group.printed.column for group in own)
    is_printed = {group.printed.column for group in own if group.printed in printed_numbers()}
    rows: dict[tuple[str, str], dict[str, tuple[NumberResults, CellResult]]] = {}
    for group, result in picked:
        place = (group.printed.dataset, group.printed.row)
        rows.setdefault(place, {})[group.printed.column] = (group, result)
    heads, has_settings = row_heads(own), any(result.setting for _, result in picked)
    lines = []
    for place, fields in rows.items():
        setting = next((r.setting for _, r in fields.values() if r.setting), "")
        line = [GridCell(words) for words in row_names(*place, heads)]
        for column in columns:
            line += _field(fields.get(column), setting, is_printed=column in is_printed, hints=hints)
        lines.append([*line, *([GridCell(setting)] if has_settings else [])])
    titles = [
        GridColumn(COLUMNS.get(column, column), ("print", "ours") if column in is_printed else ("ours",))
        for column in columns
    ]
    last = [_SETTING] if has_settings else []
    return Grid(label, [*(GridColumn(head) for head in heads), *titles, *last], lines, len(heads))


def _field(
    picked: tuple[NumberResults, CellResult] | None, setting: str, *, is_printed: bool, hints: bool
) -> list[GridCell]:
    if picked is None:
        return [GridCell(DASH)] * (1 + is_printed)
    group, result = picked
    small = [result.setting] if result.setting not in ("", setting) else []
    if hints and is_printed and group.best.verdict < result.verdict:
        small.append(f"{group.best.verdict.mark} with {group.best.setting}")
    ours = measured_field(result, *small, has_verdict=is_printed)
    return [printed_field(group.printed), ours] if is_printed else [ours]


def _text(own: Sequence[NumberResults]) -> Grid:
    """Return a table with a line per reading of a number in the text."""
    columns = [GridColumn(title) for title in ("where", "what", "print", "ours", "reading; rule")]
    rows = []
    for group in own:
        number = group.printed
        for place, result in enumerate(group.results):
            what = GridCell(number.column, (number.note,) if number.note else ())
            about = [GridCell(number.dataset), what, printed_field(number)]
            ours = [measured_field(result), GridCell(result.cell.why_not or result.setting)]
            rows.append([*(about if place == 0 else [GridCell("")] * 3), *ours])
    return Grid(table_title("text"), columns, rows)


def _remarks(name: str, own: Sequence[NumberResults], picked: Picked) -> list[ParagraphBlock]:
    """Return the remarks on the printed and the shown numbers: each remark once, with its rows."""
    of_row: dict[str, dict[str, None]] = {}
    for group, result in picked:
        for note in result.cell.note.splitlines():
            of_row.setdefault(note, {})[_row(group, own)] = None
    every = {_row(group, own) for group in own}
    lines = [f"- The print: {table_notes()[name]}"] if name in table_notes() else []
    lines += [f"- {_begin(rows, every)}{note}" for note, rows in of_row.items()]
    lines += [
        f"- {dataset_title(dataset)}: {NO_GOWALLA_TABLE}"
        for dataset in dict.fromkeys(group.printed.dataset for group in own if group.printed.value == "")
    ]
    return [ParagraphBlock("\n".join(lines))] if lines else []


def _row(group: NumberResults, own: Sequence[NumberResults]) -> str:
    number = group.printed
    if number.table == "text":
        return number.dataset
    return " ".join(row_names(number.dataset, number.row, row_heads(own)))


def _begin(rows: Mapping[str, None], every: set[str]) -> str:
    """Return the rows of a remark; empty if it applies to all."""
    return "" if rows.keys() == every else f"{', '.join(rows)}: "
