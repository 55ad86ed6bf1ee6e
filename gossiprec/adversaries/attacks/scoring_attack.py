"""Attacks that rank victims by their models' scores of the adversary's items: options, base class, choice of colluders.

Momentum averages the models of several deliveries into one; a rule turns a model's scores into one number. Colluders
are drawn at random, or placed by the deliveries between nodes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from gossiprec.adversaries.attacks import (
    Attack,
    AttackContext,
    AttackMemoryInputs,
    Ranking,
    fraction_to_count,
)
from gossiprec.adversaries.attacks.coalition_observers import CoalitionObservers
from gossiprec.adversaries.attacks.fictive_users import FictiveUsers
from gossiprec.adversaries.attacks.findings import (
    TableKey,
    as_unique_list,
    observer_names,
    placement_specs,
    shortest_decimal,
)
from gossiprec.adversaries.attacks.individual_observers import IndividualObservers
from gossiprec.adversaries.attacks.observations import KnownDeliveries, MergeDeliveries, Observations
from gossiprec.adversaries.attacks.targets import TargetItems
from gossiprec.base.arrays import I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import LARGEST, Options, Problem, listed, small_fractions, unknown_nodes
from gossiprec.base.registry import registry_name
from gossiprec.base.rng import generator
from gossiprec.models.base.kernel_interface import BoundKernel


def draw_members(context: AttackContext, fraction: float) -> I64:
    """Return a random share of the nodes; a larger share contains each smaller one."""
    order = generator(context.seed, "observers").permutation(context.n_users)
    return np.sort(order[: fraction_to_count(context.n_users, fraction)])


def choose_nodes(context: AttackContext, nodes: Any) -> I64:
    """Return the users that the option ``nodes`` selects: all, a random share, or ids."""
    if nodes == "all":
        return np.arange(context.n_users)
    if isinstance(nodes, NodeShare):
        return draw_members(context, nodes.fraction)
    return np.unique(nodes)


def check_coordinator(context: AttackContext, options: Any) -> None:
    """Raise ScenarioError if the coordinator is to observe, and the protocol has none."""
    if options.who == "coordinator" and context.coordinator is None:
        raise ScenarioError(
            "observers: who: coordinator requires a protocol with a coordinator, such as fedavg"
        )


def choose_coalitions(context: AttackContext, options: Any) -> list[I64]:
    """Return the members of each coalition, in the order of :func:`.findings.observer_names`.

    Parameters
    ----------
    context : AttackContext
    options : ObserverOptions
        With members, or one or several fractions and placements.

    Raises
    ------
    ScenarioError
        If a placement needs contacts that are not known.
    """
    if options.members is not None:
        return [np.unique(options.members)]
    placements = placement_specs(options)
    by_contacts = any(how != "random" for how, _ in placements)
    choose = _Chooser(context, options.placement_until) if by_contacts else None
    return [
        draw_members(context, fraction)
        if choose is None or how == "random"
        else choose(fraction, how, victim)
        for fraction in as_unique_list(options.fraction)
        for how, victim in placements
    ]


class _Chooser:
    """Placement of colluders by the deliveries of a run."""

    def __init__(self, context: AttackContext, until: float | None) -> None:
        if context.coordinator is not None:
            raise ScenarioError(
                "observers: placement uses contacts between nodes, but with a coordinator nodes receive "
                "models only from it; use placement: random, or list the colluders under members"
            )
        if not context.deliveries.complete:
            raise ScenarioError(
                "observers: placement requires contacts that are known in advance, but with this protocol "
                "they depend on model performance; use placement: random, list the colluders under members, "
                "or use protocol rand-gossip"
            )
        self._context = context
        self._contacts = context.contacts(math.inf if until is None else until)
        if not self._contacts.nnz:
            found, remedy = "in this run", "use placement: random"
            if until is not None:
                found, remedy = f"by placement_until: {until:g}", "raise it"
            raise ScenarioError(
                f"observers: no message arrives {found}, so there are no contacts to place colluders "
                f"by; {remedy}"
            )

    def __call__(self, fraction: float, how: str, victim: int | None) -> I64:
        from gossiprec.network.graphs.centrality import place_colluders

        context = self._context
        seed = int(generator(context.seed, "placement").integers(2**63))
        return place_colluders(
            self._contacts, fraction_to_count(context.n_users, fraction), how, seed=seed, victim=victim
        )


Fraction = Annotated[float, Field(gt=0, le=1)]
Size = Annotated[int, Field(ge=1, le=LARGEST)]
Momentum = Annotated[float, Field(ge=0, lt=1)]
Ids = Annotated[tuple[Annotated[int, Field(ge=0, le=LARGEST)], ...], Field(min_length=1)]
Fractions = Annotated[tuple[Fraction, ...], Field(min_length=1)]
Sizes = Annotated[tuple[Size, ...], Field(min_length=1)]
Momenta = Annotated[tuple[Momentum, ...], Field(min_length=1)]
Placement = Literal["random", "degree", "betweenness", "clustered", "greedy-cover", "eclipse"]
Placements = Annotated[tuple[Placement, ...], Field(min_length=1)]


class NodeShare(Options):
    """A random share of the nodes."""

    fraction: Fraction


class GroupOptions(Options):
    """The base of options of who observes."""

    def check_sizes(self, n_users: int, n_items: int) -> Iterator[Problem]:
        """Yield observers that do not exist, and an eclipse in which the victim would collude, too."""
        options: Any = self
        yield from unknown_nodes("nodes", options.nodes, n_users)
        yield from small_fractions("fraction", options.fraction, n_users)
        yield from unknown_nodes("victim", options.victim, n_users)
        for path, fraction in listed("fraction", options.fraction if options.victim is not None else None):
            if round(fraction * n_users) == n_users:
                yield (
                    path,
                    f"found {fraction}, with which the victim of an eclipse would collude too; lower it",
                )
        yield from unknown_nodes("members", options.members, n_users)


def large_communities(sizes: int | tuple[int, ...], n_users: int) -> Iterator[Problem]:
    """Yield the community sizes above half of the users, for which guessing finds more than half of a community."""
    most = max(1, n_users // 2)
    for path, size in listed("community_size", sizes):
        if size >= n_users:
            found = f"a community has no more than {n_users - 1} members (all other users)"
        else:
            found = f"of the {n_users - 1} other users, guessing finds {size / (n_users - 1):.0%}"
        if size > most:
            yield (
                path,
                f"found {size}, but {found}; a community can have up to half of the {n_users} users; "
                f"lower it to {most} or less, or use more users",
            )


class PlacementOptions(GroupOptions):
    """Options of who observes. A list gives one observer per combination."""

    who: Literal["single", "coalition", "coordinator", "heads"]
    """single: every node on its own; coalition: nodes that share what they receive; coordinator: the coordinator of
    a federated run; heads: all heads without a user of a semi-decentralised run, which share what they receive"""
    nodes: Literal["all"] | NodeShare | Ids = "all"
    """single: nodes that observe; coordinator, heads: users for which they search communities; all, {fraction: f} or
    a list of ids"""
    fraction: Fraction | Fractions | None = None
    """coalition: fraction of the nodes that collude"""
    placement: Placement | Placements = "random"
    """coalition: how colluders are chosen: at random, or by the contacts of the run"""
    victim: Annotated[int, Field(ge=0)] | Ids | None = None
    """placement eclipse: user that the colluders surround"""
    placement_until: float | None = Field(default=None, gt=0)
    """placement: use only contacts up to this virtual time; null uses all contacts of the run"""
    members: Ids | None = None
    """coalition: ids of the colluders, instead of fraction"""

    @model_validator(mode="after")
    def _is_one_group(self) -> PlacementOptions:
        named = (self.fraction is not None) + (self.members is not None)
        if self.who == "coalition" and named != 1:
            raise ValueError("a coalition requires either fraction or members")
        if self.who != "coalition" and named:
            raise ValueError(f"fraction and members belong to who: coalition, found who: {self.who}")
        self._placement_fits()
        return self

    def _placement_fits(self) -> None:
        chosen = [how for how in as_unique_list(self.placement) if how != "random"]
        if chosen and self.fraction is None:
            raise ValueError(f"placement: {chosen[0]} belongs to a coalition with a fraction")
        if ("eclipse" in chosen) != (self.victim is not None):
            raise ValueError(
                "victim is required with placement: eclipse, and not allowed with other placements"
            )
        if self.placement_until is not None and not chosen:
            raise ValueError("placement_until belongs to a placement other than random")


class ObserverOptions(PlacementOptions):
    """Options of observers that all relevance rules share. A list gives one observer per combination."""

    community_size: Size | Sizes = 50
    """K"""
    momentum: Momentum | Momenta = 0.99
    """momentum beta over the received models of a node; 0 uses only the latest model"""
    fictive_user: Literal["fitted", "own_embedding", "paper"] = "fitted"
    """user row with which to score victims that withhold theirs: a row fitted to the targets, the attacker's own row
    and shared weights, or the row of a model trained once on the targets"""
    storage: Literal["float32", "float16"] = "float32"
    """who: single: type of the numbers that are kept of a victim's models; float16 takes half of the memory"""
    refit_every: float = Field(default=10.0, gt=0)
    """who: single with fitted rows: virtual time (rounds) after which the row is refitted; coalitions and the
    coordinator refit at each report"""

    @model_validator(mode="after")
    def _fits_together(self) -> ObserverOptions:
        if self.who == "coalition" and self.nodes != "all":
            raise ValueError("nodes belongs to who: single, coordinator or heads, found who: coalition")
        if self.storage != "float32" and self.who != "single":
            raise ValueError(
                f"storage: {self.storage} belongs to who: single, found who: {self.who}; remove it, or set "
                "executor.storage for the models that coalitions keep"
            )
        default = type(self).model_fields["refit_every"].default  # which a resolved scenario contains
        if self.refit_every != default and self.fictive_user != "fitted":
            raise ValueError(
                f"refit_every belongs to fictive_user: fitted, found fictive_user: {self.fictive_user}"
            )
        if self.refit_every != default and self.who != "single":
            raise ValueError(
                f"refit_every belongs to who: single, found who: {self.who}; coalitions and the "
                "coordinator refit at each report"
            )
        return self

    def check_sizes(self, n_users: int, n_items: int) -> Iterator[Problem]:
        """Yield observers that do not exist, and communities that are too large."""
        yield from super().check_sizes(n_users, n_items)
        yield from large_communities(self.community_size, n_users)


def _pool_sizes(options: ObserverOptions, prospect: AttackMemoryInputs) -> list[int]:
    """Return the number of adversaries of each pool."""
    if options.who in ("coordinator", "heads"):
        return [prospect.count_nodes(options.nodes)]
    if options.members is not None:
        return [prospect.count_nodes(options.members)]
    each = len(placement_specs(options))
    return [
        fraction_to_count(prospect.n_users, fraction)
        for fraction in as_unique_list(options.fraction)
        for _ in range(each)
    ]


class ScoringAttack(Attack):
    """An attack by single nodes, by coalitions, by the coordinator or by heads.

    Parameters
    ----------
    options : ObserverOptions
    context : AttackContext
    """

    name: ClassVar[str]
    """The name under which it is registered."""

    options: ObserverOptions

    def __init__(self, options: Any, context: AttackContext) -> None:
        super().__init__(options, context)
        rules, n_references = self.relevance_rules(options), self.count_references(options)
        check_coordinator(context, options)
        if options.who == "heads" and not len(context.heads):
            raise ScenarioError(
                "observers: who: heads requires heads without a user; use protocol semi-decentralised with head: "
                "server, or who: single"
            )
        self._names, self._groups, named = self._who()
        adversaries = [ids[~np.isin(ids, context.without_data)] for ids in named]
        if not all(map(len, adversaries)):
            raise ScenarioError(
                f"observers: no node of an observer of {registry_name(self)} has data (dataset.without); expected at "
                "least one that has; name other nodes"
            )
        momenta = np.array(as_unique_list(options.momentum), np.float32)
        targets = [
            TargetItems.of(context.feed_of_nodes(ids), ids, n_references=n_references, seed=context.seed)
            for ids in adversaries
        ]
        fictive = [FictiveUsers(context, t, options.fictive_user, options.refit_every) for t in targets]
        self._fictive = fictive
        self._observers: IndividualObservers | CoalitionObservers
        if options.who == "single":
            self._observers = IndividualObservers(
                context, targets[0], momenta, rules, fictive[0], options.storage
            )
        else:
            at_servers = options.who in ("coordinator", "heads") and options.fictive_user != "own_embedding"
            hosts = [np.full(len(ids), self._groups[0][0]) if at_servers else ids for ids in adversaries]
            self._observers = CoalitionObservers(context, targets, momenta, rules, fictive, hosts)

    def _who(self) -> tuple[list[str], list[I64], list[I64]]:
        """Return observer names, the nodes that share deliveries per pool, and the nodes that supply the targets."""
        options, context = self.options, self.context
        names = observer_names(options)
        if options.who == "coalition":
            members = choose_coalitions(context, options)
            return names, members, members
        servers = [np.array([context.coordinator])] if options.who == "coordinator" else []
        if options.who == "heads":
            servers = [context.heads]
        return names, servers, [choose_nodes(context, options.nodes)]

    @staticmethod
    def relevance_rules(options: Any) -> list[str]:
        """Return the names of the relevance rules in the options."""
        raise NotImplementedError

    @classmethod
    def table_keys(cls, options: Any) -> frozenset[TableKey]:
        """Return the keys of its table rows, one for each observer, rule, momentum and community size."""
        momenta = [shortest_decimal(np.float32(momentum)) for momentum in as_unique_list(options.momentum)]
        sizes = as_unique_list(options.community_size)
        return frozenset(
            itertools.product(observer_names(options), cls.relevance_rules(options), momenta, sizes)
        )

    @staticmethod
    def count_references(options: Any) -> int | Literal["all"]:
        """Return the number of items outside its targets that each adversary compares with."""
        raise NotImplementedError

    @classmethod
    def expected_bytes(cls, options: Any, prospect: AttackMemoryInputs) -> float:
        """Return an estimate of the bytes of momentum models and scores, which the observer classes describe."""
        momenta, n_rules = as_unique_list(options.momentum), len(cls.relevance_rules(options))
        n_items, references = prospect.layout.n_items, cls.count_references(options)
        if options.who == "single":
            kept = n_items if references == "all" else prospect.own_items + references
            small = replace(prospect.layout, n_items=round(min(kept, n_items)), n_users=1)
            n_adversaries = prospect.count_nodes(options.nodes)
            n_kept = sum(momentum > 0 for momentum in momenta)
            scored = len(momenta) * n_rules * n_adversaries * prospect.n_users
            slots = n_adversaries * prospect.keeps * prospect.n_users
            return float(4 * scored + np.dtype(options.storage).itemsize * n_kept * slots * small.row_size)
        sizes = _pool_sizes(options, prospect)
        n_kept = sum(momentum > 0 or not prospect.ranked_on_sight for momentum in momenta)
        models = n_kept * len(sizes) * prospect.n_users * prospect.layout.row_size
        scored = len(momenta) * n_rules * sum(sizes) * prospect.n_users
        return float(models * np.dtype(prospect.storage).itemsize + 4 * scored)

    @property
    def label(self) -> str:
        """The attack and its observer."""
        return f"{self.name}-{self.options.who}"

    @property
    def nodes(self) -> I64:
        """Single adversaries."""
        if isinstance(self._observers, IndividualObservers):
            return self._observers.targets.adversaries
        return super().nodes

    @property
    def needs_merge_weights(self) -> bool:
        """Whether single adversaries use their own models and so must follow their merges."""
        singles = isinstance(self._observers, IndividualObservers)
        return singles and self._fictive[0].own and bool(self.context.hides_user.any())

    @property
    def pools(self) -> Sequence[I64]:
        """Coalitions, the coordinator, or the heads."""
        return self._groups

    @property
    def coalitions(self) -> dict[str, I64]:
        """Members of each coalition, by the coalition's name."""
        if self.options.who != "coalition":
            return {}
        return dict(zip(self._names, self._groups, strict=True))

    def allocate(self, deliveries: KnownDeliveries) -> None:
        """Allocate memory for the deliveries to come, and train the fictive users that are trained only once."""
        self._observers.allocate(deliveries)
        if self.context.hides_user.any():
            for fictive in self._fictive:
                fictive.prepare()

    def extend_deliveries(self, deliveries: KnownDeliveries) -> None:
        """Pass the next deliveries to the observers."""
        self._observers.extend_deliveries(deliveries)

    def warm_up(self) -> None:
        """Compile the loops of observers and fictive users."""
        self._observers.warm_up()

    def state(self, now: float) -> dict[str, Any]:
        """Return momentum models, scores and fictive users."""
        own = self._observers
        observers = own.state(now) if isinstance(own, IndividualObservers) else own.state()
        return {"observers": observers, "fictive": [fictive.state() for fictive in self._fictive]}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the momentum models, scores and fictive users that :meth:`state` returned."""
        self._observers.restore(state["observers"])
        for fictive, kept in zip(self._fictive, state["fictive"], strict=True):
            fictive.restore(kept)

    def export_node_state(self, nodes: I64, *, whole: bool) -> dict[str, Any]:
        """Return the state of single nodes."""
        assert isinstance(self._observers, IndividualObservers)
        return self._observers.export_node_state(nodes, whole=whole)

    def import_node_state(self, nodes: I64, state: Mapping[str, Any]) -> None:
        """Take over the state of single nodes that :meth:`export_node_state` returned."""
        assert isinstance(self._observers, IndividualObservers)
        self._observers.import_node_state(nodes, state)

    @property
    def state_bytes(self) -> int:
        """Memory of the kept rows."""
        return self._observers.state_bytes

    def bind(self, seen: Observations, places: I64) -> BoundKernel | None:
        """Return the loop of the observers, if they are compiled and no subclass looks at the deliveries."""
        own, raw, about = self._observers, seen.raw, seen.deliveries
        if type(self).observe is not ScoringAttack.observe:
            return None
        if isinstance(raw, MergeDeliveries):
            assert isinstance(own, IndividualObservers)
            compiled = own.scorer.kernels is not None
            return own.bind(raw.rows, raw.merges, about.sender, about.time) if compiled else None
        assert isinstance(own, CoalitionObservers)
        return own.bind(raw, seen.messages, about.sender, places) if own.only_blends else None

    def observe(self, seen: Observations) -> None:
        """Process the deliveries that single nodes merge, or that pools receive."""
        self._observers.observe(seen)

    def rankings(self) -> list[Ranking]:
        """Return the present rankings."""
        sizes = tuple(as_unique_list(self.options.community_size))
        found = self._observers.rankings()
        return [
            Ranking(self._names[pool], rule, shortest_decimal(beta), sizes, ids, scores)
            for pool, rule, beta, ids, scores in found
        ]
