"""Reference levels of a measure: the accuracy of guessing, and the most that any attacker could find.

A small number is no protection if nothing more could have been found. Pictures therefore draw these levels with a
measure whenever the study has collected them.
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
    """A kind of reference level: its meaning and its look.

    Attributes
    ----------
    words : str
    dashes
        Line style.
    mark : str
        Matplotlib marker on a line over numbers.
    tick : str
        Matplotlib marker in a row of words.
    """

    words: str
    dashes: Any
    mark: str
    tick: str

    @property
    def short(self) -> str:
        """The name without its explanation."""
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
    """Return the collected reference levels of a quantity, by point and seed."""
    found = {
        level: table.values.get(replace(quantity, name=name), {}) for level, name in _beside(quantity.name)
    }
    return {level: values for level, values in found.items() if values}


def _beside(name: str) -> list[tuple[ReferenceLevel, str]]:
    """Return the measures that hold the reference levels of a measure."""
    metric, order = split_baseline_name(name)
    if "@" in name and order in ("", VALIDATED):
        return [(POPULARITY, baseline_metric_name(metric, "popularity"))]
    return _OTHERS.get(name, [])
