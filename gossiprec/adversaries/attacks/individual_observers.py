"""Single adversaries: momentum models of the rows that their queries need, plain, compiled or stacked."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gossiprec.adversaries.attacks import AttackContext
from gossiprec.adversaries.attacks.fictive_users import FictiveUsers
from gossiprec.adversaries.attacks.observations import KnownDeliveries, MergeDeliveries, Merges, Observations
from gossiprec.adversaries.attacks.targets import TargetItems
from gossiprec.base.arrays import F32, I32, I64
from gossiprec.base.ragged import row_entries
from gossiprec.models.base.kernel_interface import (
    NO_CONTEXT,
    AdversaryQueries,
    BoundKernel,
    ScoreQuery,
    flat_view,
)
from gossiprec.numerics.noise import to_nearest_float16
from gossiprec.numerics.relevance import get_rule, rule_codes
from gossiprec.runs.checkpoint_state import PartialArray

if TYPE_CHECKING:
    from gossiprec.adversaries.attacks.individual_kernels import ObserverMemory


NOT_BUNDLED: tuple[Any, Any] = ((), None)
"""In place of the arrays of merges, their rows and the senders of messages, and what
:meth:`IndividualObservers.bind` returns."""


class IndividualObservers:
    """Momentum models and scores of single adversaries.

    Parameters
    ----------
    context : AttackContext
    targets : TargetItems
    momenta : ndarray of float32, shape (n_momenta,)
    rules : sequence of str
    fictive : FictiveUsers
        The user rows with which victims that hide their own are scored.
    storage : str
        Type of the kept rows: float32 or float16.

    Notes
    -----
    A pair's rows are kept from its first to its last delivery, and only if it has more than one: if all deliveries are
    known ahead, the memory is known before the run and is a fraction of one slot per pair. If deliveries depend on
    the models' values, each pair with a delivery has a slot until the end.

    There are three equivalent forms: compiled with the model's own functions;
    :class:`~gossiprec.adversaries.attacks.individual_observers.StackedObservers`, many messages per call, for models
    without kernels; and the plain :meth:`_observe_plainly`, for tiny runs.
    """

    def __init__(
        self,
        context: AttackContext,
        targets: TargetItems,
        momenta: F32,
        rules: Sequence[str],
        fictive: FictiveUsers,
        storage: str = "float32",
    ) -> None:
        self._storage = storage
        self.scorer, self.context, self.fictive, self.targets = context.scorer, context, fictive, targets
        self.momenta, self.rules = momenta, rules
        layout = self.scorer.layout
        self.small = [replace(layout, n_items=int(n), n_users=1) for n in targets.kept_items.sizes]
        self.lengths = np.array([small.row_size for small in self.small], np.int64)
        n_nodes = len(context.hides_user)
        self.adversary_of = np.full(n_nodes, -1, np.int32)
        self.adversary_of[targets.adversaries] = np.arange(len(targets.adversaries))
        has_inbox = np.zeros(n_nodes, np.bool_) if context.has_inbox is None else context.has_inbox
        self._waits = has_inbox[targets.adversaries]
        self._hides = context.hides_user if context.hides_user.any() else None
        self.latest = np.full(
            (len(momenta), len(rules), len(targets.adversaries), context.n_users), np.nan, np.float32
        )
        self.codes = rule_codes(rules, probabilities=self.scorer.model.predicts_probabilities)
        self._bundled: tuple[Any, ...] = NOT_BUNDLED
        self._weights = np.zeros((0, 0), np.float32)
        if self.scorer.kernels is not None:
            self._weights = self.scorer.kernels.query_weights(targets.items, targets.context)

    def allocate(self, deliveries: KnownDeliveries) -> None:
        """Assign slots and allocate the memory."""
        from gossiprec.adversaries.attacks.individual_kernels import SlotTables, plan_slots

        n_adversaries, n_users = len(self.lengths), self.context.n_users
        self.slot_of = np.full(deliveries.n_messages, -1, np.int32)
        self.seen_before = np.zeros(deliveries.n_messages, np.bool_)
        self._complete = deliveries.complete
        if not deliveries.complete:
            self._slot_at = np.full((n_adversaries, n_users), -1, np.int32)
            self._n_met = np.zeros(n_adversaries, np.int64)
            self._take_memory(np.full(n_adversaries, n_users))
            return
        of_users = deliveries.sender < n_users  # a coordinator sends too, but is no victim
        plan = plan_slots.py_func if self.scorer.is_plain else plan_slots
        self._arrivals = (deliveries.message, self.adversary_of[deliveries.receiver], deliveries.time)
        table = (n_adversaries, n_users)
        used = np.zeros(n_adversaries, np.int64)
        tables = SlotTables(
            np.zeros(table, np.int8), np.full(table, -1, np.int32), np.zeros(table, np.int32),
            np.zeros(n_adversaries, np.int32), used, self.slot_of, self.seen_before,
        )  # fmt: skip
        plan(
            deliveries.message[of_users], deliveries.sender[of_users], deliveries.receiver[of_users], self.adversary_of,
            tables,
        )  # fmt: skip
        self._take_memory(used)

    def extend_deliveries(self, deliveries: KnownDeliveries) -> None:
        """Note the next deliveries: every pair gets the adversary's next slot at its first delivery."""
        adversary = self.adversary_of[deliveries.receiver]
        mine = (adversary >= 0) & (deliveries.sender < self.context.n_users)
        message, sender, adversary = deliveries.message[mine], deliveries.sender[mine], adversary[mine]
        pair = adversary.astype(np.int64) * self._slot_at.shape[1] + sender
        first = np.unique(pair, return_index=True)[1]  # by adversary
        fresh = first[self._slot_at[adversary[first], sender[first]] < 0]
        receiver = adversary[fresh]
        rank = np.arange(len(fresh)) - np.searchsorted(receiver, receiver)
        self._slot_at[receiver, sender[fresh]] = self._n_met[receiver] + rank
        self._n_met += np.bincount(receiver, minlength=len(self._n_met))
        self.slot_of[message] = self._slot_at[adversary, sender]
        self.seen_before[message] = True
        self.seen_before[message[fresh]] = False

    def _take_memory(self, n_slots: I64) -> None:
        """Allocate the given number of slots for each adversary; the system maps a page when it is first written."""
        self.memory_offsets = np.concatenate([[0], np.cumsum(n_slots * self.lengths)])
        n_kept = int((self.momenta > 0).sum())
        self.memory = np.zeros((n_kept, int(self.memory_offsets[-1])), self._storage)
        self._bundled = NOT_BUNDLED

    def warm_up(self) -> None:
        """Compile the loops, if they are compiled."""
        none = np.zeros(0, np.int32)
        self.allocate(KnownDeliveries(none, none, none, np.zeros(0), 0))
        if self.scorer.kernels is not None:
            rows = np.zeros((1, self.scorer.layout.row_size), self.scorer.storage)
            run, arguments = self.bind(rows, Merges.empty(), none, np.zeros(0))
            run(np.zeros(0, np.int64), *arguments)
        elif not self.scorer.is_plain:
            self._stacked.warm_up()

    def state(self, now: float) -> dict[str, Any]:
        """Return momentum models and scores at a report at time `now`, for a checkpoint."""
        self._settle()
        memory = PartialArray(self.memory, functools.partial(self._live, now))
        state = {"memory": memory, "latest": self.latest}
        return state if self._complete else {**state, "slot_at": self._slot_at}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the state that :meth:`state` returned."""
        self.memory, self.latest, self._bundled = state["memory"], state["latest"], NOT_BUNDLED
        if not self._complete:
            self._slot_at = state["slot_at"]
            self._n_met = np.count_nonzero(self._slot_at >= 0, axis=1)

    def export_node_state(self, nodes: I64, *, whole: bool) -> dict[str, Any]:
        """Return copies of the scores of some adversaries, or of their whole state."""
        self._settle()
        some = self.adversary_of[nodes]
        scores = {"latest": self.latest[:, :, some]}
        if not whole:
            return scores
        slots = {} if self._complete else {"slot_at": self._slot_at[some]}
        fictive = {name: value[some] for name, value in self.fictive.state().items()}
        return {**scores, **slots, "fictive": fictive, "memory": self.memory[:, self._places(some)]}

    def import_node_state(self, nodes: I64, state: Mapping[str, Any]) -> None:
        """Take over the state that :meth:`export_node_state` returned."""
        some = self.adversary_of[nodes]
        self.latest[:, :, some] = state["latest"]
        if "memory" not in state:
            return
        self.memory[:, self._places(some)] = state["memory"]
        for name, value in state["fictive"].items():
            getattr(self.fictive, name)[some] = value
        if not self._complete:
            self._slot_at[some] = state["slot_at"]
            self._n_met[some] = np.count_nonzero(state["slot_at"] >= 0, axis=1)

    def _places(self, adversaries: I32) -> I64:
        """Return the memory entries of some adversaries, for any momentum."""
        return row_entries(self.memory_offsets, adversaries.astype(np.int64))[0]

    def _live(self, now: float) -> I64:
        """Return the ranges of memory that will be read again, of all momenta."""
        n_kept, size = self.memory.shape
        slots = self._live_slots(now)
        return np.concatenate([slots + b * size for b in range(n_kept)] or [slots[:0]])

    def _live_slots(self, now: float) -> I64:
        """Return the live ranges of one momentum: of pairs with both past and future deliveries.

        All ranges of adversaries with an inbox are live: deliveries in it may be read later.
        """
        begins = self.memory_offsets[:-1]
        if not self._complete:
            return np.stack([begins, begins + self._n_met * self.lengths], axis=1)
        message, adversary, time = self._arrivals
        later = (self.slot_of[message] >= 0) & ~self._waits[adversary] & (time > now)
        message, adversary = message[later], adversary[later]
        begin_of = begins[adversary] + self.slot_of[message] * self.lengths[adversary]
        first, next_use = np.unique(begin_of, return_index=True)
        held = self.seen_before[message[next_use]]
        of_pairs = np.stack([first, first + self.lengths[adversary[next_use]]], axis=1)[held]
        of_all = np.stack([begins, self.memory_offsets[1:]], axis=1)[self._waits]
        both = np.concatenate([of_pairs, of_all])
        return both[np.argsort(both[:, 0], kind="stable")]

    @property
    def state_bytes(self) -> int:
        """Memory of the kept rows and the latest scores."""
        return self.memory.nbytes + self.latest.nbytes

    def observe(self, seen: Observations) -> None:
        """Process the deliveries that the adversaries among the receivers are about to merge."""
        assert isinstance(seen.raw, MergeDeliveries)
        if self.scorer.kernels is not None:
            about = seen.deliveries
            run, arguments = self.bind(seen.raw.rows, seen.raw.merges, about.sender, about.time)
            run(seen.raw.tasks, *arguments)
        elif self.scorer.is_plain:
            for k in range(len(seen)):
                self._observe_plainly(seen, k)
        else:
            self._stacked.observe(seen)

    def _settle(self) -> None:
        """Score the small models that wait."""
        if "_stacked" in vars(self):
            self._stacked.settle()

    @functools.cached_property
    def _stacked(self) -> StackedObservers:
        return StackedObservers(self)

    def bind(self, rows: Any, merges: Merges, sender_of: I32, time_of: Any) -> BoundKernel:
        """Return the compiled loop over tasks with merges, and its arguments after the tasks."""
        assert self.scorer.kernels is not None
        known, seen = self._bundled, (*merges, rows, sender_of)
        if len(known[0]) != len(seen) or any(a is not b for a, b in zip(known[0], seen, strict=True)):
            # a new plan, or other weights of its merges; several threads may see it
            self._bundled = known = (seen, self._bundle(rows, merges, sender_of, time_of))
        return known[1]

    def _bundle(self, rows: Any, merges: Merges, sender_of: I32, time_of: Any) -> BoundKernel:
        from gossiprec.adversaries.attacks.individual_kernels import Receptions, specialise_kernels

        kernels, targets = self.scorer.kernels, self.targets
        assert kernels is not None
        seen = Receptions(flat_view(rows), merges, sender_of, time_of, self.latest)
        context = next(iter(targets.kept_items.contexts.values()), NO_CONTEXT)
        queries = AdversaryQueries(
            targets.offsets, targets.kept_items.query_rows, context, targets.n_targets, self._weights,
            *self.codes, kernels.room_size,
        )  # fmt: skip
        fictive = self.fictive.kernel_state(), self.fictive.recipe()
        arguments = (seen, self._hides, queries, self.kernel_memory(), *fictive, kernels.sizes)
        return specialise_kernels(type(kernels)).observe_individuals, arguments

    def kernel_memory(self) -> ObserverMemory:
        """Return the memory for compiled loops."""
        from gossiprec.adversaries.attacks.individual_kernels import ObserverMemory

        kept, memory = self.targets.kept_items, self.memory
        if memory.dtype == np.float16:
            memory = memory.view(np.uint16)
        return ObserverMemory(
            self.adversary_of, kept.offsets, kept.items, self.lengths, self.slot_of, self.seen_before, memory,
            self.memory_offsets, self.momenta,
        )  # fmt: skip

    def _observe_plainly(self, seen: Observations, k: int) -> None:
        """Observe delivery number k, for any model: the plain form of the compiled loop."""
        victim, now = int(seen.senders[k]), float(seen.times[k])
        a, message = int(self.adversary_of[seen.receivers[k]]), int(seen.messages[k])
        own = self.client_extras(seen, k)
        if victim >= self.context.n_users:
            return
        model = seen.models(np.array([k]))[0]
        hidden = bool(self.context.hides_user[victim])
        if hidden and self.fictive.due[a] <= now:
            self.fictive.fit(a, model, now)
        for b, vector in enumerate(self._with_momentum(a, message, self._kept_part(a, model, victim))):
            scores = self._scores(a, self._seen_by(a, vector, own) if hidden else vector)
            n = self.targets.n_targets[a]
            for r, rule in enumerate(self.rules):
                score = get_rule(rule, probabilities=self.scorer.model.predicts_probabilities)
                self.latest[b, r, a, victim] = score(scores[None, :n], scores[None, n:])[0]

    def _with_momentum(self, a: int, message: int, fresh: F32) -> Iterator[F32]:
        """Yield the small model of adversary a after a message, for each momentum."""
        slot, length, place = self.slot_of[message], self.lengths[a], 0
        for momentum in self.momenta:
            vector = fresh
            if momentum > 0:
                if slot >= 0:
                    low = self.memory_offsets[a] + slot * length
                    held = self.memory[place, low : low + length]
                    if self.seen_before[message]:
                        vector = held * momentum
                        vector += (np.float32(1.0) - momentum) * fresh
                    held[:] = to_nearest_float16(vector) if held.dtype == np.float16 else vector
                    vector = held.astype(np.float32)
                place += 1
            yield vector

    def _scores(self, a: int, vector: F32) -> F32:
        """Return the scores of adversary a's queries by a small model."""
        targets, kept = self.targets, self.targets.kept_items
        asked = slice(targets.offsets[a], targets.offsets[a + 1])
        query = ScoreQuery(
            self.small[a], vector[None], np.zeros(1, np.int64), np.zeros(1, np.int64),
            np.array([0, asked.stop - asked.start]), kept.query_rows[asked],
            {name: column[asked] for name, column in kept.contexts.items()},
            {name: values[kept[a]] for name, values in self.scorer.model.constants.items()},
        )  # fmt: skip
        return self.scorer.score(query)

    def _kept_part(self, a: int, model: F32, victim: int) -> F32:
        """Return the small model ``[user | kept items | shared]`` of a full row; a hidden user row is zero."""
        vector = self.scorer.layout.extract_submodel(model, self.targets.kept_items[a], victim)
        if self.context.hides_user[victim]:
            vector[self.small[a].users] = 0.0
        return vector

    def _seen_by(self, a: int, vector: F32, own: F32 | None) -> F32:
        """Return a small model with the adversary's own or fictive user row in it."""
        small, seen = self.small[a], vector.copy()
        seen[small.users] = self.fictive.users[a]
        if own is not None:
            seen[small.users], seen[small.shared] = np.split(own, [small.user_width])
        return seen

    def client_extras(self, seen: Observations, k: int) -> F32 | None:
        """Return the receiver's own ``[user | shared]`` after merging delivery k, or None if it is not needed."""
        if not self.fictive.own:
            return None
        layout, node = self.scorer.layout, int(seen.receivers[k])
        first = k - int(seen.merge_order[k])
        own = self._own_of(seen.own_model(first), node)
        for entry in range(first, k + 1):
            keep, sender = seen.keeps[entry], seen.senders[entry]
            if keep < 0:  # an inbox, which is merged after its last delivery
                continue
            travels = layout.n_users > 1 and not self.context.hides_user[sender]
            at = slice(0 if travels else layout.user_width, None)
            received = self._own_of(seen.models(np.array([entry]))[0], node)[at]
            own[at] = received if keep == 0 else keep * own[at] + (1 - keep) * received
        return own

    def _own_of(self, model: F32, node: int) -> F32:
        layout = self.scorer.layout
        user = 0 if layout.n_users == 1 else node * layout.user_width
        return np.concatenate([model[user : user + layout.user_width], model[layout.shared]]).astype(
            np.float32
        )

    def rankings(self) -> Iterator[tuple[int, str, np.float32, I64, F32]]:
        """Yield (0, rule, momentum, adversaries, scores)."""
        self._settle()
        for b, momentum in enumerate(self.momenta):
            for r, rule in enumerate(self.rules):
                yield 0, rule, momentum, self.targets.adversaries, self.latest[b, r]


MIN_ITEMS = 32
"""Number of kept items from which on they are padded to powers of two, so that few sizes of small models occur."""
MAX_BYTES = 32 * 2**20
"""Bytes of small models that may wait to be scored; also the limit of models waiting for a user row to be fitted."""


class StackedObservers:
    """Single adversaries that process many deliveries per call, for models without kernels.

    Compiled loops that serve any model collect and blend rows. The small models wait until there are many, or until a
    ranking or a checkpoint is requested; then the executor scores them in stacks, only the latest of each pair of
    adversary and victim, and compiled rules evaluate the scores: no Python per message. Fictive users are also fitted
    then, many per call; until then the models that they are fitted to are kept.
    """

    def __init__(self, observers: IndividualObservers) -> None:
        self._of = observers
        sizes = np.diff(observers.targets.kept_items.offsets)
        self._padded = np.maximum(2 ** np.ceil(np.log2(np.maximum(sizes, 1))).astype(np.int64), MIN_ITEMS)
        self._layouts = {
            int(size): replace(observers.scorer.layout, n_items=int(size), n_users=1)
            for size in np.unique(self._padded)
        }
        self._width = max((layout.row_size for layout in self._layouts.values()), default=1)
        self._most = max(1, MAX_BYTES // (4 * self._width * len(observers.momenta)))
        self._most_fits = max(1, MAX_BYTES // (4 * observers.scorer.layout.row_size))
        self._adversaries, self._victims, self._waiting_for = (
            np.empty(2 * self._most, np.int64) for _ in range(3)
        )
        self._small = np.empty((2 * self._most, len(observers.momenta), self._width), np.float32)
        self._n_waiting = 0
        self._lock = threading.Lock()
        self._fits: list[tuple[I64, I64, F32]] = []
        self._n_fits = 0
        self._fit_of = np.full(len(sizes), -1)

    def warm_up(self) -> None:
        """Compile the loops."""
        layout = self._of.scorer.layout
        none = np.zeros(0, np.int64)
        rows = np.zeros((1, layout.row_size), self._of.scorer.storage)
        self._collect(rows, none, none, none, none, np.zeros((0, 0), np.float32), self._small[:0])
        self._relevance(np.zeros(0, np.float32), np.zeros(1, np.int64), none)

    def observe(self, seen: Observations) -> None:
        """Process the deliveries that the adversaries among the receivers are about to merge."""
        of_users = np.flatnonzero(seen.senders < self._of.context.n_users)
        with self._lock:  # compiled training calls it in several threads, each with adversaries of its own
            for some in self._passes(seen, of_users):
                for low in range(0, len(some), self._most):
                    self._observe(seen, some[low : low + self._most])

    def _passes(self, seen: Observations, ks: I64) -> Iterator[I64]:
        """Yield groups of deliveries that can be processed together.

        A fictive user may be refitted between two deliveries of one merge, so they are then processed one by one.
        """
        if not self._of.context.hides_user[seen.senders[ks]].any():
            yield ks
            return
        place = seen.merge_order[ks]
        for number in range(int(place.max(initial=-1)) + 1):
            yield ks[place == number]

    def _observe(self, seen: Observations, ks: I64) -> None:
        of = self._of
        victims = seen.senders[ks].astype(np.int64)
        adversaries = of.adversary_of[seen.receivers[ks]].astype(np.int64)
        hidden = np.flatnonzero(of.context.hides_user[victims])
        fits = self._begin_fits(seen, ks, adversaries, hidden)
        own = np.zeros((0, 0), np.float32)
        if of.fictive.own and len(hidden):
            own = np.stack([part for k in ks if (part := of.client_extras(seen, int(k))) is not None])
        rows, messages = seen.rows[ks].astype(np.int64), seen.messages[ks].astype(np.int64)
        some = slice(self._n_waiting, self._n_waiting + len(ks))
        self._adversaries[some], self._victims[some], self._waiting_for[some] = adversaries, victims, fits
        self._collect(seen.raw.rows, rows, adversaries, victims, messages, own, self._small[some])
        self._n_waiting += len(ks)
        if self._n_waiting >= self._most:
            self.settle()
        elif self._n_fits >= self._most_fits:
            self._finish_fits()

    def _begin_fits(self, seen: Observations, ks: I64, adversaries: I64, hidden: I64) -> I64:
        """Start the fits that are due, and return the waiting fit for each delivery as an index, -1 for none."""
        of, frozen = self._of, slice(self._of.scorer.layout.items.start, self._of.scorer.layout.shared.stop)
        late = hidden[of.fictive.due[adversaries[hidden]] <= seen.times[ks[hidden]]]
        for some in (late[low : low + self._most_fits] for low in range(0, len(late), self._most_fits)):
            owners = adversaries[some]  # each once
            numbers = of.fictive.begin(owners, seen.times[ks[some]])
            self._fit_of[owners] = self._n_fits + np.arange(len(owners))
            self._fits.append((owners, numbers, seen.models(ks[some])[:, frozen]))
            self._n_fits += len(owners)
        fits = np.full(len(ks), -1)
        fits[hidden] = self._fit_of[adversaries[hidden]]
        return fits

    def _finish_fits(self) -> None:
        """Fit the user rows that wait, and write them into the small models that wait for them."""
        of, width = self._of, self._of.scorer.layout.user_width
        owners, numbers, frozen = (np.concatenate(parts) for parts in zip(*self._fits, strict=True))
        users = of.fictive.fitted(owners, numbers, lambda some: frozen[some])
        fits = self._waiting_for[: self._n_waiting]
        self._small[: self._n_waiting][fits >= 0, :, :width] = users[fits[fits >= 0], None]
        fits[:] = -1
        of.fictive.users[owners] = users  # the last one, if an adversary has several
        self._fits, self._n_fits = [], 0
        self._fit_of[:] = -1

    def settle(self) -> None:
        """Score all small models that wait."""
        if not self._n_waiting:
            return
        if self._fits:
            self._finish_fits()
        of, n = self._of, self._n_waiting
        adversaries, victims, small = self._adversaries[:n], self._victims[:n], self._small[:n]
        self._n_waiting = 0
        pair = adversaries * of.context.n_users + victims
        latest = n - 1 - np.unique(pair[::-1], return_index=True)[1]
        if len(latest) < n:
            adversaries, victims, small = adversaries[latest], victims[latest], small[latest]
        found = self._scored(small.reshape(-1, self._width), adversaries)
        for b in range(len(of.momenta)):
            of.latest[b, :, adversaries, victims] = found[b :: len(of.momenta)]

    def _collect(
        self, rows: F32, row: I64, adversaries: I64, victims: I64, messages: I64, own: F32, small: F32
    ) -> None:
        """Fill the small models of the adversaries after some deliveries, shape (n, n_momenta, width)."""
        from gossiprec.adversaries.attacks.ranking_kernels import (
            RowParts,
            StackedReceptions,
            collect_submodels,
        )

        of = self._of
        small[...] = 0.0
        seen = StackedReceptions(
            flat_view(rows), row, adversaries, victims, messages, of.context.hides_user, own, of.fictive.users
        )
        collect_submodels(seen, of.kernel_memory(), self._padded, small, RowParts.of(of.scorer.layout))

    def _scored(self, small: F32, adversaries: I64) -> F32:
        """Return the relevance of small models to their adversaries by every rule, shape (n_models, n_rules)."""
        of, kept = self._of, self._of.targets.kept_items
        owners = adversaries.repeat(len(of.momenta))
        found = np.empty((len(small), len(of.rules)), np.float32)
        for size, layout in self._layouts.items():
            some = np.flatnonzero(self._padded[owners] == size)
            if not len(some):
                continue
            counts = np.diff(of.targets.offsets)[owners[some]]
            offsets = np.concatenate([[0], np.cumsum(counts)])
            asked = np.repeat(of.targets.offsets[owners[some]] - offsets[:-1], counts) + np.arange(
                offsets[-1]
            )
            query = ScoreQuery(
                layout, np.ascontiguousarray(small[some, : layout.row_size]), np.arange(len(some)),
                np.zeros(len(some), np.int64), offsets, kept.query_rows[asked],
                {name: column[asked] for name, column in kept.contexts.items()},
                self._constants(owners[some], size),
            )  # fmt: skip
            found[some] = self._relevance(of.scorer.score(query), offsets, owners[some])
        return found

    def _constants(self, owners: I64, size: int) -> dict[str, F32]:
        """Return the model's constants for the kept items of each adversary, shape (n, size, ...)."""
        kept, constants = self._of.targets.kept_items, self._of.scorer.model.constants
        if not constants:
            return {}
        local = np.minimum(np.arange(size), np.diff(kept.offsets)[owners][:, None] - 1)
        items = kept.items[kept.offsets[owners][:, None] + np.maximum(local, 0)]
        return {name: values[items] for name, values in constants.items()}

    def _relevance(self, scores: F32, offsets: I64, owners: I64) -> F32:
        from gossiprec.adversaries.attacks.ranking_kernels import apply_relevance_rules

        found = np.empty((len(owners), len(self._of.rules)), np.float32)
        apply_relevance_rules(scores, offsets, self._of.targets.n_targets[owners], *self._of.codes, found)
        return found
