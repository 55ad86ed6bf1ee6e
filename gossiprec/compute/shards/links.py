"""Direct connections between shards, by which rows travel without copies in other programs."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import Any, TypeAlias

import msgpack
import numpy as np
import numpy.typing as npt

from gossiprec.compute.shards import Key, Mailbox, ShardLostError
from gossiprec.numerics.buffer_pool import BufferPool

Address: TypeAlias = tuple[str, int]
"""A host and a port."""

CONNECT_S = 10.0
"""Seconds to wait for a connection to another shard."""
STALL_S = 120.0
"""Seconds after which a shard that takes no more bytes counts as lost."""
_LENGTH = struct.Struct("<I")
_MOST_PIECES = 512  # of one system call; Linux and macOS allow 1024


class RowLinks:
    """The links of one shard: it listens for the others, and connects to a shard at the first rows for it.

    Both ends prove that they know the secret before anything else is read. What arrives is only ever read as numbers.

    Parameters
    ----------
    number : int
        The number of this shard.
    mailbox : Mailbox
        The mailbox into which arriving rows are put.
    secret : bytes
        Known to the shards of this run only.
    host : str
        The address of this machine at which the other shards can reach it.

    Attributes
    ----------
    address : (str, int)
        The host and port at which this shard listens.
    """

    def __init__(self, number: int, mailbox: Mailbox, secret: bytes, host: str) -> None:
        self._number, self._mailbox, self._secret = number, mailbox, secret
        self._buffers = BufferPool()
        self._listener = socket.create_server((host, 0), family=_family(host))
        self.address: Address = (host, self._listener.getsockname()[1])
        self._links: dict[int, Connection] = {}
        self._arriving: list[Connection] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def connect(self, addresses: Mapping[int, Address]) -> dict[int, str]:
        """Connect to other shards, and return the reason for each that cannot be reached."""
        problems = {}
        for shard, address in addresses.items():
            try:
                self._links[shard] = self._connection(socket.create_connection(address, CONNECT_S))
            except (OSError, EOFError, AuthenticationError) as error:
                problems[shard] = f"{address[0]}:{address[1]}: {error or type(error).__name__}"
        return problems

    def reaches(self, shard: int) -> bool:
        """Return whether there is a link to a shard."""
        return shard in self._links

    def send(self, to: int, key: Key, rows: npt.NDArray[Any]) -> None:
        """Send rows; one thread at a time.

        Raises
        ------
        ShardLostError
            If the other shard has closed the link, or takes no bytes for :data:`STALL_S` seconds.
        """
        head = msgpack.packb([self._number, list(key), rows.dtype.str, list(rows.shape)])
        content = np.ascontiguousarray(rows).data.cast("B") if rows.size else b""
        try:
            _write(self._links[to].fileno(), [_LENGTH.pack(len(head)), head, content])
        except BlockingIOError as error:
            raise ShardLostError(to, f"it took no rows for {STALL_S:.0f} s") from error
        except OSError as error:
            raise ShardLostError(to, f"its link is closed ({error.strerror})") from error

    def close(self) -> None:
        """Close all links; rows that arrive later are lost."""
        self._listener.close()
        for link in self._links.values():
            link.close()
        for link in self._arriving:  # a thread reads it, and closes it when nothing more comes
            with (
                suppress(OSError),
                socket.fromfd(link.fileno(), self._listener.family, socket.SOCK_STREAM) as end,
            ):
                end.shutdown(socket.SHUT_RDWR)

    def _connection(self, found: socket.socket, *, arriving: bool = False) -> Connection:
        """Return the connection of a socket, once its other end has proved that it knows the secret."""
        found.settimeout(None)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(STALL_S), 0))
        link = Connection(found.detach())
        try:
            for prove in (deliver_challenge, answer_challenge)[:: 1 if arriving else -1]:
                prove(link, self._secret)
        except BaseException:
            link.close()
            raise
        return link

    def _accept(self) -> None:
        while True:
            try:
                found, _ = self._listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._receive, args=(found,), daemon=True).start()

    def _receive(self, found: socket.socket) -> None:
        """Put the rows that arrive by one link into the mailbox, until it is closed."""
        with suppress(OSError, EOFError, AuthenticationError), self._connection(found, arriving=True) as link:
            self._arriving.append(link)
            while True:  # until the other end is gone, which shard 0 notices
                (length,) = _LENGTH.unpack(_read(link.fileno(), bytearray(_LENGTH.size)))
                sender, key, kind, shape = msgpack.unpackb(_read(link.fileno(), bytearray(length)))
                size = int(np.prod(shape)) * np.dtype(kind).itemsize
                (memory,) = self._buffers.empty((-(-size // 4),))
                rows = memory.view(np.uint8)[:size]
                _read(link.fileno(), rows.data)
                self._mailbox.put(sender, tuple(key), rows.view(kind).reshape(shape))


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _write(descriptor: int, pieces: Sequence[Any]) -> None:
    left = [memoryview(piece) for piece in pieces if len(piece)]
    while left:
        written = os.writev(descriptor, left[:_MOST_PIECES])
        while left and written >= len(left[0]):
            written -= len(left.pop(0))
        if written:
            left[0] = left[0][written:]


def _read(descriptor: int, into: Any) -> Any:
    """Fill a buffer and return it."""
    left = memoryview(into)
    while len(left):
        count = os.readv(descriptor, [left])
        if not count:
            raise EOFError
        left = left[count:]
    return into
