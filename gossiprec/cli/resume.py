"""``gossiprec resume``: go on with a run that ended early."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gossiprec.cli.options import JSON_SUMMARY, NO_PLOTS, QUIET, THREADS, TRACK
from gossiprec.cli.progress import progress_display


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@THREADS
@click.option(
    "--shards",
    type=click.IntRange(1, 64),
    help="Divide the nodes among so many processes on Ray, whatever the scenario says; 1: among none.",
)
@click.option("--from-start", is_flag=True, help="Run it again in RUN if no checkpoint can be used.")
@click.option(
    "--force",
    is_flag=True,
    help="Go on although the checkpoint is of another version of the code, or the manifest is damaged.",
)
@TRACK
@NO_PLOTS
@JSON_SUMMARY
@QUIET
@click.pass_context
def resume(
    context: click.Context, /, run: Path, no_plots: bool, as_json: bool, quiet: bool, **how: Any
) -> None:
    """Go on with the run in the directory RUN from its last checkpoint.

    \b
    gossiprec resume runs/rand-gossip-s1

    A run that was interrupted, failed or was killed ends with the same bytes as if it had not. How often checkpoints
    are taken is said by the scenario's section checkpoint.
    """  # noqa: D301
    from gossiprec.cli.simulate import conclude
    from gossiprec.emulation import resume as go_on
    from gossiprec.eventlog import open_run

    if open_run(run).manifest["status"] == "complete":
        click.echo(f"{run} is complete: there is nothing to resume")
        return
    with progress_display(quiet=quiet) as progress:
        done = go_on(run, progress=progress, gracefully=True, **how)
    plots = bool(done.scenario.get("plots")) and not no_plots
    context.exit(conclude(done, plots=plots, as_json=as_json, quiet=quiet))
