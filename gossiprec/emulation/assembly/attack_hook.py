"""The attacks of a run: their limits, the hook through which each sees deliveries, and the meter of its time."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import get_ident
from typing import Any, TypeVar

import numpy as np

from gossiprec.adversaries.attacks import ATTACKS, UPLOAD_ATTACKS, Attack, AttackContext, Ranking
from gossiprec.adversaries.attacks.adversary import Adversary
from gossiprec.adversaries.attacks.candidates import NonMembers, draw_candidates
from gossiprec.adversaries.attacks.observations import (
    GroupDeliveries,
    KnownDeliveries,
    MergeDeliveries,
    MessageIndex,
    Observations,
)
from gossiprec.base.arrays import F32, I32, I64, Bools
from gossiprec.base.errors import PluginError
from gossiprec.base.isolation import CallOnly, copy_data, is_foreign, is_foreign_class
from gossiprec.base.machine import ThreadPool
from gossiprec.base.ragged import Ragged
from gossiprec.base.registry import registry_name
from gossiprec.base.rng import generator
from gossiprec.compute.executors import Executor
from gossiprec.compute.messages import MessagePayload, PushContext, check_forged
from gossiprec.compute.partial_messages import PartialMessages
from gossiprec.compute.plan.program import PoolDeliveries, Program
from gossiprec.compute.scorer import Scorer
from gossiprec.compute.store import UpdateRows
from gossiprec.compute.waves import DeliveryHook
from gossiprec.data.split import Split
from gossiprec.emulation.assembly.components import RunComponents, choose_adversary_nodes
from gossiprec.emulation.assembly.user_groups import AttributeKnowledge
from gossiprec.emulation.assembly.virtual_nodes import PieceView, VirtualNodes, join_views
from gossiprec.models import BlockRole
from gossiprec.models.base.kernel_interface import BoundKernel
from gossiprec.models.base.parameter_blocks import Layout
from gossiprec.runs.checkpoint_state import Stateful


class PartialViews(Stateful):
    """The completion of received models for observers, which score whole models.

    A single observer takes its own value of an item's number or a shared weight that was not sent. A pool takes the one
    that it received last from the same node, and before that the one with which all nodes begin. A number of the user's
    row that an observer does not have counts as zero.

    Parameters
    ----------
    partial : PartialMessages
    n_pools : int
    first : ndarray of float32, shape (row_size,)
        The version with which all nodes begin, without a user's row.
    """

    checkpointed = ("latest", "met")

    def __init__(self, partial: PartialMessages, n_pools: int, first: F32) -> None:
        self._partial, self._first = partial, first
        n_nodes = len(partial.is_partial)
        self._latest = np.zeros((n_pools, n_nodes, partial.layout.row_size), np.float32)
        self._met = np.zeros((n_pools, n_nodes), np.bool_)

    def complete_merges(self, raw: MergeDeliveries, senders: I32) -> None:
        """Complete the models that single observers are about to merge, in copies of their rows."""
        program, layout = raw.program, self._partial.layout
        own_user = layout.users if layout.n_users == 1 else slice(0, 0)
        entries = np.flatnonzero(self._partial.is_partial[senders])
        tasks = np.searchsorted(program.merge_offsets, entries, side="right") - 1
        sent = slice(0, layout.shared.stop)
        rows = [raw.rows[row, sent] for row in program.merge_row[entries].tolist()]
        messages, receivers = program.merge_message[entries], program.node[tasks]
        self._partial.expand(rows, sent, messages, senders[entries], receivers)
        for row, own in zip(rows, program.source[tasks].tolist(), strict=True):
            row[own_user][np.isnan(row[own_user])] = 0.0
            _fill(row, raw.rows[own])

    def complete(self, rows: F32, pools: I32, senders: I32, messages: I32) -> None:
        """Complete copies of models that pools receive; the pairs of pool and sender are distinct."""
        sent = slice(0, self._partial.layout.shared.stop)
        self._partial.expand(list(rows[:, sent]), sent, messages, senders)
        for row, pool, sender in zip(rows, pools.tolist(), senders.tolist(), strict=True):
            if self._partial.is_partial[sender]:
                latest = self._latest[pool, sender]
                if not self._met[pool, sender]:
                    latest[:], self._met[pool, sender] = self._first, True
                _fill(row[sent], latest)
                latest[sent] = row[sent]


def _fill(row: F32, known: F32) -> None:
    np.copyto(row, known[: len(row)], where=np.isnan(row))


def make_partial_views(
    components: RunComponents, attacks: list[Attack], partial: PartialMessages | None
) -> PartialViews | None:
    """Return the completion of partial models for attacks, or None if there are none of either."""
    if not attacks or partial is None:
        return None
    layout, draw = components.layout, generator(components.scenario.seed, "initial-common", 0)
    first = np.zeros(layout.row_size, np.float32)
    first[layout.items.start : layout.shared.stop] = layout.initial_common(draw)
    return PartialViews(partial, sum(len(attack.pools) for attack in attacks), first)


T = TypeVar("T")


class AttackHook(DeliveryHook):
    """A hook that shows an attack what its own nodes receive, and measures the time that it takes.

    Parameters
    ----------
    attack : Attack
    layout : Layout
    hides_user : ndarray of bool, shape (n_nodes,)
    deliveries : MessageIndex
    first_pool : int
        The number of the attack's first pool in pool deliveries.
    weigh : callable, optional
        Computes the weights of merges by performance for attacks that need them
        (:meth:`Executor.with_resolved_weights`).
    views : PartialViews, optional
        Completes models of which some numbers were not sent.
    piece : PieceView, optional
        If nodes send by virtual nodes, those that the attack sees.

    Attributes
    ----------
    pools : list of ndarray of int64
        The pools of the attack, empty if their deliveries are hidden.
    others : list of AttackHook
        The hooks of the same observer for the other virtual nodes; their rankings are given with this one's.

    Notes
    -----
    Several threads may observe at once, and their times are added up; a ranking counts its own duration.
    """

    def __init__(
        self,
        attack: Attack,
        layout: Layout,
        hides_user: Bools,
        deliveries: MessageIndex,
        first_pool: int,
        weigh: Callable[[Program, I64], Program] | None = None,
        views: PartialViews | None = None,
        piece: PieceView | None = None,
    ) -> None:
        self.attack = attack
        self._views, self._piece = views, piece
        self.others: list[AttackHook] = []
        self._about = self._by_id = (layout, hides_user, deliveries)
        self._first_pool, self._n_pools = first_pool, len(attack.pools)
        self._hides_nodes, self.reads_pools = False, self._n_pools > 0
        self._of_plan: tuple[Any, ...] = (None,) * 5
        self.pools = list(attack.pools)
        self._own = np.zeros(len(hides_user), np.bool_)
        self._own[attack.nodes] = True
        self._sees_all, self.reads_merges = bool(self._own.all()), len(attack.nodes) > 0
        self._knows = self._own.copy()
        for pool in attack.pools:
            self._knows[pool] = True
        self._weigh = weigh if attack.needs_merge_weights else None
        self._copies = is_foreign(attack)
        if self._copies or piece is not None:
            self._about = (layout, hides_user.copy(), MessageIndex(len(deliveries.time)))
        self._spent: dict[int, float] = {}  # by thread, so that no two threads write one entry

    def timed_call(self, job: Callable[..., T], *args: Any) -> T:
        """Call `job` and count its time."""
        begin = time.perf_counter()
        try:
            return job(*args)
        finally:
            self.count_seconds(time.perf_counter() - begin)

    def count_seconds(self, seconds: float) -> None:
        """Count time that the attack took in this thread."""
        self._spent[get_ident()] = self._spent.get(get_ident(), 0.0) + seconds

    @property
    def seconds(self) -> float:
        """Time spent so far."""
        return sum(self._spent.values())

    def deliveries_to_own_nodes(self, deliveries: KnownDeliveries) -> KnownDeliveries:
        """Return the deliveries that the attack may know: those to its own nodes."""
        known = deliveries.to_nodes(self._knows)
        if self._piece is not None:
            known = self._piece.rename(known)
        if self._copies or self._piece is not None:
            known = copy_data(known)
            self._about[2].note_deliveries(known)
        return known

    def rankings_by_node(self) -> list[Ranking]:
        """Return the present rankings, those of all virtual nodes by their nodes."""
        found = list(self.timed_call(self.attack.rankings))
        if self._piece is None:
            return found
        own = [self._piece.by_node(ranking) for ranking in found]
        return [
            join_views(views)
            for views in zip(own, *(hook.rankings_by_node() for hook in self.others), strict=True)
        ]

    def hide_node(self, node: int) -> None:
        """Hide from the attack the models that a node receives; :meth:`show_model` shows others in their place."""
        self._own[node] = self._sees_all = False
        self._hides_nodes = True
        self.pools = [pool[:0] if node in pool else pool for pool in self.pools]

    def show_model(self, node: int, messages: I32, model: F32, own: F32, *, has_base: bool = True) -> None:
        """Show the attack a model in place of each of some messages that one of its nodes received.

        Parameters
        ----------
        node : int
        messages : ndarray of int32, shape (n,)
            Messages of different senders.
        model, own : ndarray of float32, shape (n_columns,)
            The model, and the receiver's version: columns that receivers merge.
        has_base : bool
            Whether the senders were sent the receiver's version.
        """
        layout, n = self._about[0], len(messages)
        rows = np.zeros((3, layout.row_size), np.float32)
        rows[:, layout.users] = rows[:, layout.private] = np.nan
        rows[0, layout.merged], rows[1:, layout.merged] = model, own
        if node in self.attack.nodes:
            zero = np.zeros(1, np.int32)
            program = Program(
                node=zero + node, source=zero + 1, target=zero + 2, update=zero - 1,
                merge_offsets=np.array([0, n]), merge_row=np.zeros(n, np.int32),
                merge_keep=np.full(n, -1.0, np.float32), merge_message=messages.copy(),
            )  # fmt: skip
            bases = rows[[1, 1, 1]] if has_base else None
            merges = MergeDeliveries(rows, program, np.zeros(1, np.int64), bases)
            self.timed_call(self.attack.observe, Observations(merges, *self._about))
        for number, pool in enumerate(self.attack.pools):
            if node in pool:
                groups = GroupDeliveries(rows[:1].copy(), np.full(n, number, np.int32), np.zeros(n, np.int32))
                self.timed_call(self.attack.observe, Observations(groups, *self._about, messages.copy()))

    def select_tasks(self, program: Program, tasks: I64) -> I64:
        """Return the tasks of the attack's single nodes."""
        if self._sees_all:
            return tasks
        return tasks[self._own[program.node[tasks]]] if self.reads_merges else tasks[:0]

    def observe(self, rows: F32 | UpdateRows, program: Program, tasks: I64) -> None:
        """Show the attack the versions that its single nodes are about to merge."""
        mine = self.select_tasks(program, tasks)
        if len(mine):
            program = self.with_seen_weights(program, mine)
            more = (rows.bases, rows.uploads) if isinstance(rows, UpdateRows) else ()
            raw = MergeDeliveries(rows, program, mine, *more)
            if self._copies or self._views is not None:
                raw = copy_own_tasks(Observations(raw, *self._by_id), *self._about[:2])
            if self._views is not None:
                self._views.complete_merges(raw, Observations(raw, *self._by_id).senders)
            if self._piece is not None:
                raw = self._piece.select(raw)
            self.timed_call(self.attack.observe, Observations(raw, *self._about))

    @property
    def _is_bindable(self) -> bool:
        """Whether the attack sees all deliveries to its nodes as they are stored."""
        changes = (self._copies, self._views, self._piece, self._weigh, self._hides_nodes)
        own, kind = (AttackHook.observe, AttackHook.observe_pools), type(self)
        return not any(changes) and (kind.observe, kind.observe_pools) == own

    def bind_merges(self, rows: F32, program: Program) -> BoundKernel | None:
        """Return the attack's compiled loop over the tasks of a program, if it has one."""
        seen = Observations(MergeDeliveries(rows, program, np.zeros(0, np.int64)), *self._about)
        return self.attack.bind(seen, np.zeros(0, np.int64)) if self._is_bindable else None

    def bind_pools(self, rows: F32, pool_deliveries: PoolDeliveries) -> BoundKernel | None:
        """Return the attack's compiled loop over pool deliveries, if it has one."""
        _, places, pool, row, message = self._deliveries_to_own_pools(pool_deliveries)
        seen = Observations(GroupDeliveries(rows, pool, row), *self._about, message)
        return self.attack.bind(seen, places) if self._is_bindable else None

    def with_seen_weights(self, program: Program, tasks: I64) -> Program:
        """Return the program with the merge weights that the attack sees."""
        return program if self._weigh is None else self.timed_call(self._weigh, program, tasks)

    def _deliveries_to_own_pools(
        self, deliveries: PoolDeliveries
    ) -> tuple[PoolDeliveries, I64, I32, I32, I32]:
        """Return deliveries, how many of the attack's own come before each, and pool, row and message of those."""
        pool = deliveries.pool - self._first_pool
        shown = (pool >= 0) & (pool < self._n_pools)
        if self._piece is not None:
            shown &= self._piece.shows(deliveries.message)
        places = np.concatenate([[0], np.cumsum(shown)])
        return deliveries, places, pool[shown], deliveries.row[shown], deliveries.message[shown]

    def observe_pools(self, rows: F32, pool_deliveries: PoolDeliveries, first: int, last: int) -> None:
        """Show the attack the pool deliveries ``first .. last - 1``."""
        if not self._n_pools:
            return
        known, places, pool, row, message = self._of_plan
        if known is not pool_deliveries:  # a new plan; several threads may see it
            self._of_plan = known, places, pool, row, message = self._deliveries_to_own_pools(pool_deliveries)
        mine = slice(*(places[[first, last]].tolist()))
        if mine.start < mine.stop:
            raw, message = GroupDeliveries(rows, pool[mine], row[mine]), message[mine]
            if self._copies or self._views is not None:
                seen = Observations(raw, *self._by_id, message)
                copies = copy_received_versions(seen, *self._about[:2])
                if self._views is not None:
                    self._views.complete(copies, raw.group + self._first_pool, seen.senders, message)
                raw = GroupDeliveries(copies, copy_data(raw.group), np.arange(len(copies), dtype=np.int32))
                message = copy_data(message)
            self.timed_call(self.attack.observe, Observations(raw, *self._about, message))


def copy_received_versions(seen: Observations, layout: Layout, hides_user: Bools) -> F32:
    """Return copies of received versions, with NaN for withheld user rows and private weights.

    Parameters
    ----------
    seen : Observations
    layout : Layout
    hides_user : ndarray of bool, shape (n_nodes,)

    Returns
    -------
    ndarray of float32 or float16, shape (n_received, row_size)
    """
    rows = np.ascontiguousarray(seen.raw.rows[seen.rows, :])
    _hide(rows, seen.senders, layout, hides_user)
    return rows


def _hide(rows: F32, senders: I32, layout: Layout, hides_user: Bools) -> None:
    rows[hides_user[senders], layout.users] = np.nan
    rows[:, layout.private] = np.nan


def copy_own_tasks(seen: Observations, layout: Layout, hides_user: Bools) -> MergeDeliveries:
    """Return the tasks of an attack's own nodes, with copies of the versions that they merge and of their own."""
    raw = seen.raw
    assert isinstance(raw, MergeDeliveries)
    program, tasks = raw.program, raw.tasks
    n, own = len(seen.rows), np.arange(len(tasks), dtype=np.int32)
    rows = np.ascontiguousarray(raw.rows[np.concatenate([seen.rows, program.source[tasks]]), :])
    _hide(rows[:n], seen.senders, layout, hides_user)
    counts = program.merge_offsets[tasks + 1] - program.merge_offsets[tasks]
    merges = Program(
        node=np.array(program.node[tasks]),
        source=n + own,
        target=np.zeros_like(own),
        update=np.array(program.update[tasks]),
        merge_offsets=np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]),
        merge_row=np.arange(n, dtype=np.int32),
        merge_keep=np.array(seen.keeps),
        merge_message=np.array(seen.messages),
    )
    bases = None
    if raw.bases is not None:
        bases = np.concatenate([raw.bases[seen.rows, :], np.full_like(rows[n:], np.nan)])
    uploads = None if raw.uploads is None else np.array(raw.uploads[seen.rows, :])
    return MergeDeliveries(rows, merges, np.arange(len(tasks)), bases, uploads)


class AdversaryHook(AttackHook):
    """A hook that shows an adversary the models of each node one by one, and lets it forge messages."""

    attack: Adversary

    def observe(self, rows: F32 | UpdateRows, program: Program, tasks: I64) -> None:
        """Show each node of the adversary the models that it is about to merge, in order."""
        mine = self.select_tasks(program, tasks)
        if not len(mine) or isinstance(rows, UpdateRows):
            return
        raw = copy_own_tasks(
            Observations(MergeDeliveries(rows, self.with_seen_weights(program, mine), mine), *self._about),
            *self._about[:2],
        )
        if self._views is not None:
            self._views.complete_merges(raw, Observations(raw, *self._about).senders)
        of = raw.program
        for task in range(len(raw.tasks)):
            node = int(of.node[task])
            for entry in range(of.merge_offsets[task], of.merge_offsets[task + 1]):
                here = slice(entry, entry + 1)
                one = Program(
                    node=of.node[task : task + 1], source=of.source[task : task + 1],
                    target=of.target[task : task + 1], update=of.update[task : task + 1],
                    merge_offsets=np.array([0, 1]), merge_row=of.merge_row[here], merge_keep=of.merge_keep[here],
                    merge_message=of.merge_message[here],
                )  # fmt: skip
                seen = Observations(MergeDeliveries(raw.rows, one, np.zeros(1, np.int64)), *self._about)
                with self.attack.memory.only(node):
                    self.timed_call(self.attack.observe, seen)

    def answer(
        self, message: MessagePayload, base: MessagePayload | None, push: PushContext
    ) -> MessagePayload:
        """Return the payload that a node of the adversary sends in place of a message."""
        with self.attack.memory.only(push.node):
            found = self.timed_call(self.attack.forge, copy_data(message), base, push)
        where = f"adversaries: {registry_name(self.attack)}: push {push.number} of node {push.node}"
        return check_forged(where, found, message, self._about[0].n_items)


def attack_seconds_by_label(meters: Sequence[AttackHook]) -> dict[str, float]:
    """Return the time spent by the attacks of each label."""
    seconds: dict[str, float] = {}
    for meter in meters:
        label = meter.attack.label
        seconds[label] = seconds.get(label, 0.0) + meter.seconds
    return seconds


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


def make_attacks(
    components: RunComponents,
    executor: Executor,
    threads: ThreadPool,
    deliveries: KnownDeliveries,
    models_of_nodes: Callable[[I64], F32],
    virtual: VirtualNodes | None = None,
) -> list[Attack]:
    """Return the scenario's observers, then its adversaries, and last the recommender's attack on uploads, if enabled.

    Colluders may be placed by the deliveries known before the run. With virtual nodes, observers come once per piece.
    """
    protocol = components.protocol
    context = AttackContext(
        scorer=Scorer(executor),
        n_users=components.split.n_users,
        coordinator=protocol.n_users if protocol.has_coordinator else None,
        seed=components.scenario.seed,
        threads=threads,
        hides_user=components.outgoing.withholds_role(BlockRole.USER),
        deliveries=deliveries,
        feed_of_nodes=components.feed.restricted_to,
        models_of_nodes=models_of_nodes,
        known_attribute=AttributeKnowledge(components.split, components.scenario.seed),
        has_inbox=components.has_inbox,
        heads=np.arange(protocol.n_users, protocol.n_users if protocol.has_coordinator else protocol.n_nodes),
        without_data=np.flatnonzero(components.split.train.sizes == 0),
        candidates=functools.partial(_candidates, components.split, components.scenario.seed),
        neighbors=protocol.fixed_neighbors,
    )
    views = [None] if virtual is None else [virtual.view(number) for number in range(len(virtual.names))]
    attacks = [
        _make_attack(
            ATTACKS[choice.name], choice.name, choice.options,
            context if view is None else replace(context, own_names=view.names_of),
        )
        for view in views for choice in components.scenario.observers
    ]  # fmt: skip
    scenario = components.scenario
    for choice, nodes in zip(
        scenario.adversaries, choose_adversary_nodes(scenario, components.split.n_users), strict=True
    ):
        own = replace(context, nodes=nodes)
        attacks.append(_make_attack(ATTACKS[choice.name], choice.name, choice.options, own))
    requested = (
        None
        if components.coordination.recommender is None
        else components.coordination.recommender.upload_attack
    )
    if requested is not None and components.coordination.hook is not None:
        name, options = requested
        cls, context = (
            UPLOAD_ATTACKS[name],
            replace(context, knowledge=components.coordination.hook.knowledge),
        )
        attacks.append(_make_attack(cls, name, cls.Options(**options), context))
    return attacks


def _candidates(split: Split, seed: int, pairs: int, non_members: NonMembers) -> Ragged:
    """Return the candidates of every user for membership inference."""
    held_out = Ragged.from_parts(
        [np.union1d(split.validation[user], split.test[user]) for user in range(split.n_users)]
    )
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
    views: PartialViews | None,
    virtual: VirtualNodes | None = None,
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
        piece = None if virtual is None else virtual.view(number // n_choices)
        hooks.append(kind(attack, components.layout, hides_user, deliveries, first_pool, weigh, views, piece))
        first_pool += len(attack.pools)
        if number >= n_choices and virtual is not None:
            hooks[number % n_choices].others.append(hooks[-1])
    return hooks
