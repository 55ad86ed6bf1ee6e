"""Options shared by several commands."""

from __future__ import annotations

import functools
import json
import math
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from gossiprec.base.text import format_value
from gossiprec.cli.terminal import echo, make_console

Command = TypeVar("Command", bound=Callable[..., object])
Decorator = Callable[[Command], Command]


LARGEST = 2**31 - 1
"""Largest whole number of an option that sets no limit; :mod:`gossiprec.base.options` would be imported for long."""


class WholeNumber(click.IntRange):
    """A whole number in decimal digits, as in a scenario: ``010`` is 10, and ``1_000`` is refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        if isinstance(value, str) and not re.fullmatch(r"\s*[-+]?0*[0-9]{1,20}\s*", value):
            self.fail(
                f"found {format_value(value)}; expected a whole number in up to 20 decimal digits", param, ctx
            )
        number = super().convert(value, param, ctx)
        if self.max is None and number > LARGEST:
            self.fail(f"found {number}; expected up to {LARGEST}", param, ctx)
        return number


class Number(click.FloatRange):
    """A finite number, without ``_``."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number) or "_" in str(value):
            self.fail(f"found {format_value(value)}; expected a number such as 1.5", param, ctx)
        return number


def is_id(text: str) -> bool:
    """Return whether text is a whole number that a node or an item may have as its id."""
    return text.isascii() and text.isdecimal() and len(text) < 10


def names_or_ids(run: Path, users: Sequence[str]) -> list[int | str]:
    """Return users of a run as names in the data, or as node ids if the data have no names."""
    from gossiprec.runs import open_run

    named = bool(open_run(run).users)
    return [int(user) if not named and is_id(user) else user for user in users]


JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
JSON_SUMMARY = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object instead of the closing table."
)
NO_PLOTS = click.option("--no-plots", is_flag=True, help="Do not draw figures at the end.")
QUIET = click.option("-q", "--quiet", is_flag=True, help="Do not show progress.")
REPLACE = click.option("--overwrite", is_flag=True, help="Overwrite the file if it exists.")


def complete_files(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Let the shell complete names of files."""
    return [CompletionItem(typed, type="file")]


def complete_settings(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Let the shell complete the next part of a scenario key, and values with a name."""
    schema = json.loads((resources.files("gossiprec.scenario") / "scenario.schema.json").read_bytes())
    path, sign, _ = typed.partition("=")
    *parents, last = path.split(".")
    nodes = list(_branches(schema, schema))
    for part in [*parents, *([last] if sign else [])]:
        nodes = [below for node in nodes for below in _children(schema, node, part)]
    if sign:
        names = (word for node in nodes for word in (node.get("const"), *node.get("enum", ())))
        found = [f"{path}={word}" for word in names if isinstance(word, str)]
    else:
        keys = {"0": False} if any("items" in node for node in nodes) else {}
        for name, below in [pair for node in nodes for pair in node.get("properties", {}).items()]:
            kinds = {each.get("type", "") for each in _branches(schema, below)}
            keys[name] = keys.get(name, False) or bool(kinds - {"", "object", "array", "null"})
        found = [".".join([*parents, name]) + ("=" if leaf else ".") for name, leaf in keys.items()]
    return [CompletionItem(word) for word in dict.fromkeys(found) if word.startswith(typed)]


def _children(schema: dict[str, Any], node: dict[str, Any], part: str) -> Iterator[dict[str, Any]]:
    below = node.get("items") if part.isdecimal() else node.get("properties", {}).get(part)
    return _branches(schema, below) if isinstance(below, dict) else iter(())


def _branches(schema: dict[str, Any], node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the alternatives of a part of a JSON schema."""
    if "$ref" in node:
        node = schema["$defs"][node["$ref"].rpartition("/")[2]]
    yield node
    for each in (*node.get("anyOf", ()), *node.get("oneOf", ())):
        yield from _branches(schema, each)


def _begin_plain_cells(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        from gossiprec.runs.run_tables import plain_cells

        context.with_resource(plain_cells())


SAFE_CSV = click.option(
    "--safe-csv", is_flag=True, expose_value=False, callback=_begin_plain_cells,
    help="In CSV files, write ' before text that a spreadsheet would run as a formula (= + - @).",
)  # fmt: skip
SET = click.option(
    "--set", "overrides", multiple=True, metavar="KEY.PATH=VALUE", shell_complete=complete_settings,
    help="Override a scenario key, such as protocol.wakes=10 or observers.0.momentum=0.5 (repeatable).",
)  # fmt: skip
TRACK = click.option(
    "--track", multiple=True, metavar="NAME",
    help="Send metrics to a tracker while running: tensorboard, mlflow or a plug-in (repeatable).",
)  # fmt: skip
THREADS = click.option(
    "--threads", type=WholeNumber(min=1), help="Number of threads; does not affect results."
)


@dataclass(frozen=True)
class OutputOptions:
    """The options of the output of a command that runs a scenario: ``--no-plots``, ``--json`` and ``--quiet``."""

    no_plots: bool
    as_json: bool
    quiet: bool


def collect_options(cls: Callable[..., Any]) -> Decorator[Callable[..., Any]]:
    """Return a decorator that passes options as one dataclass with fields of their names, after the context."""
    names = [field.name for field in fields(cls)]  # type: ignore[arg-type]

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def call(*arguments: Any, **options: Any) -> object:
            return command(*arguments, cls(**{name: options.pop(name) for name in names}), **options)

        return call

    return decorate


def add_options(*options: Decorator[Command]) -> Decorator[Command]:
    """Return a decorator that adds options to a command, in this order."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def out_option(default: str) -> Decorator[Callable[..., Any]]:
    """Return the option of the directory of a run, given its default in words."""
    text = f"Run directory.  [default: {default}]"
    return click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help=text)


def show_output(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of :class:`OutputOptions` to a command, which gets the context and these options first."""
    collected = click.pass_context(collect_options(OutputOptions)(command))
    return add_options(NO_PLOTS, JSON_SUMMARY, QUIET)(collected)


LEAST = 16
"""Columns that a text that wraps gets at least, also on a narrower terminal."""


def terminal_width() -> int | None:
    """Return the columns of the terminal that stdout is, or None if it is a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def hang(head: str, text: str, width: int | None) -> str:
    """Return `text` after `head`, wrapped at words below its own beginning.

    Parameters
    ----------
    head : str
        What is before the text, with the space between them.
    text : str
    width : int or None
        Columns of a line; None for one line of any length.
    """
    if width is None:
        return f"{head}{text}"
    lines = textwrap.wrap(text, max(width - len(head), LEAST), break_long_words=False, break_on_hyphens=False)
    return head + f"\n{' ' * len(head)}".join(lines)


def print_note(text: str) -> None:
    """Print a sentence, wrapped at words if the terminal is narrower."""
    echo(hang("", text, terminal_width()))


def aligned(rows: Sequence[Sequence[str]], width: int | None = None) -> Iterator[str]:
    """Yield a text for each row of cells, in columns as wide as their widest cell; the last column wraps."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    for *cells, last in rows:
        yield hang(
            "".join(f"{cell:{n}}  " for cell, n in zip(cells, widths, strict=True)), last, width
        ).rstrip()


def fits(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether a table needs no more columns than the terminal has; a file has room for all."""
    width = terminal_width()
    return width is None or max(map(len, aligned(rows))) <= width


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows of cells, the headings first; cells wrap if the terminal is narrower."""
    width = terminal_width()
    if width is None or fits(rows):
        echo("\n".join(aligned(rows)))
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
    for place, cells in enumerate(zip(*rows, strict=True)):
        is_narrow = max(map(len, cells)) <= width // 2
        table.add_column(cells[0], overflow="fold", no_wrap=place == 0 and is_narrow)
    for row in rows[1:]:
        table.add_row(*row)
    make_console(width=width).print(table)
