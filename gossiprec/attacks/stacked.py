"""Single adversaries of models without kernels: the deliveries of a wave, scored as stacks of small models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gossiprec.arrays import F32, I64
from gossiprec.attacks.observations import Observations
from gossiprec.attacks.stacked_kernels import collect, judge
from gossiprec.models.base.kernels import flat

if TYPE_CHECKING:
    from gossiprec.attacks.individual import IndividualObservers

LEAST = 32
"""Kept items are padded to powers of two from here on, so that few sizes of small models occur."""
MOST_BYTES = 32 * 2**20
"""Small models that wait to be scored; likewise, models that wait for a user to be fitted to them."""


class Stacked:
    """Does what :class:`~gossiprec.attacks.individual.IndividualObservers` do, many deliveries at once.

    Rows are collected and blended by compiled loops that serve any model. The small models wait until there are many,
    or somebody asks for a ranking or a checkpoint; then the executor scores them in stacks, of each pair of adversary
    and victim the latest alone, and compiled rules judge the scores: no Python for each message. Fictive users are
    fitted then, too, many at once; until then what they are fitted to is kept.
    """

    def __init__(self, observers: IndividualObservers) -> None:
        self._of = observers
        sizes = np.diff(observers.targets.kept.offsets)
        self._padded = np.maximum(2 ** np.ceil(np.log2(np.maximum(sizes, 1))).astype(np.int64), LEAST)
        self._layouts = {
            int(size): replace(observers.scorer.layout, n_items=int(size), n_users=1)
            for size in np.unique(self._padded)
        }
        self._width = max((layout.row_size for layout in self._layouts.values()), default=1)
        self._most = max(1, MOST_BYTES // (4 * self._width * len(observers.momenta)))
        self._most_fits = max(1, MOST_BYTES // (4 * observers.scorer.layout.row_size))
        self._adversaries, self._victims, self._waiting_for = (
            np.empty(2 * self._most, np.int64) for _ in range(3)
        )
        self._small = np.empty((2 * self._most, len(observers.momenta), self._width), np.float32)
        self._n_waiting = 0
        self._fits: list[tuple[I64, I64, F32]] = []
        self._n_fits = 0
        self._fit_of = np.full(len(sizes), -1)

    def warm_up(self) -> None:
        """Compile the loops."""
        layout = self._of.scorer.layout
        none = np.zeros(0, np.int64)
        rows = np.zeros((1, layout.row_size), self._of.scorer.storage)
        self._collect(rows, none, none, none, none, np.zeros((0, 0), np.float32), self._small[:0])
        self._judge(np.zeros(0, np.float32), np.zeros(1, np.int64), none)

    def observe(self, seen: Observations) -> None:
        """See what the adversaries among the receivers are about to merge."""
        of_users = np.flatnonzero(seen.senders < self._of.world.n_users)
        for some in self._passes(seen, of_users):
            for low in range(0, len(some), self._most):
                self._observe(seen, some[low : low + self._most])

    def _passes(self, seen: Observations, ks: I64) -> Iterator[I64]:
        """Yield deliveries that can be looked at together.

        A fictive user may be fitted anew between two deliveries of one merge, so these are then taken one by one.
        """
        if not self._of.world.hides_user[seen.senders[ks]].any():
            yield ks
            return
        place = seen.places[ks]
        for number in range(int(place.max(initial=-1)) + 1):
            yield ks[place == number]

    def _observe(self, seen: Observations, ks: I64) -> None:
        of = self._of
        victims = seen.senders[ks].astype(np.int64)
        adversaries = of.adversary_of[seen.receivers[ks]].astype(np.int64)
        hidden = np.flatnonzero(of.world.hides_user[victims])
        fits = self._begin_fits(seen, ks, adversaries, hidden)
        own = np.zeros((0, 0), np.float32)
        if of.fictive.own and len(hidden):
            own = np.stack([part for k in ks if (part := of.own_part(seen, int(k))) is not None])
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
        """Return the waiting fit with which each delivery is to be looked at, after those that are due; -1: none."""
        of, frozen = self._of, slice(self._of.scorer.layout.items.start, self._of.scorer.layout.shared.stop)
        late = hidden[of.fictive.due[adversaries[hidden]] <= seen.times[ks[hidden]]]
        for some in (late[low : low + self._most_fits] for low in range(0, len(late), self._most_fits)):
            whose = adversaries[some]  # each once
            numbers = of.fictive.begin(whose, seen.times[ks[some]])
            self._fit_of[whose] = self._n_fits + np.arange(len(whose))
            self._fits.append((whose, numbers, seen.models(ks[some])[:, frozen]))
            self._n_fits += len(whose)
        fits = np.full(len(ks), -1)
        fits[hidden] = self._fit_of[adversaries[hidden]]
        return fits

    def _finish_fits(self) -> None:
        """Fit the users that wait, and put them into the small models that wait for them."""
        of, width = self._of, self._of.scorer.layout.user_width
        whose, numbers, frozen = (np.concatenate(parts) for parts in zip(*self._fits, strict=True))
        users = of.fictive.fitted(whose, numbers, lambda some: frozen[some])
        fits = self._waiting_for[: self._n_waiting]
        self._small[: self._n_waiting][fits >= 0, :, :width] = users[fits[fits >= 0], None]
        fits[:] = -1
        of.fictive.users[whose] = users  # of several of one adversary the last
        self._fits, self._n_fits = [], 0
        self._fit_of[:] = -1

    def settle(self) -> None:
        """Score all that waits."""
        if not self._n_waiting:
            return
        if self._fits:
            self._finish_fits()
        of, n = self._of, self._n_waiting
        adversaries, victims, small = self._adversaries[:n], self._victims[:n], self._small[:n]
        self._n_waiting = 0
        pair = adversaries * of.world.n_users + victims
        latest = n - 1 - np.unique(pair[::-1], return_index=True)[1]
        if len(latest) < n:
            adversaries, victims, small = adversaries[latest], victims[latest], small[latest]
        found = self._scored(small.reshape(-1, self._width), adversaries)
        for b in range(len(of.momenta)):
            of.latest[b, :, adversaries, victims] = found[b :: len(of.momenta)]

    def _collect(
        self, rows: F32, row: I64, adversaries: I64, victims: I64, messages: I64, own: F32, small: F32
    ) -> None:
        """Fill the small models that the adversaries hold after some deliveries, shape (n, n_momenta, width)."""
        of, layout, kept = self._of, self._of.scorer.layout, self._of.targets.kept
        small[...] = 0.0
        collect(
            flat(rows), layout.row_size, row, adversaries, victims, messages, of.world.hides_user, kept.offsets,
            kept.items, self._padded, of.lengths, of.slot_of, of.seen_before, of.memory, of.memory_offsets,
            of.momenta, of.fictive.users, own, small, layout.n_items, layout.n_users, layout.user_width,
            layout.item_width, layout.n_shared,
        )  # fmt: skip

    def _scored(self, small: F32, adversaries: I64) -> F32:
        """Return the relevance of small models to their adversaries by every rule, shape (n_models, n_rules)."""
        of, kept = self._of, self._of.targets.kept
        whose = adversaries.repeat(len(of.momenta))
        found = np.empty((len(small), len(of.rules)), np.float32)
        for size, layout in self._layouts.items():
            some = np.flatnonzero(self._padded[whose] == size)
            if not len(some):
                continue
            counts = np.diff(of.targets.offsets)[whose[some]]
            offsets = np.concatenate([[0], np.cumsum(counts)])
            asked = np.repeat(of.targets.offsets[whose[some]] - offsets[:-1], counts) + np.arange(offsets[-1])
            scores = of.scorer.scores(
                layout, np.ascontiguousarray(small[some, : layout.row_size]), np.arange(len(some)),
                np.zeros(len(some), np.int64), offsets, kept.asked[asked],
                {name: column[asked] for name, column in kept.contexts.items()},
                self._constants(whose[some], size),
            )  # fmt: skip
            found[some] = self._judge(scores, offsets, whose[some])
        return found

    def _constants(self, whose: I64, size: int) -> dict[str, F32]:
        """Return the model's constants of what each adversary keeps, shape (n, size, ...)."""
        kept, constants = self._of.targets.kept, self._of.scorer.model.constants
        if not constants:
            return {}
        local = np.minimum(np.arange(size), np.diff(kept.offsets)[whose][:, None] - 1)
        items = kept.items[kept.offsets[whose][:, None] + np.maximum(local, 0)]
        return {name: values[items] for name, values in constants.items()}

    def _judge(self, scores: F32, offsets: I64, whose: I64) -> F32:
        found = np.empty((len(whose), len(self._of.rules)), np.float32)
        judge(scores, offsets, self._of.targets.n_targets[whose], *self._of.codes, found)
        return found
