"""New observers and measures for a finished run: a replay that is proved to be the same run."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote
from typing import Any

from gossiprec.base.errors import LogError, ScenarioError
from gossiprec.base.text import format_value
from gossiprec.emulation.progress import Progress
from gossiprec.emulation.run.derived_run import derive, from_versions
from gossiprec.emulation.run.execution import with_resources
from gossiprec.emulation.run.run_options import make_run_options
from gossiprec.emulation.run.run_replay import check_same, complete_lines, log_difference
from gossiprec.runs import Run, open_run, run_files
from gossiprec.runs.manifest import identify_results, read_manifest, write_manifest
from gossiprec.scenario import Scenario, load_scenario
from gossiprec.scenario.load import read_source
from gossiprec.scenario.problems import Problems
from gossiprec.scenario.sections import EvaluateOptions

ADDED = ("metrics", "beside")
"""Keys of ``evaluate`` of which the values are added to those of the run."""
REPLACED = ("targets", "groups", "activity_groups", "by_user", "train_loss")
"""Keys of ``evaluate`` that only change what is measured."""
WHY = {
    "adversaries": "active adversaries send forged messages, so it would be another run",
    "attackers": "poisoners send forged messages, so it would be another run",
    "policies": "defences change messages, so it would be another run",
}
"""Reasons for which sections are refused, if they are not simply the run's own."""


def observe(
    path: str | os.PathLike[str],
    observers: str | os.PathLike[str] | Mapping[str, Any],
    *,
    name: str | None = None,
    overwrite: bool = False,
    threads: int | None = None,
    stored: bool | None = None,
    progress: Progress | None = None,
) -> Run:
    """Let new observers and measures see a complete run, and return their results as a run directory.

    The scenario runs again with the new observers in place of the old ones. The results count only if log and metrics
    are the same. They are written to ``observed/NAME`` in the run directory; all files of the run stay as they are.

    If the run has stored its versions (``evaluate.keep``), models are read from them in place of training: for all
    observers and measures if those of all reports are stored, and otherwise for measures, at the stored reports.

    Parameters
    ----------
    path : path
        The run directory.
    observers : path or mapping
        A YAML file, or its content: ``observers``, and of ``evaluate`` the keys `metrics`, `beside`, `targets`,
        `groups`, `activity_groups`, `by_user` and `train_loss`.
    name : str, optional
        Name of the results; the name of the file, or ``observed``, if not given.
    overwrite : bool
        Replace earlier results of that name.
    threads : int, optional
        In place of the scenario's ``executor.threads``; results do not depend on it.
    stored : bool, optional
        True refuses to train again, False always does; by default versions are read if they are enough.
    progress : Progress, optional

    Raises
    ------
    LogError
        If the run is not complete, required versions are not stored, the second run differs from it, or results of
        that name exist.
    ScenarioError
        If the file would change the run, or does not fit it.
    """
    run = open_run(path)
    name = name or ("observed" if isinstance(observers, Mapping) else Path(observers).stem)
    options = make_run_options(progress=progress, use_cached_kernels=True)

    def change(scenario: Scenario) -> Scenario:
        return with_resources(observing_scenario(run, scenario, observers), threads=threads)

    with _new_results(run, name, overwrite=overwrite) as folder:
        source = from_versions(run, folder, options, stored=stored)
        again = derive(run, change, source, any_code=True).finish()
        check_same(run, again, log_difference(run, again, True) or _metric_difference(run, again))
        _share_log(run, again)
        write_manifest(folder, {**read_manifest(folder), "observes": identify_results(run.manifest)})
    return open_run(run.path / run_files.OBSERVED / name)


def observing_scenario(
    run: Run, scenario: Scenario, observers: str | os.PathLike[str] | Mapping[str, Any]
) -> Scenario:
    """Return the scenario of a run with other observers, and with more measures.

    Raises
    ------
    ScenarioError
        If the observers would change the run, or do not fit it.
    """
    problems, source = Problems(), "the observers" if isinstance(observers, Mapping) else str(observers)
    layer = read_source(observers, problems, "observers, evaluate")
    problems.raise_any(layer.source_map)
    added: dict[str, Any] = layer.data
    for key in added:
        if key not in ("observers", "evaluate"):
            why = WHY.get(key, "it belongs to the run")
            raise ScenarioError(
                f"{source}: {key}: found {format_value(added[key])}, but {why}; expected only observers and "
                f"evaluate; to change the run: gossiprec rerun {quote(str(run.path))} --set ..."
            )
    evaluate = _with_measures(run, added.get("evaluate") or {}, source)
    plain = {**run.scenario, "observers": added.get("observers") or [], "evaluate": evaluate}
    if not plain["observers"] and evaluate == _own_evaluation(run):
        raise ScenarioError(f"{source}: found no observer and no new measure; expected at least one; add it")
    executor = plain.get("executor", {})
    if executor.get("name") == "auto":  # the choice must not depend on the observers
        plain["executor"] = {**executor, "name": (run.summary or {}).get("executor", "auto")}
    try:
        return load_scenario(plain).with_(changes=scenario.changes)
    except ScenarioError as error:
        raise ScenarioError(f"{source}, in the scenario of {run.path}:\n{error}") from None


def _own_evaluation(run: Run) -> dict[str, Any]:
    """Return the section ``evaluate`` of a run, without the versions that it stores."""
    return {key: value for key, value in run.scenario.get("evaluate", {}).items() if key != "keep"}


def _with_measures(run: Run, added: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return the section ``evaluate`` of a run with more measures."""
    own = _own_evaluation(run)
    if not isinstance(added, Mapping):
        raise ScenarioError(f"{source}: evaluate: found {format_value(added)}, must be a mapping of its keys")
    for key, value in added.items():
        at, before = f"{source}: evaluate.{key}: found {format_value(value)}", own.get(key)
        if key not in (*ADDED, *REPLACED):
            known = key in EvaluateOptions.model_fields
            why = "which is part of the run" if known else "which is no key of evaluate"
            raise ScenarioError(f"{at}, {why}; expected {', '.join((*ADDED, *REPLACED))}; remove it")
        if key == "targets" and before not in (None, value):
            raise ScenarioError(f"{at}, but the run has {format_value(before)}; remove it")
        if key in ADDED and isinstance(value, list):
            value = [*(before or ()), *(each for each in value if each not in (before or ()))]
        own[key] = value
    return own


def _metric_difference(run: Run, again: Run) -> str | None:
    """Return the first metric of a run that has other values in the second run; results of observers are left out.

    Only reports of the second run are compared.
    """
    old, new = (complete_lines(each.path / run_files.METRICS) for each in (run, again))
    times, present = {line.partition(",")[0] for line in new}, set(new)
    for line in old:
        time, _, metric, *_ = line.split(",")
        if time in times and "[" not in line and line not in present:  # [: of membership guesses
            return f"{metric} has other values"
    return None


@contextmanager
def _new_results(run: Run, name: str, *, overwrite: bool) -> Iterator[Path]:
    """Yield the path of a new folder; it gets its name after the body, and is deleted if the body fails."""
    if not re.fullmatch(r"\w[\w.@+-]*", name):
        raise LogError(
            f"{run.path}: found the name {name!r}; expected letters, digits and _ . @ + -; set --name"
        )
    target = run.path / run_files.OBSERVED / name
    if target.exists() and not overwrite:
        raise LogError(
            f"{target} already contains results; choose another name with --name, or pass --overwrite"
        )
    run_files.check_folder(target)
    if target.parent.exists() and not target.parent.is_dir():
        raise LogError(f"{target.parent}: found a file; expected the folder of later results; delete it")
    for left in run_files.find_leftovers(target):
        shutil.rmtree(left, ignore_errors=True)
    folder = run_files.temporary_name(target)
    try:
        yield folder
        old = run_files.temporary_name(target)
        if target.exists():
            target.rename(old)
        folder.rename(target)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):
            target.parent.rmdir()  # only if it is empty


def _share_log(run: Run, again: Run) -> None:
    """Let both runs have one file as their log, if the bytes are equal and the file system can link it."""
    logs = [each.path / run_files.EVENTS for each in (run, again)]
    digests = [each.manifest["files"].get(run_files.EVENTS) for each in (run, again)]
    temporary = run_files.temporary_name(logs[1])
    if digests[0] == digests[1] and digests[0] is not None:
        with suppress(OSError):
            os.link(logs[0], temporary)
            temporary.replace(logs[1])
