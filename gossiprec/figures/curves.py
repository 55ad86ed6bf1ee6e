"""The curves figure: attack accuracy and utility over rounds and over virtual time.

There is one column per clock. The rows are AAC (one row per relevance rule, momentum, community size or run that is
not a line of a panel), the upper bound, and the utility of the recommendations. The upper bound is the fraction of
the communities met so far. It is drawn thin next to each AAC curve if the scale of AAC holds it, and in full in a
separate row: late in a run it is often several times larger. Runs without attacks have only rows of utility.

References
----------
arXiv:2306.08929: AAC by round, its random bound K/N and its upper bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from gossiprec.figures import style
from gossiprec.figures.attack_selection import (
    EVERYTHING,
    FIELDS,
    AttackSelection,
    attack_curves,
    ranking_metrics,
    require_attacks,
    run_names,
    select_attacks,
)
from gossiprec.figures.curve_rows import Attacks, CurveRow, Utility, curve_rows
from gossiprec.figures.figure_files import Cell, write_figure
from gossiprec.runs import Run
from gossiprec.runs.reader import Columns

QUANTITIES = ("aac", "upper_bound", "random_bound")
CLOCKS = {"round": "round", "time": "virtual time (mean wake periods)"}


def draw(runs: Sequence[Run], out_stem: Path, *, selection: AttackSelection = EVERYTHING) -> list[Path]:
    """Draw AAC with its bounds, and utility, against both clocks; return the files written.

    Raises
    ------
    LogError
        If the runs hold neither attack nor utility, or no attack that was selected.
    """
    names = run_names(runs)
    attacks = {
        key: c for run, name in zip(runs, names, strict=True) for key, c in attack_curves(run, name).items()
    }
    utility = {
        (name, metric): points
        for run, name in zip(runs, names, strict=True)
        for metric, points in ranking_metrics(run).items()
    }
    if attacks or not utility or selection != EVERYTHING:
        require_attacks(runs, file="attacks.csv")
        attacks = {key: attacks[key] for key in select_attacks(list(attacks), selection)}
    header, rows = (*FIELDS, "quantity", "round", "time", "value"), curve_rows(attacks, utility)
    return write_figure(out_stem, header, _cells(attacks, utility), lambda: _figure(rows))


def _cells(attacks: Attacks, utility: Utility) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for key, points in attacks.items():
        for quantity in QUANTITIES:
            rows += [[*key.cells(), quantity, *point] for point in _points(points, quantity)]
    for (run, metric), points in utility.items():
        rows += [[run, "", "", "", "", metric, *point] for point in _points(points, "value")]
    return rows


def _points(points: Columns, quantity: str) -> list[list[Cell]]:
    columns = (points[name].tolist() for name in ("round", "time", quantity))
    return [list(point) for point in zip(*columns, strict=True)]


def _figure(rows: Sequence[CurveRow]) -> Figure:
    longest = max(style.text_width_in(curve.name) for row in rows for curve in row.curves)
    margins = style.Margins(top=0.25, right=0.3 + longest, between_rows=0.36)
    figure, grid = style.panel_grid(
        len(rows), len(CLOCKS), width=style.PAGE_IN, panel_height=1.35, margins=margins
    )
    for row, panels in zip(rows, grid, strict=True):
        for axes, clock in zip(panels, CLOCKS, strict=True):
            _panel(axes, row, clock)
            axes.set_xlim(0, max(row.last(clock) for row in rows) or 1)
            axes.tick_params(labelbottom=panels is grid[-1], labelleft=axes is panels[0])
        first, last = panels[0], panels[-1]
        first.set_title(row.heading)
        first.set_ylabel(f"{row.label} (%)")
        first.yaxis.set_label_coords(-0.4 / (first.get_position().width * style.PAGE_IN), 0.5)
        style.label_ends(figure, last, row.ends("time"))
    for axes, words in zip(grid[-1], CLOCKS.values(), strict=True):
        axes.set_xlabel(words)
    return figure


def _panel(axes: Axes, row: CurveRow, clock: str) -> None:
    for curve in row.faint:
        axes.plot(*curve.drawn(clock), color=curve.style.color, linestyle=style.THIN_DOTS, linewidth=0.9)
    for place, curve in enumerate(row.curves):
        x, y = curve.drawn(clock)
        step = max(1, x.size // 6)
        axes.plot(x, y, markevery=(place * step // len(row.curves), step), **curve.style.kwargs())
    axes.set_ylim(0, row.top)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10]))
