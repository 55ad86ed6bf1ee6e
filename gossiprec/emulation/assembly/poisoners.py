"""The poisoners of a run: their number, their target items, and their forged messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gossiprec.adversaries.poisoners import POISONERS, PoisonerContext
from gossiprec.base.arrays import I32, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.ragged import Ragged
from gossiprec.compute.executors import Executor
from gossiprec.compute.message_encoder import PushLog
from gossiprec.compute.messages import Forgery
from gossiprec.compute.scorer import Scorer
from gossiprec.data.split import Split
from gossiprec.models import Layout, Model
from gossiprec.models.feeds import Feed
from gossiprec.network.protocols import Protocol
from gossiprec.scenario import Scenario
from gossiprec.scenario.cross_checks import poisoner_count
from gossiprec.scenario.definition import AttackerChoice
from gossiprec.scenario.sections import LeastPopular, Targets

if TYPE_CHECKING:
    from gossiprec.emulation.assembly.components import RunComponents


@dataclass(frozen=True)
class PoisonerGroup:
    """The poisoners of one entry of a scenario.

    Attributes
    ----------
    choice : AttackerChoice
    nodes : ndarray of int64
        Node ids, which come after the ids of users and of earlier entries.
    targets : ndarray of int32
        Ascending.
    """

    choice: AttackerChoice
    nodes: I64
    targets: I32


def count_poisoners(scenario: Scenario, n_users: int) -> int:
    """Return the number of nodes without data that a scenario adds to `n_users` users."""
    return sum(_count(choice, n_users) for choice in scenario.attackers)


def _count(choice: AttackerChoice, n_users: int) -> int:
    if choice.number is not None:
        return choice.number
    assert choice.fraction is not None, "a choice has one of the two"
    return poisoner_count(choice.fraction, n_users)


def add_poisoners(split: Split, count: int) -> Split:
    """Return the data with `count` more users, who have no items, coordinates or attributes."""
    if not count:
        return split
    parts = {name: getattr(split, name) for name in ("train", "validation", "test", "sequences")}
    longer: dict[str, Any] = {
        name: Ragged.from_sizes(np.append(sets.sizes, np.zeros(count, np.int64)), sets.values)
        for name, sets in parts.items()
        if sets is not None
    }
    if split.user_features is not None:
        rows = np.append(np.arange(split.n_users), np.full(count, -1))
        longer["user_features"] = split.user_features.take(rows)
    return replace(split, n_users=split.n_users + count, check_ins=None, **longer)


def reported_positives(split: Split, count: int) -> I64:
    """Return the number of training items that each node reports; poisoners report the mean of the users."""
    sizes = split.train.sizes
    return np.append(sizes, np.full(count, mean_positives(split)))


def mean_positives(split: Split) -> int:
    """Return the mean number of a user's training items, rounded."""
    return max(1, round(float(split.train.sizes.mean())))


def make_poisoner_groups(
    scenario: Scenario, split: Split, protocol: Protocol, model: Model, layout: Layout
) -> list[PoisonerGroup]:
    """Return the scenario's poisoners, entry by entry.

    Raises
    ------
    ScenarioError
        If they do not fit the model or the protocol, or all users hold a target.
    """
    groups, first = [], split.n_users
    for index, choice in enumerate(scenario.attackers):
        if protocol.whole_user_table:
            raise ScenarioError(
                f"attackers: {choice.name} has no user row, but with protocol.user_table 'averaged' every "
                "node sends all rows; set protocol.user_table to 'own'"
            )
        POISONERS[choice.name].check(model, layout, choice.name)
        nodes = np.arange(first, first + _count(choice, split.n_users))
        first += len(nodes)
        targets = _select_targets(choice.targets, split, f"attackers.{index}.targets")
        groups.append(PoisonerGroup(choice, nodes, targets))
    return groups


def _select_targets(chosen: Targets, split: Split, key: str) -> I32:
    """Return target items: the least popular of training and test together, with lower ids first on ties."""
    if isinstance(chosen, LeastPopular):
        items = least_popular_items(chosen, split, [split.train, split.test])
    else:
        items = np.unique(np.array(chosen, np.int64))
    parts = (split.train, split.validation, split.test)
    holders = np.bincount(np.concatenate([part.values for part in parts]), minlength=split.n_items)
    common = items[holders[items] >= split.n_users]
    if len(common):
        raise ScenarioError(
            f"{key}: every one of the {split.n_users} users has item {common[0]}, so no user is left to "
            "promote it to; choose another item, or {least_popular: 1}"
        )
    return items.astype(np.int32)


def least_popular_items(chosen: LeastPopular, split: Split, parts: Sequence[Ragged]) -> I64:
    """Return the items that the fewest users have in some parts of the split, ascending; lower ids first on ties."""
    popularity = np.bincount(np.concatenate([part.values for part in parts]), minlength=split.n_items)
    return np.sort(np.argsort(popularity, kind="stable")[: chosen.least_popular])


def poisoner_targets(attackers: Sequence[PoisonerGroup]) -> I64:
    """Return the targets of all poisoners, ascending."""
    targets = [entry.targets.astype(np.int64) for entry in attackers]
    return np.unique(np.concatenate([np.zeros(0, np.int64), *targets]))


def make_forgeries(components: RunComponents, executor: Executor) -> dict[int, Forgery]:
    """Return the forgery of every poisoner, by node."""
    if not components.attackers:
        return {}
    from gossiprec.adversaries.poisoners.poisoned_messages import PoisonedMessages, SimulatedClient

    scorer, empty_feed = Scorer(executor), components.feed.restricted_to(np.zeros(0, np.int64))
    forgeries: dict[int, Forgery] = {}
    for entry in components.attackers:
        choice = entry.choice
        context = poisoner_context(
            components.model, components.layout, empty_feed, components.training.negatives, entry.targets
        )
        forging = PoisonedMessages(
            name=choice.name,
            poisoner=POISONERS[choice.name](choice.options, context),
            start=choice.start,
            rate=components.training.learning_rate,
            boost=choice.boost,
            clip=choice.clip,
            norm=SimulatedClient(scorer, empty_feed, mean_positives(components.split))
            if choice.scale == "matched"
            else None,
        )
        forgeries |= dict.fromkeys(entry.nodes.tolist(), forging)
    return forgeries


def poisoner_context(
    model: Model, layout: Layout, empty_feed: Feed, negatives: int, targets: I32
) -> PoisonerContext:
    """Return the context that a poisoner sees."""
    from gossiprec.adversaries.poisoners import ModelFormula

    return PoisonerContext(ModelFormula(model, layout), empty_feed, negatives, targets)


def make_push_log(components: RunComponents) -> PushLog | None:
    """Return the log of the pushes that are rewritten or forged, or None if there are none."""
    nodes, protocol = components.outgoing.rewrites_messages, components.protocol
    if not nodes.any():
        return None
    coordinator = protocol.n_users if protocol.has_coordinator else None
    return PushLog(nodes, protocol.roles, protocol.role_behaviours, coordinator, protocol.wakes_per_round)
