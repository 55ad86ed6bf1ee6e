"""The folder of a study: what it holds, which runs in it count as finished, and who is at work in it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from analysis.cda_paper.plan import Job, Scale
from gossiprec.errors import GossipRecError, LogError
from gossiprec.eventlog import Run, open_run
from gossiprec.eventlog.disk import replace_file, writing
from gossiprec.eventlog.lock import only_writer
from gossiprec.version import __version__

MARK = "study.json"
PATIENCE_S = 5.0


class StudyFolder:
    """The folder of a study.

    Attributes
    ----------
    path, runs, logs, scenarios : Path
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs = path / "runs"
        self.logs = path / "logs"
        self.scenarios = path / "scenarios"

    def open(self, *, scale: Scale) -> None:
        """Make the folder, or find that it holds a study of this scale.

        Raises
        ------
        LogError
            If it holds anything else.
        """
        if self.path.exists() and not self.path.is_dir():
            raise LogError(f"{self.path} is a file, a study needs a folder; choose another --out")
        mark = self.path / MARK
        if mark.is_file():
            found = _read_mark(mark)
            if found.get("scale") != scale:
                raise LogError(
                    f"{self.path} holds a study of scale {found.get('scale')}, asked for {scale}; "
                    "choose another folder with --out"
                )
        elif self.path.is_dir() and any(self.path.iterdir()):
            raise LogError(f"{self.path} is not empty and holds no study; choose another folder with --out")
        with writing(self.path):
            for folder in (self.path, self.runs, self.logs, self.scenarios):
                folder.mkdir(parents=True, exist_ok=True)
        replace_file(mark, json.dumps({"study": "arXiv:2306.08929", "scale": scale}).encode() + b"\n")

    @contextmanager
    def locked(self) -> Iterator[int]:
        """Keep others out while the body runs; gives the file descriptor that holds the lock.

        A run inherits the descriptor: a study that is killed keeps others out until its run has ended too.

        Raises
        ------
        ResourceError
            If another study is at work here.
        """
        with only_writer(self.path, what="study", patience_s=PATIENCE_S) as descriptor:
            yield descriptor

    def run(self, job: Job) -> Path:
        """Return the directory of a run."""
        return self.runs / job.name

    def finished(self, job: Job) -> Run | None:
        """Return the run of a job if it is finished: complete, of this version, and of the scenario wanted."""
        if job.scenario is None:
            return None
        try:
            run = open_run(self.run(job))
            complete = run.manifest.get("status") == "complete" and run.summary is not None
            same = run.manifest.get("gossiprec") == __version__ and _said(run.scenario) == _said(job.scenario)
        except GossipRecError:
            return None
        return run if complete and same else None

    def clear(self, job: Job) -> None:
        """Remove what an earlier attempt at a run has left."""
        with writing(self.run(job)):
            if self.run(job).exists():
                shutil.rmtree(self.run(job))

    def write_scenario(self, job: Job) -> Path:
        """Write the resolved scenario of a job, which is what is run, and return its path."""
        path = self.scenarios / f"{job.name}.yaml"
        text = yaml.safe_dump(job.scenario, sort_keys=False, allow_unicode=True)
        replace_file(path, text.encode())
        return path

    def finished_runs(self, jobs: Iterable[Job]) -> dict[str, dict[int, Run]]:
        """Return the finished runs of these jobs by experiment and seed."""
        found: dict[str, dict[int, Run]] = {}
        for job in jobs:
            run = self.finished(job)
            if run is not None:
                found.setdefault(job.experiment.name, {})[job.seed] = run
        return found


def _said(scenario: dict[str, Any]) -> dict[str, Any]:
    """Return what a scenario says about results: threads and wave sizes give the same bytes."""
    executor = dict(scenario.get("executor", {}))
    return {**scenario, "executor": {**executor, "threads": None, "wave_size": None}}


def _read_mark(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise LogError(f"cannot read {path}: {error}; choose another folder with --out") from error
    if not isinstance(found, dict) or "study" not in found:
        raise LogError(f"{path} is not of a study of gossiprec; choose another folder with --out")
    return found
