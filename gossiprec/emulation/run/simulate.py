"""Running a scenario."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import yaml

from gossiprec.data.fingerprint import data_identity
from gossiprec.data.split import Split
from gossiprec.emulation.assembly.data_loading import changed_since
from gossiprec.emulation.assembly.prepare import prepare
from gossiprec.emulation.run.active_run import ActiveRun
from gossiprec.emulation.run.execution import execute_run
from gossiprec.emulation.run.progress import ClockReadings, NullProgress, Progress, read_clocks
from gossiprec.emulation.run.tracker_dispatch import Chosen, tracker_factories
from gossiprec.emulation.shards.shard_group import Gather, make_shard_group, retry_after_shard_loss
from gossiprec.eventlog import Run, RunDirectory, open_run, run_files
from gossiprec.eventlog.manifest import manifest_fault
from gossiprec.eventlog.run_directory import check_path_free
from gossiprec.plugins import combined_code_version
from gossiprec.scenario import Scenario, load_scenario
from gossiprec.scenario.plugins import scenario_code_version, scenario_plugins

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
        A scenario, a YAML file, or the same as plain data.
    overrides : iterable of str
        ``key.path=value``, as with ``--set``.
    out : path, optional
        Run directory; ``runs/<name>-s<seed>`` if not given.
    overwrite : bool
        Replace an earlier run there.
    on_exists : {"refuse", "overwrite", "new", "reuse"}, optional
        What becomes of an earlier run there: as `overwrite` says if not given. ``new`` writes beside it, with a number
        behind its name; ``reuse`` returns it if it is complete, of this scenario, of this version of the code
        and, where data are read from files, of the data that are there now, and else replaces it.
    progress : Progress, optional
        Is told what happens.
    track : iterable of str
        Trackers that show curves while the run goes on, such as ``tensorboard``; results do not depend on them.
    tracked_as : str, optional
        What they call the run; as its directory if not given.
    load : callable, optional
        Gives the data in place of :func:`gossiprec.emulation.assembly.prepare.load_data`.
    gracefully : bool
        Ctrl-C and SIGTERM end the run at its next report, with a checkpoint to go on from; a second one at once.
    kept_kernels : bool
        As in :func:`gossiprec.emulation.prepare`.
    gather : callable, optional
        Gets the shards of a divided run together; on Ray if it is left out.

    Returns
    -------
    Run
        Complete; or marked ``interrupted`` if Ctrl-C stopped it: everything up to the last report is there.

    Raises
    ------
    GossipRecError
        See :mod:`gossiprec.errors`. The run directory is then marked ``failed`` if it had been begun.
    """
    say = progress or NullProgress()
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
    how: dict[str, Any] = {
        "say": say, "trackers": trackers, "gracefully": gracefully, "load": load, "gather": gather,
    }  # fmt: skip

    def go_on() -> Run:
        from gossiprec.emulation.run.resume import resume_attempt  # which runs scenarios anew, too

        return resume_attempt(path, from_start=True, **how)

    def run() -> Run:
        return simulate_attempt(
            scenario, path, begin=begin, overwrite=overwrite, kept_kernels=kept_kernels, **how
        )

    return retry_after_shard_loss(run, go_on, say, path)


def simulate_attempt(
    scenario: Scenario,
    path: Path,
    *,
    begin: ClockReadings,
    overwrite: bool,
    say: Progress,
    trackers: Chosen,
    gracefully: bool,
    load: Callable[[Scenario], Split] | None,
    gather: Gather | None,
    kept_kernels: bool = False,
) -> Run:
    """Run a scenario as :func:`simulate` does, until it ends or a shard dies."""
    with make_shard_group(scenario, say, gather) as shards:
        prepared = prepare(scenario, say, load=load, kept_kernels=kept_kernels, seat=shards.seat)
        shards.start(prepared)
        view_size = prepared.protocol.view_size
        directory = RunDirectory.create(
            path,
            scenario=prepared.scenario.resolved(),
            seed=scenario.seed,
            sizes={} if view_size is None else {"view_size": view_size},
            plugins=scenario_plugins(scenario),
            data=data_identity(prepared.split),
            inputs=prepared.inputs,
            overwrite=overwrite,
        )
        directory.write_names(prepared.split.user_names, prepared.split.item_names)
        return execute_run(
            lambda telling: ActiveRun(prepared, directory, telling, begin),
            directory,
            say,
            gracefully=gracefully,
            trackers=trackers,
        )


def _beside(path: Path) -> Path:
    """Return the path, or, if it is taken, the first with a number behind it that is not."""
    names = itertools.chain([path], (path.with_name(f"{path.name}-{n}") for n in itertools.count(2)))
    return next(each for each in names if not each.exists())


def _same_run(path: Path, scenario: Scenario) -> Run | None:
    """Return the complete run of a scenario in a folder, made by this version of the code, if there is one."""
    if not (path / run_files.MANIFEST).is_file():
        return None
    run = open_run(path)
    wanted = yaml.safe_load(yaml.safe_dump(scenario.resolved()))
    if wanted["executor"]["name"] == "auto":  # what it stood for is in the run (kept_kernels)
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
