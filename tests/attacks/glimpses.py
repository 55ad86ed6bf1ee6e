"""Tiny worlds for attacks: random model versions are received, and what an attack must make of them, naively."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from gossiprec.attacks.base import Meetings
from gossiprec.attacks.base import World as AttackWorld
from gossiprec.compute.arena import Arena
from gossiprec.compute.crew import Crew
from gossiprec.compute.executors import Workload
from gossiprec.compute.planner import Sightings
from gossiprec.compute.program import Program
from gossiprec.compute.training import LocalData, Moves, TrainingSettings
from gossiprec.compute.treatment import Treatment
from gossiprec.models.places import unit_vectors
from gossiprec.ragged import Ragged
from tests.compute.worlds import SGD_MOVES, make_executor, make_model

N_USERS, N_ITEMS = 6, 24


def make_world(*, seed=0, **others) -> AttackWorld:
    """Return a world of six users with one to twelve items each."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, N_ITEMS // 2 + 1, N_USERS)
    items = np.concatenate([rng.choice(N_ITEMS, size, replace=False) for size in sizes])
    targets = Ragged.sets(np.repeat(np.arange(N_USERS), sizes), items, N_USERS)
    return world_of(targets, N_ITEMS, seed=seed, **others)


def make_city(*, seed=0, **others) -> AttackWorld:
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
    targets, n_items, *, compiled=False, user_table=False, coordinator=None, hidden=(), seed=0, moves=None,
    storage="float32", meetings=None,
) -> AttackWorld:  # fmt: skip
    """Return the world of some users' items, scored by GMF with d = 8; the `hidden` keep their user rows.

    With `moves`: by PRME-G with d = 6, the items being anywhere on the globe.
    """
    model, n_users = make_model("gmf") if moves is None else make_model("prme-g", dim=6), len(targets)
    degrees = np.random.default_rng([seed, 8]).uniform([40, -74], [41, -73], (n_items, 2))
    model = model.with_places(unit_vectors(degrees))
    layout = model.layout(n_items, n_users if user_table else 1)
    arena = Arena(layout, n_nodes=n_users, capacity=n_users + 1, moments=False, storage=storage)
    arena.rows[:, : layout.size] = np.random.default_rng([seed, 9]).normal(size=(n_users + 1, layout.size))
    data, treatment = LocalData(targets, n_items, moves), Treatment.none(n_users + 1)
    treatment.hides_user[list(hidden)] = True
    training = TrainingSettings() if moves is None else SGD_MOVES
    work = Workload(model, layout, training, data, arena, seed, treatment)
    return AttackWorld(
        executor=make_executor("fused" if compiled else "reference", work),
        n_users=n_users,
        coordinator=coordinator,
        targets=targets,
        seed=seed,
        crew=Crew(2 if compiled else 1),
        compiled=compiled,
        hides_user=treatment.hides_user,
        meetings=meetings or Meetings(*np.zeros((3, 0), np.int32), np.zeros(0), 0),
        own_rows=lambda: np.arange(n_users + 1),
    )


@dataclass(frozen=True)
class Receptions:
    """Message m brings ``rows[m]`` of `sender[m]` to `receiver[m]`; messages arrive in order of their ids."""

    sender: np.ndarray
    receiver: np.ndarray
    rows: np.ndarray

    @classmethod
    def drawn(cls, pairs, world: AttackWorld, seed=0) -> Receptions:
        """Give each (sender, receiver) pair of a list a random version to carry."""
        sender, receiver = np.array(pairs, np.int32).reshape(-1, 2).T.copy()
        layout = world.executor.work.layout
        rows = np.zeros((len(sender), layout.row_size), np.float32)
        rows[:, : layout.size] = np.random.default_rng(seed).normal(size=(len(sender), layout.size))
        return cls(sender, receiver, rows)

    @property
    def meetings(self) -> Meetings:
        """What the control plane knows ahead."""
        n = len(self.sender)
        return Meetings(
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

    def sightings(self, pools) -> Sightings:
        """Return what each pool (a list of members) sees, in order of arrival."""
        seen = [
            (pool, self.sender[m], m, m)
            for m in range(len(self.sender))
            for pool, members in enumerate(pools)
            if self.receiver[m] in members
        ]
        return Sightings(*np.array(seen, np.int32).reshape(-1, 4).T.copy())

    def versions(self, victim, receivers, n_arrived):
        """Return the versions of `victim` that `receivers` got among the first messages, in float64."""
        mine = (self.sender == victim) & np.isin(self.receiver, receivers)
        return self.rows[:n_arrived][mine[:n_arrived]].astype(np.float64)


def closed_form(versions, beta):
    """Return beta^(t-1) Theta_1 + (1 - beta) sum over i from 2 to t of beta^(t-i) Theta_i."""
    t = len(versions)
    weights = [beta ** (t - 1)] + [(1 - beta) * beta ** (t - i) for i in range(2, t + 1)]
    return np.array(weights) @ versions


def predicted(world: AttackWorld, model, user):
    """Return GMF's logits of all items for a user by a flat row, shape (1, n_items)."""
    layout = world.executor.work.layout
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
