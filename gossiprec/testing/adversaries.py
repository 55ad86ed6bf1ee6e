"""Contract of active adversaries: what they send follows from what each node saw, and from nothing else."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gossiprec.adversaries.attacks import ATTACKS
from gossiprec.adversaries.attacks.adversary import Adversary
from gossiprec.emulation import resume, simulate
from gossiprec.emulation.progress import NullProgress, Status
from gossiprec.runs import Run
from gossiprec.testing.tiny_runs import (
    FEDERATED,
    GOSSIP,
    UPDATES,
    check_claims,
    check_some_run_accepts,
    registered_as,
    tiny_scenario,
)

NODES = [1, 5]
RUNS = {"gossip": GOSSIP, "models": FEDERATED, "updates": UPDATES}
FILES = ("events.mplog", "metrics.csv", "findings.csv", "attacks.csv", "positions.csv")
EVALUATE = {"every": 2, "metrics": ["hr@5"], "train_loss": True}
"""The loss changes with any number of a model, unlike the hits."""
EXECUTORS = ("reference", "batched", "fused")
INTERRUPT_AT = 2


@dataclass(frozen=True)
class AdversaryCase:
    """An adversary with its options, and runs with and without it."""

    runs: Mapping[str, Mapping[str, Any]]
    measures: frozenset[str]

    def results(self, run: Mapping[str, Any], **executor: Any) -> dict[str, bytes]:
        """Return the files of a run."""
        with tempfile.TemporaryDirectory() as folder:
            return _files(simulate({**run, "executor": executor}, out=Path(folder, "run")))


class _Stop(NullProgress):
    """Interrupts a run at its second report."""

    def __init__(self) -> None:
        self._reports = 0

    def tick(self, status: Status) -> None:
        self._reports += 1
        if self._reports == INTERRUPT_AT:
            raise KeyboardInterrupt


def check_adversary(
    adversary: type[Adversary], options: Mapping[str, Any] | None = None, *, model: str = "gmf"
) -> None:
    """Run an adversary at two of eight nodes in gossip, with clients' models and with updates.

    Parameters
    ----------
    adversary : type of Adversary
        The class; it need not be registered.
    options : mapping, optional
        Its own options, as in a scenario.
    model : str
        The name of the model.

    Raises
    ------
    AssertionError
        If a claim does not hold; the message lists all of them.
    """
    with registered_as(ATTACKS, adversary) as name:
        entry = {"name": name, "nodes": NODES, **(options or {})}
        runs = {
            which: tiny_scenario(
                model={"name": model}, protocol=protocol, adversaries=[entry], evaluate=EVALUATE
            )
            for which, protocol in RUNS.items()
        }
        case = AdversaryCase(runs, frozenset(adversary.measures))
        check_claims(f"the adversary {adversary.__name__}", __name__, case=case)


def _files(run: Run) -> dict[str, bytes]:
    return {name: (run.path / name).read_bytes() for name in FILES}


def _check_same(one: Mapping[str, bytes], other: Mapping[str, bytes], why: str) -> None:
    differing = [name for name in FILES if one[name] != other[name]]
    assert not differing, f"{differing[0]} differs {why}."


def waves_and_threads_change_nothing(case: AdversaryCase) -> None:
    """Send and find the same for any number of threads and tasks at once, on every executor."""

    def play(name: str, run: Mapping[str, Any]) -> None:
        for executor in EXECUTORS if name == "gossip" else EXECUTORS[:1]:
            whole = case.results(run, name=executor, threads=1)
            parts = case.results(run, name=executor, threads=2, wave_size=3)
            _check_same(whole, parts, f"with two threads in the run {name} ({executor})")

    check_some_run_accepts(case.runs, play)


def a_resumed_run_is_the_same(case: AdversaryCase) -> None:
    """Keep all that changes during a run in `memory`, so that a resumed run ends like a whole one."""

    def play(name: str, run: Mapping[str, Any]) -> None:
        often = {**run, "evaluate": {**run["evaluate"], "every": 1}, "checkpoint": {"minutes": 1e-9}}
        with tempfile.TemporaryDirectory() as folder:
            whole = simulate(often, out=Path(folder, "whole"))
            broken = simulate(often, out=Path(folder, "broken"), progress=_Stop())
            _check_same(_files(whole), _files(resume(broken.path)), f"if the run {name} is resumed")

    check_some_run_accepts(case.runs, play)


def reports_change_nothing(case: AdversaryCase) -> None:
    """Send the same, however often the run reports."""

    def play(name: str, run: Mapping[str, Any]) -> None:
        seldom = case.results(run)["metrics.csv"].splitlines()
        often = case.results({**run, "evaluate": {**run["evaluate"], "also": [1, 3]}})["metrics.csv"]
        assert set(seldom) <= set(often.splitlines()), f"Reports in between change the run {name}."

    check_some_run_accepts(case.runs, play)


def what_it_announces_is_found(case: AdversaryCase) -> None:
    """Report each of its `measures` in some run."""
    found: set[str] = set()

    def play(name: str, run: Mapping[str, Any]) -> None:
        rows = case.results(run)["findings.csv"].decode().splitlines()[1:]
        found.update(measure for measure in case.measures for row in rows if f",{measure}," in row)

    check_some_run_accepts(case.runs, play)
    missing = ", ".join(sorted(case.measures - found))
    assert not missing, f"It announces {missing}, but reports it in no run."
