"""What the simulations of a study would be, each found out in milliseconds."""

from __future__ import annotations

from collections.abc import Iterable

from gossiprec.data.outline import Outline
from gossiprec.emulation import Outlook, foresee
from gossiprec.emulation.assembly.data import outline_data
from gossiprec.errors import GossipRecError
from gossiprec.scenario.model import Scenario
from gossiprec.study.deduplication import Simulation
from gossiprec.study.identity import canonical


def foresee_all(simulations: Iterable[Simulation]) -> dict[str, Outlook | GossipRecError]:
    """Return what each simulation would be, or why it would fail, by its hash; those of different seeds are alike."""
    known: dict[str, Outlook | GossipRecError] = {}
    found = {}
    outlines: dict[str, Outline] = {}

    def outline(scenario: Scenario) -> Outline:
        data = canonical(scenario.dataset.plain())
        if data not in outlines:
            outlines[data] = outline_data(scenario)
        return outlines[data]

    for simulation in simulations:
        key = canonical({**simulation.scenario.resolved(), "seed": None})
        if key not in known:
            try:
                known[key] = foresee(simulation.scenario, outline=outline, played=False)
            except GossipRecError as problem:
                known[key] = problem
        found[simulation.hash] = known[key]
    return found
