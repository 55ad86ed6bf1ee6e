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
    from analysis import attack_cdf
    from analysis.series import Selection
    from gossiprec.eventlog import open_run

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
    from analysis import curves
    from analysis.series import Selection
    from gossiprec.eventlog import open_run

    selection = Selection(observer, relevance, momentum)
    _print(curves.draw([open_run(run) for run in runs], out or runs[0] / "curves", selection=selection))


@plot.command()
@_runs
@_out("exposure")
def exposure(runs: tuple[Path, ...], out: Path | None) -> None:
    """Draw how much of the network each node has met, measured and predicted."""
    from analysis import exposure
    from gossiprec.eventlog import open_run

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
    from analysis import position
    from analysis.series import Selection
    from gossiprec.eventlog import open_run

    selection, stem = Selection(observer, relevance, momentum), out or runs[0] / "position"
    _print(position.draw([open_run(run) for run in runs], stem, measures=measure, selection=selection))


def _print(paths: Iterable[Path]) -> None:
    for path in paths:
        click.echo(path)
