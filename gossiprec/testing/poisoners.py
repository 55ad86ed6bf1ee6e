"""Contract of poisoners: their messages follow from what they received, their draws and their targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gossiprec.adversaries.poisoners import POISONERS, Poisoner
from gossiprec.base.arrays import F32
from gossiprec.base.errors import ScenarioError
from gossiprec.compute.messages import MessagePayload, PushContext
from gossiprec.data.split import Split
from gossiprec.emulation import prepare
from gossiprec.emulation.assembly.data_loading import load_data
from gossiprec.emulation.assembly.poisoners import poisoner_context
from gossiprec.models import MODELS, Layout, Model
from gossiprec.rules.aggregators.base import ModelDelta
from gossiprec.scenario import load_scenario
from gossiprec.testing.tiny_runs import (
    FEDERATED,
    GOSSIP,
    check_claims,
    current_models,
    registered_as,
    tiny_scenario,
)

SEED, TARGETS = 3, [4, 17]
PUSHES = [(8, 0), (8, 1), (9, 0), (10, 2)]
NEGATIVES = 2
RUNS = {"gossip": GOSSIP, "models": FEDERATED, "updates": {**FEDERATED, "client_model": "none"}}


@dataclass(frozen=True)
class PoisonerCase:
    """A poisoner with its options, and a run without it."""

    name: str
    kind: type[Poisoner]
    options: Mapping[str, Any]
    run: Mapping[str, Any]

    @cached_property
    def split(self) -> Split:
        """The run's data."""
        return load_data(load_scenario(self.run))

    @cached_property
    def model(self) -> Model:
        """The model to poison."""
        return MODELS[self.run["model"]["name"]](load_scenario(self.run).model.options)

    @cached_property
    def layout(self) -> Layout:
        """The layout of its versions."""
        return self.model.layout(self.split.n_items)

    def made(self) -> Poisoner:
        """Return a new poisoner."""
        empty_feed = self.model.make_feed(self.split.training_data()).restricted_to(np.zeros(0, np.int64))
        context = poisoner_context(
            self.model, self.layout, empty_feed, NEGATIVES, np.array(TARGETS, np.int32)
        )
        return self.kind(self.kind.Options.model_validate(self.options), context)

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
        run = tiny_scenario(model={"name": model})
        case = PoisonerCase(name, poisoner, options or {}, run)
        for claims in (CLAIMS, RUN_CLAIMS):
            check_claims(f"the poisoner {poisoner.__name__}", case, claims)


def _found(case: PoisonerCase, poisoner: Poisoner, push: tuple[int, int]) -> ModelDelta:
    """Return a gradient at a push of a node without items."""
    none = np.zeros(0, np.int32)
    return poisoner.gradient(case.sent(1), PushContext(SEED, *push, none, round=push[1] + 1))


def gradients_are_of_items_and_shared_weights(case: PoisonerCase) -> None:
    """Return finite numbers, a row for each of some items, which ascend, and the shared weights."""
    found = _found(case, case.made(), PUSHES[0])
    items, width = np.asarray(found.items), case.layout.item_width
    assert items.ndim == 1, f"Found items of shape {items.shape}."
    assert (np.diff(items) > 0).all(), f"Found items {items.tolist()}."
    assert set(items.tolist()) <= set(range(case.split.n_items)), f"Found items {items.tolist()}."
    shapes = (np.shape(found.rows), np.shape(found.shared))
    due = ((len(items), width), (case.layout.n_shared,))
    assert shapes == due, f"Found shapes {shapes}, must be {due}."
    finite = all(np.isfinite(part).all() for part in (found.rows, found.shared))
    assert finite, "Found numbers that are not finite."


def targets_are_among_the_items(case: PoisonerCase) -> None:
    """Promote the targets: they are among the items."""
    items = np.asarray(_found(case, case.made(), PUSHES[0]).items).tolist()
    lacking = sorted(set(TARGETS) - set(items))
    assert not lacking, f"It changes items {items}, and not the target {lacking[0]}."


def messages_follow_from_version_and_push(case: PoisonerCase) -> None:
    """Return the same at a node's push each time, whatever it has returned before."""
    first, second = case.made(), case.made()
    found = {push: _bytes(_found(case, first, push)) for push in PUSHES}
    again = {push: _bytes(_found(case, second, push)) for push in reversed(PUSHES)}
    wrong = [push for push in PUSHES if found[push] != again[push]]
    assert not wrong, f"Push {wrong[0][1]} of node {wrong[0][0]} is another in another order."


def _bytes(change: ModelDelta) -> list[bytes]:
    return [np.asarray(part).tobytes() for part in (change.items, change.rows, change.shared)]


def it_runs_alike_with_any_threads(case: PoisonerCase) -> None:
    """Be accepted by some run, and give the same numbers there for any number of threads."""
    refused = []
    attackers = [{"name": case.name, "number": 2, "targets": TARGETS, **case.options}]
    for key, protocol in RUNS.items():
        run = {**case.run, "protocol": protocol, "attackers": attackers}
        try:
            one, other = (_outcome(run, threads=n, wave_size=2 + n) for n in (1, 2))
        except ScenarioError as error:
            refused.append(f"{key}: {error}")
        else:
            assert np.isfinite(one).all(), f"With {key} models are no numbers."
            assert one.tobytes() == other.tobytes(), f"With {key} threads change models."
    assert len(refused) < len(RUNS), "\n".join(["All refuse it:", *refused])


def _outcome(run: Mapping[str, Any], **executor: Any) -> Any:
    """Return the models at the end of a run."""
    prepared = prepare(load_scenario({**run, "executor": executor}))
    for _ in prepared.schedule.play(prepared.tape_runner().run_segment):
        pass
    if not prepared.mode.nodes_hold_models:
        store = prepared.executor.store
        return store.models(prepared.planner.current, np.arange(prepared.protocol.n_nodes))
    return current_models(prepared)


CLAIMS = (
    gradients_are_of_items_and_shared_weights,
    targets_are_among_the_items,
    messages_follow_from_version_and_push,
)
RUN_CLAIMS = (it_runs_alike_with_any_threads,)
