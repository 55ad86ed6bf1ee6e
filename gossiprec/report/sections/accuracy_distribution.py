"""Section: distribution of attack accuracy over the adversaries, at the best report of each attack."""

from __future__ import annotations

import numpy as np

from gossiprec.figures.attack_selection import accuracy_distributions, arrange_panels, group_keys
from gossiprec.report.blocks import Chart, ChartAxis, ChartSeries, Section
from gossiprec.report.runs import ReportRuns

ORDER = 40


def section(runs: ReportRuns) -> Section | None:
    """Return the distributions, or None if no run has written its adversaries."""
    found = accuracy_distributions(runs.runs)
    keys = list(found)
    layout = arrange_panels(keys, columns=False)
    charts = []
    for inside in group_keys(keys, layout.down):
        series = []
        for key in inside:
            x, y = np.insert(found[key].accuracy, 0, 0.0), np.insert(found[key].share, 0, 0.0)
            series.append(ChartSeries(key.words(layout.line), [x], y))
        bounds = {float(found[key].random_bound) for key in inside if np.isfinite(found[key].random_bound)}
        upright = {
            "random bound" if len(bounds) == 1 else f"random bound {100 * b:.1f} %": b for b in sorted(bounds)
        }
        x_axis = ChartAxis("attack accuracy per adversary (%)", percent=True, zero=True)
        y_axis = ChartAxis("share of adversaries (%)", percent=True, zero=True)
        charts.append(Chart(layout.title(inside[0]), [x_axis], y_axis, series, mark="step", upright=upright))
    note = "At the best report of each attack. Lines further to the right mean stronger attacks."
    return Section("Attack accuracy by adversary", charts, note) if charts else None
