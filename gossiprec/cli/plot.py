"""``gossiprec plot``: figures of finished or interrupted runs."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from gossiprec.cli.options import SAFE_CSV, Number, add_options
from gossiprec.cli.table import read_pairs
from gossiprec.cli.terminal import echo, note_changed_files

Command = Callable[..., None]

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.group()
def plot() -> None:
    """Draw figures of runs and studies (CSV, PNG, SVG)."""


def _out(default: str) -> Callable[[Command], Command]:
    return click.option(
        "--out",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="STEM",
        help="Files are STEM.csv, STEM.png and STEM.svg; with a suffix (.png, .svg or .pdf), only that "
        f"figure and its CSV file.  [default: {default}]",
    )


def _looks(command: Command) -> Command:
    """Add the options for the look of a figure, and apply them while the command draws."""

    @functools.wraps(command)
    def draw_with_options(*arguments: Any, size: tuple[float, float] | None, **more: Any) -> None:
        from gossiprec.figures import figure_files

        named = {name: more.pop(name) for name in ("title", "x_label", "y_label", "palette")}
        with figure_files.figure_options(
            figure_files.FigureOptions(**named, size=size, crowded=_say_crowded)
        ):
            command(*arguments, **more)

    looks = add_options(
        SAFE_CSV,
        click.option("--title", metavar="TEXT", help="Title of the figure."),
        click.option("--x-label", metavar="TEXT", help="Label of the x axes, replacing the default."),
        click.option("--y-label", metavar="TEXT", help="Label of the y axes, replacing the default."),
        click.option("--size", nargs=2, type=Number(1, 50), metavar="WIDTH HEIGHT", help="Figure size in inches."),
        click.option(
            "--palette", metavar="NAME",
            help="Palette: okabe-ito, grey or a matplotlib colour map.  [default: okabe-ito]",
        ),
    )  # fmt: skip
    return looks(draw_with_options)


def _say_crowded(n_panels: int) -> None:
    echo(
        f"note: {n_panels} panels; select fewer with --observer, --relevance and --momentum (for a study: "
        "--y and --where)",
        err=True,
    )


def _of_runs(name: str) -> Callable[[Command], Command]:
    """Add the arguments for runs and output stem; the command receives opened runs and the stem."""

    def add(command: Command) -> Command:
        @functools.wraps(command)
        def opening(runs: tuple[Path, ...], out: Path | None, **more: Any) -> None:
            from gossiprec.runs import open_run
            from gossiprec.runs.manifest import changed_files

            opened = [open_run(run) for run in runs]
            note_changed_files({run.path: changed_files(run.path, run.manifest) for run in opened})
            command(opened, out or runs[0] / name, **more)

        argument = click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=_FOLDER)
        return argument(_out(f"{name} inside the first RUN")(_looks(opening)))

    return add


def _of_attacks(command: Command) -> Command:
    """Add the options that select attacks of the runs; the command receives the selection."""

    @functools.wraps(command)
    def choosing(
        *runs: Any,
        observer: tuple[str, ...],
        relevance: tuple[str, ...],
        momentum: tuple[float, ...],
        **more: Any,
    ) -> None:
        from gossiprec.figures.attack_selection import AttackSelection

        command(*runs, selection=AttackSelection(observer, relevance, momentum), **more)

    added: Command = choosing
    for name, kind, example in (
        ("momentum", float, "0.99"),
        ("relevance", str, "standardized"),
        ("observer", str, "coalition-5%"),
    ):
        words = f"Show only this {name}, e.g. {example} (repeatable)."
        added = click.option(f"--{name}", multiple=True, type=kind, help=words)(added)
    return added


def _draw(figure: str, *what: Any, **choice: Any) -> None:
    """Import the module of a figure, draw the figure, and print the paths of its files."""
    for path in importlib.import_module(f"gossiprec.figures.{figure}").draw(*what, **choice):
        echo(path, whole=True)


@plot.command()
@_of_runs("cdf")
@_of_attacks
def cdf(*runs: Any, **choice: Any) -> None:
    """Draw the distribution (CDF) of attack accuracy over adversaries."""
    _draw("attack_cdf", *runs, **choice)


@plot.command()
@_of_runs("curves")
@_of_attacks
def curves(*runs: Any, **choice: Any) -> None:
    """Draw attack accuracy, its bounds and utility over rounds and virtual time."""
    _draw("curves", *runs, **choice)


@plot.command()
@_of_runs("exposure")
def exposure(*runs: Any) -> None:
    """Draw the fraction of nodes met over time, measured and predicted."""
    _draw("exposure", *runs)


@plot.command()
@_of_runs("roc")
def roc(*runs: Any) -> None:
    """Draw the ROC curves of membership inference at the last report."""
    _draw("roc", *runs)


@plot.command()
@_of_runs("epsilon")
def epsilon(*runs: Any) -> None:
    """Draw the epsilon of victims towards observers (after `gossiprec epsilon RUN`)."""
    _draw("epsilon", *runs)


@plot.command()
@_of_runs("position")
@_of_attacks
@click.option(
    "--measure",
    "measures",
    multiple=True,
    help="Measure of position, e.g. betweenness, in_contacts, or distance to the coalition (repeatable).  "
    "[default: betweenness, or in_contacts in runs without it]",
)
def position(*runs: Any, **choice: Any) -> None:
    """Draw attack accuracy and exposure of nodes against their graph position."""
    _draw("position", *runs, **choice)


@plot.command()
@click.argument("folder", metavar="FOLDER", type=_FOLDER)
@click.option(
    "--kind",
    type=click.Choice(("lines", "heat", "front", "paired")),
    help="Lines over one axis (rows if its values are words), a heat map over two axes, utility against privacy, or "
    "differences from the baseline.  [default: lines; without any option, the figure that the study file names]",
)
@click.option("--x", metavar="AXIS", help="Axis shown along x.  [default: the first that varies]")
@click.option(
    "--by",
    metavar="AXIS",
    help="Axis that distinguishes lines, rows or colours; `measure` if --y is repeated.  [default: the "
    "next that varies]",
)
@click.option(
    "--y",
    multiple=True,
    metavar="MEASURE",
    help="Measure to draw, such as hr@20 or max_aac[single,standardized] (repeatable).  [default: max_aac]",
)
@click.option(
    "--against", metavar="MEASURE", help="Utility metric of the figure `front`.  [default: the first metric]"
)
@click.option(
    "--to",
    multiple=True,
    metavar="AXIS=VALUE",
    help="Baseline of the figure `paired` (repeatable).  [default: the study's baseline]",
)
@click.option(
    "--scale", default="auto", show_default=True, metavar="auto|percent|guessing",
    help="Draw lines of attacks in percent, or in multiples of what guessing finds; auto: if that varies along x.",
)  # fmt: skip
@click.option("--where", multiple=True, metavar="AXIS=VALUE", help="Only runs with this value (repeatable).")
@_out("KIND inside FOLDER")
@_looks
def study(
    folder: Path,
    kind: str | None,
    where: tuple[str, ...],
    to: tuple[str, ...],
    out: Path | None,
    **choice: Any,
) -> None:
    """Draw a figure of the study in FOLDER: the one that its file names, or the one chosen here.

    \b
    gossiprec plot study studies/fanout
    gossiprec plot study studies/fanout --x fanout --y max_aac[single]
    gossiprec plot study studies/fanout --kind paired
    """  # noqa: D301
    from gossiprec.figures.study.panels import StudyFigureOptions

    options = StudyFigureOptions(**choice, to=read_pairs("--to", to))
    _draw("study.draw", folder, out, kind=kind, choice=options, where=read_pairs("--where", where))
