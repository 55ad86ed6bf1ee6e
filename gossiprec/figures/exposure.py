"""The exposure figure: fraction of the network that nodes have met over time, measured and predicted.

A node has met another when one of its messages was delivered. The line is the mean over nodes, and the band holds the
middle 80 % of them. The dots are the prediction for uniform views, ``1 - exp(-P V / (N - 1))``, from the V views
drawn so far. No attack can find a community member that was not met.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gossiprec.figures import style
from gossiprec.figures.attack_selection import run_names
from gossiprec.figures.figure_files import Cell, write_figure
from gossiprec.figures.node_values import ContactCurve, contact_curve
from gossiprec.runs import Run

PREDICTED = style.LineStyle("black", style.THIN_DOTS, "")
CAPTION = (
    "Lines are means over nodes, and a band holds the middle 80 % of them. Dots are the prediction for peers drawn at "
    "random. An attack can find only nodes that were met."
)
HEADER = ("run", "time", "views", "mean", "p10", "p90", "predicted")


def draw(runs: Sequence[Run], out_stem: Path) -> list[Path]:
    """Draw the fraction of others met over virtual time; return the files written.

    Raises
    ------
    LogError
        If a run logged no message.
    """
    shown = {name: contact_curve(run) for run, name in zip(runs, run_names(runs), strict=True)}
    rows: list[list[Cell]] = [
        [name, *map(float, at)] for name, found in shown.items() for at in zip(*found, strict=True)
    ]
    return write_figure(out_stem, HEADER, rows, lambda: _figure(shown))


def _figure(shown: dict[str, ContactCurve]) -> Figure:
    is_one = len(shown) == 1
    names = ["measured"] if is_one else [style.short_name(name) for name in shown]
    width = style.COLUMN_IN if is_one else style.PAGE_IN
    margins = style.Margins(
        top=0.1,
        right=0.25 + max(map(style.text_width_in, [*names, "predicted"])),
        bottom=0.45 + style.caption_height(CAPTION, width),
    )
    figure, grid = style.panel_grid(1, 1, width=width, panel_height=2.0, margins=margins)
    axes = grid[0][0]
    ends = []
    for place, (name, found) in enumerate(zip(names, shown.values(), strict=True)):
        look = style.line_style(place)
        marks = [] if is_one else range(10 * place, len(found.time), 40)
        ends.append(_line(axes, found, look, name=name, marks=marks))
        last = float(100 * found.predicted[-1])
        if is_one and np.isfinite(last):
            ends.append(style.LineEnd(float(found.time[-1]), last, "predicted", PREDICTED))
    axes.set_xlim(0, 1.02 * max(float(found.time[-1]) for found in shown.values()) or 1)
    axes.set_ylim(0, min(101.0, 110 * max(float(found.high.max()) for found in shown.values())))
    axes.set_xlabel("virtual time (mean wake periods)")
    axes.set_ylabel("share of the other nodes met (%)")
    style.label_ends(figure, axes, ends)
    style.add_caption(figure, CAPTION)
    return figure


def _line(
    axes: Axes, found: ContactCurve, look: style.LineStyle, *, name: str, marks: Sequence[int]
) -> style.LineEnd:
    low, mean, high, predicted = (100 * y for y in (found.low, found.mean, found.high, found.predicted))
    axes.fill_between(found.time, low, high, color=look.color, alpha=0.2, linewidth=0)
    axes.plot(found.time, mean, markevery=[*marks], **look.kwargs())
    axes.plot(found.time, predicted, color=PREDICTED.color, linestyle=PREDICTED.dashes, linewidth=1.1)
    return style.LineEnd(float(found.time[-1]), float(mean[-1]), name, look)
