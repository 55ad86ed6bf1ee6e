"""Versions of a run that ``evaluate.keep`` stores: what can be stored, and what later observers can use."""

from __future__ import annotations

import shutil
from pathlib import Path

from gossiprec.base.errors import LogError, ResourceError, ScenarioError
from gossiprec.compute.store.arena import Arena
from gossiprec.compute.store.stored_versions import NO_VERSIONS, StoredVersions, VersionReader, VersionWriter
from gossiprec.emulation.assembly.prepare import PreparedRun
from gossiprec.runs import Run, run_files
from gossiprec.scenario import Scenario


def keep_versions(prepared: PreparedRun, folder: Path) -> StoredVersions:
    """Return the writer of the versions that a scenario stores."""
    evaluate = prepared.components.scenario.evaluate
    reports = evaluate.stored_reports
    if isinstance(reports, tuple):
        reports = tuple(evaluate.reports_up_to(round_) for round_ in reports)
    return VersionWriter(folder, reports, prepared.executor.work.arena) if reports else NO_VERSIONS


def check_versions(prepared: PreparedRun, folder: Path) -> None:
    """Refuse to store versions of a run that does not allow it, or for which the disk has no room.

    Raises
    ------
    ScenarioError
        If nodes hold no models, or the run chooses by values of models or is divided.
    ResourceError
        If they do not fit on the disk.
    """
    reports = prepared.components.scenario.evaluate.stored_reports
    if reports is None:
        return
    why = None
    if not prepared.components.mode.nodes_hold_models:
        why = f"in the run mode {prepared.components.mode.title} nodes hold no whole models"
    elif prepared.shard is not None:
        why = "the run is divided among shards"
    elif prepared.schedule.depends_on_values or prepared.reduction.serving is not None:
        why = "the run makes choices by values of models"
    if why is not None:
        raise ScenarioError(
            f"evaluate.keep: found versions, but {why}; expected null; remove it (gossiprec observe runs the "
            "scenario again)"
        )
    n = prepared.schedule.n_updates
    if reports != "all":
        n = prepared.components.protocol.n_nodes * (1 if reports == "last" else len(reports))
    arena: Arena = prepared.executor.work.arena
    needed = n * (arena.layout.row_size * arena.rows.itemsize + 8)
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if needed > free:
        raise ResourceError(
            f"evaluate.keep: {n:,} versions need {needed / 2**20:,.0f} MiB, and {free / 2**20:,.0f} MiB are free "
            "on the disk; store fewer reports, such as keep: {versions: last}"
        )


def stored_versions(run: Run, scenario: Scenario, *, stored: bool | None) -> VersionReader | None:
    """Return the versions of a run that are enough for the observers of a scenario, or None if it must run again.

    Parameters
    ----------
    run : Run
    scenario : Scenario
        The run's, with later observers and measures.
    stored : bool, optional
        True refuses to run the scenario again, and False always does.

    Raises
    ------
    LogError
        If stored versions are required and are not enough.
    """
    has_all = run.scenario.get("evaluate", {}).get("keep") in ("versions", {"versions": "all"})
    if stored is False:
        return None
    found, why = any(run.path.glob(run_files.VERSIONS)), None
    if not found:
        why = "no stored versions; expected a run with evaluate.keep"
    elif not has_all and scenario.observers:
        names = ", ".join(choice.name for choice in scenario.observers)
        why = f"models of some reports only, but {names} needs messages; expected keep: versions, at all reports"
    elif not has_all and scenario.stop:
        why = "models of some reports only, but the run was ended by a rule; expected keep: versions, at all reports"
    if why is None:
        return VersionReader(run.path, trained=has_all)
    if stored:
        raise LogError(f"{run.path}: found {why}; run the scenario again: --replay")
    return None
