"""Running a scenario."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from gossiprec.data.fingerprint import known_by
from gossiprec.data.split import Split
from gossiprec.emulation.assembly.prepare import prepare
from gossiprec.emulation.run.progress import Progress, Silent, clocks
from gossiprec.emulation.run.running import Running, carried_out
from gossiprec.eventlog import Run, RunDirectory
from gossiprec.eventlog.rundir import check_free
from gossiprec.scenario import Scenario, load_scenario
from gossiprec.scenario.plugins import plugins_of


def simulate(
    scenario: Scenario | str | os.PathLike[str] | Mapping[str, Any],
    *,
    overrides: Iterable[str] = (),
    out: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    load: Callable[[Scenario], Split] | None = None,
    gracefully: bool = False,
    kept_kernels: bool = False,
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
    progress : Progress, optional
        Is told what happens.
    load : callable, optional
        Gives the data in place of :func:`gossiprec.emulation.assembly.prepare.load_data`.
    gracefully : bool
        Ctrl-C and SIGTERM end the run at its next report, with a checkpoint to go on from; a second one at once.
    kept_kernels : bool
        As in :func:`gossiprec.emulation.prepare`.

    Returns
    -------
    Run
        Complete; or marked ``interrupted`` if Ctrl-C stopped it: everything up to the last report is there.

    Raises
    ------
    GossipRecError
        See :mod:`gossiprec.errors`. The run directory is then marked ``failed`` if it had been begun.
    """
    say = progress or Silent()
    begin = clocks()
    if not isinstance(scenario, Scenario):
        scenario = load_scenario(scenario, list(overrides))
    path = Path(out) if out is not None else Path("runs") / f"{scenario.name}-s{scenario.seed}"
    check_free(path, overwrite=overwrite)
    prepared = prepare(scenario, say, load=load, kept_kernels=kept_kernels)
    view_size = prepared.protocol.view_size
    directory = RunDirectory.create(
        path,
        scenario=prepared.scenario.resolved(),
        seed=scenario.seed,
        sizes={} if view_size is None else {"view_size": view_size},
        plugins=plugins_of(scenario),
        data=known_by(prepared.split),
        overwrite=overwrite,
    )
    directory.write_names(prepared.split.user_names, prepared.split.item_names)
    return carried_out(
        lambda: Running(prepared, directory, say, begin), directory, gracefully=say if gracefully else None
    )
