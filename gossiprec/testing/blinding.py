"""Blinding of attacks: everything they could reach but must not know is overwritten with garbage."""

from __future__ import annotations

import functools
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, TypeVar
from unittest.mock import patch

import numpy as np

from gossiprec.adversaries.attacks import Attack, AttackContext
from gossiprec.adversaries.attacks.observations import (
    GroupDeliveries,
    KnownDeliveries,
    MergeDeliveries,
    Merges,
    MessageIndex,
    Observations,
    UpdatesRead,
)
from gossiprec.base import isolation
from gossiprec.base.arrays import F32, I32, I64, Bools
from gossiprec.base.errors import PluginError
from gossiprec.base.ragged import Ragged
from gossiprec.compute.plan.program import PoolDeliveries, Program
from gossiprec.data.split import CheckIns, Split
from gossiprec.data.training_data import Transitions
from gossiprec.emulation import PreparedRun, prepare
from gossiprec.emulation.assembly import attacks
from gossiprec.emulation.assembly.attack_hook import AttackHook
from gossiprec.models import Layout
from gossiprec.models.feeds import Feed
from gossiprec.scenario import load_scenario
from gossiprec.testing.tiny_runs import check_some_run_accepts, play_to_end

T = TypeVar("T")


class RecordedAttack(AttackHook):
    """An attack hook that records every ranking as bytes.

    Attributes
    ----------
    rankings : list of (about, rows)
        Labels of each ranking, and the node and the scores of each adversary.
    n_scores : int
        Number of scores given to victims.
    has_reported : bool
        Whether a report has requested its results.
    """

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self.rankings: list[tuple[tuple[Any, ...], list[tuple[int, bytes]]]] = []
        self.n_scores = 0
        self.has_reported = False

    @property
    def own_nodes(self) -> list[int]:
        """The nodes that observe, group by group."""
        return _own_nodes(self.attack)

    def timed_call(self, job: Callable[..., T], *args: Any) -> T:
        """Call `job`, and record its rankings if it ranks."""
        self.has_reported |= job != self.attack.observe
        found = super().timed_call(job, *args)
        if job == self.attack.rankings:
            for r in found:  # type: ignore[attr-defined]
                about = (r.observer, r.relevance, r.momentum)
                rows = [row.tobytes() for row in r.scores]
                self.rankings.append((about, list(zip(r.adversaries.tolist(), rows, strict=True))))
                self.n_scores += int(np.count_nonzero(~np.isnan(r.scores)))
        return found


class BlindedAttack(RecordedAttack):
    """An attack hook that shows an attack copies of the rows that its own nodes received, in an arena of garbage.

    All other rows are NaN, except for the receivers' own models; so are user rows that senders withhold, and private
    values. Programs hold only the tasks of the attack's own nodes. Deliveries to other nodes have wrong senders and
    no times.
    """

    def __init__(
        self, attack: Attack, layout: Layout, hides_user: Bools, deliveries: MessageIndex, *others: Any
    ) -> None:
        super().__init__(attack, layout, hides_user, deliveries, *others)
        self._layout, self._hides, self._true = layout, hides_user, deliveries
        self._shown = MessageIndex(len(deliveries.time))
        self._shown.sender[:] = np.arange(len(deliveries.time)) % len(hides_user)
        self._shown.time[:] = np.nan

    def deliveries_to_own_nodes(self, deliveries: KnownDeliveries) -> KnownDeliveries:
        """Return the deliveries to the attack's own nodes, and allow it to look them up."""
        found = super().deliveries_to_own_nodes(deliveries)
        self._shown.note_deliveries(found)
        return found

    def observe(self, rows: F32 | UpdatesRead, program: Program, tasks: I64) -> None:
        """Show the attack the rows that its single nodes are about to merge."""
        mine = tasks[self._own[program.node[tasks]]]
        if not len(mine):
            return
        merges = self.seen_merges(program, mine)
        true = Observations(MergeDeliveries(rows, merges, mine), self._layout, self._hides, self._true)
        shown, places = self._amid_garbage(rows, true)
        own = np.arange(len(shown), len(shown) + len(mine), dtype=np.int32)
        counts = merges.merge_offsets[mine + 1] - merges.merge_offsets[mine]
        ends = np.concatenate([[0], np.cumsum(counts)])
        own_tasks = Merges(merges.node[mine], own, ends, places, true.keeps, true.messages)
        received, bases, uploads = np.concatenate([shown, rows[merges.source[mine], :]]), None, None
        if not isinstance(rows, np.ndarray):
            delivered = rows.uploads[true.rows, :]
            uploads = np.full((len(received), delivered.shape[1]), np.nan, np.float32)
            uploads[places] = delivered
            bases = np.full_like(received, np.nan)
            bases[places] = rows.bases[true.rows, :]
        raw = MergeDeliveries(received, own_tasks, np.arange(len(mine)), bases, uploads)
        self.timed_call(self.attack.observe, Observations(raw, self._layout, self._hides, self._shown))

    def observe_pools(self, rows: F32, pool_deliveries: PoolDeliveries, first: int, last: int) -> None:
        """Show the attack the rows that its pools receive."""
        pool = pool_deliveries.pool[first:last] - self._first_pool
        mine = np.flatnonzero((pool >= 0) & (pool < self._n_pools)) + first
        if not len(mine):
            return
        about = (self._layout, self._hides)
        group, message = pool_deliveries.pool[mine] - self._first_pool, pool_deliveries.message[mine]
        delivered = GroupDeliveries(rows, group, pool_deliveries.row[mine])
        true = Observations(delivered, *about, self._true, message)
        raw = GroupDeliveries(*self._amid_garbage(rows, true, group))
        self.timed_call(self.attack.observe, Observations(raw, *about, self._shown, message))

    def _amid_garbage(self, rows: F32 | UpdatesRead, true: Observations, *group: I32) -> Any:
        """Return an arena in which only the delivered versions are readable, and their positions."""
        delivered = rows[true.rows, :]
        delivered[self._hides[true.senders], self._layout.users] = np.nan
        delivered[:, self._layout.private] = np.nan
        n_others = len(rows) if isinstance(rows, np.ndarray) else int(true.rows.max(initial=-1)) + 1
        garbage = np.full((n_others, delivered.shape[1]), np.nan, delivered.dtype)
        places = np.arange(n_others, n_others + len(delivered), dtype=np.int32)
        return np.concatenate([garbage, delivered]), *group, places


class AccessMonitor:
    """Monitor of all that an attack requests from its context and is shown.

    Parameters
    ----------
    blind : bool
        Whether to overwrite everything that is not the attack's own.
    accomplice : int, optional
        The only user with true data, if the coordinator conspires with all users.

    Attributes
    ----------
    meter : RecordedAttack
        The hook through which the attack was shown data.
    split : Split
        The run's data.
    """

    meter: RecordedAttack
    split: Split

    def __init__(self, *, blind: bool, accomplice: int | None = None) -> None:
        self._blind = blind
        self._accomplice = accomplice
        self._own: list[int] = []

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Intercept all that runs give to their attacks until the body ends."""
        with patch.multiple(attacks, AttackContext=self._context, AttackHook=self._metered):
            yield

    def _context(self, **parts: Any) -> AttackContext:
        context = AttackContext(**parts)
        if not self._blind:
            return context
        feed_of_nodes, models_of_nodes = context.feed_of_nodes, context.models_of_nodes
        met = context.deliveries
        copied = {name: getattr(met, name).copy() for name in ("sender", "receiver", "time")}
        return replace(
            context,
            deliveries=replace(met, **copied),
            feed_of_nodes=lambda nodes: self._feed_of_nodes(nodes, feed_of_nodes(nodes), context),
            models_of_nodes=lambda nodes: self._models_of_nodes(nodes, models_of_nodes),
        )

    def _metered(self, attack: Attack, *about: Any) -> RecordedAttack:
        attack = self._unaware(attack) if self._blind else attack
        self._own = _own_nodes(attack)
        self.meter = (BlindedAttack if self._blind else RecordedAttack)(attack, *about)
        return self.meter

    def _unaware(self, attack: Attack) -> Attack:
        """Return the attack as it is created with the wrong known deliveries.

        If its nodes are chosen by the deliveries, it would get other nodes. It is then returned unchanged, and the
        deliveries are overwritten.
        """
        context = attack.context
        known, wrong = context.deliveries, _wrong_deliveries(context.deliveries, context.n_users)
        with suppress(PluginError):  # data of other nodes are refused
            other = type(attack)(attack.options, replace(context, deliveries=wrong))
            if _own_nodes(other) == _own_nodes(attack):
                return other
        known.sender[:], known.receiver[:], known.time[:] = wrong.sender, wrong.receiver, wrong.time
        return attack

    def _models_of_nodes(self, nodes: I64, models_of_nodes: Callable[[I64], F32]) -> F32:
        models = models_of_nodes(nodes)
        if self._accomplice is not None:
            models[~np.isin(nodes, [*self._own, self._accomplice])] = np.nan
        return models

    def _feed_of_nodes(self, nodes: I64, feed: Feed, context: AttackContext) -> Feed:
        """Return true data of the requested nodes that are allowed, and data of the wrong users for all others."""
        requested = set(np.asarray(nodes).tolist())
        true = requested if self._accomplice is None else requested & {self._accomplice}
        return context.scorer.model.make_feed(_shuffled(self.split, true).training_data(for_feed=True))


def _own_nodes(attack: Attack) -> list[int]:
    """Return the nodes that observe, group by group."""
    return np.concatenate([attack.nodes, *attack.pools]).astype(np.int64).tolist()


def _wrong_deliveries(deliveries: KnownDeliveries, n_users: int) -> KnownDeliveries:
    """Return the same number of deliveries between the wrong users at the wrong times."""

    def next_to(nodes: I32) -> I32:
        return np.where(nodes < n_users, (nodes + 1) % n_users, nodes).astype(np.int32)

    sender, receiver = next_to(deliveries.sender), next_to(deliveries.receiver)
    return replace(deliveries, sender=sender, receiver=receiver, time=deliveries.time[::-1].copy())


def _shuffled(split: Split, kept: set[int]) -> Split:
    """Return the split with the data of all users outside `kept` passed on to the next of them."""
    others = [user for user in range(split.n_users) if user not in kept]
    order = np.arange(split.n_users)
    order[others] = np.roll(others, 1)
    check_ins = split.check_ins
    if check_ins is not None:
        check_ins = CheckIns(check_ins.coordinates, _moved(check_ins.train, order), check_ins.test)
    train, sequences = _picked(split.train, order), split.sequences and _picked(split.sequences, order)
    attributes = split.user_features and split.user_features.take(order)
    moved = replace(split, train=train, check_ins=check_ins, sequences=sequences)
    return replace(moved, user_features=attributes)


def _picked(sets: Ragged, order: I64) -> Ragged:
    """Return the rows of users in another order: user u has the row of ``order[u]``."""
    return Ragged.from_parts([sets[user] for user in order.tolist()])


def _moved(moves: Transitions, order: I64) -> Transitions:
    """Return the moves of users in another order: user u has the moves of ``order[u]``."""
    previous, gaps = (moves.items.with_values(part) for part in (moves.previous, moves.gap_minutes))
    items, befores, minutes = (_picked(sets, order) for sets in (moves.items, previous, gaps))
    return Transitions(items, befores.values, minutes.values)


_PLAIN = (int, float, complex, str, bytes, bool, type(None), type, types.ModuleType, np.generic, np.dtype)
Path = str


def reachable(root: Any, name: str) -> Iterator[tuple[Path, Any]]:
    """Yield each object that can be reached from an object, with the path to it.

    Parameters
    ----------
    root : object
    name : str
        Name of the object, at which paths begin.
    """
    known, waiting = {id(root): root}, deque([(name, root)])
    while waiting:
        way, thing = waiting.popleft()
        yield way, thing
        for step, part in _parts(thing):
            if not isinstance(part, _PLAIN) and id(part) not in known:
                known[id(part)] = part
                waiting.append((way + step, part))


def _parts(thing: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of an object, each with the step to it."""
    if isinstance(thing, np.ndarray):
        yield ".base", thing.base
        if thing.dtype == object:
            yield from ((f"[{place}]", each) for place, each in enumerate(thing.ravel().tolist()))
        return
    if isinstance(thing, memoryview):
        yield ".obj", thing.obj
        return
    if isinstance(thing, Mapping):
        yield from ((f"[{key!r}]", each) for key, each in list(thing.items()))
    elif isinstance(thing, list | tuple | set | frozenset | deque):
        yield from ((f"[{place}]", each) for place, each in enumerate(list(thing)))
    if isinstance(thing, weakref.ref):
        yield "()", thing()
    if isinstance(thing, functools.partial):
        yield from ((".func", thing.func), (".args", thing.args), (".keywords", thing.keywords))
    for name in ("__self__", "__func__", "__wrapped__", "__defaults__", "__kwdefaults__", "_base"):
        yield f".{name}", getattr(thing, name, None)
    for place, cell in enumerate(getattr(thing, "__closure__", None) or ()):
        yield f".__closure__[{place}]", _content(cell)
    yield from ((f".{name}", part) for name, part in list(getattr(thing, "__dict__", {}).items()))
    for kind in type(thing).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            yield f".{name}", getattr(thing, name, None)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


class Watch:
    """The data of a run, and the paths by which plug-in code has reached them.

    Attributes
    ----------
    found : dict of str to str
        Paths that plug-in code could take, and the data at their ends.
    calls : int
        Number of calls of plug-in code.
    """

    def __init__(self, prepared: PreparedRun) -> None:
        self.found: dict[str, str] = {}
        self.calls = 0
        run = {
            "training items": prepared.components.split.train,
            "data": prepared.components.split,
            "feed": prepared.components.feed,
            "models": prepared.executor.store,
            "message index": prepared.deliveries,
            "deliveries": prepared.schedule.deliveries,
        }
        self._objects = {
            id(thing): name
            for name, thing in {**run, "executor": prepared.executor, "planner": prepared.planner}.items()
        }
        self._arrays = [(name, array) for name, thing in run.items() for _, array in _own_arrays(thing, name)]

    def protect(self, name: str, *things: Any) -> None:
        """Add data to the protected data of the run."""
        self._arrays += [(name, array) for thing in things for _, array in _own_arrays(thing, name)]

    def look(self, name: str, thing: Any) -> None:
        """Record which protected data can be reached from an argument of plug-in code."""
        self.calls += 1
        for way, each in reachable(thing, name):
            if id(each) in self._objects:
                self.found.setdefault(way, self._objects[id(each)])
            elif isinstance(each, np.ndarray) and each.size:
                for what, array in self._arrays:
                    if np.may_share_memory(each, array):
                        self.found.setdefault(way, what)
                        break


def _own_arrays(thing: Any, name: str) -> list[tuple[Path, np.ndarray[Any, Any]]]:
    """Return the arrays that an object of a run holds; models' constants are public."""
    return [
        (way, part)
        for way, part in reachable(thing, name)
        if isinstance(part, np.ndarray) and part.size
        if not any(word in way for word in (".model.", ".constants", "._threads"))
    ]


@contextmanager
def looked_at(kind: type, method: str, watch: Watch) -> Iterator[None]:
    """Inspect the object and all arguments of a method's calls until the body ends."""
    original: Callable[..., Any] = getattr(kind, method)

    @functools.wraps(original)
    def spy(self: Any, *given: Any, **named: Any) -> Any:
        watch.look("self", self)
        for place, each in enumerate(given):
            watch.look(original.__code__.co_varnames[1 + place], each)
        for name, each in named.items():
            watch.look(name, each)
        return original(self, *given, **named)

    with patch.object(kind, method, spy):
        yield


@contextmanager
def treated(kind: type, *, as_ours: bool) -> Iterator[None]:
    """Treat a class as one of gossiprec, which sees the arrays of a run, or as a foreign one, which gets copies."""
    known = isolation._is_ours
    with patch.object(isolation, "_is_ours", lambda other: as_ours if other is kind else known(other)):
        yield


def refuse_reach(run: Mapping[str, Any], kind: type, method: str) -> None:
    """Play a run, and raise if code of a class can reach data of the run from its method's arguments.

    Parameters
    ----------
    run : mapping
        A scenario that uses the class.
    kind : type
    method : str

    Raises
    ------
    AssertionError
        If data can be reached; the message lists the paths.
    ScenarioError
        If the run refuses the class.
    """
    with treated(kind, as_ours=False):
        prepared = prepare(load_scenario({**run, "executor": {"name": "reference", "threads": 1}}))
        watch = Watch(prepared)
        with looked_at(kind, method, watch), _programs_protected(watch):
            play_to_end(prepared)
    assert watch.calls, f"{method} was never called, so nothing was checked."
    ways = "; ".join(f"{way} leads to the run's {what}" for way, what in list(watch.found.items())[:6])
    assert not watch.found, f"{method} can reach what is not its own: {ways}."


def refuse_reach_in_runs(runs: Mapping[str, Mapping[str, Any]], kind: type, method: str) -> None:
    """Call :func:`refuse_reach` for some runs by name, of which at least one must accept the class."""
    check_some_run_accepts(runs, lambda _, run: refuse_reach(run, kind, method))


@contextmanager
def _programs_protected(watch: Watch) -> Iterator[None]:
    """Protect the programs and rows that attacks are shown, as data of the run."""
    observe = AttackHook.observe

    def protecting(self: AttackHook, rows: Any, program: Program, tasks: I64) -> None:
        watch.protect("plan", program)
        watch.protect("models", rows)
        observe(self, rows, program, tasks)

    with patch.object(AttackHook, "observe", protecting):
        yield
