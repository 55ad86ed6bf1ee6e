"""Verification of a log from the first byte to the last, and against its run's manifest."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from gossiprec.base.errors import LogError
from gossiprec.runs import run_files
from gossiprec.runs.lock import is_locked
from gossiprec.runs.manifest import file_faults, manifest_fault, read_manifest
from gossiprec.runs.reader import EventLog, LogDamage, open_log
from gossiprec.runs.record_format import DamagedError
from gossiprec.runs.run_files import check_own_files


@dataclass(frozen=True)
class LogVerification:
    """The result of verifying a log.

    Attributes
    ----------
    path : Path
        The log.
    run : Path or None
        The run directory, if it was given.
    size_bytes : int
    complete : bool
        The log was closed by its writer, every byte is as written, and it is the log that its run's manifest names.
    damage : LogDamage or None
        None for a log that ends after a whole chunk, without an index: it is still being written, or its writer died.
    rows : dict of str to int
        Readable rows before the damage, by kind.
    last_times : dict of str to float
        The greatest readable virtual time of each kind that has rows.
    digest : str or None
        Digest of the readable rows.
    rows_after : dict of str to int
        Rows in whole chunks after the damage; the reader does not return them.
    rows_lost : dict of str to int or None
        Lost rows by kind, or None if the index is damaged and the number is unknown.
    contradiction : str or None
        The first of `faults`.
    faults : tuple of str
        Differences between the manifest and itself, the log, or the other files of the run.
    has_manifest : bool
        Whether the run has a manifest, which records digests of its files.
    is_growing : bool
        Whether a running process holds the log's lock.
    """

    path: Path
    size_bytes: int
    complete: bool
    damage: LogDamage | None
    run: Path | None = None
    rows: dict[str, int] = field(default_factory=dict)
    last_times: dict[str, float] = field(default_factory=dict)
    digest: str | None = None
    rows_after: dict[str, int] = field(default_factory=dict)
    rows_lost: dict[str, int] | None = None
    contradiction: str | None = None
    faults: tuple[str, ...] = ()
    has_manifest: bool = False
    is_growing: bool = False

    def __str__(self) -> str:
        if self.damage is not None:
            found = str(self.damage)
        elif self.contradiction is not None:
            found = self.contradiction
        elif self.complete:
            found = "complete and intact"
            if self.has_manifest:
                found += ", and so are all files of the run"
        else:
            now = "is being written" if self.is_growing else "ends"
            found = f"intact so far, but {now} at byte {self.size_bytes} without an index"
        return f"{self.path}: {found}"


def verify_log(path: str | os.PathLike[str]) -> LogVerification:
    """Check every byte of a log: CRCs, the index, the trailer, the digest against the content, and the manifest.

    Any single flipped bit and any truncation is found: a CRC-32 covers each record, and the magic and the trailer are
    compared with their fixed values. In a closed log the index reveals every chunk that is missing, repeated or
    moved.

    Parameters
    ----------
    path : path
        A log, or a run directory. Only in a run directory can the log be compared with a manifest.

    Raises
    ------
    LogError
        If there is no file to read.
    """
    run = Path(path) if Path(path).is_dir() else None
    if run is not None:
        check_own_files(run)
    path = run_files.log_path(Path(path))
    growing = is_locked(path)
    try:
        log = open_log(path)
    except DamagedError as found:
        damage = LogDamage(found.offset, found.reason)
        size = path.stat().st_size
        return LogVerification(path, size, complete=False, damage=damage, run=run, is_growing=growing)
    (digest, spans), damage_found = log.digest_and_spans(), log.damage
    if log.index_offset is not None and digest != log.recorded_digest:
        reason = f"the content has digest {digest}, but the index records {log.recorded_digest}"
        damage_found = LogDamage(log.index_offset, reason)
    after, lost = _beyond(log) if log.damage else ({}, None)
    faults = _faults(run, log, digest) if run else []
    return LogVerification(
        path=path,
        size_bytes=log.size_bytes,
        complete=log.complete and damage_found is None and not faults,
        damage=damage_found,
        run=run,
        rows=log.rows,
        last_times={kind: spans[kind][1] for kind in log.kinds if kind in spans},
        digest=digest,
        rows_after=after,
        rows_lost=lost,
        contradiction=faults[0] if faults else None,
        faults=tuple(faults),
        has_manifest=run is not None and (run / run_files.MANIFEST).exists(),
        is_growing=growing,
    )


def _beyond(log: EventLog) -> tuple[dict[str, int], dict[str, int] | None]:
    """Return the rows that are readable after the damage, and the rows that are lost, by kind."""
    assert log.damage is not None
    after, written = log.count_rows_after(log.damage.offset)
    if written is None:
        return after, None
    return after, {kind: written.get(kind, 0) - log.rows[kind] - after[kind] for kind in log.kinds}


def _faults(run: Path, log: EventLog, digest: str) -> list[str]:
    """Return the differences from a run's manifest, if there is one."""
    path = run / run_files.MANIFEST
    if not path.exists():
        return []
    try:
        manifest = read_manifest(run)
    except LogError as error:
        return [f"cannot be compared with {path}, which is not a manifest ({error})"]
    recorded, faults = manifest.get("log_digest"), []
    if fault := manifest_fault(manifest):
        faults.append(f"{path} {fault}")
    if recorded is not None and recorded != digest:
        faults.append(f"the readable rows have digest {digest}, but {path} records {recorded}")
    if manifest["status"] == "complete" and not log.complete:
        faults.append(
            f"ends at byte {log.size_bytes} without an index, but according to {path} the run is complete"
        )
    return [*faults, *file_faults(run, manifest), *_observed_faults(run)]


def _observed_faults(run: Path) -> list[str]:
    """Return the faults of the results of later observers, each of which is a run directory."""
    folder, faults = run / run_files.OBSERVED, []
    for each in sorted(folder.iterdir()) if folder.is_dir() else ():
        if not each.name.startswith("."):
            try:
                run_files.check_folder(each)
                if not (each / run_files.MANIFEST).is_file():
                    raise LogError(
                        f"{each} has no {run_files.MANIFEST}; delete it, and observe the run again"
                    )
                found = verify_log(each)
            except LogError as error:
                faults.append(str(error))
            else:
                faults += [] if found.complete else [str(found)]
    return faults


def first_fault(run: Path) -> str | None:
    """Return the first proof that a run directory is damaged, or None."""
    try:
        found = verify_log(run)
    except LogError as error:
        return str(error)
    return None if found.damage is None and found.contradiction is None else str(found)
