"""Contract of aggregation rules: one finite model within the range of those received, in any order of arrival."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np

from gossiprec.base.arrays import F32
from gossiprec.base.errors import ScenarioError
from gossiprec.rules.aggregators import AGGREGATORS, Aggregator, Inbox, base
from gossiprec.rules.aggregators.base import ModelDelta
from gossiprec.testing.blinding import refuse_reach
from gossiprec.testing.tiny_runs import FEDERATED, UPDATES, check_claims, registered_as, tiny_scenario

Make = Callable[[], Aggregator]


@dataclass(frozen=True)
class _World:
    """A receiver's model and its inbox."""

    own: F32
    models: F32
    inbox: Inbox

    def aggregated(self, make: Make) -> F32:
        """Return the result of a new rule, with all inputs read-only."""
        return self.aggregated_by(make())

    def aggregated_by(self, rule: Aggregator) -> F32:
        """Return the result of a rule, with all inputs read-only."""
        self.own.setflags(write=False)
        self.models.setflags(write=False)
        return rule.aggregate(self.own, self._as_changes() if rule.uses_deltas else self.inbox)

    def _as_changes(self) -> Inbox:
        """Return the inbox as deltas: of every other item, and of one shared weight."""
        n_items, changes = len(self.own) - 1, []
        for place in self.inbox.row_index:
            change = (self.models[place] - self.own).astype(np.float32)
            items = np.arange(place % 2, n_items, 2, dtype=np.int32)
            changes.append(ModelDelta(items, change[items, None], change[n_items:]))
        return replace(self.inbox, deltas=changes)

    def __str__(self) -> str:
        n, columns = self.models.shape
        return f"{n} models of {columns} numbers, the own one counting {self.inbox.own_weight:g}"


def check_aggregator(aggregator: type[Aggregator], options: Mapping[str, Any] | None = None) -> None:
    """Check an aggregation rule on small inboxes.

    Parameters
    ----------
    aggregator : type of Aggregator
        The class; it need not be registered.
    options : mapping, optional
        Options as in a scenario.

    Raises
    ------
    AssertionError
        If a claim does not hold; the message lists all of them.
    """
    chosen = aggregator.Options.model_validate(options or {})
    uses_deltas, is_robust, propagates_nonfinite = (
        aggregator(chosen).uses_deltas, aggregator.is_robust, aggregator.propagates_nonfinite
    )  # fmt: skip
    claims = (
        *CLAIMS,
        *(OF_CHANGES if uses_deltas else OF_MODELS),
        *(OF_ROBUST if is_robust and not aggregator.streaming else ()),
        *(OF_PASSING_ON if propagates_nonfinite else ()),
    )
    check_claims(f"the aggregator {aggregator.__name__}", lambda: aggregator(chosen), claims)
    if not aggregator.streaming:
        with registered_as(AGGREGATORS, aggregator) as name:
            rule = {"name": name, **(options or {})}
            check_claims(f"the aggregator {aggregator.__name__}", (aggregator, rule), REACH)


def _world(seed: int, n: int, columns: int, own_weight: float = 0.0) -> _World:
    draw = np.random.default_rng(seed)
    own, models = draw.normal(size=columns), draw.normal(size=(n, columns))
    received = models.astype(np.float32)
    inbox = Inbox(received, np.arange(n), draw.uniform(0.5, 9.0, n), own_weight)
    return _World(own.astype(np.float32), received, inbox)


def _worlds() -> Iterator[_World]:
    for seed, n, columns, own_weight in itertools.product(range(3), range(1, 10), (1, 6), (0.0, 2.0)):
        yield _world(seed, n, columns, own_weight)


def weights_are_above_zero(make: Make) -> None:
    """Give every user's models a finite weight above 0."""
    found = make().weights(np.array([3, 1, 7]))
    assert np.shape(found) == (3,), f"Found shape {np.shape(found)} for 3 users."
    assert (np.isfinite(found) & (found > 0)).all(), f"Found {found}."


def an_empty_inbox_leaves_the_own_model(make: Make) -> None:
    """Leave the own model as it is if nothing was received."""
    nothing = _world(0, 0, 3, own_weight=1.0)
    found = nothing.aggregated(make)
    assert np.array_equal(found, nothing.own), f"Found {found}, the own model is {nothing.own}."


def one_finite_model_comes_out(make: Make) -> None:
    """Return one finite model in float32, of the same length, and change nothing that was given."""
    for world in _worlds():
        found = world.aggregated(make)
        assert found.shape == world.own.shape, f"Found shape {found.shape} of {world}."
        assert found.dtype == np.float32, f"Found {found.dtype} of {world}."
        assert np.isfinite(found).all(), f"Found {found} of {world}."


def the_order_of_arrival_does_not_matter(make: Make) -> None:
    """Return the same model whatever the order of arrival."""
    for seed, world in enumerate(_worlds()):
        order, inbox = np.random.default_rng(seed).permutation(len(world.inbox)), world.inbox
        other = replace(
            world, inbox=replace(inbox, row_index=inbox.row_index[order], weights=inbox.weights[order])
        )
        np.testing.assert_allclose(
            other.aggregated(make), world.aggregated(make), rtol=1e-4, atol=1e-5, err_msg=str(world)
        )


def the_result_lies_among_the_models(make: Make) -> None:
    """Return numbers between the least and the largest of the models', the own one's among them."""
    for world in _worlds():
        everyone, found = np.vstack([world.models, world.own]), world.aggregated(make)
        above = np.max([everyone.min(axis=0) - found, found - everyone.max(axis=0)])
        assert above <= 1e-4, f"A number lies {above:.3g} beyond all of {world}."


def no_change_changes_nothing(make: Make) -> None:
    """Return the own model if no received model differs from it."""
    world = _world(3, 4, 6)
    same = replace(world, models=np.tile(world.own, (4, 1)))
    assert np.array_equal(same.aggregated(make), world.own), f"Found {same.aggregated(make)}."


def an_item_that_nobody_touched_stays(make: Make) -> None:
    """Leave items unchanged that no client has touched."""
    world = _world(3, 5, 9)
    inbox = replace(world.inbox, row_index=np.array([0, 2, 4]), weights=np.ones(3))
    found = replace(world, inbox=inbox).aggregated(make)
    assert np.array_equal(found[1:8:2], world.own[1:8:2]), f"Found {found[1:8:2]} of {world.own[1:8:2]}."


def blocks_of_columns_change_nothing(make: Make) -> None:
    """Return the same model if the columns are processed block by block."""
    world = _world(1, 7, 50, own_weight=1.0)
    whole = world.aggregated(make)
    with patch.object(base, "BLOCK", 40):
        np.testing.assert_allclose(world.aggregated(make), whole, rtol=1e-6)


def halves_are_reduced_in_float32(make: Make) -> None:
    """Reduce rows of float16 in float32."""
    rows = np.arange(12, dtype=np.float16).reshape(4, 3)
    world = _World(np.zeros(3, np.float32), rows, Inbox(rows, np.arange(4), np.ones(4)))  # type: ignore[arg-type]
    found = world.aggregated(make)
    assert found.dtype == np.float32, f"Found {found.dtype}."


def what_it_remembers_is_in_its_state(make: Make) -> None:
    """Continue from its state() after restore() as if it had not been interrupted."""
    whole, first, second = make(), make(), make()
    before, after = (_world(seed, 5, 4, own_weight=1.0) for seed in (1, 2))
    for rule in (whole, first):
        before.aggregated_by(rule)
    second.restore(first.state())
    one, other = (after.aggregated_by(rule) for rule in (whole, second))
    np.testing.assert_array_equal(other, one)


def one_model_in_seven_that_is_none_does_no_harm(make: Make) -> None:
    """Withstand one invalid model in seven: NaN, infinite or huge."""
    for evil in (np.nan, np.inf, -np.inf, 1e30):
        world = _world(2, 7, 4, own_weight=1.0)
        world.models[3] = evil
        found = world.aggregated(make)
        assert (np.abs(found) < 10).all(), f"Found {found} where one is {evil}."


def a_number_that_is_none_is_passed_on(make: Make) -> None:
    """Pass on, as it declares, a number that is not finite, in any model or in several."""
    for column, evils in itertools.product((1, 3), ((np.nan,), (np.inf,), (-np.inf,), (np.inf, -np.inf))):
        world = _world(2, 7, 4)
        for place, evil in zip((3, 5), evils, strict=False):
            world.models[place, column] = evil
        with np.errstate(invalid="ignore"):
            found = world.aggregated(make)
        assert not np.isfinite(found).all(), f"Found {found} where there is {', '.join(map(str, evils))}."


def what_it_is_given_leads_nowhere_else(case: tuple[type[Aggregator], dict[str, Any]]) -> None:
    """Reach no data of the run from what it is given, as from an array that is a view of another."""
    kind, rule = case
    refused = []
    for protocol in (FEDERATED, UPDATES):
        try:
            refuse_reach(tiny_scenario(protocol={**protocol, "merge": rule}), kind, "reduce")
        except ScenarioError as error:
            refused.append(str(error))
    assert len(refused) < 2, "\n".join(["All runs refuse it:", *refused])


CLAIMS = (
    weights_are_above_zero,
    an_empty_inbox_leaves_the_own_model,
    one_finite_model_comes_out,
    the_order_of_arrival_does_not_matter,
    blocks_of_columns_change_nothing,
    halves_are_reduced_in_float32,
    what_it_remembers_is_in_its_state,
)
REACH = (what_it_is_given_leads_nowhere_else,)
"""Claims on rules that are given an inbox."""
OF_MODELS = (the_result_lies_among_the_models,)
OF_CHANGES = (no_change_changes_nothing, an_item_that_nobody_touched_stays)
"""Claims on rules that add deltas to the own model, which may add up."""
OF_ROBUST = (one_model_in_seven_that_is_none_does_no_harm,)
"""Claims on robust rules, unless they declare that they withstand nothing."""
OF_PASSING_ON = (a_number_that_is_none_is_passed_on,)
"""Claims on rules that declare to pass on invalid numbers."""
