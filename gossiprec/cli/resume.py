"""``gossiprec resume``: continue a run that ended early."""

from __future__ import annotations

from pathlib import Path

import click

from gossiprec.cli.options import JSON_SUMMARY, NO_PLOTS, QUIET, THREADS, TRACK
from gossiprec.cli.progress import progress_display


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@THREADS
@click.option(
    "--shards",
    type=click.IntRange(1, 64),
    help="Number of shards on Ray, overriding the scenario; 1 runs without Ray.",
)
@click.option("--from-start", is_flag=True, help="Start over in RUN if no checkpoint is usable.")
@click.option(
    "--force",
    is_flag=True,
    help="Resume even if another code version wrote the checkpoint, or the manifest is damaged.",
)
@TRACK
@NO_PLOTS
@JSON_SUMMARY
@QUIET
@click.pass_context
def resume(
    context: click.Context,
    /,
    run: Path,
    threads: int | None,
    shards: int | None,
    from_start: bool,
    force: bool,
    track: tuple[str, ...],
    no_plots: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Resume the run in RUN from its last checkpoint.

    \b
    gossiprec resume runs/rand-gossip-s1

    A run that was interrupted, failed or was killed produces the same bytes as an uninterrupted one. The
    scenario section `checkpoint` sets how often checkpoints are written.
    """  # noqa: D301
    from gossiprec.cli.simulate import finish_run
    from gossiprec.emulation import resume as go_on
    from gossiprec.runs import open_run

    if open_run(run).manifest["status"] == "complete":
        click.echo(f"{run} is complete: there is nothing to resume")
        return
    with progress_display(quiet=quiet) as progress:
        done = go_on(
            run,
            threads=threads,
            shards=shards,
            from_start=from_start,
            force=force,
            track=track,
            progress=progress,
            graceful_stop=True,
        )
    plots = bool(done.scenario.get("plots")) and not no_plots
    context.exit(finish_run(done, plots=plots, as_json=as_json, quiet=quiet))
