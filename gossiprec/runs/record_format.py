"""The bytes of an event log: a magic, records with a CRC each, and a trailer that finds the index.

A record is ``tag (4 bytes), length (u64), payload (msgpack), crc (u32)``; the CRC covers everything before it in the
record. Integers are little-endian. ``docs/run_directory.md`` describes the format for the authors of tools.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Any

import msgpack

MAGIC = b"\x89GRLOG\r\n"
FORMAT = 1

HEADER, CHUNK, INDEX = b"HEAD", b"CHNK", b"INDX"
_END = b"GRLOGEND"
_PREFIX = struct.Struct("<4sQ")
_CRC = struct.Struct("<I")
_TRAILER = struct.Struct("<8sQ")
CRC_BYTES = _CRC.size
TRAILER_BYTES = _TRAILER.size + CRC_BYTES


class DamagedError(Exception):
    """Internal signal: the bytes at `offset` are not what was written."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset, self.reason = offset, reason


@dataclass(frozen=True)
class LogRecord:
    """A record with a valid CRC: its tag, its first byte and the byte after its last."""

    tag: bytes
    start: int
    end: int

    def content(self, data: memoryview) -> Any:
        """Return the unpacked payload.

        Raises
        ------
        DamagedError
            If it is not msgpack.
        """
        payload = data[self.start + _PREFIX.size : self.end - _CRC.size]
        try:
            return unpack(payload, SOME_CONTAINERS + len(payload) // 8)
        except (ValueError, msgpack.UnpackException) as error:
            raise DamagedError(self.start, f"the payload is not msgpack ({error})") from error


SOME_CONTAINERS = 1_000
"""Lists and mappings in a short record at most; in a long one, an entry of the index is a list of over 8 bytes."""
CONTAINER_BYTES, VALUE_BYTES = 80, 10
"""Memory of a list or a mapping, and of another value, of which msgpack may be one byte."""


def unpack(payload: bytes | memoryview, most_containers: int, **options: Any) -> Any:
    """Return the values in a msgpack text.

    Raises
    ------
    ValueError
        If it is not msgpack, or has more lists and mappings.
    """
    found = 0

    def count(container: Any) -> Any:
        nonlocal found
        found += 1
        if found > most_containers:
            raise ValueError(
                f"found more than {most_containers:,} lists and mappings in {len(payload):,} bytes"
            )
        return container

    return msgpack.unpackb(payload, max_bin_len=len(payload), list_hook=count, object_hook=count, **options)


def pack_record(tag: bytes, content: Any) -> bytes:
    """Return the bytes of one record."""
    payload = msgpack.packb(content)
    prefix = _PREFIX.pack(tag, len(payload))
    return b"".join((prefix, payload, _CRC.pack(zlib.crc32(payload, zlib.crc32(prefix)))))


def read_record(data: memoryview, start: int) -> LogRecord:
    """Return the record that begins at byte `start`.

    Raises
    ------
    DamagedError
        If the data end before the record does, or its CRC does not match.
    """
    left = len(data) - start
    if left < _PREFIX.size:
        raise DamagedError(
            start, f"truncated: {left} bytes are left, but a record has at least {_PREFIX.size}"
        )
    tag, length = _PREFIX.unpack_from(data, start)
    needed = _PREFIX.size + length + _CRC.size
    if needed > left:
        raise DamagedError(
            start, f"truncated or damaged length: {left} bytes are left of a record of {needed} bytes"
        )
    end = start + needed
    if zlib.crc32(data[start : end - _CRC.size]) != _CRC.unpack_from(data, end - _CRC.size)[0]:
        raise DamagedError(start, f"the CRC of the record ({needed} bytes) does not hold")
    return LogRecord(bytes(tag), start, end)


def pack_trailer(index_start: int) -> bytes:
    """Return the last bytes of a complete log."""
    body = _TRAILER.pack(_END, index_start)
    return body + _CRC.pack(zlib.crc32(body))


def read_index_start(trailer: memoryview, start: int) -> int:
    """Return the first byte of the index, as recorded in the trailer at byte `start`.

    Raises
    ------
    DamagedError
        If there is no valid trailer.
    """
    if len(trailer) == TRAILER_BYTES:
        found: int = _TRAILER.unpack_from(trailer)[1]
        if trailer == pack_trailer(found):
            return found
    raise DamagedError(start, "the trailer does not hold")


def check_trailer(data: memoryview, start: int, index_start: int) -> bool:
    """Return whether the trailer is at byte `start`; False if the data end there.

    Raises
    ------
    DamagedError
        If there is anything else.
    """
    if len(data) == start:
        return False
    if len(data) - start < TRAILER_BYTES:
        raise DamagedError(
            start, f"truncated: {len(data) - start} bytes are left of a trailer of {TRAILER_BYTES} bytes"
        )
    if data[start : start + TRAILER_BYTES] != pack_trailer(index_start):
        raise DamagedError(start, "the trailer does not point to the index")
    if len(data) > start + TRAILER_BYTES:
        raise DamagedError(
            start + TRAILER_BYTES, f"{len(data) - start - TRAILER_BYTES} bytes follow the trailer"
        )
    return True
