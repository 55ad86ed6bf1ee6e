"""``gossiprec log``: inspect, verify and export event logs."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gossiprec.cli.options import JSON, REPLACE, SAFE_CSV, WholeNumber
from gossiprec.cli.terminal import PrintableOutput, echo
from gossiprec.streams import silence

if TYPE_CHECKING:
    from gossiprec.runs.reader import EventLog
    from gossiprec.runs.verify import LogVerification

ROW_GROUP = 2**20
"""Rows of a Parquet file that are in memory at a time."""
_SOURCE = click.argument("source", metavar="RUN|FILE", type=click.Path(path_type=Path))


@click.group()
def log() -> None:
    """Inspect, verify and export event logs."""


@log.command()
@_SOURCE
@click.option("--kind", help="Print only this kind of event, such as message.")
@click.option("--limit", type=WholeNumber(min=0), help="Maximum number of rows to print.")
def cat(source: Path, kind: str | None, limit: int | None) -> None:
    """Print events in order of virtual time, tab-separated; lines beginning with # are column headers."""
    from gossiprec.runs.reader import column_names, iter_rows_by_time, read_log
    from gossiprec.runs.run_files import log_path

    found = read_log(log_path(source))
    kinds = [kind] if kind else list(found.kinds)
    lines = csv.writer(PrintableOutput(), delimiter="\t", lineterminator="\n")
    try:
        lines.writerows([f"#{name}", *column_names(found.schema[name])] for name in kinds)
        for rows in iter_rows_by_time(found, kinds, limit):
            lines.writerows(rows)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader closed the pipe, as `head` does; silence the flush at exit too
        silence(sys.stdout.fileno())
    if found.damage:
        echo(f"{found.path}: {found.damage}", err=True)


@log.command()
@_SOURCE
@JSON
def stats(source: Path, as_json: bool) -> None:
    """Print statistics of a log: rows and time span per event kind, size, digest, completeness and run status."""
    from gossiprec.runs.reader import read_log
    from gossiprec.runs.run_files import log_path

    found = read_log(log_path(source))
    digest, spans = found.digest_and_spans()
    facts: dict[str, Any] = {
        "path": str(found.path),
        **_standing(source),
        "size_bytes": found.size_bytes,
        "writer": found.writer,
        "schema": found.schema.version,
        "complete": found.complete,
        "damage": vars(found.damage) if found.damage else None,
        "digest": digest,
        "rows": found.rows,
        "times": {kind: spans.get(kind) for kind in found.kinds},
    }
    echo(json.dumps(facts, indent=2) if as_json else _stats_text(facts), whole=as_json)


@log.command()
@_SOURCE
@JSON
@click.pass_context
def verify(context: click.Context, source: Path, as_json: bool) -> None:
    """Verify a log. Exits with 2 if it is damaged or incomplete, and reports what is still readable.

    Given a run directory, all files of the run are also compared with the digests in its manifest.
    """
    from gossiprec.runs.verify import verify_log as check

    found = check(source)
    facts = {
        **vars(found),
        "path": str(found.path),
        "damage": vars(found.damage) if found.damage else None,
        "run": str(found.run) if found.run else None,
    }
    if as_json:
        echo(json.dumps(facts, indent=2), whole=True)
    else:
        echo(found)
        for fault in found.faults[0 if found.damage else 1 :]:
            echo(f"  also: {fault}")
        for kind, time in found.last_times.items():
            echo(f"  readable: {found.rows[kind]:>10} {kind} rows, up to time {time!r}")
        _print_rows_after_damage(found)
    context.exit(0 if found.complete else 2)


def _standing(source: Path) -> dict[str, str]:
    """Return the status of a run as a word and as text; nothing if the log is given without its run."""
    from gossiprec.runs import open_run, run_files

    if not (source / run_files.MANIFEST).is_file():
        return {}
    run = open_run(source)
    return {"status": run.status, "standing": run.status_text}


def _print_rows_after_damage(found: LogVerification) -> None:
    """Print the rows that are left after the damage."""
    for kind, rows in found.rows_after.items():
        if rows:
            echo(f"  after the damage, in whole chunks: {rows:>10} {kind} rows")
    for kind, rows in (found.rows_lost or {}).items():
        if rows > 0:
            echo(f"  lost: {rows:>14} {kind} rows")
        if rows < 0:
            echo(f"  too many: {-rows:>10} {kind} rows")


@log.command()
@_SOURCE
@click.option("--kind", required=True, help="Kind of event to export, such as message.")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="File to write (.csv or .parquet)."
)
@REPLACE
@SAFE_CSV
def export(source: Path, kind: str, out: Path, overwrite: bool) -> None:
    """Write the events of one kind to a CSV or Parquet file, in the order in which they were logged."""
    from gossiprec.base.errors import LogError
    from gossiprec.runs.reader import read_log
    from gossiprec.runs.run_files import log_path

    if out.suffix not in (".csv", ".parquet"):
        raise LogError(
            f"{out}: found {f'the suffix {out.suffix}' if out.suffix else 'no suffix'}; expected "
            ".csv or .parquet"
        )
    if out.exists() and not overwrite:
        raise LogError(f"{out} exists; choose another name, or pass --overwrite")
    found = read_log(log_path(source))
    (_write_parquet if out.suffix == ".parquet" else _write_csv)(found, kind, out)
    echo(f"{out}: {found.rows[kind]} {kind} rows")
    if found.damage:
        echo(f"{found.path}: {found.damage}", err=True)


def _write_csv(found: EventLog, kind: str, out: Path) -> None:
    from gossiprec.runs.reader import column_names, iter_rows_of_kind
    from gossiprec.runs.run_files import open_replacement
    from gossiprec.runs.run_tables import safe_rows

    names = column_names(found.schema[kind])
    with open_replacement(out) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow(names)
        for rows in iter_rows_of_kind(found, kind):
            lines.writerows(safe_rows(rows))
        text.detach()


def _write_parquet(found: EventLog, kind: str, out: Path) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from gossiprec.runs.run import to_arrow
    from gossiprec.runs.run_files import open_replacement

    none = to_arrow({c.name: np.empty(c.shape(0), c.dtype) for c in found.schema[kind].columns})
    held = [none]
    with open_replacement(out) as file, pq.ParquetWriter(file, none.schema) as writer:
        for part in found.iter_event_blocks(kind):
            held.append(to_arrow(part))
            if sum(map(len, held)) >= ROW_GROUP:
                writer.write_table(pa.concat_tables(held))
                held = [none]
        writer.write_table(pa.concat_tables(held))


def _stats_text(facts: dict[str, Any]) -> str:
    shown = {"path": facts["path"], **({"status": facts["standing"]} if "standing" in facts else {})}
    shown |= {name: facts[name] for name in ("size_bytes", "writer", "complete", "digest")}
    lines = [f"{name + ':':<12}{fact}" for name, fact in shown.items()]
    if facts["damage"]:
        lines.append(f"{'damage:':<12}byte {facts['damage']['offset']}: {facts['damage']['reason']}")
    lines.append(f"{'kind':<12}{'rows':>12}  virtual time")
    for kind, rows in facts["rows"].items():
        span = facts["times"][kind]
        lines.append(f"{kind:<12}{rows:>12}  {f'{span[0]:.6g} to {span[1]:.6g}' if span else '-'}")
    return "\n".join(lines)
