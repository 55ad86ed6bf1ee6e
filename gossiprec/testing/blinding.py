"""Handing an attack what it may know among garbage: all else that it could reach is overwritten."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, TypeVar
from unittest.mock import patch

import numpy as np

from gossiprec.arrays import F32, I32, I64, Bools
from gossiprec.attacks import Attack
from gossiprec.attacks.base import World
from gossiprec.attacks.observations import Deliveries, Meetings, Observations, Seen, Tasks
from gossiprec.compute.plan.plan import Sightings
from gossiprec.compute.plan.program import Program
from gossiprec.compute.store.base import UpdateRows
from gossiprec.data.split import CheckIns, Split, Transitions
from gossiprec.emulation.assembly import participants
from gossiprec.emulation.assembly import prepare as preparing
from gossiprec.emulation.run.metering import Metered
from gossiprec.errors import PluginError
from gossiprec.feeds import Feed
from gossiprec.models import Layout
from gossiprec.ragged import Ragged

T = TypeVar("T")


class Watched(Metered):
    """Notes every ranking to the byte.

    Attributes
    ----------
    rankings : list of (about, rows)
        What each is about, and the node and the scores of each adversary.
    n_scores : int
        How often a victim has been given a score.
    """

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self.rankings: list[tuple[tuple[Any, ...], list[tuple[int, bytes]]]] = []
        self.n_scores = 0

    @property
    def own_nodes(self) -> list[int]:
        """The nodes that observe, group by group."""
        return _own_nodes(self.attack)

    def call(self, job: Callable[..., T], *args: Any) -> T:
        """Call `job`; note what it found, if it ranks."""
        found = super().call(job, *args)
        if job == self.attack.rankings:
            for r in found:  # type: ignore[attr-defined]
                about = (r.observer, r.relevance, r.momentum)
                rows = [row.tobytes() for row in r.scores]
                self.rankings.append((about, list(zip(r.adversaries.tolist(), rows, strict=True))))
                self.n_scores += int(np.count_nonzero(~np.isnan(r.scores)))
        return found


class Blinded(Watched):
    """Shows an attack copies of what its own nodes have received, in an arena of garbage.

    Overwritten with NaN: all rows but those delivered and the receivers' own models, user rows that senders keep back,
    and what is private. Programs hold the tasks of the attack's own nodes alone; of deliveries to others it finds wrong
    senders and no times.
    """

    def __init__(
        self, attack: Attack, layout: Layout, hides_user: Bools, deliveries: Deliveries, *others: Any
    ) -> None:
        super().__init__(attack, layout, hides_user, deliveries, *others)
        self._layout, self._hides, self._true = layout, hides_user, deliveries
        self._told = Deliveries(len(deliveries.time))
        self._told.sender[:] = np.arange(len(deliveries.time)) % len(hides_user)
        self._told.time[:] = np.nan

    def known(self, meetings: Meetings) -> Meetings:
        """Return the deliveries to the attack's own nodes, and let it look these up."""
        found = super().known(meetings)
        self._told.learn(found)
        return found

    def observe(self, rows: F32 | UpdateRows, program: Program, tasks: I64) -> None:
        """Let the attack see what its single nodes are about to merge."""
        mine = tasks[self._own[program.node[tasks]]]
        if not len(mine):
            return
        program = self.weighed(program, mine)
        true = Observations(Tasks(rows, program, mine), self._layout, self._hides, self._true)
        shown, places = self._amid_garbage(rows, true)
        own = np.arange(len(shown), len(shown) + len(mine), dtype=np.int32)
        counts = program.merge_offsets[mine + 1] - program.merge_offsets[mine]
        alone = Program(
            node=program.node[mine],
            source=own,
            target=np.zeros_like(own),
            update=program.update[mine],
            merge_offsets=np.concatenate([[0], np.cumsum(counts)]),
            merge_row=places,
            merge_keep=true.keeps,
            merge_message=true.messages,
        )
        received, bases = np.concatenate([shown, rows[program.source[mine], :]]), None
        if isinstance(rows, UpdateRows):
            bases = np.full_like(received, np.nan)
            bases[places] = rows.bases[true.rows, :]
        raw = Tasks(received, alone, np.arange(len(mine)), bases)
        self.call(self.attack.observe, Observations(raw, self._layout, self._hides, self._told))

    def sight(self, rows: F32, sightings: Sightings, first: int, last: int) -> None:
        """Let the attack see what its pools receive."""
        pool = sightings.pool[first:last] - self._first_pool
        mine = np.flatnonzero((pool >= 0) & (pool < self._n_pools)) + first
        if not len(mine):
            return
        about = (self._layout, self._hides)
        group, message = sightings.pool[mine] - self._first_pool, sightings.message[mine]
        true = Observations(Seen(rows, group, sightings.row[mine]), *about, self._true, message)
        raw = Seen(*self._amid_garbage(rows, true, group))
        self.call(self.attack.observe, Observations(raw, *about, self._told, message))

    def _amid_garbage(self, rows: F32 | UpdateRows, true: Observations, *group: I32) -> Any:
        """Return an arena in which nothing but the delivered versions can be read, and where these lie."""
        delivered = rows[true.rows, :]
        delivered[self._hides[true.senders], self._layout.users] = np.nan
        delivered[:, self._layout.private] = np.nan
        n_others = len(rows) if isinstance(rows, np.ndarray) else int(true.rows.max()) + 1
        garbage = np.full((n_others, delivered.shape[1]), np.nan, delivered.dtype)
        places = np.arange(n_others, n_others + len(delivered), dtype=np.int32)
        return np.concatenate([garbage, delivered]), *group, places


class Watch:
    """The answers that an attack gets from its world, and what it is shown.

    Parameters
    ----------
    blind : bool
        Whether to overwrite what is not the attack's own.
    accomplice : int, optional
        The only user whose data are true, where a coordinator conspires with all.

    Attributes
    ----------
    meter : Watched
        What the attack was shown by.
    split : Split
        The run's data.
    """

    meter: Watched
    split: Split

    def __init__(self, *, blind: bool, accomplice: int | None = None) -> None:
        self._blind = blind
        self._accomplice = accomplice
        self._own: list[int] = []

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Stand between the runs and their attacks for a while."""
        with (
            patch.object(participants, "World", self._world),
            patch.object(preparing, "Metered", self._metered),
        ):
            yield

    def _world(self, **parts: Any) -> World:
        world = World(**parts)
        if not self._blind:
            return world
        data_of, own_models, met = world.data_of, world.own_models, world.meetings
        return replace(
            world,
            meetings=replace(
                met, sender=met.sender.copy(), receiver=met.receiver.copy(), time=met.time.copy()
            ),
            data_of=lambda nodes: self._data_of(nodes, data_of(nodes), world),
            own_models=lambda nodes: self._own_models(nodes, own_models),
        )

    def _metered(self, attack: Attack, *about: Any) -> Watched:
        attack = self._unaware(attack) if self._blind else attack
        self._own = _own_nodes(attack)
        self.meter = (Blinded if self._blind else Watched)(attack, *about)
        return self.meter

    def _unaware(self, attack: Attack) -> Attack:
        """Return the attack as it is made where others are foretold to meet.

        One whose nodes are chosen by who meets whom would be made of others then. It stays as it is, and what was
        foretold is overwritten.
        """
        world = attack.world
        foretold, wrong = world.meetings, _mistaken(world.meetings, world.n_users)
        with suppress(PluginError):  # other nodes' data are refused
            other = type(attack)(attack.options, replace(world, meetings=wrong))
            if _own_nodes(other) == _own_nodes(attack):
                return other
        foretold.sender[:], foretold.receiver[:], foretold.time[:] = wrong.sender, wrong.receiver, wrong.time
        return attack

    def _own_models(self, nodes: I64, own_models: Callable[[I64], F32]) -> F32:
        models = own_models(nodes)
        if self._accomplice is not None:
            models[~np.isin(nodes, [*self._own, self._accomplice])] = np.nan
        return models

    def _data_of(self, nodes: I64, feed: Feed, world: World) -> Feed:
        """Return true data of the nodes asked for, and data of the wrong users for all others."""
        asked = set(np.asarray(nodes).tolist())
        true = asked if self._accomplice is None else asked & {self._accomplice}
        return world.scorer.model.feed_of(_shuffled(self.split, true).training_data())


def _own_nodes(attack: Attack) -> list[int]:
    """Return the nodes that observe, group by group."""
    nodes: list[int] = np.concatenate([attack.nodes, *attack.pools]).astype(np.int64).tolist()
    return nodes


def _mistaken(meetings: Meetings, n_users: int) -> Meetings:
    """Return as many meetings of the wrong users at the wrong times."""

    def next_to(nodes: I32) -> I32:
        return np.where(nodes < n_users, (nodes + 1) % n_users, nodes).astype(np.int32)

    sender, receiver = next_to(meetings.sender), next_to(meetings.receiver)
    return replace(meetings, sender=sender, receiver=receiver, time=meetings.time[::-1].copy())


def _shuffled(split: Split, kept: set[int]) -> Split:
    """Return the split with the data of all users but some passed on to the next of them."""
    others = [user for user in range(split.n_users) if user not in kept]
    order = np.arange(split.n_users)
    order[others] = np.roll(others, 1)
    check_ins = split.check_ins
    if check_ins is not None:
        check_ins = CheckIns(check_ins.coordinates, _moved(check_ins.train, order), check_ins.test)
    sequences = split.sequences and _picked(split.sequences, order)
    return replace(split, train=_picked(split.train, order), check_ins=check_ins, sequences=sequences)


def _picked(sets: Ragged, order: I64) -> Ragged:
    """Return the rows of users, user u having that of ``order[u]``."""
    return Ragged.from_parts([sets[user] for user in order.tolist()])


def _moved(moves: Transitions, order: I64) -> Transitions:
    """Return the moves of users, user u having those of ``order[u]``."""
    previous, gaps = (moves.items.with_values(part) for part in (moves.previous, moves.gap_minutes))
    return Transitions(
        _picked(moves.items, order), _picked(previous, order).values, _picked(gaps, order).values
    )
