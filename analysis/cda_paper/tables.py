"""The tables of the report: what is printed beside what was measured, a line per cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.cda_paper.cells import NO_GOWALLA_TABLE, Cell, all_cells
from analysis.cda_paper.measures import MAIN_RULE, RULES, Attack, Measure, PerSeed, Runs, mean, spread
from analysis.cda_paper.published import notes, titles

PRINTED_RANDOM = {"movielens-100k": 5.3, "foursquare-nyc": 3.6}
"""Random bounds of Tables 4 and 5, percent."""
NAMES = {
    "movielens-100k": "MovieLens-100k",
    "foursquare-nyc": "Foursquare-NYC",
    "gowalla": "Gowalla",
    "all": "all",
}
Line = list[str]


@dataclass(frozen=True)
class Table:
    """A table of the report: text, ready to be laid out."""

    name: str
    title: str
    header: Line
    lines: list[Line]
    note: str = ""

    def markdown(self) -> str:
        """Return the table as Markdown."""
        rows = [self.header, ["---"] * len(self.header), *self.lines]
        return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)


def tables(runs: Runs, reasons: dict[str, str]) -> list[Table]:
    """Return every table of the paper beside the study.

    Parameters
    ----------
    runs : mapping
        Finished runs.
    reasons : dict of str to str
        Experiment to why it has no finished run.
    """
    found = []
    for name, title in titles().items():
        cells = [cell for cell in all_cells() if cell.printed.table == name]
        note = notes().get(name, "")
        has_bounds = any(cell.attack for cell in cells) and name not in ("table4-bounds", "text")
        heading = "Text" if name == "text" else name.replace("table", "Table ").replace("-bounds", ", bounds")
        make = _with_bounds if has_bounds else _plain
        header, lines = make(cells, runs, reasons)
        found.append(Table(name, f"{heading}: {title}", header, lines, note))
    return found


def _with_bounds(cells: Sequence[Cell], runs: Runs, reasons: dict[str, str]) -> tuple[Line, list[Line]]:
    rules = [f"under {rule}" for rule in RULES[1:]]
    header = ["data", "setting", "what", "published", "measured", "difference", "published / random"]
    header += ["measured / random", *rules, "random", "upper bound"]
    return header, [_bounded_line(cell, runs, reasons) for cell in cells]


def _bounded_line(cell: Cell, runs: Runs, reasons: dict[str, str]) -> Line:
    attack = cell.attack
    random = upper = float("nan")
    others = ["", ""]
    if attack is not None:
        random, upper = (mean(attack.of(name).per_seed(runs)) for name in ("random_bound", "upper_bound"))
        if attack.relevance is None and attack.quantity not in ("random_bound", "upper_bound"):
            others = [shown(attack.per_seed(runs, rule)) for rule in RULES[1:]]
    measured = mean(cell.measure.per_seed(runs)) if cell.measure else float("nan")
    is_accuracy = attack is not None and attack.quantity not in ("random_bound", "upper_bound")
    printed_random = PRINTED_RANDOM.get(cell.printed.dataset, float("nan"))
    if cell.printed.table == "table9":
        printed_random = next(
            float(other.printed.value)
            for other in all_cells()
            if (other.printed.table, other.printed.row, other.printed.column)
            == ("table9", cell.printed.row, "random")
        )
    value = cell.printed.value if isinstance(cell.printed.value, int | float) else float("nan")
    return [
        *_head(cell, runs, reasons),
        _times(value, printed_random) if is_accuracy else "",
        _times(measured, random) if is_accuracy else "",
        *others,
        _text(random),
        _text(upper),
    ]


def _plain(cells: Sequence[Cell], runs: Runs, reasons: dict[str, str]) -> tuple[Line, list[Line]]:
    header = ["data", "setting", "what", "published", "measured", "difference", "note"]
    return header, [[*_head(cell, runs, reasons), cell.printed.note] for cell in cells]


def _head(cell: Cell, runs: Runs, reasons: dict[str, str]) -> Line:
    """Return data set, setting, quantity, published, measured, difference."""
    printed = cell.printed
    values = cell.measure.per_seed(runs) if cell.measure else {}
    unprinted = NO_GOWALLA_TABLE if printed.dataset == "gowalla" else "not printed"
    setting = printed.row if not cell.variant else f"{printed.row} ({cell.variant})"
    if printed.table == "text":
        setting = cell.variant
    difference = ""
    if isinstance(printed.value, int | float) and values:
        digits = 2 if abs(printed.value) <= 1 else 1
        difference = f"{mean(values) - printed.value:+.{digits}f}"
    return [
        NAMES.get(printed.dataset, printed.dataset),
        setting,
        cell.column,
        f"{printed.value}" if printed.value != "" else unprinted,
        shown(values) if values else _why_not(cell, reasons),
        difference,
    ]


def _why_not(cell: Cell, reasons: dict[str, str]) -> str:
    """Say why a cell has no value: in short, the report lists the rest under "Missing"."""
    if cell.measure is None:
        return f"not compared: {cell.why_not}"
    for experiment in cell.measure.experiments():
        if experiment.name in reasons:
            return reasons[experiment.name].partition(":")[0]
    return "the run does not say"


def shown(values: PerSeed) -> str:
    """Return the mean and the spread over seeds as text."""
    if not values:
        return ""
    middle = mean(values)
    digits = 2 if abs(middle) < 1 else 0 if abs(middle) >= 1000 else 1
    if len(values) == 1:
        return f"{middle:.{digits}f}"
    return f"{middle:.{digits}f} ± {spread(values):.{digits}f} ({len(values)})"


def _times(value: float, bound: float) -> str:
    return f"{value / bound:.1f}" if np.isfinite(value) and np.isfinite(bound) and bound else ""


def _text(value: float) -> str:
    return f"{value:.1f}" if np.isfinite(value) else ""


def csv_rows(runs: Runs) -> list[list[str | int | float]]:
    """Return every cell as numbers: one row per seed and rule, for other programs."""
    rows: list[list[str | int | float]] = []
    for cell in all_cells():
        if cell.measure is None:
            continue
        for rule in _rules(cell.measure):
            for seed, value in cell.measure.per_seed(runs, rule or MAIN_RULE).items():
                printed = cell.printed
                rows.append(
                    [
                        printed.table,
                        printed.dataset,
                        printed.row,
                        cell.variant,
                        printed.column,
                        printed.value,
                        rule,
                        seed,
                        value,
                    ]
                )
    return rows


CSV_HEADER = ("table", "dataset", "row", "variant", "column", "published", "relevance", "seed", "measured")


def _rules(measure: Measure) -> tuple[str, ...]:
    return RULES if isinstance(measure, Attack) and measure.relevance is None else ("",)
