"""Checkpoints of a run: writing and reading their files, and the folder that holds them.

A file holds a tree of plain values and arrays, every byte under a CRC, and is written in one pass.

::

    file  = magic, record HEAD, bytes of block 0, block 1, ..., record INDX, trailer

Records and trailer have the format of the event log (:mod:`gossiprec.runs.record_format`). HEAD holds the stamp:
the run and its progress. INDX holds the state with a number in place of each array, and of each array its type,
shape, CRC-32 and *extents*: the ranges of its bytes that matter; all other bytes are zero. There is no padding: the
blocks fill the space between the two records.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from io import FileIO
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import numpy.typing as npt

from gossiprec.base.errors import ResourceError
from gossiprec.runs import checkpoint_format as fmt
from gossiprec.runs import record_format, run_files
from gossiprec.runs.checkpoint_format import CheckpointStamp
from gossiprec.runs.checkpoint_state import PartialArray, State
from gossiprec.runs.record_format import DamagedError

SUFFIX = ".ckpt"

_ARRAY = 1
"""Code of an array's number among msgpack's extension types."""


def write_checkpoint(file: FileIO, stamp: CheckpointStamp, state: State) -> None:
    """Write a checkpoint to an unbuffered file.

    Raises
    ------
    OSError
        If the file cannot be written; raised before anything is written if too little space is free.
    TypeError
        If the state holds something that is neither plain nor an array.
    """
    arrays: list[npt.NDArray[Any] | PartialArray] = []
    tree = msgpack.packb(state, default=lambda value: _numbered(value, arrays))
    blocks = [fmt.measure_block(array) for array in arrays]
    _check_room(file, sum(block.stored_bytes for block in blocks))
    head = record_format.pack_record(record_format.HEADER, {"format": fmt.FORMAT, "stamp": asdict(stamp)})
    run_files.write_all(file, fmt.MAGIC + head)
    flats = (fmt.byte_view(array.array if isinstance(array, PartialArray) else array) for array in arrays)
    done = [fmt.write_block(file, flat, block) for flat, block in zip(flats, blocks, strict=True)]
    start = len(fmt.MAGIC) + len(head) + sum(block.stored_bytes for block in done)
    listed = [block.index_entry() for block in done]
    run_files.write_all(
        file, record_format.pack_record(record_format.INDEX, {"state": tree, "blocks": listed})
    )
    run_files.write_all(file, record_format.pack_trailer(start))


def _check_room(file: FileIO, needed: int) -> None:
    """Refuse a checkpoint larger than the free disk space before it is written."""
    disk = os.fstatvfs(file.fileno())
    free = disk.f_bavail * disk.f_frsize
    if needed > free:
        raise OSError(
            errno.ENOSPC,
            f"it needs {needed / 2**20:,.0f} MiB, but only {free / 2**20:,.0f} MiB of the disk are free",
        )


def _numbered(value: Any, arrays: list[npt.NDArray[Any] | PartialArray]) -> Any:
    """Return the msgpack form of a value that msgpack does not know, and append it to `arrays` if it is an array."""
    if isinstance(value, np.generic):
        return value.item()
    if not isinstance(value, np.ndarray | PartialArray):
        raise TypeError(f"a checkpoint holds plain values and arrays, not {type(value).__name__}")
    array = value.array if isinstance(value, PartialArray) else value
    if not fmt.DTYPE.fullmatch(array.dtype.str):
        raise TypeError(f"a checkpoint holds arrays of numbers, not of {array.dtype}")
    arrays.append(value)
    return msgpack.ExtType(_ARRAY, (len(arrays) - 1).to_bytes(4, "little"))


def read_stamp(path: str | os.PathLike[str]) -> CheckpointStamp:
    """Return a checkpoint's stamp without reading its state.

    Raises
    ------
    LogError
        If the file cannot be read, or does not begin like a checkpoint.
    """
    with fmt.open_checkpoint(Path(path)) as file:
        return fmt.read_head(file)[0]


def read_checkpoint(
    path: str | os.PathLike[str], *, limit_bytes: int
) -> tuple[CheckpointStamp, dict[str, Any]]:
    """Return a checkpoint's stamp and state; every byte that is used has been checked.

    Parameters
    ----------
    path : path
    limit_bytes : int
        Limit on the memory of its arrays.

    Raises
    ------
    LogError
        If the file cannot be read or is damaged.
    ResourceError
        If its arrays need more memory.
    """
    path = Path(path)
    with fmt.open_checkpoint(path) as file:
        stamp, first = fmt.read_head(file)
        tree, blocks = fmt.read_index(file, first)
        needed = sum(block.n_bytes for block in blocks) + record_format.VALUE_BYTES * len(tree)
        if needed > limit_bytes:
            raise ResourceError(
                f"{path} holds {needed / 2**20:,.0f} MiB, but {limit_bytes / 2**20:,.0f} MiB of memory are available; "
                "stop other programs, or resume on a larger machine"
            )
        left = (limit_bytes - needed) // record_format.CONTAINER_BYTES
        arrays = [np.zeros(block.shape, block.dtype) for block in blocks]
        file.seek(first)
        for array, block in zip(arrays, blocks, strict=True):
            fmt.read_block(file, block, array.reshape(-1).view(np.uint8))
        return stamp, _tree(tree, left, arrays, first)


def _tree(packed: bytes, most_containers: int, arrays: list[npt.NDArray[Any]], first: int) -> dict[str, Any]:
    def array(code: int, number: bytes) -> npt.NDArray[Any]:
        if code != _ARRAY:
            raise ValueError(f"unknown extension {code}")
        return arrays[int.from_bytes(number, "little")]

    try:
        tree = record_format.unpack(packed, most_containers, ext_hook=array)
    except (ValueError, IndexError, msgpack.UnpackException) as error:
        raise DamagedError(first, f"the state cannot be unpacked ({error})") from error
    if not isinstance(tree, dict):
        raise DamagedError(first, "the state is not a mapping")
    return tree


class CheckpointFolder:
    """The checkpoints of a run.

    Parameters
    ----------
    run : Path
        The run directory.

    Attributes
    ----------
    sizes : list of int
        Bytes of each checkpoint that was written since this object was made.
    """

    def __init__(self, run: Path) -> None:
        self.path = run / run_files.CHECKPOINTS
        self.sizes: list[int] = []

    def note_written(self, tick: int) -> None:
        """Note the size of a checkpoint that another process has written."""
        with suppress(OSError):
            self.sizes.append(self._at(tick).stat().st_size)

    def summary(self) -> dict[str, Any]:
        """Return the number of :attr:`sizes` and the largest in MiB, for the run's summary; nothing without any."""
        if not self.sizes:
            return {}
        return {"checkpoints": {"written": len(self.sizes), "largest_mib": max(self.sizes) / 2**20}}

    def newest_first(self) -> list[Path]:
        """Return the checkpoints, the one of the latest report first.

        Raises
        ------
        LogError
            If the folder is a link.
        """
        run_files.check_folder(self.path)
        found = self.path.glob(f"[0-9]*{SUFFIX}") if self.path.is_dir() else ()
        return sorted((path for path in found if path.stem.isdecimal()), key=_tick, reverse=True)

    def write(
        self,
        stamp: CheckpointStamp,
        state: State,
        *,
        keep: int,
        wanted: Callable[[], bool],
    ) -> None:
        """Write a checkpoint under a temporary name, rename it, and delete all but the last `keep`.

        Parameters
        ----------
        stamp : CheckpointStamp
        state : State
        keep : int
        wanted : callable
            Called before the file is renamed; if it returns false, the file is discarded.

        Raises
        ------
        OSError
            If the file cannot be written; nothing of it is left then.
        """
        run_files.check_folder(self.path)
        self.path.mkdir(exist_ok=True)
        path = self._at(stamp.tick)
        temporary = run_files.temporary_name(path)
        try:
            with FileIO(
                temporary, "w", opener=lambda name, _: run_files.open_regular(name, run_files.NEW)
            ) as file:
                write_checkpoint(file, stamp, state)
                os.fsync(file.fileno())
            if not wanted():
                return
            temporary.replace(path)
        finally:
            with suppress(OSError):
                temporary.unlink()
        run_files.sync_folder(self.path)
        for old in self.newest_first()[keep:]:
            old.unlink(missing_ok=True)

    def _at(self, tick: int) -> Path:
        return self.path / f"{tick:08d}{SUFFIX}"

    def drop_after(self, tick: int) -> None:
        """Delete the checkpoints of later reports, and files that a killed process left half written."""
        for path in self.newest_first():
            if _tick(path) > tick:
                path.unlink(missing_ok=True)
        self._drop_unfinished()

    def clear(self) -> None:
        """Delete all checkpoints, and the folder if it is then empty; files that cannot be deleted stay."""
        with suppress(OSError):
            for path in self.newest_first():
                path.unlink(missing_ok=True)
            self._drop_unfinished()
            self.path.rmdir()

    def _drop_unfinished(self) -> None:
        run_files.check_folder(self.path)
        for path in self.path.glob(f".*{SUFFIX}.*{run_files.TEMPORARY_SUFFIX}") if self.path.is_dir() else ():
            path.unlink(missing_ok=True)


def _tick(path: Path) -> int:
    return int(path.stem)
