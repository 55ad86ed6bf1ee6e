"""The store of clients that keep no model: versions by reference, and updates as the rows that they touch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from gossiprec.base.arrays import (
    F32,
    F64,
    I32,
    I64,
    U32,
    Bools,
    are_all_finite,
)
from gossiprec.compute.plan.program import PoolDeliveries
from gossiprec.compute.store import Handles, ScoringView, Store, UpdateRows
from gossiprec.compute.store.received_versions import ReceivedVersions
from gossiprec.compute.store.update import (
    Payload,
    ReceivedChanges,
    ReceivedModels,
    Update,
    full_model,
    pack_updates,
    unpack_updates,
)
from gossiprec.federated import PersonalModels
from gossiprec.models.base import BlockRole, Layout, Model
from gossiprec.numerics.buffer_pool import BufferPool
from gossiprec.rules.aggregators import Inbox
from gossiprec.rules.servers import CALLING_THREAD, USER_ROWS, Extras

if TYPE_CHECKING:
    from gossiprec.compute.plan.planner import Planner

NOTHING: Extras = {}
SHOWN = 2**24
"""Numbers in the whole models that are built at once for observers."""


Mixture: TypeAlias = Callable[[I64, F32, Extras], PersonalModels | None]
"""The function that gives clients' personal models: :meth:`gossiprec.federated.Recommender.personal_models`."""


class _ByHandle:
    """Payloads read as rows of whole models, which are built when they are read."""

    def __init__(self, load: Callable[[I64], F32]) -> None:
        self._load = load

    def __getitem__(self, at: tuple[Handles, Any]) -> F32:
        places, columns = at
        handles, back = np.unique(places, return_inverse=True)
        rows = self._load(handles.astype(np.int64))
        return rows[back.reshape(np.shape(places)), columns]


class UpdateStore(Store):
    """Versions and updates by handle, and each client's user row and private weights with their moments.

    Nothing here has the size of clients times items. A version lives as long as a handle or an update refers to it.

    Parameters
    ----------
    model : Model
    layout : Layout
    n_nodes : int
        Clients, then the coordinator.
    seed : int
    moments : bool
        Whether nodes have Adam moments.
    user_upload_width : int
        Numbers in the user upload that a client sends with an update; 0 if it sends none.

    Attributes
    ----------
    own : ndarray of float32, shape (n_clients, user_width + n_private)
        Each client's user row and private weights.
    first, second : ndarray of float32, shape (n_clients, user_width + n_private) or (0, ...)
        Adam's moments of these.
    steps : ndarray of int64, shape (n_nodes,)
        Optimizer steps taken.
    mixture : callable or None
        The function that gives clients' personal models, or None if all use the coordinator's current version.
    own_extras : frozenset of str
        Names of the coordinator's extras that have a row for each client.
    received : ReceivedVersions or None
        The versions that clients received last, or None if they are not kept.
    """

    def __init__(
        self,
        model: Model,
        layout: Layout,
        *,
        n_nodes: int,
        seed: int,
        moments: bool,
        user_upload_width: int = 0,
    ) -> None:
        self.layout, self.n_nodes, self.user_upload_width = layout, n_nodes, user_upload_width
        self.own: F32 = np.concatenate(model.initial_own(layout, n_nodes - 1, seed), axis=1)
        self.first, self.second = (np.zeros_like(self.own[: moments * n_nodes]) for _ in range(2))
        self.steps = np.zeros(n_nodes, np.int64)
        self._memory = BufferPool()
        common = model.initial_rows(layout, 1, seed)[0, layout.merged].copy()
        self._held: dict[int, Payload] = {}
        self._common = common  # the version under all other handles
        self._extras: dict[int, Extras] = {}
        self.rows = UpdateRows(*map(_ByHandle, (self.load, self._load_bases, self._load_uploads)))
        self.mixture: Mixture | None = None
        self.own_extras: frozenset[str] = frozenset()
        self.received: ReceivedVersions | None = None

    def set_first_models(self, start: Callable[[F32, F32], tuple[F32, F32]]) -> None:
        """Replace the common version and the users' rows by the output of `start`, before the run begins."""
        width = self.layout.user_width
        self._common, self.own[:, :width] = start(self._common, self.own[:, :width].copy())

    @property
    def is_half(self) -> bool:
        """Whether versions are kept in float16: always False."""
        return False

    def version(self, handle: int) -> F32:
        """Return the version, ``[items | shared]``, under a handle, or the base of the update there."""
        held = self.payload(handle)
        return held.base if isinstance(held, Update) else held

    def payload(self, handle: int) -> Payload:
        """Return the payload under a handle; it must not be changed."""
        return self._held.get(handle, self._common)

    def attach_extras(self, handle: int, extras: Extras) -> None:
        """Keep the extras that the coordinator sends with the version under a handle."""
        self._extras[handle] = extras

    def extras(self, handle: int) -> Extras:
        """Return the extras that the coordinator sent with the version under a handle."""
        return self._extras.get(handle, NOTHING)

    def adopt_sent_user_rows(self, tasks: Iterable[tuple[int, int]]) -> None:
        """Set clients' user rows to those that they were sent, if the coordinator keeps the users' rows.

        Parameters
        ----------
        tasks : iterable of (int, int)
            A node, and the handle of the version that it was sent.
        """
        for node, sent in tasks:
            rows = self.extras(sent).get(USER_ROWS)
            if rows is not None:
                self.own[node, : self.layout.user_width] = rows[node]

    def _own_of(self, current: I64, clients: I64) -> F32:
        """Return the own parts of some clients; user rows come from the coordinator if it keeps them."""
        own, rows = self.own[clients], self.extras(int(current[-1])).get(USER_ROWS)
        if rows is not None:
            own[:, : self.layout.user_width] = rows[clients]
        return own

    def store_payload(self, handle: int, payload: Payload) -> None:
        """Keep a payload under a handle."""
        self._held[handle] = payload

    def load(self, handles: Handles) -> F32:
        """Return whole models; private weights and user rows that were not uploaded are zero."""
        rows = np.zeros((len(handles), self.layout.row_size), np.float32)
        for row, handle in zip(rows, handles.tolist(), strict=True):
            held = self.payload(handle)
            row[self.layout.merged] = full_model(held)
            if isinstance(held, Update) and held.user is not None and self.layout.user_width:
                row[self.layout.users] = held.user
        return rows

    def uploaded_users(self, handles: Handles) -> F32 | None:
        """Return the user uploads, NaN if a client sent none, or None if no client sent one."""
        unknown = np.full(self.user_upload_width, np.nan, np.float32)
        held = [self.payload(handle) for handle in handles.tolist()]
        uploads = [each.user if isinstance(each, Update) else None for each in held]
        if all(row is None for row in uploads):
            return None
        return np.stack([unknown if row is None else row for row in uploads])

    def _load_uploads(self, handles: Handles) -> F32:
        """Return the user uploads that came with updates, NaN if there is none, shape (n, user_upload_width)."""
        uploads = self.uploaded_users(handles)
        return (
            np.full((len(handles), self.user_upload_width), np.nan, np.float32)
            if uploads is None
            else uploads
        )

    def _load_bases(self, handles: Handles) -> F32:
        """Return the versions from which updates were made, as whole models, shape (n, row_size)."""
        rows = np.zeros((len(handles), self.layout.row_size), np.float32)
        for row, handle in zip(rows, handles.tolist(), strict=True):
            row[self.layout.merged] = self.version(handle)
        return rows

    def store(self, handles: Handles, values: F32, keys: U32 | None) -> None:
        """Store versions under handles."""
        for handle, row in zip(handles.tolist(), values, strict=True):
            self._held[handle] = row[self.layout.merged].copy()

    def merged_columns(self, handle: int) -> F32:
        """Return a model, ``[items | shared]``; of a version, the version itself."""
        return full_model(self.payload(handle))

    def store_merged(self, target: int, source: int, values: F32, keys: U32 | None) -> None:
        """Store a version under a handle."""
        self._held[target] = self._memory.copy(values)

    def are_finite(self, handles: Handles, nodes: I32) -> Bools:
        """Return whether each update, and its client's own part, is finite."""
        held = [self.payload(handle) for handle in handles.tolist()]
        updates = [each for each in held if isinstance(each, Update)]
        assert len(updates) == len(held), "trained models are updates"
        found: Bools = np.asarray(np.isfinite(self.own[nodes]).all(axis=1))
        with np.errstate(over="ignore", invalid="ignore"):
            sums = np.array([np.vdot(a, a) + np.vdot(b, b) for a, b in ((u.rows, u.shared) for u in updates)])
        for place in np.flatnonzero(~np.isfinite(sums)):  # finite sums of squares nearly always decide it
            found[place] &= are_all_finite(updates[place].rows) and are_all_finite(updates[place].shared)
        return found

    def inbox(self, handles: Handles, weights: F64, own_weight: float) -> Inbox:
        """Return updates, both as changes and as whole models."""
        updates = self._received(handles)
        models = ReceivedModels(updates, self.n_columns, self.threads, self._memory)
        changes = ReceivedChanges(updates, self.threads, self._memory)
        return Inbox(models, np.arange(len(updates)), weights, own_weight, changes)

    def inbox_copy(self, handles: Handles, weights: F64, own_weight: float) -> Inbox:
        """Return a copy of :meth:`inbox`, without user uploads."""
        versions: dict[int, F32] = {}
        copies = []
        for update in self._received(handles):
            base = versions.get(id(update.base))
            if base is None:
                base = versions[id(update.base)] = np.array(update.base)
            copies.append(Update(base, update.items.copy(), np.array(update.rows), np.array(update.shared)))
        memory = BufferPool()
        models = ReceivedModels(copies, self.n_columns, CALLING_THREAD, memory)
        changes = ReceivedChanges(copies, CALLING_THREAD, memory)
        return Inbox(models, np.arange(len(copies)), weights.copy(), own_weight, changes)

    def _received(self, handles: Handles) -> list[Update]:
        held = [self.payload(handle) for handle in handles.tolist()]
        updates = [each for each in held if isinstance(each, Update)]
        assert len(updates) == len(held), "clients answer with updates"
        return updates

    def iter_pool_rows(
        self, pool_deliveries: PoolDeliveries, first: int, last: int
    ) -> Iterator[tuple[F32, PoolDeliveries, int, int]]:
        """Yield pool deliveries with their whole models, in blocks of a few models."""
        size = max(1, SHOWN // self.layout.row_size)
        for low in range(first, last, size):
            some = slice(low, min(low + size, last))
            place = np.arange(some.stop - low, dtype=np.int32)
            pool, victim, message = (
                getattr(pool_deliveries, name)[some] for name in ("pool", "victim", "message")
            )
            yield (
                self.load(pool_deliveries.row[some]),
                PoolDeliveries(pool, victim, place, message),
                0,
                len(place),
            )

    def models(self, current: I64, nodes: I64) -> F32:
        """Return each node's own part with the coordinator's current version, or with the one that it received."""
        if self.received is not None and self.received.shown:
            return self.received.rows(nodes)
        rows = self.load(current[np.full(len(nodes), self.n_nodes - 1)])
        clients = nodes < self.n_nodes - 1
        rows[np.ix_(clients, self.own_columns(self.layout))] = self._own_of(current, nodes[clients])
        return rows

    def scoring_view(self, current: I64, users: I64) -> ScoringView:
        """Return one row: the user rows of the given users, then the coordinator's current version.

        If nodes have private weights, each has a row; if they use personal models, each personal model has a row.
        """
        alone = np.zeros(len(users), np.int64)
        if self.received is not None and self.received.shown:
            return ScoringView(self.layout, self.received.personal_rows(users), np.arange(len(users)), alone)
        personal = self._personal(current, users)
        if personal is not None:
            return self._personal_view(personal, current, users)
        if self.layout.blocks_of_role(BlockRole.PRIVATE):
            return ScoringView(self.layout, self.models(current, users), np.arange(len(users)), alone)
        layout = replace(self.layout, n_users=len(users))
        row = np.zeros((1, layout.row_size), np.float32)
        row[0, layout.users] = self._own_of(current, users).ravel()
        row[0, layout.items.start : layout.shared.stop] = self.version(int(current[-1]))
        return ScoringView(layout, row, alone, np.arange(len(users)), together=True)

    def _personal(self, current: I64, users: I64) -> PersonalModels | None:
        """Return the personal models of some users, or None if all use the current version."""
        if self.mixture is None:
            return None
        handle = int(current[-1])
        return self.mixture(users, self.version(handle), self.extras(handle))

    def _personal_view(self, personal: PersonalModels, current: I64, users: I64) -> ScoringView:
        """Return a row for each personal version, and one for each user who trained the current version.

        A row has room for as many users as share a row: with models of their own, for one.
        """
        present, of = self.version(int(current[-1])), personal.of.copy()
        held = [self._held.get(handle) for handle in current[users].tolist()]
        own = [place for place, each in enumerate(held) if personal.local and _is_of(each, present)]
        n, width = len(personal.versions), self.layout.user_width
        of[own] = n + np.arange(len(own))
        user, order = np.empty(len(users), np.int64), np.argsort(of, kind="stable")
        counts = np.bincount(of, minlength=n)
        user[order] = np.arange(len(users)) - (np.cumsum(counts) - counts)[of[order]]
        layout = replace(self.layout, n_users=max(1, int(counts.max())))
        rows = np.zeros((n + len(own), layout.row_size), np.float32)
        at = user[:, None] * width + np.arange(width)
        rows[of[:, None], layout.users.start + at] = self._own_of(current, users)[:, :width]
        models = rows[:, layout.items.start : layout.shared.stop]
        models[:n] = personal.versions
        for row, place in enumerate(own, n):
            models[row] = personal.versions[personal.of[place]]
            held[place].add_change_to(models[row], personal.local)  # type: ignore[union-attr]
        is_common = len(rows) == 1 and not personal.local
        return ScoringView(layout, rows, of, user, together=is_common)

    def drop_unneeded(self, planner: Planner) -> None:
        """Drop versions that are no longer referenced, and updates that all receivers have read.

        A client without an update has no model until it is sent the next version: the coordinator's current version
        takes its place. If clients use personal models, their updates of the current version are kept while it is
        current.
        """
        kept = {handle: self.payload(handle) for handle in planner.busy_rows.tolist()}
        needed = planner.is_needed
        self._extras = {handle: extras for handle, extras in self._extras.items() if needed(handle)}
        present = self.version(planner.current_row(self.n_nodes - 1))
        if self.mixture is not None:
            of_present = {handle: held for handle, held in self._held.items() if _is_of(held, present)}
            kept |= {handle: held for handle, held in of_present.items() if needed(handle)}
        self._held, self._common = kept, present

    def discard(self, rows: I64) -> None:
        """Replace the updates under some handles by their versions."""
        self._held |= {handle: self.version(handle) for handle in rows.tolist() if handle in self._held}

    @staticmethod
    def own_columns(layout: Layout) -> I64:
        """Return the columns of a row that a client keeps, in the order of :attr:`own`."""
        user, private = layout.users, layout.private
        return np.concatenate([np.arange(user.start, user.stop), np.arange(private.start, private.stop)])

    @property
    def n_columns(self) -> int:
        """The number of columns of a version."""
        return self.layout.n_items * self.layout.item_width + self.layout.n_shared

    def state(self, needed: I64) -> dict[str, Any]:
        """Return the payloads, with each version once, and the clients' own parts, for a checkpoint."""
        held = [self.payload(handle) for handle in needed.tolist()]
        numbers: dict[int, int] = {}
        bases = [self.version(handle) for handle in needed.tolist()]
        version = np.array([numbers.setdefault(id(base), len(numbers)) for base in bases], np.int64)
        first = np.unique(version, return_index=True)[1]
        updates = [each for each in held if isinstance(each, Update)]
        return {
            "needed": needed,
            "version": version,
            "versions": np.array([bases[at] for at in first], np.float32).reshape(-1, self.n_columns),
            "is_update": np.array([isinstance(each, Update) for each in held], np.bool_),
            **pack_updates(updates, self.layout, self.user_upload_width),
            **self._extras_state(needed),
            **{name: getattr(self, name) for name in ("own", "first", "second", "steps")},
        }

    def _extras_state(self, needed: I64) -> dict[str, Any]:
        """Return the extras of versions, each once, and the handles to which they belong."""
        held = {handle: self._extras[handle] for handle in needed.tolist() if handle in self._extras}
        numbers: dict[int, int] = {}
        of = {str(handle): numbers.setdefault(id(extras), len(numbers)) for handle, extras in held.items()}
        extras = {str(numbers[id(extras)]): dict(extras) for extras in held.values()}
        return {"extras_of": of, "extras": extras}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a :meth:`state`."""
        versions, needed, is_update = list(state["versions"]), state["needed"], state["is_update"]
        bases = [versions[at] for at in state["version"].tolist()]
        self._held = dict(zip(needed.tolist(), bases, strict=True))
        made_from = [bases[at] for at in np.flatnonzero(is_update).tolist()]
        self._held |= dict(zip(needed[is_update].tolist(), unpack_updates(state, made_from), strict=True))
        self._extras = {int(handle): state["extras"][str(at)] for handle, at in state["extras_of"].items()}
        for name in ("own", "first", "second", "steps"):
            getattr(self, name)[...] = state[name]

    def continue_from(self, ended: UpdateStore, current: I64) -> None:
        """Begin with the coordinator's version, the clients' own parts, moments and steps of another run."""
        self._held, self._common = {}, ended.version(int(current[-1])).copy()
        for name in ("own", "first", "second", "steps"):
            getattr(self, name)[...] = getattr(ended, name)


def _is_of(payload: Payload | None, version: F32) -> bool:
    """Return whether a payload is an update of this very version."""
    return isinstance(payload, Update) and payload.base is version
