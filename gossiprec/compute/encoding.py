"""Rewriting what leaves, push by push: transforms and forgeries write payloads of their own; executors do not know."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from gossiprec.aggregators.base import Change
from gossiprec.arrays import F32, I64
from gossiprec.compute.executors.base import Executor, Workload
from gossiprec.compute.messages import Forgery, Outgoing, Payload, Push
from gossiprec.compute.plan.program import Program
from gossiprec.compute.store.keys import push_keys
from gossiprec.compute.store.update import Update
from gossiprec.compute.store.update_store import UpdateStore
from gossiprec.errors import ScenarioError
from gossiprec.models.base import Role


class Encoding:
    """Carries out the tasks that rewrite a version for a push.

    Such a task has nothing to merge or train: what is made of the source is written to the target, which then is the
    source, too. Blocks that do not leave are zero there.

    Parameters
    ----------
    outgoing : Outgoing
    executor : Executor
    forgeries : mapping of int to Forgery, optional
        By node: what those send whose messages are written from scratch.
    round_of : callable, optional
        Node and number of its push -> the round of a forged push.

    Attributes
    ----------
    numbers : dict of (int, int) to int
        Where clients send updates: how many numbers were rewritten for each push, by (node, number of its push).
    """

    def __init__(
        self,
        outgoing: Outgoing,
        executor: Executor,
        forgeries: Mapping[int, Forgery] | None = None,
        round_of: Callable[[int, int], int] | None = None,
    ) -> None:
        self._outgoing = outgoing
        self._work = executor.work
        self._forgeries = forgeries or {}
        self._round_of = round_of or (lambda node, number: 0)
        self.numbers: dict[tuple[int, int], int] = {}
        hides_user = outgoing.hides(Role.USER).tolist()
        store = executor.store
        self._store: _Sent
        if isinstance(store, UpdateStore):
            self._store = _Updates(store, executor.update_bytes)
        else:
            self._store = _Versions(executor.work, hides_user)

    def prepare(self, program: Program, tasks: I64) -> None:
        """Rewrite for the pushes among some tasks of one wave."""
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

    def _encoded(self, program: Program, task: int, node: int, number: int) -> Payload:
        payload = self._store.leaving(int(program.source[task]), node)
        push = Push(self._work.seed, node, number, self._work.feed.positives[node].copy())
        for name, transform in self._outgoing.rewriting(node):
            base = self._store.base(int(program.source[task]), int(program.base[task]), node)
            shapes = [part.shape for part in payload.parts]
            touched = payload.touched
            own = None if touched is None else touched.copy()  # a policy may write to what it is given
            encoded = transform.encode(replace(payload, touched=own), base, push)
            _check(encoded, shapes, name, push)
            payload = replace(encoded, touched=touched)
        return payload

    def _forged(self, program: Program, task: int, node: int, number: int) -> Payload:
        handle, items = int(program.source[task]), self._work.feed.positives[node].copy()
        push = Push(self._work.seed, node, number, items, self._round_of(node, number))
        change = self._forgeries[node].forge(self._store.whole(handle, node), push)
        return self._store.changed(handle, node, change)


class _Sent(ABC):
    """Where payloads come from and go to."""

    @abstractmethod
    def leaving(self, handle: int, node: int) -> Payload:
        """Return a copy of what would leave of what is under a handle."""

    @abstractmethod
    def base(self, handle: int, base: int, node: int) -> Payload | None:
        """Return a copy of what that was trained from, laid out alike; None: it was not trained since."""

    @abstractmethod
    def whole(self, handle: int, node: int) -> Payload:
        """Return a copy of the version under a handle."""

    @abstractmethod
    def changed(self, handle: int, node: int, change: Change) -> Payload:
        """Return what leaves if that is changed."""

    @abstractmethod
    def keep(self, program: Program, task: int, payload: Payload) -> None:
        """Keep what leaves as the target of a task."""


class _Versions(_Sent):
    """Whole models, in the rows of an arena."""

    def __init__(self, work: Workload, hides_user: list[bool]) -> None:
        self._work, self._hides_user = work, hides_user

    def leaving(self, handle: int, node: int) -> Payload:
        values = self._work.arena.load(np.array([handle]))[0]
        return Payload.of(values, self._work.layout, hides_user=self._hides_user[node])

    def base(self, handle: int, base: int, node: int) -> Payload | None:
        return self.leaving(base, node) if base >= 0 else None

    def whole(self, handle: int, node: int) -> Payload:
        return self.leaving(handle, node)

    def changed(self, handle: int, node: int, change: Change) -> Payload:
        payload = self.leaving(handle, node)
        payload.items[change.items] += change.rows
        return replace(payload, shared=payload.shared + change.shared)

    def keep(self, program: Program, task: int, payload: Payload) -> None:
        arena, layout, only = self._work.arena, self._work.layout, np.array([task])
        row = np.zeros(layout.row_size, np.float32)
        begin = layout.items.start if payload.users is None else 0
        row[begin : layout.shared.stop] = np.concatenate([part.ravel() for part in payload.parts])
        keys = push_keys(program, only, self._work.seed) if arena.is_half else None
        arena.store(program.target[only], row[None], keys)


class _Updates(_Sent):
    """Updates of clients without a model: the rows that they touched; their users' rows never leave."""

    def __init__(self, store: UpdateStore, sizes: dict[tuple[int, int], int] | None) -> None:
        assert sizes is not None, "clients send updates"
        self._store, self._sizes = store, sizes

    def leaving(self, handle: int, node: int) -> Payload:
        held = self._store.held(handle)
        if isinstance(held, Update):
            return Payload(None, held.rows.copy(), held.shared.copy(), held.items)
        return self._rows(held, np.zeros(0, np.int32))

    def base(self, handle: int, base: int, node: int) -> Payload | None:
        held = self._store.held(handle)
        return self._rows(held.base, held.items) if isinstance(held, Update) else None

    def whole(self, handle: int, node: int) -> Payload:
        tables, shared = self._parts(self._store.version(handle))
        return Payload(None, tables.copy(), shared.copy())

    def changed(self, handle: int, node: int, change: Change) -> Payload:
        payload = self._rows(self._store.version(handle), change.items)
        return replace(payload, items=payload.items + change.rows, shared=payload.shared + change.shared)

    def keep(self, program: Program, task: int, payload: Payload) -> None:
        assert payload.touched is not None, "updates say whose rows they hold"
        source = self._store.held(int(program.source[task]))
        told = source.user if isinstance(source, Update) else None
        version = self._store.version(int(program.source[task]))
        update = Update(version, payload.touched, payload.items, payload.shared, told)
        self._store.keep(int(program.target[task]), update)
        # a client that trains before each push has as many of the one as of the other
        self._sizes[int(program.node[task]), int(program.push[task])] = update.size_bytes

    def _rows(self, version: F32, items: np.typing.NDArray[np.int32]) -> Payload:
        tables, shared = self._parts(version)
        return Payload(None, tables[items], shared.copy(), items.copy())

    def _parts(self, version: F32) -> tuple[F32, F32]:
        layout = self._store.layout
        tables, shared = np.split(version, [len(version) - layout.n_shared])
        return tables.reshape(layout.n_items, -1), shared


def _check(payload: Payload, shapes: list[tuple[int, ...]], name: str, push: Push) -> None:
    """Refuse what is no payload of the node's model.

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
