"""Tables of a study for a paper: means, intervals, best values and significance, in LaTeX, Markdown, CSV or HTML."""

from __future__ import annotations

import csv
import html
import io
import itertools
import math
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gossiprec.base.errors import LogError, did_you_mean
from gossiprec.base.rounding import paired_differences
from gossiprec.figures.study.estimates import MeanEstimate, describe_seeds, mean_with_interval
from gossiprec.figures.study.quantity import Quantity, format_label
from gossiprec.figures.study.table_reader import PerSeed, Point, StudyTable, order_quantities
from gossiprec.measures.direction import best_place, compare_values
from gossiprec.runs.manifest import read_study_mark
from gossiprec.runs.paired_tests import correct_by_holm

MEASURE = "measure"
UNITS = {
    "fraction": (1.0, ""),
    "percent": (100.0, "%"),
    "thousands": (1e-3, "10³"),
    "millions": (1e-6, "10⁶"),
    "kB": (1e-3, "kB"),
    "MB": (1e-6, "MB"),
    "GB": (1e-9, "GB"),
}
"""Factor and sign of each unit."""
INTERVALS = ("half", "ends", "none")
MOST_METRICS, MOST_ATTACKS = 2, 2
"""Number of metrics, and of attacks, that a table shows by default."""
HEADING = 18
"""Characters in a line of a heading in LaTeX."""
MARKS = ((0.01, "**"), (0.05, "*"))
FEWER = "†"


@dataclass(frozen=True)
class TableOptions:
    """The options of a table.

    Attributes
    ----------
    rows, columns : sequence of str
        Axes of the study, or ``measure``. By default the axes with several values are rows, and measures are columns.
    measures : sequence of str
        Such as ``hr@20`` or ``last_aac[single]``; by default the first metrics, and the last and the highest accuracy
        of the first attacks.
    where, to : mapping of str to str
        Values of axes that restrict the table; and of the combination of which differences are tested, instead of the
        baseline of the study.
    units, digits : mapping of str to str or int
        A unit (:data:`UNITS`) and a number of decimal places by measure; the key ``""`` is for all.
    interval : str
        ``half`` for ± half of the 95 % interval, ``ends`` for both ends, or ``none``.
    """

    rows: Sequence[str] = ()
    columns: Sequence[str] = ()
    measures: Sequence[str] = ()
    where: Mapping[str, str] | None = None
    to: Mapping[str, str] | None = None
    units: Mapping[str, str] | None = None
    digits: Mapping[str, int] | None = None
    interval: str = "half"


@dataclass(frozen=True)
class TableCell:
    """A mean over seeds in a table.

    Attributes
    ----------
    quantity : Quantity
    estimate : MeanEstimate
    n_runs : int
        Number of runs in the study; larger than ``estimate.n`` if some failed or are not finished.
    best : bool
        Whether no cell of the same measure in the same line is better.
    p_value : float
        Of the paired t-test over seeds, corrected by Holm's method; NaN if there is none.
    """

    quantity: Quantity
    estimate: MeanEstimate
    n_runs: int
    best: bool = False
    p_value: float = math.nan


@dataclass(frozen=True)
class PaperTable:
    """The content of a table.

    Attributes
    ----------
    row_names : list of str
    rows, columns : list of tuple of str
        Labels of each row, and of each column by level.
    cells : list of list of TableCell
    notes : list of str
        Sentences.
    """

    row_names: list[str]
    rows: list[tuple[str, ...]]
    columns: list[tuple[str, ...]]
    cells: list[list[TableCell]]
    notes: list[str]


def format_table(table: StudyTable, format: str = "markdown", options: TableOptions = TableOptions()) -> str:
    """Return a table of a study as text.

    Parameters
    ----------
    table : StudyTable
    format : {"latex", "markdown", "csv", "html"}
        LaTeX needs the package booktabs.
    options : TableOptions

    Raises
    ------
    LogError
        If a row, column, measure, unit or format is unknown, or an axis with several values is nowhere.
    """
    if format not in FORMATS:
        raise LogError(
            f"format: found {format!r}{did_you_mean(format, FORMATS)}; expected {', '.join(FORMATS)}"
        )
    if options.interval not in INTERVALS:
        raise LogError(f"interval: found {options.interval!r}; expected {', '.join(INTERVALS)}")
    return FORMATS[format](make_table(table, options), options)


def make_table(table: StudyTable, options: TableOptions) -> PaperTable:
    """Return the content of a table; see :func:`format_table`."""
    table = table.restrict_to(options.where or {})
    runs = table.runs
    for name, text in (options.where or {}).items():
        place = table.axis_index(name)
        runs = {point: own for point, own in runs.items() if format_label(point[place]) == text}
    table = replace(table, runs=runs)  # also of failed runs
    rows, columns = _dimensions(table, options)
    quantities = _quantities(table, options.measures)
    _check_names("digits", options.digits or {}, quantities)
    _check_names("unit", options.units or {}, quantities)
    to = {name: table.find_axis_value(name, text) for name, text in (options.to or {}).items()}
    row_keys, column_keys = (_keys(table, names, quantities) for names in (rows, columns))
    at = {frozenset(zip(table.axes, point, strict=True)): point for point in table.runs}
    if not table.values:
        raise LogError(f"no run of {table.path} with these values is finished; choose others with --where")
    fixed = dict(zip(table.axes, next(iter(table.values[quantities[0]])), strict=True))
    cells: list[list[TableCell]] = []
    tested: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for row in row_keys:
        line: list[TableCell] = []
        for column in column_keys:
            labels = {**fixed, **dict(zip((*rows, *columns), (*row, *column), strict=True))}
            quantity = labels.pop(MEASURE)
            cell, pairs = _cell(table, quantity, at.get(frozenset(labels.items())), to or table.baseline)
            if pairs:
                tested[len(cells), len(line)] = pairs
            line.append(cell)
        cells.append(line)
    _add_tests(cells, tested)
    shown = _with_best(cells, down=MEASURE in columns)
    return PaperTable(
        [name if name == MEASURE else table.axis_label(name) for name in rows],
        [tuple(_key_words(table, rows, key, options)) for key in row_keys],
        [tuple(_key_words(table, columns, key, options, named=True)) for key in column_keys],
        shown,
        _notes(table, options, shown, (to or table.baseline) if tested else {}),
    )


Key = tuple[Any, ...]
"""Values of axes, or a quantity, of a row or a column."""


def _keys(table: StudyTable, names: Sequence[str], quantities: Sequence[Quantity]) -> list[Key]:
    """Return the keys of rows or columns: the products of values of which the study has combinations."""
    axes = [name for name in names if name != MEASURE]
    existing = {tuple(point[table.axis_index(name)] for name in axes) for point in table.runs}
    values = [quantities if name == MEASURE else _axis_values(table, name) for name in names]
    return [
        key
        for key in itertools.product(*values)
        if tuple(value for value, name in zip(key, names, strict=True) if name != MEASURE) in existing
    ]


def _key_words(
    table: StudyTable, names: Sequence[str], key: Key, options: TableOptions, *, named: bool = False
) -> Iterator[str]:
    """Yield the labels of a row or column; with `named`, values of axes come with the names of the axes."""
    for name, value in zip(names, key, strict=True):
        if name == MEASURE:
            yield _heading(table, value, options)
        else:
            yield f"{table.axis_label(name)} " * named + format_label(value)


def _axis_values(table: StudyTable, name: str) -> list[Any]:
    """Return the values of an axis, those that only failed runs have last."""
    index = table.axis_index(name)
    return list(dict.fromkeys([*table.axis_values(name), *(point[index] for point in table.runs)]))


def _dimensions(table: StudyTable, options: TableOptions) -> tuple[list[str], list[str]]:
    """Return the names of rows and columns."""
    known = [*table.axes, MEASURE]
    rows, columns = list(options.rows), list(options.columns)
    for part, names in (("rows", rows), ("columns", columns)):
        for name in names:
            if name not in known:
                raise LogError(
                    f"--{part}: found {name!r}{did_you_mean(name, known)}; {table.path} has {', '.join(known)}"
                )
    twice = [name for name in known if (rows + columns).count(name) > 1]
    if twice:
        raise LogError(f"found {twice[0]} twice in --rows and --columns; expected each name once")
    if not rows:
        rows = [name for name in table.varying if name not in columns]
    if MEASURE not in rows and MEASURE not in columns:
        columns.append(MEASURE)
    left = [name for name in table.varying if name not in (*rows, *columns)]
    if left:
        raise LogError(
            f"the axis {left[0]} of {table.path} has several values, and is neither a row nor a column; add it to "
            f"--rows or --columns, or select one with --where {left[0]}={format_label(table.axis_values(left[0])[0])}"
        )
    if not rows:  # a study of a single combination
        return [MEASURE], []
    return rows, columns


def _quantities(table: StudyTable, wanted: Sequence[str]) -> list[Quantity]:
    """Return the requested quantities, or the first metrics, and the last and highest accuracy of the first attacks."""
    if wanted:
        return list(dict.fromkeys(quantity for text in wanted for quantity in table.find_quantities(text)))
    every = order_quantities(table)
    metrics = [quantity for quantity in every if "@" in quantity.name and "[" not in quantity.name]
    attacks = [quantity for quantity in every if quantity.name == "max_aac"][:MOST_ATTACKS]
    both = [replace(quantity, name=name) for quantity in attacks for name in ("last_aac", "max_aac")]
    return [*metrics[:MOST_METRICS], *(q for q in both if q in table.values)] or every[:MOST_METRICS]


def _check_names(option: str, found: Mapping[str, object], quantities: Sequence[Quantity]) -> None:
    """Refuse units and digits of measures that the table does not have, and unknown units."""
    names = [quantity.name for quantity in quantities]
    for name, value in found.items():
        if name and name not in names:
            raise LogError(
                f"--{option}: found {name!r}{did_you_mean(name, names)}; expected one of {', '.join(names)}"
            )
        if option == "unit" and value not in UNITS:
            raise LogError(
                f"--unit: found {value!r}{did_you_mean(str(value), UNITS)}; expected one of {', '.join(UNITS)}"
            )


def _cell(
    table: StudyTable, quantity: Quantity, point: Point | None, baseline: Mapping[str, object]
) -> tuple[TableCell, list[tuple[float, float]]]:
    """Return a cell, and the pairs of values by seed that its test compares: the baseline's, and its own."""
    points = table.values.get(quantity, {})
    seeds: PerSeed = {} if point is None else points.get(point, {})
    cell = TableCell(
        quantity, mean_with_interval(seeds.values()), len(table.runs.get(point, ())) if point else 0
    )
    if point is None or not baseline:
        return cell, []
    base = tuple(baseline.get(name, label) for name, label in zip(table.axes, point, strict=True))
    others = points.get(base, {}) if base != point else {}
    pairs = [(others[seed], seeds[seed]) for seed in seeds if seed in others]
    return cell, pairs if len(pairs) > 1 else []


def _add_tests(
    cells: list[list[TableCell]], tested: Mapping[tuple[int, int], list[tuple[float, float]]]
) -> None:
    """Set the p-values of cells, corrected for their number."""
    from scipy.stats import ttest_1samp

    found = []
    for pairs in tested.values():
        first, second = np.array(pairs).T
        differences = paired_differences(second, first)
        if np.ptp(differences) == 0:
            found.append(0.0 if differences.any() else 1.0)  # the t-test has no spread to divide by
        else:
            found.append(float(ttest_1samp(differences, 0.0).pvalue))
    for (row, column), p in zip(tested, correct_by_holm(found), strict=True):
        cells[row][column] = replace(cells[row][column], p_value=float(p))


def _with_best(cells: list[list[TableCell]], *, down: bool) -> list[list[TableCell]]:
    """Return the cells with the best of each column (or row) marked, if it has at least two values.

    If a table has the last accuracy of attacks, it does not rank by the highest over reports.
    """
    names = {cell.quantity.name for line in cells for cell in line}
    lines = [list(line) for line in zip(*cells, strict=True)] if down else cells
    shown = []
    for line in lines:
        best: dict[Quantity, float] = {}
        for cell in line:
            if cell.quantity.name == "max_aac" and "last_aac" in names:
                continue
            same = [
                other.estimate.mean for other in line if other.quantity == cell.quantity and other.estimate.n
            ]
            if len(same) > 1:
                best[cell.quantity] = same[best_place(cell.quantity.name, same) or 0]
        wins = [
            compare_values(c.quantity.name, c.estimate.mean, best.get(c.quantity, math.nan)) == 0
            for c in line
        ]  # of a measure without a known direction no value wins
        shown.append([replace(cell, best=is_best) for cell, is_best in zip(line, wins, strict=True)])
    return [list(line) for line in zip(*shown, strict=True)] if down else shown


def _scale(quantity: Quantity, options: TableOptions) -> tuple[float, str]:
    """Return the factor and the sign of the unit of a quantity."""
    units = options.units or {}
    unit = units.get(quantity.name) or (units.get("") if quantity.is_share else None)
    return UNITS[unit or ("percent" if quantity.is_share else "fraction")]


def _heading(table: StudyTable, quantity: Quantity, options: TableOptions) -> str:
    sign = _scale(quantity, options)[1]
    return f"{table.title(quantity)} ({sign})" if sign else table.title(quantity)


def _number(cell: TableCell, options: TableOptions) -> str:
    """Return the mean of a cell and its interval."""
    factor, sign = _scale(cell.quantity, options)
    found, digits = cell.estimate.scaled(factor), options.digits or {}
    places = digits.get(cell.quantity.name, digits.get("", 1 if sign == "%" else None))

    def text(value: float, short: int = 4) -> str:
        return f"{value:,.{short}g}" if places is None else f"{value:,.{places}f}"

    if math.isnan(found.low) or options.interval == "none":
        return text(found.mean)
    if options.interval == "ends":
        return f"{text(found.mean)} [{text(found.low)}, {text(found.high)}]"
    return f"{text(found.mean)} ± {text((found.high - found.low) / 2, 2)}"


def _notes(
    table: StudyTable,
    options: TableOptions,
    cells: Sequence[Sequence[TableCell]],
    baseline: Mapping[str, object],
) -> list[str]:
    """Return how to read the table, in sentences, and what is missing in it."""
    every = [cell for line in cells for cell in line]
    counts = [cell.estimate.n for cell in every if cell.estimate.n] or [0]
    how = {"half": " ± half of the 95 % interval", "ends": " and the ends of the 95 % interval", "none": ""}
    interval = how[options.interval] + (" (Student's t)" if options.interval != "none" else "")
    notes = [f"Means over seeds{interval if max(counts) > 1 else ''}, {describe_seeds(counts)}."]
    names = {cell.quantity.name for cell in every}
    if any(cell.best for cell in every):
        ranked = " Attacks are ranked by the last report." if "last_aac" in names else ""
        if not ranked and "max_aac" in names:
            ranked = " Attacks are ranked by their highest report, which flatters the attack; see last_aac."
        notes.append(f"Bold: the best value for users.{ranked}")
    if baseline:
        what = ", ".join(f"{table.axis_label(name)} {format_label(of)}" for name, of in baseline.items())
        n_tests = sum(not math.isnan(cell.p_value) for cell in every)
        notes.append(
            f"* p < 0.05, ** p < 0.01 compared with {what} (paired t-test over seeds, corrected by Holm's method for "
            f"{n_tests} tests)."
        )
    return [*notes, *_missing(table, every)]


def _missing(table: StudyTable, cells: Sequence[TableCell]) -> list[str]:
    """Return the notes on failed and unfinished runs, and on cells with fewer seeds."""
    mark = read_study_mark(table.path)
    n, failed = int(mark.get("simulations", 0)), len(mark.get("failed", ()))
    left = max(0, n - int(mark.get("finished", n)) - failed)
    notes = []
    if failed or left:
        parts = [f"{failed} failed"] * bool(failed) + [f"{left} are not finished"] * bool(left)
        notes.append(f"Of the {n} runs of the study {' and '.join(parts)}.")
    fewer = sum(0 < cell.estimate.n < cell.n_runs for cell in cells)
    if fewer:
        of = "value is" if fewer == 1 else "values are"
        notes.append(f"{FEWER} {fewer} {of} of fewer seeds, because runs failed.")
    empty = sum(not cell.estimate.n for cell in cells)
    if empty:
        notes.append(f"–: no finished run, or no such measure ({empty} of {len(cells)} cells).")
    return notes


Escape = Callable[[str], str]


def _lines(
    table: PaperTable, options: TableOptions, escape: Escape, bold: str, raised: str = "{}"
) -> Iterator[tuple[list[str], list[str]]]:
    """Yield names and cells of each row as text; `bold` and `raised` are the forms of the best values and of marks."""
    for names, line in zip(table.rows, table.cells, strict=True):
        texts = []
        for cell in line:
            text = escape(_number(cell, options) if cell.estimate.n else "–")
            marks = next((mark for level, mark in MARKS if cell.p_value < level), "")
            marks += FEWER if cell.estimate.n < cell.n_runs else ""
            shown = raised.format(escape(marks)) if marks and cell.estimate.n else ""
            texts.append((bold.format(text) if cell.best else text) + shown)
        yield [*map(escape, names)], texts


def _head_lines(table: PaperTable) -> Iterator[tuple[bool, list[str], list[tuple[str, int]]]]:
    """Yield the lines of headings: whether it is the last, names of the rows, and headings with numbers of columns."""
    levels = [*zip(*table.columns, strict=True)]
    for level in levels[:-1]:
        joined = [(label, len(list(same))) for label, same in itertools.groupby(level)]
        yield False, [""] * len(table.row_names), joined
    for level in levels[-1:]:
        yield True, table.row_names, [(label, 1) for label in level]


def _markdown(table: PaperTable, options: TableOptions) -> str:
    def escape(text: str) -> str:
        return text.replace("\\", "\\\\").replace("|", "\\|").replace("*", "\\*").replace("_", "\\_")

    columns = [", ".join(column) for column in table.columns or [("",)]]
    heads = [*map(escape, (*table.row_names, *columns))]
    rule = ["---"] * len(table.row_names) + ["---:"] * len(columns)
    body = [[*names, *texts] for names, texts in _lines(table, options, escape, "**{}**")]
    lines = ["| " + " | ".join(line) + " |" for line in (heads, rule, *body)]
    return "\n".join([*lines, "", *(escape(" ".join(table.notes)).splitlines())]) + "\n"


_LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    **{
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "\\": r"\textbackslash{}",
        "<": "$<$",
        ">": "$>$",
    },
    **{"±": r"$\pm$", "–": "--", "†": r"$\dagger$", "β": r"$\beta$", "³": "$^3$", "⁶": "$^6$"},
}


def _latex_text(text: str) -> str:
    """Return text for LaTeX; characters that its default fonts lack become question marks."""
    found = (_LATEX.get(sign, sign) for sign in text)
    return "".join(sign if sign.isascii() or sign.isalpha() else "?" for sign in found)


def _heads(labels: Sequence[str]) -> list[str]:
    """Return headings for LaTeX in lines of about :data:`HEADING` characters."""
    lines = [textwrap.wrap(_latex_text(label), HEADING, break_long_words=False) or [""] for label in labels]
    return [r"\shortstack{" + r"\\".join(each) + "}" if len(each) > 1 else each[0] for each in lines]


def _latex(table: PaperTable, options: TableOptions) -> str:
    n_names, n_columns = len(table.row_names), len(table.columns)
    lines = [
        "% needs \\usepackage{booktabs}",
        "\\begin{table}",
        "\\centering",
        "\\begin{tabular}{" + "l" * n_names + "r" * n_columns + "}",
        "\\toprule",
    ]
    for is_last, names, spans in _head_lines(table):
        if is_last:
            heads = _heads([label for label, _ in spans])
        else:
            heads = [f"\\multicolumn{{{n}}}{{c}}{{{_latex_text(label)}}}" for label, n in spans]
        lines.append(" & ".join([*_heads(names), *heads]) + r" \\")
        if not is_last:
            ends = np.cumsum([n_names, *(n for _, n in spans)]).tolist()
            lines.append("".join(f"\\cmidrule(lr){{{a + 1}-{b}}}" for a, b in itertools.pairwise(ends)))
    lines.append("\\midrule")
    for names, texts in _lines(table, options, _latex_text, "\\textbf{{{}}}", "\\textsuperscript{{{}}}"):
        lines.append(" & ".join([*names, *texts]) + r" \\")
    caption = _latex_text(" ".join(table.notes))
    lines += ["\\bottomrule", "\\end{tabular}", f"\\caption{{{caption}}}", "\\end{table}"]
    return "\n".join(lines) + "\n"


def _html(table: PaperTable, options: TableOptions) -> str:
    heads = [
        "".join(f"<th>{html.escape(name)}</th>" for name in names)
        + "".join(f'<th colspan="{n}">{html.escape(label)}</th>' for label, n in spans)
        for _, names, spans in _head_lines(table)
    ]
    body = [
        "".join(f"<th>{name}</th>" for name in names) + "".join(f"<td>{text}</td>" for text in texts)
        for names, texts in _lines(table, options, html.escape, "<b>{}</b>", "<sup>{}</sup>")
    ]
    parts = [
        "<table>",
        f"<caption>{html.escape(' '.join(table.notes))}</caption>",
        "<thead>",
        *(f"<tr>{line}</tr>" for line in heads),
        "</thead>",
        "<tbody>",
        *(f"<tr>{line}</tr>" for line in body),
        "</tbody>",
        "</table>",
    ]
    return "\n".join(parts) + "\n"


def _csv(table: PaperTable, options: TableOptions) -> str:
    """Return a line per cell, with unrounded numbers in the unit of the table."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*table.row_names, "column", "mean", "low", "high", "n", "runs", "best", "p"])
    for names, line in zip(table.rows, table.cells, strict=True):
        for column, cell in zip(table.columns or [("",)], line, strict=True):
            found = cell.estimate.scaled(_scale(cell.quantity, options)[0])
            numbers = ["" if math.isnan(x) else x for x in (found.mean, found.low, found.high)]
            p = "" if math.isnan(cell.p_value) else cell.p_value
            writer.writerow([*names, ", ".join(column), *numbers, found.n, cell.n_runs, int(cell.best), p])
    return text.getvalue()


FORMATS: dict[str, Callable[[PaperTable, TableOptions], str]] = {
    "markdown": _markdown,
    "latex": _latex,
    "csv": _csv,
    "html": _html,
}
