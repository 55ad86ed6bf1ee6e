"""The tables of the report: what is printed beside what was measured, a line per cell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from analysis.cda_paper.cells import NO_GOWALLA_TABLE, Cell, all_cells
from analysis.cda_paper.measures import RULES, PerSeed, Runs, mean, spread
from analysis.cda_paper.published import notes, titles

PRINTED_RANDOM = {"movielens-100k": 5.3, "foursquare-nyc": 3.6}
"""Random bounds of Tables 4 and 5, percent."""
NAMES = {
    "movielens-100k": "MovieLens-100k",
    "foursquare-nyc": "Foursquare-NYC",
    "gowalla": "Gowalla",
}
BOUNDS = ("random_bound", "upper_bound")
_HEAD = ["data", "setting", "what", "published", "measured", "difference"]
_BOUNDED = [
    "published / random", "measured / random", *(f"under {rule}" for rule in RULES[1:]), "random", "upper bound",
]  # fmt: skip
CSV_HEADER = ("table", "dataset", "row", "variant", "column", "published", "relevance", "seed", "measured")
Line = list[str]


@dataclass(frozen=True)
class Table:
    """A table of the report: text, ready to be laid out."""

    title: str
    header: Line
    lines: list[Line]
    name: str = ""
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
        has_bounds = any(cell.attack for cell in cells) and name not in ("table4-bounds", "text")
        lines = [
            _head(cell, runs, reasons) + (_bounds(cell, runs) if has_bounds else [cell.printed.note])
            for cell in cells
        ]
        heading = "Text" if name == "text" else name.replace("table", "Table ").replace("-bounds", ", bounds")
        header = _HEAD + (_BOUNDED if has_bounds else ["note"])
        found.append(Table(f"{heading}: {title}", header, lines, name, notes().get(name, "")))
    return found


def _head(cell: Cell, runs: Runs, reasons: dict[str, str]) -> Line:
    """Return data set, setting, quantity, published, measured, difference."""
    printed = cell.printed
    values = cell.measure.per_seed(runs) if cell.measure else {}
    setting = f"{printed.row} ({cell.variant})" if cell.variant else printed.row
    difference = ""
    if isinstance(printed.value, int | float) and values:
        digits = 2 if abs(printed.value) <= 1 else 1
        difference = f"{mean(values) - printed.value:+.{digits}f}"
    return [
        NAMES.get(printed.dataset, printed.dataset),
        cell.variant if printed.table == "text" else setting,
        cell.column,
        NO_GOWALLA_TABLE if printed.value == "" else str(printed.value),
        in_words(values) or _why_not(cell, reasons),
        difference,
    ]


def _why_not(cell: Cell, reasons: dict[str, str]) -> str:
    """Say why a cell has no value: in short, the report lists the rest under "Missing"."""
    if cell.measure is None:
        return f"not compared: {cell.why_not}"
    known = (reasons[name].partition(":")[0] for name in cell.measure.experiments if name in reasons)
    return next(known, "the run does not say")


def _bounds(cell: Cell, runs: Runs) -> Line:
    """Return published and measured over random, what other rules measure, and both bounds."""
    attack = cell.attack
    if attack is None:
        return [""] * len(_BOUNDED)
    random, upper = (attack.of(name).mean(runs) for name in BOUNDS)
    others, over_random = [""] * (len(RULES) - 1), ["", ""]
    if attack.quantity not in BOUNDS:
        value = cell.printed.value if isinstance(cell.printed.value, int | float) else float("nan")
        over_random = [_times(value, _printed_random(cell)), _times(attack.mean(runs), random)]
        if attack.relevance is None:
            others = [in_words(attack.per_seed(runs, rule)) for rule in RULES[1:]]
    return [*over_random, *others, *(f"{one:.1f}" if np.isfinite(one) else "" for one in (random, upper))]


def _printed_random(cell: Cell) -> float:
    """Return what the paper prints for guessing: in Table 9 for each K, elsewhere for each data set."""
    printed = cell.printed
    if printed.table != "table9":
        return PRINTED_RANDOM.get(printed.dataset, float("nan"))
    others = (other.printed for other in all_cells() if other.printed.table == "table9")
    return next(float(o.value) for o in others if (o.row, o.column) == (printed.row, "random"))


def in_words(values: PerSeed) -> str:
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


def csv_rows(runs: Runs) -> Iterator[list[str | int | float]]:
    """Yield every cell as numbers: one row per seed and rule, for other programs."""
    for cell in all_cells():
        printed, measure = cell.printed, cell.measure
        about = [printed.table, printed.dataset, printed.row, cell.variant, printed.column, printed.value]
        for rule in RULES if cell.attack and cell.attack.relevance is None else ("",):
            for seed, value in (measure.per_seed(runs, rule or RULES[0]) if measure else {}).items():
                yield [*about, rule, seed, value]
