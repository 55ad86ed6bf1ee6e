"""Whether finished runs of a study were made with the data that their scenarios name now."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gossiprec.data.fingerprint import fingerprint
from gossiprec.emulation.assembly.data import load_data
from gossiprec.errors import GossipRecError
from gossiprec.eventlog import Run
from gossiprec.scenario.model import DatasetChoice
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
        choice, then = simulation.scenario.dataset, run.manifest.get("data")
        if not then or not _is_read(choice):
            continue
        name = canonical(choice.plain())
        if name not in known:
            known[name] = _changed(simulation, str(then["fingerprint"]))
        changed = known[name]
        if changed is not None:
            found[simulation.hash] = changed
    return found


def _is_read(choice: DatasetChoice) -> bool:
    options = [*vars(choice.options).values(), *vars(choice.split.options).values()]
    return any(isinstance(option, Path) for option in options)


def _changed(simulation: Simulation, then: str) -> tuple[str, str] | None:
    try:
        now = fingerprint(load_data(simulation.scenario))
    except GossipRecError:
        return None
    return None if now == then else (then, now)
