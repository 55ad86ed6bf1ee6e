"""The scheme of messages that lack numbers: they are merged number by number, and completed for observers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gossiprec.adversaries.attacks import Attack
from gossiprec.base.arrays import F32, I32, I64, Bools, are_all_finite
from gossiprec.base.errors import ScenarioError
from gossiprec.base.ragged import row_entries
from gossiprec.compute.executors import Executor
from gossiprec.compute.inbox_reducer import Collected, InboxReduction, ReceiverConfig
from gossiprec.compute.messages import OutgoingTransforms
from gossiprec.compute.partial_messages import (
    PartialMessages,
    are_valid_parts,
    clip_columns,
    find_pieces,
    packed_counts,
    reduce_parts,
)
from gossiprec.compute.plan.program import Program, Written
from gossiprec.compute.plan.tape import Op, TapeSegment
from gossiprec.compute.store.arena import Arena, merge_keys
from gossiprec.emulation.assembly.components import RunComponents
from gossiprec.emulation.assembly.message_scheme import SCHEMES, MessageScheme, NamedRules
from gossiprec.emulation.assembly.schedule import PrecomputedSchedule, Schedule
from gossiprec.emulation.schemes.virtual_nodes import PartialViews, make_partial_views, make_piece_views
from gossiprec.network.protocols import Protocol
from gossiprec.numerics.partial_rows import merge_sent
from gossiprec.rules.aggregators import Inbox, InboxConfig, make_aggregator
from gossiprec.rules.servers import Server
from gossiprec.scenario import Scenario


@SCHEMES.register("parts")
class Parts(MessageScheme):
    """Messages that lack numbers; updates of clients without a model always have all.

    Attributes
    ----------
    messages : PartialMessages
    """

    def __init__(self, components: RunComponents, executor: Executor, schedule: Schedule) -> None:
        outgoing, protocol, layout = components.outgoing, components.protocol, components.layout
        seed, arena = components.scenario.seed, executor.work.arena
        self._components, self._views, piece = components, list[PartialViews](), np.zeros(0, np.int32)
        if outgoing.cuts:
            assert isinstance(schedule, PrecomputedSchedule), "no protocol weighs parts by performance"
            segments = [tick.segment for tick in schedule.ticks]
            piece = find_pieces(outgoing, seed, segments, protocol.role_behaviours, protocol.roles)
        self.packed = packed_counts(outgoing, layout) * arena.is_plain
        partial = outgoing.nodes_with("is_partial")
        self.messages = PartialMessages(layout, outgoing, partial, self.packed, piece)
        self.steps = [PartialMerger(self.messages, components.has_inbox, arena, seed)]
        self.pieces = make_piece_views(components, self.messages)

    @classmethod
    def change_outgoing(
        cls, scenario: Scenario, protocol: Protocol, outgoing: OutgoingTransforms, server: Server | None
    ) -> None:
        """Refuse receivers that read whole models."""
        reader = (
            "protocol.server computes with" if server is not None
            else "this protocol weights models by the performance of"
            if any(Op.SCORE in behaviour.on_any_receive for behaviour in protocol.role_behaviours)
            else None
        )  # fmt: skip
        if reader:
            raise ScenarioError(
                f"policies: {reader} whole models, but a policy sends parts of models; use rand-gossip, or fedavg "
                "without a server, or remove the policy"
            )

    @classmethod
    def more_rules(cls, protocol: Protocol, rules: NamedRules) -> NamedRules:
        """Return the mean for nodes that average: they must wait to average each number over its senders."""
        waits = np.array(
            [bool({Op.POOL, Op.AVERAGE} & each.on_any_receive) for each in protocol.role_behaviours]
        )
        nodes = np.flatnonzero(waits[protocol.roles])
        for name, configured, rule in rules:
            if rule is None or not len(configured):
                continue
            if not rule.make().takes_parts:
                raise ScenarioError(
                    f"{name}: {rule.name} compares whole models, but a policy sends parts of models; use mean, median "
                    "or trimmed-mean, or remove the policy"
                )
            nodes = np.setdiff1d(nodes, configured)
        few = min(4 * (protocol.max_messages_per_wake or 1), protocol.n_users)  # in gossip between two wakes
        expected = protocol.n_users if protocol.has_coordinator else few
        mean = InboxConfig("mean", lambda: make_aggregator("mean"), None, expected)
        return [("protocol.merge", nodes, mean)]

    def views(self, attacks: list[Attack]) -> PartialViews | None:
        """Return the completion of models for attacks, which score whole models."""
        found = make_partial_views(self._components, attacks, self.messages)
        self._views = [found] if found else []
        return found

    def receivers(self, receivers: dict[int, ReceiverConfig]) -> dict[int, ReceiverConfig]:
        """Let nodes reduce each number by itself."""
        reduction = PartsReduction(self.messages)
        return {node: replace(receiver, reduction=reduction) for node, receiver in receivers.items()}

    def set_sizes(self, sizes: I32, segment: TapeSegment) -> None:
        """Set the bytes of pieces, and of messages of a fixed size."""
        self.messages.set_sizes(sizes, segment.first_message, segment.sender)

    def state(self) -> dict[str, Any]:
        """Return the state of the completion of models."""
        return {"views": [views.state() for views in self._views]}

    def restore(self, state: Any) -> None:
        """Restore a :meth:`state`."""
        for views, found in zip(self._views, state["views"], strict=True):
            views.restore(found)


class PartsReduction(InboxReduction):
    """The reduction of models that lack numbers, number by number.

    Parameters
    ----------
    partial : PartialMessages
    """

    def __init__(self, partial: PartialMessages) -> None:
        self._partial = partial

    def reduce(self, receiver: ReceiverConfig, collected: Collected) -> tuple[F32, Inbox]:
        """Return the next version by a rule that reduces each number by itself, and the inbox."""
        own, inbox = collected.own, self._inbox(collected)
        valid = are_valid_parts(inbox, self._partial.is_partial[collected.senders])
        if not valid.all():
            collected.refuse(~valid)
            collected.keep(valid)
            inbox = self._inbox(collected)
        found = reduce_parts(receiver.rule, own, inbox) if len(inbox) else own
        return (found, inbox) if are_all_finite(found) else super().reduce(receiver, collected)

    def _inbox(self, collected: Collected) -> Inbox:
        inbox, merged = collected.inbox(copies=True), self._partial.layout.merged
        self._partial.expand(list(np.asarray(inbox.rows)), merged, collected.messages, collected.senders)
        return inbox


class PartialMerger:
    """The step that merges received rows with missing numbers (NaN), before the executor runs.

    So no executor and no run without such messages has anything to do with them.

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

    def prepare(self, program: Program, tasks: I64) -> Written:
        """Merge what the tasks of one wave have received, if some of it lacks numbers."""
        tasks = tasks[~self._has_inbox[program.node[tasks]]]
        entries, place = row_entries(program.merge_offsets, tasks)
        partial = self._partial.is_partial[program.merge_sender[entries]]
        tasks = tasks[np.unique(place[partial])]
        if not len(tasks):
            return Written(tasks)
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
        return Written(tasks, entries)

    def _merge_copies(self, program: Program, tasks: I64, received: I32, *merges: Any) -> None:
        """Merge in copies of the rows, for stores of other numbers or on a device."""
        arena, n = self._arena, len(tasks)
        rows = np.concatenate([arena.load(program.source[tasks]), arena.load(received)])
        own, others = np.arange(n, dtype=np.int32), np.arange(n, len(rows), dtype=np.int32)
        self._merge(rows, own, own, others, *merges)
        keys = merge_keys(program, tasks, self._seed) if arena.is_half else None
        arena.store(program.target[tasks], rows[:n], keys)

    def _merge(self, rows: F32, source: I32, target: I32, received: I32, ends: I64, *merges: Any) -> None:
        merge_sent(rows, (source, target, ends), received, *merges, self._partial.first_packed)
