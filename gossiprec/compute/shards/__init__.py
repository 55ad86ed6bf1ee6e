"""One simulation in several processes: channels between shards, the owner of each node, and exchanged rows.

Sender and receiver derive each letter's key from the plan, so no requests are needed.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Any, TypeAlias

from gossiprec.base.errors import ResourceError

Key: TypeAlias = tuple[str | int, ...]
"""The key of a letter, unique among the letters from one sender to one receiver."""


class ShardLostError(ResourceError):
    """A shard has died, and the nodes that it owned are lost.

    Attributes
    ----------
    number : int
        The number of the shard.
    """

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(f"shard {number} died: {reason}")
        self.number = number
        self.reason = reason


class Channel(ABC):
    """The connection by which one shard sends and receives letters."""

    @abstractmethod
    def send(self, to: int, key: Key, content: Any) -> None:
        """Send a letter without waiting; arrays in it must not be changed afterwards."""

    @abstractmethod
    def receive(self, sender: int, key: Key) -> Any:
        """Wait for a letter.

        Raises
        ------
        ShardLostError
            If a shard has died.
        """


class Mailbox:
    """Letters that have arrived and were not yet received; other threads fill it."""

    def __init__(self) -> None:
        self._letters: dict[tuple[int, Key], Any] = {}
        self._changed = threading.Condition()
        self._failure: BaseException | None = None

    def put(self, sender: int, key: Key, content: Any) -> None:
        """Add a letter that has arrived."""
        with self._changed:
            self._letters[sender, key] = content
            self._changed.notify_all()

    def fail(self, reason: BaseException) -> None:
        """Make all present and later waits raise `reason`; the first reason counts."""
        with self._changed:
            self._failure = self._failure or reason
            self._changed.notify_all()

    def take(self, sender: int, key: Key) -> Any:
        """Wait for a letter, remove it and return it."""
        wanted = (sender, key)
        with self._changed:
            self._changed.wait_for(lambda: wanted in self._letters or self._failure is not None)
            if wanted in self._letters:
                return self._letters.pop(wanted)
            assert self._failure is not None
            raise self._failure


class InProcessChannel(Channel):
    """A channel between shards that are threads of one process; letters are passed by reference.

    Parameters
    ----------
    number : int
    mailboxes : list of Mailbox
        The mailboxes of all shards.
    """

    def __init__(self, number: int, mailboxes: list[Mailbox]) -> None:
        self._number, self._mailboxes = number, mailboxes

    def send(self, to: int, key: Key, content: Any) -> None:
        """Put a letter into the receiver's mailbox."""
        self._mailboxes[to].put(self._number, key, content)

    def receive(self, sender: int, key: Key) -> Any:
        """Wait for a letter."""
        return self._mailboxes[self._number].take(sender, key)
