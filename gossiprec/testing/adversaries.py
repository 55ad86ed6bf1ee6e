"""Contracts of nodes that send what they like: active adversaries and poisoners.

The messages of an adversary follow from what each of its nodes saw, and from nothing else. The messages of a poisoner
follow from what it received, its draws and its targets.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gossiprec.adversaries.attacks import ATTACKS
from gossiprec.adversaries.attacks.adversary import Adversary
from gossiprec.adversaries.poisoners import POISONERS, Poisoner
from gossiprec.base.arrays import F32
from gossiprec.compute.messages import MessagePayload, PushContext
from gossiprec.emulation import resume, simulate
from gossiprec.emulation.assembly.poisoners import known_about_users, poisoner_context
from gossiprec.emulation.progress import NullProgress, Status
from gossiprec.rules.aggregators import ModelDelta
from gossiprec.runs import Run
from gossiprec.testing.tiny_runs import (
    FEDERATED,
    GOSSIP,
    UPDATES,
    PluginCase,
    check_claims,
    check_some_run_accepts,
    check_threads,
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


SEED, TARGETS = 3, [4, 17]
PUSHES = [(8, 0), (8, 1), (9, 0), (10, 2)]
NEGATIVES = 2


class PoisonerCase(PluginCase):
    """A poisoner with its options, and a run without it."""

    kind: type[Poisoner]

    def made(self) -> Poisoner:
        """Return a new poisoner."""
        feed = self.model.make_feed(self.split.training_data(for_feed=True))
        empty_feed = feed.restricted_to(np.zeros(0, np.int64))
        targets = np.array(TARGETS if self.kind.targeted else [], np.int32)
        context = poisoner_context(self.model, self.layout, empty_feed, NEGATIVES, targets)
        chosen = self.kind.Options.model_validate(self.options)
        known = known_about_users(self.kind, chosen, self.split, SEED)
        nodes = np.unique([node for node, _ in PUSHES])
        return self.kind(chosen, replace(context, nodes=nodes, **known))

    def sent(self, draw: int) -> MessagePayload:
        """Return a random version."""
        row: F32 = np.random.default_rng(draw).normal(0.0, 0.1, self.layout.row_size).astype(np.float32)
        return MessagePayload.of(row, self.layout, hides_user=True)


def check_poisoner(
    poisoner: type[Poisoner], options: Mapping[str, Any] | None = None, *, model: str = "gmf"
) -> None:
    """Check a poisoner's gradients, and run it in gossip, with clients' models and with updates.

    Parameters
    ----------
    poisoner : type of Poisoner
        The class; it need not be registered.
    options : mapping, optional
        Its own options, as in a scenario.
    model : str
        The name of the model that is poisoned.

    Raises
    ------
    AssertionError
        If a claim does not hold; the message lists all of them, those about runs only if all others hold.
    """
    with registered_as(POISONERS, poisoner) as name:
        poisoner_case = PoisonerCase(name, poisoner, options or {}, tiny_scenario(model={"name": model}))
        about = f"the poisoner {poisoner.__name__}"
        check_claims(about, __name__, poisoner_case=poisoner_case)
        check_claims(about, __name__, run_case=poisoner_case)


def _gradient(poisoner_case: PoisonerCase, poisoner: Poisoner, push: tuple[int, int]) -> ModelDelta:
    """Return the gradient at a push of a node without items, after all its earlier pushes."""
    none, (node, number) = np.zeros(0, np.int32), push
    size = poisoner.memory_numbers(poisoner.options, poisoner_case.layout, poisoner_case.split.n_users)
    memory = np.zeros(size, np.float32)
    for earlier in range(0 if size else number, number + 1):
        context = PushContext(SEED, node, earlier, none, round=earlier + 1, memory=memory)
        found = poisoner.gradient(poisoner_case.sent(1 + earlier), context)
    return found


def gradients_are_of_items_and_shared_weights(poisoner_case: PoisonerCase) -> None:
    """Return finite numbers: a row for each of some items, in ascending order, and the shared weights."""
    found = _gradient(poisoner_case, poisoner_case.made(), PUSHES[0])
    items, width = np.asarray(found.items), poisoner_case.layout.item_width
    assert items.ndim == 1, f"Found items of shape {items.shape}."
    assert (np.diff(items) > 0).all(), f"Found items {items.tolist()}."
    assert set(items.tolist()) <= set(range(poisoner_case.split.n_items)), f"Found items {items.tolist()}."
    shapes = (np.shape(found.rows), np.shape(found.shared))
    due = ((len(items), width), (poisoner_case.layout.n_shared,))
    assert shapes == due, f"Found shapes {shapes}, must be {due}."
    finite = all(np.isfinite(part).all() for part in (found.rows, found.shared))
    assert finite, "Found numbers that are not finite."


def all_targets_are_changed(poisoner_case: PoisonerCase) -> None:
    """Change the rows of all targets, at the second push at the latest."""
    items = np.asarray(_gradient(poisoner_case, poisoner_case.made(), PUSHES[1]).items).tolist()
    missing = sorted(set(TARGETS if poisoner_case.kind.targeted else []) - set(items))
    assert not missing, f"It changes items {items}, but not the target {missing[0]}."


def a_message_depends_on_version_and_push_only(poisoner_case: PoisonerCase) -> None:
    """Return the same gradient for a push, whatever it has returned before."""
    first, second = poisoner_case.made(), poisoner_case.made()
    found = {push: _bytes(_gradient(poisoner_case, first, push)) for push in PUSHES}
    again = {push: _bytes(_gradient(poisoner_case, second, push)) for push in reversed(PUSHES)}
    wrong = [push for push in PUSHES if found[push] != again[push]]
    assert not wrong, f"Push {wrong[0][1]} of node {wrong[0][0]} differs in another order."


def _bytes(change: ModelDelta) -> list[bytes]:
    return [np.asarray(part).tobytes() for part in (change.items, change.rows, change.shared)]


def threads_change_nothing(run_case: PoisonerCase) -> None:
    """Be accepted by some run, and give it the same finite models for any number of threads."""
    targets = {"targets": TARGETS} if run_case.kind.targeted else {}
    attackers = [{"name": run_case.name, "number": 2, **targets, **run_case.options}]
    run = {**run_case.run, "attackers": attackers}
    check_threads({name: {**run, "protocol": protocol} for name, protocol in RUNS.items()})
