"""The writer's side of a run directory."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy.typing as npt

from gossiprec.base.arrays import I32, I64
from gossiprec.base.errors import LogError
from gossiprec.base.plain_text import dump_yaml
from gossiprec.base.registry import Plugins, combined_code_version
from gossiprec.runs import manifest as manifests
from gossiprec.runs import run_files, run_tables
from gossiprec.runs.checkpoint_format import CheckpointStamp
from gossiprec.runs.checkpoints import CheckpointFolder
from gossiprec.runs.lock import MARKER, RunLock, is_locked, process_identity
from gossiprec.runs.run import Run
from gossiprec.runs.run_tables import UserRow, write_by_user, write_lists
from gossiprec.runs.schema import SCHEMA
from gossiprec.runs.writer import EventWriter

TABLES = (run_tables.METRICS, run_tables.ATTACKS, run_tables.FINDINGS)
"""The tables that grow during a run."""


@dataclass
class RunDirectory:
    """The output files of a run, written in one step or row by row; made by :meth:`create`.

    Attributes
    ----------
    path : Path
    metrics, attacks, findings : TableWriter
        ``metrics.csv``, ``attacks.csv`` and ``findings.csv``; append rows as ticks come.
    log : EventWriter
        ``events.mplog``.
    checkpoints : CheckpointFolder
    notes : list of str
        Faults that did not end the run, for the manifest.
    lock : RunLock
        Shows other processes that the run is alive.
    ended : Run or None
        The run as :meth:`finish` left it, with its summary.
    """

    path: Path
    tables: Sequence[run_tables.TableWriter]
    log: EventWriter
    lock: RunLock
    _manifest: dict[str, Any]
    _code: str
    notes: list[str] = field(default_factory=list)
    ended: Run | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.metrics, self.attacks, self.findings = self.tables
        self.checkpoints = CheckpointFolder(self.path)
        self._scenario_hash = scenario_hash(self.path)  # computed now: the file may change later
        self._first_digests = dict(self._manifest[manifests.FILES])

    @staticmethod
    def create(
        path: str | os.PathLike[str],
        *,
        scenario: Mapping[str, Any],
        seed: int,
        sizes: Mapping[str, int] | None = None,
        plugins: Plugins | None = None,
        data: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
        control_kinds: Sequence[str] = (),
        changes: Iterable[Mapping[str, Any]] = (),
        overwrite: bool = False,
    ) -> RunDirectory:
        """Make the directory and open its files.

        Parameters
        ----------
        path : path
            Absent, empty, or with `overwrite` an earlier run, of which only the files of a run are deleted. The lock
            is taken first: a folder in which another process writes is left unchanged.
        scenario : mapping
            Fully resolved, plain data.
        seed : int
        sizes : mapping of str to int, optional
            For the log's schema, such as ``{"view_size": 3}``.
        plugins : Plugins, optional
            The plug-ins that the scenario uses.
        data : mapping, optional
            Identity of the data, for the manifest.
        inputs : mapping, optional
            Fingerprints of the files that the run has read, by path.
        control_kinds : sequence of str
            The kinds of messages without a model, for the log's schema.
        changes : iterable of mapping
            The changes of options that the run makes.
        overwrite : bool

        Raises
        ------
        LogError
            If `path` holds a run and `overwrite` is false, or holds something that is not a run.
        ResourceError
            If the directory cannot be made or written.
        """
        lock = _locked(path := Path(path), overwrite=overwrite)
        try:
            _make_empty(path)
            manifest = manifests.new_manifest(seed, plugins, data, inputs)
            if made := [*map(dict, changes)]:
                manifest["changes"] = made
            manifests.write_manifest(path, manifest)
            run_files.replace_file(path / run_files.SCENARIO, dump_yaml(dict(scenario)).encode())
            manifest[manifests.FILES] = manifests.digests_of(path, [run_files.SCENARIO])
            manifests.write_manifest(path, manifest)
            tables = [run_tables.TableWriter(path, table) for table in TABLES]
            log = _new_log(path / run_files.EVENTS, lock, sizes or {}, control_kinds)
        except BaseException:
            lock.close()
            raise
        return RunDirectory(path, tables, log, lock, manifest, combined_code_version(manifest["plugins"]))

    @staticmethod
    def reopened(path: Path, stamp: CheckpointStamp, lock: RunLock, code: str) -> RunDirectory:
        """Reopen a run that ended early, as it was at a checkpoint; its status becomes ``running``.

        Parameters
        ----------
        path : Path
        stamp : CheckpointStamp
            Stamp of the checkpoint.
        lock : RunLock
            Taken before the checkpoint was chosen.
        code : str
            Version of the code, with plug-ins, that continues the run.

        Raises
        ------
        LogError
            If log or tables differ from the checkpoint's records; they are left unchanged.
        ResourceError
            If the files cannot be written.
        """
        if stamp.tables.keys() != {table.file for table in TABLES}:
            raise LogError(
                f"the checkpoint at time {stamp.time:g} was written by a version with the tables "
                f"{', '.join(stamp.tables)}, not " + ", ".join(table.file for table in TABLES)
            )
        before = [run_tables.read_checked_prefix(path, table, stamp.tables[table.file]) for table in TABLES]
        log = EventWriter.resumed(path / run_files.EVENTS, end=stamp.log_bytes, digest=stamp.log_digest)
        _remove_leftovers(path)
        with run_files.wrap_write_errors(path):
            for name in run_files.RESULTS:
                (path / name).unlink(missing_ok=True)
        manifest = manifests.read_manifest(path)
        manifest.update(status="running", writer=process_identity(), log_digest=None, finished=None)
        manifest[manifests.FILES] = manifests.digests_of(
            path, [run_files.SCENARIO, run_files.USERS, run_files.ITEMS]
        )
        resumed = {
            "at": manifests.utc_now(),
            "time": stamp.time,
            "code": code,
            **manifests.processor_and_target(),
        }
        manifest.setdefault("resumed", []).append(resumed)
        manifests.write_manifest(path, manifest)
        tables = [
            run_tables.TableWriter(path, table, content=c) for table, c in zip(TABLES, before, strict=True)
        ]
        found = RunDirectory(path, tables, log, lock, manifest, code, [*manifest.get("notes", [])])
        found.checkpoints.drop_after(stamp.tick)
        return found

    def stamp(self, *, tick: int, time: float) -> CheckpointStamp:
        """Return the progress of the run's files, for a checkpoint."""
        return CheckpointStamp(
            code=self._code,
            scenario=self._scenario_hash,
            tick=tick,
            time=time,
            log_bytes=self.log.size_bytes,
            log_digest=self.log.digest,
            tables={writer.table.file: writer.length_and_crc() for writer in self.tables},
        )

    def write_adversaries(self, accuracies: Mapping[str, tuple[npt.ArrayLike, npt.ArrayLike]]) -> None:
        """Write ``adversaries.npz``: attack key to (node ids, accuracies)."""
        run_tables.write_adversaries(self.path, accuracies)

    def write_hits(self, hits: run_tables.Arrays) -> None:
        """Write ``hits.npz``: attack key to pairs of an adversary and a user that it found, shape (n_hits, 2)."""
        run_tables.write_arrays(self.path / run_files.HITS, hits)

    def write_version(self, arrays: run_tables.Arrays) -> None:
        """Write ``version.npz``: the tables of a coordinator's version, and the popularity of each item."""
        run_tables.write_arrays(self.path / run_files.VERSION, arrays)

    def write_by_user(self, rows: Iterable[UserRow]) -> None:
        """Write ``metrics_by_user.parquet``; see :func:`gossiprec.runs.run_tables.write_by_user`."""
        write_by_user(self.path, rows)

    def write_lists(self, users: I64, items: I32) -> None:
        """Write ``lists.parquet``; see :func:`gossiprec.runs.run_tables.write_lists`."""
        write_lists(self.path, users, items)

    def write_names(self, users: Sequence[str] | None, items: Sequence[str] | None) -> None:
        """Write ``users.csv`` and ``items.csv``: the data's names of node and item 0, 1, ..., if they have names."""
        for table, names in ((run_tables.USERS, users), (run_tables.ITEMS, items)):
            if names is not None:
                number, name = table.columns
                run_tables.write_run_table(
                    self.path, table, {number: range(len(names)), name: names}, quote_text=True
                )

    def write_positions(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """Write ``positions.csv``: node, measure, value."""
        run_tables.write_run_table(self.path, run_tables.POSITIONS, columns)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write ``summary.json``; numbers that are not finite become null."""
        manifests.write_json(self.path / run_files.SUMMARY, summary)

    @property
    def changes(self) -> list[dict[str, Any]]:
        """The changes of options that were requested during the run."""
        return list(self._manifest.get("changes", []))

    def record_change(self, change: Mapping[str, Any]) -> None:
        """Record a change of options in the manifest at once, so that a resumed run makes it, too."""
        self._manifest["changes"] = [*self.changes, dict(change)]
        manifests.write_manifest(self.path, self._manifest)

    def add_to_manifest(self, entries: Mapping[str, Any]) -> None:
        """Add entries to the manifest, which is written when the run ends."""
        self._manifest.update(entries)

    def finish(self, status: str) -> None:
        """Close the log and the tables and write the status: ``complete``, ``failed`` or ``interrupted``.

        May be called again with another status if the first call fails.

        Raises
        ------
        ResourceError
            If the log's index or the manifest cannot be written.
        """
        if status not in run_files.STATUSES[1:]:
            raise ValueError(f"a run finishes as one of {run_files.STATUSES[1:]}, not {status!r}")
        for table in self.tables:
            table.close()
        self.log.close()
        digest = self.log.digest if self.log.complete else None
        self._manifest.update(status=status, log_digest=digest, finished=manifests.utc_now())
        if self.notes:
            self._manifest["notes"] = self.notes
        self._manifest[manifests.FILES] = manifests.digests_of(self.path) | self._first_digests
        manifests.write_manifest(self.path, self._manifest)
        if status == "complete":
            self.checkpoints.clear()
        self.ended = Run(self.path)
        _ = self.ended.summary  # read now: once the lock is released, another run may begin here
        self.lock.close()


def scenario_hash(path: Path) -> str:
    """Return the SHA-256 (hexadecimal) of a run's ``scenario.yaml``.

    Raises
    ------
    LogError
        If it cannot be read.
    """
    try:
        return hashlib.sha256(run_files.read_regular(path / run_files.SCENARIO)).hexdigest()
    except OSError as error:
        raise LogError(f"cannot read {path / run_files.SCENARIO}: {error.strerror}") from error


def check_path_free(path: Path, *, overwrite: bool) -> None:
    """Refuse a path that cannot become a run directory, before the run does any work.

    Raises
    ------
    LogError
        If it is a file, or holds something that is no run, or a run that must not be replaced. A run that failed
        before its first report may be replaced.
    """
    _refuse_written(path)
    try:
        _check_content(path, overwrite=overwrite)
    except (LogError, OSError):  # perhaps another writer has begun, or has started and ended, in the meantime
        _refuse_written(path)
        _check_content(path, overwrite=overwrite)


def _refuse_written(path: Path) -> None:
    if path.is_dir() and is_locked(path / run_files.EVENTS):
        raise LogError(
            f"{path} is in use by a running process; choose another folder with --out, or stop the process"
        )


def _check_content(path: Path, *, overwrite: bool) -> None:
    if path.exists() and not path.is_dir():
        raise LogError(f"{path} is a file, but a run needs a folder; choose another with --out")
    with run_files.wrap_write_errors(path):
        occupied = path.is_dir() and not _holds_a_lock_only(path)
    if occupied and not _holds_a_run(path):
        raise LogError(f"{path} is not empty and contains no gossiprec run; choose another folder with --out")
    if occupied and not overwrite and not _failed_before_a_report(path):
        raise LogError(
            f"{path} already contains a run; choose another folder with --out, or pass --overwrite"
        )
    run_files.check_own_files(path)


def _holds_a_lock_only(path: Path) -> bool:
    """Return whether a folder is empty except for the file that a new run locks first, and half-written files."""
    names = {entry.name for entry in path.iterdir()} - {run_files.EVENTS + MARKER}
    names -= {left.name for left in _leftovers(path)}
    return not names or (names == {run_files.EVENTS} and (path / run_files.EVENTS).lstat().st_size == 0)


def _locked(path: Path, *, overwrite: bool) -> RunLock:
    """Return the lock on a folder that is to become a run directory; the folder is created if needed.

    Raises
    ------
    LogError
        If another process holds it, or the folder cannot become a run directory.
    """
    check_path_free(path, overwrite=overwrite)
    with run_files.wrap_write_errors(path):
        path.mkdir(parents=True, exist_ok=True)
    lock = RunLock(path / run_files.EVENTS)
    try:
        # once more: another run may have started and ended in the meantime
        _check_content(path, overwrite=overwrite)
    except BaseException:
        lock.close()
        raise
    return lock


def _make_empty(path: Path) -> None:
    """Delete the files of an earlier run, except those that new ones replace in one step.

    Its log holds the lock until then. Its manifest and its scenario are the only way to start it again.
    """
    _remove_leftovers(path)
    with run_files.wrap_write_errors(path):
        CheckpointFolder(path).clear()
        if (path / run_files.OBSERVED).is_dir():
            shutil.rmtree(path / run_files.OBSERVED)
        for pattern in (run_files.TENSORBOARD, run_files.VERSIONS):
            for left in path.glob(pattern):
                left.unlink()
        for name in {*run_files.FILES, run_files.EPSILON} - _REPLACED:
            (path / name).unlink(missing_ok=True)


_REPLACED = {run_files.EVENTS, run_files.MANIFEST, run_files.SCENARIO}


def _leftovers(path: Path) -> Iterator[Path]:
    """Yield the half-written files of a run that killed processes have left."""
    for name in (*run_files.FILES, run_files.EPSILON, run_files.VERSIONS):
        yield from run_files.find_leftovers(path / name)


def _remove_leftovers(path: Path) -> None:
    with run_files.wrap_write_errors(path):
        for left in _leftovers(path):
            left.unlink(missing_ok=True)


def finish_cleaning(path: Path) -> None:
    """Delete what a complete run has left because it was killed at its very end: checkpoints and half-written files.

    Raises
    ------
    LogError
        If a running process writes there.
    ResourceError
        If they cannot be deleted.
    """
    folder = CheckpointFolder(path)
    if not folder.path.exists() and not any(_leftovers(path)):
        return
    with closing(RunLock(path / run_files.EVENTS)):
        _remove_leftovers(path)
        folder.clear()


def _new_log(
    path: Path, lock: RunLock, sizes: Mapping[str, int], control_kinds: Sequence[str]
) -> EventWriter:
    """Return the writer of an empty log that replaces the locked one and takes over its lock."""
    temporary = run_files.temporary_name(path)
    try:
        log = EventWriter(temporary, sizes=sizes, schema=SCHEMA.with_control(control_kinds))
        with lock.moved_to(temporary), run_files.wrap_write_errors(path):
            temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    log.path = path
    return log


def remove_run(path: Path) -> None:
    """Delete the folder of an earlier attempt at a run, if it exists.

    Raises
    ------
    LogError
        If a running process writes there.
    ResourceError
        If it cannot be deleted.
    """
    if not path.is_dir():
        return
    run_files.check_own_files(path)
    lock = RunLock(path / run_files.EVENTS)
    try:
        with run_files.wrap_write_errors(path):
            shutil.rmtree(path)
    finally:
        lock.close()


def _failed_before_a_report(path: Path) -> bool:
    """Return whether the folder holds a failed run without results, which cannot be resumed."""
    status = manifests.read_json(path / run_files.MANIFEST).get("status")
    if status != "failed" or CheckpointFolder(path).newest_first():
        return False
    tables = [path / table.file for table in TABLES]
    return all(b"\n" not in run_files.read_regular(table).rstrip(b"\n") for table in tables if table.exists())


def _holds_a_run(path: Path) -> bool:
    """Return whether there is a manifest written by gossiprec; other programs write a ``manifest.json`` too."""
    if (path / run_files.MANIFEST).is_symlink():
        raise run_files.not_regular_error(path / run_files.MANIFEST)
    try:
        return "gossiprec" in manifests.read_json(path / run_files.MANIFEST)
    except LogError:
        return False
