"""Checkpoint files: a tree of plain values and arrays, every byte under a CRC, written in one pass.

::

    file  = magic, record HEAD, bytes of block 0, block 1, ..., record INDX, trailer

Records and trailer are those of the event log (:mod:`gossiprec.eventlog.frames`). HEAD holds the stamp: which run, and
how far. INDX holds the state with a number in place of each array, and of each array its type, shape, CRC-32 and
*extents*: the stretches of its bytes that are in the file, one after the other; all others are zero. There is no
padding: the blocks fill all that lies between the two records.
"""

from __future__ import annotations

import math
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import msgpack
import numpy as np
import numpy.typing as npt

from gossiprec.arrays import I64, U8
from gossiprec.errors import LogError, ResourceError
from gossiprec.eventlog import frames
from gossiprec.eventlog.atomic_write import write_all
from gossiprec.eventlog.frames import DamagedError

MAGIC = b"\x89GRCKP\r\n"
FORMAT = 1

GRAIN = 2**16
"""Bytes that are looked at together for being all zero."""
PIECE = 2**20
"""Bytes written at a time: their CRC is computed while they lie in the cache."""
LONGEST_HEAD = 2**20

_ARRAY = 1
"""Code of an array's number among msgpack's extension types."""
_DTYPE = re.compile(r"<[fiu][248]|\|[iub]1")

State = Mapping[str, Any]
"""A tree of mappings with names, lists, plain values and arrays."""


@dataclass(frozen=True)
class Live:
    """An array of which only some stretches matter; the others come back as zeros.

    Attributes
    ----------
    array : ndarray
        Contiguous.
    extents : callable
        Returns the first element of each stretch and the one after its last, in the flat array: shape (n, 2), sorted.
        It is called when the array is written.
    """

    array: npt.NDArray[Any]
    extents: Callable[[], I64]


class Stateful:
    """Has attributes that change in the course of a run: a checkpoint holds them, without their leading ``_``."""

    changing: ClassVar[tuple[str, ...]] = ()
    """Their names."""

    def state(self) -> dict[str, Any]:
        """Return what changes, for a checkpoint; references will do."""
        return {name: getattr(self, f"_{name}") for name in self.changing}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state` gave in an earlier process."""
        for name in self.changing:
            setattr(self, f"_{name}", state[name])


@dataclass(frozen=True)
class Stamp:
    """To which run a checkpoint belongs, and how far the run had come.

    Attributes
    ----------
    code : str
        The version of the code, with plug-ins (:func:`gossiprec.plugins.code_with`).
    scenario : str
        SHA-256 of the run's ``scenario.yaml``.
    tick : int
        Reports written so far.
    time : float
        Virtual time of the last of them.
    log_bytes : int
        Length of the event log, and
    log_digest : str
        the digest of its rows.
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


@dataclass(frozen=True)
class _Block:
    dtype: str
    shape: tuple[int, ...]
    extents: I64
    crc: int

    @property
    def n_bytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    @property
    def stored(self) -> int:
        return int((self.extents[:, 1] - self.extents[:, 0]).sum())


def write_checkpoint(file: FileIO, stamp: Stamp, state: State) -> None:
    """Write a checkpoint to an unbuffered file.

    Raises
    ------
    OSError
        If the disk does not take it.
    TypeError
        If the state holds something that is neither plain nor an array.
    """
    arrays: list[npt.NDArray[Any] | Live] = []
    tree = msgpack.packb(state, default=lambda value: _numbered(value, arrays))
    head = frames.pack_record(frames.HEADER, {"format": FORMAT, "stamp": asdict(stamp)})
    write_all(file, MAGIC + head)
    blocks = [_write_block(file, array) for array in arrays]
    listed = [[b.dtype, list(b.shape), b.extents.astype("<i8").tobytes(), b.crc] for b in blocks]
    start = len(MAGIC) + len(head) + sum(block.stored for block in blocks)
    write_all(file, frames.pack_record(frames.INDEX, {"state": tree, "blocks": listed}))
    write_all(file, frames.pack_trailer(start))


def _numbered(value: Any, arrays: list[npt.NDArray[Any] | Live]) -> Any:
    """Return what stands for a value that msgpack does not know, and note it if it is an array."""
    if isinstance(value, np.generic):
        return value.item()
    if not isinstance(value, np.ndarray | Live):
        raise TypeError(f"a checkpoint holds plain values and arrays, not {type(value).__name__}")
    array = value.array if isinstance(value, Live) else value
    if not _DTYPE.fullmatch(array.dtype.str):
        raise TypeError(f"a checkpoint holds arrays of numbers, not of {array.dtype}")
    arrays.append(value)
    return msgpack.ExtType(_ARRAY, (len(arrays) - 1).to_bytes(4, "little"))


def _write_block(file: FileIO, value: npt.NDArray[Any] | Live) -> _Block:
    array = value.array if isinstance(value, Live) else np.ascontiguousarray(value)
    flat = array.reshape(-1).view(np.uint8)
    extents = _touched(flat)
    if isinstance(value, Live):
        extents = _joined(value.extents() * array.itemsize)
    crc = 0
    for piece in _pieces(flat, extents):
        crc = zlib.crc32(piece, crc)
        write_all(file, piece)
    return _Block(array.dtype.str, array.shape, extents, crc)


def _touched(flat: U8) -> I64:
    """Return the stretches that are not zero, in whole grains; a page that was never written stays unread."""
    if len(flat) < GRAIN:
        return np.array([[0, len(flat)]], np.int64) if len(flat) else np.zeros((0, 2), np.int64)
    starts = np.arange(0, len(flat), GRAIN)
    filled = [_any(flat[start : start + GRAIN]) for start in starts.tolist()]
    used = starts[np.array(filled)]
    return _joined(np.stack([used, np.minimum(used + GRAIN, len(flat))], axis=1))


def _any(grain: U8) -> bool:
    """Say whether a grain holds anything but zeros; most say so at the first look."""
    return bool(grain[:64].any() or grain.max())


def _joined(extents: I64) -> I64:
    """Return the same stretches with those that touch made one, and without empty ones."""
    extents = extents[extents[:, 1] > extents[:, 0]]
    if not len(extents):
        return extents.reshape(0, 2)
    apart = extents[1:, 0] != extents[:-1, 1]
    return np.stack([extents[np.append(True, apart), 0], extents[np.append(apart, True), 1]], axis=1)


def _pieces(flat: U8, extents: I64) -> Iterator[memoryview]:
    """Yield the bytes of some stretches: long ones cut up, short ones gathered."""
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


def read_stamp(path: str | os.PathLike[str]) -> Stamp:
    """Return a checkpoint's stamp without reading its state.

    Raises
    ------
    LogError
        If the file cannot be read, or does not begin like a checkpoint.
    """
    with _reading(Path(path)) as file:
        return _read_head(file)[0]


def read_checkpoint(path: str | os.PathLike[str], *, limit_bytes: int) -> tuple[Stamp, dict[str, Any]]:
    """Return a checkpoint's stamp and state, after every byte has been checked.

    Parameters
    ----------
    path : path
    limit_bytes : int
        Most memory that its arrays may take.

    Raises
    ------
    LogError
        If the file cannot be read or is damaged.
    ResourceError
        If its arrays need more memory.
    """
    path = Path(path)
    with _reading(path) as file:
        stamp, first = _read_head(file)
        tree, blocks = _read_index(file, first)
        needed = sum(block.n_bytes for block in blocks)
        if needed > limit_bytes:
            raise ResourceError(
                f"{path} holds {needed / 2**20:,.0f} MiB, but {limit_bytes / 2**20:,.0f} MiB of memory are available; "
                "stop other programs, or resume on a larger machine"
            )
        file.seek(first)
        arrays = [_read_block(file, block) for block in blocks]
        return stamp, _tree(tree, arrays, first)


class _reading:  # noqa: N801 (a context manager, used like a function)
    """Open a checkpoint and turn what is wrong with it into one :class:`LogError`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> BinaryIO:
        try:
            self._file = self._path.open("rb")
        except OSError as error:
            raise LogError(f"cannot read the checkpoint {self._path}: {error.strerror}") from error
        return self._file

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._file.close()
        if isinstance(error, DamagedError):
            raise LogError(f"{self._path}: damage at byte {error.offset}: {error.reason}") from error
        if isinstance(error, OSError):
            raise LogError(f"cannot read the checkpoint {self._path}: {error.strerror}") from error


def _read_head(file: BinaryIO) -> tuple[Stamp, int]:
    """Return the stamp, and the first byte after the record that holds it."""
    data = memoryview(file.read(LONGEST_HEAD))
    if data[: len(MAGIC)] != MAGIC:
        raise DamagedError(0, "the file does not begin like a checkpoint")
    record = frames.read_record(data, len(MAGIC))
    head = record.content(data)
    try:
        if record.tag != frames.HEADER or head["format"] != FORMAT:
            raise ValueError(
                f"tag {record.tag!r}, format {head.get('format')!r}; this gossiprec reads {FORMAT}"
            )
        return Stamp(**{name: head["stamp"][name] for name in _STAMP}), record.end
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DamagedError(record.start, f"the record is no head of a checkpoint ({error!r})") from error


_STAMP = [f.name for f in fields(Stamp)]


def _read_index(file: BinaryIO, first: int) -> tuple[bytes, list[_Block]]:
    """Return the packed state and the blocks, which lie between byte `first` and the index without a gap."""
    size = file.seek(0, os.SEEK_END)
    begin = size - frames.TRAILER_BYTES
    if begin < first:
        raise DamagedError(size, "torn tail: the file ends before its trailer")
    file.seek(begin)
    start = frames.index_start(memoryview(file.read()), begin)
    if not first <= start <= begin:
        raise DamagedError(begin, f"the trailer points to byte {start}, outside of the file")
    file.seek(start)
    data = memoryview(file.read(begin - start))
    try:
        record = frames.read_record(data, 0)
        content = record.content(data)
        if record.tag != frames.INDEX or record.end != len(data):
            raise DamagedError(0, f"it ends {len(data) - record.end} bytes before the trailer")
        blocks = [_block(*entry) for entry in content["blocks"]]
        tree = bytes(content["state"])
    except (DamagedError, ValueError, TypeError, KeyError) as error:
        raise DamagedError(start, f"the index cannot be read ({error})") from error
    if first + sum(block.stored for block in blocks) != start:
        raise DamagedError(start, "the arrays listed do not fill the bytes before the index")
    return tree, blocks


def _block(dtype: str, shape: list[int], extents: bytes, crc: int) -> _Block:
    if not _DTYPE.fullmatch(dtype) or any(length < 0 for length in shape):
        raise ValueError(f"no array has type {dtype!r} and shape {shape}")
    block = _Block(dtype, tuple(shape), np.frombuffer(extents, "<i8").astype(np.int64).reshape(-1, 2), crc)
    edges = block.extents.ravel()
    if len(edges) and (edges[0] < 0 or edges[-1] > block.n_bytes or (np.diff(edges) < 0).any()):
        raise ValueError("an array's stretches lie outside of it")
    return block


def _read_block(file: BinaryIO, block: _Block) -> npt.NDArray[Any]:
    """Return an array after its CRC has been found to hold."""
    array = np.zeros(block.shape, block.dtype)
    flat, crc, start = array.reshape(-1).view(np.uint8), 0, file.tell()
    for low, high in block.extents.tolist():
        for at in range(low, high, PIECE):
            part = flat[at : min(at + PIECE, high)].data
            if file.readinto(part) != len(part):  # type: ignore[attr-defined]  # of every file opened for reading
                raise DamagedError(start, "torn tail: the file ends within an array")
            crc = zlib.crc32(part, crc)
    if crc != block.crc:
        raise DamagedError(start, f"the CRC of an array ({block.stored} bytes) does not hold")
    return array


def _tree(packed: bytes, arrays: list[npt.NDArray[Any]], first: int) -> dict[str, Any]:
    def array(code: int, number: bytes) -> npt.NDArray[Any]:
        if code != _ARRAY:
            raise ValueError(f"unknown extension {code}")
        return arrays[int.from_bytes(number, "little")]

    try:
        tree = msgpack.unpackb(packed, ext_hook=array)
    except (ValueError, IndexError, msgpack.UnpackException) as error:
        raise DamagedError(first, f"the state cannot be unpacked ({error})") from error
    if not isinstance(tree, dict):
        raise DamagedError(first, "the state is no mapping")
    return tree
