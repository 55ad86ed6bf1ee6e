"""A measure over one axis of a study: lines with bands over numbers, or points with intervals in rows of words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gossiprec.figures import style
from gossiprec.figures.study.estimates import MeanEstimate, describe_intervals
from gossiprec.figures.study.panels import (
    MEASURE,
    MOST_TICKS,
    Drawing,
    RowLabels,
    SeriesPanel,
    StudyFigureOptions,
    describe_off_scale,
    draw_rows,
    estimate_rows,
    label_positions,
    legend_handles,
    level_curves,
    level_handle,
    make_panels,
    make_series_panels,
    requested_quantities,
    scale_x,
    select_axes,
    series_styles,
    shared_limits,
)
from gossiprec.figures.study.quantity import Label, format_label
from gossiprec.figures.study.table_reader import StudyTable, is_numeric

PANEL_IN = 1.75


def lines(table: StudyTable, choice: StudyFigureOptions) -> Drawing:
    """Return the table of the figure, and the function that draws it."""
    x, *others = select_axes(table, choice, needs=1, by_measure=True)
    if choice.x is None and choice.by is None and others and _runs_along(table, others[0], rather_than=x):
        x, others = others[0], [x]
    quantities = requested_quantities(table, choice)
    varying = table.varying_among(point for quantity in quantities for point in table.values[quantity])
    by = [] if choice.by == MEASURE else [name for name in others if name in varying]
    panels = make_panels(table, quantities, [x, *by])
    lines_by = choice.by if choice.by == MEASURE else by[0] if by else None
    return *estimate_rows(table, panels), lambda: _figure(
        table, make_series_panels(table, panels, x, lines_by), x
    )


def _runs_along(table: StudyTable, name: str, *, rather_than: str) -> bool:
    """Return whether the first axis is numeric and the second is not, so that lines run along the first."""
    return is_numeric(table.axis_values(name)) and not is_numeric(table.axis_values(rather_than))


def _figure(table: StudyTable, parts: Sequence[SeriesPanel], x: str) -> Figure:
    labels = [
        label for label in table.axis_values(x) if any(label in s.points for p in parts for s in p.series)
    ]
    counts = [estimate.n for part in parts for estimate in part.estimates]
    if not is_numeric(labels):
        rows = RowLabels({label: format_label(label) for label in labels}, table.axis_label(x))
        caption = describe_intervals(counts, "Points: means; bars:")
        return draw_rows(parts, rows, shared_limits(parts), caption)
    caption = describe_intervals(counts, "Lines: means; bands:")
    return _over_numbers(parts, labels, table.axis_label(x), caption)


def _over_numbers(parts: Sequence[SeriesPanel], labels: Sequence[Label], x: str, caption: str) -> Figure:
    looks, scales = series_styles(parts), shared_limits(parts)
    base = style.Margins(between_columns=0.62)
    n_columns = _columns(len(parts), labels, base)
    width = style.PAGE_IN if n_columns > 1 else style.COLUMN_IN
    handles = legend_handles(parts, looks, in_rows=False)
    legend = style.Legend(handles, width - base.left)
    inches = base.panel_width(width, n_columns)
    titles = [
        "\n".join(style.wrap_title(title, inches))
        for title in (panel_title(p, scales[p.unit]) for p in parts)
    ]
    extra = style.TITLE_LINE_IN * max(title.count("\n") for title in titles)
    x = style.wrap_axis_label(x, inches + 0.2)
    below = style.TITLE_LINE_IN * x.count("\n")
    margins = style.Margins(
        top=(0.24 if any(titles) else 0.1) + extra + legend.height_in,
        bottom=0.45 + below + style.caption_height(caption, width),
        between_columns=base.between_columns,
        between_rows=0.78 + extra + below,
    )
    n_rows = -(-len(parts) // n_columns)
    figure, grid = style.panel_grid(n_rows, n_columns, width=width, panel_height=PANEL_IN, margins=margins)
    cells = [axes for row in grid for axes in row]
    for axes in cells[len(parts) :]:
        axes.remove()
    for axes, part, title in zip(cells, parts, titles, strict=False):
        scale_x(axes, labels, x)
        _panel(axes, part, looks)
        axes.set_ylim(*scales[part.unit])
        axes.set_ylabel(style.wrap_axis_label(part.unit, PANEL_IN))
        axes.set_title(title, pad=5)
    legend.draw(figure, left=margins.left / width)
    style.add_caption(figure, caption)
    return figure


def _columns(n_panels: int, labels: Sequence[Label], margins: style.Margins) -> int:
    """Return the number of panels per row: as many as fill their rows, if there is room for their ticks."""
    ticks = sum(0.06 + style.text_width_in(format_label(label)) for label in labels[:MOST_TICKS])
    fits = ticks <= margins.panel_width(style.PAGE_IN, 3)
    return min(n_panels, 3 if fits and n_panels not in (2, 4) else 2)


def panel_title(part: SeriesPanel, scale: tuple[float, float]) -> str:
    """Return the title of a panel, with the levels that are outside its scale."""
    return ", ".join(text for text in (part.title, describe_off_scale(part, scale)) if text)


def _panel(axes: Axes, part: SeriesPanel, looks: Mapping[str, style.LineStyle]) -> None:
    for series in part.series:
        at = label_positions(list(series.points))
        _line(axes, sorted((at[label], e) for label, e in series.points.items()), looks[series.name])
    for curve in level_curves(part):
        at = label_positions(list(curve.places))
        points = sorted((at[label], level) for label, level in curve.places.items())
        color = style.GREY if curve.series is None else looks[curve.series].color
        look: dict[str, Any] = level_handle(curve.level, is_line=True)
        axes.plot(*zip(*points, strict=True), color=color, **look)


def _line(axes: Axes, points: Sequence[tuple[float, MeanEstimate]], look: style.LineStyle) -> None:
    """Draw a line with its band."""
    xs, estimates = [at for at, _ in points], [e for _, e in points]
    means, low, high = ([getattr(e, name) for e in estimates] for name in ("mean", "low", "high"))
    axes.fill_between(xs, low, high, color=look.color, alpha=0.18, lw=0)
    axes.plot(xs, means, **look.kwargs())
