"""The tables in the layout of the paper, by relevance rule and by verdict: printed numbers next to ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from analysis.cda_paper import PROTOCOLS, PUBLISHED, SETTINGS
from analysis.cda_paper.measures import COLUMNS, RULES, CellResult, NumberResults, count_verdicts
from analysis.papers.comparison import PrintedNumber
from analysis.papers.document import (
    Collapsible,
    DocumentBlock,
    Grid,
    GridCell,
    GridColumn,
    GridRow,
    Heading,
    ParagraphBlock,
    make_grid,
)
from analysis.papers.verdict import PerSeed, Runs, Verdict, format_mean_text, mean

NAMES = {"movielens-100k": "MovieLens-100k", "foursquare-nyc": "Foursquare-NYC", "gowalla": "Gowalla"}
DASH = "–"
NO_GOWALLA_TABLE = "the published paper has no table for this data set"
_WORDS = {**PROTOCOLS, "gmf": "GMF", "prme-g": "PRME-G", "mia": "MIA", "cda": "CDA", "aia": "AIA"}


def table_title(table: str) -> str:
    """Return the label of a table."""
    return "Text" if table == "text" else table.replace("table", "Table ").replace("-bounds", ", bounds")


def dataset_title(dataset: str) -> str:
    """Return the label of a data set."""
    return NAMES.get(dataset, dataset)


def row_title(row: str) -> str:
    """Return the label of a row; empty if the data set identifies it."""
    if row == "statistics":
        return ""
    named = " ".join(_WORDS.get(word, word) for word in row.split())
    return named.replace("%", " %").replace("K=", "K = ")


def printed_field(number: PrintedNumber) -> GridCell:
    """Return the field of a printed number, with its band below."""
    if number.value == "":
        return GridCell(DASH)
    band = format_band(number)
    return GridCell(format_printed(number), (band,) if band else (), kind="printed")


def format_printed(number: PrintedNumber) -> str:
    """Return a printed number as text."""
    return number.value if isinstance(number.value, str) else f"{number.value:,}"


def format_band(number: PrintedNumber) -> str:
    """Return the band of a printed number; empty if there is none, or it must be met exactly."""
    if number.band is None or number.band[0] == number.band[1]:
        return ""
    return "–".join(f"{end:.4g}" for end in number.band)


def measured_field(result: CellResult, *small: str, has_verdict: bool = True) -> GridCell:
    """Return the field of a measured number: mark, mean, half of the 95 % interval; below it the seeds and remarks."""
    if not result.values:
        return GridCell(DASH, small, kind=Verdict.NOT_RUN.word)
    is_judged = has_verdict and result.cell.printed.value != ""
    verdict = result.verdict
    return GridCell(
        format_measured(result.values, result.cell.printed),
        (f"n = {len(result.values)}", *small),
        mark=verdict.mark if is_judged else "",
        kind=verdict.word if is_judged else "",
    )


def format_measured(values: PerSeed, number: PrintedNumber) -> str:
    """Return the mean over seeds, with ± half of its 95 % interval if the seeds differ."""
    size = abs(mean(values))
    is_count = number.band is not None and number.band[0] == number.band[1]
    is_fraction = number.column in ("accuracy", "precision", "recall")
    digits = 0 if is_count or size >= 1000 else 2 if is_fraction or size < 1 else 1
    return format_mean_text(values, digits, separator=",")


PRINTED_RANDOM = {"movielens-100k": 5.3, "foursquare-nyc": 3.6}
"""Random bounds of Tables 4 and 5 in percent."""


def row_heads(own: Sequence[NumberResults]) -> list[str]:
    """Return the headings of a row's labels: the data set, the setting of the paper, or both."""
    datasets, rows = ({getattr(group.printed, key) for group in own} for key in ("dataset", "row"))
    return [*(["data"] if len(datasets) > 1 else []), *(["row"] if len(rows) > 1 else [])]


def row_names(dataset: str, row: str, heads: Sequence[str]) -> list[str]:
    """Return the labels of a row under these headings."""
    return [dataset_title(dataset) if head == "data" else row_title(row) for head in heads]


def relevance_rule_table(title: str, own: Sequence[NumberResults], runs: Runs) -> Grid:
    """Return the values under each relevance rule, the bounds, and the factor over guessing as published and here."""
    heads = row_heads(own)
    bounds = ("random bound", "upper bound", "printed / random", "ours / random")
    columns = [*heads, "quantity", "printed", *RULES, *bounds, "setting"]
    rows = []
    for group in own:
        number, cell, values = group.printed, group.first_with_run.cell, group.first_with_run.values
        attack = cell.attack
        if attack is None or not attack.uses_relevance_rule or not values:
            continue
        random, upper = (
            attack.with_quantity(bound).mean_over_seeds(runs) for bound in ("random_bound", "upper_bound")
        )
        by_rule = [attack.values_by_seed(runs, rule) for rule in RULES]
        texts = [
            COLUMNS.get(number.column, number.column),
            format_printed(number) or DASH,
            *(format_measured(found, number) if found else DASH for found in by_rule),
            f"{random:.1f}",
            f"{upper:.1f}",
            _ratio(number.number, _printed_random(group)),
            _ratio(mean(values), random),
            cell.variant,
        ]
        rows.append([*row_names(number.dataset, number.row, heads), *texts])
    return make_grid(f"{title}: relevance rules", columns, rows, len(heads))


def _printed_random(group: NumberResults) -> float:
    """Return the published value of guessing: per K in Table 9, per data set elsewhere."""
    number = group.printed
    if number.table != "table9":
        return PRINTED_RANDOM.get(number.dataset, float("nan"))
    others = (
        other for other in PUBLISHED.printed_numbers if other.table == "table9" and other.column == "random"
    )
    return next(float(other.value) for other in others if other.row == number.row)


def _ratio(value: float | None, bound: float) -> str:
    return f"{value / bound:.1f}" if value is not None and np.isfinite(bound) and bound else DASH


Picked = Sequence[tuple[NumberResults, CellResult]]
"""Numbers of a table, each with the result to show."""


def paper_tables(found: Sequence[NumberResults], runs: Runs) -> list[DocumentBlock]:
    """Return every table: a heading, the setting compared first, and the others in collapsible parts."""
    blocks: list[DocumentBlock] = []
    for name, title in PUBLISHED.titles.items():
        own = [group for group in found if group.printed.table == name]
        if not own:
            continue
        blocks.append(Heading(3, f"{table_title(name)}: {title}{_one_dataset(own)}", name))
        if name == "text":
            every = [(group, result) for group in own for result in group.results]
            blocks += [_text(own), *_remarks(name, own, every)]
            continue
        first = [(group, group.first_with_run) for group in own]
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
    by_rule = relevance_rule_table(title, own, runs)
    if by_rule.rows:
        yield Collapsible("Under each relevance rule, and compared with guessing", (by_rule,))


def _tally(picked: Picked) -> str:
    """Return the number of printed numbers per verdict, with its mark."""
    found = count_verdicts(result for group, result in picked if group.printed in PUBLISHED.printed_numbers)
    counts = (f"{verdict.mark} {count}" for verdict, count in zip(Verdict, found, strict=True) if count)
    return " ".join(counts) or "no printed number"


def _only(group: NumberResults, result: CellResult) -> list[str]:
    """Return the notes of a result that the result shown first does not have."""
    shown = group.first_with_run.cell.note.splitlines()
    return [note for note in result.cell.note.splitlines() if note not in shown]


def _further(own: Sequence[NumberResults]) -> dict[str, list[tuple[NumberResults, CellResult]]]:
    """Return the results that are not shown first, by their settings."""
    found: dict[str, list[tuple[NumberResults, CellResult]]] = {}
    for group in own:
        for result in group.results:
            if result is not group.first_with_run:
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
    is_printed = {group.printed.column for group in own if group.printed in PUBLISHED.printed_numbers}
    rows: dict[tuple[str, str], dict[str, tuple[NumberResults, CellResult]]] = {}
    for group, result in picked:
        place = (group.printed.dataset, group.printed.row)
        rows.setdefault(place, {})[group.printed.column] = (group, result)
    heads, has_settings = row_heads(own), any(result.setting for _, result in picked)
    lines = []
    for place, fields in rows.items():
        setting = next((r.setting for _, r in fields.values() if r.setting), "")
        line: GridRow = [*row_names(*place, heads)]
        for column in columns:
            line += _field(fields.get(column), setting, is_printed=column in is_printed, hints=hints)
        lines.append([*line, *([setting] if has_settings else [])])
    titles = [
        GridColumn(COLUMNS.get(column, column), ("printed", "ours") if column in is_printed else ("ours",))
        for column in columns
    ]
    last = ["setting; rule"] if has_settings else []
    return make_grid(label, (*heads, *titles, *last), lines, len(heads))


def _field(
    picked: tuple[NumberResults, CellResult] | None, setting: str, *, is_printed: bool, hints: bool
) -> list[GridCell]:
    if picked is None:
        return [GridCell(DASH)] * (1 + is_printed)
    group, result = picked
    small = [result.setting] if result.setting not in ("", setting) else []
    if hints and is_printed and group.nearest.verdict < result.verdict:
        small.append(f"{group.nearest.verdict.mark} with {group.nearest.setting}")
    ours = measured_field(result, *small, has_verdict=is_printed)
    return [printed_field(group.printed), ours] if is_printed else [ours]


def _text(own: Sequence[NumberResults]) -> Grid:
    """Return a table with a line per reading of a number in the text."""
    rows: list[GridRow] = []
    for group in own:
        number = group.printed
        quantity = GridCell(number.column, (number.note,) if number.note else ())
        about: GridRow = [number.dataset, quantity, printed_field(number)]
        for result in group.results:
            rows.append([*about, measured_field(result), result.cell.why_not or result.setting])
            about = ["", "", ""]
    return make_grid(table_title("text"), ("section", "quantity", "printed", "ours", "reading; rule"), rows)


def _remarks(name: str, own: Sequence[NumberResults], picked: Picked) -> list[ParagraphBlock]:
    """Return the remarks on the printed and the shown numbers: each remark once, with its rows."""
    of_row: dict[str, dict[str, None]] = {}
    for group, result in picked:
        for note in result.cell.note.splitlines():
            of_row.setdefault(note, {})[_row(group, own)] = None
    every = {_row(group, own) for group in own}
    lines = [f"- As published: {PUBLISHED.notes[name]}"] if name in PUBLISHED.notes else []
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


_LISTED = (Verdict.OUTSIDE, Verdict.NEAR, Verdict.WITHIN, Verdict.NOT_RUN, Verdict.UNJUDGED)
_COLUMNS = ("table", "quantity", "printed", "ours", "setting; rule", "remark")


def overview_blocks(found: Sequence[NumberResults], runs: Runs) -> list[DocumentBlock]:
    """Return a sentence, the counts by table, and a collapsible list of numbers per verdict.

    Parameters
    ----------
    found : sequence of NumberResults
        Every printed number once.
    runs : mapping
        Finished runs.
    """
    best, first = (
        dict(zip(Verdict, count_verdicts(results), strict=True))
        for results in ((group.nearest for group in found), (group.first for group in found))
    )
    judged = sum(best[verdict] for verdict in (Verdict.WITHIN, Verdict.NEAR, Verdict.OUTSIDE))
    summary = (
        f"**Of {len(found)} printed numbers, {judged} are judged: {best[Verdict.WITHIN]} within their band under a "
        f"named setting ({first[Verdict.WITHIN]} under the one compared first), {best[Verdict.NEAR]} near it, "
        f"{best[Verdict.OUTSIDE]} outside.** "
        f"Without a finished run: {best[Verdict.NOT_RUN]}; not judged: {best[Verdict.UNJUDGED]}."
    )
    lists = [
        Collapsible(f"{verdict.mark} {verdict.word}: {len(own)}", (_list(verdict, own, runs),))
        for verdict in _LISTED
        if (own := [group for group in found if group.nearest.verdict is verdict])
    ]
    return [ParagraphBlock(summary), _counts(found), ParagraphBlock("Each number, by its verdict:"), *lists]


def field_legend() -> ParagraphBlock:
    """Return the legend of a field."""
    marks = "; ".join(f"{verdict.mark} *{verdict.word}*: {verdict.meaning}" for verdict in Verdict)
    return ParagraphBlock(
        f"{marks}. Next to a printed number: its band, set in `published.yaml` by a rule for all tables. ± is half of "
        "the 95 % interval over n seeds (Student's t). A field shows the setting compared first. If another setting is "
        "nearer, the field names it, and a collapsed part below the table shows it.\n\n"
        + "\n".join(f"- *{name}*: {words}" for name, words in SETTINGS.items())
    )


def _counts(found: Sequence[NumberResults]) -> Grid:
    rows: list[GridRow] = [
        ["all, nearest setting", *_line([group.nearest for group in found])],
        ["all, setting compared first", *_line([group.first for group in found])],
    ]
    for table in dict.fromkeys(group.printed.table for group in found):
        own = [group for group in found if group.printed.table == table]
        rows.append([GridCell(table_title(table), link=table), *_line([group.nearest for group in own])])
    titles = ["table", "printed", *(f"{verdict.mark} {verdict.word}" for verdict in Verdict)]
    return make_grid("Verdicts by table", titles, rows)


def _line(results: Sequence[CellResult]) -> GridRow:
    found = zip(Verdict, count_verdicts(results), strict=True)
    counts = (GridCell(str(count), kind=verdict.word) if count else "" for verdict, count in found)
    return [str(len(results)), *counts]


def _list(verdict: Verdict, own: Sequence[NumberResults], runs: Runs) -> Grid:
    rows: list[GridRow] = []
    for group in own:
        number = group.printed
        table = GridCell(table_title(number.table), link=number.table)
        both = printed_field(number), measured_field(group.nearest)
        rows.append([table, _quantity(group), *both, group.nearest.setting, _remark(group, runs)])
    return make_grid(f"Numbers: {verdict.word}", _COLUMNS, rows)


def _quantity(group: NumberResults) -> str:
    number = group.printed
    if number.table == "text":
        return f"{number.dataset}: {number.column}"
    column = COLUMNS.get(number.column, number.column)
    return ", ".join(filter(None, (dataset_title(number.dataset), row_title(number.row), column)))


def _remark(group: NumberResults, runs: Runs) -> str:
    """Return the remark on a verdict: a choice among settings, a band that proves little, or a reason."""
    best, first = group.nearest, group.first
    parts = [*best.cell.note.splitlines(), best.cell.why_not, group.printed.note]
    if best.verdict is Verdict.UNJUDGED and not best.cell.why_not:
        parts.append(group.printed.unjudged)
    if best is not first:
        ours = format_measured(first.values, group.printed) if first.values else Verdict.NOT_RUN.word
        tried = sum(bool(result.values) for result in group.results)
        parts.append(
            f"nearest of {tried} settings; compared first ({first.setting}): {first.verdict.mark} {ours}"
        )
    attack, band = best.cell.attack, group.printed.band
    if attack is not None and attack.quantity == "max_aac" and band is not None:
        random = attack.with_quantity("random_bound").mean_over_seeds(runs)
        if best.verdict in (Verdict.WITHIN, Verdict.NEAR) and random >= band[0]:
            parts.append(f"guessing gives {random:.1f}")
    return "; ".join(part for part in parts if part)
