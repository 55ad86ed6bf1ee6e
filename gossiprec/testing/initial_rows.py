"""Claims about the initial rows of a model."""

from __future__ import annotations

import numpy as np

from gossiprec.base.arrays import F32
from gossiprec.testing.model_formula import SEED, ModelCase


def _rows(
    case: ModelCase, *, n_nodes: int | None = None, seed: int = SEED, n_users: int | None = None
) -> F32:
    layout = case.model.layout(case.split.n_items, case.layout.n_users if n_users is None else n_users)
    return case.model.initial_rows(layout, n_nodes or case.split.n_users, seed)


def they_follow_from_the_seed(case: ModelCase) -> None:
    """Begin at the same numbers every time, at others with another seed, and at numbers."""
    rows = _rows(case)
    assert rows.tobytes() == _rows(case).tobytes(), "Two calls gave different rows."
    assert np.isfinite(rows).all(), "Not all are finite."
    assert not rows.any() or rows.tobytes() != _rows(case, seed=SEED + 1).tobytes(), (
        "Another seed gave the same."
    )


def items_and_shared_weights_are_common(case: ModelCase) -> None:
    """Begin with the same items and shared weights at every node."""
    common = _rows(case)[:, case.layout.items.start : case.layout.shared.stop]
    assert (common == common[0]).all(), "Nodes differ."


def a_users_row_is_its_own(case: ModelCase) -> None:
    """Begin with a row of its own for each user, whoever else there is, wherever it is held."""
    n = case.split.n_users
    alone = case.model.layout(case.split.n_items)
    few, many = (_rows(case, n_nodes=k, n_users=1)[:, alone.users] for k in (n, 2 * n))
    assert few.tobytes() == many[:n].tobytes(), "Rows change when there are more nodes."
    assert not few.any() or len(np.unique(many, axis=0)) == 2 * n, "Several users have the same row."
    if case.layout.n_users > 1:
        table = _rows(case)[:, case.layout.users]
        assert all(row.tobytes() == few.tobytes() for row in table), "A table of users holds other rows."


def padding_is_zero(case: ModelCase) -> None:
    """Begin with zeros behind the parameters."""
    assert not _rows(case)[:, case.layout.size :].any(), "Something is written there."


CLAIMS = (
    they_follow_from_the_seed,
    items_and_shared_weights_are_common,
    a_users_row_is_its_own,
    padding_is_zero,
)
