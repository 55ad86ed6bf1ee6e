"""Commands on data sets: listing, describing, checking and generating them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from gossiprec.cli.options import JSON, Decorator, WholeNumber
from gossiprec.cli.terminal import echo


def _options_of(short: str, name: str, text: str) -> Decorator[Callable[..., Any]]:
    parameter = f"{name[2:].replace('-', '_')}s"
    return click.option(short, name, parameter, multiple=True, metavar="KEY=VALUE", help=text)


@click.group("data")
def data() -> None:
    """Check a data file, list and describe data sets, or generate a synthetic one."""


@data.command("list")
def list_() -> None:
    """List the data sets and the split rules."""
    from gossiprec.cli.list import format_members
    from gossiprec.scenario.registries import list_members

    for kind in ("datasets", "splits"):
        echo(f"{kind}:")
        for line in format_members(list_members(kind)):
            echo(f"  {line}")


@data.command()
@click.argument("name")
@click.option("--path", help="Path of the data (option `path` of the data set).")
@_options_of("-o", "--option", "Set another option of the data set (repeatable).")
@click.option("--split", help="Describe this split instead of the whole data set.")
@_options_of("-s", "--split-option", "Set an option of the split (repeatable).")
@click.option("--seed", default=1, show_default=True, type=WholeNumber(0, 2**64 - 1))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def stats(
    name: str,
    path: str | None,
    options: tuple[str, ...],
    split: str | None,
    split_options: tuple[str, ...],
    seed: int,
    as_json: bool,
) -> None:
    """Describe the data set NAME: sizes, popularity skew, user similarity and movement.

    \b
    gossiprec data stats movielens-100k --path ml-100k.zip --split published
    gossiprec data stats file --path views.csv -o columns=[user,item] -o delimiter=,
    """  # noqa: D301
    from gossiprec.data import DATASETS, SPLITS, loading
    from gossiprec.data.reports import describe_check_ins, describe_interactions
    from gossiprec.scenario.problems import validate_options

    kind = DATASETS[name]
    dataset = kind(validate_options(kind.Options, _options(path, options), f"dataset {name}"))
    provenance: dict[str, str] = {}
    if split is None:
        if split_options:
            raise click.UsageError("--split-option requires --split")
        interactions, parts = dataset.load(seed), None
    else:
        rule = SPLITS[split]
        divide = rule(validate_options(rule.Options, _options(None, split_options), f"split {split}"))
        interactions, parts = loading.load_and_split(dataset, divide, seed)
        provenance = divide.provenance()
    found = describe_interactions(interactions if parts is None else parts)
    if interactions.coordinates is not None:
        found |= describe_check_ins(interactions, parts)
    _print(found | dataset.provenance() | provenance, as_json)


@data.command()
@click.argument("file", type=click.Path(path_type=Path))
@_options_of("-o", "--option", "Set an option of the data set `file` instead of detecting it (repeatable).")
@JSON
def check(file: Path, options: tuple[str, ...], as_json: bool) -> None:
    """Show how FILE is parsed, and print the scenario section that reads it.

    \b
    gossiprec data check views.csv
    gossiprec data check views.csv -o columns={user:customer,item:product,time:ts}
    gossiprec data check Beauty.txt.gz -o form=lists
    """  # noqa: D301
    from gossiprec.data.file import DelimitedFile
    from gossiprec.data.reports import describe_parsed_file
    from gossiprec.scenario.problems import validate_options

    stated = validate_options(DelimitedFile.Options, _options(str(file), options), "dataset file")
    found = describe_parsed_file(DelimitedFile(stated))
    echo(json.dumps(found) if as_json else "\n".join(_report(found)), whole=as_json)


@data.command()
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--users", type=WholeNumber(), help="Number of users.  [default: 943]")
@click.option("--items", type=WholeNumber(), help="Number of items.  [default: 1682]")
@click.option("--interactions", type=WholeNumber(), help="Number of (user, item) pairs.  [default: 100000]")
@_options_of("-o", "--option", "Set another option of `synthetic` (repeatable).")
@click.option("--seed", default=1, show_default=True, type=WholeNumber(0, 2**64 - 1))
@click.option("--delimiter", default="\t", help="Column delimiter.  [default: tab]")
@click.option("--overwrite", is_flag=True, help="Overwrite OUT if it exists.")
def make(
    out: Path,
    options: tuple[str, ...],
    seed: int,
    delimiter: str,
    overwrite: bool,
    **sizes: int | None,
) -> None:
    """Generate a synthetic data set and write its columns to OUT (compressed if OUT ends in .gz)."""
    from gossiprec.data import DATASETS
    from gossiprec.data.delimited_text import write_table
    from gossiprec.scenario.problems import validate_options

    stated = _options(None, options) | {key: value for key, value in sizes.items() if value is not None}
    kind = DATASETS["synthetic"]
    dataset = kind(validate_options(kind.Options, stated, "dataset synthetic"))
    written = write_table(lambda: dataset.load(seed), out, delimiter=delimiter, overwrite=overwrite)
    echo(f"{out}: {written} interactions")


def _options(path: str | None, pairs: tuple[str, ...]) -> dict[str, Any]:
    """Return the given options; ``[a,b]`` is a list, ``{a:b}`` a mapping, anything else text for the option's type."""
    found: dict[str, Any] = {} if path is None else {"path": path}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise click.UsageError(f"--option {pair!r}: expected KEY=VALUE, such as columns=[user,item]")
        found[key] = _read(value)
    return found


def _read(value: str) -> str | list[str] | dict[str, str]:
    parts = [part.strip() for part in value[1:-1].split(",")]
    if value.startswith("[") and value.endswith("]"):
        return parts
    if value.startswith("{") and value.endswith("}"):
        pairs = (part.partition(":") for part in parts)
        return {key.strip(): re.sub(r"^(['\"])(.*)\1$", r"\2", name.strip()) for key, _, name in pairs}
    return value


def _report(found: dict[str, Any]) -> Iterator[str]:
    """Yield the lines that describe how a file is parsed."""
    import yaml

    from gossiprec.base.plain_text import DUMPER

    rows, notes, section = (found.pop(key) for key in ("first_rows", "notes", "dataset"))
    for key, value in found.items():
        text = ", ".join(f"{k} = {v}" for k, v in value.items()) if isinstance(value, dict) else value
        yield f"{key.replace('_', ' '):20} {f'{text:,}' if isinstance(text, int) else text}"
    for number, row in enumerate(rows):
        yield f"{'' if number else 'first rows':20} {', '.join(f'{k} {v!r}' for k, v in row.items())}"
    for note in notes:
        yield f"{'note':20} {note}"
    yield "\nScenario section:\n"
    yield yaml.dump(
        {"dataset": section}, Dumper=DUMPER, sort_keys=False, allow_unicode=True, default_flow_style=None
    )
    line = json.dumps(
        section, ensure_ascii=False
    )  # JSON is YAML, and has no quotes that a shell would remove
    yield f"Or pass it to any scenario:  --set {shlex.quote(f'dataset={line}')}"


def _print(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        echo(json.dumps(found), whole=True)
        return
    for key, value in found.items():
        echo(f"{key:24} {value:.4f}" if isinstance(value, float) else f"{key:24} {value}")
