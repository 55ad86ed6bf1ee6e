"""A measure over two axes of a study, as a map of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gossiprec.figures import style
from gossiprec.figures.study.estimates import describe_seeds
from gossiprec.figures.study.panels import (
    Drawing,
    StudyFigureOptions,
    StudyPanel,
    estimate_rows,
    make_panels,
    requested_quantities,
    select_axes,
)
from gossiprec.figures.study.quantity import format_label
from gossiprec.figures.study.table_reader import StudyTable

CELL_IN = 0.34
DARK = 0.55
"""Position on the colour scale from which numbers are black, since the scale ends in a light yellow."""


def heat_map(table: StudyTable, choice: StudyFigureOptions) -> Drawing:
    """Return the table of the figure, and the function that draws it."""
    x, by = select_axes(table, choice, needs=2)
    panels = make_panels(table, requested_quantities(table, choice), [x, by])
    return *estimate_rows(table, panels), lambda: _figure(table, panels, x, by)


def _figure(table: StudyTable, panels: Sequence[StudyPanel], x: str, by: str) -> Figure:
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
        _panel(axes, table, panel, x, by, scales[panel.quantity.name])
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


def _panel(
    axes: Axes, table: StudyTable, panel: StudyPanel, x: str, by: str, scale: tuple[float, float]
) -> None:
    columns, lines, estimates = table.axis_values(x), table.axis_values(by), panel.picture_estimates()
    means = np.full((len(lines), len(columns)), np.nan)
    for point, found in estimates.items():
        means[lines.index(point[table.axis_index(by)]), columns.index(point[table.axis_index(x)])] = (
            found.mean
        )
    low, high = scale
    axes.imshow(
        np.ma.masked_invalid(means), cmap="cividis", vmin=low, vmax=high, aspect="auto", origin="lower"
    )
    for (line, column), mean in np.ndenumerate(means):
        bright = (mean - low) / ((high - low) or 1.0) > DARK
        text = "–" if np.isnan(mean) else _number(mean, high)
        color = "black" if bright or np.isnan(mean) else "white"
        axes.text(column, line, text, ha="center", va="center", color=color)
    axes.grid(False)
    axes.set_xticks(range(len(columns)), [style.short_name(format_label(label)) for label in columns])
    axes.set_yticks(range(len(lines)), [style.short_name(format_label(label)) for label in lines])
    axes.set_xlabel(table.axis_label(x))
    axes.set_ylabel(table.axis_label(by))
    counts = describe_seeds(e.n for e in estimates.values())
    axes.set_title(f"{_title(panel)}\nmean over seeds, {counts}")


def _title(panel: StudyPanel) -> str:
    return panel.title() + (" (%)" if panel.quantity.is_share else "")


def _number(value: float, highest: float) -> str:
    return f"{value:,.0f}" if highest >= 1000 else f"{value:.1f}" if highest >= 10 else f"{value:.3g}"
