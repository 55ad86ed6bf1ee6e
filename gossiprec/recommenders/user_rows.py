"""Users' rows that the coordinator keeps and averages, as the published code of PerFedRec++ does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gossiprec.aggregators.base import Change, Inbox
from gossiprec.arrays import F32
from gossiprec.servers.base import USER_ROWS, Answers, Extras, Round, Server

__all__ = ["USER_ROWS", "AveragedRows"]


class AveragedRows:
    """The table of users' rows at the coordinator, which answers change as they change the table of items.

    An answer holds its user's row after training. The change of that row counts its client's share of the answers, so
    that a row moves by its client's step divided by the number of answers; a server makes of these changes what it
    makes of those of items.

    Parameters
    ----------
    n_clients, width : int
    server : Server or None
        Of its own: what it remembers is of these rows. None: rows move by the changes.
    """

    def __init__(self, n_clients: int, width: int, server: Server | None) -> None:
        self._server = server
        self.rows: F32 = np.zeros((n_clients, width), np.float32)

    @property
    def extras(self) -> Extras:
        """What clients are sent besides the version: each its row."""
        return {USER_ROWS: self.rows.copy()}

    def step(self, answers: Answers, round: Round) -> None:
        """Let the rows go by the answers of a round."""
        if answers.users is None or not len(answers.clients):
            return
        clients, width = answers.clients, self.rows.shape[1]
        moved = answers.users[:, :width] - self.rows[clients]
        moved[~np.isfinite(moved).all(axis=1)] = 0.0  # a poisoner tells of no user
        shares = answers.inbox.weights / answers.inbox.weights.sum()
        aggregated = self.rows.copy()
        np.add.at(aggregated, clients, (shares[:, None] * moved).astype(np.float32))
        if self._server is None:
            self.rows = aggregated
            return
        nothing = np.zeros(0, np.float32)
        changes = [
            Change(np.array([client], np.int32), row[None], nothing)
            for client, row in zip(clients.tolist(), moved, strict=True)
        ]
        inbox = Inbox(self.rows, clients, answers.inbox.weights, changes=changes)
        published = self.rows.reshape(-1)
        found = self._server.round(published, aggregated.reshape(-1), Answers(clients, inbox), round)
        self.rows = np.array(found.versions[0], np.float32).reshape(self.rows.shape)

    def state(self) -> dict[str, Any]:
        """Return the rows, and what the server remembers of them, for a checkpoint."""
        return {"rows": self.rows, "server": {} if self._server is None else self._server.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state` gave."""
        self.rows = state["rows"]
        if self._server is not None:
            self._server.restore(state["server"])
