"""Running a scenario."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import yaml

from gossiprec.base.registry import combined_code_version
from gossiprec.data.split import Split
from gossiprec.emulation.assembly.data_loading import changed_since
from gossiprec.emulation.progress import NullProgress, Progress, read_clocks
from gossiprec.emulation.run.attempt import run_with_recovery, start_run
from gossiprec.emulation.run.run_options import ResumeOptions, RunOptions
from gossiprec.emulation.run.tracker_dispatch import tracker_factories
from gossiprec.emulation.shards.shard_group import Gather
from gossiprec.runs import Run, open_run, run_files
from gossiprec.runs.manifest import manifest_fault
from gossiprec.runs.run_directory import check_path_free
from gossiprec.scenario import Scenario, load_scenario
from gossiprec.scenario.plugins import scenario_code_version

OnExists = Literal["refuse", "overwrite", "new", "reuse"]


def simulate(
    scenario: Scenario | str | os.PathLike[str] | Mapping[str, Any],
    *,
    overrides: Iterable[str] = (),
    out: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    on_exists: OnExists | None = None,
    progress: Progress | None = None,
    track: Iterable[str] = (),
    tracked_as: str | None = None,
    load: Callable[[Scenario], Split] | None = None,
    gracefully: bool = False,
    kept_kernels: bool = False,
    gather: Gather | None = None,
) -> Run:
    """Run a scenario and return the run it wrote.

    Parameters
    ----------
    scenario : Scenario, path or mapping
        A scenario, a YAML file, or a mapping of the same keys.
    overrides : iterable of str
        ``key.path=value``, as with ``--set``.
    out : path, optional
        Run directory; ``runs/<name>-s<seed>`` if not given.
    overwrite : bool
        Replace an earlier run there.
    on_exists : {"refuse", "overwrite", "new", "reuse"}, optional
        The handling of an earlier run there; follows `overwrite` by default. ``new`` writes next to it, with a number
        after its name; ``reuse`` returns it if it is complete, of this scenario, of this version of the code
        and, if data are read from files, of the present data, and otherwise replaces it.
    progress : Progress, optional
        Receives progress messages.
    track : iterable of str
        Trackers that show curves during the run, such as ``tensorboard``; results do not depend on them.
    tracked_as : str, optional
        The run's name in trackers; the name of its directory by default.
    load : callable, optional
        Loads the data in place of :func:`gossiprec.emulation.assembly.prepare.load_data`.
    gracefully : bool
        End the run at its next report after Ctrl-C or SIGTERM, with a checkpoint; a second signal ends it at once.
    kept_kernels : bool
        As in :func:`gossiprec.emulation.prepare`.
    gather : callable, optional
        Connects the shards of a divided run; on Ray by default.

    Returns
    -------
    Run
        Complete, or marked ``interrupted`` if Ctrl-C stopped it; everything up to the last report is then there.

    Raises
    ------
    GossipRecError
        See :mod:`gossiprec.base.errors`. The run directory is then marked ``failed`` if it had been begun.
    """
    begin = read_clocks()
    trackers = tracker_factories(track, tracked_as)
    if not isinstance(scenario, Scenario):
        scenario = load_scenario(scenario, list(overrides))
    path = Path(out) if out is not None else Path("runs") / f"{scenario.name}-s{scenario.seed}"
    if on_exists == "new":
        path = _beside(path)
    elif on_exists == "reuse" and (earlier := _same_run(path, scenario)):
        return earlier
    overwrite = overwrite if on_exists is None else on_exists in ("overwrite", "reuse")
    check_path_free(path, overwrite=overwrite)
    options = RunOptions(
        say=progress or NullProgress(),
        trackers=trackers,
        gracefully=gracefully,
        load=load,
        gather=gather,
        kept_kernels=kept_kernels,
    )

    def first() -> Run:
        return start_run(scenario, path, options, begin=begin, overwrite=overwrite)

    return run_with_recovery(first, path, options, ResumeOptions())


def _beside(path: Path) -> Path:
    """Return the path or, if it exists, the first free path with a number after it."""
    names = itertools.chain([path], (path.with_name(f"{path.name}-{n}") for n in itertools.count(2)))
    return next(each for each in names if not each.exists())


def _same_run(path: Path, scenario: Scenario) -> Run | None:
    """Return the complete run of a scenario in a folder by this version of the code, or None."""
    if not (path / run_files.MANIFEST).is_file():
        return None
    run = open_run(path)
    wanted = yaml.safe_load(yaml.safe_dump(scenario.resolved()))
    if wanted["executor"]["name"] == "auto":  # the run names the executor that it stood for (kept_kernels)
        wanted["executor"]["name"] = run.scenario["executor"]["name"]
    code = combined_code_version(run.manifest.get("plugins", {}), run.manifest.get("code"))
    same = (
        run.scenario == wanted
        and code == scenario_code_version(scenario)
        and not manifest_fault(run.manifest)
    )
    if not same or run.status != "complete":
        return None
    return None if changed_since(scenario, run.manifest) else run
