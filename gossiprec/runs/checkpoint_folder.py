"""The folder ``checkpoints`` of a run: its files, newest first, and the deletion of old ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from gossiprec.base.errors import LogError
from gossiprec.runs import run_files
from gossiprec.runs.atomic_write import sync_folder
from gossiprec.runs.checkpoint_state import State
from gossiprec.runs.checkpoints import SUFFIX, CheckpointStamp, base_tick, write_checkpoint
from gossiprec.runs.direct_file import DirectFile
from gossiprec.runs.own_files import TEMPORARY_SUFFIX, check_folder, temporary_name


class CheckpointFolder:
    """The checkpoints of a run.

    Parameters
    ----------
    run : Path
        The run directory.
    """

    def __init__(self, run: Path) -> None:
        self.path = run / run_files.CHECKPOINTS

    def newest_first(self) -> list[Path]:
        """Return the checkpoints, the one of the latest report first.

        Raises
        ------
        LogError
            If the folder is a link.
        """
        check_folder(self.path)
        found = self.path.glob(f"[0-9]*{SUFFIX}") if self.path.is_dir() else ()
        return sorted((path for path in found if path.stem.isdecimal()), key=_tick, reverse=True)

    def write(
        self,
        stamp: CheckpointStamp,
        state: State,
        *,
        keep: int,
        wanted: Callable[[], bool],
        after: int | None = None,
    ) -> None:
        """Write a checkpoint under a temporary name, rename it, and delete the files that are no longer needed.

        The last `keep` checkpoints stay, and so do the files they build on. If these are several and all build on one
        base, the base before it stays too.

        Parameters
        ----------
        stamp : CheckpointStamp
        state : State
        keep : int
        wanted : callable
            Called before the file is renamed; if it returns false, the file is discarded.
        after : int, optional
            Tick of the last checkpoint that this process wrote; only changes since then need to be written.

        Raises
        ------
        OSError
            If the file cannot be written; nothing of it is left then.
        """
        check_folder(self.path)
        self.path.mkdir(exist_ok=True)
        path, before = self._at(stamp.tick), None if after is None else self._at(after)
        temporary = temporary_name(path)
        try:
            with DirectFile(temporary) as file:
                write_checkpoint(file, stamp, state, before)
                file.flush()
                os.fsync(file.fileno())
            if not wanted():
                return
            temporary.replace(path)
        finally:
            with suppress(OSError):
                temporary.unlink()
        sync_folder(self.path)
        for old in self._unneeded(keep):
            old.unlink(missing_ok=True)

    def _unneeded(self, keep: int) -> list[Path]:
        """Return the checkpoints that are neither among the last `keep` nor needed by those."""
        found = self.newest_first()
        needed, bases = set(found[:keep]), set()
        for path in found[:keep]:
            lower = path
            while (tick := _rests_on(lower)) is not None:
                lower = self._at(tick)
                needed.add(lower)
            bases.add(lower)
        if keep > 1 and len(bases) == 1:
            older = (path for path in found if path < min(bases) and _rests_on(path) is None)
            needed.update([*older][:1])
        return [path for path in found if path not in needed]

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
        check_folder(self.path)
        for path in self.path.glob(f".*{SUFFIX}.*{TEMPORARY_SUFFIX}") if self.path.is_dir() else ():
            path.unlink(missing_ok=True)


def _tick(path: Path) -> int:
    return int(path.stem)


def _rests_on(path: Path) -> int | None:
    """Return the tick of the checkpoint on which `path` builds, or None if there is none or it cannot be read."""
    try:
        return base_tick(path)
    except LogError:
        return None
