"""The seam of reductions: what a node received becomes one version, by a rule and perhaps a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F32, F64, I32, I64, Bools, are_all_finite
from gossiprec.base.errors import ScenarioError
from gossiprec.base.isolation import copy_data, is_foreign
from gossiprec.base.registry import registry_name
from gossiprec.base.rng import philox_words
from gossiprec.compute.plan.program import Program, Written
from gossiprec.compute.store import Store
from gossiprec.compute.store.arena import merge_keys
from gossiprec.numerics.noise import ENCODED
from gossiprec.rules.aggregators import Aggregator, Inbox, Invalid
from gossiprec.rules.aggregators.deltas import TouchedRule
from gossiprec.rules.servers import CALLING_THREAD, ClientAnswers, Downlink, RoundContext, Server


class ServerRunner:
    """The runner of a server, once per round; the first version becomes the coordinator's model.

    Parameters
    ----------
    server : Server
    coordinator : int
        Its node id; clients are the nodes before it.
    store : Store
    seed : int

    Attributes
    ----------
    rounds : int
        Rounds so far.
    version_of : ndarray of int64, shape (n_clients,)
        The version that each client is sent.
    extras : mapping of str to ndarray
        The extras of all clients.
    is_foreign : bool
        Whether some of the server's code is from outside gossiprec, so that it gets copies.
    """

    def __init__(self, server: Server, coordinator: int, store: Store, seed: int) -> None:
        self._server = server
        self._coordinator = coordinator
        self._store = store
        self._seed = seed
        self.is_foreign = any(is_foreign(part) for part in server.parts)
        self._rows: I64 = np.zeros(0, np.int64)
        self.rounds = 0
        self.version_of: I64 = np.zeros(coordinator, np.int64)
        self.extras: Mapping[str, npt.NDArray[Any]] = {}

    @property
    def n_versions(self) -> int:
        """Number of versions of a round."""
        return self._server.n_versions

    @property
    def groups(self) -> I64 | None:
        """The group of similar clients to which the server assigned each client, or None."""
        return self._server.groups

    def set_version_rows(self, rows: I64) -> None:
        """Set the rows for the versions of the next round, the coordinator's own first."""
        self._rows = rows

    def run_round(self, source: int, aggregated: F32, answers: ClientAnswers) -> F32:
        """Run a round; return the first version and write the others.

        Parameters
        ----------
        source : int
            Handle of the version published last.
        aggregated : ndarray of float32, shape (n_columns,)
        answers : ClientAnswers

        Raises
        ------
        ScenarioError
            If the server's output does not fit its announced shape, sizes or values.
        """
        store = self._store
        threads = CALLING_THREAD if self.is_foreign else store.threads
        round_ = RoundContext(self._seed, self.rounds, self._coordinator, store.layout, threads)
        published = store.merged_columns(source)
        published = np.array(published) if self.is_foreign else published.view()
        published.flags.writeable = False  # late answers may still refer to it
        downlink = self._server.round(published, aggregated, answers, round_)
        self._check(downlink, aggregated)
        for k in range(1, self.n_versions):
            keys = philox_words(self._seed, k, self.rounds, np.array([self._coordinator]), ENCODED)[:, 0]
            store.store_merged(
                int(self._rows[k]), source, downlink.versions[k], keys if store.is_half else None
            )
        if downlink.version_of is None:
            self.version_of = np.zeros(self._coordinator, np.int64)
        else:
            self.version_of = np.array(downlink.version_of, np.int64)
        self.extras = {**downlink.extras, **downlink.own, **downlink.one_of, **downlink.stands_for}
        self.rounds += 1
        return downlink.versions[0]

    def state(self) -> dict[str, Any]:
        """Return the server's state and the last downlink, for a checkpoint."""
        return {
            "server": self._server.state(),
            "rounds": self.rounds,
            "version_of": self.version_of,
            "extras": dict(self.extras),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a :meth:`state`."""
        self._server.restore(state["server"])
        self.rounds, self.version_of, self.extras = state["rounds"], state["version_of"], state["extras"]

    def _check(self, downlink: Downlink, aggregated: F32) -> None:
        which = f"protocol.server: {registry_name(self._server)}: round {self.rounds}"
        shape, due = np.shape(downlink.versions), (self.n_versions, len(aggregated))
        if shape != due:
            raise ScenarioError(
                f"{which} returned versions of shape {shape}; expected {due}: n_versions models of the "
                "columns that receivers merge"
            )
        if not are_all_finite(downlink.versions):
            raise ScenarioError(
                f"{which} returned NaN or infinite values; lower its learning rate, or fix the server"
            )
        chosen = downlink.version_of
        if chosen is not None and (
            np.shape(chosen) != (self._coordinator,)
            or np.min(chosen) < 0
            or np.max(chosen) >= self.n_versions
        ):
            raise ScenarioError(
                f"{which}: version_of must hold an integer from 0 to {self.n_versions - 1} for each of "
                f"{self._coordinator} clients"
            )
        if any(len(rows) != self._coordinator for rows in downlink.own.values()):
            raise ScenarioError(f"{which}: own must have a row for each of {self._coordinator} clients")
        if downlink.bytes_to_each != self._server.extra_bytes:
            raise ScenarioError(
                f"{which} returned extras of {downlink.bytes_to_each} bytes, but its extra_bytes announced "
                f"{self._server.extra_bytes}; they must agree"
            )


COUNTS = ("n_discarded", "n_small", "n_reduced")
"""Names of the counters over the inboxes of a run."""


class RoundAnswers(NamedTuple):
    """The answers that a receiver has aggregated, before its server runs.

    Attributes
    ----------
    key : int
        Number of the last message, which identifies the round also in a run of other values.
    clients : ndarray of int64, shape (n_answers,)
        Client of each answer in the inbox.
    published : ndarray of float32, shape (n_columns,)
        The version before.
    aggregated : ndarray of float32, shape (n_columns,)
    inbox : Inbox
    rule : Aggregator
    """

    key: int
    clients: I64
    published: F32
    aggregated: F32
    inbox: Inbox
    rule: Aggregator


OnAggregate: TypeAlias = Callable[[RoundAnswers], F32]
"""A function that returns the version in place of the aggregated one."""


class Collected:
    """The models that a task reduces.

    Parameters
    ----------
    reducer : InboxReducer
    program : Program
    task : int
    entries : ndarray of int64
        Their merges in the program, in order of arrival.

    Attributes
    ----------
    node : int
        The receiver.
    entries : ndarray of int64
        The merges that are left.
    own : ndarray of float32, shape (n_columns,)
        The receiver's version: the columns that receivers merge.
    """

    def __init__(self, reducer: InboxReducer, program: Program, task: int, entries: I64) -> None:
        self.node, self.entries = int(program.node[task]), entries
        self._reducer, self._program = reducer, program
        self.own = reducer.store.merged_columns(int(program.source[task]))
        self._copies = is_foreign(reducer.receivers[self.node].rule)
        if self._copies:
            self.own = np.array(self.own)

    @property
    def messages(self) -> I32:
        """The message of each model."""
        return self._program.merge_message[self.entries]

    @property
    def senders(self) -> I32:
        """The sender of each model."""
        return self._program.merge_sender[self.entries]

    @property
    def rows(self) -> I32:
        """The row of each model."""
        return self._program.merge_row[self.entries]

    def inbox(self, *, copies: bool | None = None) -> Inbox:
        """Return the models as an inbox; by default in copies if the receiver's rule is from outside gossiprec."""
        store, program = self._reducer.store, self._program
        give = store.inbox_copy if (self._copies if copies is None else copies) else store.inbox
        own_weight = self._reducer.receivers[self.node].own_weight
        return give(self.rows, program.merge_weight[self.entries], own_weight)

    def refuse(self, invalid: Bools) -> None:
        """End the run if a received model is not finite, unless such models are discarded.

        Raises
        ------
        ScenarioError
            Naming the receiver, the first sender, and the time of arrival.
        """
        if not invalid.any():
            return
        reducer = self._reducer
        if reducer.receivers[self.node].invalid == "discard":
            reducer.n_discarded += int(invalid.sum())
            return
        first = int(np.flatnonzero(invalid)[0])
        raise ScenarioError(
            f"node {self.node} received a model with NaN or infinite values from node "
            f"{int(self.senders[first])} at time {reducer.arrived_at[self.messages[first]]:.6g}; lower "
            "training.learning_rate if the model has diverged, or set invalid to discard "
            "(protocol.aggregation of fedavg, or the policy robust-merge)"
        )

    def keep(self, chosen: Bools) -> None:
        """Leave out the other models."""
        self.entries = self.entries[chosen]

    def last_arrival(self) -> float:
        """Return the time at which the last model arrived."""
        return float(self._reducer.arrived_at[self.messages].max())


class InboxReduction:
    """The reduction of what a node received to one version, by the node's rule."""

    def reduce(self, receiver: ReceiverConfig, collected: Collected) -> tuple[F32, Inbox]:
        """Return the next version, and the inbox that the receiver's server may see."""
        own, rule, inbox = collected.own, receiver.rule, collected.inbox()
        if rule.propagates_nonfinite:
            with np.errstate(invalid="ignore"):  # the result is checked below
                found = _checked(receiver, own, inbox)
            if are_all_finite(found):
                return found, inbox
        finite = inbox.is_finite
        if not finite.all():
            collected.refuse(~finite)
            collected.keep(finite)
            inbox = collected.inbox()
        found = _checked(receiver, own, inbox)
        if len(inbox) and not are_all_finite(found):
            raise ScenarioError(
                f"node {collected.node}: the aggregator {receiver.name!r} returned NaN or infinite values at time "
                f"{collected.last_arrival():.6g} for finite models; lower training.learning_rate, or the learning "
                "rates of the rule"
            )
        return found, inbox

    def counters(self) -> dict[str, int]:
        """Return the counts of the run so far in this process."""
        return {}

    def restore(self, counters: Mapping[str, int]) -> None:
        """Restore :meth:`counters` of an earlier process."""

    def report(self, totals: Mapping[str, int]) -> dict[str, Any]:
        """Return sections of the summary, given the counts of all processes."""
        return {}

    def notes(self, report: Mapping[str, Any]) -> Iterator[str]:
        """Yield a sentence for each finding in the summary that a user should know."""
        return iter(())


BY_RULE = InboxReduction()
"""For whole models that the receiver sees."""


@dataclass(frozen=True)
class ReceiverConfig:
    """The aggregation settings of one node.

    Attributes
    ----------
    name : str
        Name of the rule.
    rule : Aggregator
    buffer : int or None
        Number of latest models that are aggregated, or None for all.
    own_weight : float
        Weight of the node's own model.
    serving : ServerRunner or None
        The server of a coordinator, which runs after each aggregation, even without answers.
    invalid : str
        Treatment of a model with NaN or infinite values (:class:`gossiprec.rules.aggregators.InboxConfig`).
    reduction : InboxReduction
    """

    name: str
    rule: Aggregator
    buffer: int | None
    own_weight: float
    serving: ServerRunner | None = None
    invalid: Invalid = "fatal"
    reduction: InboxReduction = BY_RULE


class InboxReducer:
    """The step that aggregates inboxes and writes the result to the tasks' targets, before the executor runs.

    A task of a node with an inbox lists all received models. The rule's result is written to the task's target.

    Parameters
    ----------
    receivers : mapping of int to ReceiverConfig
        By node.
    store : Store
    seed : int
    arrived_at : ndarray of float64, shape (n_messages,)
        Arrival time of each message, if it is known.

    Attributes
    ----------
    n_discarded : int
        Models so far that were left out because they had NaN or infinite values.
    n_small, n_reduced : int
        Inboxes so far that held fewer models than their rule needs (:attr:`Aggregator.enough`), and all inboxes.
    elsewhere : mapping of str to int
        The same counts of nodes that other shards own.
    on_aggregate : callable or None
        Called with each aggregation, before the server; its result is the aggregated version.
    """

    def __init__(
        self, receivers: Mapping[int, ReceiverConfig], store: Store, seed: int, arrived_at: F64
    ) -> None:
        self.receivers, self.store, self.arrived_at = receivers, store, arrived_at
        self._seed = seed
        self.n_discarded = self.n_small = self.n_reduced = 0
        self.elsewhere: Mapping[str, int] = {}
        self.on_aggregate: OnAggregate | None = None
        self._reductions = {id(each.reduction): each.reduction for each in receivers.values()}.values()
        self._has_inbox = np.zeros(store.n_nodes, np.bool_)
        self._has_inbox[list(receivers)] = True

    @property
    def has_inboxes(self) -> bool:
        """Whether any node has an inbox."""
        return bool(self.receivers)

    def prepare(self, program: Program, tasks: I64) -> Written:
        """Reduce the inboxes of some tasks of one wave."""
        written: list[int] = []
        merges = [np.zeros(0, np.int64)]
        for task in tasks[self._has_inbox[program.node[tasks]]].tolist():
            done = self._reduce(program, task)
            if done is not None:
                written.append(task)
                merges.append(done)
        return Written(np.array(written, np.int64), np.concatenate(merges))

    def state(self, nodes: I64 | None = None) -> dict[str, Any]:
        """Return the state of the rules of some nodes, or of all nodes' rules and the counters."""
        rules = {str(node): self.receivers[node].rule.state() for node in self._with_inbox(nodes)}
        return rules if nodes is not None else {**rules, **self._totals()}

    def counters(self) -> dict[str, int]:
        """Return the counters of the nodes of this process."""
        found = {name: getattr(self, name) for name in COUNTS}
        for reduction in self._reductions:
            found |= reduction.counters()
        return found

    def _totals(self) -> dict[str, int]:
        return {name: count + self.elsewhere.get(name, 0) for name, count in self.counters().items()}

    def restore(self, state: Mapping[str, Any], nodes: I64 | None = None) -> None:
        """Restore the state that :meth:`state` returned for the same nodes."""
        for node in self._with_inbox(nodes):
            self.receivers[node].rule.restore(state[str(node)])
        if nodes is not None:
            return
        for name in COUNTS:
            setattr(self, name, state[name])
        for reduction in self._reductions:
            reduction.restore(state)

    def _with_inbox(self, nodes: I64 | None) -> list[int]:
        """Return those of some nodes, by default of all, that have an inbox."""
        return list(self.receivers) if nodes is None else nodes[self._has_inbox[nodes]].tolist()

    def report(self) -> dict[str, Any]:
        """Return the number of models left out because they were not finite, and of inboxes that were too small."""
        totals, found = self._totals(), dict[str, Any]()
        if any(receiver.invalid == "discard" for receiver in self.receivers.values()):
            found["n_discarded"] = totals["n_discarded"]
        if totals["n_small"]:
            found["small_inboxes"] = {"n": totals["n_small"], "of": totals["n_reduced"]}
        for reduction in self._reductions:
            found |= reduction.report(totals)
        small, items = self._small_items()
        if small:
            found["small_items"] = {"n": small, "of": items}
        return found

    def notes(self) -> Iterator[str]:
        """Yield a sentence for each finding in :meth:`report` that weakens a rule."""
        report = self.report()
        rules = sorted({f"{each.name} (needs {each.rule.enough})" for each in self.receivers.values()})
        which = ", ".join(rules)
        if report.get("n_discarded"):
            yield (
                f"{report['n_discarded']:,} received models with NaN or infinite values were discarded "
                "(invalid: discard)"
            )
        if "small_inboxes" in report:
            found = report["small_inboxes"]
            yield (
                f"{found['n']:,} of {found['of']:,} inboxes held fewer models than {which} requires, so the "
                "rule gave no protection there; let more models arrive, or lower byzantine or drop"
            )
        for reduction in self._reductions:
            yield from reduction.notes(report)
        if "small_items" in report:
            found = report["small_items"]
            yield (
                f"{100 * found['n'] / found['of']:.1f} % of the items in inboxes had fewer deltas than "
                f"{which} requires, so the rule gave no protection there"
            )

    def _small_items(self) -> tuple[int, int]:
        rules = [each.rule for each in self.receivers.values() if isinstance(each.rule, TouchedRule)]
        return sum(rule.small_items[0] for rule in rules), sum(rule.small_items[1] for rule in rules)

    def _reduce(self, program: Program, task: int) -> I64 | None:
        """Write the version of a task's inbox, and return the merges that are done; None without a version."""
        entries = np.arange(program.merge_offsets[task], program.merge_offsets[task + 1])
        keep = program.merge_keep[entries]
        receiver = self.receivers[int(program.node[task])]
        if not len(entries) and receiver.serving is None:
            return None
        waiting = entries[keep < 0]
        if receiver.buffer is not None:
            waiting = waiting[-receiver.buffer :]
        collected = Collected(self, program, task, waiting)
        found, inbox = receiver.reduction.reduce(receiver, collected)
        if len(inbox):
            self.n_reduced += 1
            self.n_small += len(inbox.model_weights) < receiver.rule.enough
        store, source, target = self.store, int(program.source[task]), int(program.target[task])
        if self.on_aggregate is not None and len(entries):
            key, clients = int(program.merge_message[entries].max()), collected.senders.astype(np.int64)
            answers = RoundAnswers(key, clients, store.merged_columns(source), found, inbox, receiver.rule)
            found = self.on_aggregate(answers)
        if receiver.serving is not None:
            found = self._serve(source, receiver.serving, found, collected, inbox)
        keys = merge_keys(program, np.array([task]), self._seed) if store.is_half else None
        store.store_merged(target, source, found, keys)
        if receiver.serving is not None:
            store.attach_extras(target, receiver.serving.extras)
        return entries[(keep < 0) | (keep == 1)]

    def _serve(
        self, source: int, serving: ServerRunner, found: F32, collected: Collected, inbox: Inbox
    ) -> F32:
        """Return the version that a coordinator's server makes of the version of its rule."""
        clients, foreign = collected.senders.astype(np.int64), serving.is_foreign
        users = self.store.uploaded_users(collected.rows)
        receiver = self.receivers[collected.node]
        if receiver.reduction is BY_RULE and (foreign or is_foreign(receiver.rule)):
            inbox = collected.inbox(copies=foreign)
        if foreign:
            found, users = np.array(found), copy_data(users)
        return serving.run_round(source, found, ClientAnswers(clients, inbox, users))


def _checked(receiver: ReceiverConfig, own: F32, inbox: Inbox) -> F32:
    """Return the rule's aggregate of an inbox, after a check of its shape.

    Raises
    ------
    ScenarioError
        If the aggregate does not have the shape of a model.
    """
    found = receiver.rule.aggregate(own, inbox)
    if np.shape(found) != own.shape:
        raise ScenarioError(
            f"the aggregator {receiver.name!r} returned shape {np.shape(found)} for models of shape "
            f"{own.shape}; expected one model; fix its method reduce"
        )
    return found
