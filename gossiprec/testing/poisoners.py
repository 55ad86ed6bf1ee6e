"""Contract of poisoners: their messages follow from what they received, their draws and their targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gossiprec.adversaries.poisoners import POISONERS, Poisoner
from gossiprec.base.arrays import F32
from gossiprec.compute.messages import MessagePayload, PushContext
from gossiprec.data.split import Split
from gossiprec.emulation.assembly.data_loading import load_data
from gossiprec.emulation.assembly.poisoners import poisoner_context
from gossiprec.models import MODELS, Layout, Model
from gossiprec.rules.aggregators import ModelDelta
from gossiprec.scenario import load_scenario
from gossiprec.testing.tiny_runs import (
    FEDERATED,
    GOSSIP,
    UPDATES,
    check_claims,
    check_threads,
    registered_as,
    tiny_scenario,
)

SEED, TARGETS = 3, [4, 17]
PUSHES = [(8, 0), (8, 1), (9, 0), (10, 2)]
NEGATIVES = 2
RUNS = {"gossip": GOSSIP, "models": FEDERATED, "updates": UPDATES}


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
        empty_feed = self.model.make_feed(self.split.training_data(for_feed=True)).restricted_to(
            np.zeros(0, np.int64)
        )
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
        case = PoisonerCase(name, poisoner, options or {}, tiny_scenario(model={"name": model}))
        about = f"the poisoner {poisoner.__name__}"
        check_claims(about, __name__, case=case)
        check_claims(about, __name__, run_case=case)


def _gradient(case: PoisonerCase, poisoner: Poisoner, push: tuple[int, int]) -> ModelDelta:
    """Return a gradient at a push of a node without items."""
    none = np.zeros(0, np.int32)
    return poisoner.gradient(case.sent(1), PushContext(SEED, *push, none, round=push[1] + 1))


def gradients_are_of_items_and_shared_weights(case: PoisonerCase) -> None:
    """Return finite numbers: a row for each of some items, in ascending order, and the shared weights."""
    found = _gradient(case, case.made(), PUSHES[0])
    items, width = np.asarray(found.items), case.layout.item_width
    assert items.ndim == 1, f"Found items of shape {items.shape}."
    assert (np.diff(items) > 0).all(), f"Found items {items.tolist()}."
    assert set(items.tolist()) <= set(range(case.split.n_items)), f"Found items {items.tolist()}."
    shapes = (np.shape(found.rows), np.shape(found.shared))
    due = ((len(items), width), (case.layout.n_shared,))
    assert shapes == due, f"Found shapes {shapes}, must be {due}."
    finite = all(np.isfinite(part).all() for part in (found.rows, found.shared))
    assert finite, "Found numbers that are not finite."


def all_targets_are_changed(case: PoisonerCase) -> None:
    """Change the rows of all targets."""
    items = np.asarray(_gradient(case, case.made(), PUSHES[0]).items).tolist()
    missing = sorted(set(TARGETS) - set(items))
    assert not missing, f"It changes items {items}, but not the target {missing[0]}."


def a_message_depends_on_version_and_push_only(case: PoisonerCase) -> None:
    """Return the same gradient for a push, whatever it has returned before."""
    first, second = case.made(), case.made()
    found = {push: _bytes(_gradient(case, first, push)) for push in PUSHES}
    again = {push: _bytes(_gradient(case, second, push)) for push in reversed(PUSHES)}
    wrong = [push for push in PUSHES if found[push] != again[push]]
    assert not wrong, f"Push {wrong[0][1]} of node {wrong[0][0]} differs in another order."


def _bytes(change: ModelDelta) -> list[bytes]:
    return [np.asarray(part).tobytes() for part in (change.items, change.rows, change.shared)]


def threads_change_nothing(run_case: PoisonerCase) -> None:
    """Be accepted by some run, and give it the same finite models for any number of threads."""
    attackers = [{"name": run_case.name, "number": 2, "targets": TARGETS, **run_case.options}]
    check_threads(
        {
            name: {**run_case.run, "protocol": protocol, "attackers": attackers}
            for name, protocol in RUNS.items()
        }
    )
