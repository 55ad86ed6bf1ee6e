"""``gossiprec resume``: go on with a run that ended early."""

from __future__ import annotations

from pathlib import Path

import click

from gossiprec.cli.progress import progress_display


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--threads", type=click.IntRange(min=1), help="Compute on N threads; results do not depend on it."
)
@click.option("--from-start", is_flag=True, help="Run it again in RUN if no checkpoint can be used.")
@click.option(
    "--force", is_flag=True, help="Go on although the checkpoint is of another version of the code."
)
@click.option("--no-plots", is_flag=True, help="Draw no pictures at the end.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the closing table.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
@click.pass_context
def resume(
    context: click.Context,
    /,
    run: Path,
    threads: int | None,
    from_start: bool,
    force: bool,
    no_plots: bool,
    as_json: bool,
    quiet: bool,
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
        done = go_on(run, threads=threads, force=force, from_start=from_start, progress=progress)
    plots = bool(done.scenario.get("plots")) and not no_plots
    context.exit(conclude(done, plots=plots, as_json=as_json, quiet=quiet))
