"""The cells of the report: each printed number, what it is compared with, or why nothing is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial

from analysis.cda_paper import experiments as ex
from analysis.cda_paper.experiments import MOVIELENS, checkins
from analysis.cda_paper.measures import (
    MAIN_RULE,
    Attack,
    Measure,
    alone,
    among,
    attack_seconds,
    fact,
    membership,
)
from analysis.cda_paper.published import Printed, printed
from analysis.cda_paper.quoted import quoted

COLUMNS = {
    "max_aac": "Max AAC %",
    "best10": "Best 10 % AAC, least %",
    "best10_mean": "Best 10 % AAC, mean %",
    "bound": "%",
    "without_momentum": "Max AAC % without momentum",
    "with_momentum": "Max AAC % with momentum",
    "full": "Max AAC % full models",
    "share_less": "Max AAC % Share less",
    "random": "random guess %",
    "accuracy": "MIA accuracy",
    "precision": "MIA precision",
    "recall": "MIA recall",
    "seconds": "time s",
}
NO_GOWALLA_TABLE = "the print at hand has no table for this data set"
Compared = list[tuple[str, Measure]]


@dataclass(frozen=True)
class Cell:
    """A number of the report: what is printed, and the measure beside it or why there is none.

    Attributes
    ----------
    variant : str
        Which reading of the paper was run: users and K; empty where there is one only.
    rule : str
        The relevance rule that is compared with the print.
    note : str
        Why it differs, or cannot be reproduced: a sentence a line.
    """

    printed: Printed
    variant: str = ""
    measure: Measure | None = None
    why_not: str = ""
    rule: str = MAIN_RULE
    note: str = ""

    @property
    def column(self) -> str:
        """Its heading."""
        return COLUMNS.get(self.printed.column, self.printed.column)

    @property
    def attack(self) -> Attack | None:
        """The attack behind it, which has bounds; None for other numbers."""
        return self.measure if isinstance(self.measure, Attack) else None


@cache
def all_cells() -> tuple[Cell, ...]:
    """Return the cells in the order of the paper: every printed number at least once."""
    cells: list[Cell] = []
    for number in printed():
        compared = _COMPARED[number.table](number)
        if isinstance(compared, str):
            cells.append(Cell(number, why_not=compared))
            continue
        cells += [Cell(number, variant, measure) for variant, measure in compared]
        if number.column == "best10":  # a printed 60.3 % is no multiple of 1/K, as a least accuracy would be
            also = replace(number, column="best10_mean")
            cells += [Cell(also, v, m.of("best10_mean")) for v, m in compared if isinstance(m, Attack)]
    return (*cells, *_not_printed())


def _statistics(number: Printed) -> Compared:
    key = {"users": "nodes"}.get(number.column, number.column)
    return [("", fact(_fedavg(number), key))]


def _fedavg(number: Printed) -> str:
    return ex.ML_FEDAVG if number.dataset == "movielens-100k" else checkins("foursquare", "fedavg", "gmf")


def _quantity(number: Printed) -> str:
    return {"best10": "best10_min"}.get(number.column, number.column)


def _main_tables(number: Printed) -> Compared:
    protocol, model = number.row.split()
    one = partial(alone, quantity=_quantity(number))
    if number.dataset == "movielens-100k":
        authors = [("100 users, K = 5", one(ex.ML_AUTHORS, 5))] if protocol == "rand-gossip" else []
        return [("", one(MOVIELENS[protocol])), *authors]
    whole, some = (checkins(v, protocol, model.removesuffix("-g")) for v in ("foursquare", "foursquare146"))
    sizes = ((whole, "all users", 50), (some, "146 users", 5), (some, "146 users", 50))
    return [(f"{users}, K = {k}", one(experiment, k)) for experiment, users, k in sizes]


def _bounds(number: Printed) -> Compared:
    if number.row != "random bound":
        own = MOVIELENS[number.row.split()[0]]
        return [("MovieLens-100k", alone(own, quantity="upper_bound"))]
    bound = partial(alone, quantity="random_bound")
    if number.dataset == "movielens-100k":
        return [("", bound(ex.ML_FEDAVG))]
    some = checkins("foursquare146", "fedavg", "gmf")
    return [("all users, K = 50", bound(_fedavg(number))), ("146 users, K = 5", bound(some, 5))]


def _observer(row: str) -> str:
    return "single" if row.startswith("single") else f"coalition-{row.split()[0]}"


def _colluders(number: Printed, experiment: str) -> Compared:
    return [("", Attack(experiment, _observer(number.row), quantity=_quantity(number)))]


def _momentum(number: Printed) -> Compared:
    beta = 0.99 if number.column == "with_momentum" else 0.0
    return [("", Attack(ex.ML_RAND, _observer(number.row), beta))]


def _sizes(number: Printed) -> Compared:
    k = int(number.row.removeprefix("K="))
    experiment = ex.ML_FEDAVG_LESS if number.column == "share_less" else ex.ML_FEDAVG
    return [("", alone(experiment, k, "random_bound" if number.column == "random" else "max_aac"))]


def membership_attack(threshold: str) -> Attack:
    """Return the entropy MIA of a threshold, read as a community attack; on the latest models, without momentum."""
    return Attack(ex.ML_FEDAVG, "coordinator", momentum=0.0, relevance=f"mia-{threshold}")


def _membership(number: Printed) -> Compared:
    if number.row == "cda":
        return [("", alone(ex.ML_FEDAVG))]
    threshold = number.row.split()[-1]
    attack = membership_attack(threshold)
    is_rate = number.column != "max_aac"
    return [("", membership(attack, float(threshold), number.column) if is_rate else attack)]


AIA = Attack(ex.ML_AIA, "coordinator", momentum=0.0, relevance="aia")
CDA_BESIDE_AIA = among(alone(ex.ML_AIA), AIA)
"""CDA on the one community that attribute inference looks for."""


def _inference(number: Printed) -> Compared:
    if number.column == "seconds":
        return [("", attack_seconds(ex.ML_AIA, f"{number.row}-coordinator"))]
    return [("", AIA if number.row == "aia" else CDA_BESIDE_AIA)]


def _not_printed() -> list[Cell]:
    """Return what is measured where the print at hand has no number."""
    return [
        Cell(
            Printed("table4" if p == "fedavg" else "table5", "gowalla", f"{p} {model}", "max_aac", ""),
            f"100 users, K = {k}",
            alone(checkins("gowalla100", p, model.removesuffix("-g")), k),
        )
        for p in MOVIELENS
        for model in ("gmf", "prme-g")
        for k in (5, 50)
    ]


_COMPARED: dict[str, Callable[[Printed], Compared | str]] = {
    "table2": _statistics,
    "table4": _main_tables,
    "table4-bounds": _bounds,
    "table5": _main_tables,
    "table6": partial(_colluders, experiment=ex.ML_RAND),
    "table7": partial(_colluders, experiment=ex.ML_RAND_LESS),
    "table8": _momentum,
    "table9": _sizes,
    "table10": _membership,
    "table11": _inference,
    "text": quoted,
}
