"""The folder ``checkpoints`` of a run: which files it holds, the newest first, and which of them go."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from gossiprec.eventlog import layout
from gossiprec.eventlog.atomic_write import TEMPORARY_SUFFIX, sync_folder
from gossiprec.eventlog.checkpoints import Stamp, State, write_checkpoint

SUFFIX = ".ckpt"


class CheckpointFolder:
    """The checkpoints of a run.

    Parameters
    ----------
    run : Path
        The run directory.
    """

    def __init__(self, run: Path) -> None:
        self.path = run / layout.CHECKPOINTS

    def newest_first(self) -> list[Path]:
        """Return the checkpoints, that of the latest report first."""
        found = self.path.glob(f"[0-9]*{SUFFIX}") if self.path.is_dir() else ()
        return sorted((path for path in found if path.stem.isdecimal()), key=_tick, reverse=True)

    def write(self, stamp: Stamp, state: State, *, keep: int, wanted: Callable[[], bool]) -> None:
        """Write a checkpoint under a temporary name, rename it, and drop all but the last `keep`.

        Parameters
        ----------
        stamp : Stamp
        state : State
        keep : int
        wanted : callable
            Asked before the renaming; if it returns false, the file is given up.

        Raises
        ------
        OSError
            If the disk does not take it; nothing of it is then left.
        """
        self.path.mkdir(exist_ok=True)
        path = self.path / f"{stamp.tick:08d}{SUFFIX}"
        temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY_SUFFIX}")
        try:
            with temporary.open("wb", buffering=0) as file:
                write_checkpoint(file, stamp, state)
                os.fsync(file.fileno())
            if not wanted():
                return
            temporary.replace(path)
        finally:
            with suppress(OSError):
                temporary.unlink()
        sync_folder(self.path)
        for old in self.newest_first()[keep:]:
            old.unlink(missing_ok=True)

    def drop_after(self, tick: int) -> None:
        """Delete the checkpoints of later reports, and what a killed process left half written."""
        for path in self.newest_first():
            if _tick(path) > tick:
                path.unlink(missing_ok=True)
        self._drop_unfinished()

    def clear(self) -> None:
        """Delete all checkpoints, and the folder if nothing else is in it; what cannot be deleted stays."""
        with suppress(OSError):
            for path in self.newest_first():
                path.unlink(missing_ok=True)
            self._drop_unfinished()
            self.path.rmdir()

    def _drop_unfinished(self) -> None:
        for path in self.path.glob(f".*{SUFFIX}.*{TEMPORARY_SUFFIX}") if self.path.is_dir() else ():
            path.unlink(missing_ok=True)


def _tick(path: Path) -> int:
    return int(path.stem)
