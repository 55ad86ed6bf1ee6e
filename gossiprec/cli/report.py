"""``gossiprec report``: one HTML page for runs and studies."""

from __future__ import annotations

import time
from pathlib import Path

import click

from gossiprec.base.errors import LogError


@click.command()
@click.argument(
    "folders", metavar="RUN|STUDY...", nargs=-1, required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)  # fmt: skip
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.html",
    help="HTML file to write.  [default: report.html inside the first folder]",
)
@click.option(
    "--watch",
    type=click.FloatRange(min=1),
    is_flag=False,
    flag_value=10.0,
    metavar="[SECONDS]",
    help="Rewrite the page every SECONDS (default 10) until no run or study is in progress.",
)
def report(folders: tuple[Path, ...], out: Path | None, watch: float | None) -> None:
    """Write an HTML report of runs and studies: one self-contained file.

    \b
    gossiprec report runs/rand-gossip-s1
    gossiprec report runs/rand-gossip-s1 runs/fedavg-s1 --out both.html
    gossiprec report studies/churn
    gossiprec report runs/rand-gossip-s1 --watch 30      while the run is in progress
    """  # noqa: D301
    from gossiprec.report.page import is_in_progress, write_report

    path = out or folders[0] / "report.html"
    if path.suffix.lower() not in (".html", ".htm"):
        found = f"the suffix {path.suffix}" if path.suffix else "no suffix"
        raise LogError(
            f"{path}: found {found}; expected .html, because a report is HTML; use "
            f"{path.with_suffix('.html').name}"
        )
    in_progress = watch is not None and is_in_progress(folders)
    write_report(folders, path, reload_s=watch if in_progress else None)
    click.echo(path)
    while in_progress and watch is not None:
        time.sleep(watch)
        in_progress = is_in_progress(folders)
        write_report(folders, path, reload_s=watch if in_progress else None)
