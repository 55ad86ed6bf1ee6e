"""What is kept of a trained model: the version that the coordinator published last."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gossiprec.emulation.assembly.prepare import Prepared


def last_version(prepared: Prepared) -> dict[str, npt.NDArray[Any]]:
    """Return the coordinator's items and shared weights by the names of their tables.

    Returns
    -------
    dict of str to ndarray
        ``items``, shape (n_items, width); each shared block in its own shape; ``popularity``, shape (n_items,):
        training interactions of each item.
    """
    store, layout, n_items = prepared.executor.store, prepared.layout, prepared.split.n_items
    coordinator = np.array([prepared.protocol.n_users], np.int64)
    row = store.models(prepared.planner.current, coordinator)[0].astype(np.float32)
    found = layout.version_tables(row[layout.items.start : layout.shared.stop])
    return {**found, "popularity": np.bincount(prepared.split.train.values, minlength=n_items)}
