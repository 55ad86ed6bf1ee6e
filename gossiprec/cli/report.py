"""``gossiprec report``: one HTML page for runs and studies."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import click

from gossiprec.base.errors import LogError
from gossiprec.cli.options import Number
from gossiprec.cli.terminal import echo, note_changed_files


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
    type=Number(min=1),
    is_flag=False,
    flag_value=10.0,
    metavar="[SECONDS]",
    help="Rewrite the page every SECONDS (default 10) until no run or study is in progress.",
)
@click.option(
    "--runs", "with_runs", is_flag=True,
    help="Also write the pages of the runs of each STUDY that have none, so that its page links to them.",
)  # fmt: skip
def report(folders: tuple[Path, ...], out: Path | None, watch: float | None, with_runs: bool) -> None:
    """Write an HTML report of runs and studies: one self-contained file.

    \b
    gossiprec report runs/rand-gossip-s1
    gossiprec report runs/rand-gossip-s1 runs/fedavg-s1 --out both.html
    gossiprec report studies/churn --runs                also a page for each of its runs
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
    note_changed_files({run: names for folder in folders for run, names in _changed_files(folder)})
    if with_runs:
        _write_pages_of_runs(folders)
    in_progress = watch is not None and is_in_progress(folders)
    write_report(folders, path, reload_s=watch if in_progress else None)
    echo(path, whole=True)
    while in_progress and watch is not None:
        time.sleep(watch)
        in_progress = is_in_progress(folders)
        write_report(folders, path, reload_s=watch if in_progress else None)


def _changed_files(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yield each run in a folder with the names of its changed files; of the runs of a study, in short."""
    from gossiprec.runs.manifest import changed_files, read_manifest
    from gossiprec.runs.run_list import SHOWN, find_runs

    for run in find_runs(folder):
        with suppress(LogError):  # the report itself names a damaged manifest
            yield run, changed_files(run, read_manifest(run), None if run == folder else SHOWN)


def _write_pages_of_runs(folders: Iterable[Path]) -> None:
    """Write the pages of finished runs that are missing or older than the run, and report progress to stderr."""
    from gossiprec.report.page import write_report

    runs = [path.parent for folder in folders for path in sorted(folder.glob("runs/*/summary.json"))]
    late = [run for run in runs if _is_older(run / "report.html", run / "summary.json")]
    for number, run in enumerate(late, 1):
        echo(f"page {number} of {len(late)}: {run / 'report.html'}", err=True)
        write_report([run], run / "report.html")


def _is_older(page: Path, result: Path) -> bool:
    return not page.is_file() or page.stat().st_mtime < result.stat().st_mtime
