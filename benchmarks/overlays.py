"""The cost of choosing receivers.

Every overlay with the nodes of the main job, without engine and models::

    python benchmarks/overlays.py [--nodes 943] [--wakes 100] [--rounds 3]

prints a JSON line per overlay: ``us_per_wake``, processor time (one thread) per wake in microseconds, the median over
the rounds; ``setup_s``, seconds to draw the graph or to compare the users, once per run.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from common import emit, median

from gossiprec.base.ragged import Ragged
from gossiprec.network.overlay import UserProfiles, first_contact_matrix
from gossiprec.network.protocols.rand_gossip import RandGossip, RandGossipOptions

VIEWS: dict[str, dict[str, Any]] = {
    "random views of 3": {"size": 3},
    "ring": {"graph": {"family": "ring", "k": 4}},
    "two graphs in sequence": {
        "graph": {"sequence": [{"from": 0, "family": "ring"}, {"from": 50, "family": "random-regular"}]}
    },
    "nearest by taste": {"graph": {"family": "nearest-by-taste", "k": 5}},
    "cyclon 8/4": {"sampling": "cyclon", "size": 8, "shuffle": 4},
    "cyclon 20/8": {"sampling": "cyclon", "size": 20, "shuffle": 8},
    "newscast 8": {"sampling": "newscast", "size": 8},
    "newscast 20": {"sampling": "newscast", "size": 20},
    "descriptors 8": {"sampling": "descriptors", "size": 8},
    "descriptors 20": {"sampling": "descriptors", "size": 20},
}  # fmt: skip


def users(n_nodes: int) -> UserProfiles:
    """Return users of about 100 of 1,682 items each."""
    items = np.random.default_rng(1).integers(0, 1682, 105 * n_nodes)
    return UserProfiles("drawn", Ragged.sets_from_pairs(np.repeat(np.arange(n_nodes), 105), items, n_nodes))


def seconds(view: dict[str, Any], n_nodes: int, wakes: int) -> tuple[float, float]:
    """Return the processor seconds to set up an overlay, and to simulate its wakes."""
    options = RandGossipOptions.model_validate({"fanout": 3, "view": view, "wakes": wakes})
    protocol = RandGossip(options, n_users=n_nodes, seed=1, profiles=users(n_nodes))
    clock = protocol.clock
    begun = time.process_time()
    views = protocol._views
    ready = time.process_time()
    first_contact_matrix(views, clock, wakes)
    return ready - begun, time.process_time() - ready


def main() -> None:
    """Measure every overlay in turn, round after round."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in (("nodes", 943), ("wakes", 100), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    chosen = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in VIEWS}
    for _ in range(chosen.rounds):
        for name, view in VIEWS.items():
            found[name].append(seconds(view, chosen.nodes, chosen.wakes))
    for name, rounds in found.items():
        per_wake = median([played for _, played in rounds]) / (chosen.nodes * chosen.wakes)
        setup = median([ready for ready, _ in rounds])
        emit(overlay=name, nodes=chosen.nodes, us_per_wake=round(1e6 * per_wake, 2), setup_s=round(setup, 3))


if __name__ == "__main__":
    main()
