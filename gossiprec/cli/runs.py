"""``gossiprec runs``, ``diff``, ``compare`` and ``rerun``: lists, differences and tests of runs, and a run again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gossiprec.cli.options import (
    JSON,
    JSON_SUMMARY,
    NO_PLOTS,
    QUIET,
    SET,
    OutputOptions,
    collect_options,
    fits,
    print_note,
    print_table,
)
from gossiprec.cli.progress import ignore_closed_pipe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gossiprec.figures.study.table_reader import Point
    from gossiprec.runs.run_list import RunRow

MOST_COLUMNS = 6
"""Number of scenario keys that a list shows by default."""


@click.command()
@click.argument("folders", metavar="[FOLDER]...", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--where", "conditions", multiple=True, metavar="KEY=VALUE",
    help="List only runs that meet a condition; = != < <= > >= (repeatable).",
)  # fmt: skip
@click.option("--sort", "key", metavar="KEY", help="Sort by a column, a measure or a scenario key.")
@click.option("--reverse", is_flag=True, help="Sort the largest first.")
@click.option(
    "--column", "columns", multiple=True, metavar="KEY",
    help="Show this measure or scenario key in place of the keys that differ (repeatable).",
)  # fmt: skip
@JSON
def runs(
    folders: tuple[Path, ...],
    conditions: tuple[str, ...],
    key: str | None,
    reverse: bool,
    columns: tuple[str, ...],
    as_json: bool,
) -> None:
    """List the runs in FOLDER (default: runs), also those of studies.

    \b
    gossiprec runs
    gossiprec runs studies/churn --where status=complete --sort hr@20 --reverse
    gossiprec runs --where 'protocol.wakes>=100' --column training.learning_rate

    The list shows the scenario keys in which the runs differ. What all have in common is above it.
    """  # noqa: D301
    from gossiprec.runs.run_list import (
        check_key,
        differing_keys,
        find_runs,
        list_runs,
        select_rows,
        sort_rows,
    )

    found, problems = list_runs(path for folder in folders or (Path("runs"),) for path in find_runs(folder))
    for problem in problems:
        click.echo(f"note: {problem}", err=True)
    for column in columns:
        check_key("--column", column, found)
    rows = select_rows(found, conditions)
    rows = sort_rows(rows, key, reverse=reverse) if key else rows
    keys = list(columns) or differing_keys(rows)
    with ignore_closed_pipe():
        if as_json:
            facts = [
                {"run": str(row.path), **row.facts, **row.results, "scenario": row.scenario} for row in rows
            ]
            click.echo(json.dumps(facts, default=str))
        else:
            _print_list(rows, keys, len(found), requested=bool(columns))


def _print_list(rows: Sequence[RunRow], keys: Sequence[str], n_found: int, *, requested: bool) -> None:
    """Print the list; on a narrow terminal, keys that differ are left out unless requested."""
    from gossiprec.runs.run_list import FACTS

    count = f"{len(rows):,} run{'' if len(rows) == 1 else 's'}"
    if len(rows) < n_found:
        count += f" of {n_found:,}"
    values = {name: {str(row.facts[name]) for row in rows} for name in FACTS}
    same = [name for name in ("name", "seed", "status") if len(rows) > 1 and len(values[name]) == 1]
    common = ", ".join(f"{name} {rows[0].facts[name]}" for name in same)
    click.echo(f"{count}{f'; in all: {common}' if common else ''}")
    if not rows:
        return
    heads = [name for name in FACTS if name not in same and values[name] != {"None"}]

    def table(shown: Sequence[str]) -> list[list[str]]:
        cells = ([str(row.path), *(_cell(row.value(name)) for name in (*heads, *shown))] for row in rows)
        return [["run", *heads, *shown], *cells]

    shown = list(keys[:MOST_COLUMNS])
    while shown and not requested and not fits(table(shown)):
        shown.pop()
    print_table(table(shown))
    if len(keys) > len(shown):
        rest = ", ".join(keys[len(shown) : len(shown) + 10])
        print_note(f"{len(keys) - len(shown)} more keys differ; show them with --column: {rest}")


def _cell(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.argument("other", metavar="OTHER", type=click.Path(path_type=Path))
@JSON
def diff(run: Path, other: Path, as_json: bool) -> None:
    """Show what differs between two runs: scenario, code, data and results.

    \b
    gossiprec diff runs/rand-gossip-s1 runs/rand-gossip-s2
    """  # noqa: D301
    from gossiprec.runs import open_run
    from gossiprec.runs.run_list import compare_runs

    found = compare_runs(open_run(run), open_run(other))
    with ignore_closed_pipe():
        if as_json:
            click.echo(
                json.dumps(
                    {part: {k: list(v) for k, v in of.items()} for part, of in found.items()}, default=str
                )
            )
        else:
            _print_diff(run, other, found)


def _print_diff(run: Path, other: Path, found: Mapping[str, Mapping[str, tuple[Any, Any]]]) -> None:
    for part, differing in found.items():
        if not differing:
            click.echo(f"{part}: the same")
            continue
        click.echo(f"{part}:")
        rows = [[f"  {key}", *map(_cell, both), _change(*both)] for key, both in differing.items()]
        print_table([["", str(run), str(other), "change" if any(row[-1] for row in rows) else ""], *rows])


@click.command()
@click.argument("folders", metavar="RUN|STUDY...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--metric", "metrics", multiple=True, metavar="NAME",
    help="Test only this metric, such as hr@20, or result of an attack (repeatable).",
)  # fmt: skip
@JSON
def compare(folders: tuple[Path, ...], metrics: tuple[str, ...], as_json: bool) -> None:
    """Test over users, and over seeds, whether the metrics of runs differ from those of the first RUN.

    \b
    gossiprec compare runs/rand-gossip-s1 runs/rand-gossip-s1-policies-share-less
    gossiprec compare runs/plain-s* runs/share-less-s*
    gossiprec compare studies/share-less                  each combination with the baseline, or with the first one

    For each metric and result of an attack of users at the last report: the mean difference with a 95 % interval, and
    Wilcoxon's test of signed ranks, corrected by Holm's method for the number of tests. Runs of the first scenario with
    several seeds are compared with the other scenarios over seeds, too. Paired runs must be on the same data.
    """  # noqa: D301
    from gossiprec.runs import open_run
    from gossiprec.runs.paired_tests import compare_groups

    paths = [found for folder in folders for found in _runs_in(folder).items()]
    if len(paths) < 2:
        raise click.UsageError(
            f"found {len(paths)} finished runs in {', '.join(map(str, folders))}; expected two or more to compare"
        )
    runs, names = [open_run(path) for path, _ in paths], dict(paths)
    found = [replace(test, run=names[Path(test.run)]) for test in compare_groups(runs, metrics)]
    if len({each.manifest.get("code") for each in runs}) > 1:
        click.echo(
            "note: these runs are of different versions of the code; rerun them to rule it out", err=True
        )
    with ignore_closed_pipe():
        if as_json:
            click.echo(json.dumps([vars(test) for test in found]))
            return
        head = [
            "run",
            "metric",
            "n",
            "over",
            "mean",
            f"of {next(iter(names.values()))}",
            "difference",
            "95 % interval",
            "p",
            "p by Holm",
        ]
        rows = [
            [
                *(test.run, test.metric, f"{test.n:,}", test.unit, _cell(test.second), _cell(test.first)),
                *(f"{test.second - test.first:+.4g}", f"{test.low:+.4g} to {test.high:+.4g}"),
                *(f"{test.p_value:.2g}", f"{test.holm:.2g}"),
            ]
            for test in found
        ]
        print_table([head, *rows])
        by_seed = any(test.unit == "seeds" for test in found)
        print_note(
            "Only tests over seeds are about other seeds, too; with n seeds, p is at least 2^(1 - n)."
            if by_seed
            else "These are tests over the users of single runs; other seeds can differ by more."
        )


def _runs_in(folder: Path) -> dict[Path, str]:
    """Return the finished runs of a study, those of the baseline first, with their combinations; or a run itself."""
    from gossiprec.figures.study.quantity import format_label
    from gossiprec.figures.study.table_reader import read_study
    from gossiprec.runs import open_run
    from gossiprec.runs.manifest import STUDY_MARK

    if not (folder / STUDY_MARK).is_file():
        return {folder: str(folder)}
    table, found = read_study(folder), dict[Path, str]()

    def is_other(point: Point) -> bool:
        return any(point[table.axis_index(name)] != value for name, value in table.baseline.items())

    for point in sorted(table.runs, key=is_other):
        name = ", ".join(f"{axis} {format_label(point[table.axis_index(axis)])}" for axis in table.varying)
        for path in (folder / "runs" / run for run in table.runs[point].values()):
            if open_run(path).status == "complete":
                found[path] = (
                    f"{found[path]} / {name}" if path in found else name
                )  # combinations that share a run
    return found


def _change(left: Any, right: Any) -> str:
    """Return the difference of two results; settings are mostly whole numbers, of which it says nothing."""
    return f"{right - left:+.4g}" if isinstance(left, float) and isinstance(right, float) else ""


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@SET
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR",
    help="Run directory.  [default: RUN with the changes in its name]",
)  # fmt: skip
@click.option("--overwrite", is_flag=True, help="Overwrite an existing run in DIR.")
@NO_PLOTS
@JSON_SUMMARY
@QUIET
@click.pass_context
@collect_options(OutputOptions)
def rerun(
    context: click.Context,
    output: OutputOptions,
    /,
    run: Path,
    overrides: tuple[str, ...],
    out: Path | None,
    overwrite: bool,
) -> None:
    """Run the scenario of RUN again, with changes, into a new folder.

    \b
    gossiprec rerun runs/rand-gossip-s1 --set protocol.wakes=50
    """  # noqa: D301
    from gossiprec.cli.simulate import finish_run, run_scenario
    from gossiprec.runs import open_run, run_files
    from gossiprec.scenario import load_scenario

    source = open_run(run).path
    scenario = load_scenario(source / run_files.SCENARIO, list(overrides))
    words = "-".join(
        re.sub(r"[^\w.@+]+", "-", text.partition(".")[2] or text).strip("-") for text in overrides
    )
    target = out or source.with_name(f"{source.name}-{words or 'again'}"[:200])
    done = run_scenario(scenario, target, overwrite=overwrite, track=(), quiet=output.quiet)
    context.exit(finish_run(done, output, plots=scenario.plots))
