"""Small run directories for the tests of this folder, every number in them chosen by hand."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gossiprec.runs import Run, RunDirectory, open_run

AAC = (0.1, 0.25)
ACCURACIES = (0.5, 0.0, 0.25, 0.25)
HITS = np.array([[2, 0], [1, 0], [2, 1]], np.int32)
METRICS = ((0.0, 0, "hr@20", 0.2), (1.5, 1, "hr@20", 0.7), (1.5, 1, "loss", 0.3))

MESSAGES = {
    "time": [1.0, 1.0, 2.0, 4.0],
    "sender": [0, 2, 0, 2],
    "receiver": [1, 1, 1, 0],
    "sent_at": [0.5, 0.5, 1.5, 3.5],
    "size_bytes": [8, 8, 8, 8],
    "queued": [0.0] * 4,
}
VIEWS = {"time": [0.5, 0.5, 1.5, 3.5], "node": [0, 2, 0, 2], "peers": [[1], [1], [1], [0]]}


def write_run(
    path: Path,
    *,
    observers: Sequence[str] = ("single",),
    relevances: Sequence[str] = ("ndcg",),
    momenta: Sequence[float] = (0.9,),
    status: str = "complete",
    with_log: bool = True,
) -> Run:
    """Write a run of three nodes in which every attack goes the same way, and open it.

    AAC is 0.1 at round 0 and 0.25 at round 1; the four adversaries reach the accuracies above.
    """
    directory = RunDirectory.create(path, scenario={"name": path.name}, seed=1, sizes={"view_size": 1})
    attacks = list(itertools.product(observers, relevances, momenta))
    for turn, aac in enumerate(AAC):
        directory.attacks.append(attack_row(*attack, turn=turn, aac=aac) for attack in attacks)
    names = ("time", "round", "metric", "value")
    directory.metrics.append(dict(zip(names, row, strict=True)) for row in METRICS)
    if with_log:
        directory.log.append("message", MESSAGES)
        directory.log.append("view", VIEWS)
    if status == "complete":
        keys = (f"{observer}/{relevance}/b{momentum:g}/k4" for observer, relevance, momentum in attacks)
        directory.write_adversaries({key: (np.arange(4), np.array(ACCURACIES)) for key in keys})
        directory.write_hits({f"{o}/{r}/b{b:g}/k4": HITS for o, r, b in attacks})
        directory.write_positions(positions([f"{o}/{r}/b{b:g}/k4" for o, r, b in attacks]))
        directory.write_summary({"nodes": 3})
    directory.finish(status)
    return open_run(path)


def positions(attacks: Sequence[str]) -> dict[str, list[str | int | float]]:
    """Return a table of positions in which the fourth node, the most central one, finds most and is found least."""
    measures: dict[str, Sequence[float]] = {"in_contacts": (1, 2, 2, 3), "betweenness": (0, 0.1, 0.2, 0.7)}
    for attack in attacks:
        measures |= {f"accuracy[{attack}]": (0.0, 0.25, 0.25, 0.5), f"found[{attack}]": (1.0, 0.5, 0.6, 0.0)}
    return {
        "node": [node for _ in measures for node in range(4)],
        "measure": [measure for measure in measures for _ in range(4)],
        "value": [float(value) for values in measures.values() for value in values],
    }


def attack_row(
    observer: str, relevance: str, momentum: float, *, turn: int, aac: float
) -> dict[str, str | float]:
    """Return one row of ``attacks.csv``."""
    return {
        "observer": observer,
        "relevance": relevance,
        "momentum": momentum,
        "community_size": 4,
        "time": 1.5 * turn,
        "round": turn,
        "aac": aac,
        "best10_min": aac,
        "best10_mean": aac,
        "upper_bound": 0.5,
        "random_bound": 0.4,
    }


def lines(path: Path) -> list[str]:
    """Return the lines of a written table."""
    return path.read_text().splitlines()
