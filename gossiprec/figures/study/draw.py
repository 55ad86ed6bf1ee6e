"""Figures of a study: lines with bands over seeds, heat maps, utility against privacy, differences to the baseline.

They read only the folder of a study: ``table.parquet`` and ``study.json``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from gossiprec.base.errors import LogError
from gossiprec.figures import style
from gossiprec.figures.figure_files import Cell, write_figure
from gossiprec.figures.study.estimates import (
    GUESSING,
    MeanEstimate,
    ReferenceLevel,
    collect_levels,
    describe_intervals,
    describe_seeds,
    paired_difference,
)
from gossiprec.figures.study.panels import (
    LOG_TIMES,
    MEASURE,
    MOST_PANELS,
    MOST_TICKS,
    SCALES,
    TIMES,
    Drawing,
    Places,
    RowLabels,
    SeriesPanel,
    StudyFigureOptions,
    StudyPanel,
    StudySeries,
    check_panel_count,
    draw_rows,
    estimate_rows,
    fit_margins,
    format_counts,
    label_positions,
    legend_handles,
    level_curves,
    level_handle,
    make_panels,
    make_series_panels,
    panel_title,
    requested_quantities,
    scale_x,
    select_axes,
    series_styles,
    shared_limits,
    times_guessing,
)
from gossiprec.figures.study.pareto_front import pareto_front
from gossiprec.figures.study.quantity import Label, Quantity, format_label
from gossiprec.figures.study.table_reader import Point, StudyTable, is_numeric, label_cells, read_study
from gossiprec.measures.direction import better_sign
from gossiprec.measures.selectors import FILTERS

PANEL_IN = 1.75
NARROW = 0.015
"""Width of a band, as a fraction of the scale, below which it is hidden by its line."""


def lines(table: StudyTable, choice: StudyFigureOptions) -> Drawing:
    """Return the table of the figure, and the function that draws it."""
    x, *others = select_axes(table, choice, needs=1, by_measure=True)
    if choice.x is None and choice.by is None and others:  # lines run along numbers rather than words
        numeric = {name: is_numeric(table.axis_values(name)) for name in (x, others[0])}
        if numeric[others[0]] and not numeric[x]:
            x, others = others[0], [x]
    quantities = requested_quantities(table, choice)
    varying = table.varying_among(point for quantity in quantities for point in table.values[quantity])
    by = [] if choice.by == MEASURE else [name for name in others if name in varying]
    panels = make_panels(table, quantities, [x, *by])
    lines_by = choice.by if choice.by == MEASURE else by[0] if by else None
    if choice.scale not in SCALES:
        raise LogError(f"--scale: found {choice.scale!r}; expected one of {', '.join(SCALES)}")
    scale = choice.scale if lines_by != MEASURE else "percent"
    parts = [times_guessing(part, scale) for part in make_series_panels(table, panels, x, lines_by)]
    return *estimate_rows(table, panels), lambda: _figure(table, parts, x)


def _figure(table: StudyTable, parts: Sequence[SeriesPanel], x: str) -> Figure:
    labels = [
        label for label in table.axis_values(x) if any(label in s.points for p in parts for s in p.series)
    ]
    counts = [estimate.n for part in parts for estimate in part.estimates]
    of_guessing = any(TIMES in part.unit for part in parts)
    about = " What guessing finds varies, so values are multiples of it." if of_guessing else ""
    if not is_numeric(labels):
        rows = RowLabels({label: format_label(label) for label in labels}, table.axis_label(x))
        caption = describe_intervals(counts, "Points are means over seeds, and bars are") + about
        return draw_rows(parts, rows, shared_limits(parts), caption)
    caption = describe_intervals(counts, "Lines are means over seeds, and bands are") + about
    return _over_numbers(parts, labels, table.axis_label(x), caption)


def _over_numbers(parts: Sequence[SeriesPanel], labels: Sequence[Label], x: str, caption: str) -> Figure:
    looks, logarithmic = series_styles(parts), _log_scales(parts)
    scales = shared_limits(parts) | logarithmic
    bands = [
        _height(e, scales[part.unit], is_log=part.unit in logarithmic)
        for part in parts
        for e in part.estimates
        if e.n > 1
    ]
    if bands and max(bands) < NARROW:
        caption += " The bands are narrower than the lines."
    if any(curve.series and curve.level.mark for part in parts for curve in level_curves(part)):
        caption += " A line with open marks is the upper bound of the line with its colour."
    beside = (style.TITLE_LINE_IN + 0.12) * max(
        style.wrap_axis_label(p.unit, PANEL_IN).count("\n") for p in parts
    )
    base = style.Margins(left=style.Margins().left + beside, between_columns=0.62 + beside)
    n_columns = _columns(len(parts), labels, base)
    width = style.PAGE_IN if n_columns > 1 else style.COLUMN_IN
    handles = legend_handles(parts, looks, in_rows=False, scales=scales)
    legend = style.Legend(handles, width - base.left)
    inches = base.panel_width(width, n_columns)
    titles = [panel_title(part, scales[part.unit], inches) for part in parts]
    x = style.wrap_axis_label(x, inches + 0.2)
    margins = fit_margins(base, titles, [x], legend, style.caption_height(caption, width))
    figure, cells = style.panel_list(
        len(parts), n_columns, width=width, panel_height=PANEL_IN, margins=margins
    )
    for axes, part, title in zip(cells, parts, titles, strict=True):
        scale_x(axes, labels, x)
        _panel(axes, part, looks)
        if part.unit in logarithmic:
            _set_log(axes)
        axes.set_ylim(*scales[part.unit])
        axes.set_ylabel(style.wrap_axis_label(part.unit, PANEL_IN))
        format_counts(axes.yaxis, scales[part.unit][1], part.unit)
        axes.set_title(title, pad=5)
    legend.draw(figure, left=margins.left / width)
    style.add_caption(figure, caption)
    return figure


def _height(band: MeanEstimate, scale: tuple[float, float], *, is_log: bool) -> float:
    """Return the height of a band as a fraction of its axis."""
    ends = [band.low, band.high, *scale]
    low, high, bottom, top = map(_log, ends) if is_log else ends
    return (high - low) / (top - bottom)


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


def _log_scales(parts: Sequence[SeriesPanel]) -> dict[str, tuple[float, float]]:
    """Return the ends of logarithmic scales, of multiples of guessing that differ much, with room for all levels."""
    found = {}
    for unit in {part.unit for part in parts if TIMES in part.unit}:
        mine = [part for part in parts if part.unit == unit]
        means = [estimate.mean for part in mine for estimate in part.estimates]
        if min(means) > 0 and max(means) >= LOG_TIMES * min(means):
            ends = [e.mean if e.n < 2 else e.high for part in mine for e in part.estimates]
            levels = [
                value for part in mine for curve in level_curves(part) for value in curve.places.values()
            ]
            lowest = min(value for value in (*means, *levels, 1.0) if value > 0)
            found[unit] = 0.85 * lowest, 1.2 * max(*ends, *levels)
    return found


def _set_log(axes: Axes) -> None:
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _columns(n_panels: int, labels: Sequence[Label], margins: style.Margins) -> int:
    """Return the number of panels per row: as many as fill their rows, if there is room for their ticks."""
    ticks = sum(0.06 + style.text_width_in(format_label(label)) for label in labels[:MOST_TICKS])
    fits = ticks <= margins.panel_width(style.PAGE_IN, 3)
    return min(n_panels, 3 if fits and n_panels not in (2, 4) else 2)


def _panel(axes: Axes, part: SeriesPanel, looks: Mapping[str, style.LineStyle]) -> None:
    for series in part.series:
        at = label_positions(list(series.points))
        _line(axes, sorted((at[label], e) for label, e in series.points.items()), looks[series.name])
    for curve in level_curves(part):
        at = label_positions(list(curve.places))
        points = sorted((at[label], level) for label, level in curve.places.items())
        color = style.GREY if curve.series is None else looks[curve.series].color
        look: dict[str, Any] = level_handle(curve.level, is_line=True)
        if (
            curve.series and curve.level.mark
        ):  # the bounds of several series differ without their colours, too
            look |= {"marker": looks[curve.series].marker, "markersize": 3.5, "markerfacecolor": "white"}
        axes.plot(*zip(*points, strict=True), color=color, **look)


def _line(axes: Axes, points: Sequence[tuple[float, MeanEstimate]], look: style.LineStyle) -> None:
    """Draw a line with its band."""
    xs, estimates = [at for at, _ in points], [e for _, e in points]
    means, low, high = ([getattr(e, name) for e in estimates] for name in ("mean", "low", "high"))
    axes.fill_between(xs, low, high, color=look.color, alpha=0.18, lw=0)
    axes.plot(xs, means, **look.kwargs())


CELL_IN = 0.34
DARK = 0.55
"""Position on the colour scale from which numbers are black, since the scale ends in a light yellow."""


def heat_map(table: StudyTable, choice: StudyFigureOptions) -> Drawing:
    """Return the table of the figure, and the function that draws it."""
    x, by = select_axes(table, choice, needs=2)
    panels = make_panels(table, requested_quantities(table, choice), [x, by])
    return *estimate_rows(table, panels), lambda: _heat_figure(table, panels, x, by)


def _heat_figure(table: StudyTable, panels: Sequence[StudyPanel], x: str, by: str) -> Figure:
    words = [style.short_name(format_label(label)) for label in table.axis_values(by)]
    margins = style.Margins(
        left=0.45 + max(map(style.text_width_in, words)), right=0.25, top=0.42, between_rows=0.85
    )
    height = max(2, len(words)) * CELL_IN
    titles = max(style.text_width_in(_title(panel)) for panel in panels)
    columns = [style.short_name(format_label(label)) for label in table.axis_values(x)]
    cell = max(0.62, 0.12 + max(map(style.text_width_in, columns)))
    width = margins.left + margins.right + max(2.6, cell * len(columns), titles)
    is_crowded = width > style.PAGE_IN and cell > 0.62
    if is_crowded:  # tilted labels take room below
        below = 0.5 * max(map(style.text_width_in, columns))
        margins = replace(margins, bottom=margins.bottom + below, between_rows=margins.between_rows + below)
    figure, grid = style.panel_grid(
        len(panels), 1, width=min(width, style.PAGE_IN), panel_height=height, margins=margins
    )
    scales = _scales(panels)
    for panel, (axes,) in zip(panels, grid, strict=True):
        _heat_panel(axes, table, panel, x, by, scales[panel.quantity.name])
        if is_crowded:
            axes.tick_params("x", rotation=30)
            for text in axes.get_xticklabels():
                text.set(ha="right", rotation_mode="anchor")
    return figure


def _scales(panels: Sequence[StudyPanel]) -> dict[str, tuple[float, float]]:
    """Return the ends of the colour scale of each measure: a number has the same colour in all its panels."""
    means: dict[str, list[float]] = {}
    for panel in panels:
        means.setdefault(panel.quantity.name, []).extend(
            found.mean for found in panel.picture_estimates().values()
        )
    return {name: (min(found), max(found)) for name, found in means.items()}


def _heat_panel(
    axes: Axes, table: StudyTable, panel: StudyPanel, x: str, by: str, scale: tuple[float, float]
) -> None:
    columns, lines, estimates = table.axis_values(x), table.axis_values(by), panel.picture_estimates()
    means = np.full((len(lines), len(columns)), np.nan)
    for point, found in estimates.items():
        line, column = point[table.axis_index(by)], point[table.axis_index(x)]
        means[lines.index(line), columns.index(column)] = found.mean
    low, high = scale
    axes.imshow(
        np.ma.masked_invalid(means), cmap="cividis", vmin=low, vmax=high, aspect="auto", origin="lower"
    )
    for (row, place), mean in np.ndenumerate(means):
        bright = (mean - low) / ((high - low) or 1.0) > DARK
        text = "–" if np.isnan(mean) else _number(mean, high)
        color = "black" if bright or np.isnan(mean) else "white"
        axes.text(place, row, text, ha="center", va="center", color=color)
    axes.grid(False)
    axes.set_xticks(range(len(columns)), [style.short_name(format_label(label)) for label in columns])
    axes.set_yticks(range(len(lines)), [style.short_name(format_label(label)) for label in lines])
    axes.set_xlabel(table.axis_label(x))
    axes.set_ylabel(table.axis_label(by))
    counts = describe_seeds(e.n for e in estimates.values())
    axes.set_title(f"{_title(panel)}\nmean over seeds, {counts}{_guessing(table, panel)}")


def _guessing(table: StudyTable, panel: StudyPanel) -> str:
    """Return the end of a title: the accuracy of guessing, if it is known and the same at all points."""
    known = collect_levels(table, panel.quantity).get(GUESSING, {})
    values = {
        _number(100 * value, 100.0) for point in panel.points for value in known.get(point, {}).values()
    }
    return f"; guessing: {values.pop()}" if len(values) == 1 else ""


def _title(panel: StudyPanel) -> str:
    return panel.title() + (" (%)" if panel.quantity.is_share else "")


def _number(value: float, highest: float) -> str:
    return f"{value:,.0f}" if highest >= 1000 else f"{value:.1f}" if highest >= 10 else f"{value:.3g}"


@dataclass(frozen=True)
class PairedDifference:
    """The difference of one combination from the baseline that shares its other values.

    Attributes
    ----------
    point : Point
    estimate : MeanEstimate
    levels : dict of ReferenceLevel to float
        Difference of each level (guessing, or the most that could be found) from the same baseline.
    """

    point: Point
    estimate: MeanEstimate
    levels: dict[ReferenceLevel, float]


def paired_differences(table: StudyTable, choice: StudyFigureOptions) -> Drawing:
    """Return the table of the figure, and the function that draws it."""
    if choice.to:
        baseline = {name: table.find_axis_value(name, text) for name, text in choice.to.items()}
        table = replace(table, baseline=baseline)
    if not table.baseline:
        raise LogError(
            f"the study in {table.path} has no baseline; write `baseline: {{AXIS: VALUE}}` into the study "
            "file and run the same command again (finished runs are kept), or pass one with --to AXIS=VALUE"
        )
    found = {q: differences_to_baseline(table, q) for q in requested_quantities(table, choice)}
    found = {quantity: rows for quantity, rows in found.items() if rows}
    if not found:
        raise LogError(
            f"no finished run of {table.path} shares its seed and other values with one of the baseline"
        )
    check_panel_count(len(found), MOST_PANELS)
    header = ["measure", *FILTERS, *table.axes, "n", "difference", "low", "high"]
    rows: list[list[Cell]] = [
        [*quantity.cells(), *label_cells(d.point), d.estimate.n, d.estimate.mean, d.estimate.low, d.estimate.high]
        for quantity, lines in found.items()
        for d in lines
    ]  # fmt: skip
    return header, rows, lambda: _paired_figure(table, found)


def differences_to_baseline(table: StudyTable, quantity: Quantity) -> list[PairedDifference]:
    """Return the difference of each combination that shares seeds with the baseline."""
    points, levels = table.values[quantity], collect_levels(table, quantity)
    lines = []
    for point, seeds in points.items():
        base = tuple(table.baseline.get(name, label) for name, label in zip(table.axes, point, strict=True))
        if base != point and base in points and set(seeds) & set(points[base]):
            at_levels = {
                level: paired_difference(at[point], points[base]).mean
                for level, at in levels.items()
                if point in at
            }
            lines.append(PairedDifference(point, paired_difference(seeds, points[base]), at_levels))
    return lines


def _paired_figure(table: StudyTable, found: dict[Quantity, list[PairedDifference]]) -> Figure:
    drawn = list(dict.fromkeys(d.point for lines in found.values() for d in lines))
    parts = [_part(table, quantity, lines) for quantity, lines in found.items()]
    scales, caption = shared_limits(parts, with_zero=True), _caption(table, found, drawn)
    return draw_rows(parts, _rows(table, drawn), scales, caption, tint=_tint)


def _rows(table: StudyTable, drawn: Sequence[Point]) -> RowLabels:
    """Return the labels of the lines: only values if all belong to one axis, which is then named next to them."""
    axes = table.varying_among(drawn)
    if len(axes) == 1:
        place = table.axis_index(axes[0])
        return RowLabels({point: format_label(point[place]) for point in drawn}, table.axis_label(axes[0]))
    names = table.name_points(drawn)
    return RowLabels({point: names.of[point] for point in drawn}, names.axes)


def _part(table: StudyTable, quantity: Quantity, lines: Sequence[PairedDifference]) -> SeriesPanel:
    factor = quantity.picture_factor
    levels: dict[ReferenceLevel, Places] = {}
    for each in lines:
        for level, value in each.levels.items():
            levels.setdefault(level, {})[each.point] = factor * value
    points = {each.point: each.estimate.scaled(factor) for each in lines}
    unit = "difference (percentage points)" if quantity.is_share else f"difference in {quantity.unit}"
    unit += {-1: ", lower is better", 0: "", 1: ", higher is better"}[better_sign(quantity.name)]
    return SeriesPanel(table.title(quantity), unit, False, [StudySeries("", dict(points), levels)])


def _caption(
    table: StudyTable, found: Mapping[Quantity, Sequence[PairedDifference]], drawn: Sequence[Point]
) -> str:
    """Return the caption: the compared combinations, and the meaning of bars and levels."""
    against, what = _in_words(table, table.baseline), _in_words(table, _common(table, drawn))
    lines = [difference for each in found.values() for difference in each]
    counts = [difference.estimate.n for difference in lines]
    bars = (
        f"Bars are 95 % t-intervals ({describe_seeds(counts)}); an orange one excludes 0."
        if max(counts) > 1
        else "There is one seed, so there are no intervals."
    )
    caption = f"{what or 'Each point'} is compared with {against}, at the same seed and other values. {bars}"
    levels = list(dict.fromkeys(level.short for each in lines for level in each.levels))
    if levels:
        caption += f" Levels ({', '.join(levels)}) are differences from the baseline, too."
    return caption[0].upper() + caption[1:]


def _in_words(table: StudyTable, values: Mapping[str, Label]) -> str:
    return ", ".join(f"{table.axis_label(name)} = {format_label(value)}" for name, value in values.items())


def _common(table: StudyTable, points: Sequence[Point]) -> dict[str, Label]:
    """Return the axes of the baseline on which all lines share a value, which their names need not repeat."""
    found = {
        name: list(dict.fromkeys(point[table.axis_index(name)] for point in points))
        for name in table.baseline
    }
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def _tint(found: MeanEstimate) -> tuple[str, bool]:
    """Return the colour of a difference and whether it is filled; it is marked if its interval excludes zero."""
    apart = found.n > 1 and (found.low > 0 or found.high < 0)
    return style.line_style(1 if apart else 0).color, apart


KINDS: dict[str, Callable[[StudyTable, StudyFigureOptions], Drawing]] = {
    "lines": lines,
    "heat": heat_map,
    "front": pareto_front,
    "paired": paired_differences,
}
FIRST = "lines"
"""Kind of figure that is drawn by default."""


def own_picture(table: StudyTable) -> Drawing:
    """Return the table of the figure that the study file names (by default of the first kind), and what draws it."""
    options = dict(table.picture)
    kind, where = options.pop("kind", None) or FIRST, options.pop("where", None)
    return KINDS[kind](table.restrict_to(where or {}), StudyFigureOptions(**options))


def draw(
    folder: Path,
    out_stem: Path | None = None,
    *,
    kind: str | None = None,
    choice: StudyFigureOptions | None = None,
    where: Mapping[str, str] | None = None,
) -> list[Path]:
    """Draw a figure of one of :data:`KINDS` from the folder of a study; return the files written.

    Parameters
    ----------
    folder : Path
    out_stem : Path, optional
        The default is named after the kind, inside the folder.
    kind : str, optional
    choice : StudyFigureOptions, optional
    where : mapping of str to str, optional
        Restrict the figure to runs in which these axes have these values.

    Raises
    ------
    LogError
        If the study lacks a requested axis, measure or value.

    Notes
    -----
    Without a choice, the figure that the study file names is drawn.
    """
    table = read_study(folder)
    requested = choice or StudyFigureOptions()
    if kind is None and requested == StudyFigureOptions() and not where:
        return write_figure(out_stem or folder / (table.picture.get("kind") or FIRST), *own_picture(table))
    kind = kind or FIRST
    if requested.to and kind != "paired":
        raise LogError(
            f"--to sets the baseline of differences, but --kind {kind} shows no differences; add --kind paired"
        )
    return write_figure(out_stem or folder / kind, *KINDS[kind](table.restrict_to(where or {}), requested))
