"""``gossiprec replay``: rerun the scenario of a run and compare the results."""

from __future__ import annotations

import json
from pathlib import Path

import click

from gossiprec.cli.options import JSON, QUIET, THREADS
from gossiprec.cli.progress import progress_display

DIFFERS = 2
"""Exit status if the rerun gave other results."""


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@THREADS
@JSON
@QUIET
@click.pass_context
def replay(context: click.Context, /, run: Path, threads: int | None, as_json: bool, quiet: bool) -> None:
    """Rerun the scenario of RUN and compare log, metrics and attacks.

    Exits with 0 if everything is identical; otherwise reports the first difference and exits with 2. The second
    run is written to a temporary directory, which is deleted; RUN is not changed. A run that ended early is
    compared up to its last report.
    """
    from gossiprec.emulation import replay as run_again

    with progress_display(quiet=quiet) as progress:
        found = run_again(run, threads=threads, progress=progress)
    if as_json:
        facts = {**vars(found), "path": str(found.path), "confirmed": found.confirmed}
        click.echo(json.dumps(facts, indent=2))
    else:
        for line in found.elsewhere:
            click.echo(f"changed since the run: {line}")
        verdict = (
            f"confirmed, digest {found.digest}" if found.confirmed else f"not confirmed: {found.difference}"
        )
        click.echo(f"{found.path}: {verdict} (up to virtual time {found.upto:g})")
    context.exit(0 if found.confirmed else DIFFERS)
