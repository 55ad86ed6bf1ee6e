"""The function that runs a study from Python."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import Any, TypedDict, Unpack

from gossiprec.old_names import present_keywords
from gossiprec.runs import open_run
from gossiprec.study.folder import StudyFolder
from gossiprec.study.plan import make_plan
from gossiprec.study.result import StudyResult
from gossiprec.study.runner import StaleRuns, StudyProgress, StudyRunner
from gossiprec.study.spec import load_study, with_overrides
from gossiprec.study.task import DataCache, StudyTask, TaskResult, run_task, threads_per_job
from gossiprec.study.worker_pool import WorkerPool, leave_if_imported_by_worker


class StudyKeywords(TypedDict, total=False):
    """The keywords of :func:`study` for its runs in progress and its finished runs.

    Attributes
    ----------
    stale_runs : {"refuse", "again", "keep"}
        Treatment of finished runs of another version of the code, or of other data; refuse by default.
    track : iterable of str
        Trackers that show the curves of each run in progress, as in :func:`gossiprec.simulate`.
    progress : StudyProgress
        Receives the progress.
    other_code, watching
        Former names of `stale_runs` and `progress`, which work until version 0.2.
    """

    stale_runs: StaleRuns
    track: Iterable[str]
    progress: StudyProgress | None
    other_code: StaleRuns
    watching: StudyProgress | None


FORMER_KEYWORDS = {"other_code": "stale_runs", "watching": "progress"}
"""The present name of each former keyword of :func:`study`."""


def study(
    study: str | os.PathLike[str] | Mapping[str, Any],
    *,
    overrides: Iterable[str] = (),
    seeds: int | None = None,
    limit: int | None = None,
    out: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    **options: Unpack[StudyKeywords],
) -> StudyResult:
    """Run a study, or its unfinished part, and return the result.

    Parameters
    ----------
    study : path or mapping
        A study file, or its content as plain data.
    overrides : iterable of str
        ``key.path=value`` for every run, as with ``--set``.
    seeds : int, optional
        Use seeds 1 to `seeds` instead of the file's.
    limit : int, optional
        Run only the first `limit` combinations.
    out : path, optional
        The folder; ``studies/<name>`` if not given.
    jobs : int
        Number of worker processes. With 1, runs are made in this process, one after the other, on all
        cores. A script that uses more must call this under ``if __name__ == "__main__":``, because workers import it.
    **options
        ``stale_runs``, ``track`` and ``progress`` (:class:`StudyKeywords`).

    Returns
    -------
    StudyResult
        Also if some runs failed: :attr:`StudyResult.mark` names them and the reasons.

    Raises
    ------
    GossipRecError
        If the study is bad, the folder holds something else, or a script uses `jobs` above 1 without a main guard.
    KeyboardInterrupt
        After Ctrl-C; the table then holds the finished runs, and the same call continues the study.
    """
    leave_if_imported_by_worker()
    keywords = present_keywords("study", options, StudyKeywords, FORMER_KEYWORDS)
    plan = make_plan(with_overrides(load_study(study), overrides, seeds), limit=limit)
    folder = StudyFolder(Path(out) if out is not None else Path("studies") / plan.study.name)
    folder.check(plan.study.name)
    runner = StudyRunner(plan, folder, keywords.get("track", ()))
    runner.check_target()
    start = _here if jobs == 1 else WorkerPool(jobs, threads_per_job(jobs), _nothing).carry_out
    with folder.locked(plan.study.name):
        todo = runner.find_unfinished(stale_runs=keywords.get("stale_runs", "refuse"))
        runner.carry_out(todo, start, keywords.get("progress") or _NoProgress())
    return StudyResult(folder.path)


def _here(tasks: list[StudyTask]) -> Generator[TaskResult, None, None]:
    """Carry out tasks in this process, one after the other."""
    load = DataCache()
    for task in tasks:
        done = run_task(task, threads=threads_per_job(1), load=load)
        if done.problem and Path(task.path).exists() and open_run(task.path).status == "interrupted":
            raise KeyboardInterrupt
        yield done


def _nothing(hash_: str, what: str) -> None:
    """Ignore the activity of a simulation."""


class _NoProgress:
    """A progress display that shows nothing."""

    def begin(self, *, total: int, kept: int) -> None:
        """Ignore the begin of the study."""

    def split(self, hash_: str, number: int, kept: int) -> None:
        """Ignore the replacement of a simulation."""

    def ended(self, done: TaskResult, label: str, headline: str) -> None:
        """Ignore the end of a simulation."""
