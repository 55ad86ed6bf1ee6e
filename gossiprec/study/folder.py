"""The folder of a study: its files, its finished runs, and its lock."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from gossiprec.base.errors import GossipRecError, LogError
from gossiprec.base.registry import combined_code_version
from gossiprec.emulation.assembly.data_loading import changed_since
from gossiprec.runs import Run, open_run
from gossiprec.runs.lock import LOCK, MARKER, exclusive_writer
from gossiprec.runs.manifest import manifest_fault
from gossiprec.runs.run_files import check_folder, read_regular, replace_file, wrap_write_errors
from gossiprec.study.deduplication import SharedSimulation
from gossiprec.study.run_hash import canonical_json

SPEC, MARK, RUNS = "study.yaml", "study.json", "runs"
PATIENCE_S = 5.0
"""Seconds to wait for another writer to end; a killed one keeps the lock until its workers have ended."""


class StudyFolder:
    """The folder of a study.

    Attributes
    ----------
    path, runs : Path
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs = path / RUNS

    def check(self, name: str) -> None:
        """Refuse a folder that holds anything but a study of this name, before the study does any work.

        Raises
        ------
        LogError
        """
        if self.path.exists() and not self.path.is_dir():
            raise LogError(f"{self.path} is a file, but a study needs a folder; choose another with --out")
        mark = self.path / MARK
        if mark.is_file():
            found = read_study_status(mark).get("study")
            if found != name:
                raise LogError(
                    f"{self.path} holds the study {found!r}, not {name!r}; choose another with --out"
                )
        elif self.path.is_dir() and self._holds_more_than_a_lock():
            raise LogError(
                f"{self.path} is not empty and contains no study; choose another folder with --out"
            )

    def _holds_more_than_a_lock(self) -> bool:
        own = {LOCK, LOCK + MARKER}
        if self.runs.is_dir() and not any(self.runs.iterdir()):
            own.add(RUNS)
        return bool({path.name for path in self.path.iterdir()} - own)

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Create the folder of the study of this name, and lock it while the body runs.

        Raises
        ------
        ResourceError
            If another study is running in the folder.
        LogError
            If the folder holds anything but a study of this name.
        """
        check_folder(self.runs)
        with wrap_write_errors(self.path):
            self.runs.mkdir(parents=True, exist_ok=True)
        with exclusive_writer(self.path, what="study", patience_s=PATIENCE_S):
            if (self.path / MARK).is_file():  # another study may have started and ended since the first check
                self.check(name)
            yield

    def run(self, simulation: SharedSimulation) -> Path:
        """Return the directory of a simulation."""
        return self.runs / simulation.hash

    def finished(self, simulation: SharedSimulation) -> Run | None:
        """Return the finished run of a simulation, whatever code made it, or None."""
        try:
            run = open_run(self.run(simulation))
            complete = run.manifest.get("status") == "complete" and run.summary is not None
            complete = complete and not manifest_fault(run.manifest)
        except GossipRecError:
            return None
        return run if complete else None

    def write_spec(self, told: Mapping[str, Any]) -> None:
        """Write ``study.yaml``: the study as it was resolved."""
        text = yaml.safe_dump(dict(told), sort_keys=False, allow_unicode=True)
        replace_file(self.path / SPEC, text.encode())

    def write_mark(self, told: Mapping[str, Any]) -> None:
        """Write ``study.json``: the status of the study."""
        replace_file(self.path / MARK, json.dumps(told, indent=2, ensure_ascii=False).encode() + b"\n")


def run_code_version(run: Run) -> str:
    """Return the code version of a run, combined with its plug-ins."""
    return combined_code_version(run.manifest.get("plugins", {}), str(run.manifest.get("code", "unknown")))


def read_study_status(path: Path) -> dict[str, Any]:
    """Return the content of a ``study.json``.

    Raises
    ------
    LogError
        If it is not the file of a gossiprec study.
    """
    try:
        found = json.loads(read_regular(path))
    except (OSError, ValueError) as error:
        raise LogError(f"cannot read {path}: {error}; choose another folder with --out") from error
    if not isinstance(found, dict) or "gossiprec" not in found or "study" not in found:
        raise LogError(f"{path} does not belong to a gossiprec study; choose another folder with --out")
    return found


def runs_with_other_data(runs: Iterable[tuple[SharedSimulation, Run]]) -> dict[str, str]:
    """Return the changed files of runs that were made with other data, by hash.

    Notes
    -----
    Each set of files is checked once, whatever the seeds
    of the runs. Files that no longer exist are not compared.
    """
    found: dict[str, str] = {}
    known: dict[str, str | None] = {}
    for simulation, run in runs:
        manifest = run.manifest
        if "inputs" in manifest:
            name = canonical_json([simulation.scenario.dataset.plain(), manifest["inputs"]])
        else:
            name = canonical_json(simulation.scenario.dataset.plain())
        if name not in known:
            known[name] = changed_since(simulation.scenario, manifest)
        changed = known[name]
        if changed is not None:
            found[simulation.hash] = changed
    return found
