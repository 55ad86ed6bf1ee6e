"""Contracts of data sets and split rules: dense ids, the same data for the same seed, no item in two parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from gossiprec.base.errors import DataError
from gossiprec.base.options import Options
from gossiprec.data.base import Dataset, SplitRule
from gossiprec.data.loading import check_trainable
from gossiprec.data.split import Interactions, Split, first_interactions, split_by_position
from gossiprec.testing.tiny_runs import check_claims

Divide = Callable[[Interactions], Split]

N_ITEMS, SEED = 30, 3
PARTS = ("train", "validation", "test")


class _Toy(Dataset):
    """Data with a published split."""

    def __init__(self, options: Options) -> None:
        pass

    def load(self, seed: int) -> Interactions:
        return _drawn(seed, least=12, dated=True)

    def published_split(self, interactions: Interactions) -> Split:
        pairs = first_interactions(interactions)
        one = np.ones(pairs.n_users, np.int64)
        return split_by_position(pairs, pairs.items, n_test=one, n_validation=one)


def check_split(rule: type[SplitRule], options: Mapping[str, Any] | None = None) -> None:
    """Check a split rule by dividing small random data.

    Parameters
    ----------
    rule : type of SplitRule
        The class; it need not be registered.
    options : mapping, optional
        Options as in a scenario. They must keep some of 12 different items of each user.

    Raises
    ------
    AssertionError
        If a claim does not hold; the message lists all of them.
    """
    chosen = rule.Options.model_validate(options or {})
    data = _Toy(_Toy.Options())
    about, divide = f"the split {rule.__name__}", lambda some: rule(chosen)(some, data, SEED)
    check_claims(about, __name__, divide=divide)


def check_split_parts(split: Split, data: Interactions) -> None:
    """Check that the parts are disjoint sets of items, and that a model can be trained on them."""
    found, due = (split.n_users, split.n_items), (data.n_users, data.n_items)
    assert found == due, f"Found {found} users and items, the data have {due}."
    for user in range(data.n_users):
        own = [getattr(split, part)[user].tolist() for part in PARTS]
        assert all(items == sorted(set(items)) for items in own), f"Found {own}, must ascend."
        joined, known = [*chain(*own)], set(data.items[data.users == user].tolist())
        assert len(joined) == len(set(joined)), f"An item of user {user} is in two parts: {own}."
        assert set(joined) <= known, f"User {user} has items {set(joined) - known} in the split only."
    check_trainable(split)


def _drawn(seed: int, *, least: int, dated: bool) -> Interactions:
    """Return five users with some items each, some pairs repeated, in any order."""
    draw = np.random.default_rng(seed)
    pairs: list[tuple[int, int]] = []
    for user in range(5):
        own = draw.choice(N_ITEMS, int(draw.integers(least, 21)), replace=False).tolist()
        pairs += [(user, item) for item in own + draw.choice(own, 3).tolist()]
    users, items = np.array(pairs, np.int64)[draw.permutation(len(pairs))].T
    times = draw.integers(-1, 6, len(pairs)) if dated else None
    return Interactions("tiny", users, items, 5, N_ITEMS, times=times)


def _examples(least: int = 12) -> Iterator[Interactions]:
    for seed in range(20):
        yield _drawn(seed, least=least, dated=seed % 2 == 0)


def each_item_is_in_one_part(divide: Divide) -> None:
    """Put each item of a user into exactly one part: some of every user into training, some of any user into test."""
    for data in _examples():
        split = divide(data)
        check_split_parts(split, data)
        n_placed = sum(len(getattr(split, part).values) for part in PARTS)
        n_known = len(first_interactions(data).users)
        assert n_placed == n_known, f"{n_known - n_placed} of {n_known} items are in no part."
        assert len(split.test.values), "No user has a test item."


def the_order_of_rows_does_not_matter(divide: Divide) -> None:
    """Divide the data in the same way for any order of the rows, if no two times are equal."""
    for data in _examples():
        if data.times is not None:
            data = replace(data, times=np.random.default_rng(SEED).permutation(len(data.users)))
        order = np.lexsort((data.items, data.users))
        times = None if data.times is None else data.times[order]
        other = divide(replace(data, users=data.users[order], items=data.items[order], times=times))
        assert _bytes(divide(data)) == _bytes(other), "Sorted rows are divided differently."


def a_split_follows_from_the_seed(divide: Divide) -> None:
    """Divide the data in the same way for the same seed."""
    data = next(_examples())
    assert _bytes(divide(data)) == _bytes(divide(data)), "Two calls divided the same data differently."


def too_few_items_are_refused(divide: Divide) -> None:
    """Refuse users with too few items by a DataError, or divide their items."""
    for data in _examples(least=1):
        try:
            split = divide(data)
        except DataError:
            continue
        check_split_parts(split, data)


def _bytes(split: Split) -> list[bytes]:
    parts = [getattr(split, part) for part in PARTS]
    return [array.tobytes() for part in parts for array in (part.offsets, part.values)]


Make = Callable[[], Dataset]

COLUMNS = {"users": np.int64, "items": np.int64, "ratings": np.float32, "times": np.int64}


def check_dataset(dataset: type[Dataset], options: Mapping[str, Any] | None = None) -> None:
    """Check a data set by reading or drawing it; a small one is enough.

    Parameters
    ----------
    dataset : type of Dataset
        The class; it need not be registered.
    options : mapping, optional
        Options as in a scenario.

    Raises
    ------
    AssertionError
        If a claim does not hold; the message lists all of them.
    """
    chosen = dataset.Options.model_validate(options or {})
    check_claims(f"the data set {dataset.__name__}", __name__, make=lambda: dataset(chosen))


def _columns(data: Interactions) -> dict[str, Any]:
    return {name: getattr(data, name) for name in COLUMNS if getattr(data, name) is not None}


def columns_are_of_one_length(make: Make) -> None:
    """Return one user and one item per interaction, and one rating and one time if there are any."""
    data = make().load(SEED)
    for name, column in _columns(data).items():
        due = np.dtype(COLUMNS[name])
        assert column.dtype == due, f"Found {name} in {column.dtype}, must be {due}."
        assert column.shape == (len(data.users),), f"Found {name} of shape {column.shape}."


def ids_are_dense(make: Make) -> None:
    """Number users and items from 0, and have an interaction of every user."""
    data = make().load(SEED)
    for name, ids, n in (("user", data.users, data.n_users), ("item", data.items, data.n_items)):
        assert len(ids), "There is no interaction."
        low, high = ids.min(), ids.max()
        assert 0 <= low <= high < n, f"Found {name}s {low} to {high}, must be from 0 to {n - 1}."
        names = getattr(data, f"{name}_names")
        assert names is None or len(set(names)) == n, f"Found {len(set(names))} names of {n} {name}s."
    silent = np.setdiff1d(np.arange(data.n_users), data.users)
    assert not len(silent), f"Users {silent[:5].tolist()} have no interaction."


def times_and_coordinates_are_possible(make: Make) -> None:
    """Have times of -1 (unknown) or later, finite ratings, and latitude and longitude of every item or of none."""
    data = make().load(SEED)
    assert data.times is None or data.times.min() >= -1, "Found a negative time other than -1."
    assert data.ratings is None or np.isfinite(data.ratings).all(), "Found a rating that is not finite."
    if data.coordinates is not None:
        shape = np.shape(data.coordinates)
        assert shape == (data.n_items, 2), f"Found coordinates of shape {shape} for {data.n_items} items."
        assert (np.abs(data.coordinates) <= (90, 180)).all(), "Found coordinates that are not on the globe."


def data_follow_from_the_seed(make: Make) -> None:
    """Return byte-identical data for the same seed."""
    one, other = (_columns(make().load(SEED)) for _ in range(2))
    assert one.keys() == other.keys(), "Two loads have different columns."
    wrong = [name for name in one if one[name].tobytes() != other[name].tobytes()]
    assert not wrong, f"Two loads differ in {', '.join(wrong)}."


def its_published_split_is_valid(make: Make) -> None:
    """Have a published split into disjoint parts of the items of a user, with some for training, or none."""
    dataset = make()
    data = dataset.load(SEED)
    try:
        split = dataset.published_split(data)
    except DataError:  # these data have no published split, and the error says why
        return
    if split is not None:
        check_split_parts(split, data)


def its_provenance_is_text(make: Make) -> None:
    """Return its provenance as text."""
    dataset = make()
    dataset.load(SEED)
    wrong = [part for entry in dataset.provenance().items() for part in entry if not isinstance(part, str)]
    assert not wrong, f"Found {wrong[0]!r}."
