"""``gossiprec counterfactual``: a run without the data of some users."""

from __future__ import annotations

from pathlib import Path

import click

from gossiprec.cli.options import JSON_SUMMARY, NO_PLOTS, QUIET, OutputOptions, collect_options
from gossiprec.cli.progress import progress_display


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--without", "names", multiple=True, metavar="USER",
    help="A user, by name in the data, or by node id if the data have no names (repeatable).",
)  # fmt: skip
@click.option(
    "--without-node", "nodes", multiple=True, type=click.IntRange(min=0), metavar="ID",
    help="A user, by node id (repeatable).",
)  # fmt: skip
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Run directory.  [default: RUN-without-ID]",
)
@NO_PLOTS
@JSON_SUMMARY
@QUIET
@click.pass_context
@collect_options(OutputOptions)
def counterfactual(
    context: click.Context,
    output: OutputOptions,
    /,
    run: Path,
    names: tuple[str, ...],
    nodes: tuple[int, ...],
    out: Path | None,
) -> None:
    """Run the scenario of RUN without the data of some users.

    \b
    gossiprec counterfactual runs/rand-gossip-s1 --without 196

    Draws are per node, so the new run differs from RUN by the users' data only. Their nodes stay in the network and
    relay models. The run is that of the same scenario with dataset.without.
    """  # noqa: D301
    from gossiprec.cli.simulate import finish_run
    from gossiprec.emulation.run.counterfactual import counterfactual as run_without
    from gossiprec.runs import open_run

    if not names and not nodes:
        raise click.UsageError("found no user; expected --without USER or --without-node ID")
    named = bool(open_run(run).users)
    users = [*(int(name) if not named and name.isdecimal() else name for name in names), *nodes]
    with progress_display(quiet=output.quiet) as progress:
        done = run_without(
            run, users, out=out, progress=progress, graceful_stop=True, use_cached_kernels=True
        )
    context.exit(finish_run(done, output, plots=bool(done.scenario.get("plots"))))
