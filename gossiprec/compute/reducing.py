"""Reducing inboxes: what aggregators make of all that a node has received, before an executor goes on with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gossiprec.aggregators.base import Aggregator, Inbox, Invalid
from gossiprec.arrays import F32, F64, I64, are_all_finite
from gossiprec.compute.plan.program import Program
from gossiprec.compute.serving import Serving
from gossiprec.compute.store.base import Store
from gossiprec.compute.store.keys import merge_keys
from gossiprec.errors import ScenarioError
from gossiprec.isolation import copied, is_foreign
from gossiprec.servers.base import Answers


@dataclass(frozen=True)
class Receiver:
    """How one node aggregates.

    Attributes
    ----------
    name : str
        Of the rule.
    rule : Aggregator
    buffer : int or None
        Only so many of the latest models are aggregated; None: all.
    own_weight : float
        What the node's own model counts.
    serving : Serving or None
        What a coordinator computes once its answers are aggregated; also without any.
    invalid : str
        What becomes of a model with a number that is not finite (:class:`gossiprec.aggregators.InboxRule`).
    """

    name: str
    rule: Aggregator
    buffer: int | None
    own_weight: float
    serving: Serving | None = None
    invalid: Invalid = "fatal"


class Reducing:
    """Writes what aggregators make of inboxes to where tasks go on; executors know nothing of it.

    A task of a node with an inbox lists all that it has received. What its rule makes of it is written to the task's
    target, which then is its source, too; the listed merges become merges of that row with itself and change nothing.

    Parameters
    ----------
    receivers : mapping of int to Receiver
        By node.
    store : Store
    seed : int
    arrived_at : ndarray of float64, shape (n_messages,)
        When each message has arrived, as far as it is known.

    Attributes
    ----------
    n_discarded : int
        Models so far that were left out because a number of theirs was not finite.
    n_elsewhere : int
        The same of nodes that other shards own.
    """

    def __init__(self, receivers: Mapping[int, Receiver], store: Store, seed: int, arrived_at: F64) -> None:
        self._receivers = receivers
        self._store = store
        self._seed = seed
        self._arrived_at = arrived_at
        self.n_discarded = self.n_elsewhere = 0
        self._has_inbox = np.zeros(store.n_nodes, np.bool_)
        self._has_inbox[list(receivers)] = True

    @property
    def any(self) -> bool:
        """Whether any node has an inbox."""
        return bool(self._receivers)

    def prepare(self, program: Program, tasks: I64) -> None:
        """Reduce the inboxes of some tasks of one wave."""
        for task in tasks[self._has_inbox[program.node[tasks]]].tolist():
            self._reduce(program, task)

    def state(self) -> dict[str, Any]:
        """Return what rules remember, by node, for a checkpoint."""
        rules = {str(node): receiver.rule.state() for node, receiver in self._receivers.items()}
        return {**rules, "n_discarded": self.n_discarded + self.n_elsewhere}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state` gave."""
        self.take(state)
        self.n_discarded = state["n_discarded"]

    def take(self, rules: Mapping[str, Any]) -> None:
        """Take over what the rules of some nodes remember."""
        for node, receiver in self._receivers.items():
            if str(node) in rules:
                receiver.rule.restore(rules[str(node)])

    def report(self) -> dict[str, Any]:
        """Return what became of models that were not finite, where they are left out."""
        discards = any(receiver.invalid == "discard" for receiver in self._receivers.values())
        return {"n_discarded": self.n_discarded + self.n_elsewhere} if discards else {}

    def _reduce(self, program: Program, task: int) -> None:
        entries = np.arange(program.merge_offsets[task], program.merge_offsets[task + 1])
        keep = program.merge_keep[entries]
        collected, only = entries[keep < 0], np.array([task])
        receiver, target = self._receivers[int(program.node[task])], program.target[only]
        if not len(entries) and receiver.serving is None:
            return
        store = self._store
        if receiver.buffer is not None:
            collected = collected[-receiver.buffer :]
        own = store.merged(int(program.source[task]))
        if is_foreign(receiver.rule):
            own = np.array(own)
        inbox = self._inbox(program, collected, receiver, copies=is_foreign(receiver.rule))
        found = None
        if receiver.rule.passes_on:
            with np.errstate(invalid="ignore"):  # what comes of it is looked at below
                found = _checked(receiver, own, inbox)
        if found is None or not are_all_finite(found):
            finite = inbox.is_finite
            if not finite.all():
                self._refuse(program, task, collected[~finite])
                collected = collected[finite]
                inbox = self._inbox(program, collected, receiver, copies=is_foreign(receiver.rule))
            found = _checked(receiver, own, inbox)
        if receiver.serving is not None:
            clients = program.merge_sender[collected].astype(np.int64)
            users = store.told_users(program.merge_row[collected])
            if receiver.serving.is_foreign:
                inbox = self._inbox(program, collected, receiver, copies=True)
                found, users = np.array(found), copied(users)
            elif is_foreign(receiver.rule):
                inbox = self._inbox(program, collected, receiver, copies=False)
            found = receiver.serving.serve(int(program.source[task]), found, Answers(clients, inbox, users))
        keys = merge_keys(program, only, self._seed) if store.is_half else None
        store.store_merged(int(target[0]), int(program.source[task]), found, keys)
        if receiver.serving is not None:
            store.attach(int(target[0]), receiver.serving.extras)
        program.source[task] = target[0]
        done = entries[(keep < 0) | (keep == 1)]
        program.merge_row[done], program.merge_keep[done] = target[0], 1.0

    def _inbox(self, program: Program, collected: I64, receiver: Receiver, *, copies: bool) -> Inbox:
        rows, weights = program.merge_row[collected], program.merge_weight[collected]
        give = self._store.inbox_copy if copies else self._store.inbox
        return give(rows, weights, receiver.own_weight)

    def _refuse(self, program: Program, task: int, invalid: I64) -> None:
        """End the run where models are not numbers, unless they are to be discarded.

        Raises
        ------
        ScenarioError
            Naming receiver, first sender, and when that has come.
        """
        node, message = int(program.node[task]), int(program.merge_message[invalid[0]])
        if self._receivers[node].invalid == "discard":
            self.n_discarded += len(invalid)
            return
        raise ScenarioError(
            f"node {node} received numbers that are not finite from node {int(program.merge_sender[invalid[0]])} at "
            f"time {self._arrived_at[message]:.6g}; lower training.learning_rate if the model has diverged, or set "
            "invalid to discard (protocol.aggregation of fedavg, or the policy robust-merge)"
        )


def _checked(receiver: Receiver, own: F32, inbox: Inbox) -> F32:
    """Return what the rule makes of an inbox.

    Raises
    ------
    ScenarioError
        If that is no model.
    """
    found = receiver.rule.aggregate(own, inbox)
    if np.shape(found) != own.shape:
        raise ScenarioError(
            f"the aggregator {receiver.name!r} returned shape {np.shape(found)} for models of shape {own.shape}; "
            "reduce must return one model"
        )
    return found
