"""Contract of data sets: dense ids, matching columns, and the same data for the same seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gossiprec.base.errors import DataError
from gossiprec.data.base import Dataset
from gossiprec.data.split import Interactions
from gossiprec.testing.contract_checks import check_claims
from gossiprec.testing.splits import check_split_parts

Make = Callable[[], Dataset]

SEED = 1
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
    check_claims(f"the data set {dataset.__name__}", lambda: dataset(chosen), CLAIMS)


def _columns(data: Interactions) -> dict[str, Any]:
    return {name: getattr(data, name) for name in COLUMNS if getattr(data, name) is not None}


def columns_are_of_one_length(make: Make) -> None:
    """Give users and items, and ratings and times if there are any, one of each for each interaction."""
    data = make().load(SEED)
    for name, column in _columns(data).items():
        assert column.dtype == COLUMNS[name], (
            f"Found {name} in {column.dtype}, must be {np.dtype(COLUMNS[name])}."
        )
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


def times_and_places_are_possible(make: Make) -> None:
    """Have times of -1 (unknown) or later, finite ratings, and a latitude and longitude of every item or of none."""
    data = make().load(SEED)
    assert data.times is None or data.times.min() >= -1, "Found a time before 1970."
    assert data.ratings is None or np.isfinite(data.ratings).all(), "Found a rating that is no number."
    if data.coordinates is not None:
        shape = np.shape(data.coordinates)
        assert shape == (data.n_items, 2), f"Found coordinates of shape {shape} for {data.n_items} items."
        assert (np.abs(data.coordinates) <= (90, 180)).all(), "Found a place that is not on the globe."


def data_follow_from_the_seed(make: Make) -> None:
    """Return byte-identical data for the same seed."""
    one, other = (_columns(make().load(SEED)) for _ in range(2))
    assert one.keys() == other.keys(), "Two loads have different columns."
    wrong = [name for name in one if one[name].tobytes() != other[name].tobytes()]
    assert not wrong, f"Two loads differ in {', '.join(wrong)}."


def its_own_split_is_one(make: Make) -> None:
    """Have, if any, a published split into disjoint parts of a user's items, with some to train on."""
    dataset = make()
    data = dataset.load(SEED)
    try:
        split = dataset.published_split(data)
    except DataError:  # these data have no published split, and the error says why
        return
    if split is not None:
        check_split_parts(split, data)


def its_origin_is_told_in_text(make: Make) -> None:
    """Tell its provenance in text."""
    dataset = make()
    dataset.load(SEED)
    told = dataset.provenance()
    wrong = [part for entry in told.items() for part in entry if not isinstance(part, str)]
    assert not wrong, f"Found {wrong[0]!r}."


CLAIMS = (
    columns_are_of_one_length,
    ids_are_dense,
    times_and_places_are_possible,
    data_follow_from_the_seed,
    its_own_split_is_one,
    its_origin_is_told_in_text,
)
