"""What the numbers quoted in the paper's text are compared with."""

from __future__ import annotations

import numpy as np

from analysis.cda_paper import experiments as ex
from analysis.cda_paper.experiments import Experiment, checkins, dp
from analysis.cda_paper.measures import (
    Adversaries,
    Attack,
    Measure,
    Utility,
    difference,
    factor,
    loss,
)
from analysis.cda_paper.published import Printed

ML = "MovieLens-100k"


def _coordinator(experiment: Experiment, k: int = 50) -> Attack:
    return Attack(experiment, "coordinator", k=k)


def _above_random(attack: Attack) -> Adversaries:
    return Adversaries(attack, lambda accuracy, random: float(np.mean(accuracy > random)))


def _quantile(attack: Attack, share: float) -> Adversaries:
    return Adversaries(attack, lambda accuracy, random: float(np.quantile(accuracy, share)))


def _compared() -> dict[str, list[tuple[str, Measure]] | str]:
    whole, some = checkins("foursquare", "fedavg", "gmf"), checkins("foursquare146", "fedavg", "gmf")
    whole_less = checkins("foursquare", "fedavg", "gmf", share_less=True)
    some_less = checkins("foursquare146", "fedavg", "gmf", share_less=True)
    prme, prme_less = (checkins("foursquare146", "fedavg", "prme", share_less=less) for less in (False, True))
    full, less = _coordinator(ex.ML_FEDAVG), _coordinator(ex.ML_FEDAVG_LESS)
    rand, rand_less = Attack(ex.ML_RAND, "single"), Attack(ex.ML_RAND_LESS, "single")
    pers, pers_less = Attack(ex.ML_PERS, "single"), Attack(ex.ML_PERS_LESS, "single")
    arithmetic = "arithmetic that needs no run: N P / (P + 1) with P = 3"
    return {
        "6.1-prme-drop": "the print contradicts itself; Table 4 is compared instead",
        "6.1-above-80": [
            (v, Adversaries(a, lambda accuracy, random: float(np.mean(accuracy > 0.8))))
            for v, a in (
                ("all users, K = 50", _coordinator(whole)),
                ("146 users, K = 5", _coordinator(some, 5)),
            )
        ],
        "6.1-above-random": [
            (ML, _above_random(full)),
            ("Foursquare, all users", _above_random(_coordinator(whole))),
        ],
        "6.2-fl-zero": [(ML, Adversaries(full, lambda accuracy, random: float(np.mean(accuracy == 0))))],
        "6.2-gossip-top": [
            (f"{ML}, Rand-Gossip, 99 % quantile", _quantile(rand, 0.99)),
            (f"{ML}, Pers-Gossip, 99 % quantile", _quantile(pers, 0.99)),
        ],
        "6.4-bound": [
            (f"{ML}, single", rand.of("upper_bound")),
            (f"{ML}, 5 % colluders", Attack(ex.ML_RAND, "coalition-5%", quantity="upper_bound")),
            (
                "Foursquare, 146 users, K = 5, single",
                Attack(
                    checkins("foursquare146", "rand_gossip", "gmf"), "single", k=5, quantity="upper_bound"
                ),
            ),
        ],
        "6.4-colluders": [(f"{share} %", Attack(ex.ML_RAND, f"coalition-{share}%")) for share in (5, 10, 20)],
        "6.4-global-view": arithmetic,
        "B-global-view": arithmetic,
        "7.1-best-2": [
            ("98 % quantile", _quantile(less, 0.98)),
            ("most", Adversaries(less, lambda accuracy, random: float(accuracy.max()))),
        ],
        "7.1-below-random": [
            ("Share less", Adversaries(less, lambda accuracy, random: float(np.mean(accuracy < random)))),
            ("full models", Adversaries(full, lambda accuracy, random: float(np.mean(accuracy < random)))),
        ],
        "7.1-foursquare": [
            ("all users, K = 50", _coordinator(whole_less)),
            ("146 users, K = 5", _coordinator(some_less, 5)),
        ],
        "7.1-movielens": [("", less)],
        "7.2-change": [
            ("Rand-Gossip", difference(rand_less, rand)),
            ("Pers-Gossip", difference(pers_less, pers)),
        ],
        "7.3-factor": [
            ("", factor(Attack(ex.ML_RAND, "coalition-20%"), Attack(ex.ML_RAND_LESS, "coalition-20%")))
        ],
        "7.4-fl-loss": [
            (ML, loss(Utility(ex.ML_FEDAVG), Utility(ex.ML_FEDAVG_LESS))),
            ("Foursquare, all users", loss(Utility(whole), Utility(whole_less))),
        ],
        "7.4-gossip-loss": [
            (f"{ML}, Rand-Gossip", loss(Utility(ex.ML_RAND), Utility(ex.ML_RAND_LESS))),
            (f"{ML}, Pers-Gossip", loss(Utility(ex.ML_PERS), Utility(ex.ML_PERS_LESS))),
        ],
        "7.4-f1-gain": [("FedAvg, 146 users", loss(Utility(prme_less, "f1@20"), Utility(prme, "f1@20")))],
        "7.5-dp-factor": [(ML, factor(Utility(dp("fedavg", None)), Utility(dp("fedavg", 100))))],
        "7.6-dp-utility": [(ML, Utility(dp("rand_gossip", 1000)))],
        "7.6-dp-aac": [(ML, Attack(dp("rand_gossip", 1000), "single"))],
        "8.3-factor": [
            ("", factor(_coordinator(ex.ML_FEDAVG, 10), _coordinator(ex.ML_FEDAVG, 10).of("random_bound")))
        ],
    }


def quoted(number: Printed) -> list[tuple[str, Measure]] | str:
    """Return what a quoted number is compared with, or why it is not."""
    return _compared()[number.row]
