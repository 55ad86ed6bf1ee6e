"""The page of a report: the sections of runs and studies, and scripts, in one file that needs no network."""

from __future__ import annotations

import datetime
import html
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from gossiprec.base.errors import LogError
from gossiprec.report import Section, TableBlock, TableColumn, TextParagraphs, text_columns, to_plain_data
from gossiprec.report.sections import make_sections
from gossiprec.report.sources import ReportRuns, page_link, read_report_study, study_status
from gossiprec.runs import Run, open_run
from gossiprec.runs.lock import UNKNOWN
from gossiprec.runs.manifest import STUDY_MARK
from gossiprec.runs.run_files import replace_file, wrap_write_errors
from gossiprec.runs.run_list import FACTS, differing_keys, list_runs
from gossiprec.version import __version__

MOST_RUNS = 20
"""Runs of which a page shows charts; more would make it slow to draw and too long to read."""
MOST_KEYS = 6
"""Keys of scenarios in the table of all runs."""


def is_study(path: Path) -> bool:
    """Return whether a folder is the folder of a study."""
    return (path / STUDY_MARK).is_file()


def collect_sections(paths: Sequence[Path], home: Path) -> list[Section]:
    """Return the sections of a report on these folders: each study by itself, then all runs together.

    Parameters
    ----------
    paths : sequence of Path
        Run directories and folders of studies.
    home : Path
        The folder of the page.

    Raises
    ------
    LogError
        If a folder is neither, or cannot be read.
    """
    studies = [path for path in paths if is_study(path)]
    found = [each for path in studies for each in make_sections("study", read_report_study(path, home))]
    runs = [_opened(path) for path in paths if path not in studies]
    if len(runs) > MOST_RUNS:
        found.append(_list_of_runs(runs, home))
    return [*found, *(make_sections("runs", ReportRuns(runs[:MOST_RUNS])) if runs else ())]


def _list_of_runs(runs: Sequence[Run], home: Path) -> Section:
    """Return the section that opens a page of many runs: a table of all, and which of them have charts."""
    rows, problems = list_runs(run.path for run in runs)
    keys = [key for key in differing_keys(rows) if key not in FACTS][:MOST_KEYS]
    heads = [*FACTS[:-1], *keys]
    columns = [TableColumn("run", "link"), *text_columns(*heads), TableColumn(FACTS[-1])]
    cells = [
        [
            page_link(row.path, home),
            *("" if row.value(head) is None else str(row.value(head)) for head in heads),
            row.facts[FACTS[-1]],
        ]
        for row in rows
    ]
    text = (
        f"This page is about {len(runs):,} runs. The table has all of them; the sections below show the first "
        f"{MOST_RUNS}. For the others, name fewer runs, or run them as a study: its page compares all."
    )
    table = TableBlock("All runs", columns, cells, "Runs with a page of their own are linked.")
    return Section("All runs", [TextParagraphs([text, *problems]), table])


def is_in_progress(paths: Sequence[Path]) -> bool:
    """Return whether any of the runs or studies may still grow."""
    statuses = (study_status(path) if is_study(path) else open_run(path).status for path in paths)
    return any(status in ("running", UNKNOWN) for status in statuses)


def _opened(path: Path) -> Run:
    try:
        return open_run(path)
    except LogError as error:
        raise LogError(f"{error}; it is not a study folder either: it has no {STUDY_MARK}") from None


LIBRARIES = {
    "d3.min.js": ("7.9.2", "912111098ea99503a6f4967361d2bbdc9dbf58cf9c678c8e27e5b02d1a07f0c1"),
    "plot.min.js": ("0.6.17", "4358086467740777dd788d6b27a95cebdbaefdd50c730a3060117073bd7134cb"),
}
"""Third-party scripts: version, and SHA-256 of the file in ``vendored/``."""

SCRIPTS = ("format.js", "tables.js", "charts.js", "spans.js", "graph.js", "page.js")


def write_report(paths: Sequence[Path], out: Path, *, reload_s: float | None = None) -> None:
    """Write a report on runs and studies.

    Parameters
    ----------
    paths : sequence of Path
        Run directories and folders of studies.
    out : Path
    reload_s : float, optional
        Seconds after which the page reloads itself.

    Raises
    ------
    LogError
        If a folder cannot be read as a run or study.
    ResourceError
        If the file cannot be written.
    """
    title = ", ".join(path.resolve().name for path in paths[:MOST_RUNS])
    if len(paths) > MOST_RUNS:
        title += f" and {len(paths) - MOST_RUNS:,} more"
    content = render_page(title, collect_sections(paths, out.parent), reload_s=reload_s)
    with wrap_write_errors(out.parent):
        out.parent.mkdir(parents=True, exist_ok=True)
    replace_file(out, content)


def render_page(title: str, sections: Sequence[Section], *, reload_s: float | None = None) -> bytes:
    """Return the HTML of a report."""
    written = datetime.datetime.now().astimezone().isoformat(" ", timespec="seconds")
    data = {
        "title": title,
        "written": written,
        "version": __version__,
        "reload_s": reload_s,
        "sections": to_plain_data(sections),
    }
    parts = {
        "title": html.escape(title),
        "style": _text("page", "page.css"),
        "libraries": "\n".join(_text("vendored", name) for name in LIBRARIES),
        "scripts": "\n".join(_text("page", name) for name in SCRIPTS),
        "data": to_script_json(data),
    }
    pieces = _text("page", "page.html").split("@@")  # text, name of a part, text, ...
    return "".join(parts[piece] if place % 2 else piece for place, piece in enumerate(pieces)).encode()


def to_script_json(data: object) -> str:
    """Return data as JSON that cannot end the script element around it, whatever text it holds."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c")


def _text(folder: str, name: str) -> str:
    return (resources.files("gossiprec.report") / folder / name).read_text(encoding="utf-8")
