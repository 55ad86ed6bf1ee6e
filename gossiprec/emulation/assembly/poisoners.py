"""The poisoners of a run: their number, their target items, and their forged messages; not loaded without them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gossiprec.adversaries.poisoners import POISONERS, ModelFormula, Poisoner, PoisonerContext
from gossiprec.adversaries.poisoners.poisoned_messages import PoisonedMessages, SimulatedClient
from gossiprec.base.arrays import I32, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.ragged import Ragged
from gossiprec.base.rng import generator
from gossiprec.compute.executors import Executor
from gossiprec.compute.messages import Forgery
from gossiprec.compute.scorer import Scorer
from gossiprec.data.split import Split
from gossiprec.models import Layout, Model
from gossiprec.models.feeds import Feed
from gossiprec.network.overlay import PoisonerPlaces
from gossiprec.network.protocols import Protocol
from gossiprec.scenario import Scenario
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
        Ascending; none for a poisoner without targets.
    memory_numbers : int
        Count of numbers that each node keeps from push to push.
    """

    choice: AttackerChoice
    nodes: I64
    targets: I32
    memory_numbers: int = 0


def poisoner_places(scenario: Scenario, n_users: int) -> tuple[PoisonerPlaces, ...]:
    """Return the places of all poisoners in a fixed graph; none if the scenario places none of them."""
    places, first = [], n_users
    for choice in scenario.attackers:
        nodes = np.arange(first, first + choice.count(n_users))
        places.append(PoisonerPlaces(nodes, choice.placement, choice.edges, choice.linked))
        first += len(nodes)
    return tuple(places) if any(group.placement or group.edges for group in places) else ()


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
        kind = POISONERS[choice.name]
        kind.check(model, layout, choice.name)
        nodes = np.arange(first, first + choice.count(split.n_users))
        first += len(nodes)
        _check_aim(choice, targeted=kind.targeted, key=f"attackers.{index}")
        targets = np.zeros(0, np.int32)
        if kind.targeted:
            targets = _select_targets(choice.targets, split, f"attackers.{index}.targets")
        memory = kind.memory_numbers(choice.options, layout, split.n_users)
        groups.append(PoisonerGroup(choice, nodes, targets, memory))
    if scenario.evaluate.targets == "attacked" and groups and not any(len(group.targets) for group in groups):
        names = ", ".join(choice.name for choice in scenario.attackers)
        raise ScenarioError(
            f"evaluate.targets: found attacked, but {names} has no targets; list items, or remove targets and er@K"
        )
    _check_majority(first - split.n_users, split.n_users, protocol)
    return groups


def _check_aim(choice: AttackerChoice, *, targeted: bool, key: str) -> None:
    """Refuse targets of a poisoner without targets, and the demotion of items that no user is shown."""
    default = AttackerChoice.model_fields["targets"].default
    if not targeted and (choice.aim != "promote" or choice.targets != default):
        raise ScenarioError(
            f"{key}: found targets or aim, but {choice.name} lowers the quality of all recommendations; remove them"
        )
    if targeted and choice.aim == "demote" and isinstance(choice.targets, LeastPopular):
        raise ScenarioError(
            f"{key}.aim: found demote with targets {{least_popular: {choice.targets.least_popular}}}, which no user is "
            "shown; expected items that users are shown; list their numbers in targets"
        )


def _check_majority(n_poisoners: int, n_users: int, protocol: Protocol) -> None:
    """Refuse more poisoners than a slice has clients, or as many as users: most clients or peers could be poisoners."""
    slice_ = getattr(protocol.options, "slice", None)
    if slice_ is not None and n_poisoners > slice_:
        raise ScenarioError(
            f"attackers: found {n_poisoners} poisoners, but a slice has {slice_} clients (protocol.slice), which could "
            "all be poisoners; lower number or fraction, or use larger slices"
        )
    if n_poisoners < n_users:
        return
    drawn = "clients of a round" if protocol.has_coordinator else "peers of a node"
    raise ScenarioError(
        f"attackers: found {n_poisoners} poisoners for {n_users} users, so that half or more of the {drawn} would be "
        "poisoners; expected fewer poisoners than users; lower number or fraction"
    )


def _select_targets(chosen: Targets, split: Split, key: str) -> I32:
    """Return target items: the least popular of training and test together, with lower ids first on ties."""
    if isinstance(chosen, LeastPopular):
        items = chosen.items([split.train, split.test], split.n_items)
    else:
        items = np.unique(np.array(chosen, np.int64))
    parts = (split.train, split.validation, split.test)
    holders = np.bincount(np.concatenate([part.values for part in parts]), minlength=split.n_items)
    common = items[holders[items] >= split.n_users]
    if len(common):
        raise ScenarioError(
            f"{key}: found item {common[0]}, which every one of the {split.n_users} users has, so that no user is "
            "recommended it; expected items that some user lacks; list others"
        )
    return items.astype(np.int32)


def make_forgeries(components: RunComponents, executor: Executor) -> dict[int, Forgery]:
    """Return the forgery of every poisoner, by node."""
    training, split = components.training, components.split
    scorer, empty_feed = Scorer(executor), components.feed.restricted_to(np.zeros(0, np.int64))
    forgeries: dict[int, Forgery] = {}
    for entry in components.attackers:
        choice = entry.choice
        kind = POISONERS[choice.name]
        model, layout = components.model, components.layout
        context = replace(
            poisoner_context(model, layout, empty_feed, training.negatives, entry.targets),
            sign=1 if choice.aim == "promote" else -1,
            nodes=entry.nodes,
            rate=training.learning_rate,
            **known_about_users(kind, choice.options, split, components.scenario.seed),
        )
        is_matched = choice.scale == "matched"
        forging = PoisonedMessages(
            name=choice.name,
            poisoner=kind(choice.options, context),
            memory_numbers=entry.memory_numbers,
            start=choice.start,
            rate=training.learning_rate,
            boost=choice.boost,
            clip=choice.clip,
            clip_shared=choice.clip_shared,
            norm=SimulatedClient(scorer, empty_feed, split.mean_positives) if is_matched else None,
        )
        forgeries |= dict.fromkeys(entry.nodes.tolist(), forging)
    return forgeries


def poisoner_context(
    model: Model, layout: Layout, empty_feed: Feed, negatives: int, targets: I32
) -> PoisonerContext:
    """Return the context that a poisoner sees."""
    return PoisonerContext(ModelFormula(model, layout), empty_feed, negatives, targets)


def known_about_users(kind: type[Poisoner], options: Any, split: Split, seed: int) -> dict[str, Any]:
    """Return the fields of a context that hold what a poisoner declares to know about users, copied."""
    found: dict[str, Any] = {}
    if "popularity" in kind.knows:
        found["popularity"] = np.bincount(split.train.values, minlength=split.n_items)
    if "interactions" in kind.knows:
        found["interactions"] = draw_interactions(split.train, options.knowledge, seed)
    return found


def draw_interactions(train: Ragged, fraction: float, seed: int) -> Ragged:
    """Return a fraction of each user's items, rounded up, drawn at random; ascending."""
    parts = []
    for user in range(len(train)):
        items, draw = train[user], generator(seed, "known-interactions", user, 0)
        count = math.ceil(fraction * len(items) - 1e-9)
        parts.append(np.sort(draw.choice(items, count, replace=False)) if count else items[:0])
    return Ragged.from_parts(parts)
