"""The rewriting of outgoing messages by transforms and forgeries, and what is known of each push."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from gossiprec.base.arrays import F32, I32, I64, Bools
from gossiprec.base.errors import ScenarioError
from gossiprec.base.isolation import is_foreign
from gossiprec.compute.executors.base import Executor, ExecutorContext
from gossiprec.compute.message_sizes import MessageSizes, SizesByPush
from gossiprec.compute.messages import (
    Forgery,
    MessagePayload,
    OutgoingTransforms,
    PackedRows,
    PushContext,
    PushedRows,
    PushKeys,
    RowTransform,
    Transform,
)
from gossiprec.compute.plan.program import UNSENT, Program, Written
from gossiprec.compute.plan.tape import Behaviour, Op, TapeEvent, TapeSegment, operations_by_slot
from gossiprec.compute.store.arena import push_keys
from gossiprec.compute.store.update import Update
from gossiprec.compute.store.update_store import UpdateStore
from gossiprec.models.base import BlockRole
from gossiprec.numerics.partial_rows import put_rows, take_rows
from gossiprec.rules.aggregators import ModelDelta
from gossiprec.runs.checkpoint_state import Stateful

Chain: TypeAlias = list[tuple[str, Transform]]
"""The transforms of a node's messages by the names of their policies, in order."""
Answer: TypeAlias = Callable[[MessagePayload, MessagePayload | None, PushContext], MessagePayload]
ROWS_AT_ONCE = 32
"""Messages that are encoded per call, so that their rows stay in the processor's cache."""


class MessageEncoder:
    """The step that runs the tasks that rewrite a version for a push; executors do not see them.

    Such a task has nothing to merge or train: the rewritten source is written to the target, which then is also the
    source. Withheld blocks are zero there, and numbers that are not sent are NaN.

    Parameters
    ----------
    outgoing : OutgoingTransforms
    executor : Executor
    pushes : PushLog
    sizes : MessageSizes
        Takes the sizes of messages.
    forgeries : mapping of int to Forgery, optional
        The forgery of each node that forges its messages.
    packed : ndarray of int64, shape (n_nodes,), optional
        Count of numbers in the rows of nodes that send packed rows (:mod:`gossiprec.compute.partial_messages`).
    answers : mapping of int to callable, optional
        For each node of an adversary, what it sends in place of a message, given the message, the version before the
        last local update, and the push.
    """

    def __init__(
        self,
        outgoing: OutgoingTransforms,
        executor: Executor,
        pushes: PushLog,
        sizes: MessageSizes,
        forgeries: Mapping[int, Forgery] | None = None,
        answers: Mapping[int, Answer] | None = None,
        packed: I64 | None = None,
    ) -> None:
        self._outgoing = outgoing
        self._work = work = executor.work
        self.pushes, self._sizes = pushes, sizes
        self._forgeries, self._answers = forgeries or {}, answers or {}
        self._resizes, self._extra = outgoing.nodes_with("resizes"), outgoing.extra_bytes
        self._hides_user = outgoing.withholds_role(BlockRole.USER)
        store = executor.store
        self._store = (
            _Updates(store, sizes.updates)
            if isinstance(store, UpdateStore)
            else _Versions(work, self._hides_user.tolist())
        )
        rewrites = outgoing.rewrites_messages
        self._packed = np.zeros(len(rewrites), np.int64) if packed is None else packed
        self._has_fixed_size = outgoing.fixed_sizes & (not isinstance(store, UpdateStore))
        self._chains: list[Chain] = []
        self._chain_of, self._memory = np.full(len(rewrites), -1), dict[int, F32]()
        self._forged_memory = {
            node: np.zeros(each.memory_numbers, np.float32)
            for node, each in self._forgeries.items()
            if each.memory_numbers
        }
        for node in np.flatnonzero(rewrites).tolist():
            chain = outgoing.rewriting_transforms(node)
            for _, each in chain:
                if each.keeps_memory and id(each) not in self._memory:
                    self._memory[id(each)] = np.zeros((len(rewrites), work.layout.shared.stop), np.float32)
            in_rows = all(isinstance(each, RowTransform) and not is_foreign(each) for _, each in chain)
            writes_itself = node in self._forgeries or node in self._answers
            if in_rows and not writes_itself and not isinstance(store, UpdateStore):
                self._chain_of[node] = self._index_of(chain)

    def _index_of(self, chain: Chain) -> int:
        """Return the place of a chain of transforms in the list of chains, in which it is put if it is new."""
        found = [
            place
            for place, known in enumerate(self._chains)
            if [id(each) for _, each in known] == [id(each) for _, each in chain]
        ]
        if not found:
            self._chains.append(chain)
        return found[0] if found else len(self._chains) - 1

    def state(self, nodes: I64 | None = None) -> dict[str, Any]:
        """Return the memory of the transforms and forgeries of some nodes, or of all and what is known of pushes."""
        some, kept = self._all_nodes if nodes is None else nodes, self._forged_memory
        memory = [each[some] for each in self._memory.values()]
        memory += [kept[node] for node in some.tolist() if node in kept]
        return {"memory": memory} | ({"pushes": self.pushes.state()} if nodes is None else {})

    def restore(self, state: Mapping[str, Any], nodes: I64 | None = None) -> None:
        """Restore the memory that :meth:`state` returned for the same nodes."""
        if nodes is None:
            self.pushes.restore(state["pushes"])
            nodes = self._all_nodes
        memory = state["memory"]
        for own, found in zip(self._memory.values(), memory, strict=False):
            own[nodes] = found
        kept = [self._forged_memory[node] for node in nodes.tolist() if node in self._forged_memory]
        for own, found in zip(kept, memory[len(self._memory) :], strict=True):
            own[:] = found

    @property
    def _all_nodes(self) -> I64:
        return np.arange(len(self._chain_of))

    def prepare(self, program: Program, tasks: I64) -> Written:
        """Rewrite the messages of the pushes among some tasks of one wave."""
        if not len(program.push):
            return Written(tasks[:0])
        self._remember(program, tasks[program.push[tasks] == UNSENT])
        tasks = tasks[program.push[tasks] >= 0]
        kind = 2 * self._chain_of[program.node[tasks]] + self._hides_user[program.node[tasks]]
        for each in np.unique(kind[kind >= 0]).tolist():
            some = tasks[kind == each]
            encode = self._pack_rows if self._packed[program.node[some[0]]] else self._encode_rows
            encode(program, some, self._chains[each // 2])
        for task in tasks[kind < 0].tolist():
            node, number = int(program.node[task]), int(program.push[task])
            if node in self._forgeries:
                payload = self._forged(program, task, node, number)
            else:
                payload = self._encoded(program, task, node, number)
                if payload.touched is not None:
                    self._sizes.rewritten[node, number] = sum(part.size for part in payload.parts)
                if self._resizes[node]:
                    self._note_size(program, task, payload.size_bytes)
            self._store.keep(program, task, payload, resized=bool(self._resizes[node]))
        return Written(tasks)

    def _remember(self, program: Program, tasks: I64) -> None:
        """Add local updates after which nothing was sent to the memory of transforms that sum updates."""
        layout = self._work.layout
        for task in tasks.tolist():
            node, rows = int(program.node[task]), np.array([program.source[task], program.base[task]])
            after, before = self._work.arena.load(rows)[:, : layout.shared.stop]
            for _, each in self._outgoing.rewriting_transforms(node):
                if each.sums_updates:
                    self._memory[id(each)][node] += after - before

    def _pack_rows(self, program: Program, tasks: I64, chain: Chain) -> None:
        """Encode the pushes of nodes with the same transform into packed rows."""
        layout, ((_, transform),) = self._work.layout, chain
        assert isinstance(transform, RowTransform)
        nodes, numbers = program.node[tasks].astype(np.int64), program.push[tasks].astype(np.int64)
        begin = layout.items.start if self._hides_user[nodes[0]] else 0
        packed = PackedRows(
            program.source[tasks], _base_rows(program, tasks), program.target[tasks], self._memory[id(transform)],
            PushKeys(self._work.seed, nodes, numbers), begin, layout.shared.stop, layout.items.start,
        )  # fmt: skip
        transform.pack_rows(self._work.arena.rows, packed)

    def _encode_rows(self, program: Program, tasks: I64, chain: Chain) -> None:
        """Encode the pushes of nodes with the same transforms."""
        layout = self._work.layout
        nodes, numbers = program.node[tasks].astype(np.int64), program.push[tasks].astype(np.int64)
        begin = layout.items.start if self._hides_user[nodes[0]] else 0
        sent = slice(begin, layout.shared.stop)
        needs_base = any(isinstance(each, RowTransform) and each.needs_base for _, each in chain)
        places = np.zeros((2, len(tasks)), np.int64)
        places[1] = 1
        if any(each.per_receiver for _, each in chain):
            places[:] = np.transpose([self.pushes.place(*key) for key in zip(
                program.push_message[tasks].tolist(), nodes.tolist(), numbers.tolist(), strict=True
            )])  # fmt: skip
        ends = (layout.users.stop - begin, layout.items.stop - begin, layout.shared.stop - begin)
        keys = PushKeys(self._work.seed, nodes, numbers)
        n_sent = np.zeros(len(tasks), np.int64)
        for low in range(0, len(tasks), ROWS_AT_ONCE):
            some = slice(low, low + ROWS_AT_ONCE)
            values = self._rows(program.source[tasks[some]], sent)
            bases = self._rows(_base_rows(program, tasks[some]), sent) if needs_base else None
            for _, each in chain:
                assert isinstance(each, RowTransform)
                memory = self._memory[id(each)][:, sent] if each.keeps_memory else values[:0]
                each.encode_rows(PushedRows(values, bases, memory, ends, keys, some, *places[:, some]))
            n_sent[some] = self._store_rows(program, tasks[some], values, begin)
        if not self._has_fixed_size[nodes[0]]:
            self._note_sizes(program, tasks, chain, n_sent)

    def _rows(self, handles: I32, sent: slice) -> F32:
        """Return copies of the sent columns of rows."""
        arena = self._work.arena
        if not arena.is_plain:
            return np.ascontiguousarray(arena.load(handles)[:, sent])
        values = np.empty((len(handles), sent.stop - sent.start), np.float32)
        take_rows(arena.rows, handles, sent.start, values)
        return values

    def _store_rows(self, program: Program, tasks: I64, values: F32, begin: int) -> I64:
        """Write encoded rows to the tasks' targets; return how many numbers of each are sent."""
        arena, n_sent = self._work.arena, np.empty(len(tasks), np.int64)
        rows = arena.rows if arena.is_plain else np.empty((len(tasks), arena.layout.row_size), np.float32)
        handles = program.target[tasks] if arena.is_plain else np.arange(len(tasks), dtype=np.int32)
        put_rows(rows, handles, begin, values, n_sent)
        if not arena.is_plain:
            keys = push_keys(program, tasks, self._work.seed) if arena.is_half else None
            arena.store(program.target[tasks], rows, keys)
        return n_sent

    def _note_sizes(self, program: Program, tasks: I64, chain: Chain, n_sent: I64) -> None:
        """Note the sizes of encoded messages: they depend on how many numbers are sent, not on which."""
        layout = self._work.layout
        hides_user = bool(self._hides_user[program.node[tasks[0]]])
        whole = MessagePayload.of(np.zeros(layout.row_size, np.float32), layout, hides_user=hides_user)
        partial = any(each.is_partial for _, each in chain)
        counts, place = np.unique(n_sent, return_inverse=True)
        sizes = np.zeros(len(counts), np.int64)
        for number, n in enumerate(counts.tolist()):
            sized = replace(whole, sent=np.arange(whole.flat.size) < n if partial else None)
            for _, each in chain:
                sized = each.resized(sized) if isinstance(each, RowTransform) else sized
            sizes[number] = sized.size_bytes
        messages, size = program.push_message[tasks], sizes[place]
        if messages[0] >= 0:
            size += self._extra[program.node[tasks]]
            self._sizes.resized.update(zip(messages.tolist(), size.tolist(), strict=True))
        else:
            for task, each_size in zip(tasks.tolist(), size.tolist(), strict=True):
                self._note_size(program, task, each_size)

    def _note_size(self, program: Program, task: int, size: int) -> None:
        node, message = int(program.node[task]), int(program.push_message[task])
        of_push = self.pushes.event(node, int(program.push[task])).messages
        for each in of_push if message < 0 else (message,):
            self._sizes.resized[each] = size + int(self._extra[node])

    def _encoded(self, program: Program, task: int, node: int, number: int) -> MessagePayload:
        payload = self._store.leaving(int(program.source[task]), node)
        event, message = self.pushes.event(node, number), int(program.push_message[task])
        receiver = () if message < 0 else (int(event.all_receivers[message - event.messages.start]),)
        for name, transform in self._outgoing.rewriting_transforms(node):
            base = self._store.base(int(program.source[task]), int(program.base[task]), node)
            shapes = [part.shape for part in payload.parts]
            touched, sent = payload.touched, payload.sent
            own = None if touched is None else touched.copy()  # a policy may write to what it is given
            memory, columns = np.zeros(0, np.float32), self._store.columns(payload)
            if transform.keeps_memory:
                memory = self._memory[id(transform)][node, columns]
            push = self._push(node, number, event.receivers, memory)
            given = receiver if transform.per_receiver else ()
            encoded = transform.encode(
                replace(payload, touched=own, sent=None if sent is None else sent.copy()), base, push, *given
            )
            _check(encoded, shapes, name, push, is_partial=transform.is_partial or sent is not None)
            if transform.keeps_memory:
                self._memory[id(transform)][node, columns] = push.memory
            encoded_sent = sent if encoded.sent is None else encoded.sent
            payload = replace(
                encoded, touched=touched, sent=encoded_sent, overhead=max(payload.overhead, encoded.overhead)
            )
        if node in self._answers:
            payload = self._answered(program, task, payload, receiver)
        return payload

    def _answered(
        self, program: Program, task: int, payload: MessagePayload, receiver: tuple[int, ...]
    ) -> MessagePayload:
        """Return the payload that a node of an adversary sends in place of another."""
        node, number = int(program.node[task]), int(program.push[task])
        receivers = np.array(receiver, np.int64) if receiver else self.pushes.event(node, number).receivers
        push = self._push(node, number, receivers)
        base = self._store.whole_base(int(program.source[task]), int(program.base[task]), node)
        return self._answers[node](payload, base, push)

    def _push(self, node: int, number: int, receivers: I64, *memory: F32) -> PushContext:
        event, items = self.pushes.event(node, number), self._work.feed.positives[node].copy()
        cohort = event.cohort.copy()
        return PushContext(self._work.seed, node, number, items, event.round, receivers, cohort, *memory)

    def _forged(self, program: Program, task: int, node: int, number: int) -> MessagePayload:
        handle, items = int(program.source[task]), self._work.feed.positives[node].copy()
        memory = self._forged_memory.get(node, np.zeros(0, np.float32))
        push = PushContext(
            self._work.seed, node, number, items, self.pushes.event(node, number).round, memory=memory
        )
        change = self._forgeries[node].forge(self._store.whole(handle, node), push)
        return self._store.changed(handle, node, change)


class _Versions:
    """The access to the payloads of a store of whole models, which are the rows of an arena."""

    def __init__(self, work: ExecutorContext, hides_user: list[bool]) -> None:
        self._work, self._hides_user = work, hides_user

    def leaving(self, handle: int, node: int) -> MessagePayload:
        """Return a copy of the payload under a handle, without withheld blocks."""
        values = self._work.arena.load(np.array([handle]))[0]
        return MessagePayload.of(values, self._work.layout, hides_user=self._hides_user[node])

    def base(self, handle: int, base: int, node: int) -> MessagePayload | None:
        """Return a copy of the version before training, in the same layout, or None without training."""
        return self.leaving(base, node) if base >= 0 else None

    def whole(self, handle: int, node: int) -> MessagePayload:
        """Return a copy of the version under a handle."""
        return self.leaving(handle, node)

    def whole_base(self, handle: int, base: int, node: int) -> MessagePayload | None:
        """Return a copy of the whole version before training, or None without training."""
        return self.base(handle, base, node)

    def changed(self, handle: int, node: int, change: ModelDelta) -> MessagePayload:
        """Return the payload of the version under a handle plus a change."""
        payload = self.leaving(handle, node)
        payload.items[change.items] += change.rows
        return replace(payload, shared=payload.shared + change.shared)

    def columns(self, payload: MessagePayload) -> I64:
        """Return the columns of a whole version's message that hold the numbers of a payload."""
        layout = self._work.layout
        return np.arange(layout.items.start if payload.users is None else 0, layout.shared.stop)

    def keep(self, program: Program, task: int, payload: MessagePayload, *, resized: bool) -> None:
        """Store a payload as the target of a task."""
        arena, layout, only = self._work.arena, self._work.layout, np.array([task])
        row = np.zeros(layout.row_size, np.float32)
        begin = layout.items.start if payload.users is None else 0
        row[begin : layout.shared.stop] = payload.flat
        if payload.sent is not None:
            row[begin : layout.shared.stop][~payload.sent] = np.nan
        keys = push_keys(program, only, self._work.seed) if arena.is_half else None
        arena.store(program.target[only], row[None], keys)


class _Updates(_Versions):
    """The access to updates of clients without a model: the rows that they touched. Users' rows never leave."""

    def __init__(self, store: UpdateStore, sizes: SizesByPush | None) -> None:
        assert sizes is not None, "clients send updates"
        self._store, self._sizes = store, sizes

    def leaving(self, handle: int, node: int) -> MessagePayload:
        held = self._store.payload(handle)
        if isinstance(held, Update):
            return MessagePayload(None, held.rows.copy(), held.shared.copy(), held.items)
        return self._rows(held, np.zeros(0, np.int32))

    def base(self, handle: int, base: int, node: int) -> MessagePayload | None:
        held = self._store.payload(handle)
        return self._rows(held.base, held.items) if isinstance(held, Update) else None

    def whole(self, handle: int, node: int) -> MessagePayload:
        tables, shared = self._parts(self._store.version(handle))
        return MessagePayload(None, tables.copy(), shared.copy())

    def whole_base(self, handle: int, base: int, node: int) -> MessagePayload | None:
        return self.whole(handle, node) if isinstance(self._store.payload(handle), Update) else None

    def changed(self, handle: int, node: int, change: ModelDelta) -> MessagePayload:
        payload = self._rows(self._store.version(handle), change.items)
        return replace(payload, items=payload.items + change.rows, shared=payload.shared + change.shared)

    def columns(self, payload: MessagePayload) -> I64:
        layout = self._store.layout
        assert payload.touched is not None, "updates name the items of their rows"
        items = layout.items.start + payload.touched[:, None].astype(np.int64) * layout.item_width
        shared = np.arange(layout.shared.start, layout.shared.stop)
        return np.concatenate([(items + np.arange(layout.item_width)).ravel(), shared])

    def keep(self, program: Program, task: int, payload: MessagePayload, *, resized: bool) -> None:
        touched = payload.touched
        assert touched is not None, "updates name the items of their rows"
        source = self._store.payload(int(program.source[task]))
        if payload.sent is not None:
            base = self._rows(self._store.version(int(program.source[task])), touched).flat
            payload = payload.with_numbers(np.where(payload.sent, payload.flat, base))
        upload = source.user if isinstance(source, Update) else None
        version = self._store.version(int(program.source[task]))
        update = Update(version, touched, payload.items, payload.shared, upload)
        self._store.store_payload(int(program.target[task]), update)
        # a push and its update have the same number, for a client trains before each push
        if not resized:
            self._sizes[int(program.node[task]), int(program.push[task])] = update.size_bytes

    def _rows(self, version: F32, items: np.typing.NDArray[np.int32]) -> MessagePayload:
        tables, shared = self._parts(version)
        return MessagePayload(None, tables[items], shared.copy(), items.copy())

    def _parts(self, version: F32) -> tuple[F32, F32]:
        layout = self._store.layout
        tables, shared = np.split(version, [len(version) - layout.n_shared])
        return tables.reshape(layout.n_items, -1), shared


def _check(
    payload: MessagePayload, shapes: list[tuple[int, ...]], name: str, push: PushContext, *, is_partial: bool
) -> None:
    """Refuse a payload that does not fit the node's model, or is not finite.

    Raises
    ------
    ScenarioError
        Naming the policy, the node and the push.
    """
    which = f"policies: {name}: push {push.number} of node {push.node}"
    found = [np.shape(part) for part in payload.parts]
    if found != shapes:
        raise ScenarioError(
            f"{which} was encoded in shapes {found}; expected {shapes}; a transform must return as many "
            "numbers as it receives, and list in `hides` the blocks that it withholds"
        )
    if not all(np.isfinite(part).all() for part in payload.parts):
        raise ScenarioError(
            f"{which} contains NaN or infinite values; lower training.learning_rate if the model has diverged, "
            "otherwise fix the policy's transform"
        )
    n_numbers = sum(part.size for part in payload.parts)
    if payload.sent is not None and not is_partial:
        raise ScenarioError(
            f"{which} lacks numbers (`sent`), which its transform does not announce; set is_partial = True in the class"
        )
    if payload.sent is not None and (
        np.shape(payload.sent) != (n_numbers,) or payload.sent.dtype != np.bool_
    ):
        raise ScenarioError(
            f"{which}: found `sent` of shape {np.shape(payload.sent)} and type {payload.sent.dtype}; expected a bool "
            f"for each of its {n_numbers} numbers"
        )


def _base_rows(program: Program, tasks: I64) -> I32:
    """Return the rows of the versions before the local update; of those that are sent if there was none."""
    source, base = program.source[tasks], program.base[tasks]
    return np.where(base >= 0, base, source)


@dataclass(frozen=True)
class PushEvent:
    """What is known of a push.

    Attributes
    ----------
    round : int
        From 1, counted by wakes of the coordinator, or of the node if there is none.
    messages : range
        Its messages.
    all_receivers : ndarray of int32, shape (n_messages,)
        A receiver occurs twice if the network duplicates its message.
    cohort : ndarray of int64, shape (n_clients,)
        The clients that the coordinator asked together with the node; empty without a coordinator.
    """

    round: int
    messages: range
    all_receivers: I32
    cohort: I64

    @property
    def receivers(self) -> I64:
        """The receivers, each once."""
        return np.array(list(self.places), np.int64)

    @cached_property
    def places(self) -> dict[int, int]:
        """The place of each receiver among the receivers."""
        return {receiver: place for place, receiver in enumerate(dict.fromkeys(self.all_receivers.tolist()))}


class PushLog(Stateful):
    """The round, the receivers and the cohort of each push.

    Parameters
    ----------
    nodes : ndarray of bool, shape (n_nodes,)
        The nodes of which the pushes are logged.
    roles : ndarray of int64, shape (n_nodes,)
    behaviours : sequence of Behaviour
    coordinator : int or None
    wakes_per_round : int

    Attributes
    ----------
    events : dict of (int, int) to PushEvent
        The pushes of the last segment by node and number.
    """

    checkpointed = ("wakes", "pushes", "asked", "cohorts")

    def __init__(
        self,
        nodes: Bools,
        roles: I64,
        behaviours: Sequence[Behaviour],
        coordinator: int | None,
        wakes_per_round: int = 1,
    ) -> None:
        self._each = wakes_per_round
        self._nodes, self._roles, self._coordinator = nodes, roles, coordinator
        self._pushing = [[Op.PUSH in ops for ops in slots] for slots in operations_by_slot(behaviours)]
        self._wakes = np.zeros(len(nodes), np.int64)
        self._pushes = np.zeros(len(nodes), np.int64)
        # the message that asks each client that has not answered, and its place among the cohorts
        self._asked = np.zeros((0, 2), np.int64)
        self._cohorts: list[I64] = []
        self.events: dict[tuple[int, int], PushEvent] = {}

    def read_segment(self, segment: TapeSegment) -> None:
        """Read a segment of tape; its pushes are available until the next call."""
        self.events.clear()
        cohort_of = {message: self._cohorts[place] for message, place in self._asked.tolist()}
        sent = segment.first_message + np.concatenate([[0], np.cumsum(segment.count)])
        wakes, slots, models = segment.kind == TapeEvent.WAKE, segment.slots, segment.carries_model
        only_models = bool(models.all())
        mine = self._nodes[segment.node] & (wakes | (segment.count > 0))
        if self._coordinator is not None:
            mine |= (wakes & (segment.node == self._coordinator)) | (segment.kind == TapeEvent.DROP)
        for event in np.flatnonzero(mine).tolist():
            node, woke, message = int(segment.node[event]), bool(wakes[event]), int(segment.message[event])
            messages = range(int(sent[event]), int(sent[event + 1]))
            cohort = cohort_of.pop(message, NO_CLIENTS)
            if segment.kind[event] == TapeEvent.DROP:
                continue
            self._wakes[node] += woke
            some = slice(messages.start - segment.first_message, messages.stop - segment.first_message)
            if not only_models and not models[some].all():  # control messages come last
                messages = messages[: int(models[some].sum())]
                some = slice(some.start, some.start + len(messages))
            pushes = self._pushing[int(self._roles[node])][int(slots[event])]
            if node == self._coordinator:
                together = np.unique(segment.receiver[some]).astype(np.int64)
                mine_next = np.flatnonzero(self._nodes[segment.receiver[some]]).tolist()
                cohort_of |= {messages[place]: together for place in mine_next}
            if self._nodes[node] and pushes and messages:
                clock = node if self._coordinator is None else self._coordinator
                round_ = -(-int(self._wakes[clock]) // self._each)
                push = PushEvent(round_, messages, segment.receiver[some], cohort)
                self.events[node, int(self._pushes[node])] = push
                self._pushes[node] += 1
        self._cohorts = list({id(cohort): cohort for cohort in cohort_of.values()}.values())
        places = {id(cohort): place for place, cohort in enumerate(self._cohorts)}
        open_ = [(message, places[id(cohort)]) for message, cohort in cohort_of.items()]
        self._asked = np.array(open_, np.int64).reshape(-1, 2)

    def event(self, node: int, number: int) -> PushEvent:
        """Return a push of a node, by its number among the node's."""
        return self.events[node, number]

    def place(self, message: int, node: int, number: int) -> tuple[int, int]:
        """Return the place of a message's receiver among the receivers of its push, and their number."""
        event = self.events[node, number]
        receiver = int(event.all_receivers[message - event.messages.start])
        return event.places[receiver], len(event.places)


NO_CLIENTS = np.zeros(0, np.int64)
