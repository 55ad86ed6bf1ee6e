"""``gossiprec epsilon`` and ``audit``: the privacy of users of a run with DP-SGD, claimed and tested."""

from __future__ import annotations

from pathlib import Path

import click

from gossiprec.cli.options import JSON, QUIET, WholeNumber, is_id, names_or_ids
from gossiprec.cli.progress import ignore_closed_pipe, progress_display
from gossiprec.cli.terminal import echo, print_by_hops, print_json


def _read_coalitions(
    context: click.Context, parameter: click.Parameter, given: tuple[str, ...]
) -> tuple[list[int], ...]:
    wrong = [text for text in given if not all(is_id(part.strip()) for part in text.split(","))]
    if wrong:
        raise click.BadParameter(
            f"found {wrong[0]!r}; expected node ids with commas between them, such as 3,8,21"
        )
    return tuple([int(part) for part in text.split(",")] for text in given)


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--victim", "victims", multiple=True, metavar="USER",
    help="Only this user, by name in the data, or by node id if the data have no names (repeatable).",
)  # fmt: skip
@click.option(
    "--observer", "observers", multiple=True, type=WholeNumber(min=0), metavar="ID",
    help="Only this node as an observer, by node id (repeatable).",
)  # fmt: skip
@click.option(
    "--coalition", "coalitions", multiple=True, metavar="ID,ID...", callback=_read_coalitions,
    help="These nodes together as an observer, by node ids (repeatable).",
)  # fmt: skip
@JSON
@QUIET
def epsilon(
    run: Path,
    victims: tuple[str, ...],
    observers: tuple[int, ...],
    coalitions: tuple[list[int], ...],
    as_json: bool,
    quiet: bool,
) -> None:
    """Account for what each node of RUN can learn about each user.

    \b
    gossiprec epsilon runs/ring-s1
    gossiprec epsilon runs/ring-s1 --coalition 3,8,21
    gossiprec plot epsilon runs/ring-s1

    RUN needs the policy dp-sgd. The matrix is written to RUN/epsilon.npz, and the table has one line per number of
    hops, the fewest messages in a row by which anything can have come from the user.
    """  # noqa: D301
    from gossiprec.emulation.run.network_epsilon import network_epsilon

    chosen = names_or_ids(run, victims)
    with progress_display(quiet=quiet) as progress:
        found = network_epsilon(
            run, victims=chosen or None, observers=[*observers, *coalitions] or None, progress=progress
        )
    with ignore_closed_pipe():
        if as_json:
            facts = {"delta": found.delta, "reason": found.reason, "neighbours": found.neighbours}
            print_json({**facts, "by_hops": found.table()})
            return
        print_by_hops(f"Epsilon towards an observer (delta {found.delta:g}), by hops", found.table())
        if found.reason:
            echo(f"no linear bound: {found.reason}")
        echo(found.neighbours)


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--updates", default=5, show_default=True, type=WholeNumber(min=1), help="Local updates of each node."
)
@click.option(
    "--canaries", default=8, show_default=True, type=WholeNumber(min=1), help="Canary items of each node."
)
@click.option(
    "--item", "items", multiple=True, type=WholeNumber(), metavar="ID",
    help="A canary item of every node, which no user has (repeatable).  [default: drawn for each node]",
)  # fmt: skip
@JSON
@QUIET
@click.pass_context
def audit(
    context: click.Context,
    run: Path,
    updates: int,
    canaries: int,
    items: tuple[int, ...],
    as_json: bool,
    quiet: bool,
) -> None:
    """Test the epsilon that dp-sgd claims in RUN by guesses about canaries.

    \b
    gossiprec audit runs/private-s1 --updates 10

    Nodes train on canary items that a coin puts into their data or leaves out, by the executor and the noise of RUN.
    The lower bound holds with 95 % confidence. The exit status is 1 if it exceeds the claim.
    """  # noqa: D301
    from gossiprec.emulation.run.privacy_audit import audit_privacy

    with progress_display(quiet=quiet) as progress:
        found = audit_privacy(run, updates=updates, canaries=canaries, items=items or None, progress=progress)
    with ignore_closed_pipe():
        if as_json:
            print_json({**vars(found), "refuted": found.refuted, "power_note": found.power_note})
        else:
            echo(
                f"unit {found.unit}, {found.updates} local updates, delta {found.delta:g}: claimed epsilon "
                f"{found.claimed:.4g}, at least {found.lower:.3g} ({found.right} of {found.guesses} guesses right, "
                f"{found.canaries} canaries){': refuted' if found.refuted else ''}"
            )
            if found.power_note is not None:
                echo(f"note: {found.power_note}")
    context.exit(int(found.refuted))
