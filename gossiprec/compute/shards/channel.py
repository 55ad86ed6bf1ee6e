"""How shards send one another what the plan says: under a key that both know, so that nobody asks for anything."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Any, TypeAlias

from gossiprec.errors import ResourceError

Key: TypeAlias = tuple[str | int, ...]
"""What a letter is about; no two from one sender to one receiver have the same."""


class ShardLostError(ResourceError):
    """A shard has died: what it owned is gone.

    Attributes
    ----------
    number : int
        Of the shard.
    """

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(f"shard {number} died: {reason}")
        self.number = number
        self.reason = reason


class Channel(ABC):
    """What one shard sends letters with, and gets them from."""

    @abstractmethod
    def send(self, to: int, key: Key, content: Any) -> None:
        """Hand over a letter, without waiting; arrays in it must not be changed afterwards."""

    @abstractmethod
    def receive(self, sender: int, key: Key) -> Any:
        """Wait for a letter.

        Raises
        ------
        ShardLostError
            If a shard has died.
        """


class Mailbox:
    """Letters that have arrived and were not yet asked for; filled by other threads."""

    def __init__(self) -> None:
        self._letters: dict[tuple[int, Key], Any] = {}
        self._changed = threading.Condition()
        self._failure: BaseException | None = None

    def put(self, sender: int, key: Key, content: Any) -> None:
        """Take a letter in."""
        with self._changed:
            self._letters[sender, key] = content
            self._changed.notify_all()

    def fail(self, reason: BaseException) -> None:
        """Let whoever waits, now or later, hear why nothing more will come; the first reason counts."""
        with self._changed:
            self._failure = self._failure or reason
            self._changed.notify_all()

    def take(self, sender: int, key: Key) -> Any:
        """Wait for a letter and hand it out."""
        wanted = (sender, key)
        with self._changed:
            self._changed.wait_for(lambda: wanted in self._letters or self._failure is not None)
            if wanted in self._letters:
                return self._letters.pop(wanted)
            assert self._failure is not None
            raise self._failure


class InProcessChannel(Channel):
    """Shards as threads of one process: letters are handed over as they are.

    Parameters
    ----------
    number : int
    mailboxes : list of Mailbox
        Of all shards.
    """

    def __init__(self, number: int, mailboxes: list[Mailbox]) -> None:
        self._number, self._mailboxes = number, mailboxes

    def send(self, to: int, key: Key, content: Any) -> None:
        """Put a letter into the receiver's mailbox."""
        self._mailboxes[to].put(self._number, key, content)

    def receive(self, sender: int, key: Key) -> Any:
        """Wait for a letter."""
        return self._mailboxes[self._number].take(sender, key)
