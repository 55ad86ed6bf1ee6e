"""Whether finished runs of a study were made with the files that their scenarios name now."""

from __future__ import annotations

from collections.abc import Iterable

from gossiprec.emulation.assembly.data import changed_since
from gossiprec.eventlog import Run
from gossiprec.study.deduplication import Simulation
from gossiprec.study.identity import canonical


def of_other_data(runs: Iterable[tuple[Simulation, Run]]) -> dict[str, str]:
    """Return the runs that were made with other files, by hash: what has changed.

    Notes
    -----
    Each set of files is looked at once, whatever the seeds of the runs; files that are not there any more contradict
    nothing.
    """
    found: dict[str, str] = {}
    known: dict[str, str | None] = {}
    for simulation, run in runs:
        manifest = run.manifest
        if "inputs" in manifest:
            name = canonical([simulation.scenario.dataset.plain(), manifest["inputs"]])
        else:
            name = canonical(simulation.scenario.dataset.plain())
        if name not in known:
            known[name] = changed_since(simulation.scenario, manifest)
        changed = known[name]
        if changed is not None:
            found[simulation.hash] = changed
    return found
