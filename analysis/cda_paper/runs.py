"""Running the jobs of a study, one process each: what is finished stays, everything else is run anew."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from analysis.cda_paper.cells import cells_served
from analysis.cda_paper.folder import StudyFolder
from analysis.cda_paper.plan import Job

GRACE_S = 60.0
Say = Callable[[str], None]


@dataclass
class Outcome:
    """How the jobs of a study went.

    Attributes
    ----------
    done : list of str
        Runs made now.
    kept : list of str
        Runs that were finished before.
    skipped : dict of str to str
        Runs left out for want of data, with what is missing.
    failed : dict of str to str
        Runs that failed, with the message.
    seconds : float
        Wall time of the runs made now.
    """

    done: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0


def carry_out(
    jobs: Sequence[Job],
    folder: StudyFolder,
    *,
    lock: int,
    say: Say,
    after: Callable[[], None] = lambda: None,
) -> Outcome:
    """Carry out what is not finished, job by job.

    Parameters
    ----------
    jobs : sequence of Job
    folder : StudyFolder
    lock : int
        The descriptor that holds the folder's lock.
    say : callable
        Is told a line at a time.
    after : callable
        Called after each run that was made.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C, when the run under way has ended.
    """
    outcome = Outcome()
    clock = _Clock([job for job in jobs if job.scenario is not None and not folder.finished(job)])
    for place, job in enumerate(jobs, start=1):
        head = f"[{place}/{len(jobs)}] {job.name}:"
        if job.scenario is None:
            kind = outcome.skipped if job.is_missing_data else outcome.failed
            kind[job.name] = job.problem
            say(f"{head} {'not run' if job.is_missing_data else 'failed'}: {_short(job.problem)}")
        elif folder.finished(job):
            outcome.kept.append(job.name)
            say(f"{head} finished before")
        else:
            say(f"{head} running, {clock.left()} left in all")
            begin = time.monotonic()
            problem = _run(job, folder, lock)
            seconds = time.monotonic() - begin
            outcome.seconds += seconds
            clock.passed(job, seconds)
            if problem:
                outcome.failed[job.name] = problem
                say(f"{head} failed after {duration(seconds)}: {_short(problem)}")
            else:
                outcome.done.append(job.name)
                say(f"{head} done in {duration(seconds)}{_a_cell(job, seconds)}")
            after()
    return outcome


def _a_cell(job: Job, seconds: float) -> str:
    count = cells_served().get(job.experiment.name, 0)
    return f", {seconds / count:.1f} s for each of {count} cells" if count else ""


class _Clock:
    """Foretells the time left: what the experiments are known to take, times how this machine has compared."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._waiting = {job.name: job.experiment.seconds for job in jobs}
        self._expected = self._taken = 0.0

    def passed(self, job: Job, seconds: float) -> None:
        self._expected += self._waiting.pop(job.name)
        self._taken += seconds

    def left(self) -> str:
        pace = self._taken / self._expected if self._expected else 1.0
        return f"about {duration(pace * sum(self._waiting.values()))}"


def _run(job: Job, folder: StudyFolder, lock: int) -> str:
    """Carry out one run; return what went wrong, or an empty string."""
    folder.clear(job)
    scenario = folder.write_scenario(job)
    log = folder.logs / f"{job.name}.log"
    command = [sys.executable, "-m", "analysis.cda_paper.tied", "simulate", str(scenario)]
    command += ["--out", str(folder.run(job)), "--no-plots", "--quiet"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,  # nothing is written: its end tells the run that the study has gone
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=(lock,),
            start_new_session=True,  # Ctrl-C reaches the study alone, which passes it on once
        )
        try:
            code = process.wait()
        except BaseException:
            _end(process)
            raise
        finally:
            if process.stdin:
                process.stdin.close()
    if folder.finished(job):
        return ""
    return _message(log, code)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a run: give it time to close its files; a second Ctrl-C ends it at once."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(GRACE_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
        process.wait()


def _message(log: Path, code: int) -> str:
    """Return what a failed run said last."""
    lines = log.read_text(errors="replace").strip().splitlines()
    begin = next((place for place, line in enumerate(lines) if line.startswith("error:")), len(lines) - 1)
    said = "\n".join(lines[max(begin, 0) :]).removeprefix("error: ")  # of a traceback, the last line
    if code < 0:
        said = f"ended by signal {-code} ({signal.Signals(-code).name}){'; ' if said else ''}{said}"
    return said or f"exit status {code}, and not complete; see {log}"


def _short(problem: str) -> str:
    first, *rest = problem.splitlines() or [""]
    return first + (f" (and {len(rest)} more lines)" if rest else "")


def duration(seconds: float) -> str:
    """Return a time as ``h:mm:ss`` or ``m:ss``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
