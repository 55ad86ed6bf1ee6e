"""Utility against privacy: every combination of a study as a point, with the Pareto-optimal ones marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from gossiprec.base.errors import LogError
from gossiprec.figures import style
from gossiprec.figures.figure_files import Cell
from gossiprec.figures.study.estimates import (
    AT_MOST,
    MeanEstimate,
    collect_levels,
    describe_intervals,
    is_pareto_optimal,
    mean_with_interval,
)
from gossiprec.figures.study.panels import (
    Drawing,
    StudyFigureOptions,
    check_panel_count,
    picture_estimate,
    requested_quantities,
)
from gossiprec.figures.study.quantity import Quantity
from gossiprec.figures.study.table_reader import Point, PointNames, StudyTable, label_cells
from gossiprec.measures.direction import better_sign
from gossiprec.measures.selectors import FILTERS

MOST_PANELS = 4
PANEL_IN = 2.3
NEAR = 0.025
"""Distance, as a fraction of the panel, up to which points share a label."""
MOST_COLOURS = 7
SHARE_MARGIN = 2.0
"""Margin beyond 0 and 100 %, for marks at the ends."""
SAME = 1e-9
MOST_NAMED = 14
"""Number of points that are named in the picture; the csv names all."""


@dataclass(frozen=True)
class ParetoPoint:
    """One combination: its position, and whether another one beats it."""

    point: Point
    utility: MeanEstimate
    attack: MeanEstimate
    is_unbeaten: bool

    def in_units(self, utility: Quantity, attack: Quantity) -> ParetoPoint:
        """Return the point in the units of pictures."""
        both = picture_estimate(utility, self.utility), picture_estimate(attack, self.attack)
        return ParetoPoint(self.point, *both, self.is_unbeaten)


def pareto_front(table: StudyTable, choice: StudyFigureOptions) -> Drawing:
    """Return the table of the figure, and the function that draws it."""
    utility = utility_quantity(table, choice.against)
    attacks = requested_quantities(table, choice)
    check_panel_count(len(attacks), MOST_PANELS, f", such as --y '{attacks[0].request_text()}'")
    found = {attack: pareto_points(table, utility, attack) for attack in attacks}
    header = ["measure", *FILTERS, *table.axes, "utility", "n", "utility_mean", "utility_low", "utility_high"]
    header += ["mean", "low", "high", "unbeaten"]
    rows: list[list[Cell]] = []
    for attack, spots in found.items():
        for spot in spots:
            u, a = spot.utility, spot.attack
            about = [*attack.cells(), *label_cells(spot.point), utility.name, a.n]
            rows.append([*about, u.mean, u.low, u.high, a.mean, a.low, a.high, int(spot.is_unbeaten)])
    few = (name for name in table.varying if len(table.axis_values(name)) <= MOST_COLOURS)
    by = choice.by if choice.by is not None else next(few, None)
    return header, rows, lambda: _figure(table, utility, found, by)


def utility_quantity(table: StudyTable, name: str | None = None) -> Quantity:
    """Return the requested measure of recommendation quality, or the first one.

    Raises
    ------
    LogError
        If there is no such measure.
    """
    if name is not None:
        return table.find_quantities(name)[0]
    found = next((quantity for quantity in table.values if "@" in quantity.name), None)
    if found is None:
        raise LogError(f"{table.path} has no metric of recommendation quality; pass a measure with --against")
    return found


def pareto_points(table: StudyTable, utility: Quantity, attack: Quantity) -> list[ParetoPoint]:
    """Return every combination that has both numbers, the worst utility first.

    Shares differ if they do so by a tenth of a percent, as tables print them: less cannot be seen in a picture.
    """
    both = [point for point in table.values[attack] if point in table.values[utility]]
    if not both:
        raise LogError(
            f"no combination has both {utility.name_with_labels()} and {attack.name_with_labels()}"
        )
    estimates = [
        [mean_with_interval(table.values[of][point].values()) for of in (utility, attack)] for point in both
    ]
    up, down = front_signs(utility, attack)
    best = is_pareto_optimal([
        (up * _shown(utility, u.mean), down * _shown(attack, a.mean)) for u, a in estimates
    ])  # fmt: skip
    spots = [
        ParetoPoint(point, u, a, is_best)
        for point, (u, a), is_best in zip(both, estimates, best, strict=True)
    ]
    return sorted(spots, key=lambda spot: (up * spot.utility.mean, down * spot.attack.mean))


def front_signs(utility: Quantity, attack: Quantity) -> tuple[int, int]:
    """Return the factors that make a higher utility and a lower success of an attack better.

    Without a known direction, a higher utility and a lower success are better.
    """
    return better_sign(utility.name) or 1, -better_sign(attack.name) or 1


def _shown(quantity: Quantity, value: float) -> float:
    """Return a value in the precision of a picture."""
    return round(value, 3) if quantity.is_share else value


def _figure(
    table: StudyTable, utility: Quantity, found: dict[Quantity, list[ParetoPoint]], by: str | None
) -> Figure:
    names = table.name_points(spot.point for spots in found.values() for spot in spots)
    longest = max(style.text_width_in(names.of[s.point]) for spots in found.values() for s in _named(spots))
    caption = _caption(table, found, names)
    below = 0.45 + style.caption_height(caption, style.PAGE_IN)
    margins = style.Margins(left=0.7, top=0.42, right=0.35 + longest, bottom=below, between_rows=0.9)
    figure, grid = style.panel_grid(
        len(found), 1, width=style.PAGE_IN, panel_height=PANEL_IN, margins=margins
    )
    for (attack, spots), (axes,) in zip(found.items(), grid, strict=True):
        _points(axes, table, [spot.in_units(utility, attack) for spot in spots], by)
    _share_scales(grid, utility, list(found))
    for (attack, spots), (axes,) in zip(found.items(), grid, strict=True):
        scaled = [spot.in_units(utility, attack) for spot in spots]
        _name_best(figure, axes, table, scaled, by, names)
        up, down = front_signs(utility, attack)
        axes.set_xlabel(f"{utility.unit} ({'higher' if up > 0 else 'lower'} is better)")
        better = "lower" if down > 0 else "higher"
        axes.set_ylabel(style.wrap_axis_label(attack.unit, PANEL_IN) + f"\n({better} is better)")
        levels = "; ".join(_levels(axes, table, attack, scaled))
        axes.set_title("\n".join(style.wrap_title(f"{table.title(attack)}{levels and '; '}{levels}", 4.5)))
    style.add_caption(figure, caption)
    return figure


def _named(spots: Sequence[ParetoPoint]) -> list[ParetoPoint]:
    """Return the points that are named: first the Pareto-optimal ones with the best utility."""
    best = [spot for spot in spots if spot.is_unbeaten][::-1]
    others = [spot for spot in spots if not spot.is_unbeaten][::-1]
    return [*best, *others][:MOST_NAMED]


def _caption(table: StudyTable, found: dict[Quantity, list[ParetoPoint]], names: PointNames) -> str:
    """Return the caption, in sentences."""
    text = "Filled points are Pareto optimal: no other combination is better in both. "
    text += describe_intervals((s.attack.n for spots in found.values() for s in spots), "Bars are")
    text += f" Names are values of {names.axes}." if names.axes else ""
    if any(_reaches_bound(table, attack, spot) for attack, spots in found.items() for spot in spots):
        text += " An attack on its upper bound finds every member of the community that it has met; a bound"
        text += " that is not drawn is above the axis."
    left = max(len(spots) for spots in found.values()) - MOST_NAMED
    return text + (f" The csv file names {left} more points." if left > 0 else "")


def _reaches_bound(table: StudyTable, attack: Quantity, spot: ParetoPoint) -> bool:
    bounds = collect_levels(table, attack).get(AT_MOST, {}).get(spot.point, {})
    return bool(bounds) and spot.attack.mean > 0.99 * float(np.mean([*bounds.values()]))


def _share_scales(grid: Sequence[Sequence[Axes]], utility: Quantity, attacks: Sequence[Quantity]) -> None:
    """Give all panels one scale of utility, and the panels of a measure one scale of it."""
    panels = [axes for (axes,) in grid]
    for axes in panels:
        axes.margins(0.08)
    across = _hull([axes.get_xlim() for axes in panels], utility)
    for attack, axes in zip(attacks, panels, strict=True):
        like = [
            one.get_ylim() for other, one in zip(attacks, panels, strict=True) if other.name == attack.name
        ]
        axes.set_xlim(*across)
        axes.set_ylim(*_hull(like, attack))


def _hull(limits: Sequence[tuple[float, float]], quantity: Quantity) -> tuple[float, float]:
    """Return the ends of all limits; intervals of shares may exceed 0 to 100 %, but their scale does not."""
    low, high = min(low for low, _ in limits), max(high for _, high in limits)
    return (max(low, -SHARE_MARGIN), min(high, 100.0 + SHARE_MARGIN)) if quantity.is_share else (low, high)


def _look(table: StudyTable, spot: ParetoPoint, by: str | None) -> style.LineStyle:
    look = style.line_style(table.axis_values(by).index(spot.point[table.axis_index(by)]) if by else 0)
    return replace(look, is_open=not spot.is_unbeaten)


def _points(axes: Axes, table: StudyTable, spots: Sequence[ParetoPoint], by: str | None) -> None:
    for spot in spots:
        look = _look(table, spot, by)
        u, a = spot.utility, spot.attack
        axes.plot([u.low, u.high], [a.mean, a.mean], color=look.color, linewidth=0.7, alpha=0.6)
        axes.plot([u.mean, u.mean], [a.low, a.high], color=look.color, linewidth=0.7, alpha=0.6)
        marks = {
            "linestyle": "none",
            "markersize": 5.0,
            "markeredgecolor": look.color,
            "markeredgewidth": 1.0,
        }
        axes.plot(u.mean, a.mean, **{**look.kwargs(), **marks})
    best = [spot for spot in spots if spot.is_unbeaten]
    axes.step(
        [s.utility.mean for s in best], [s.attack.mean for s in best],
        where="pre", color=style.GREY, linewidth=0.8, zorder=0,
    )  # fmt: skip


def _levels(axes: Axes, table: StudyTable, attack: Quantity, spots: Sequence[ParetoPoint]) -> list[str]:
    """Draw the reference levels of an attack that are on the scale; return their descriptions."""
    descriptions, (bottom, top) = [], axes.get_ylim()
    for level, values in collect_levels(table, attack).items():
        at = [
            (spot.utility.mean, attack.picture_factor * float(np.mean([*values[spot.point].values()])))
            for spot in spots
            if spot.point in values
        ]
        seen, heights = [(x, y) for x, y in at if bottom <= y <= top], [y for _, y in at]
        if not seen:
            continue
        if max(heights) - min(heights) < SAME:
            axes.axhline(heights[0], color=style.GREY, linewidth=1.0, linestyle=":", zorder=0)
            _name_level(axes, level.short, heights[0], spots)
        else:
            look: dict[str, Any] = {"color": style.GREY, "markersize": 14, "markeredgewidth": 1.3}
            axes.plot(*zip(*seen, strict=True), "_", zorder=1.5, **look)
            descriptions.append(f"grey dashes: {level.short}")
    return descriptions


def _name_level(axes: Axes, name: str, height: float, spots: Sequence[ParetoPoint]) -> None:
    """Name a level on its line, at the end that is further from the points."""
    left, right = axes.get_xlim()
    near = [
        spot.utility.mean for spot in spots if abs(spot.attack.mean - height) < 0.15 * np.ptp(axes.get_ylim())
    ]
    is_left = not near or min(near) - left > right - max(near)
    at, align = (0.01, "left") if is_left else (0.99, "right")
    axes.text(at, height, name, transform=axes.get_yaxis_transform(), ha=align, va="bottom", color=style.GREY)


def _name_best(
    figure: Figure,
    axes: Axes,
    table: StudyTable,
    spots: Sequence[ParetoPoint],
    by: str | None,
    names: PointNames,
) -> None:
    """Number the points, the highest first, and name the numbers at the right edge of the panel."""
    named = sorted(_named(spots), key=lambda spot: round(spot.attack.mean, 6))
    numbers = range(len(named), 0, -1)
    ends = [
        style.LineEnd(
            spot.utility.mean,
            round(spot.attack.mean, 6),
            f"{n}  {names.of[spot.point]}",
            _look(table, spot, by),
        )
        for n, spot in zip(numbers, named, strict=True)
    ]
    style.label_ends(figure, axes, ends, is_led=False)
    groups: list[tuple[tuple[float, float], list[int]]] = []
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    for n, spot in zip(numbers, named, strict=True):
        at = (spot.utility.mean - left) / (right - left), (spot.attack.mean - low) / (high - low)
        near = (g for (x, y), g in groups if abs(x - at[0]) < NEAR and abs(y - at[1]) < NEAR)
        group = next(near, None)
        if group is None:
            groups.append((at, [n]))
        else:
            group.append(n)
    for at, group in groups:
        side = -1 if at[0] > 0.9 else 1
        axes.annotate(
            _ranges(group[::-1]), at, (3.5 * side, 3.5), "axes fraction", "offset points",
            ha="left" if side > 0 else "right", path_effects=[withStroke(linewidth=2, foreground="white")],
        )  # fmt: skip


def _ranges(numbers: Sequence[int]) -> str:
    """Return ascending numbers as text, such as ``1–3, 7``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}" if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)
