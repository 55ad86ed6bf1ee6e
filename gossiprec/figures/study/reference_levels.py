"""What a measure is to be read beside: how far guessing comes, and how far anybody could.

A small number is no protection where nothing more could have been found. Pictures therefore draw these levels with a
measure wherever the study has collected them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gossiprec.figures import style
from gossiprec.figures.study.quantity import Quantity
from gossiprec.figures.study.table_reader import PerSeed, Point, StudyTable
from gossiprec.measures.selectors import VALIDATED, baseline_metric_name, split_baseline_name


@dataclass(frozen=True)
class ReferenceLevel:
    """A kind of level: what it says of a measure, and how it looks.

    Attributes
    ----------
    words : str
    dashes
        Of its line.
    mark : str
        On a line over numbers; a marker of matplotlib.
    tick : str
        In a row of words.
    """

    words: str
    dashes: Any
    mark: str
    tick: str

    @property
    def short(self) -> str:
        """Its name alone."""
        return self.words.partition(":")[0]


GUESSING = ReferenceLevel("guessing", ":", "", "4")
POPULARITY = ReferenceLevel("popularity baseline", (0, (5, 1.5, 1, 1.5)), "", "x")
AT_MOST = ReferenceLevel("upper bound: fraction met", style.THIN_DOTS, "_", "|")

_SETS = "contribution.leaks."
_OTHERS = {
    **{name: [(GUESSING, "random_bound"), (AT_MOST, "upper_bound")] for name in ("max_aac", "last_aac")},
    **{name: [(GUESSING, "random_bound")] for name in ("exposure_defended", "exposure_undefended")},
    f"{_SETS}cda": [(GUESSING, f"{_SETS}cda_random")],
    f"{_SETS}auxiliary_cda": [(GUESSING, f"{_SETS}cda_random")],
    f"{_SETS}mia_auc": [(POPULARITY, f"{_SETS}mia_auc_popularity")],
    f"{_SETS}auxiliary_mia_auc": [(POPULARITY, f"{_SETS}mia_auc_popularity")],
}


def collect_levels(table: StudyTable, quantity: Quantity) -> dict[ReferenceLevel, dict[Point, PerSeed]]:
    """Return what the study has collected of the levels beside a quantity, by point and seed."""
    found = {
        level: table.values.get(replace(quantity, name=name), {}) for level, name in _beside(quantity.name)
    }
    return {level: values for level, values in found.items() if values}


def _beside(name: str) -> list[tuple[ReferenceLevel, str]]:
    """Return the measures that say the levels beside one."""
    metric, order = split_baseline_name(name)
    if "@" in name and order in ("", VALIDATED):
        return [(POPULARITY, baseline_metric_name(metric, "popularity"))]
    return _OTHERS.get(name, [])
