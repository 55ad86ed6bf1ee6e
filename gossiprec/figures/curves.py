"""The curves figure: attack accuracy and utility over rounds and over virtual time.

There is one column per clock. The rows are AAC (one row per relevance rule, momentum, community size or run that is
not a line of a panel), the upper bound, and the utility of the recommendations. The upper bound is the fraction of
the communities met so far. It is drawn thin next to each AAC curve if the scale of AAC holds it, and in full in a
separate row: late in a run it is often several times larger. Guesses at items have a row for each attack that ranks
no user by them. Runs without attacks have only rows of utility.

References
----------
arXiv:2306.08929: AAC by round, its random bound K/N and its upper bound.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from gossiprec.base.arrays import F64
from gossiprec.figures import style
from gossiprec.figures.attack_selection import (
    EVERYTHING,
    FIELDS,
    AttackKey,
    AttackSelection,
    GuessKey,
    PanelLayout,
    arrange_panels,
    attack_curves,
    group_keys,
    guess_curves,
    ranking_metrics,
    require_attacks,
    run_names,
    select_attacks,
)
from gossiprec.figures.figure_files import Cell, write_figure
from gossiprec.measures.selectors import split_baseline_name, unlisted_labels
from gossiprec.runs import Run
from gossiprec.runs.reader import Columns

Attacks = dict[AttackKey, Columns]
Guesses = dict[GuessKey, Columns]
Utility = dict[tuple[str, str], Columns]
"""Columns time, round and value, by run and metric."""

UPPER_BOUND_DEPENDS_ON = ("run", "observer", "community_size")
WHOLE = 102.0
"""Top of a scale that shows the full 100 %."""

_RANDOM = style.LineStyle(style.GREY, ":", "")
_COMMON = style.LineStyle("black", "-", "")


@dataclass(frozen=True)
class RunCurve:
    """One line: its name, look, and values (fractions) by round and by time."""

    name: str
    style: style.LineStyle
    points: Columns
    quantity: str

    def points_by_clock(self, clock: str) -> tuple[F64, F64]:
        """Return the known points in the order of a clock, values in percent."""
        x = np.asarray(self.points[clock], dtype=np.float64)
        y = 100 * np.asarray(self.points[self.quantity], dtype=np.float64)
        order = np.argsort(x, kind="stable")
        known = order[~np.isnan(y[order])]
        return x[known], y[known]

    @property
    def highest_percent(self) -> float:
        """The largest value in percent."""
        return float(self.points_by_clock("time")[1].max(initial=0.0))


@dataclass(frozen=True)
class CurveRow:
    """One quantity over both clocks, and `faint` curves, which are drawn if the scale holds them."""

    title: str
    label: str
    curves: list[RunCurve]
    faint: list[RunCurve] = field(default_factory=list)
    top: float = WHOLE

    @property
    def highest_percent(self) -> float:
        """The largest value of its curves in percent."""
        return max((curve.highest_percent for curve in self.curves), default=0.0)

    @property
    def heading(self) -> str:
        """The title, with an explanation of the thin dashes if any are inside the scale."""
        return self.title + (" (thin dashes: upper bound)" if self.faint else "")

    def last_clock_value(self, clock: str) -> float:
        """The last round or time of its curves."""
        return max((float(x[-1]) for x, _ in self._drawn(clock) if x.size), default=0.0)

    def line_ends(self, clock: str) -> list[style.LineEnd]:
        """Return the end of each curve, for its label."""
        drawn = zip(self.curves, self._drawn(clock), strict=True)
        return [style.LineEnd(float(x[-1]), float(y[-1]), c.name, c.style) for c, (x, y) in drawn if x.size]

    def _drawn(self, clock: str) -> list[tuple[F64, F64]]:
        return [curve.points_by_clock(clock) for curve in self.curves]


def curve_rows(attacks: Attacks, utility: Utility, guesses: Guesses | None = None) -> list[CurveRow]:
    """Return the rows of the figure from top to bottom."""
    layout = arrange_panels(list(attacks), columns=False)
    lines = list(dict.fromkeys(getattr(key, layout.line) for key in attacks))
    return [
        *_same_scale(_accuracy_rows(attacks, layout, lines)),
        *_bound_rows(attacks, layout, lines),
        *_guess_rows(guesses or {}),
        *_same_scale(_utility_rows(utility, layout, lines)),
    ]


def _same_scale(rows: list[CurveRow]) -> list[CurveRow]:
    """Give all rows of a quantity the same scale, a little above the largest value."""
    highest = max((row.highest_percent for row in rows), default=0.0)
    top = min(1.08 * highest, WHOLE) or WHOLE
    return [replace(row, top=top, faint=[c for c in row.faint if c.highest_percent <= top]) for row in rows]


def _accuracy_rows(attacks: Attacks, layout: PanelLayout, lines: list[object]) -> list[CurveRow]:
    rows = []
    for keys in group_keys(list(attacks), layout.down):
        curves, faint = [], []
        for key in keys:
            look = style.line_style(lines.index(getattr(key, layout.line)))
            curves.append(RunCurve(_name(key, layout.line), look, attacks[key], "aac"))
            faint.append(RunCurve("", look, attacks[key], "upper_bound"))
        random = [
            RunCurve("guessing", _RANDOM, attacks[key], "random_bound")
            for key in _one_per(keys, "community_size")
        ]
        heading = f"Average attack accuracy, {layout.title(keys[0])}"
        rows.append(CurveRow(heading, "accuracy", curves + random, faint))
    return rows


def _name(key: AttackKey, field: str) -> str:
    return style.short_name(key.field_text(field))


def _one_per(keys: Sequence[AttackKey], *names: str) -> list[AttackKey]:
    return list({tuple(getattr(key, name) for name in names): key for key in reversed(keys)}.values())[::-1]


def _bound_rows(attacks: Attacks, layout: PanelLayout, lines: list[object]) -> list[CurveRow]:
    named = tuple(name for name in layout.down if name in UPPER_BOUND_DEPENDS_ON)
    is_line_label = layout.line in UPPER_BOUND_DEPENDS_ON
    rows = []
    for keys in group_keys(list(attacks), named):
        curves = [
            RunCurve(
                _name(key, layout.line if is_line_label else "observer"),
                style.line_style(lines.index(getattr(key, layout.line))) if is_line_label else _COMMON,
                attacks[key],
                "upper_bound",
            )
            for key in _one_per(keys, *UPPER_BOUND_DEPENDS_ON)
        ]
        heading = ", ".join(
            ["Upper bound (fraction of the community met)", *(keys[0].field_text(name) for name in named)]
        )
        rows.append(CurveRow(heading, "met", curves))
    return rows


def _guess_rows(guesses: Guesses) -> list[CurveRow]:
    """Return a row for each attack and run, with a line for each measure."""
    several = len({run for run, *_ in guesses}) > 1
    rows: dict[tuple[str, str], list[GuessKey]] = {}
    for key in guesses:
        rows.setdefault((key[0], key[2]), []).append(key)
    found = []
    for (run, labels), keys in rows.items():
        words = [f"{name} {value}" for name, value in json.loads(labels).items()]
        curves = [
            RunCurve(
                key[1].partition("_")[2].replace("_", " "), style.line_style(place), guesses[key], "value"
            )
            for place, key in enumerate(keys)
        ]
        found.append(
            CurveRow(", ".join(["Guesses of items", *([run] if several else []), *words]), "guesses", curves)
        )
    return found


def _utility_rows(utility: Utility, layout: PanelLayout, lines: list[object]) -> list[CurveRow]:
    runs = list(dict.fromkeys([*(lines if layout.line == "run" else ()), *(run for run, _ in utility)]))
    own = [key for key in utility if not split_baseline_name(key[1])[1]]
    metrics = list(dict.fromkeys(metric for _, metric in own))
    if len(runs) < 2:
        looks = {metric: style.line_style(len(lines) + place) for place, metric in enumerate(metrics)}
        curves = [
            RunCurve(metric.upper(), looks[metric], utility[run, metric], "value") for run, metric in own
        ]
        references = [curve for metric in metrics for curve in _references(utility, metric, looks[metric])]
        return [CurveRow("Recommendation quality", "utility", curves + references)] if curves else []
    first = 0 if layout.line == "run" else len(lines)
    looks_by_run = {run: style.line_style(first + place) for place, run in enumerate(runs)}
    return [
        CurveRow(
            f"Recommendation quality, {metric.upper()}",
            metric.upper(),
            [
                RunCurve(style.short_name(run), looks_by_run[run], utility[run, name], "value")
                for run, name in own
                if name == metric
            ]
            + _references(utility, metric, _RANDOM),
        )
        for metric in metrics
    ]


def _references(utility: Utility, metric: str, look: style.LineStyle) -> list[RunCurve]:
    """Return horizontal lines for a metric's values under reference orders of the items, each value once."""
    found: dict[tuple[str, float], Columns] = {}
    for (_, name), points in utility.items():
        of, order = split_baseline_name(name)
        if order and of == metric and len(points["value"]):
            found.setdefault((order, float(points["value"][-1])), points)
    level = style.LineStyle(look.color, style.THIN_DOTS, "")
    return [RunCurve(order, level, points, "value") for (order, _), points in found.items()]


QUANTITIES = ("aac", "upper_bound", "random_bound")
CLOCKS = {"round": "round", "time": "virtual time (mean wake periods)"}


def draw(runs: Sequence[Run], out_stem: Path, *, selection: AttackSelection = EVERYTHING) -> list[Path]:
    """Draw AAC with its bounds, guesses at items, and utility, against both clocks; return the files written.

    Raises
    ------
    LogError
        If the runs hold neither attack nor utility, or no attack that was selected.
    """
    attacks: Attacks = {}
    utility: Utility = {}
    guesses: Guesses = {}
    by_name = dict(zip(run_names(runs), runs, strict=True))
    for name, run in by_name.items():
        attacks |= attack_curves(run, name)
        utility |= {(name, metric): points for metric, points in ranking_metrics(run).items()}
    for name, run in by_name.items():
        guesses |= guess_curves(run, name, attacks, selection)
    if guesses and not any(map(selection.accepts, attacks)):
        attacks = {}
    elif attacks or not utility or selection != EVERYTHING:
        require_attacks(runs, file="attacks.csv")
        attacks = {key: attacks[key] for key in select_attacks(list(attacks), selection)}
    header, rows = (*FIELDS, "quantity", "round", "time", "value"), curve_rows(attacks, utility, guesses)
    return write_figure(out_stem, header, _cells(attacks, utility, guesses), lambda: _figure(rows))


def _cells(attacks: Attacks, utility: Utility, guesses: Guesses) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for key, points in attacks.items():
        for quantity in QUANTITIES:
            rows += [[*key.cells(), quantity, *point] for point in _points(points, quantity)]
    for (run, measure, text), points in guesses.items():
        labels = json.loads(text)
        others = ",".join(f"{name}={value}" for name, value in unlisted_labels(labels).items())
        about: list[Cell] = [run, *(labels.get(name, "") for name in FIELDS[1:])]
        rows += [
            [*about, f"{measure}[{others}]" if others else measure, *point]
            for point in _points(points, "value")
        ]
    for (run, metric), points in utility.items():
        rows += [[run, "", "", "", "", metric, *point] for point in _points(points, "value")]
    return rows


def _points(points: Columns, quantity: str) -> list[list[Cell]]:
    columns = (points[name].tolist() for name in ("round", "time", quantity))
    return [list(point) for point in zip(*columns, strict=True)]


SAME_CLOCK = 0.05
"""Relative difference in length of rounds up to which curves of several runs look the same over both clocks."""


def _clocks(rows: Sequence[CurveRow]) -> dict[str, str]:
    """Return the clocks that show different things: both only if rounds of the runs differ in length.

    One clock is the number of the round if a round takes a time of one, as in FedAvg, and otherwise the time.
    """
    ends = [
        (float(x[-1]), float(t[-1]))
        for row in rows
        for curve in row.curves
        for x, t in [(curve.points_by_clock("round")[0], curve.points_by_clock("time")[0])]
        if x.size and x[-1] and t[-1]
    ]
    lengths = [time / round_ for round_, time in ends]
    if lengths and max(lengths) > (1 + SAME_CLOCK) * min(lengths):
        return CLOCKS
    clock = "round" if all(abs(length - 1) < SAME_CLOCK / 10 for length in lengths) else "time"
    return {clock: CLOCKS[clock]}


def _figure(rows: Sequence[CurveRow]) -> Figure:
    clocks = _clocks(rows)
    longest = max(style.text_width_in(curve.name) for row in rows for curve in row.curves)
    margins = style.Margins(top=0.25, right=0.3 + longest, between_rows=0.36)
    shape = len(rows), len(clocks)
    figure, grid = style.panel_grid(*shape, width=style.PAGE_IN, panel_height=1.35, margins=margins)
    for row, panels in zip(rows, grid, strict=True):
        for axes, clock in zip(panels, clocks, strict=True):
            _panel(axes, row, clock)
            axes.set_xlim(
                0, 1.02 * max(row.last_clock_value(clock) for row in rows) or 1
            )  # room for the last mark
            axes.tick_params(labelbottom=panels is grid[-1], labelleft=axes is panels[0])
        first, last = panels[0], panels[-1]
        first.set_title(row.heading)
        first.set_ylabel(f"{row.label} (%)")
        first.yaxis.set_label_coords(-0.4 / (first.get_position().width * figure.get_size_inches()[0]), 0.5)
        style.label_ends(figure, last, row.line_ends([*clocks][-1]))
    for axes, words in zip(grid[-1], clocks.values(), strict=True):
        axes.set_xlabel(words)
    return figure


def _panel(axes: Axes, row: CurveRow, clock: str) -> None:
    for curve in row.faint:
        axes.plot(
            *curve.points_by_clock(clock),
            color=curve.style.color,
            linestyle=style.BOUND_DASHES,
            linewidth=0.8,
        )
    for place, curve in enumerate(row.curves):
        x, y = curve.points_by_clock(clock)
        step = max(1, x.size // 6)
        axes.plot(x, y, markevery=(place * step // len(row.curves), step), **curve.style.kwargs())
    axes.set_ylim(0, row.top)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10]))
