"""Hops: the fewest messages in a row by which the data of some users can have reached each node of a run.

Messages are not the only way. Some nodes know numbers about the data of others before the first event, such as the
weight of a head, which is the sum of its members' items: this counts as one message before the run. If the events of a
run and its counterfactual differ, chains of messages are followed through both logs. An event that differs and follows
from no chain counts as two messages.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from gossiprec.adversaries.poisoners import POISONERS
from gossiprec.base.arrays import F64, Bools
from gossiprec.emulation.assembly.components import RunComponents, choose_adversary_nodes
from gossiprec.emulation.assembly.poisoners import PoisonerGroup
from gossiprec.emulation.assembly.prepare import PreparedRun
from gossiprec.federated import CoordinatorHook
from gossiprec.runs import Run
from gossiprec.runs.reader import Columns

COMPARED = {
    "message": ("time", "sender", "receiver", "sent_at"),
    "wake": ("time", "node", "node", "time"),
    "update": ("time", "node", "node", "time"),
}
"""Events that are compared, by kind: the columns of time, causing node, reached node, and time of the cause."""
WITHOUT_CHAIN = 2.0
"""Hops of a node at an event that differs between the logs, although no chain reaches the causing node."""

Log = Mapping[str, Columns]


class DataReach:
    """The hops by which data have reached each node, and since when.

    A message continues a chain if it left its sender when the message before it had arrived. At equal times it
    continues the chain, too, unless the log has it before the other: hops may be too few, but never too many.

    Parameters
    ----------
    hops : ndarray of float64, shape (n_nodes,)
        Hops before the first event: 0 for nodes that have the data, infinite for nodes that know nothing about them.
    """

    def __init__(self, hops: F64) -> None:
        self._known = [[(-math.inf, each)] if math.isfinite(each) else [] for each in hops.tolist()]

    def at(self, node: int, time: float) -> float:
        """Return the hops of a node at a time, infinite if nothing has reached it."""
        return min((hops for since, hops in self._known[node] if since <= time), default=math.inf)

    def note(self, node: int, time: float, hops: float) -> bool:
        """Note that data have reached a node at a time; return whether that is news."""
        is_news = hops < self.at(node, time)
        if is_news:
            self._known[node].append((time, hops))
        return is_news

    def follow(self, messages: Columns) -> bool:
        """Follow the delivered messages of a log in its order; return whether that is news for a node."""
        news = False
        for time, sender, receiver, sent_at in _rows(messages, COMPARED["message"]):
            news |= self.note(receiver, time, self.at(sender, sent_at) + 1)
        return news

    def follow_all(self, logs: Sequence[Log]) -> None:
        """Follow messages of several logs until no chain through them is shorter."""
        while any(self.follow(log["message"]) for log in logs):
            pass

    def note_events(self, events: Iterable[tuple[float, int, int, float]]) -> None:
        """Note events that differ between two logs, if no chain has reached the nodes that caused them."""
        for time, cause, node, since in events:
            if math.isinf(self.at(cause, since)):
                self.note(node, time, WITHOUT_CHAIN)

    @property
    def hops(self) -> F64:
        """The hops of each node in the end, shape (n_nodes,)."""
        return np.array([self.at(node, math.inf) for node in range(len(self._known))])


def count_hops(runs: Sequence[Run], prepared: Sequence[PreparedRun], removed: Sequence[int]) -> F64:
    """Return the fewest hops from the users left out to each node, shape (n_nodes,); infinite if there is no way.

    Parameters
    ----------
    runs : sequence of Run
        A run and its counterfactual.
    prepared : sequence of PreparedRun
        The parts of both.
    removed : sequence of int
        Node ids of the users whom the counterfactual leaves out.
    """
    first, second = prepared
    reach = DataReach(hops_before_start(first, second, removed))
    logs = [{kind: run.events(kind) for kind in COMPARED} for run in runs]
    differing = [*_differing_events(*logs), *_differing_events(*reversed(logs))]
    if not differing:
        reach.follow(logs[0]["message"])
        return reach.hops
    reach.follow_all(logs)
    reach.note_events(differing)
    reach.follow_all(logs)
    return reach.hops


def _differing_events(log: Log, other: Log) -> Iterator[tuple[float, int, int, float]]:
    """Yield time, causing node, reached node and time of the cause of each event that only the first log has."""
    for kind, columns in COMPARED.items():
        if all(np.array_equal(log[kind][name], other[kind][name]) for name in columns):
            continue
        others = Counter(_rows(other[kind], columns))
        for row in _rows(log[kind], columns):
            if others[row]:
                others[row] -= 1
            else:
                yield row


def _rows(events: Columns, columns: Sequence[str]) -> Iterator[tuple[float, int, int, float]]:
    return zip(*(events[name].tolist() for name in columns), strict=True)


def hops_before_start(first: PreparedRun, second: PreparedRun, removed: Sequence[int]) -> F64:
    """Return the hops of each node before the first event of a run and its counterfactual, shape (n_nodes,).

    They are 0 for the users left out, 1 for nodes that know something about their data, and 2 for nodes that begin
    with models that such a node has made.
    """
    protocol = first.components.protocol
    hops = np.full(protocol.n_nodes, math.inf)
    if _starts_from_data(first.components):
        hops[: protocol.n_users] = 2.0
    hops[_know_data(first, second)] = 1.0
    hops[list(removed)] = 0.0
    return hops


def _starts_from_data(run: RunComponents) -> bool:
    """Return whether a node that knows data of all users makes what the users begin or end with."""
    hook = run.coordination.hook
    made = hook is not None and type(hook).start is not CoordinatorHook.start
    return made or not run.mode.sends_messages


def _know_data(first: PreparedRun, second: PreparedRun) -> Bools:
    """Return the nodes of which knowledge before the first event differs between two runs, shape (n_nodes,)."""
    knows = first.components.merge_weights != second.components.merge_weights
    one, other = (run.executor.work.node_settings for run in (first, second))
    knows |= one.differs_from(other)
    means = first.components.split.mean_positives, second.components.split.mean_positives
    for pair in zip(first.components.attackers, second.components.attackers, strict=True):
        knows[pair[0].nodes] |= _poisoners_differ(*pair, same_mean=means[0] == means[1])
    for nodes in choose_adversary_nodes(first.components.scenario, first.components.split.n_users):
        knows[nodes] = True
    if first.components.protocol.has_coordinator:
        knows[first.components.protocol.n_users] |= _coordinator_knows(first.components, second.components)
    return np.asarray(knows)


def _poisoners_differ(one: PoisonerGroup, other: PoisonerGroup, *, same_mean: bool) -> bool:
    """Return whether poisoners have other targets, knowledge about users, or sizes of changes to match."""
    choice = one.choice
    matches = choice.scale == "matched" and not same_mean
    return bool(POISONERS[choice.name].knows) or matches or not np.array_equal(one.targets, other.targets)


def _coordinator_knows(first: RunComponents, second: RunComponents) -> bool:
    """Return whether a coordinator has data of public users, of all users, or a recommender's popularity of items."""
    if first.coordination.hook is not None or not first.mode.sends_messages:
        return True
    chosen = zip(first.choose_root_users(), second.choose_root_users(), strict=True)
    return any(
        not np.array_equal(one, other)
        or (first.split.train.sizes[one] != second.split.train.sizes[one]).any()
        for (_, one), (_, other) in chosen
    )
