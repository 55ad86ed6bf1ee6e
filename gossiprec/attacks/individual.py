"""Single adversaries: each keeps, of every victim, the few rows its target and reference items need."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gossiprec.arrays import F32, I64
from gossiprec.attacks.base import Meetings, World
from gossiprec.attacks.fictive import FictiveUsers
from gossiprec.attacks.relevance import rule_code, rule_named
from gossiprec.attacks.targets import TargetItems
from gossiprec.compute.plan.program import Program
from gossiprec.eventlog.checkpoints import Live


class IndividualObservers:
    """Momentum models and scores of single adversaries.

    Parameters
    ----------
    world : World
    targets : TargetItems
    momenta : ndarray of float32, shape (n_momenta,)
    rules : sequence of str
    fictive : FictiveUsers
        What to look with at victims that hide their user row.

    Notes
    -----
    A pair's rows are kept from its first to its last meeting, and only if there is more than one: with all meetings
    known ahead, the memory is known before the run and is a fraction of one slot per pair. Where meetings depend on
    the models' values, each pair that meets has a slot until the end.
    """

    def __init__(
        self,
        world: World,
        targets: TargetItems,
        momenta: F32,
        rules: Sequence[str],
        fictive: FictiveUsers,
    ) -> None:
        self._world = world
        self._fictive = fictive
        self._targets = targets
        self._momenta = momenta
        self._rules = rules
        n_adversaries = len(targets.adversaries)
        layout = world.executor.work.layout
        self._moves = world.moves is not None
        self._layouts = [replace(layout, n_items=int(n), n_users=1) for n in np.diff(targets.kept.offsets)]
        self._lengths = np.array([small.row_size for small in self._layouts], np.int64)
        self._adversary_of = np.full(layout.n_users + world.n_users + 1, -1, np.int32)
        self._adversary_of[targets.adversaries] = np.arange(n_adversaries)
        shape = (len(momenta), len(rules), n_adversaries, world.n_users)
        self._latest = np.full(shape, np.nan, np.float32)
        if self._moves and world.compiled:
            model = world.executor.work.model
            assert model.places is not None
            self._weights = targets.weights(model.places, model.options.alpha)

    def foresee(self, meetings: Meetings) -> None:
        """Assign slots and take the memory."""
        from gossiprec.attacks import cda_kernels

        n_adversaries, n_nodes = len(self._lengths), self._world.n_users
        self._slot_of = np.full(meetings.n_messages, -1, np.int32)
        self._seen_before = np.zeros(meetings.n_messages, np.bool_)
        self._sender_of = np.zeros(meetings.n_messages, np.int32)
        self._time_of = np.zeros(meetings.n_messages)
        self._complete = meetings.complete
        if not meetings.complete:
            self._slot_at = np.full((n_adversaries, n_nodes), -1, np.int32)
            self._n_met = np.zeros(n_adversaries, np.int32)
            self._take_memory(np.full(n_adversaries, n_nodes))
            return
        of_users = meetings.sender < n_nodes  # a coordinator sends too, but is nobody's victim
        plan = cda_kernels.plan_slots if self._world.compiled else cda_kernels.plan_slots.py_func
        self._time_of[meetings.message] = meetings.time
        self._sender_of[meetings.message] = meetings.sender
        self._arrivals = (meetings.message, self._adversary_of[meetings.receiver])
        table = (n_adversaries, n_nodes)
        n_free, used = np.zeros(n_adversaries, np.int32), np.zeros(n_adversaries, np.int64)
        plan(
            meetings.message[of_users], meetings.sender[of_users], meetings.receiver[of_users], self._adversary_of,
            np.zeros(table, np.int8), np.full(table, -1, np.int32), np.zeros(table, np.int32),
            n_free, used, self._slot_of, self._seen_before,
        )  # fmt: skip
        self._take_memory(used)

    def announce(self, meetings: Meetings) -> None:
        """Learn of the next deliveries: every pair has a slot of its own, the adversary's next, from its first on."""
        adversary = self._adversary_of[meetings.receiver]
        mine = (adversary >= 0) & (meetings.sender < self._world.n_users)
        message, sender, adversary = meetings.message[mine], meetings.sender[mine], adversary[mine]
        self._sender_of[meetings.message] = meetings.sender
        self._time_of[meetings.message] = meetings.time
        pair = adversary.astype(np.int64) * self._slot_at.shape[1] + sender
        first = np.unique(pair, return_index=True)[1]  # by adversary
        fresh = first[self._slot_at[adversary[first], sender[first]] < 0]
        whose = adversary[fresh]
        rank = np.arange(len(fresh)) - np.searchsorted(whose, whose)
        self._slot_at[whose, sender[fresh]] = self._n_met[whose] + rank
        self._n_met += np.bincount(whose, minlength=len(self._n_met)).astype(np.int32)
        self._slot_of[message] = self._slot_at[adversary, sender]
        self._seen_before[message] = True
        self._seen_before[message[fresh]] = False

    def _take_memory(self, n_slots: I64) -> None:
        """Take as many slots for each adversary; a page of memory is taken when it is first written."""
        self._memory_offsets = np.concatenate([[0], np.cumsum(n_slots * self._lengths)])
        n_kept = int((self._momenta > 0).sum())
        self._memory = np.zeros((n_kept, int(self._memory_offsets[-1])), np.float32)

    def state(self, now: float) -> dict[str, Any]:
        """Return momentum models and scores at a report at time `now`, for a checkpoint."""
        memory = Live(self._memory, functools.partial(self._live, now))
        state = {"memory": memory, "latest": self._latest}
        return state if self._complete else {**state, "slot_at": self._slot_at, "n_met": self._n_met}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state` gave."""
        self._memory, self._latest = state["memory"], state["latest"]
        if not self._complete:
            self._slot_at, self._n_met = state["slot_at"], state["n_met"]

    def _live(self, now: float) -> I64:
        """Return the stretches of memory that will be read again, of all momenta."""
        n_kept, size = self._memory.shape
        return np.concatenate(
            [self._live_slots(now) + b * size for b in range(n_kept)] or [np.zeros((0, 2), np.int64)]
        )

    def _live_slots(self, now: float) -> I64:
        """Return those of one momentum: of pairs that have met and are to meet again."""
        begins = self._memory_offsets[:-1]
        if not self._complete:
            return np.stack([begins, begins + self._n_met * self._lengths], axis=1)
        message, adversary = self._arrivals
        later = (self._time_of[message] > now) & (self._slot_of[message] >= 0)
        message, adversary = message[later], adversary[later]
        first = begins[adversary] + self._slot_of[message] * self._lengths[adversary]
        first, next_use = np.unique(first, return_index=True)
        held = self._seen_before[message[next_use]]
        return np.stack([first, first + self._lengths[adversary[next_use]]], axis=1)[held]

    @property
    def state_bytes(self) -> int:
        """Memory of the kept rows and the latest scores."""
        return self._memory.nbytes + self._latest.nbytes

    def observe(self, rows: F32, program: Program, tasks: I64) -> None:
        """See what the adversaries among the receivers are about to merge."""
        if self._world.compiled:
            return self._observe_compiled(rows, program, tasks)
        for task in tasks:
            a = self._adversary_of[program.node[task]]
            if a >= 0:
                own = None
                if self._fictive.own:
                    own = self._own_part(program.node[task], rows[program.source[task]])
                for merge in range(program.merge_offsets[task], program.merge_offsets[task + 1]):
                    row, message = rows[program.merge_row[merge]], program.merge_message[merge]
                    if own is not None:
                        self._merge_own(own, program.node[task], row, abs(program.merge_keep[merge]), message)
                    self._observe_one(a, row, message, own)
        return None

    def _observe_compiled(self, rows: F32, program: Program, tasks: I64) -> None:
        from gossiprec.attacks import individual_kernels

        layout, targets = self._world.executor.work.layout, self._targets
        codes, thresholds = zip(*map(rule_code, self._rules), strict=True)
        if self._moves:
            return self._observe_moves(rows, program, tasks, np.array(codes))
        individual_kernels.observe_individuals(
            rows, tasks, program.node, program.source, program.merge_offsets, program.merge_row, program.merge_keep,
            program.merge_message, self._sender_of, self._time_of, self._world.hides_user,
            self._adversary_of, targets.offsets, targets.items, targets.n_targets, self._lengths,
            self._slot_of, self._seen_before, self._memory, self._memory_offsets, self._momenta,
            np.array(codes), np.array(thresholds, np.float32), self._fictive.kernel_state(), self._latest,
            layout.n_items, layout.n_users, (0,) * layout.user_width,
        )  # fmt: skip
        return None

    def _observe_moves(self, rows: F32, program: Program, tasks: I64, rules: I64) -> None:
        from gossiprec.attacks import moves_kernels
        from gossiprec.compute.executors.prme_calls import flat

        layout, targets, kept = self._world.executor.work.layout, self._targets, self._targets.kept
        moves_kernels.observe_individuals(
            flat(rows), layout.row_size, tasks, program.node, program.source, program.merge_offsets,
            program.merge_row, program.merge_keep, program.merge_message, self._sender_of, self._time_of,
            self._world.hides_user, self._adversary_of, targets.offsets, targets.n_targets,
            (kept.offsets, kept.items, kept.asked, kept.contexts), self._weights, self._lengths,
            self._slot_of, self._seen_before, self._memory, self._memory_offsets, self._momenta,
            rules, self._fictive.kernel_state(), self._fictive.recipe(), self._latest, layout.n_users,
            (0,) * layout.user_width,
        )  # fmt: skip

    def _observe_one(self, a: int, row: F32, message: int, own: F32 | None) -> None:
        """Observe one message, for any model: the plain form of the compiled loop."""
        victim, slot, small = self._sender_of[message], self._slot_of[message], self._layouts[a]
        if victim >= self._world.n_users:
            return
        hidden, now = self._world.hides_user[victim], self._time_of[message]
        if hidden and self._fictive.due[a] <= now:
            self._fictive.fit(a, row, now)
        fresh = self._kept_part(a, row, victim)
        place = 0
        for b, momentum in enumerate(self._momenta):
            vector = fresh
            if momentum > 0:
                if slot >= 0:
                    low = self._memory_offsets[a] + slot * small.row_size
                    held = self._memory[place, low : low + small.row_size]
                    if self._seen_before[message]:
                        held *= momentum
                        held += (np.float32(1.0) - momentum) * fresh
                    else:
                        held[:] = fresh
                    vector = held
                place += 1
            if hidden:
                vector = self._seen_by(a, vector, own)
            scores = self._scores(a, vector)
            n = self._targets.n_targets[a]
            for r, rule in enumerate(self._rules):
                score = rule_named(rule, moves=self._moves)
                self._latest[b, r, a, victim] = score(scores[None, :n], scores[None, n:])[0]

    def _scores(self, a: int, vector: F32) -> F32:
        """Return the scores of all that adversary a asks about by a small model."""
        work, targets, kept = self._world.executor.work, self._targets, self._targets.kept
        asked = slice(targets.offsets[a], targets.offsets[a + 1])
        where = None
        if self._moves and work.model.places is not None:
            where = work.model.places[kept.items[kept.offsets[a] : kept.offsets[a + 1]]]
        return self._world.executor.scores(
            self._layouts[a], vector[None], np.zeros(1, np.int64), np.zeros(1, np.int64),
            np.array([0, asked.stop - asked.start]), kept.asked[asked],
            kept.contexts[asked] if self._moves else None, where,
        )  # fmt: skip

    def _kept_part(self, a: int, row: F32, victim: int) -> F32:
        """Return the small model ``[user | kept items | shared]`` out of a full row; a user row kept back is zero."""
        kept = self._targets.kept.items[self._targets.kept.offsets[a] : self._targets.kept.offsets[a + 1]]
        vector = self._world.executor.work.layout.part(row, kept, victim)
        if self._world.hides_user[victim]:
            vector[self._layouts[a].users] = 0.0
        return vector

    def _seen_by(self, a: int, vector: F32, own: F32 | None) -> F32:
        """Return a small model with the adversary's own or fictive user in it."""
        small, seen = self._layouts[a], vector.copy()
        seen[small.users] = self._fictive.users[a]
        if own is not None:
            seen[small.users], seen[small.shared] = np.split(own, [small.user_width])
        return seen

    def _own_part(self, node: int, row: F32) -> F32:
        """Return the adversary's own ``[user | shared]``."""
        layout = self._world.executor.work.layout
        user = 0 if layout.n_users == 1 else node * layout.user_width
        return np.concatenate([row[user : user + layout.user_width], row[layout.shared]]).astype(np.float32)

    def _merge_own(self, own: F32, node: int, row: F32, keep: np.float32, message: int) -> None:
        """Merge a received version into the adversary's own part, as its model will do."""
        layout = self._world.executor.work.layout
        travels = layout.n_users > 1 and not self._world.hides_user[self._sender_of[message]]
        at = slice(0 if travels else layout.user_width, None)
        received = row[layout.shared]
        if travels:
            received = self._own_part(node, row)
        own[at] = received if keep == 0 else keep * own[at] + (1 - keep) * received

    def rankings(self) -> Iterator[tuple[int, str, np.float32, I64, F32]]:
        """Yield (0, rule, momentum, adversaries, scores)."""
        for b, momentum in enumerate(self._momenta):
            for r, rule in enumerate(self._rules):
                yield 0, rule, momentum, self._targets.adversaries, self._latest[b, r]
