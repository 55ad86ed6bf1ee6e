"""The order in which users met their items: what a model of sequences learns from."""

from __future__ import annotations

import numpy as np

from gossiprec.data.partition import first_meetings
from gossiprec.data.split import Interactions, Split
from gossiprec.ragged import Ragged


def sequences_of(data: Interactions, split: Split) -> Ragged | None:
    """Return each user's items of all parts by the time of their first meeting; None: the data have no times.

    Unknown times (-1) come first, and equal ones go by item id, as in the splits by time.
    """
    if data.times is None:
        return None
    pairs = first_meetings(data)
    assert pairs.times is not None  # those of the data
    order = np.lexsort((pairs.items, pairs.times, pairs.users))
    users, items = pairs.users[order], pairs.items[order]
    placed = np.concatenate(
        [part.owners * split.n_items + part.values for part in (split.train, split.validation, split.test)]
    )
    kept = np.isin(users * data.n_items + items, placed, assume_unique=True)
    return Ragged.from_pairs(users[kept], items[kept].astype(np.int32), split.n_users)
