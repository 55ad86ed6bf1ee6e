"""The versions that clients without a model received last, which a store of updates forgets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gossiprec.base.arrays import F32, I64
from gossiprec.compute.store.update import Update
from gossiprec.rules.servers import Extras

if TYPE_CHECKING:
    from gossiprec.compute.store.update_store import UpdateStore


class ReceivedVersions:
    """The version that each client received last, and what the client made of it.

    It keeps these versions in memory, so only comparisons of ended runs have one.

    Parameters
    ----------
    store : UpdateStore
        The store before the first event: clients begin with its version.

    Attributes
    ----------
    shown : bool
        Whether the store shows these versions as the clients' models, in place of the coordinator's present version.
    """

    def __init__(self, store: UpdateStore) -> None:
        self.shown = False
        self._store, self._first = store, store.version(0)
        self._last: dict[int, tuple[Update, Extras]] = {}

    def note(self, node: int, update: Update, extras: Extras) -> None:
        """Note the update of the version that a client has just received, and the extras sent with the version."""
        self._last[node] = update, extras

    def rows(self, nodes: I64) -> F32:
        """Return each client's own part with the version that it received last, shape (n, row_size)."""
        layout = self._store.layout
        rows = np.zeros((len(nodes), layout.row_size), np.float32)
        rows[:, self._store.own_columns(layout)] = self._store.own[nodes]
        for row, node in zip(rows, nodes.tolist(), strict=True):
            row[layout.merged] = self._last[node][0].base if node in self._last else self._first
        return rows

    def personal_rows(self, nodes: I64) -> F32:
        """Return :meth:`rows` with each client's personal model in place of the version, if clients use these."""
        rows, mixture = self.rows(nodes), self._store.mixture
        for row, node in zip(rows, nodes.tolist(), strict=True):
            if mixture is None or node not in self._last:
                continue
            update, extras = self._last[node]
            personal = mixture(np.array([node]), update.base, extras)
            if personal is not None:
                model = personal.versions[personal.of[0]].copy()
                if personal.local:
                    update.add_change_to(model, personal.local)
                row[self._store.layout.merged] = model
        return rows
