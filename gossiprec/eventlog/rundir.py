"""The writer's side of a run directory."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml

from gossiprec.errors import LogError
from gossiprec.eventlog import layout
from gossiprec.eventlog.adversaries import write_adversaries
from gossiprec.eventlog.disk import TEMPORARY_SUFFIX, replace_file, writing
from gossiprec.eventlog.manifest import new_manifest, utc_now
from gossiprec.eventlog.tables import ATTACKS, METRICS, POSITIONS, TableWriter, write_table
from gossiprec.eventlog.writer import EventWriter


class RunDirectory:
    """What a run writes, each file in one step or a row at a time; made by :meth:`create`.

    Attributes
    ----------
    path : Path
    metrics, attacks : TableWriter
        ``metrics.csv`` and ``attacks.csv``; append rows as ticks come.
    log : EventWriter
        ``events.mplog``.
    """

    def __init__(
        self, path: Path, *, scenario: Mapping[str, Any], seed: int, sizes: Mapping[str, int]
    ) -> None:
        self.path = path
        self._manifest = new_manifest(seed)
        self._write_json(layout.MANIFEST, self._manifest)
        text = yaml.safe_dump(dict(scenario), sort_keys=False, allow_unicode=True)
        replace_file(path / layout.SCENARIO, text.encode())
        self.metrics = TableWriter(path, METRICS)
        self.attacks = TableWriter(path, ATTACKS)
        self.log = EventWriter(path / layout.EVENTS, sizes=sizes)

    @staticmethod
    def create(
        path: str | os.PathLike[str],
        *,
        scenario: Mapping[str, Any],
        seed: int,
        sizes: Mapping[str, int] | None = None,
        overwrite: bool = False,
    ) -> RunDirectory:
        """Make the directory and open its files.

        Parameters
        ----------
        path : path
            Absent, empty, or with `overwrite` an earlier run, of which only the files of a run are deleted.
        scenario : mapping
            Fully resolved, plain data.
        seed : int
        sizes : mapping of str to int, optional
            For the log's schema, such as ``{"view_size": 3}``.
        overwrite : bool

        Raises
        ------
        LogError
            If `path` holds a run and `overwrite` is false, or holds something that is not a run.
        ResourceError
            If the directory cannot be made or written.
        """
        path = Path(path)
        _make_empty(path, overwrite=overwrite)
        return RunDirectory(path, scenario=scenario, seed=seed, sizes=sizes or {})

    def write_adversaries(self, accuracies: Mapping[str, tuple[npt.ArrayLike, npt.ArrayLike]]) -> None:
        """Write ``adversaries.npz``: attack key to (node ids, accuracies)."""
        write_adversaries(self.path, accuracies)

    def write_positions(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """Write ``positions.csv``: node, measure, value."""
        write_table(self.path, POSITIONS, columns)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write ``summary.json``; numbers that are not finite become null."""
        self._write_json(layout.SUMMARY, summary)

    def finish(self, status: str) -> None:
        """Close the log and the tables and write the status: ``complete``, ``failed`` or ``interrupted``.

        May be called again with another status, should the first call fail.

        Raises
        ------
        ResourceError
            If the log's index or the manifest cannot be written.
        """
        if status not in layout.STATUSES[1:]:
            raise ValueError(f"a run finishes as one of {layout.STATUSES[1:]}, not {status!r}")
        self.metrics.close()
        self.attacks.close()
        self.log.close()
        digest = self.log.digest if self.log.complete else None
        self._manifest.update(status=status, log_digest=digest, finished=utc_now())
        self._write_json(layout.MANIFEST, self._manifest)

    def _write_json(self, name: str, content: Mapping[str, Any]) -> None:
        text = json.dumps(_plain(content), indent=2, ensure_ascii=False, allow_nan=False)
        replace_file(self.path / name, text.encode() + b"\n")


def _plain(value: Any) -> Any:
    """Return `value` as JSON can hold it: numpy's numbers as Python's, and null for what is not finite."""
    match value:
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case np.ndarray() | np.generic():
            return _plain(value.tolist())
        case float() if not math.isfinite(value):
            return None
    return value


def check_free(path: Path, *, overwrite: bool) -> None:
    """Refuse a path that cannot become a run directory, before any work is done for it.

    Raises
    ------
    LogError
        If it is a file, or holds something that is no run, or a run that may not be replaced.
    """
    if path.exists() and not path.is_dir():
        raise LogError(f"{path} is a file, a run needs a folder; choose another with --out")
    with writing(path):
        occupied = path.is_dir() and any(path.iterdir())
    if occupied and not _holds_a_run(path):
        raise LogError(f"{path} is not empty and holds no run of gossiprec; choose another folder with --out")
    if occupied and not overwrite:
        raise LogError(f"{path} already holds a run; choose another folder with --out, or give --overwrite")


def _make_empty(path: Path, *, overwrite: bool) -> None:
    check_free(path, overwrite=overwrite)
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
        for name in layout.FILES:
            (path / f".{name}{TEMPORARY_SUFFIX}").unlink(missing_ok=True)
            (path / name).unlink(missing_ok=True)


def _holds_a_run(path: Path) -> bool:
    """Return whether there is a manifest, and one of ours: other programs write a ``manifest.json`` too."""
    try:
        return "gossiprec" in json.loads((path / layout.MANIFEST).read_bytes())
    except (OSError, ValueError, TypeError):
        return False
