"""Comparisons for the numbers quoted in the paper's text."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from analysis.cda_paper import experiments as ex
from analysis.cda_paper.experiments import (
    AUTHORS100,
    FULL943,
    FULL_BATCH,
    checkin_experiment,
    dp_experiment,
    observer_name,
)
from analysis.cda_paper.measures import (
    AttackNumber,
    FunctionNumber,
    RunNumber,
    adversary_number,
    difference_of,
    ratio_of,
    relative_loss,
    single_attack,
    utility_number,
)
from analysis.cda_paper.published import PrintedCell
from analysis.cda_paper.readings import Reading

ML = "MovieLens-100k"
_WHOLE, _SOME = (
    checkin_experiment("foursquare", "fedavg", "gmf"),
    checkin_experiment("foursquare146", "fedavg", "gmf"),
)
_WHOLE_LESS = checkin_experiment("foursquare", "fedavg", "gmf", share_less=True)
_SOME_LESS = checkin_experiment("foursquare146", "fedavg", "gmf", share_less=True)
_PRME, _PRME_LESS = (
    checkin_experiment("foursquare146", "fedavg", "prme", share_less=less) for less in (False, True)
)
_FULL, _LESS = single_attack(ex.ML_FEDAVG), replace(single_attack(ex.ML_FEDAVG_LESS), momentum=0.0)
_RAND, _PERS = single_attack(ex.ML_RAND), single_attack(ex.ML_PERS)
_AUTHORS, _AUTHORS_PERS = single_attack(ex.AUTHORS_RAND, 5), single_attack(ex.AUTHORS_PERS, 5)
_ARITHMETIC = "arithmetic that needs no run: N P / (P + 1) with P = 3"
Told = tuple[str, RunNumber]


def compare_text_number(number: PrintedCell) -> list[Reading] | str:
    """Return the readings of a quoted number, or the reason why there is none."""
    compared = _compared()[number.row]
    return compared if isinstance(compared, str) else [Reading(*told) for told in compared]


def _colluders(share: int, experiment: str = ex.ML_RAND, k: int = 50) -> AttackNumber:
    return AttackNumber(experiment, f"coalition-{share}%", k=k)


def _trained_once(experiment: str, k: int) -> AttackNumber:
    return AttackNumber(experiment, observer_name("paper", "20%"), k=k)


def _above(attack: AttackNumber, level: float | None = None) -> FunctionNumber:
    """Return the fraction of the adversaries above an accuracy (a fraction, or None for guessing)."""
    return adversary_number(
        attack, lambda found, random: float(np.mean(found > (random if level is None else level)))
    )


def _below_random(attack: AttackNumber) -> FunctionNumber:
    return adversary_number(attack, lambda found, random: float(np.mean(found < random)))


def _quantile(attack: AttackNumber, share: float) -> FunctionNumber:
    return adversary_number(attack, lambda found, random: float(np.quantile(found, share)))


@cache
def _compared() -> dict[str, list[Told] | str]:
    single = single_attack(checkin_experiment("foursquare146", "rand-gossip", "gmf"), 5)
    ten = single_attack(ex.ML_FEDAVG, 10)
    return {
        "6.1-prme-drop": "the print contradicts itself; Table 4 is compared instead",
        "6.1-above-80": [
            ("all users, K = 50", _above(single_attack(_WHOLE), 0.8)),
            ("146 users, K = 5", _above(single_attack(_SOME, 5), 0.8)),
        ],
        "6.1-above-random": [(ML, _above(_FULL)), ("Foursquare, all users", _above(single_attack(_WHOLE)))],
        "6.2-fl-zero": [(ML, adversary_number(_FULL, lambda found, random: float(np.mean(found == 0))))],
        "6.2-gossip-top": [
            (f"{AUTHORS100}, Rand-Gossip, 99 % quantile", _quantile(_AUTHORS, 0.99)),
            (f"{AUTHORS100}, Pers-Gossip, 99 % quantile", _quantile(_AUTHORS_PERS, 0.99)),
            (f"{FULL943}, Rand-Gossip, 99 % quantile", _quantile(_RAND, 0.99)),
            (f"{FULL943}, Pers-Gossip, 99 % quantile", _quantile(_PERS, 0.99)),
        ],
        "6.4-bound": [
            (f"{AUTHORS100}, single", _AUTHORS.of("upper_bound")),
            (f"{AUTHORS100}, 5 % colluders", _colluders(5, ex.AUTHORS_RAND, 5).of("upper_bound")),
            (f"{FULL943}, single", _RAND.of("upper_bound")),
            (f"{FULL943}, 5 % colluders", _colluders(5).of("upper_bound")),
            ("Foursquare, 146 users, K = 5, single", single.of("upper_bound")),
        ],
        "6.4-colluders": [
            (f"{setting}, {share} %", _colluders(share, experiment, k))
            for setting, experiment, k in (
                (AUTHORS100, ex.AUTHORS_RAND, 5),
                (FULL943, ex.ML_RAND, 50),
                (FULL_BATCH, ex.ML_FULL_BATCH, 50),
            )
            for share in (5, 10, 20)
        ],
        "6.4-global-view": _ARITHMETIC,
        "B-global-view": _ARITHMETIC,
        "7.1-best-2": [
            ("98 % quantile", _quantile(_LESS, 0.98)),
            ("most", adversary_number(_LESS, lambda found, random: float(found.max()))),
        ],
        "7.1-below-random": [("Share less", _below_random(_LESS)), ("full models", _below_random(_FULL))],
        "7.1-foursquare": [
            ("all users, K = 50", single_attack(_WHOLE_LESS)),
            ("146 users, K = 5", single_attack(_SOME_LESS, 5)),
        ],
        "7.1-movielens": [
            (f"{FULL943}, own row, momentum 0", _LESS),
            (f"{FULL943}, own row, momentum 0.99", replace(_LESS, momentum=0.99)),
        ],
        "7.2-change": [
            (f"{AUTHORS100}, Rand-Gossip", difference_of(single_attack(ex.AUTHORS_RAND_LESS, 5), _AUTHORS)),
            (f"{FULL943}, Rand-Gossip", difference_of(single_attack(ex.ML_RAND_LESS), _RAND)),
            (f"{FULL943}, Pers-Gossip", difference_of(single_attack(ex.ML_PERS_LESS), _PERS)),
        ],
        "7.3-factor": [
            (
                f"{AUTHORS100}, row trained once",
                ratio_of(_colluders(20, ex.AUTHORS_RAND, 5), _trained_once(ex.AUTHORS_RAND_LESS, 5)),
            ),
            (f"{FULL943}, row trained once", ratio_of(_colluders(20), _trained_once(ex.ML_RAND_LESS, 50))),
            (f"{FULL943}, own row", ratio_of(_colluders(20), _colluders(20, ex.ML_RAND_LESS))),
        ],
        "7.4-fl-loss": [
            (ML, relative_loss(utility_number(ex.ML_FEDAVG), utility_number(ex.ML_FEDAVG_LESS))),
            ("Foursquare, all users", relative_loss(utility_number(_WHOLE), utility_number(_WHOLE_LESS))),
        ],
        "7.4-gossip-loss": [
            (
                f"{ML}, Rand-Gossip",
                relative_loss(utility_number(ex.ML_RAND), utility_number(ex.ML_RAND_LESS)),
            ),
            (
                f"{ML}, Pers-Gossip",
                relative_loss(utility_number(ex.ML_PERS), utility_number(ex.ML_PERS_LESS)),
            ),
        ],
        "7.4-f1-gain": [
            (
                "FedAvg, 146 users",
                relative_loss(utility_number(_PRME_LESS, "f1@20"), utility_number(_PRME, "f1@20")),
            )
        ],
        "7.5-dp-factor": [
            (
                ML,
                ratio_of(
                    utility_number(dp_experiment("fedavg", None)),
                    utility_number(dp_experiment("fedavg", 100)),
                ),
            )
        ],
        "7.6-dp-utility": [(ML, utility_number(dp_experiment("rand-gossip", 1000)))],
        "7.6-dp-aac": [(ML, single_attack(dp_experiment("rand-gossip", 1000)))],
        "8.3-factor": [(FULL943, ratio_of(ten, ten.of("random_bound")))],
    }
