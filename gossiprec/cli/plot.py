"""``gossiprec plot``: the figures of finished or interrupted runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., object])

_RUN = click.Path(exists=True, file_okay=False, path_type=Path)
_STEM = click.Path(dir_okay=False, path_type=Path)


@click.group()
def plot() -> None:
    """Draw figures from run directories: csv, png and svg."""


def _runs(command: Command) -> Command:
    return click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=_RUN)(command)


def _out(default: str) -> Callable[[Command], Command]:
    return click.option(
        "--out",
        type=_STEM,
        metavar="STEM",
        help=f"Files are STEM.csv, STEM.png and STEM.svg.  [default: {default} inside the first RUN]",
    )


def _choice(command: Command) -> Command:
    """Add the options that choose among the attacks of the runs."""
    for name, kind, example in (
        ("momentum", float, "0.99"),
        ("relevance", str, "standardized"),
        ("observer", str, "coalition-5%"),
    ):
        command = click.option(
            f"--{name}", multiple=True, type=kind, help=f"Show only this {name}, e.g. {example} (repeatable)."
        )(command)
    return command


@plot.command()
@_runs
@_choice
@_out("cdf")
def cdf(
    runs: tuple[Path, ...],
    observer: tuple[str, ...],
    relevance: tuple[str, ...],
    momentum: tuple[float, ...],
    out: Path | None,
) -> None:
    """Draw how attack accuracy is spread over the adversaries."""
    from gossiprec.eventlog import open_run
    from gossiprec.figures import attack_cdf
    from gossiprec.figures.series import Selection

    selection = Selection(observer, relevance, momentum)
    _print(attack_cdf.draw([open_run(run) for run in runs], out or runs[0] / "cdf", selection=selection))


@plot.command()
@_runs
@_choice
@_out("curves")
def curves(
    runs: tuple[Path, ...],
    observer: tuple[str, ...],
    relevance: tuple[str, ...],
    momentum: tuple[float, ...],
    out: Path | None,
) -> None:
    """Draw attack accuracy with its bounds, and utility, over rounds and virtual time."""
    from gossiprec.eventlog import open_run
    from gossiprec.figures import curves
    from gossiprec.figures.series import Selection

    selection = Selection(observer, relevance, momentum)
    _print(curves.draw([open_run(run) for run in runs], out or runs[0] / "curves", selection=selection))


@plot.command()
@_runs
@_out("exposure")
def exposure(runs: tuple[Path, ...], out: Path | None) -> None:
    """Draw how much of the network each node has met, measured and predicted."""
    from gossiprec.eventlog import open_run
    from gossiprec.figures import exposure

    _print(exposure.draw([open_run(run) for run in runs], out or runs[0] / "exposure"))


@plot.command()
@_runs
@_choice
@click.option(
    "--measure",
    multiple=True,
    help="Measure of position, e.g. betweenness, in_contacts, or distance to the coalition (repeatable).  "
    "[default: betweenness, or in_contacts in runs without it]",
)
@_out("position")
def position(
    runs: tuple[Path, ...],
    observer: tuple[str, ...],
    relevance: tuple[str, ...],
    momentum: tuple[float, ...],
    measure: tuple[str, ...],
    out: Path | None,
) -> None:
    """Draw what nodes find, and how often they are found, against where they sit."""
    from gossiprec.eventlog import open_run
    from gossiprec.figures import position
    from gossiprec.figures.series import Selection

    selection, stem = Selection(observer, relevance, momentum), out or runs[0] / "position"
    _print(position.draw([open_run(run) for run in runs], stem, measures=measure, selection=selection))


@plot.command()
@click.argument("folder", metavar="FOLDER", type=_RUN)
@click.option(
    "--kind",
    type=click.Choice(("lines", "heat", "front", "paired")),
    default="lines",
    show_default=True,
    help="Lines over an axis; a map over two; utility against privacy; differences to the baseline.",
)
@click.option("--x", metavar="AXIS", help="The horizontal axis.  [default: the first that varies]")
@click.option("--by", metavar="AXIS", help="What tells lines, rows or colours apart.  [default: the next]")
@click.option(
    "--y", metavar="MEASURE", help="Such as hr@20 or max_aac[single,standardized].  [default: max_aac]"
)
@click.option("--against", metavar="MEASURE", help="The utility of a front.  [default: the first metric]")
@click.option("--where", multiple=True, metavar="AXIS=VALUE", help="Only runs with this value (repeatable).")
@_out("KIND")
def study(
    folder: Path,
    kind: str,
    x: str | None,
    by: str | None,
    y: str | None,
    against: str | None,
    where: tuple[str, ...],
    out: Path | None,
) -> None:
    """Draw a figure of a study from its folder.

    \b
    gossiprec plot study studies/fanout --x fanout --y max_aac[single]
    gossiprec plot study studies/fanout --kind paired
    """  # noqa: D301
    from gossiprec.figures.study.draw import draw
    from gossiprec.figures.study.panels import Choice

    chosen = dict(_pair(text) for text in where)
    _print(draw(folder, out or folder / kind, kind=kind, choice=Choice(x, by, y, against), where=chosen))


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"--where reads AXIS=VALUE, found {text!r}")
    return name.strip(), value.strip()


def _print(paths: Iterable[Path]) -> None:
    for path in paths:
        click.echo(path)
