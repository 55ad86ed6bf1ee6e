"""The cells of the report: each printed number, what it is compared with, or why nothing is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

from analysis.cda_paper import experiments as ex
from analysis.cda_paper.experiments import Experiment, checkins
from analysis.cda_paper.measures import Attack, Fact, Measure, Membership, SameAdversaries, attack_seconds
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
MODELS = {"gmf": "gmf", "prme-g": "prme"}
PROTOCOL_KEYS = {"fedavg": "fedavg", "rand-gossip": "rand_gossip", "pers-gossip": "pers_gossip"}
NO_GOWALLA_TABLE = "the print at hand has no table for this data set"
Compared = list[tuple[str, Measure]]


@dataclass(frozen=True)
class Cell:
    """A number of the report.

    Attributes
    ----------
    printed : Printed
        ``value`` is empty where the paper prints none.
    variant : str
        Which reading of the paper was run: users and K; empty where there is one only.
    measure : Measure, optional
    why_not : str
        Why there is no measure.
    """

    printed: Printed
    variant: str = ""
    measure: Measure | None = None
    why_not: str = ""

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
        if number.column == "best10":
            also = Printed(number.table, number.dataset, number.row, "best10_mean", number.value)
            cells += [
                Cell(also, v, m.of("best10_mean")) for v, m in compared if isinstance(m, Attack)
            ]  # a printed 60.3 % is no multiple of 1/K, as a least accuracy would be
    return (*cells, *_not_printed())


@cache
def cells_served() -> dict[str, int]:
    """Return how many cells each experiment serves; an experiment that only figures show serves none."""
    served: dict[str, int] = {}
    for cell in all_cells():
        for name in {e.name for e in cell.measure.experiments()} if cell.measure else ():
            served[name] = served.get(name, 0) + 1
    return served


def _statistics(number: Printed) -> Compared:
    experiment = (
        ex.ML_FEDAVG if number.dataset == "movielens-100k" else checkins("foursquare", "fedavg", "gmf")
    )
    key = {"users": "nodes"}.get(number.column, number.column)
    return [("", Fact(experiment, (key,)))]


def _single(experiment: Experiment, quantity: str, k: int = 50) -> Attack:
    observer = "coordinator" if "fedavg" in experiment.name else "single"
    return Attack(experiment, observer, k=k, quantity=quantity)


def _main_tables(number: Printed) -> Compared:
    protocol, model = number.row.split()
    quantity = {"best10": "best10_min"}.get(number.column, number.column)
    if number.dataset == "movielens-100k":
        own = {"fedavg": ex.ML_FEDAVG, "rand-gossip": ex.ML_RAND, "pers-gossip": ex.ML_PERS}[protocol]
        authors = [("100 users, K = 5", _single(ex.ML_AUTHORS, quantity, 5))]
        return [("", _single(own, quantity)), *(authors if protocol == "rand-gossip" else [])]
    found = partial(checkins, protocol=PROTOCOL_KEYS[protocol], model=MODELS[model])
    return [
        ("all users, K = 50", _single(found("foursquare"), quantity)),
        ("146 users, K = 5", _single(found("foursquare146"), quantity, 5)),
        ("146 users, K = 50", _single(found("foursquare146"), quantity, 50)),
    ]


def _bounds(number: Printed) -> Compared:
    if number.row == "random bound" and number.dataset == "movielens-100k":
        return [("", _single(ex.ML_FEDAVG, "random_bound"))]
    if number.row == "random bound":
        some = checkins("foursquare146", "fedavg", "gmf")
        whole = checkins("foursquare", "fedavg", "gmf")
        return [
            ("all users, K = 50", _single(whole, "random_bound")),
            ("146 users, K = 5", _single(some, "random_bound", 5)),
        ]
    protocol = number.row.split()[0]
    own = {"fedavg": ex.ML_FEDAVG, "rand-gossip": ex.ML_RAND, "pers-gossip": ex.ML_PERS}[protocol]
    return [("MovieLens-100k", _single(own, "upper_bound"))]


def _observer(row: str) -> str:
    return "single" if row.startswith("single") else f"coalition-{row.split()[0]}"


def _colluders(number: Printed, experiment: Experiment) -> Compared:
    quantity = {"best10": "best10_min"}.get(number.column, number.column)
    return [("", Attack(experiment, _observer(number.row), quantity=quantity))]


def _momentum(number: Printed) -> Compared:
    beta = 0.99 if number.column == "with_momentum" else 0.0
    return [("", Attack(ex.ML_RAND, _observer(number.row), beta))]


def _sizes(number: Printed) -> Compared:
    k = int(number.row.removeprefix("K="))
    experiment = ex.ML_FEDAVG_LESS if number.column == "share_less" else ex.ML_FEDAVG
    return [("", _single(experiment, "random_bound" if number.column == "random" else "max_aac", k))]


def membership_attack(threshold: str) -> Attack:
    """Return the entropy MIA of a threshold, read as a community attack; on the latest models, without momentum."""
    return Attack(ex.ML_FEDAVG, "coordinator", momentum=0.0, relevance=f"mia-{threshold}")


def _membership(number: Printed) -> Compared:
    if number.row == "cda":
        return [("", _single(ex.ML_FEDAVG, "max_aac"))]
    threshold = number.row.split()[-1]
    attack = membership_attack(threshold)
    if number.column == "max_aac":
        return [("", attack)]
    return [("", Membership(attack, float(threshold), number.column))]


AIA = Attack(ex.ML_AIA, "coordinator", momentum=0.0, relevance="aia")
AIA_CDA = Attack(ex.ML_AIA, "coordinator")


def _inference(number: Printed) -> Compared:
    if number.column == "seconds":
        return [("", attack_seconds(ex.ML_AIA, f"{number.row}-coordinator"))]
    return [("", AIA if number.row == "aia" else SameAdversaries(AIA_CDA, AIA))]


def _not_printed() -> list[Cell]:
    """Return what is measured where the print at hand has no number."""
    return [
        Cell(
            Printed(
                f"table{4 if protocol == 'fedavg' else 5}", "gowalla", f"{protocol} {model}", "max_aac", ""
            ),
            f"100 users, K = {k}",
            _single(checkins("gowalla100", PROTOCOL_KEYS[protocol], MODELS[model]), "max_aac", k),
        )
        for protocol in PROTOCOL_KEYS
        for model in MODELS
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
