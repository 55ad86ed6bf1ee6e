"""A coordinator's record of its clients: their tasks by version, and their answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gossiprec.base.arrays import F64, I64


@dataclass(frozen=True)
class ClientAnswer:
    """An answer that has arrived.

    Attributes
    ----------
    version : int
        The version that the client trained.
    client : int
    staleness : int
        Number of versions published since.
    is_copy : bool
        Whether the same task has been answered before, because the network duplicated a message.
    """

    version: int
    client: int
    staleness: int
    is_copy: bool


class ClientTasks:
    """The tasks that a coordinator has given to clients: train this version, and answer.

    A task is a version and a client. Messages carry it to the client and back, so that each answer is matched with
    its task, however late it is and whatever other tasks the client has got meanwhile.

    Attributes
    ----------
    version : int
        Number of the latest version, from 0; -1 before the first.
    """

    def __init__(self) -> None:
        self.version = -1
        self._open: set[tuple[int, int]] = set()
        self._carried: dict[int, tuple[int, int]] = {}  # by message

    def publish(self, clients: Sequence[int]) -> None:
        """Record a new version, and the clients that train it."""
        self.version += 1
        self._open.update((self.version, client) for client in clients)

    def ask(self, first: int, clients: Sequence[int]) -> None:
        """Record that messages first, first + 1, ... carry the latest version to clients."""
        for message, client in enumerate(clients, first):
            self._carried[message] = (self.version, client)

    def reply(self, message: int, first: int, count: int) -> None:
        """Record that messages first .. first + count - 1 answer the task that `message` carried."""
        job = self._carried.pop(message)
        for answer in range(first, first + count):
            self._carried[answer] = job

    def answered(self, message: int) -> ClientAnswer:
        """Record an arrived answer; tasks lost to churn or message loss stay open forever."""
        job = self._carried.pop(message)
        is_copy = job not in self._open
        self._open.discard(job)
        return ClientAnswer(*job, staleness=self.version - job[0], is_copy=is_copy)


def quotas(groups: I64, count: int) -> I64:
    """Return the places, of `count`, reserved for each group: its share of all clients, rounded down.

    Parameters
    ----------
    groups : ndarray of int64, shape (n_clients,)
        Group of each client, from 0; -1 for clients without a group.
    count : int

    Returns
    -------
    ndarray of int64, shape (n_groups,)
        The sum does not exceed `count`.
    """
    sizes = np.bincount(groups[groups >= 0])
    return sizes * count // max(len(groups), 1)


def sample_proportionally(candidates: I64, lots: F64, groups: I64, count: int) -> I64:
    """Return the chosen clients: of each group its quota, and the next clients for the remaining places.

    A group with too few candidates leaves its places to the others.

    Parameters
    ----------
    candidates : ndarray of int64, shape (n_candidates,)
        Clients that can be chosen.
    lots : ndarray of float64, shape (n_candidates,)
        Clients with lower lots are chosen first.
    groups : ndarray of int64, shape (n_clients,)
    count : int

    Returns
    -------
    ndarray of int64, shape (min(count, n_candidates),)
        Ascending.
    """
    in_order = candidates[np.argsort(lots, kind="stable")]
    chosen = [
        in_order[groups[in_order] == group][:quota] for group, quota in enumerate(quotas(groups, count))
    ]
    reserved = np.concatenate([candidates[:0], *chosen])
    others = in_order[~np.isin(in_order, reserved)]
    return np.sort(np.concatenate([reserved, others[: count - len(reserved)]]))
