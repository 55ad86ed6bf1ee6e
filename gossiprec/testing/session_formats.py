"""Contract of session formats: possible recordings, the same at each reading, of a file that the manifest names."""

from __future__ import annotations

import gzip
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from gossiprec.base.errors import DataError
from gossiprec.base.inputs import record_inputs
from gossiprec.data.sources import FileSource
from gossiprec.network.sessions import SessionFormat
from gossiprec.network.sim.clock import TimeUnit
from gossiprec.testing.tiny_runs import check_claims


@dataclass(frozen=True)
class SessionFormatCase:
    """A format with its options, and a file of the format."""

    format: SessionFormat
    path: Path


def check_session_format(
    format: type[SessionFormat], path: str | os.PathLike[str], options: Mapping[str, Any] | None = None
) -> None:
    """Check a format of sessions by reading a file.

    Parameters
    ----------
    format : type of SessionFormat
        The class; it need not be registered.
    path : path
        A small file of the format.
    options : mapping, optional
        Options as in a scenario.

    Raises
    ------
    AssertionError
        If a claim does not hold; the message lists all of them.
    """
    made = format(format.Options.model_validate(options or {}))
    check_claims(f"the session format {format.__name__}", __name__, case=SessionFormatCase(made, Path(path)))


def it_is_described(case: SessionFormatCase) -> None:
    """Have a docstring, and a unit of time or None."""
    assert type(case.format).__doc__, "Found no docstring."
    unit = case.format.unit
    assert unit is None or unit in get_args(TimeUnit), f"Found unit {unit!r}."


def recordings_are_possible(case: SessionFormatCase) -> None:
    """Yield at least one recording, with ascending changes within its length."""
    found = list(case.format.recordings(FileSource(case.path)))
    assert found, "Found no recording."
    faults = [f"{one.place}: {fault}" for one in found if (fault := one.fault())]
    assert not faults, f"Found {faults[0]}."


def reading_again_gives_the_same(case: SessionFormatCase) -> None:
    """Yield the same recordings in the same order at each reading."""
    once, again = (
        [
            (one.place, one.online, one.changes.tolist(), one.length)
            for one in case.format.recordings(FileSource(case.path))
        ]
        for _ in range(2)
    )
    assert once == again, "Two readings differ."


def the_file_is_recorded(case: SessionFormatCase) -> None:
    """Open the file by the given source, so that the manifest has its fingerprint."""
    with record_inputs() as inputs:
        list(case.format.recordings(FileSource(case.path)))
    assert list(inputs) == [str(case.path)], f"Found {list(inputs)}."


def a_damaged_file_is_refused(case: SessionFormatCase) -> None:
    """Refuse a compressed file that is cut, by a DataError that names it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cut.gz"
        packed = gzip.compress(case.path.read_bytes(), mtime=0)
        path.write_bytes(packed[: len(packed) // 2])
        message = _refusal(case.format, path)
    assert message is not None, "It read a file that is cut."
    assert str(path) in message, f"The message names no file: {message}"


def _refusal(format: SessionFormat, path: Path) -> str | None:
    try:
        list(format.recordings(FileSource(path)))
    except DataError as error:
        return str(error)
    return None
