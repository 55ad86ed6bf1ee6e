"""Replaying a run: its scenario runs again, and log and tables are compared."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

import numpy as np

from gossiprec.base.errors import LogError
from gossiprec.base.inputs import changed_inputs
from gossiprec.base.registry import plugin_versions
from gossiprec.emulation.progress import Progress
from gossiprec.emulation.run.derived_run import own_scenario, temporary_runs
from gossiprec.emulation.run.execution import with_resources
from gossiprec.runs import Run, open_run, run_files
from gossiprec.runs.reader import Columns
from gossiprec.runs.run_files import read_regular

TABLES = (run_files.METRICS, run_files.ATTACKS, run_files.FINDINGS)


@dataclass(frozen=True)
class Replay:
    """The result of replaying a run.

    Attributes
    ----------
    path : Path
        The run.
    digest : str
        The digest of the log of the second run.
    difference : str or None
        The first difference, or None if the run is confirmed.
    elsewhere : tuple of str
        The differences in code, data, packages, processor and compiler target that may explain a difference in results.
    upto : float
        Virtual time up to which the two were compared; the end for a complete run.
    """

    path: Path
    digest: str
    difference: str | None
    elsewhere: tuple[str, ...]
    upto: float

    @property
    def confirmed(self) -> bool:
        """Whether the second run gave the same results."""
        return self.difference is None


def replay(
    path: str | os.PathLike[str], *, threads: int | None = None, progress: Progress | None = None
) -> Replay:
    """Run a run's scenario again, in a temporary directory, and compare log and tables.

    An incomplete run is compared up to the last report in its log.

    Parameters
    ----------
    path : path
        The run directory; nothing in it is changed.
    threads : int, optional
        In place of the scenario's ``executor.threads``; results do not depend on it.
    progress : Progress, optional
        Receives progress messages.

    Raises
    ------
    LogError
        If the run is still in progress, has nothing to compare, or uses a plug-in that is missing.
    GossipRecError
        As in :func:`gossiprec.simulate`.
    """
    run = open_run(path)
    reports = run.events("evaluate")["time"]
    if run.status == "running" or not len(reports):
        reason = "is still running" if len(reports) else "has no report in its log"
        raise LogError(f"{run.path} {reason}, so it cannot be compared yet; replay it when it has finished")
    scenario = with_resources(own_scenario(run), threads=threads)
    upto, whole = float(reports.max()), run.status == "complete"
    with temporary_runs(progress) as start:
        live = start(scenario)
        live.until(np.inf if whole else upto)
        again = live.close()
        difference = log_difference(run, again, whole) or _table_difference(run, again, whole)
        return Replay(run.path, again.log.digest, difference, changed_surroundings(run, again), upto)


def check_same(run: Run, again: Run, difference: str | None) -> None:
    """Refuse a second run that differs from the run.

    Raises
    ------
    LogError
        If there is a difference.
    """
    if difference:
        changed = "; ".join(changed_surroundings(run, again))
        raise LogError(
            f"{run.path}: the second run is not the same: {difference}; expected equal results; "
            + (f"restore what changed ({changed})" if changed else "check the run's files")
            + f", or run it again: gossiprec rerun {quote(str(run.path))}"
        )


def log_difference(run: Run, again: Run, whole: bool) -> str | None:
    """Return the earliest event that differs between the logs; an incomplete run may hold more events."""
    if run.log.damage:
        return (
            f"the run's log is damaged ({run.log.damage}): `gossiprec log verify` reports what is "
            "still readable"
        )
    recorded = run.manifest.get("log_digest")
    if recorded is not None and recorded != run.log.digest:
        return f"the run's log has digest {run.log.digest}, its manifest records {recorded}"
    if run.log.digest == again.log.digest:
        return None
    differences = []
    for kind in again.log.kinds:
        old, new = run.events(kind) if kind in run.log.kinds else {}, again.events(kind)
        if not len(new["time"]) and not len(old.get("time", ())):
            continue
        row = _first_difference(old, new, whole)
        if row is not None:
            time = min(float(c["time"][row]) for c in (old, new) if "time" in c and row < len(c["time"]))
            events = f"{_format_event(old, row)}, in the second run {_format_event(new, row)}"
            differences.append((time, f"{kind} row {row} (time {time:g}): {events}"))
    if differences:
        return f"the first different event is {min(differences)[1]}"
    return f"the run's log has digest {run.log.digest}, the second run {again.log.digest}" if whole else None


def _first_difference(old: Columns, new: Columns, whole: bool) -> int | None:
    """Return the first row in which columns differ, also by being absent from one side."""
    if list(old) != list(new):
        return 0
    n_old, n_new = len(old["time"]), len(new["time"])
    both = min(n_old, n_new)
    differs = np.zeros(both, np.bool_)
    for name in old:
        left, right = old[name][:both], new[name][:both]
        if left.dtype != right.dtype or left.shape != right.shape:
            return 0
        if both:
            left, right = (values.reshape(both, -1).view(np.uint8) for values in (left, right))
            differs |= (left != right).any(axis=1)
    if differs.any():
        return int(np.argmax(differs))
    return both if n_old < n_new or (whole and n_old > n_new) else None


def _format_event(columns: Columns, row: int) -> str:
    if not columns or row >= len(columns["time"]):
        return "nothing"
    return ", ".join(f"{name} {values[row].tolist()!r}" for name, values in columns.items())


def _table_difference(run: Run, again: Run, whole: bool) -> str | None:
    """Return the first line of a table that is not the same in both runs."""
    for name in TABLES:
        if name == run_files.FINDINGS and not (run.path / name).exists():
            continue  # a run from before this table existed
        old, new = complete_lines(run.path / name), complete_lines(again.path / name)
        for number, (line, other) in enumerate(zip(old, new, strict=False), 1):
            if line != other:
                return f"{name}, line {number}: {line}, in the second run {other}"
        if whole and len(old) != len(new):
            return f"{name} has {len(old)} lines, in the second run {len(new)}"
    return None


def complete_lines(path: Path) -> list[str]:
    """Return the complete lines of a table; a kill may have cut the last line."""
    text = read_regular(path).decode()
    return text[: text.rfind("\n") + 1].splitlines()


def changed_surroundings(run: Run, again: Run) -> tuple[str, ...]:
    """Return the inputs of a run's numbers that changed since the run began."""
    old, new = run.manifest, again.manifest
    names = ("code", "platform", "python", "processor", "target")
    pairs = [(name, old[name], new[name]) for name in names if name in old]
    pairs.append(("data", old["data"]["fingerprint"], new["data"]["fingerprint"]))
    inputs = (old["inputs"], new["inputs"])
    if changed_inputs(*inputs):
        was, is_ = ({path: file["sha256"][:16] for path, file in part.items()} for part in inputs)
        paths = sorted({*was, *is_})
        pairs += [(path, was.get(path, "not read"), is_.get(path, "not read")) for path in paths]
    versions = (plugin_versions(manifest["plugins"]) for manifest in (old, new))
    for before, after in ((old["packages"], new["packages"]), versions):
        pairs += [(name, before.get(name), after.get(name)) for name in sorted({*before, *after})]
    return tuple(f"{name} was {before}, is {after}" for name, before, after in pairs if before != after)
