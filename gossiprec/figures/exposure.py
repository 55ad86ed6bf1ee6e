"""How much of the network each node has met over time, measured and predicted.

A node has met another when one of its messages was delivered. The line is the mean over nodes, the band holds
the middle 80 % of them, the dots are the prediction for uniform views, ``1 - exp(-P V / (N - 1))``, from the
V views drawn by then. No attack can find a community member that was not met.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gossiprec.arrays import F64
from gossiprec.errors import LogError
from gossiprec.eventlog import Run
from gossiprec.eventlog.reader import Columns
from gossiprec.figures import style
from gossiprec.figures.output import Cell, write_figure
from gossiprec.figures.series import run_names
from gossiprec.measures.meetings import first_meetings, fractions_met, predicted_fraction_met

N_POINTS = 201
BAND = (10, 90)
PREDICTED = style.LineStyle("black", style.THIN_DOTS, "")
HEADER = ("run", "time", "views", "mean", "p10", "p90", "predicted")


class Exposure(NamedTuple):
    """Fractions of the other nodes met, at some times of one run; each of shape (n_times,).

    `views` were drawn until then by a node, on average; like `predicted` they are NaN where the log has no views. `low`
    and `high` are the 10th and 90th percentile over nodes.
    """

    time: F64
    views: F64
    mean: F64
    low: F64
    high: F64
    predicted: F64


def draw(runs: Sequence[Run], out_stem: Path) -> list[Path]:
    """Draw the fraction of others met over virtual time; return the files written.

    Raises
    ------
    LogError
        If a run logged no message.
    """
    shown = {name: measure(run) for run, name in zip(runs, run_names(runs), strict=True)}
    rows: list[list[Cell]] = [
        [name, *map(float, at)] for name, found in shown.items() for at in zip(*found, strict=True)
    ]
    return write_figure(out_stem, HEADER, rows, lambda: _figure(shown))


def measure(run: Run, *, n_points: int = N_POINTS) -> Exposure:
    """Return what the messages of a run say, at `n_points` times from its start to its last message.

    Raises
    ------
    LogError
        If the run logged no message.
    """
    messages = run.events("message")
    if not messages["time"].size:
        raise LogError(f"no message was delivered in {run.path}: there is no exposure to draw")
    n_nodes = _n_nodes(run, messages)
    between = np.maximum(messages["sender"], messages["receiver"]) < n_nodes
    if not between.any():
        raise LogError(
            f"in {run.path} nodes hear from the coordinator alone: they meet nobody, and nothing is to draw"
        )
    at = np.linspace(0.0, float(messages["time"].max()), n_points)
    meetings = first_meetings(*(messages[column][between] for column in ("time", "sender", "receiver")))
    met = fractions_met(*meetings, at=at, n_nodes=n_nodes)
    low, high = np.percentile(met, BAND, axis=1)
    views, view_size = _views(run, at, n_nodes)
    predicted = predicted_fraction_met(views, n_nodes=n_nodes, view_size=view_size)
    return Exposure(at, views, met.mean(axis=1), low, high, predicted)


def _n_nodes(run: Run, messages: Columns) -> int:
    """Return the number of nodes with data: the summary's, or one more than the highest id; no coordinator is one."""
    seen = 1 + max(int(messages["sender"].max()), int(messages["receiver"].max()))
    summary = run.summary or {}
    return (
        int(summary["coordinator"]) if "coordinator" in summary else max(seen, int(summary.get("nodes", 0)))
    )


def _views(run: Run, at: F64, n_nodes: int) -> tuple[F64, int]:
    """Return the mean number of views drawn by each time, and how many peers of each are sent to."""
    try:
        events = run.events("view")
    except LogError:  # a protocol without views logs none: nothing to predict from
        return np.full(at.size, np.nan), 0
    size = events["peers"].shape[1]
    drawn = np.searchsorted(np.sort(events["time"]), at, side="right") / n_nodes
    return drawn, min(size, int(run.scenario.get("protocol", {}).get("fanout", size)))


def _figure(shown: dict[str, Exposure]) -> Figure:
    alone = len(shown) == 1
    names = ["measured"] if alone else [style.short_name(name) for name in shown]
    margins = style.Margins(
        top=0.42 if alone else 0.25, right=0.25 + max(map(style.text_width_in, [*names, "predicted"]))
    )
    width = style.COLUMN_IN if alone else style.PAGE_IN
    figure, grid = style.panels(1, 1, width=width, panel_height=2.0, margins=margins)
    axes = grid[0][0]
    ends = []
    for place, (name, found) in enumerate(zip(names, shown.values(), strict=True)):
        look = style.line_style(place)
        ends.append(_line(axes, found, look, name=name, first_mark=10 * place))
        last = float(100 * found.predicted[-1])
        if alone and np.isfinite(last):
            ends.append(style.LineEnd(float(found.time[-1]), last, "predicted", PREDICTED))
    axes.set_xlim(0, 1.005 * max(float(found.time[-1]) for found in shown.values()) or 1)
    axes.set_ylim(0, min(101.0, 110 * max(float(found.high.max()) for found in shown.values())))
    axes.set_xlabel("virtual time (mean wake periods)")
    axes.set_ylabel("other nodes met (%)")
    parts = ("line: mean, band: 10–90 % of the nodes", "dots: predicted, 1 − exp(−PV/(N − 1))")
    axes.set_title(("\n" if alone else ", ").join(parts))
    style.label_ends(figure, axes, ends)
    return figure


def _line(axes: Axes, found: Exposure, look: style.LineStyle, *, name: str, first_mark: int) -> style.LineEnd:
    low, mean, high, predicted = (100 * y for y in (found.low, found.mean, found.high, found.predicted))
    axes.fill_between(found.time, low, high, color=look.color, alpha=0.2, linewidth=0)
    axes.plot(found.time, mean, markevery=(first_mark, 40), **look.kwargs())
    axes.plot(found.time, predicted, color=PREDICTED.color, linestyle=PREDICTED.dashes, linewidth=1.1)
    return style.LineEnd(float(found.time[-1]), float(mean[-1]), name, look)
