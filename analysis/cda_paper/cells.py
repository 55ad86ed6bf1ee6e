"""The cells of the report: each printed number, with its measure or the reason for none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial

from analysis.cda_paper import experiments as ex
from analysis.cda_paper.experiments import (
    AUTHORS100,
    FULL943,
    FULL_BATCH,
    MOVIELENS,
    WITH_ALL,
    checkin_experiment,
    dp_experiment,
    observer_name,
)
from analysis.cda_paper.measures import (
    MAIN_RULE,
    AttackNumber,
    RunNumber,
    accuracy_among,
    attack_seconds,
    membership_rate,
    single_attack,
    summary_number,
)
from analysis.cda_paper.published import PrintedCell, printed_numbers
from analysis.cda_paper.readings import Reading, readings_by_rule
from analysis.cda_paper.remarks import number_remark
from analysis.cda_paper.text_numbers import compare_text_number

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
Compared = list[Reading]
FULL_BATCH_FEDAVG = "full943, full batches"
LOOKING = {
    "own_embedding": "own row, as in the published code",
    "paper": "row trained once, the literal Algorithms 3 and 4",
    "fitted": "row fitted again and again (a stronger attacker than the paper's)",
}
"""Ways in which adversaries replace hidden user rows."""
AFTER_SEEING = "the momentum was chosen after both numbers were seen"


@dataclass(frozen=True)
class ReportCell:
    """A number of the report: the printed number, with its measure or the reason for none.

    Attributes
    ----------
    variant : str
        The reading of the paper that was run, such as users and K; empty if there is only one.
    rule : str
        The relevance rule that is compared with the printed number.
    note : str
        Why it differs, or cannot be reproduced: one sentence per line.
    """

    printed: PrintedCell
    variant: str = ""
    measure: RunNumber | None = None
    why_not: str = ""
    rule: str = MAIN_RULE
    note: str = ""

    @property
    def column(self) -> str:
        """Its column heading."""
        return COLUMNS.get(self.printed.column, self.printed.column)

    @property
    def attack(self) -> AttackNumber | None:
        """The attack behind it, which has bounds, or None for other numbers."""
        return self.measure if isinstance(self.measure, AttackNumber) else None


@cache
def report_cells() -> tuple[ReportCell, ...]:
    """Return the cells in the order of the paper: for every printed number, the setting compared first, then others."""
    cells: list[ReportCell] = []
    for number in printed_numbers():
        compared = _COMPARED[number.table](number)
        if isinstance(compared, str):
            cells.append(ReportCell(number, why_not=compared))
            continue
        cells += [_cell(number, one) for one in compared]
        if (
            number.column == "best10"
        ):  # a printed 60.3 % is no multiple of 1/K, so it cannot be a least accuracy
            also = replace(number, column="best10_mean")
            cells += [
                _cell(also, replace(one, measure=one.measure.of("best10_mean")))
                for one in compared
                if isinstance(one.measure, AttackNumber)
            ]
    return (*cells, *_not_printed())


def _cell(number: PrintedCell, one: Reading) -> ReportCell:
    note = "\n".join(part for part in (one.note, number_remark(number)) if part)
    return ReportCell(number, one.setting, one.measure, rule=one.rule, note=note)


def _statistics(number: PrintedCell) -> Compared:
    key = {"users": "nodes"}.get(number.column, number.column)
    return [Reading("", summary_number(_fedavg(number), key))]


def _fedavg(number: PrintedCell) -> str:
    return (
        ex.ML_FEDAVG
        if number.dataset == "movielens-100k"
        else checkin_experiment("foursquare", "fedavg", "gmf")
    )


def _quantity(number: PrintedCell) -> str:
    return {"best10": "best10_min"}.get(number.column, number.column)


def _main_tables(number: PrintedCell) -> Compared:
    protocol, model = number.row.split()
    one = partial(single_attack, quantity=_quantity(number))
    if number.dataset == "movielens-100k":
        if protocol == "fedavg":
            return _federated(one)
        return _gossip(partial(AttackNumber, observer="single", quantity=_quantity(number)), protocol)
    whole, some = (
        checkin_experiment(v, protocol, model.removesuffix("-g")) for v in ("foursquare", "foursquare146")
    )
    sizes = ((whole, "all users", 50), (some, "146 users", 5), (some, "146 users", 50))
    found = [Reading(f"{users}, K = {k}", one(experiment, k)) for experiment, users, k in sizes]
    if number.row == "fedavg prme-g":
        longer = "the print gives a batch of 128 and no number of local epochs; still rising at round 20"
        said, attack = "146 users, K = 5, ten local epochs", one(ex.PRME_10_EPOCHS, 5)
        without = replace(attack, momentum=0.0)
        found += [
            Reading(f"{said}, momentum 0", without, note=f"{longer}; {AFTER_SEEING}"),
            Reading(f"{said}, momentum 0.99", attack, note=longer),
        ]
    return found


def _federated(one: Callable[..., AttackNumber]) -> Compared:
    return [
        *readings_by_rule(FULL943, one(ex.ML_FEDAVG)),
        *readings_by_rule(FULL_BATCH_FEDAVG, one(dp_experiment("fedavg", None))),
        Reading(AUTHORS100, one(ex.AUTHORS_FEDAVG, 5)),
    ]


def _gossip(attack: Callable[..., AttackNumber], protocol: str = "rand-gossip") -> Compared:
    """Return the readings of a gossip attack with full models, the setting of the published code first."""
    found = [
        *readings_by_rule(AUTHORS100, attack(ex.AUTHORS[protocol], k=5)),
        Reading(FULL943, attack(MOVIELENS[protocol])),
    ]
    if protocol != "rand-gossip":
        return found
    full = attack(ex.ML_FULL_BATCH)
    found.append(Reading(FULL_BATCH, full))
    if full.observer in POOLS:
        with_all = replace(full, observer=POOLS[full.observer])
        found.append(Reading(f"{FULL_BATCH}, compared with all other items", with_all))
    return found


def _bounds(number: PrintedCell) -> Compared:
    bound = partial(single_attack, quantity="random_bound")
    if number.row != "random bound":
        protocol = number.row.split()[0]
        upper = partial(single_attack, quantity="upper_bound")
        if protocol == "fedavg":
            return [Reading(FULL943, upper(ex.ML_FEDAVG))]
        settings = ((AUTHORS100, ex.AUTHORS[protocol], 5), (FULL943, MOVIELENS[protocol], 50))
        return [Reading(setting, upper(experiment, k)) for setting, experiment, k in settings]
    if number.dataset == "movielens-100k":
        return [Reading(FULL943, bound(ex.ML_FEDAVG)), Reading(AUTHORS100, bound(ex.AUTHORS_RAND, 5))]
    some = checkin_experiment("foursquare146", "fedavg", "gmf")
    return [
        Reading("all users, K = 50", bound(_fedavg(number))),
        Reading("146 users, K = 5", bound(some, 5)),
    ]


POOLS = {f"coalition-{share}": f"coalition-{more}" for share, more in WITH_ALL.items()}


def _share(row: str) -> str | None:
    """Return the fraction of colluders in a row's label, or None for single adversaries."""
    return None if row.startswith("single") else row.split()[0]


def _observer(row: str) -> str:
    share = _share(row)
    return "single" if share is None else f"coalition-{share}"


def _colluders(number: PrintedCell) -> Compared:
    return _gossip(partial(AttackNumber, observer=_observer(number.row), quantity=_quantity(number)))


def _colluders_less(number: PrintedCell) -> Compared:
    """Return the readings of Table 7: each setting with each replacement of hidden rows."""
    found = []
    for setting, experiment, k in ((AUTHORS100, ex.AUTHORS_RAND_LESS, 5), (FULL943, ex.ML_RAND_LESS, 50)):
        for kind, words in LOOKING.items():
            observer = observer_name(kind, _share(number.row))
            attack = AttackNumber(experiment, observer, k=k, quantity=_quantity(number))
            found.append(Reading(f"{setting}, {words}", attack))
            if kind != "fitted":
                found.append(Reading(f"{setting}, {words}", attack, "mean_score", "the paper's rule, eq. 4"))
    return found


def _momentum(number: PrintedCell) -> Compared:
    beta = 0.99 if number.column == "with_momentum" else 0.0
    return _gossip(partial(AttackNumber, observer=_observer(number.row), momentum=beta))


def _sizes(number: PrintedCell) -> Compared:
    k = int(number.row.removeprefix("K="))
    if number.column != "share_less":
        attack = single_attack(ex.ML_FEDAVG, k, "random_bound" if number.column == "random" else "max_aac")
        return readings_by_rule(FULL943, attack)
    own = single_attack(ex.ML_FEDAVG_LESS, k)
    without = replace(own, momentum=0.0)
    said = f"{FULL943}, {LOOKING['own_embedding']}"
    found = [
        Reading(f"{said}, momentum 0", without, note=AFTER_SEEING),
        Reading(f"{said}, momentum 0", without, "mean_score", f"{AFTER_SEEING}; the paper's rule, eq. 4"),
        Reading(f"{said}, momentum 0.99", own),
    ]
    for kind, experiment in (("paper", ex.ML_FEDAVG_LESS_PAPER), ("fitted", ex.ML_FEDAVG_LESS_FITTED)):
        found.append(Reading(f"{FULL943}, {LOOKING[kind]}, momentum 0.99", single_attack(experiment, k)))
    return found


def membership_number(threshold: str) -> AttackNumber:
    """Return the entropy MIA at a threshold, read as a community attack on the latest models, without momentum."""
    return AttackNumber(ex.ML_FEDAVG, "coordinator", momentum=0.0, relevance=f"mia-{threshold}")


def _membership(number: PrintedCell) -> Compared:
    if number.row == "cda":
        return readings_by_rule(FULL943, single_attack(ex.ML_FEDAVG))
    threshold = number.row.split()[-1]
    attack = membership_number(threshold)
    is_rate = number.column != "max_aac"
    measure = membership_rate(attack, float(threshold), number.column) if is_rate else attack
    return [Reading(f"{FULL943}, momentum 0", measure, note=AFTER_SEEING)]


AIA = AttackNumber(ex.ML_AIA, "coordinator", momentum=0.0, relevance="aia")
CDA_BESIDE_AIA = accuracy_among(single_attack(ex.ML_AIA), AIA)
"""CDA on the one community that attribute inference targets."""


def _inference(number: PrintedCell) -> Compared:
    if number.column == "seconds":
        return [Reading(FULL943, attack_seconds(ex.ML_AIA, f"{number.row}-coordinator"))]
    return [Reading(FULL943, AIA if number.row == "aia" else CDA_BESIDE_AIA)]


def _not_printed() -> list[ReportCell]:
    """Return cells for measured numbers that the paper, as published, does not have."""
    return [
        ReportCell(
            PrintedCell("table4" if p == "fedavg" else "table5", "gowalla", f"{p} {model}", "max_aac", ""),
            f"100 users, K = {k}",
            single_attack(checkin_experiment("gowalla100", p, model.removesuffix("-g")), k),
        )
        for p in MOVIELENS
        for model in ("gmf", "prme-g")
        for k in (5, 50)
    ]


_COMPARED: dict[str, Callable[[PrintedCell], Compared | str]] = {
    "table2": _statistics,
    "table4": _main_tables,
    "table4-bounds": _bounds,
    "table5": _main_tables,
    "table6": _colluders,
    "table7": _colluders_less,
    "table8": _momentum,
    "table9": _sizes,
    "table10": _membership,
    "table11": _inference,
    "text": compare_text_number,
}
