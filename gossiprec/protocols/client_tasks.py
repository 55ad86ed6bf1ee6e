"""What a coordinator knows of its clients: who works on which version, and who has answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gossiprec.arrays import F64, I64


@dataclass(frozen=True)
class ClientAnswer:
    """An answer that has come.

    Attributes
    ----------
    version : int
        The version that its client was asked to train.
    client : int
    staleness : int
        Versions published since.
    is_copy : bool
        The same job has been answered before: the network has made two of a message.
    """

    version: int
    client: int
    staleness: int
    is_copy: bool


class ClientTasks:
    """The jobs that a coordinator has given to clients: train this version, and answer.

    A job is a version and a client. Messages carry it to the client and back, so that an answer is known for what it
    answers, however late it comes and whatever else the client has been asked meanwhile.

    Attributes
    ----------
    version : int
        Number of the version published last, from 0; -1 before the first.
    """

    def __init__(self) -> None:
        self.version = -1
        self._open: set[tuple[int, int]] = set()
        self._carried: dict[int, tuple[int, int]] = {}  # by message

    def publish(self, clients: Sequence[int]) -> None:
        """Note that a new version is there, and who is to train it."""
        self.version += 1
        self._open.update((self.version, client) for client in clients)

    def ask(self, first: int, clients: Sequence[int]) -> None:
        """Note that messages first, first + 1, ... carry the version published last to clients."""
        for message, client in enumerate(clients, first):
            self._carried[message] = (self.version, client)

    def reply(self, message: int, first: int, count: int) -> None:
        """Note that messages first .. first + count - 1 answer the job that `message` has brought."""
        job = self._carried.pop(message)
        for answer in range(first, first + count):
            self._carried[answer] = job

    def answered(self, message: int) -> ClientAnswer:
        """Note that an answer has come; a client that was lost to churn or loss stays in debt for ever."""
        job = self._carried.pop(message)
        is_copy = job not in self._open
        self._open.discard(job)
        return ClientAnswer(*job, staleness=self.version - job[0], is_copy=is_copy)


def quotas(groups: I64, count: int) -> I64:
    """Return how many of `count` places are reserved for each group: its share of all clients, rounded down.

    Parameters
    ----------
    groups : ndarray of int64, shape (n_clients,)
        From 0; -1: in none.
    count : int

    Returns
    -------
    ndarray of int64, shape (n_groups,)
        Their sum is at most `count`.
    """
    sizes = np.bincount(groups[groups >= 0])
    return sizes * count // max(len(groups), 1)


def sample_proportionally(candidates: I64, lots: F64, groups: I64, count: int) -> I64:
    """Return who is chosen: of each group as many as its quota, and whoever comes next for the places left.

    A group of which too few can be chosen leaves its places to the others.

    Parameters
    ----------
    candidates : ndarray of int64, shape (n_candidates,)
        Clients that can be chosen.
    lots : ndarray of float64, shape (n_candidates,)
        The lower, the sooner.
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
