"""``gossiprec counterfactual`` and ``influence``: a run without some users' data, and what these changed."""

from __future__ import annotations

from pathlib import Path

import click

from gossiprec.cli.options import (
    JSON,
    QUIET,
    OutputOptions,
    WholeNumber,
    names_or_ids,
    out_option,
    show_output,
)
from gossiprec.cli.progress import ignore_closed_pipe, progress_display
from gossiprec.cli.terminal import print_by_hops, print_json, print_values

WITHOUT = click.option(
    "--without", "names", multiple=True, metavar="USER",
    help="A user, by name in the data, or by node id if the data have no names (repeatable).",
)  # fmt: skip
WITHOUT_NODE = click.option(
    "--without-node", "nodes", multiple=True, type=WholeNumber(min=0), metavar="ID",
    help="A user, by node id (repeatable).",
)  # fmt: skip
LENGTH = click.option(
    "-k", default=20, show_default=True, type=WholeNumber(min=1), help="Length of the compared lists."
)


def _find_users(run: Path, names: tuple[str, ...], nodes: tuple[int, ...]) -> list[int | str]:
    """Return the users that the options name: a number is a node id, a text is a name in the data."""
    if not names and not nodes:
        raise click.UsageError("found no user; expected --without USER or --without-node ID")
    return [*names_or_ids(run, names), *nodes]


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@WITHOUT
@WITHOUT_NODE
@out_option("RUN-without-ID")
@show_output
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
    from gossiprec.emulation.run.influence import counterfactual as run_without

    users = _find_users(run, names, nodes)
    with progress_display(quiet=output.quiet) as progress:
        done = run_without(
            run, users, out=out, progress=progress, graceful_stop=True, use_cached_kernels=True
        )
    context.exit(finish_run(done, output, plots=bool(done.scenario.get("plots"))))


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.argument("other", metavar="COUNTERFACTUAL", type=click.Path(path_type=Path))
@LENGTH
@JSON
@QUIET
def influence(run: Path, other: Path, k: int, as_json: bool, quiet: bool) -> None:
    """Report what the data left out of COUNTERFACTUAL changed for other users of RUN.

    \b
    gossiprec influence runs/rand-gossip-s1 runs/rand-gossip-s1-without-195

    Both scenarios are run again in a temporary directory, because run directories hold no models. Values are means
    over the users at a number of hops: the fewest messages in a row by which the data can have reached them.
    """  # noqa: D301
    from gossiprec.emulation.run.influence import influence as measure_influence

    with progress_display(quiet=quiet) as progress:
        found = measure_influence(run, other, k=k, progress=progress)
    with ignore_closed_pipe():
        if as_json:
            users = {name: column.tolist() for name, column in found.columns().items()}
            by_user = {"user": found.users.tolist(), "hops": found.hops.tolist(), **users}
            print_json({"k": found.k, "by_hops": found.table(), "by_user": by_user})
        else:
            print_by_hops("Influence on other users, by hops from the data", found.table())


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@WITHOUT
@WITHOUT_NODE
@click.option(
    "--method", "methods", multiple=True, metavar="METHOD",
    help="A method of `gossiprec list unlearners`, or '{name: METHOD, OPTION: VALUE}' (repeatable).  "
    "[default: all that fit the run]",
)  # fmt: skip
@LENGTH
@JSON
@QUIET
def unlearn(
    run: Path,
    names: tuple[str, ...],
    nodes: tuple[int, ...],
    methods: tuple[str, ...],
    k: int,
    as_json: bool,
    quiet: bool,
) -> None:
    """Judge methods of unlearning some users' data after RUN.

    \b
    gossiprec unlearn runs/fedavg-s1 --without 196 --method fine-tune

    Each method is compared with the run without these data, which is the exact result, and with doing nothing: models
    and lists of all other users, cost, and what membership inference still finds about the forgotten users. All runs
    are made in a temporary directory.
    """  # noqa: D301
    from gossiprec.base.plain_text import parse_yaml
    from gossiprec.emulation.unlearning.judge import unlearn as judge_methods

    users = _find_users(run, names, nodes)
    try:
        specs = [parse_yaml(method) if method.startswith("{") else method for method in methods]
    except ValueError as error:
        raise click.UsageError(f"--method: found no valid YAML ({error})") from None
    with progress_display(quiet=quiet) as progress:
        found = judge_methods(run, users, methods=specs or None, k=k, progress=progress)
    with ignore_closed_pipe():
        if as_json:
            print_json({"k": k, "removed": found.removed.tolist(), "methods": found.table()})
        else:
            print_values("Unlearning, against the run without the users' data (retrain)", found.table())
