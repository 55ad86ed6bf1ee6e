"""Tiny worlds for attacks: random model versions are received, and what an attack must make of them, naively."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import strategies as st

from gossiprec.adversaries.attacks import AttackContext as AttackWorld
from gossiprec.adversaries.attacks.observations import KnownDeliveries, MessageIndex
from gossiprec.base.machine import ThreadPool
from gossiprec.base.ragged import Ragged
from gossiprec.compute.executors import Executor, ExecutorContext
from gossiprec.compute.local_update import NodeSettings, TrainingSettings
from gossiprec.compute.plan.program import PoolDeliveries, Program
from gossiprec.compute.scorer import Scorer
from gossiprec.compute.store.arena import Arena
from gossiprec.emulation.assembly.attack_hook import AttackHook
from gossiprec.emulation.scoring.judges import Truth
from gossiprec.emulation.scoring.membership_guesses import MembershipJudge
from gossiprec.models import Layout
from gossiprec.models.feeds import Feed
from tests.compute.worlds import SGD_MOVES, make_executor, make_model, split_of
from tests.moves import Moves

N_USERS, N_ITEMS = 6, 24
FORMS = {"plain": "reference", "compiled": "fused", "stacked": "batched"}
"""The forms of every attack, and the executor under which it takes each."""
all_forms = pytest.mark.parametrize("form", FORMS)
both_layouts = pytest.mark.parametrize("user_table", [False, True], ids=["own-row", "user-table"])


@dataclass(frozen=True, kw_only=True)
class Observed(AttackWorld):
    """What an attack is told, beside it the run's executor: what only the test knows."""

    executor: Executor

    @property
    def feed(self) -> Feed:
        """Everybody's data."""
        return self.executor.work.feed

    @property
    def targets(self) -> Ragged:
        """Everybody's training items."""
        return self.feed.positives

    @property
    def layout(self) -> Layout:
        """Of the run's rows."""
        return self.executor.work.layout

    @property
    def own(self) -> np.ndarray:
        """The nodes' present models, in the order of their ids."""
        return self.executor.work.arena.rows


def guess_rates(train, n_items, guesses):
    """Return the rates of guesses at training items, one row for each threshold."""
    truth = Truth(SimpleNamespace(train=train, n_items=n_items))
    return MembershipJudge(truth, None).rows(guesses)


def make_world(*, seed=0, **others) -> Observed:
    """Return a world of six users with one to twelve items each."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, N_ITEMS // 2 + 1, N_USERS)
    items = np.concatenate([rng.choice(N_ITEMS, size, replace=False) for size in sizes])
    targets = Ragged.sets_from_pairs(np.repeat(np.arange(N_USERS), sizes), items, N_USERS)
    return world_of(targets, N_ITEMS, seed=seed, **others)


def make_city(*, seed=0, **others) -> Observed:
    """Return a world of six users who move between one to twelve places, scored by PRME-G; some moves recur."""
    targets = make_world(seed=seed).targets
    return world_of(targets, N_ITEMS, seed=seed, moves=some_moves(targets, seed), **others)


def some_moves(targets, seed=0) -> Moves:
    """Return moves to every item of every user and to some again, two in three from a known item of the user's."""
    rng = np.random.default_rng([seed, 7])
    items = [np.append(own, rng.choice(own, 3)) for own in (targets[u] for u in range(len(targets)))]
    previous = [np.where(rng.random(len(to)) < 2 / 3, rng.choice(to, len(to)), -1) for to in items]
    offsets = np.concatenate([[0], np.cumsum([len(to) for to in items])])
    return Moves(offsets, np.concatenate(items).astype(np.int32), np.concatenate(previous).astype(np.int32))


def world_of(
    targets, n_items, *, form="plain", user_table=False, coordinator=None, hidden=(), seed=0, moves=None,
    storage="float32", deliveries=None, degrees=None, model=None,
) -> Observed:  # fmt: skip
    """Return the world of some users' items, scored by GMF with d = 8; the `hidden` keep their user rows.

    With `moves`: by PRME-G with d = 6, the items being anywhere in a city, or at `degrees`. Or by any other `model`.
    """
    n_users, learnt = (
        len(targets),
        moves or Moves(targets.offsets, targets.values, np.full_like(targets.values, -1)),
    )
    if degrees is None:
        degrees = np.random.default_rng([seed, 8]).uniform([40, -74], [41, -73], (n_items, 2))
    went, came = ([part[learnt.of(u)] for u in range(n_users)] for part in (learnt.items, learnt.previous))
    split = split_of(targets, n_items, degrees, went, came)
    model = model or (make_model("gmf") if moves is None else make_model("prme-g", dim=6))
    model = model.bind_to_data(split)
    layout = model.layout(n_items, n_users if user_table else 1)
    arena = Arena(layout, n_nodes=n_users, capacity=n_users + 1, moments=False, storage=storage)
    arena.rows[:, : layout.size] = np.random.default_rng([seed, 9]).normal(size=(n_users + 1, layout.size))
    node_settings, hides_user = NodeSettings.without_policies(n_users + 1), np.zeros(n_users + 1, np.bool_)
    hides_user[list(hidden)] = True
    training = TrainingSettings() if moves is None else SGD_MOVES
    work = ExecutorContext(model, layout, training, model.make_feed(split), arena, seed, node_settings)
    executor = make_executor(FORMS[form], work)
    return Observed(
        scorer=Scorer(executor),
        n_users=n_users,
        coordinator=coordinator,
        seed=seed,
        threads=ThreadPool(2 if executor.parallel else 1),
        hides_user=hides_user,
        deliveries=deliveries or KnownDeliveries(*np.zeros((3, 0), np.int32), np.zeros(0), 0),
        feed_of_nodes=work.feed.restricted_to,
        models_of_nodes=lambda nodes: arena.rows[nodes],
        executor=executor,
    )


@dataclass(frozen=True)
class Receptions:
    """Message m brings ``rows[m]`` of `sender[m]` to `receiver[m]`; messages arrive in order of their ids."""

    sender: np.ndarray
    receiver: np.ndarray
    rows: np.ndarray

    @classmethod
    def drawn(cls, pairs, world: Observed, seed=0) -> Receptions:
        """Give each (sender, receiver) pair of a list a random version to carry."""
        sender, receiver = np.array(pairs, np.int32).reshape(-1, 2).T.copy()
        layout = world.layout
        rows = np.zeros((len(sender), layout.row_size), np.float32)
        rows[:, : layout.size] = np.random.default_rng(seed).normal(size=(len(sender), layout.size))
        return cls(sender, receiver, rows)

    @property
    def meetings(self) -> KnownDeliveries:
        """What the control plane knows ahead."""
        n = len(self.sender)
        return KnownDeliveries(
            np.arange(n, dtype=np.int32), self.sender, self.receiver, np.arange(n, dtype=float), n
        )

    @property
    def program(self) -> Program:
        """One merging task a message."""
        n = len(self.sender)
        places = np.arange(n, dtype=np.int32)
        return Program(
            node=self.receiver,
            source=self.receiver,
            target=self.receiver,
            update=np.full(n, -1, np.int32),
            merge_offsets=np.arange(n + 1),
            merge_row=places,
            merge_keep=np.full(n, 0.5, np.float32),
            merge_message=places,
        )

    def pool_deliveries(self, pools) -> PoolDeliveries:
        """Return what each pool (a list of members) sees, in order of arrival."""
        seen = [
            (pool, self.sender[m], m, m)
            for m in range(len(self.sender))
            for pool, members in enumerate(pools)
            if self.receiver[m] in members
        ]
        return PoolDeliveries(*np.array(seen, np.int32).reshape(-1, 4).T.copy())

    def versions(self, victim, receivers, n_arrived):
        """Return the versions of `victim` that `receivers` got among the first messages, in float64."""
        mine = (self.sender == victim) & np.isin(self.receiver, receivers)
        return self.rows[:n_arrived][mine[:n_arrived]].astype(np.float64)


def started(attack, world: Observed, received: Receptions, first_pool=0) -> AttackHook:
    """Return an attack as a run shows it what its own nodes receive, told of their meetings and no others."""
    deliveries = MessageIndex(received.meetings.n_messages)
    deliveries.note_deliveries(received.meetings)
    meter = AttackHook(attack, world.layout, world.hides_user, deliveries, first_pool)
    attack.warm_up()
    attack.allocate(meter.deliveries_to_own_nodes(received.meetings))
    return meter


def show(meter: AttackHook, world: Observed, received: Receptions, upto=None, first=0, pools=None):
    """Let an attack see some messages, and return its rankings."""
    see(meter, world, received, upto, first, pools)
    return meter.attack.rankings()


def see(meter: AttackHook, world: Observed, received: Receptions, upto=None, first=0, pools=None):
    """Let an attack see messages number first .. upto - 1 that its own nodes receive.

    Receivers hold the models of the world's arena before each merge. As in a run, what is seen at once are merges of
    different receivers. `pools` are whose messages its pools receive, if not those of their members.
    """
    upto = len(received.sender) if upto is None else upto
    rows = np.concatenate([received.rows.astype(world.own.dtype), world.own])
    program = replace(received.program, source=(len(received.rows) + received.receiver).astype(np.int32))
    while first < upto:
        last = first + 1
        while last < upto and received.receiver[last] not in received.receiver[first:last]:
            last += 1
        meter.observe(rows, program, np.arange(first, last))
        pool_deliveries = received.pool_deliveries(meter.attack.pools if pools is None else pools)
        meter.observe_pools(rows, pool_deliveries, *np.searchsorted(pool_deliveries.message, [first, last]))
        first = last


def trainer(world: Observed, **training) -> Scorer:
    """Return what trains models as the world's nodes would, but compiled and with some settings of its own."""
    work = world.executor.work
    return Scorer(make_executor("fused", replace(work, training=replace(work.training, **training))))


def kept_by(attack) -> np.ndarray:
    """Return the momentum models that an attack keeps."""
    observers = attack._observers
    return observers._memory if hasattr(observers, "_memory") else observers.memory


def closed_form(versions, beta):
    """Return beta^(t-1) Theta_1 + (1 - beta) sum over i from 2 to t of beta^(t-i) Theta_i."""
    t = len(versions)
    weights = [beta ** (t - 1)] + [(1 - beta) * beta ** (t - i) for i in range(2, t + 1)]
    return np.array(weights) @ versions


def predicted(world: Observed, model, user):
    """Return GMF's logits of all items for a user by a flat row, shape (1, n_items)."""
    layout = world.layout
    users = model[layout.users].reshape(layout.n_users, -1)
    weight, bias = model[layout.shared][:-1], model[layout.shared][-1]
    own = users[user if layout.n_users > 1 else 0]
    logits = model[layout.items].reshape(layout.n_items, -1) @ (own * weight) + bias
    return logits.astype(np.float32)[None]


def pairs_met(max_size=30):
    """Draw who sends to whom, message by message; few enough nodes that pairs meet again and again."""
    nodes = st.integers(0, N_USERS - 1)
    pair = st.tuples(nodes, nodes).filter(lambda pair: pair[0] != pair[1])
    return st.lists(pair, min_size=1, max_size=max_size)
