"""A table of the paper under each relevance rule, with the bounds and guessing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.cda_paper.cells import COLUMNS
from analysis.cda_paper.formatting import (
    DASH,
    dataset_title,
    format_measured,
    format_printed,
    row_title,
)
from analysis.cda_paper.measures import RULES
from analysis.cda_paper.published import printed_numbers
from analysis.cda_paper.verdicts import NumberResults
from analysis.papers.document import Grid, GridCell, GridColumn
from analysis.papers.seed_statistics import Runs, mean

PRINTED_RANDOM = {"movielens-100k": 5.3, "foursquare-nyc": 3.6}
"""Random bounds of Tables 4 and 5 in percent."""


def row_heads(own: Sequence[NumberResults]) -> list[str]:
    """Return the headings of a row's labels: the data set, the setting of the paper, or both."""
    datasets, rows = ({getattr(group.printed, key) for group in own} for key in ("dataset", "row"))
    return [*(["data"] if len(datasets) > 1 else []), *(["row"] if len(rows) > 1 else [])]


def row_names(dataset: str, row: str, heads: Sequence[str]) -> list[str]:
    """Return the labels of a row under these headings."""
    return [dataset_title(dataset) if head == "data" else row_title(row) for head in heads]


def rule_table(title: str, own: Sequence[NumberResults], runs: Runs) -> Grid:
    """Return the values under each relevance rule, the bounds, and the factor over guessing as published and here."""
    heads = row_heads(own)
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
            format_printed(number) or DASH,
            *(format_measured(found, number) if found else DASH for found in by_rule),
            f"{random:.1f}",
            f"{upper:.1f}",
            _times(number.number, _printed_random(group)),
            _times(mean(values), random),
            cell.variant,
        ]
        rows.append([GridCell(t) for t in (*row_names(number.dataset, number.row, heads), *texts)])
    return Grid(f"{title}: relevance rules", [GridColumn(name) for name in columns], rows, len(heads))


def _printed_random(group: NumberResults) -> float:
    """Return the published value of guessing: per K in Table 9, per data set elsewhere."""
    number = group.printed
    if number.table != "table9":
        return PRINTED_RANDOM.get(number.dataset, float("nan"))
    others = (other for other in printed_numbers() if other.table == "table9" and other.column == "random")
    return next(float(other.value) for other in others if other.row == number.row)


def _times(value: float | None, bound: float) -> str:
    return f"{value / bound:.1f}" if value is not None and np.isfinite(bound) and bound else DASH
