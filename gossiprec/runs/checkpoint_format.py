"""The format of a checkpoint file: its head, its index, and its arrays.

Of an array the file holds extents of non-zero bytes, and their CRC.
"""

from __future__ import annotations

import math
import operator
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import I64, U8
from gossiprec.base.errors import LogError
from gossiprec.runs import record_format
from gossiprec.runs.checkpoint_state import PartialArray
from gossiprec.runs.record_format import DamagedError
from gossiprec.runs.run_files import open_to_read, write_all

GRAIN = 2**16
"""Bytes that are tested together for being all zero."""
PIECE = 2**20
"""Bytes per write: the CRC is computed while they are in the processor's cache."""

MAX_DIMENSIONS = 8
DTYPE = re.compile(r"<[fiu][248]|\|[iub]1")
EMPTY = np.zeros((0, 2), np.int64)


@dataclass(frozen=True)
class ArrayBlock:
    """An array in a file.

    Attributes
    ----------
    dtype : str
    shape : tuple of int
    extents : ndarray of int64, shape (n, 2)
        The ranges of its bytes that the file holds, sorted; all other bytes are zero.
    crc : int
        CRC-32 of these bytes.
    """

    dtype: str
    shape: tuple[int, ...]
    extents: I64
    crc: int = 0

    @property
    def n_bytes(self) -> int:
        """Size of the array in bytes."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    @property
    def stored_bytes(self) -> int:
        """Size of the bytes that the file holds."""
        return int((self.extents[:, 1] - self.extents[:, 0]).sum())

    def index_entry(self) -> list[Any]:
        """Return the block's entry in the index."""
        return [self.dtype, list(self.shape), self.extents.astype("<i8").tobytes(), self.crc]


def measure_block(value: npt.NDArray[Any] | PartialArray) -> ArrayBlock:
    """Return the block of an array before it is written."""
    if isinstance(value, PartialArray):
        array, extents = value.array, _merge_extents(value.extents() * value.array.itemsize)
    else:
        array, extents = value, _touched(byte_view(value))
    return ArrayBlock(array.dtype.str, array.shape, extents)


def unpack_block(dtype: str, shape: list[int], extents: bytes, crc: int) -> ArrayBlock:
    """Return the block for an entry of the index.

    Raises
    ------
    ValueError
        If no such array is possible.
    """
    if not DTYPE.fullmatch(dtype) or len(shape) > MAX_DIMENSIONS or any(length < 0 for length in shape):
        raise ValueError(f"no array has type {dtype!r} and shape {shape}")
    edges = np.frombuffer(extents, "<i8").astype(np.int64)
    block = ArrayBlock(dtype, tuple(map(operator.index, shape)), edges.reshape(-1, 2), crc)
    if len(edges) and (edges[0] < 0 or edges[-1] > block.n_bytes or (np.diff(edges) < 0).any()):
        raise ValueError("a segment is outside of its array")
    return block


def write_block(file: FileIO, flat: U8, block: ArrayBlock) -> ArrayBlock:
    """Write the block's ranges of an array's bytes; return the block with their CRC."""
    crc = 0
    for piece in _pieces(flat, block.extents):
        crc = zlib.crc32(piece, crc)
        write_all(file, piece)
    return replace(block, crc=crc)


def read_block(file: BinaryIO, block: ArrayBlock, flat: U8) -> None:
    """Read a block into the bytes of an array of zeros.

    Raises
    ------
    DamagedError
        If the CRC does not match, or the file ends early.
    """
    crc, start = 0, file.tell()
    for low, high in block.extents.tolist():
        for at in range(low, high, PIECE):
            part = flat[at : min(at + PIECE, high)]
            if file.readinto(part.data) != len(part):  # type: ignore[attr-defined]  # of every file opened for reading
                raise DamagedError(start, "truncated: the file ends within an array")
            crc = zlib.crc32(part.data, crc)
    if crc != block.crc:
        raise DamagedError(start, f"the CRC of an array ({block.stored_bytes} bytes) does not hold")


def byte_view(array: npt.NDArray[Any]) -> U8:
    """Return the bytes of an array, copied only if it is not contiguous."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _merge_extents(extents: I64) -> I64:
    """Return the extents with adjoining ones merged and empty ones removed."""
    extents = extents[extents[:, 1] > extents[:, 0]]
    if not len(extents):
        return extents.reshape(0, 2)
    apart = extents[1:, 0] != extents[:-1, 1]
    return np.stack([extents[np.append(True, apart), 0], extents[np.append(apart, True), 1]], axis=1)


def _touched(flat: U8) -> I64:
    """Return the extents that are not zero, in whole grains; pages that were never written are not read."""
    if len(flat) < GRAIN:
        return np.array([[0, len(flat)]], np.int64) if len(flat) else EMPTY
    starts = np.arange(0, len(flat), GRAIN)
    filled = [_any(flat[start : start + GRAIN]) for start in starts.tolist()]
    used = starts[np.array(filled)]
    return _merge_extents(np.stack([used, np.minimum(used + GRAIN, len(flat))], axis=1))


def _any(grain: U8) -> bool:
    """Return whether a grain holds any byte but zero; the first 64 bytes decide it for most."""
    return bool(grain[:64].any() or grain.max())


def _pieces(flat: U8, extents: I64) -> Iterator[memoryview]:
    """Yield the bytes of some extents: long ones in pieces, short ones joined."""
    waiting: list[U8] = []
    size = 0
    for start, stop in extents.tolist():
        for low in range(start, stop, PIECE):
            part = flat[low : min(low + PIECE, stop)]
            waiting.append(part)
            size += len(part)
            if size >= PIECE:
                yield (waiting[0] if len(waiting) == 1 else np.concatenate(waiting)).data
                waiting, size = [], 0
    if waiting:
        yield np.concatenate(waiting).data


MAGIC = b"\x89GRCKP\r\n"
FORMAT = 3
"""2 had checkpoints that held only the changes since an earlier one."""

MAX_HEAD_BYTES = 2**20


@dataclass(frozen=True)
class CheckpointStamp:
    """The run to which a checkpoint belongs, and the run's progress at that time.

    Attributes
    ----------
    code : str
        The version of the code, with plug-ins (:func:`gossiprec.base.registry.combined_code_version`).
    scenario : str
        SHA-256 of the run's ``scenario.yaml``.
    tick : int
        Reports written so far.
    time : float
        Virtual time of the last report.
    log_bytes : int
        Length of the event log in bytes.
    log_digest : str
        Digest of the rows of the event log.
    tables : dict of str to list of two int
        File name to length and CRC-32 of each table.
    """

    code: str
    scenario: str
    tick: int
    time: float
    log_bytes: int
    log_digest: str
    tables: dict[str, list[int]] = field(default_factory=dict)


@contextmanager
def open_checkpoint(path: Path) -> Iterator[BinaryIO]:
    """Open a checkpoint for reading, and turn every fault of it in the body into one :class:`LogError`."""
    try:
        with open_to_read(path) as file:
            yield file
    except DamagedError as error:
        raise LogError(f"{path}: damage at byte {error.offset}: {error.reason}") from error
    except OSError as error:
        raise LogError(f"cannot read the checkpoint {path}: {error.strerror}") from error


def read_head(file: BinaryIO) -> tuple[CheckpointStamp, int]:
    """Return the stamp, and the first byte after the record that holds it."""
    data = memoryview(file.read(MAX_HEAD_BYTES))
    if data[: len(MAGIC)] != MAGIC:
        raise DamagedError(0, "the file does not start with the magic bytes of a checkpoint")
    record = record_format.read_record(data, len(MAGIC))
    head = record.content(data)
    try:
        if record.tag != record_format.HEADER or head["format"] != FORMAT:
            raise ValueError(
                f"tag {record.tag!r}, format {head.get('format')!r}; this gossiprec reads {FORMAT}"
            )
        stamp = CheckpointStamp(**{each.name: head["stamp"][each.name] for each in fields(CheckpointStamp)})
        return stamp, record.end
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DamagedError(record.start, f"the record is not the head of a checkpoint ({error!r})") from error


def read_index(file: BinaryIO, first: int) -> tuple[bytes, list[ArrayBlock]]:
    """Return the packed state and the blocks, which begin at byte `first`."""
    size = file.seek(0, os.SEEK_END)
    begin = size - record_format.TRAILER_BYTES
    if begin < first:
        raise DamagedError(size, "truncated: the file ends before its trailer")
    file.seek(begin)
    start = record_format.read_index_start(memoryview(file.read()), begin)
    if not first <= start <= begin:
        raise DamagedError(begin, f"the trailer points to byte {start}, outside of the file")
    file.seek(start)
    data = memoryview(file.read(begin - start))
    try:
        record = record_format.read_record(data, 0)
        content = record.content(data)
        if record.tag != record_format.INDEX or record.end != len(data):
            raise DamagedError(0, f"it ends {len(data) - record.end} bytes before the trailer")
        found = [unpack_block(*entry) for entry in content["blocks"]]
        tree = bytes(content["state"])
    except (DamagedError, ValueError, TypeError, KeyError) as error:
        raise DamagedError(start, f"the index cannot be read ({error})") from error
    return tree, found
