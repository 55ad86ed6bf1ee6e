"""``gossiprec runs``, ``diff``, ``compare`` and ``rerun``: lists, differences and tests of runs, and a run again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gossiprec.base.text import one_line, short_name
from gossiprec.cli.options import (
    JSON,
    SET,
    OutputOptions,
    fits,
    out_option,
    print_note,
    print_table,
    show_output,
)
from gossiprec.cli.progress import ignore_closed_pipe
from gossiprec.cli.terminal import echo, note_changed_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gossiprec.runs.paired_tests import PairedTest
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
        _note(problem)
    note_changed_files({row.path: row.changed for row in found})
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
            echo(json.dumps(facts, default=str), whole=True)
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
    common = ", ".join(f"{name} {short_name(rows[0].facts[name])}" for name in same)
    echo(f"{count}{f'; in all: {common}' if common else ''}")
    if not rows:
        return
    heads = [name for name in FACTS if name not in same and values[name] != {"None"}]

    def table(shown: Sequence[str]) -> list[list[str]]:
        cells = ([one_line(row.path), *(_cell(row.value(name)) for name in (*heads, *shown))] for row in rows)
        return [["run", *map(short_name, (*heads, *shown))], *cells]

    shown = list(keys[:MOST_COLUMNS])
    while shown and not requested and not fits(table(shown)):
        shown.pop()
    print_table(table(shown))
    if len(keys) > len(shown):
        rest = ", ".join(map(short_name, keys[len(shown) : len(shown) + 10]))
        print_note(f"{len(keys) - len(shown)} more keys differ; show them with --column: {rest}")


def _cell(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else short_name(value)


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
            facts = {part: {k: list(v) for k, v in of.items()} for part, of in found.items()}
            echo(json.dumps(facts, default=str), whole=True)
        else:
            _print_diff(run, other, found)


def _print_diff(run: Path, other: Path, found: Mapping[str, Mapping[str, tuple[Any, Any]]]) -> None:
    for part, differing in found.items():
        if not differing:
            echo(f"{part}: the same")
            continue
        echo(f"{part}:")
        rows = [
            [f"  {short_name(key)}", *map(_cell, both), _change(*both)] for key, both in differing.items()
        ]
        print_table(
            [["", one_line(run), one_line(other), "change" if any(row[-1] for row in rows) else ""], *rows]
        )


@click.command()
@click.argument("folders", metavar="RUN...|STUDY", nargs=-1, required=True, type=click.Path(path_type=Path))
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
    gossiprec compare studies/share-less                  each combination with its baseline, or with the first one

    For each metric and result of an attack of users at the last report: the mean difference with a 95 % interval, and
    Wilcoxon's test of signed ranks, corrected by Holm's method for the number of tests. Runs of the first scenario with
    several seeds are compared with the other scenarios over seeds, too. Paired runs must be on the same data.
    """  # noqa: D301
    from gossiprec.runs import open_run
    from gossiprec.runs.manifest import STUDY_MARK, changed_files
    from gossiprec.runs.paired_tests import compare_groups, group_by_scenario
    from gossiprec.study.families import study_families

    studies = [folder for folder in folders if (folder / STUDY_MARK).is_file()]
    if studies and len(folders) > 1:
        raise click.UsageError(f"{studies[0]} is a study; expected only runs, or one study by itself")
    families = (
        study_families(studies[0], _note)
        if studies
        else [group_by_scenario([open_run(path) for path in folders])]
    )
    if len(families[0]) < 2:
        raise click.UsageError(
            f"found one run, {folders[0]}; expected a study, or two or more runs to compare"
        )
    runs = [run for groups in families for group in groups for run in group.runs.values()]
    for run in runs:
        if run.status != "complete":
            _note(f"{run.path} is not complete ({run.status}): its last report may be an earlier one")
    if len({run.manifest.get("code") for run in runs}) > 1:
        _note("these runs are of different versions of the code; rerun them to rule it out")
    note_changed_files({run.path: changed_files(run.path, run.manifest) for run in runs})
    found = compare_groups(families, metrics)
    with ignore_closed_pipe():
        if as_json:
            echo(json.dumps([vars(test) for test in found]), whole=True)
        else:
            _print_tests(found)


def _print_tests(found: Sequence[PairedTest]) -> None:
    """Print a table of tests for each reference."""
    from gossiprec.base.rounding import difference

    for place, reference in enumerate(dict.fromkeys(test.reference for test in found)):
        if place:
            echo()
        rows = [
            [
                *(
                    one_line(test.run),
                    _directed(test.metric),
                    f"{test.n:,}",
                    test.unit,
                    _cell(test.second),
                    _cell(test.first),
                ),
                *(f"{difference(test.second, test.first):+.4g}", f"{test.low:+.4g} to {test.high:+.4g}"),
                *(f"{test.p_value:.2g}", f"{test.holm:.2g}"),
            ]
            for test in found
            if test.reference == reference
        ]
        head = ["run", "metric", "n", "over", "mean", f"of {one_line(reference)}", "difference"]
        print_table([[*head, "95 % interval", "p", "p by Holm"], *rows])
    by_seed = any(test.unit == "seeds" for test in found)
    print_note(
        "Only tests over seeds are about other seeds, too; with n seeds, p is at least 2^(1 - n)."
        if by_seed
        else "These are tests over the users of single runs; other seeds can differ by more."
    )


def _directed(metric: str) -> str:
    """Return the name of a metric, with its direction if a lower value is better."""
    from gossiprec.measures.direction import better_sign

    name = short_name(metric)
    return f"{name} (lower is better)" if better_sign(metric) < 0 else name


def _note(text: str) -> None:
    echo(f"note: {text}", err=True)


def _change(left: Any, right: Any) -> str:
    """Return the difference of two results; settings are mostly whole numbers, of which it says nothing."""
    return f"{right - left:+.4g}" if isinstance(left, float) and isinstance(right, float) else ""


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@SET
@out_option("RUN with the changes in its name")
@click.option("--overwrite", is_flag=True, help="Overwrite an existing run in DIR.")
@show_output
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
