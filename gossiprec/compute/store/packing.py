"""Updates as plain arrays: for checkpoints, and for other processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gossiprec.arrays import F32
from gossiprec.compute.store.update import Update
from gossiprec.models.base import Layout
from gossiprec.ragged import Ragged


def packed(updates: Sequence[Update], layout: Layout, told_width: int) -> dict[str, Any]:
    """Return copies of what some updates hold but for the versions that they were made from, one after the other."""
    return {
        "touched": np.array([len(update.items) for update in updates], np.int64),
        "items": np.concatenate([np.zeros(0, np.int32), *(update.items for update in updates)]),
        "rows": np.concatenate(
            [np.zeros((0, layout.item_width), np.float32), *(update.rows for update in updates)]
        ),
        "shared": np.array([update.shared for update in updates], np.float32).reshape(
            len(updates), layout.n_shared
        ),
        "tells": np.array([update.user is not None for update in updates], np.bool_),
        "told": np.concatenate(
            [np.zeros((0, told_width), np.float32)]
            + [update.user[None] for update in updates if update.user is not None]
        ),
    }


def unpacked(found: Mapping[str, Any], bases: Sequence[F32]) -> list[Update]:
    """Return the updates that :func:`packed` gave, made from these versions."""
    items = Ragged.from_sizes(found["touched"], found["items"])
    rows, told = Ragged(items.offsets, found["rows"]), iter(found["told"])
    users = [next(told) if tells else None for tells in found["tells"].tolist()]
    return [
        Update(base, items[number], rows[number], found["shared"][number], users[number])
        for number, base in enumerate(bases)
    ]
