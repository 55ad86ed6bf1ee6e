"""The attacks of a run: made from the scenario, limited to their own nodes, each with its hook."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from gossiprec.adversaries.attacks import ATTACKS, UPLOAD_ATTACKS, Attack, AttackContext
from gossiprec.adversaries.attacks.attributes import KnownAttribute
from gossiprec.adversaries.attacks.candidates import NonMembers, draw_candidates
from gossiprec.adversaries.attacks.observations import KnownDeliveries, MessageIndex
from gossiprec.base.arrays import F32, I64, Bools
from gossiprec.base.errors import PluginError, ScenarioError
from gossiprec.base.isolation import CallOnly, copy_data, is_foreign_class
from gossiprec.base.machine import ThreadPool
from gossiprec.base.ragged import Ragged
from gossiprec.base.rng import generator
from gossiprec.compute.executors import Executor
from gossiprec.compute.plan.program import Program
from gossiprec.compute.scorer import Scorer
from gossiprec.data.split import Split
from gossiprec.data.user_classes import user_classes
from gossiprec.emulation.assembly.attack_hook import AdversaryHook, AttackHook, Completion, Piece
from gossiprec.emulation.assembly.components import RunComponents, choose_adversary_nodes
from gossiprec.models import BlockRole

T = TypeVar("T")


class OwnNodes:
    """The nodes that observe for one attack, and all users if the coordinator or a head is one of them.

    An attack may request data while it is constructed, before its nodes are known; :meth:`limit_to` checks these
    requests later.

    Parameters
    ----------
    name : str
        The section and the name of the attack in the scenario.
    context : AttackContext
    """

    def __init__(self, name: str, context: AttackContext) -> None:
        self._name, self._context = name, context
        self._own: Bools | None = None
        self._requested: list[I64] = []

    def limited_context(self) -> AttackContext:
        """Return a context of which the functions answer only for the attack's own nodes."""
        context = self._context
        return replace(
            context,
            feed_of_nodes=self._checked(context.feed_of_nodes, "data"),
            models_of_nodes=self._checked(context.models_of_nodes, "models"),
            own_names=None if context.own_names is None else self._checked(context.own_names, "names"),
        )

    def limit_to(self, attack: Attack) -> None:
        """Limit the context to the nodes that the attack observes.

        Raises
        ------
        PluginError
            If the attack requested the data of another node while it was constructed.
        """
        context = self._context
        servers = context.heads if context.coordinator is None else np.array([context.coordinator])
        own = np.zeros(len(context.hides_user), np.bool_)
        own[np.concatenate([attack.nodes, *attack.pools]).astype(np.int64)] = True
        if own[servers].any():
            own[: context.n_users] = True
        self._own = own
        for nodes in self._requested:
            self._check(nodes, "data")
        self._requested.clear()

    def _checked(self, answer: Callable[[I64], T], of: str) -> Callable[[I64], T]:
        def checked(nodes: I64) -> T:
            self._check(np.asarray(nodes), of)
            return answer(nodes)

        return checked

    def _check(self, nodes: I64, of: str) -> None:
        if self._own is not None:
            known = (nodes >= 0) & (nodes < len(self._own))
            foreign = np.unique(nodes[~(known & self._own[np.where(known, nodes, 0)])]).tolist()
            if foreign:
                raise PluginError(
                    f"{self._name} requested the {of} of nodes {foreign}, which are not its own; expected "
                    "nodes that observe, or users if the coordinator or a head observes; request only those"
                )
        elif of == "data":
            self._requested.append(nodes.copy())
        else:
            raise PluginError(
                f"{self._name} requested models before the run began; request them only in rankings()"
            )


@dataclass(frozen=True)
class AttributeKnowledge:
    """What attacks may know of users' attributes: the values of a share of the users.

    Parameters
    ----------
    split : Split
    seed : int
    """

    split: Split
    seed: int

    def __call__(self, name: str, bins: tuple[float, ...], share: float) -> KnownAttribute:
        """Return the classes of a share of the users that have a value, drawn at random.

        Raises
        ------
        ScenarioError
            If fewer than two classes are known.
        """
        classes, codes = user_classes(self.split, name, bins)
        order = generator(self.seed, "known-attributes").permutation(self.split.n_users)
        order = order[codes[order] >= 0]
        users = np.sort(order[: max(1, round(share * len(order)))])
        found = np.unique(codes[users])
        if len(found) < 2:
            raise ScenarioError(
                f"observers: attribute {name}: found the class {classes[found[0]]} only among the {len(users)} users "
                "of whom it is known; expected at least two; raise known"
            )
        return KnownAttribute(name, bins, classes, users, codes[users])


def make_attacks(
    components: RunComponents,
    executor: Executor,
    threads: ThreadPool,
    deliveries: KnownDeliveries,
    models_of_nodes: Callable[[I64], F32],
    pieces: Sequence[Piece] = (),
) -> list[Attack]:
    """Return the scenario's observers, then its adversaries, and last the recommender's attack on uploads, if enabled.

    Colluders may be placed by the deliveries known before the run. With virtual nodes, observers come once per piece.
    """
    scenario, split = components.scenario, components.split
    protocol, coordination = components.protocol, components.coordination
    context = AttackContext(
        scorer=Scorer(executor),
        n_users=split.n_users,
        coordinator=protocol.n_users if protocol.has_coordinator else None,
        seed=scenario.seed,
        threads=threads,
        hides_user=components.outgoing.withholds_role(BlockRole.USER),
        deliveries=deliveries,
        feed_of_nodes=components.feed.restricted_to,
        models_of_nodes=models_of_nodes,
        known_attribute=AttributeKnowledge(split, scenario.seed),
        has_inbox=components.has_inbox,
        heads=np.arange(protocol.n_users, protocol.n_users if protocol.has_coordinator else protocol.n_nodes),
        without_data=np.flatnonzero(split.train.sizes == 0),
        candidates=functools.partial(_candidates, split, scenario.seed),
        neighbors=protocol.fixed_neighbors,
    )
    attacks = [
        _make_attack(
            ATTACKS[choice.name], choice.name, choice.options,
            context if piece is None else replace(context, own_names=piece.names_of),
        )
        for piece in pieces or (None,) for choice in scenario.observers
    ]  # fmt: skip
    adversaries = zip(scenario.adversaries, choose_adversary_nodes(scenario, split.n_users), strict=True)
    for choice, nodes in adversaries:
        own = replace(context, nodes=nodes)
        attacks.append(_make_attack(ATTACKS[choice.name], choice.name, choice.options, own))
    requested = None if coordination.recommender is None else coordination.recommender.upload_attack
    if requested is not None and coordination.hook is not None:
        name, options = requested
        cls, context = UPLOAD_ATTACKS[name], replace(context, knowledge=coordination.hook.knowledge)
        attacks.append(_make_attack(cls, name, cls.Options(**options), context))
    return attacks


def _candidates(split: Split, seed: int, pairs: int, non_members: NonMembers) -> Ragged:
    """Return the candidates of every user for membership inference."""
    users = range(split.n_users)
    held_out = Ragged.from_parts([np.union1d(split.validation[user], split.test[user]) for user in users])
    return draw_candidates(split.train, held_out, split.n_items, pairs, non_members, seed)


COPIED = ("hides_user", "deliveries", "nodes", "heads")
CALLED = ("feed_of_nodes", "models_of_nodes", "known_attribute", "candidates", "own_names", "neighbors")
"""The fields of an attack's context of which an attack of a plug-in gets copies, or may only call."""


def _make_attack(cls: type[Attack], name: str, options: Any, context: AttackContext) -> Attack:
    """Return an attack that reaches its own nodes only; an attack of a plug-in gets copies."""
    own = OwnNodes(f"{'adversaries' if cls.sends else 'observers'}: {name}", context)
    limited = own.limited_context()
    if is_foreign_class(cls):
        values = vars(limited)
        own_values: dict[str, Any] = {name: copy_data(values[name]) for name in COPIED}
        own_values |= {name: CallOnly(values[name]) for name in CALLED if values[name] is not None}
        limited = replace(limited, threads=ThreadPool(limited.threads.size), **own_values)
    attack = cls(options, limited)
    own.limit_to(attack)
    return attack


def make_hooks(
    components: RunComponents,
    attacks: list[Attack],
    deliveries: MessageIndex,
    weigh: Callable[[Program, I64], Program] | None,
    views: Completion | None,
    pieces: Sequence[Piece] = (),
) -> list[AttackHook]:
    """Return the hook of each attack, which shows it the deliveries to its own nodes."""
    coordinator, hides_user = components.protocol.n_users, components.outgoing.withholds_role(BlockRole.USER)
    for attack in attacks:
        if (attack.nodes != coordinator).any() and not attack.sends:
            components.mode.check_node_observer(attack.label)
    hooks: list[AttackHook] = []
    first_pool, n_choices = 0, len(components.scenario.observers)
    for number, attack in enumerate(attacks):
        kind = AdversaryHook if attack.sends else AttackHook
        piece = pieces[number // n_choices] if pieces else None
        hooks.append(kind(attack, components.layout, hides_user, deliveries, first_pool, weigh, views, piece))
        first_pool += len(attack.pools)
        if number >= n_choices and pieces:
            hooks[number % n_choices].others.append(hooks[-1])
    return hooks
