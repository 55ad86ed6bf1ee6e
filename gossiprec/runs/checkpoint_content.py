"""The head and the index of a checkpoint file, read and checked."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import BinaryIO

from gossiprec.base.arrays import MOST_COUNT
from gossiprec.base.errors import LogError
from gossiprec.runs import record_format
from gossiprec.runs.checkpoint_blocks import ArrayBlock, unpack_block
from gossiprec.runs.own_files import open_to_read
from gossiprec.runs.record_format import DamagedError

MAGIC = b"\x89GRCKP\r\n"
FORMAT = 2

LONGEST_HEAD = 2**20


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


@dataclass(frozen=True)
class DeltaBase:
    """The checkpoint on which a delta builds: its tick, the CRC of its index, and the number of deltas below it."""

    tick: int
    crc: int
    deltas: int


@dataclass(frozen=True)
class CheckpointContent:
    """The declared content of a checkpoint file; its arrays begin at byte `first`."""

    path: Path
    stamp: CheckpointStamp
    rests: DeltaBase | None
    first: int
    tree: bytes
    blocks: list[ArrayBlock]
    crc: int

    @property
    def deltas(self) -> int:
        """Number of deltas up to and including this file; 0 for a base."""
        return 0 if self.rests is None else self.rests.deltas + 1


class CheckpointReader:
    """Context manager that opens a checkpoint and turns every fault of it into one :class:`LogError`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> BinaryIO:
        try:
            self._file = open_to_read(self._path)
        except OSError as error:
            raise LogError(f"cannot read the checkpoint {self._path}: {error.strerror}") from error
        return self._file

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._file.close()
        if isinstance(error, DamagedError):
            raise LogError(f"{self._path}: damage at byte {error.offset}: {error.reason}") from error
        if isinstance(error, OSError):
            raise LogError(f"cannot read the checkpoint {self._path}: {error.strerror}") from error


def read_content(path: Path) -> CheckpointContent:
    """Return the declared content of a checkpoint file.

    Raises
    ------
    LogError
        If it cannot be read, or its head or its index is damaged.
    """
    with CheckpointReader(path) as file:
        stamp, rests, first = read_head(file)
        return CheckpointContent(path, stamp, rests, first, *_read_index(file, first))


def read_head(file: BinaryIO) -> tuple[CheckpointStamp, DeltaBase | None, int]:
    """Return the stamp, the base of the file, and the first byte after the record that holds them."""
    data = memoryview(file.read(LONGEST_HEAD))
    if data[: len(MAGIC)] != MAGIC:
        raise DamagedError(0, "the file does not start with the magic bytes of a checkpoint")
    record = record_format.read_record(data, len(MAGIC))
    head = record.content(data)
    try:
        if record.tag != record_format.HEADER or head["format"] != FORMAT:
            raise ValueError(
                f"tag {record.tag!r}, format {head.get('format')!r}; this gossiprec reads {FORMAT}"
            )
        rests = head["rests"] and DeltaBase(**{name: int(head["rests"][name]) for name in _RESTS})
        stamp = CheckpointStamp(**{name: head["stamp"][name] for name in _STAMP})
        _check_stamp(stamp)
        return stamp, rests, record.end
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DamagedError(record.start, f"the record is not the head of a checkpoint ({error!r})") from error


def _check_stamp(stamp: CheckpointStamp) -> None:
    numbers = [stamp.tick, stamp.log_bytes, *(number for table in stamp.tables.values() for number in table)]
    if not all(type(number) is int and 0 <= number <= MOST_COUNT for number in numbers):
        raise ValueError(f"found the numbers {numbers}; expected counts")
    if not isinstance(stamp.time, float | int) or any(len(table) != 2 for table in stamp.tables.values()):
        raise ValueError(f"found the time {stamp.time!r} and the tables {stamp.tables!r}")


_STAMP, _RESTS = ([f.name for f in fields(kind)] for kind in (CheckpointStamp, DeltaBase))


def _read_index(file: BinaryIO, first: int) -> tuple[bytes, list[ArrayBlock], int]:
    """Return packed state, blocks and CRC of the index; the blocks fill the bytes from `first` to the index."""
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
    if first + sum(block.stored_bytes for block in found) != start:
        raise DamagedError(start, "the arrays listed do not fill the bytes before the index")
    return tree, found, int.from_bytes(data[-record_format.CRC_BYTES :], "little")
