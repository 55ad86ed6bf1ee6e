"""The order in which users met their items: what a model of sequences learns from."""

from __future__ import annotations

import numpy as np

from gossiprec.arrays import I64
from gossiprec.data.partition import first_meetings, in_order, time_positions
from gossiprec.data.split import Interactions, Split
from gossiprec.ragged import Ragged


def sequences_of(data: Interactions, split: Split) -> Ragged | None:
    """Return each user's items of all parts by the time of their first meeting; None: the data have no times.

    Unknown times (-1) come first, and equal ones go by the order of the file, as in the splits by time.
    """
    pairs = first_meetings(data)
    position = time_positions(pairs)
    if position is None:
        return None
    order = in_order(pairs, position)
    users, items = pairs.users[order], pairs.items[order]
    if split.n_interactions < len(pairs.users):  # the split leaves some out
        kept = np.isin(users * data.n_items + items, _placed(split), assume_unique=True)
        users, items = users[kept], items[kept]
    return Ragged.from_pairs(users, items.astype(np.int32), split.n_users)


def _placed(split: Split) -> I64:
    """Return the pairs of all parts, a number each."""
    parts = (split.train, split.validation, split.test)
    return np.concatenate([part.owners * split.n_items + part.values for part in parts])
