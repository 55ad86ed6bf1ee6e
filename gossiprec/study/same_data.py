"""Whether finished runs of a study were made with the data that their scenarios name now."""

from __future__ import annotations

from collections.abc import Iterable

from gossiprec.emulation.assembly.data import are_read, other_data
from gossiprec.eventlog import Run
from gossiprec.study.deduplication import Simulation
from gossiprec.study.identity import canonical


def of_other_data(runs: Iterable[tuple[Simulation, Run]]) -> dict[str, tuple[str, str]]:
    """Return the runs that were made with other data, by hash: the fingerprints then and now.

    Notes
    -----
    Data are read once for each data set that the scenarios read from files, whatever their seeds; those that are not
    there any more contradict nothing.
    """
    found: dict[str, tuple[str, str]] = {}
    known: dict[str, tuple[str, str] | None] = {}
    for simulation, run in runs:
        scenario, then = simulation.scenario, run.manifest.get("data")
        if not then or not are_read(scenario):
            continue
        name = canonical(scenario.dataset.plain())
        if name not in known:
            before = str(then["fingerprint"])
            now = other_data(scenario, before)
            known[name] = None if now is None else (before, now)
        changed = known[name]
        if changed is not None:
            found[simulation.hash] = changed
    return found
