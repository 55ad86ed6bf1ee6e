"""The rewriting of outgoing messages by transforms and forgeries, and the round number of each push."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gossiprec.base.arrays import F32, I64, Bools
from gossiprec.base.errors import ScenarioError
from gossiprec.compute.executors.base import Executor, ExecutorContext
from gossiprec.compute.messages import Forgery, MessagePayload, OutgoingTransforms, PushContext
from gossiprec.compute.plan.program import Program
from gossiprec.compute.plan.tape import Behaviour, Op, TapeEvent, TapeSegment
from gossiprec.compute.store.arena import push_keys
from gossiprec.compute.store.update import Update
from gossiprec.compute.store.update_store import UpdateStore
from gossiprec.models.base import BlockRole
from gossiprec.rules.aggregators.base import ModelDelta
from gossiprec.runs.checkpoint_state import Stateful


class MessageEncoder:
    """The step that runs the tasks that rewrite a version for a push; executors do not see them.

    Such a task has nothing to merge or train: the rewritten source is written to the target, which then is also the
    source. Withheld blocks are zero there.

    Parameters
    ----------
    outgoing : OutgoingTransforms
    executor : Executor
    forgeries : mapping of int to Forgery, optional
        The forgery of each node that forges its messages.
    round_of : callable, optional
        Function of a node and the number of its push that returns the round of a forged push.

    Attributes
    ----------
    numbers : dict of (int, int) to int
        If clients send updates, the number of rewritten numbers of each push, by (node, number of its push).
    """

    def __init__(
        self,
        outgoing: OutgoingTransforms,
        executor: Executor,
        forgeries: Mapping[int, Forgery] | None = None,
        round_of: Callable[[int, int], int] | None = None,
    ) -> None:
        self._outgoing = outgoing
        self._work = executor.work
        self._forgeries = forgeries or {}
        self._round_of = round_of or (lambda node, number: 0)
        self.numbers: dict[tuple[int, int], int] = {}
        hides_user = outgoing.hides(BlockRole.USER).tolist()
        store = executor.store
        self._store = (
            _Updates(store, executor.update_bytes)
            if isinstance(store, UpdateStore)
            else _Versions(executor.work, hides_user)
        )

    def prepare(self, program: Program, tasks: I64) -> None:
        """Rewrite the messages of the pushes among some tasks of one wave."""
        for task in tasks[program.push[tasks] >= 0].tolist():
            node, number = int(program.node[task]), int(program.push[task])
            if node in self._forgeries:
                payload = self._forged(program, task, node, number)
            else:
                payload = self._encoded(program, task, node, number)
                if payload.touched is not None:
                    self.numbers[node, number] = sum(part.size for part in payload.parts)
            self._store.keep(program, task, payload)
            program.source[task] = program.target[task]

    def _encoded(self, program: Program, task: int, node: int, number: int) -> MessagePayload:
        payload = self._store.leaving(int(program.source[task]), node)
        push = PushContext(self._work.seed, node, number, self._work.feed.positives[node].copy())
        for name, transform in self._outgoing.rewriting(node):
            base = self._store.base(int(program.source[task]), int(program.base[task]), node)
            shapes = [part.shape for part in payload.parts]
            touched = payload.touched
            own = None if touched is None else touched.copy()  # a policy may write to what it is given
            encoded = transform.encode(replace(payload, touched=own), base, push)
            _check(encoded, shapes, name, push)
            payload = replace(encoded, touched=touched)
        return payload

    def _forged(self, program: Program, task: int, node: int, number: int) -> MessagePayload:
        handle, items = int(program.source[task]), self._work.feed.positives[node].copy()
        push = PushContext(self._work.seed, node, number, items, self._round_of(node, number))
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

    def changed(self, handle: int, node: int, change: ModelDelta) -> MessagePayload:
        """Return the payload of the version under a handle plus a change."""
        payload = self.leaving(handle, node)
        payload.items[change.items] += change.rows
        return replace(payload, shared=payload.shared + change.shared)

    def keep(self, program: Program, task: int, payload: MessagePayload) -> None:
        """Store a payload as the target of a task."""
        arena, layout, only = self._work.arena, self._work.layout, np.array([task])
        row = np.zeros(layout.row_size, np.float32)
        begin = layout.items.start if payload.users is None else 0
        row[begin : layout.shared.stop] = np.concatenate([part.ravel() for part in payload.parts])
        keys = push_keys(program, only, self._work.seed) if arena.is_half else None
        arena.store(program.target[only], row[None], keys)


class _Updates(_Versions):
    """The access to updates of clients without a model: the rows that they touched. Users' rows never leave."""

    def __init__(self, store: UpdateStore, sizes: dict[tuple[int, int], int] | None) -> None:
        assert sizes is not None, "clients send updates"
        self._store, self._sizes = store, sizes

    def leaving(self, handle: int, node: int) -> MessagePayload:
        held = self._store.held(handle)
        if isinstance(held, Update):
            return MessagePayload(None, held.rows.copy(), held.shared.copy(), held.items)
        return self._rows(held, np.zeros(0, np.int32))

    def base(self, handle: int, base: int, node: int) -> MessagePayload | None:
        held = self._store.held(handle)
        return self._rows(held.base, held.items) if isinstance(held, Update) else None

    def whole(self, handle: int, node: int) -> MessagePayload:
        tables, shared = self._parts(self._store.version(handle))
        return MessagePayload(None, tables.copy(), shared.copy())

    def changed(self, handle: int, node: int, change: ModelDelta) -> MessagePayload:
        payload = self._rows(self._store.version(handle), change.items)
        return replace(payload, items=payload.items + change.rows, shared=payload.shared + change.shared)

    def keep(self, program: Program, task: int, payload: MessagePayload) -> None:
        assert payload.touched is not None, "updates name the items of their rows"
        source = self._store.held(int(program.source[task]))
        upload = source.user if isinstance(source, Update) else None
        version = self._store.version(int(program.source[task]))
        update = Update(version, payload.touched, payload.items, payload.shared, upload)
        self._store.keep(int(program.target[task]), update)
        # a push and its update have the same number, for a client trains before each push
        self._sizes[int(program.node[task]), int(program.push[task])] = update.size_bytes

    def _rows(self, version: F32, items: np.typing.NDArray[np.int32]) -> MessagePayload:
        tables, shared = self._parts(version)
        return MessagePayload(None, tables[items], shared.copy(), items.copy())

    def _parts(self, version: F32) -> tuple[F32, F32]:
        layout = self._store.layout
        tables, shared = np.split(version, [len(version) - layout.n_shared])
        return tables.reshape(layout.n_items, -1), shared


def _check(payload: MessagePayload, shapes: list[tuple[int, ...]], name: str, push: PushContext) -> None:
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
            f"{which} contains NaN or infinite values; lower training.learning_rate if the model has "
            "diverged, otherwise fix the policy's transform"
        )


class PushRoundCounter(Stateful):
    """The round of each push, counted by wakes of the coordinator, or of the node if there is none.

    Parameters
    ----------
    nodes : ndarray of bool, shape (n_nodes,)
        The nodes of which the pushes are counted.
    roles : ndarray of int64, shape (n_nodes,)
    behaviours : sequence of Behaviour
    coordinator : int or None
    wakes_per_round : int
    """

    checkpointed = ("wakes", "pushes")

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
        self._pushing = [(Op.PUSH in b.on_wake, Op.PUSH in b.on_receive) for b in behaviours]
        self._wakes = np.zeros(len(nodes), np.int64)
        self._pushes = np.zeros(len(nodes), np.int64)
        self._rounds: dict[tuple[int, int], int] = {}

    def note(self, segment: TapeSegment) -> None:
        """Read a segment of tape; the rounds of its pushes are available until the next call."""
        self._rounds.clear()
        wakes = segment.kind == TapeEvent.WAKE
        mine = self._nodes[segment.node] & (wakes | (segment.count > 0))
        if self._coordinator is not None:
            mine |= wakes & (segment.node == self._coordinator)
        for event in np.flatnonzero(mine).tolist():
            node, woke = int(segment.node[event]), bool(wakes[event])
            self._wakes[node] += woke
            pushes = self._pushing[int(self._roles[node])][0 if woke else 1]
            if self._nodes[node] and pushes and segment.count[event] > 0:
                clock = node if self._coordinator is None else self._coordinator
                self._rounds[node, int(self._pushes[node])] = -(-int(self._wakes[clock]) // self._each)
                self._pushes[node] += 1

    def round_of(self, node: int, number: int) -> int:
        """Return the round of a node's push, from 1."""
        return self._rounds[node, number]
