"""``gossiprec table``: the results of a study as a table for a paper."""

from __future__ import annotations

from pathlib import Path

import click

from gossiprec.base.errors import LogError
from gossiprec.cli.options import is_id
from gossiprec.cli.progress import ignore_closed_pipe
from gossiprec.cli.terminal import echo


def read_pairs(option: str, texts: tuple[str, ...], *, bare: bool = False) -> dict[str, str]:
    """Return the values of ``NAME=VALUE`` by name; with `bare`, a value alone has the name ``""``."""
    found = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        if not value or not (equals or bare):
            raise LogError(f"{option}: found {text!r}; expected {'VALUE or ' * bare}NAME=VALUE")
        found[name] = value
    return found


def _names(texts: tuple[str, ...]) -> list[str]:
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


def _digits(texts: tuple[str, ...]) -> dict[str, int]:
    found = read_pairs("--digits", texts, bare=True)
    for value in found.values():
        if not is_id(value) or int(value) > 12:
            raise LogError(f"--digits: found {value!r}; expected a number of decimal places from 0 to 12")
    return {name: int(value) for name, value in found.items()}


@click.command()
@click.argument("folder", metavar="STUDY", type=click.Path(path_type=Path))
@click.option(
    "--rows", multiple=True, metavar="AXES", help="Axes of the rows, by commas; `measure` for measures."
)
@click.option("--columns", multiple=True, metavar="AXES", help="Axes of the columns.  [default: measure]")
@click.option(
    "--measure", "measures", multiple=True, metavar="MEASURE",
    help="Show this measure, such as hr@20 or last_aac[single] (repeatable).",
)  # fmt: skip
@click.option(
    "--where", multiple=True, metavar="AXIS=VALUE", help="Use only these combinations (repeatable)."
)
@click.option(
    "--to", multiple=True, metavar="AXIS=VALUE", help="Test against this, not against the baseline."
)
@click.option(
    "--unit", "units", multiple=True, metavar="[MEASURE=]UNIT", help="percent, fraction, kB, MB, GB, ..."
)
@click.option("--digits", multiple=True, metavar="[MEASURE=]N", help="Number of decimal places.")
@click.option(
    "--interval", default="half", metavar="half|ends|none", show_default=True, help="Form of the intervals."
)
@click.option("--format", "format_", default="markdown", show_default=True, metavar="latex|markdown|csv|html")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write to FILE.")
def table(folder: Path, format_: str, out: Path | None, interval: str, **chosen: tuple[str, ...]) -> None:
    """Print a table of STUDY: means over seeds, intervals, best values and significance.

    \b
    gossiprec table studies/churn
    gossiprec table studies/churn --rows graph --columns churn,measure --measure hr@20 --format latex
    gossiprec table studies/churn --measure last_aac --unit fraction --digits 3 --format csv --out churn.csv

    The best value of each column is bold. Marks show differences from the baseline of the study, in pairs over seeds.
    """  # noqa: D301
    from gossiprec.figures.study.paper_table import TableOptions, format_table
    from gossiprec.figures.study.table_reader import read_study
    from gossiprec.runs.run_files import replace_file

    options = TableOptions(
        _names(chosen["rows"]),
        _names(chosen["columns"]),
        chosen["measures"],
        read_pairs("--where", chosen["where"]),
        read_pairs("--to", chosen["to"]),
        read_pairs("--unit", chosen["units"], bare=True),
        _digits(chosen["digits"]),
        interval,
    )
    text = format_table(read_study(folder), format_, options)
    with ignore_closed_pipe():
        if out is None:
            echo(text, nl=False, whole=True)
        else:
            replace_file(out, text.encode())
            echo(out, whole=True)
