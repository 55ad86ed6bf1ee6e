"""Contract of similarities: rows that depend only on their item, and a valid sensitivity."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gossiprec.base.arrays import F32
from gossiprec.base.ragged import Ragged
from gossiprec.data.split import Split
from gossiprec.rules.similarities import Similarity
from gossiprec.testing.tiny_runs import check_claims

Make = Callable[[], Similarity]

TEXTS = ("the red house drama", "the blue house", "", "night train crime", "red night drama", "a b c")
N_USERS, N_ITEMS, SEED = 8, len(TEXTS), 3
EVERY = np.arange(N_ITEMS)


def check_similarity(similarity: type[Similarity], options: Mapping[str, Any] | None = None) -> None:
    """Check a similarity on a few items.

    Parameters
    ----------
    similarity : type of Similarity
        The class; it need not be registered.
    options : mapping, optional
        Options as in a scenario.

    Raises
    ------
    AssertionError
        If a claim does not hold; the message lists all of them.
    """
    chosen = similarity.Options.model_validate(options or {})
    check_claims(
        f"the similarity {similarity.__name__}",
        __name__,
        make=lambda: similarity(chosen).fit(tiny_split().training_data(), seed=SEED),
    )


def tiny_split() -> Split:
    """Return data of which the items have names and texts, one of them empty."""
    users, items = np.nonzero(np.random.default_rng(SEED).random((N_USERS, N_ITEMS)) < 0.5)
    train = Ragged.sets_from_pairs(users, items, N_USERS)
    nothing = Ragged.from_sizes(np.zeros(N_USERS, np.int64), np.empty(0, np.int32))
    names = tuple(f"item-{item}" for item in range(N_ITEMS))
    return Split("tiny", N_USERS, N_ITEMS, train, nothing, nothing, item_names=names, item_texts=TEXTS)


def _whole(make: Make) -> F32:
    return make().rows(EVERY)


def rows_are_finite_numbers(make: Make) -> None:
    """Return finite float32, a row for each requested item and a column for each item."""
    for items in (EVERY, EVERY[:0], np.array([2, 2, 1])):
        rows = make().rows(items)
        assert rows.shape == (len(items), N_ITEMS), f"Found shape {rows.shape} for {len(items)} items."
        assert rows.dtype == np.float32, f"Found {rows.dtype}."
        assert np.isfinite(rows).all(), f"Found {rows[~np.isfinite(rows)][0]}."


def a_row_depends_on_its_item_only(make: Make) -> None:
    """Return a bit-identical row whatever other items are requested, and whenever it is fitted again."""
    fitted, whole = make(), _whole(make)
    for items in (EVERY[::-1], np.array([4]), np.array([1, 1, 3])):
        off = np.flatnonzero((fitted.rows(items) != whole[items]).any(axis=1))
        assert not len(off), f"The row of item {items[off[0]]} differs among {items.tolist()}."


def nothing_is_nearer_than_the_item_itself(make: Make) -> None:
    """Return no higher similarity of an item to another than to itself."""
    whole = _whole(make)
    item = int(np.argmax(whole.max(axis=1) - whole.diagonal()))
    assert whole[item].max() <= whole[item, item], (
        f"Found {whole[item].max():g} for item {item}, and {whole[item, item]:g} with itself."
    )


def its_sensitivity_holds(make: Make) -> None:
    """Return similarities of two items to a third that differ by no more than `sensitivity`, unless it is None."""
    known, spread = make().sensitivity, float(np.ptp(_whole(make), axis=0).max())
    assert known is None or 0 < spread <= known, f"They differ by {spread:g}, but the sensitivity is {known}."
