"""Small logs for the tests of this folder."""

from __future__ import annotations

import resource
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gossiprec.runs.writer import EventWriter

SIZES = {"view_size": 3}

WAKES = {"time": [0.25, 0.5, 1.5], "node": [0, 2, 1]}
VIEWS = {"time": [0.25, 0.5], "node": [0, 2], "peers": [[1, 2, 3], [0, 1, -1]]}
MESSAGES = {
    "time": [0.5, 0.75, 1.0, 2.0],
    "sender": [0, 0, 2, 1],
    "receiver": [1, 2, 0, 3],
    "sent_at": [0.25, 0.25, 0.5, 1.5],
    "size_bytes": [64, 64, 64, 64],
    "queued": [0.0, 0.0, 0.125, 0.0],
}
DROPS = {"time": [1.75], "sender": [3], "receiver": [0], "sent_at": [1.5], "cause": [1]}


def write_small_log(path: Path) -> Path:
    """Write two chunks of messages and one each of wakes, views and drops."""
    with EventWriter(path, sizes=SIZES) as log:
        log.append("wake", WAKES)
        log.append("message", part(MESSAGES, 0, 3))
        log.append("view", VIEWS)
        log.append("message", part(MESSAGES, 3, 4))
        log.append("drop", DROPS)
    return path


@contextmanager
def file_size_limit(size_bytes: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size: as on a disk that is full."""
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))


def part(columns: Mapping[str, Any], start: int, stop: int) -> dict[str, Any]:
    """Return some of the rows."""
    return {name: values[start:stop] for name, values in columns.items()}


def same(found: Mapping[str, npt.NDArray[Any]], expected: Mapping[str, Any]) -> bool:
    """Return whether the columns are bit for bit the same rows."""
    return list(found) == list(expected) and all(
        found[name].tobytes() == np.asarray(expected[name], found[name].dtype).tobytes() for name in found
    )
