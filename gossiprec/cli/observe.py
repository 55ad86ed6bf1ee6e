"""``gossiprec observe``: new observers and measures for a finished run."""

from __future__ import annotations

import json
from pathlib import Path

import click

from gossiprec.cli.options import JSON_SUMMARY, QUIET, THREADS
from gossiprec.cli.progress import ignore_closed_pipe, progress_display
from gossiprec.cli.terminal import echo

NOTE = "* observed after the run: the replay has the same digest and the same metrics as the run."
STORED = "Models were read from the stored versions of the run, not trained again."


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--observers", "file", required=True, metavar="FILE", type=click.Path(path_type=Path),
    help="YAML with observers, and with new measures under evaluate.",
)  # fmt: skip
@click.option("--name", metavar="NAME", help="Name of the results.  [default: the name of FILE]")
@click.option(
    "--stored/--replay", default=None,
    help="Only read versions that RUN has stored, or only run its scenario again.  [default: stored ones if enough]",
)  # fmt: skip
@click.option("--overwrite", is_flag=True, help="Overwrite earlier results of this name.")
@THREADS
@JSON_SUMMARY
@QUIET
def observe(
    run: Path,
    file: Path,
    name: str | None,
    stored: bool | None,
    overwrite: bool,
    threads: int | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Let new observers and measures see the finished run RUN.

    \b
    gossiprec observe runs/rand-gossip-s1 --observers mine.yaml

    The scenario runs again with the new observers only. The results are kept if this is the same run, by the digest
    of its log and by all of its metrics: in RUN/observed/NAME, a run directory. The files of RUN do not change. If RUN
    has stored its versions (evaluate.keep), they are read in place of training.
    """  # noqa: D301
    from gossiprec.cli import summary_text
    from gossiprec.cli.simulate import print_summary_tables
    from gossiprec.emulation.run.observation import observe as observe_run
    from gossiprec.runs import open_run

    with progress_display(quiet=quiet) as progress:
        found = observe_run(
            run, file, name=name, overwrite=overwrite, threads=threads, stored=stored, progress=progress
        )
    summary = found.summary or {}
    with ignore_closed_pipe():
        if as_json:
            echo(json.dumps({**summary, "run": str(found.path)}), whole=True)
            return
        old = open_run(run).summary or {}
        echo(summary_text.format_header(summary))
        new = [name for name in summary["utility"] if name not in old["utility"]]
        rows = {"new measures": ", ".join(new) or "none"}
        print_summary_tables({**summary, **summary_text.mark_later_results(old, summary)})
        echo(f"{NOTE} {STORED}" if found.manifest.get("stored_versions") else NOTE)
        rows |= {"wall time": f"{summary['wall_seconds']:,.1f} s (the run: {old['wall_seconds']:,.1f} s)"}
        echo(summary_text.format_rows({**rows, "files": str(found.path)}))
        if noted := summary_text.format_notes(summary):
            echo(noted)
