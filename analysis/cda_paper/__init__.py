"""The whole study of arXiv 2306.08929: every experiment by one command, compared with the paper's numbers.

python -m analysis.cda_paper --data ../shared/data --out study/
"""

from __future__ import annotations

import itertools
from pathlib import Path

from analysis.papers.comparison import PublishedTables
from analysis.papers.study import PaperStudyFile

STUDY = PaperStudyFile(Path(__file__).with_name("study.yaml"))

EPSILONS = (1, 10, 100, 1000)
ML_FEDAVG = "table4-ml100k-fedavg"
ML_RAND = "table5-ml100k-rand-gossip"
ML_PERS = "table5-ml100k-pers-gossip"
ML_RAND_LESS = "table7-ml100k-rand-gossip-share-less"
ML_FEDAVG_LESS = "table9-ml100k-fedavg-share-less"
ML_AIA = "table11-ml100k-fedavg-aia"

PUBLISHED = PublishedTables(Path(__file__).with_name("published.yaml"))
PROTOCOLS = {"fedavg": "FedAvg", "rand-gossip": "Rand-Gossip", "pers-gossip": "Pers-Gossip"}
"""Names of the protocols in experiments, and their labels."""

AUTHORS100 = "authors100"
"""The setting of the published code, among the ``settings`` of the plan."""


def dp_experiment(protocol: str, epsilon: int | None) -> str:
    """Return the name of a point of Figure 6; None is the same training without noise or clipping."""
    return f"fig6-ml100k-{protocol}-dp-eps-{epsilon or 'inf'}"


def checkin_experiment(variant: str, protocol: str, model: str, *, share_less: bool = False) -> str:
    """Return the name of an experiment on check-ins.

    Parameters
    ----------
    variant : {'foursquare', 'foursquare146', 'gowalla100'}
        All users of Foursquare-NYC with one seed, or the first 146 or 100 users with several seeds.
    protocol : {'fedavg', 'rand-gossip', 'pers-gossip'}
    model : {'gmf', 'prme'}
    share_less : bool
    """
    table = "table4" if protocol == "fedavg" else "table5"
    return f"{table}-{variant}-{protocol}-{model}{'-share-less' if share_less else ''}"


def variant_experiments() -> dict[tuple[str, str, str], str]:
    """Return the experiments of 100 wakes in which Rand-Gossip trains in one of eight ways.

    A way has a batch (``64`` for one epoch in batches of 64, or ``full`` for two in full batches), the event that
    starts training (``wake`` or ``receive``), and a clock (``clocks`` for exponential clocks, or ``lock-step`` for
    all nodes at once).
    """
    ways = itertools.product(("64", "full"), ("wake", "receive"), ("clocks", "lock-step"))
    return {way: f"switch-{'-'.join(way)}-ml100k" for way in ways}


def dataset_name(experiment: str) -> str:
    """Return the folder name of an experiment's data set."""
    return STUDY.dataset_name(experiment)


def table_momentum(experiment: str) -> float:
    """Return the momentum of the attack shown in tables, unless they name another."""
    # as in the files: momentum models of all adversaries need more than 24 GB
    too_large = (checkin_experiment("foursquare", protocol, "prme") for protocol in ("fedavg", "pers-gossip"))
    return 0.0 if experiment in too_large else 0.99
