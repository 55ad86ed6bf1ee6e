"""How attack accuracy is spread over the adversaries, at the best report of each attack."""

from __future__ import annotations

import numpy as np

from gossiprec.figures.distributions import distributions_of
from gossiprec.figures.series import arrange, grouped
from gossiprec.report.blocks import Axis, Chart, Section, Series
from gossiprec.report.runs import Runs

ORDER = 40


def section(runs: Runs) -> Section | None:
    """Return the distributions; None where no run has written its adversaries."""
    found = distributions_of(runs.runs)
    keys = list(found)
    layout = arrange(keys, columns=False)
    charts = []
    for inside in grouped(keys, layout.down):
        series = []
        for key in inside:
            x, y = np.insert(found[key].accuracy, 0, 0.0), np.insert(found[key].share, 0, 0.0)
            series.append(Series(key.words(layout.line), [x], y))
        bounds = {float(found[key].random_bound) for key in inside if np.isfinite(found[key].random_bound)}
        upright = {
            "random bound" if len(bounds) == 1 else f"random bound {100 * b:.1f} %": b for b in sorted(bounds)
        }
        x_axis = Axis("attack accuracy per adversary (%)", percent=True, zero=True)
        y_axis = Axis("cumulative share of adversaries (%)", percent=True, zero=True)
        charts.append(Chart(layout.title(inside[0]), [x_axis], y_axis, series, mark="step", upright=upright))
    note = "At the best report of each attack. Lines further to the right mean stronger attacks."
    return Section("Attack accuracy by adversary", charts, note) if charts else None
