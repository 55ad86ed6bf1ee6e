"""The conditions of a run: its network, as the engine knows it."""

from __future__ import annotations

from gossiprec.scenario import Scenario
from gossiprec.sim.latency import Latency
from gossiprec.sim.laws import Constant, Exponential
from gossiprec.sim.network import Network


def make_network(scenario: Scenario, n_nodes: int) -> Network:
    """Return the network of a scenario."""
    options = scenario.network.latency
    law = Constant(options.value) if options.law == "constant" else Exponential(options.mean)
    latency = Latency(law, n_nodes=n_nodes, seed=scenario.seed)
    return Network(n_nodes, latency=latency, loss=scenario.network.loss, seed=scenario.seed)
