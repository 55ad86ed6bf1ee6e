"""Feeds of users' items in order of time: next items of sequences, masked items, and transitions between places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import I32, I64, Bools
from gossiprec.base.errors import DataError
from gossiprec.base.ragged import Ragged
from gossiprec.base.rng import generator
from gossiprec.data.training_data import TrainingData, Transitions, Visits
from gossiprec.models.feeds.base import (
    Columns,
    Feed,
    draw_negatives,
    draw_shared_negatives,
    positives_bitset,
    select_sets,
)

if TYPE_CHECKING:
    from gossiprec.data.split import Split

UNIT = 32
"""Lists are padded to multiples of this length, so that sums do not depend on the other lists of a batch."""


class ListFeed(Feed):
    """A sample is a user: ``items``, shape (n, length), and ``negatives``, shape (n, negatives).

    The length of a list depends only on its user's data; it is padded with -1.
    """

    item_columns: tuple[str, ...] = ("items", "negatives")

    def n_samples(self, negatives: int) -> I64:
        """Return 1 for each node with training data, else 0."""
        return (self.positives.sizes > 0).astype(np.int64)

    def places(self, node: int, update: int, seed: int) -> Mapping[str, I32]:
        """Return the columns of a node's list in a local update, all of the same length, without padding."""
        return {"items": self.positives[node]}

    def samples(self, node: int, *, update: int, negatives: int, seed: int) -> Columns:
        """Return a node's list, if it has one, with its negatives."""
        return self.samples_of_some(np.array([node]), np.array([update]), negatives=negatives, seed=seed)[0]

    def samples_of_some(self, nodes: I64, updates: I64, *, negatives: int, seed: int) -> list[Columns]:
        """Return the samples of some nodes, with all negatives drawn at once."""
        drawn = draw_shared_negatives(self, nodes, updates, negatives=negatives, seed=seed).astype(np.int32)
        some = self.n_samples(negatives)[nodes]
        return [
            {**self._list(node, update, seed, n), "negatives": row[None][:n]}
            for node, update, n, row in zip(
                nodes.tolist(), updates.tolist(), some.tolist(), drawn, strict=True
            )
        ]

    def samples_of_all(self, *, update: int, negatives: int, seed: int) -> Columns:
        """Return the lists of all users, as wide as the longest, with ``user``."""
        nodes = np.flatnonzero(self.n_samples(negatives))
        updates = np.full(len(nodes), update, np.int64)
        each = self.samples_of_some(nodes, updates, negatives=negatives, seed=seed)
        columns = {name: stack_padded([sample[name] for sample in each]) for name in self.item_columns}
        return {"user": nodes.astype(np.int32), **columns}

    def _list(self, node: int, update: int, seed: int, n: int) -> Columns:
        return {name: pad_row(part)[:n] for name, part in self.places(node, update, seed).items()}


def pad_row(places: I32) -> I32:
    """Return places as a row, shape (1, length), padded to whole units."""
    row = np.full((1, UNIT * max(1, -(-len(places) // UNIT))), -1, np.int32)
    row[0, : len(places)] = places
    return row


def stack_padded(rows: Sequence[I32]) -> I32:
    """Return rows of shape (1, width) as one array, as wide as the widest."""
    found = np.full((len(rows), max((row.shape[1] for row in rows), default=UNIT)), -1, np.int32)
    for one, row in zip(found, rows, strict=True):
        one[: row.shape[1]] = row[0]
    return found


F = TypeVar("F", bound="SequenceFeed")


class SetFeed(ListFeed):
    """Lists of users that are represented by the set of their items; a query has the items known before it."""

    def histories(self, split: Split, before: str) -> Columns:
        """Return each user's items before a part, ``history``, shape (n_users, length), padded with -1."""
        parts = (split.train, split.validation)[: 2 if before == "test" else 1]
        known = [np.sort(np.concatenate([part[user] for part in parts])) for user in range(split.n_users)]
        return {"history": stack_padded([pad_row(items) for items in known])}


class SequenceFeed(ListFeed):
    """Sequences of users: at each place the item, ``items``, and the item before it, ``previous``.

    Parameters
    ----------
    positives : Ragged
    n_items : int
    sequences : Ragged of int32
        Training items of each node, in the order of time.
    max_length : int
        Number of latest places to use.
    """

    item_columns = ("previous", "items", "negatives")
    context_columns = ("previous",)
    fewest = 2
    """Least length of a sequence for learning."""

    def __init__(self, positives: Ragged, n_items: int, sequences: Ragged, max_length: int) -> None:
        super().__init__(positives, n_items)
        self.sequences = sequences
        self.max_length = max_length

    @classmethod
    def within(cls: type[F], split: TrainingData, max_length: int, **options: float) -> F:
        """Return the feed of a split's training items, with the further options of the class.

        Raises
        ------
        DataError
            If the data have no times.
        """
        return cls(split.train, split.n_items, _parts_of(split, "train"), max_length, **options)

    @property
    def longest_history(self) -> int:
        """Number of items of a history that are used."""
        return self.max_length

    def n_samples(self, negatives: int) -> I64:
        """Return 1 for each node with a long enough sequence, else 0."""
        return (self.sequences.sizes >= self.fewest).astype(np.int64)

    def places(self, node: int, update: int, seed: int) -> Mapping[str, I32]:
        """Return the item and the item before it at each place of a sequence except the first."""
        latest = self.sequences[node][-self.max_length - 1 :]
        return {"previous": latest[:-1], "items": latest[1:]}

    def restricted_to(self, nodes: I64) -> SequenceFeed:
        """Return the data of some nodes, under their numbers; all other nodes have no data."""
        return self.with_sequences(select_sets(self.positives, nodes), select_sets(self.sequences, nodes))

    def for_user(self, node: int) -> SequenceFeed:
        """Return the data of one node, as the data of node 0."""
        return self.for_items(self.sequences[node])

    def for_items(self, items: npt.NDArray[np.integer]) -> SequenceFeed:
        """Return the training data of a single node with these items, in this order."""
        sequence = items.astype(np.int32)
        positives, sequences = (Ragged.from_parts([part]) for part in (np.unique(sequence), sequence))
        return self.with_sequences(positives, sequences)

    def for_sets(self, sets: Ragged, n_items: int) -> SequenceFeed:
        """Return the training data of nodes with these sets of items, in the order of their ids."""
        return type(self)(sets, n_items, sets, self.max_length)

    def with_sequences(self, positives: Ragged, sequences: Ragged) -> SequenceFeed:
        """Return the feed of other sequences with the same options."""
        return type(self)(positives, self.n_items, sequences, self.max_length)

    def history(self, node: int) -> I32:
        """Return a node's latest items, in the order of time."""
        return self.sequences[node][-self.longest_history :]

    def targets(self, node: int) -> Columns:
        """Return the items of a node, each with the item before it."""
        items = self.sequences[node]
        before = np.concatenate([np.full(1, -1, np.int32), items])[: len(items)]
        return {"items": items, "previous": before}

    def references(self, node: int, items: I32, draw: np.random.Generator) -> Columns:
        """Return items that a node has not interacted with, each with a random previous item of its sequence."""
        before = self.targets(node)["previous"]
        if not len(before):
            return {"items": items, "previous": np.full(len(items), -1, np.int32)}
        return {"items": items, "previous": before[draw.integers(len(before), size=len(items))]}

    def histories(self, split: Split, before: str) -> Columns:
        """Return each user's latest items before a part, ``history``, shape (n_users, length), padded with -1."""
        rows = _parts_of(split, *("train", "validation")[: 2 if before == "test" else 1])
        latest = [pad_row(rows[user][-self.longest_history :]) for user in range(len(rows))]
        return {"history": stack_padded(latest)}


def _parts_of(split: Split | TrainingData, *parts: str) -> Ragged:
    """Return the items of some parts of a split in order of time."""
    ordered = split.sequences
    if ordered is None:
        raise DataError(
            f"{split.name}: has no times, so the order of the interactions is unknown; use data with times "
            "(movielens-100k, synthetic-checkins, file with a column of times), or a model that learns from sets"
        )
    kept = np.zeros(len(ordered.values), np.bool_)
    for part in parts:
        kept |= _among(ordered, positives_bitset(getattr(split, part), split.n_items))
    return Ragged.from_pairs(ordered.row_of_each_value[kept], ordered.values[kept], len(ordered))


def _among(sets: Ragged, member: npt.NDArray[np.uint8]) -> Bools:
    """Return which values are in their row's bitset."""
    bits = member[sets.row_of_each_value, sets.values // 8] >> (sets.values % 8).astype(np.uint8)
    return (bits & 1).astype(np.bool_)


class MaskedFeed(SequenceFeed):
    """Sequences with gaps: known items are in ``previous``, masked items in ``items``.

    Parameters
    ----------
    positives : Ragged
    n_items : int
    sequences : Ragged of int32
        Training items of each node, in the order of time.
    max_length : int
        Number of latest items to use.
    mask : float
        Share of the places that are masked; at least one place always is.
    last_alone : float
        Share of the local updates in which only the last place is masked.
    random_end : float
        Share of the local updates in which the sequence is cut after a random item.
    """

    fewest = 1

    def __init__(
        self,
        positives: Ragged,
        n_items: int,
        sequences: Ragged,
        max_length: int,
        mask: float = 0.2,
        last_alone: float = 0.0,
        random_end: float = 0.0,
    ) -> None:
        super().__init__(positives, n_items, sequences, max_length)
        self.mask = mask
        self.last_alone = last_alone
        self.random_end = random_end

    def with_sequences(self, positives: Ragged, sequences: Ragged) -> MaskedFeed:
        """Return the feed of other sequences with the same options."""
        options = self.max_length, self.mask, self.last_alone, self.random_end
        return MaskedFeed(positives, self.n_items, sequences, *options)

    @property
    def longest_history(self) -> int:
        """Number of items of a history that are used; a gap follows them."""
        return self.max_length - 1

    def places(self, node: int, update: int, seed: int) -> Mapping[str, I32]:
        """Return the known items and the masked items at each place of a sequence."""
        sequence, draw = self.sequences[node], generator(seed, "masked-items", node, update)
        if self.random_end and draw.random() < self.random_end:
            sequence = sequence[: draw.integers(min(2, len(sequence)), len(sequence) + 1)]
        latest = sequence[-self.max_length :]
        is_last_alone, chances = draw.random() < self.last_alone, draw.random(len(latest))
        if is_last_alone:
            chances = np.arange(len(latest), 0.0, -1.0)
        gaps = (chances < self.mask) | (chances == chances.min(initial=np.inf))
        return {
            "previous": np.where(gaps, -1, latest).astype(np.int32),
            "items": np.where(gaps, latest, -1).astype(np.int32),
        }


def drop_stale_previous(transitions: Transitions, minutes: float) -> I32:
    """Return the previous items of transitions, -1 if unknown or more than `minutes` before."""
    known = (transitions.previous >= 0) & (transitions.gap_minutes <= minutes)
    return np.where(known, transitions.previous, -1).astype(np.int32)


class TransitionFeed(Feed):
    """Samples are ``items`` moved to, each with one of its ``negatives`` and the ``previous`` item.

    Parameters
    ----------
    positives : Ragged
    n_items : int
    moves : Ragged of int32
        The items that each node moved to.
    previous : ndarray of int32, one for each move
        The items that they came from; -1 if unknown or too long ago.
    minutes : float
        Longest time since the previous visit for which it counts.
    """

    item_columns = ("items", "negatives", "previous")
    context_columns = ("previous",)

    def __init__(
        self, positives: Ragged, n_items: int, moves: Ragged, previous: I32, minutes: float = np.inf
    ) -> None:
        super().__init__(positives, n_items)
        self.moves = moves
        self.previous = previous
        self.minutes = minutes

    @classmethod
    def within(cls, split: TrainingData, check_ins: Visits, minutes: float) -> TransitionFeed:
        """Return the feed of check-ins in which a visit counts as the previous one for `minutes`."""
        moves = check_ins.train
        return cls(split.train, split.n_items, moves.items, drop_stale_previous(moves, minutes), minutes)

    def n_samples(self, negatives: int) -> I64:
        """Return the number of samples in one pass over each node's data."""
        return self.moves.sizes * negatives

    def samples(self, node: int, *, update: int, negatives: int, seed: int) -> Columns:
        """Return each transition once per negative, one after the other."""
        items, previous = (column.repeat(negatives) for column in self.targets(node).values())
        n_moves = int(self.moves.sizes[node])
        drawn = draw_negatives(self, node, n_moves, update=update, negatives=negatives, seed=seed)
        return {"items": items, "negatives": drawn.ravel().astype(np.int32), "previous": previous}

    def restricted_to(self, nodes: I64) -> TransitionFeed:
        """Return the data of some nodes, under their numbers; all other nodes have no data."""
        kept = np.isin(np.arange(len(self.moves)), nodes)
        previous = self.previous[kept[self.moves.row_of_each_value]]
        positives, moves = select_sets(self.positives, nodes), select_sets(self.moves, nodes)
        return TransitionFeed(positives, self.n_items, moves, previous, self.minutes)

    def for_user(self, node: int) -> TransitionFeed:
        """Return the data of one node, as the data of node 0."""
        own = self.targets(node)
        return self._single(self.positives[node], own["items"], own["previous"])

    def for_items(self, items: npt.NDArray[np.integer]) -> TransitionFeed:
        """Return the training data of a single node that visited these items, from unknown places."""
        kept = np.sort(items).astype(np.int32)
        return self._single(kept, kept, np.full(len(kept), -1, np.int32))

    def _single(self, positives: I32, items: I32, previous: I32) -> TransitionFeed:
        one, moves = Ragged.from_parts([positives]), Ragged.from_parts([items])
        return TransitionFeed(one, self.n_items, moves, previous, self.minutes)

    def targets(self, node: int) -> Columns:
        """Return a node's transitions; items may be repeated."""
        return {"items": self.moves[node], "previous": self.moves.with_values(self.previous)[node]}

    def references(self, node: int, items: I32, draw: np.random.Generator) -> Columns:
        """Return other items, each with the previous item of a random transition of the node."""
        begun = self.targets(node)["previous"]
        if not len(begun):
            return {"items": items, "previous": np.full(len(items), -1, np.int32)}
        return {"items": items, "previous": begun[draw.integers(len(begun), size=len(items))]}

    def test_contexts(self, split: Split) -> Columns:
        """Return the previous item of each test item, if it is recent enough."""
        assert split.check_ins is not None  # the model was fitted to these data
        return {"previous": drop_stale_previous(split.check_ins.test, self.minutes)}

    def next_contexts(self, split: Split) -> Columns:
        """Return each user's last training visit, from which the recommended list continues."""
        assert split.check_ins is not None  # the model was fitted to these data
        moves = split.check_ins.train.items
        last = moves.values[np.maximum(moves.offsets[1:] - 1, 0)]
        return {"previous": np.where(moves.sizes > 0, last, -1).astype(np.int32)}
