"""What a node received becomes one version: aggregators, servers, and merges of messages that lack numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F32, F64, I32, I64, Bools, are_all_finite
from gossiprec.base.errors import ScenarioError
from gossiprec.base.isolation import copy_data, is_foreign
from gossiprec.base.ragged import row_entries
from gossiprec.base.registry import registry_name
from gossiprec.base.rng import philox_words
from gossiprec.compute.answer_rounds import SumRounds
from gossiprec.compute.partial_messages import PartialMessages, clip_columns
from gossiprec.compute.plan.program import Program
from gossiprec.compute.secure_sums import Round, SecureSum, mean_model
from gossiprec.compute.store import Store
from gossiprec.compute.store.arena import Arena, merge_keys
from gossiprec.numerics.noise import ENCODED
from gossiprec.rules.aggregators import BLOCK, Aggregator, Inbox, Invalid
from gossiprec.rules.aggregators.deltas import TouchedRule
from gossiprec.rules.aggregators.median import Median
from gossiprec.rules.aggregators.trimmed_mean import TrimmedMean
from gossiprec.rules.servers import CALLING_THREAD, ClientAnswers, Downlink, RoundContext, Server


def takes_parts(rule: Aggregator) -> bool:
    """Return whether a rule reduces each number by itself: a mean, the median, or the trimmed mean."""
    return rule.streaming or (isinstance(rule, (Median, TrimmedMean)) and not rule.uses_deltas)


def are_valid_parts(inbox: Inbox, is_partial: Bools) -> Bools:
    """Return whether each received model has no infinite number, and NaN only if its sender sends parts."""
    valid = np.ones(len(inbox), np.bool_)
    for _, received in inbox.received():
        valid &= (np.isfinite(received) | (np.isnan(received) & is_partial[:, None])).all(axis=1)
    return valid


def reduce_parts(rule: Aggregator, own: F32, inbox: Inbox) -> F32:
    """Return the reduced model; a number that no model has keeps the receiver's value."""
    out = own.copy()
    reduce_block = _mean if rule.streaming else _robust
    width = max(1, BLOCK // (16 * max(len(inbox), 1)))
    for columns, models in inbox.models(own):
        for low in range(0, models.shape[1], width):
            some = slice(low, low + width)
            reduce_block(rule, out[columns][some], models[:, some], inbox)
    return out


def _mean(rule: Aggregator, out: F32, models: F32, inbox: Inbox) -> None:
    there = ~np.isnan(models)
    weights = inbox.model_weights[:, None] * there
    mass = weights.sum(axis=0)
    share = np.divide(weights, mass, out=np.zeros_like(weights), where=mass > 0)
    total = (share * np.where(there, models, np.float32(0.0))).sum(axis=0)
    np.copyto(out, total, casting="same_kind", where=mass > 0)


def _robust(rule: Aggregator, out: F32, models: F32, inbox: Inbox) -> None:
    """Reduce numbers that equally many models have together, as one item of one number each."""
    assert isinstance(rule, (Median, TrimmedMean))
    counts = (~np.isnan(models)).sum(axis=0)
    for n in np.unique(counts[counts > 0]).tolist():
        places = np.flatnonzero(counts == n)
        some = models[:, places]
        values = some.T[~np.isnan(some).T].reshape(len(places), n)
        out[places] = rule.combine(np.ascontiguousarray(values)[:, :, None].transpose(1, 0, 2))[:, 0]


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


ModelView: TypeAlias = Callable[[int, I32, F32, F32], None]
"""A function that shows observers the model which takes the place of answers.

Its arguments are the receiver, the messages of the answers, the model, and the receiver's own one; models are the
columns that receivers merge.
"""


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


class Received(NamedTuple):
    """The receiver, messages and senders of an inbox."""

    receiver: int
    messages: I32
    senders: I64


@dataclass(frozen=True)
class SecureReduction:
    """The reduction of a receiver that only learns sums: a coordinator, or a node of gossip.

    Attributes
    ----------
    sums : SecureSum
    rounds : SumRounds
    views : sequence of ModelView
        Called with the mean of each round.
    of_changes : bool
        Whether changes of the receiver's own version are summed, or whole models.
    """

    sums: SecureSum
    rounds: SumRounds
    views: Sequence[ModelView] = ()
    of_changes: bool = True

    def reduce(self, rule: Aggregator, own: F32, inbox: Inbox, received: Received) -> tuple[F32, Inbox]:
        """Return the next version, and an inbox in which the mean of the round replaces each answer."""
        number = int(self.rounds.rounds_of(received.messages[:1])[0])
        done = self.rounds.completed[number]
        round_ = Round(received.receiver, number, done.cohort)
        base = own if self.of_changes else np.zeros_like(own)
        sums = self.sums.sum_answers(base, inbox, received.senders, round_, done.clients)
        mean = mean_model(rule, base, sums)
        for view in self.views:
            view(received.receiver, done.messages, mean, own)
        stand_ins = Inbox(mean[None], np.zeros(len(inbox), np.int64), inbox.weights.copy(), inbox.own_weight)
        if self.of_changes:
            return rule.reduce_sums(own.copy(), sums), stand_ins
        share = inbox.own_weight / (inbox.own_weight + sums.weight)
        return (share * own + (1 - share) * mean).astype(np.float32), stand_ins


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
    secure : SecureReduction or None
        The reduction of a coordinator that only learns sums, or None if it sees every model.
    """

    name: str
    rule: Aggregator
    buffer: int | None
    own_weight: float
    serving: ServerRunner | None = None
    invalid: Invalid = "fatal"
    secure: SecureReduction | None = None


class InboxReducer:
    """The step that aggregates inboxes and writes the result to the tasks' targets, before the executor runs.

    A task of a node with an inbox lists all received models. The rule's result is written to the task's
    target, which then is also its source; the listed merges become merges of that row with itself and change nothing.

    Parameters
    ----------
    receivers : mapping of int to ReceiverConfig
        By node.
    store : Store
    seed : int
    arrived_at : ndarray of float64, shape (n_messages,)
        Arrival time of each message, if it is known.
    partial : PartialMessages, optional
        The messages that lack numbers, if there are such.

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
        self,
        receivers: Mapping[int, ReceiverConfig],
        store: Store,
        seed: int,
        arrived_at: F64,
        partial: PartialMessages | None = None,
    ) -> None:
        self._receivers, self._partial = receivers, partial
        self._store = store
        self._seed = seed
        self._arrived_at = arrived_at
        self.n_discarded = self.n_small = self.n_reduced = 0
        self.elsewhere: Mapping[str, int] = {}
        self.on_aggregate: OnAggregate | None = None
        self._secure = next((each.secure for each in receivers.values() if each.secure), None)
        self._has_inbox = np.zeros(store.n_nodes, np.bool_)
        self._has_inbox[list(receivers)] = True

    @property
    def has_inboxes(self) -> bool:
        """Whether any node has an inbox."""
        return bool(self._receivers)

    def prepare(self, program: Program, tasks: I64) -> None:
        """Reduce the inboxes of some tasks of one wave."""
        for task in tasks[self._has_inbox[program.node[tasks]]].tolist():
            self._reduce(program, task)

    def state(self) -> dict[str, Any]:
        """Return the state of each node's rule, and the counters, for a checkpoint."""
        rules = {str(node): receiver.rule.state() for node, receiver in self._receivers.items()}
        return {**rules, **self._totals()}

    def counters(self) -> dict[str, int]:
        """Return the counters of the nodes of this process."""
        clipped = {} if self._secure is None else {"n_clipped": self._secure.sums.n_clipped}
        return {name: getattr(self, name) for name in COUNTS} | clipped

    def _totals(self) -> dict[str, int]:
        return {name: count + self.elsewhere.get(name, 0) for name, count in self.counters().items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a :meth:`state`."""
        self.restore_rules(state)
        for name in COUNTS:
            setattr(self, name, state[name])
        if self._secure is not None:
            self._secure.sums.n_clipped = state["n_clipped"]

    def restore_rules(self, rules: Mapping[str, Any]) -> None:
        """Restore the state of the rules of some nodes."""
        for node, receiver in self._receivers.items():
            if str(node) in rules:
                receiver.rule.restore(rules[str(node)])

    def report(self) -> dict[str, Any]:
        """Return the number of models left out because they were not finite, and of inboxes that were too small."""
        totals, found = self._totals(), dict[str, Any]()
        if any(receiver.invalid == "discard" for receiver in self._receivers.values()):
            found["n_discarded"] = totals["n_discarded"]
        if totals["n_small"]:
            found["small_inboxes"] = {"n": totals["n_small"], "of": totals["n_reduced"]}
        if self._secure is not None:
            sums = self._secure.sums
            found["secure_sums"] = {
                **self._secure.rounds.counts, "clipped": totals["n_clipped"], "bits": sums.settings.modulus.k,
                "vector_bytes": sums.settings.vector_bytes, "masked": sums.settings.masks,
            }  # fmt: skip
        small, items = self._small_items()
        if small:
            found["small_items"] = {"n": small, "of": items}
        return found

    def notes(self) -> Iterator[str]:
        """Yield a sentence for each finding in :meth:`report` that weakens a rule."""
        report = self.report()
        rules = sorted({f"{each.name} (needs {each.rule.enough})" for each in self._receivers.values()})
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
        if report.get("secure_sums", {}).get("skipped"):
            found = report["secure_sums"]
            yield (
                f"{found['skipped']:,} of {found['rounds']:,} rounds were skipped, because fewer clients answered in "
                "time than a secure sum needs (threshold, minimum)"
            )
        if report.get("secure_sums", {}).get("clipped"):
            yield (
                f"{report['secure_sums']['clipped']:,} numbers of answers were clipped before they were summed; raise "
                "clip to keep them"
            )
        if "small_items" in report:
            found = report["small_items"]
            yield (
                f"{100 * found['n'] / found['of']:.1f} % of the items in inboxes had fewer deltas than "
                f"{which} requires, so the rule gave no protection there"
            )

    def _small_items(self) -> tuple[int, int]:
        rules = [each.rule for each in self._receivers.values() if isinstance(each.rule, TouchedRule)]
        return sum(rule.small_items[0] for rule in rules), sum(rule.small_items[1] for rule in rules)

    def _reduce(self, program: Program, task: int) -> None:
        entries = np.arange(program.merge_offsets[task], program.merge_offsets[task + 1])
        keep = program.merge_keep[entries]
        receiver = self._receivers[int(program.node[task])]
        if not len(entries) and receiver.serving is None:
            return
        collected = entries[keep < 0]
        if receiver.buffer is not None:
            collected = collected[-receiver.buffer :]
        found, collected, inbox = self._combine(program, task, collected)
        if len(inbox):
            self.n_reduced += 1
            self.n_small += len(inbox.model_weights) < receiver.rule.enough
        if self.on_aggregate is not None and len(entries):
            key, clients = int(program.merge_message[entries].max()), program.merge_sender[collected]
            own = self._store.merged_columns(int(program.source[task]))
            answers = RoundAnswers(key, clients.astype(np.int64), own, found, inbox, receiver.rule)
            found = self.on_aggregate(answers)
        if receiver.serving is not None:
            found = self._serve(program, task, found, collected, inbox)
        store, source, target = self._store, int(program.source[task]), int(program.target[task])
        keys = merge_keys(program, np.array([task]), self._seed) if store.is_half else None
        store.store_merged(target, source, found, keys)
        if receiver.serving is not None:
            store.attach_extras(target, receiver.serving.extras)
        program.source[task] = target
        done = entries[(keep < 0) | (keep == 1)]
        program.merge_row[done], program.merge_keep[done] = target, 1.0

    def _combine(self, program: Program, task: int, collected: I64) -> tuple[F32, I64, Inbox]:
        """Return the next version by the rule, the entries that were accepted, and the inbox that may be seen."""
        receiver = self._receivers[int(program.node[task])]
        own, foreign = self._store.merged_columns(int(program.source[task])), is_foreign(receiver.rule)
        if foreign:
            own = np.array(own)
        if receiver.secure is not None:
            answered = receiver.secure.rounds.rounds_of(program.merge_message[collected]) >= 0
            return self._reduce_sums(program, task, collected[answered], own)
        inbox = self._inbox(program, collected, receiver, copies=foreign)
        found = None
        if self._partial is not None:
            valid = are_valid_parts(inbox, self._partial.is_partial[program.merge_sender[collected]])
            if not valid.all():
                self._refuse(program, task, collected[~valid])
                collected = collected[valid]
                inbox = self._inbox(program, collected, receiver, copies=False)
            found = reduce_parts(receiver.rule, own, inbox) if len(inbox) else own
        elif receiver.rule.propagates_nonfinite:
            with np.errstate(invalid="ignore"):  # the result is checked below
                found = _checked(receiver, own, inbox)
        if found is not None and are_all_finite(found):
            return found, collected, inbox
        finite = inbox.is_finite
        if not finite.all():
            self._refuse(program, task, collected[~finite])
            collected = collected[finite]
            inbox = self._inbox(program, collected, receiver, copies=foreign)
        found = _checked(receiver, own, inbox)
        if len(inbox) and not are_all_finite(found):
            node, at = int(program.node[task]), self._arrived_at[program.merge_message[collected]].max()
            raise ScenarioError(
                f"node {node}: the aggregator {receiver.name!r} returned NaN or infinite values at time "
                f"{at:.6g} for finite models; lower training.learning_rate, or the learning rates of the rule"
            )
        return found, collected, inbox

    def _serve(self, program: Program, task: int, found: F32, collected: I64, inbox: Inbox) -> F32:
        """Return the version that a coordinator's server makes of the version of its rule."""
        receiver = self._receivers[int(program.node[task])]
        assert receiver.serving is not None
        clients = program.merge_sender[collected].astype(np.int64)
        users = self._store.uploaded_users(program.merge_row[collected])
        foreign = receiver.serving.is_foreign
        if receiver.secure is None and (foreign or is_foreign(receiver.rule)):
            inbox = self._inbox(program, collected, receiver, copies=foreign)
        if foreign:
            found, users = np.array(found), copy_data(users)
        return receiver.serving.run_round(
            int(program.source[task]), found, ClientAnswers(clients, inbox, users)
        )

    def _reduce_sums(self, program: Program, task: int, collected: I64, own: F32) -> tuple[F32, I64, Inbox]:
        """Do what :meth:`_combine` does for a receiver that only learns the sum of a round."""
        node = int(program.node[task])
        receiver = self._receivers[node]
        assert receiver.secure is not None
        inbox = self._inbox(program, collected, receiver, copies=is_foreign(receiver.rule))
        finite = inbox.is_finite
        if not finite.all():
            self._refuse(program, task, collected[~finite])
        if not len(inbox):
            return own, collected, inbox
        senders = program.merge_sender[collected].astype(np.int64)
        received = Received(node, program.merge_message[collected], senders)
        found, seen = receiver.secure.reduce(receiver.rule, own, inbox, received)
        return found, collected, seen

    def _inbox(self, program: Program, collected: I64, receiver: ReceiverConfig, *, copies: bool) -> Inbox:
        rows, weights = program.merge_row[collected], program.merge_weight[collected]
        give = self._store.inbox_copy if copies or self._partial is not None else self._store.inbox
        inbox = give(rows, weights, receiver.own_weight)
        if self._partial is not None:
            messages, senders = program.merge_message[collected], program.merge_sender[collected]
            self._partial.expand(list(np.asarray(inbox.rows)), self._store.layout.merged, messages, senders)
        return inbox

    def _refuse(self, program: Program, task: int, invalid: I64) -> None:
        """End the run if a received model is not finite, unless such models are discarded.

        Raises
        ------
        ScenarioError
            Naming the receiver, the first sender, and the time of arrival.
        """
        node, message = int(program.node[task]), int(program.merge_message[invalid[0]])
        if self._receivers[node].invalid == "discard":
            self.n_discarded += len(invalid)
            return
        raise ScenarioError(
            f"node {node} received a model with NaN or infinite values from node "
            f"{int(program.merge_sender[invalid[0]])} at time {self._arrived_at[message]:.6g}; lower "
            "training.learning_rate if the model has diverged, or set invalid to discard "
            "(protocol.aggregation of fedavg, or the policy robust-merge)"
        )


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


class PartialMerger:
    """The step that merges received rows with missing numbers (NaN), before the executor runs.

    The result is written to the task's target, which then is also its source; its merges become merges of that row with
    itself and change nothing. So no executor and no run without such messages has anything to do with them.

    Parameters
    ----------
    partial : PartialMessages
    has_inbox : ndarray of bool, shape (n_nodes,)
        Nodes with an aggregator that reduces what they receive.
    arena : Arena
    seed : int
    """

    def __init__(self, partial: PartialMessages, has_inbox: Bools, arena: Arena, seed: int) -> None:
        self._partial, self._has_inbox = partial, has_inbox
        self._arena, self._seed = arena, seed

    def prepare(self, program: Program, tasks: I64) -> None:
        """Merge what the tasks of one wave have received, if some of it lacks numbers."""
        tasks = tasks[~self._has_inbox[program.node[tasks]]]
        entries, place = row_entries(program.merge_offsets, tasks)
        partial = self._partial.is_partial[program.merge_sender[entries]]
        tasks = tasks[np.unique(place[partial])]
        if not len(tasks):
            return
        entries, place = row_entries(program.merge_offsets, tasks)
        ends = np.cumsum(np.bincount(place, minlength=len(tasks)))
        source, target, rows = program.source[tasks], program.target[tasks], program.merge_row[entries]
        senders, receivers = program.merge_sender[entries], program.node[tasks][place]
        columns = self._partial.columns(program.merge_message[entries], senders, receivers)
        columns = clip_columns(columns, self._arena.layout.merged, shifted=False)
        packed = self._partial.packed_counts(senders, receivers)
        merges = (ends, program.merge_keep[entries], columns, packed)
        if self._arena.is_plain:
            self._merge(self._arena.rows, source, target, rows, *merges)
        else:
            self._merge_copies(program, tasks, rows, *merges)
        program.source[tasks] = target
        program.merge_row[entries], program.merge_keep[entries] = target[place], 1.0

    def _merge_copies(self, program: Program, tasks: I64, received: I32, *merges: Any) -> None:
        """Merge in copies of the rows, for stores of other numbers or on a device."""
        arena, n = self._arena, len(tasks)
        rows = np.concatenate([arena.load(program.source[tasks]), arena.load(received)])
        own, others = np.arange(n, dtype=np.int32), np.arange(n, len(rows), dtype=np.int32)
        self._merge(rows, own, own, others, *merges)
        keys = merge_keys(program, tasks, self._seed) if arena.is_half else None
        arena.store(program.target[tasks], rows[:n], keys)

    def _merge(self, rows: F32, source: I32, target: I32, received: I32, ends: I64, *merges: Any) -> None:
        from gossiprec.numerics.partial_rows import merge_sent

        merge_sent(rows, (source, target, ends), received, *merges, self._partial.first_packed)
