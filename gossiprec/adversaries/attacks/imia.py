"""Interaction-level membership inference (IMIA): which guess at the training items explains a victim's update best?

The attacker guesses half of the candidates to be training items, repeats the victim's local update with this guess, and
compares the item rows with those that it received. The guesses at the items with the nearest rows are kept, and the
others are made again, until all are kept.

References
----------
Yuan, Yang, Nguyen, Cui, He and Yin, "Interaction-level membership inference attack against federated recommender
systems", WWW 2023, and its code, hi-weiyuan/FedRec_IMIA.

Notes
-----
As in the code, the first update of a victim is attacked; if the victim hides its user row, it is repeated with a new
one, and lengths of moves are compared in place of rows, because with another user row items move in another direction
(compared as rows, training items are farthest from any guess if users' rows are small: AUC 0.28 on MovieLens-100k).
Differences and choices: a user row that was received is used. The items are the candidates, of which half are
training items (the paper takes all items of an update, and a known share). Labels are those of the run's training, so
items guessed to be others are sampled as negatives (the code trains on all of them) among as many items as there are,
so that a candidate is sampled as rarely as in the victim's update: among candidates only, each was sampled in every
epoch, and AUC was 0.61 in place of 0.91 (MovieLens-100k, GMF, one local epoch). Items that are no candidates begin with
the rows of candidates, since observers keep no others. The share of guesses kept in each
step is an option (0.9 in the code, which keeps nearly all of the first guess). The score of an item is the mean of
several attacks with other first guesses, because one attack gives only yes or no, hence one point of the ROC curve. In
gossip the version before an update is that of :mod:`~gossiprec.adversaries.attacks.update_mia`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from gossiprec.adversaries.attacks import ATTACKS, AttackContext, AttackMemoryInputs
from gossiprec.adversaries.attacks.membership import MembershipAttack, MembershipOptions
from gossiprec.base.arrays import F32, F64, I64, Bools
from gossiprec.base.options import LARGEST
from gossiprec.base.ragged import Ragged
from gossiprec.base.rng import generator
from gossiprec.base.rounding import difference
from gossiprec.models.base.parameter_blocks import Layout

AT_ONCE = 20
"""Number of victims of which the updates are repeated together."""


class IMIAOptions(MembershipOptions):
    """Options of the attack."""

    repeats: Annotated[int, Field(ge=1, le=LARGEST)] = 5
    """number of attacks on each victim, with other first guesses"""
    kept: float = Field(default=0.2, gt=0, le=1)
    """share of the candidates of which the guesses are kept in each step"""


@ATTACKS.register("imia")
class IMIA(MembershipAttack):
    """Membership inference by repeating updates, by single nodes, coalitions or the coordinator."""

    name = "imia"
    compares = True
    kept_arrays = (*MembershipAttack.kept_arrays, "first", "has_first")
    Options = IMIAOptions
    options: IMIAOptions

    def __init__(self, options: Any, context: AttackContext) -> None:
        super().__init__(options, context)
        self._feed = context.feed_of_nodes(np.zeros(0, np.int64))

    @classmethod
    def expected_bytes(cls, options: Any, prospect: AttackMemoryInputs) -> float:
        """Return an estimate of the memory of the kept models, three for each victim, and of repeated updates."""
        repeated = AT_ONCE * options.repeats * replace(prospect.layout, n_users=1).row_size
        return float(3 * super().expected_bytes(options, prospect) + 4.0 * 5 * repeated)

    def allocate(self, deliveries: Any) -> None:
        """Allocate the kept models, and those before and after each victim's first update."""
        super().allocate(deliveries)
        n_observers, n_users, size = self.kept.shape
        self.first = np.zeros((n_observers, n_users, 2, size), np.float32)
        self.has_first = np.zeros((n_observers, n_users), np.bool_)
        self._found: dict[tuple[int, int], F64] = {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the models that :meth:`state` returned."""
        super().restore(state)
        self._found = {}

    def note_moves(self, slots: I64, victims: I64, before: F32, after: F32) -> None:
        """Keep the first update of each victim."""
        known = ~np.isnan(before[:, self.small.items.start])
        for k in np.flatnonzero(known).tolist():
            slot, victim = int(slots[k]), int(victims[k])
            if not self.has_first[slot, victim]:
                self.first[slot, victim] = before[k], after[k]
                self.has_first[slot, victim] = True

    def _scores_of(self, slot: int) -> F64:
        """Return the mean guesses at all candidates, NaN if a victim's first update is not known."""
        sizes, found = self.candidates.sizes, np.full(len(self.candidates.values), np.nan)
        new = self.has_first[slot] & (sizes > 0)
        new[[victim for s, victim in self._found if s == slot]] = False
        for size in np.unique(sizes[new]).tolist():
            victims = np.flatnonzero(new & (sizes == size))
            for begin in range(0, len(victims), AT_ONCE):
                part = victims[begin : begin + AT_ONCE]
                for victim, guesses in zip(part.tolist(), self._guess(slot, part, size), strict=True):
                    self._found[slot, victim] = guesses
        for victim in np.flatnonzero(self.has_first[slot] & (sizes > 0)).tolist():
            found[self.candidates.offsets[victim] : self.candidates.offsets[victim + 1]] = self._found[
                slot, victim
            ]
        return found

    def _guess(self, slot: int, victims: I64, size: int) -> F64:
        """Return the mean guesses at the candidates of victims with equally many, shape (n_victims, size)."""
        repeats, n_items = self.options.repeats, max(size, self.context.scorer.layout.n_items)
        layout = replace(self.small, n_items=n_items)
        owners = np.repeat(victims, repeats)
        draws = [
            generator(self.context.seed, "imia", victim, slot * repeats + repeat)
            for victim in victims.tolist()
            for repeat in range(repeats)
        ]
        items = slice(self.small.items.start, self.small.items.start + size * layout.item_width)
        start = np.zeros((len(owners), layout.row_size), np.float32)
        start[:, layout.users] = [layout.initial_user(draw) for draw in draws]
        sharing = ~self.context.hides_user[owners]
        start[sharing, layout.users] = self.first[slot, owners[sharing], 1][:, self.small.users]
        filled = np.arange(n_items) % size  # items that are no candidates begin with rows of candidates
        start[:, layout.items] = (
            self.first[slot, owners, 0][:, items]
            .reshape(len(owners), size, -1)[:, filled]
            .reshape(len(owners), -1)
        )
        start[:, layout.shared] = self.first[slot, owners, 0][:, self.small.shared]
        before, received = (
            self.first[slot, owners, k][:, items].reshape(len(owners), size, -1) for k in (0, 1)
        )

        kept = np.zeros((len(owners), size), np.int8)
        for step in range(math.ceil(1 / self.options.kept)):
            guesses = np.stack([fill_guess(own, draw) for own, draw in zip(kept, draws, strict=True)])
            trained = self._repeated(layout, owners, start, guesses, step)[:, layout.items]
            rows = trained.reshape(len(owners), n_items, -1)[:, :size]
            far = np.square(rows.astype(np.float64) - received).sum(axis=2)
            far[~sharing] = np.square(moved_lengths(rows, before) - moved_lengths(received, before))[~sharing]
            for own, guess, distances, draw in zip(kept, guesses, far, draws, strict=True):
                keep_nearest(own, guess, distances, math.ceil(self.options.kept * size), draw)
        return np.asarray(kept.reshape(len(victims), repeats, size).mean(axis=1), np.float64)

    def _repeated(self, layout: Layout, owners: I64, start: F32, guesses: Bools, step: int) -> F32:
        """Return the models after a local update of each victim, some times in a row, with guessed training items."""
        repeats = self.options.repeats
        nodes = owners * repeats + np.arange(len(owners)) % repeats
        sizes = np.zeros(int(nodes[-1]) + 1, np.int64)
        sizes[nodes] = guesses.sum(axis=1)
        sets = Ragged.from_sizes(sizes, np.nonzero(guesses)[1].astype(np.int32))
        feed, scorer = self._feed.for_sets(sets, layout.n_items), self.context.scorer
        seed = int(generator(self.context.seed, "imia-updates", 0, step).integers(2**62))
        imitated = scorer.imitate_nodes(feed, layout, nodes, start, seed)
        imitated.train(0, self.context.threads)
        return imitated.rows


def moved_lengths(after: F32, before: F32) -> F64:
    """Return how far each row moved, shape (n_models, n_items)."""
    return np.asarray(np.sqrt(np.square(after.astype(np.float64) - before).sum(axis=2)), np.float64)


def fill_guess(kept: Any, draw: np.random.Generator) -> Bools:
    """Return a guess of half of the items that contains those kept as members (1), and none kept as others (-1)."""
    guess = kept == 1
    open_items = draw.permutation(np.flatnonzero(kept == 0))
    guess[open_items[: max(0, len(kept) // 2 - np.count_nonzero(guess))]] = True
    return np.asarray(guess, np.bool_)


def keep_nearest(kept: Any, guess: Bools, distances: F64, n: int, draw: np.random.Generator) -> None:
    """Keep the guesses at the n nearest items that are still open; all others once half of the items are members.

    If all are equally near, none is kept; other ties are broken at random.
    """
    open_items = draw.permutation(np.flatnonzero(kept == 0))
    found = distances[open_items]
    if not len(found) or difference(found.max(), found.min()) == 0:
        return
    nearest = open_items[np.argsort(distances[open_items], kind="stable")[:n]]
    kept[nearest] = np.where(guess[nearest], 1, -1)
    if np.count_nonzero(kept == 1) >= len(kept) // 2:
        kept[kept == 0] = -1
