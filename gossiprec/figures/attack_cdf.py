"""The CDF figure: attack accuracy over the adversaries at the best round of each attack.

Lines are observers; panels are relevance rules, and momenta, community sizes and runs if there are several. A dotted
line marks the accuracy of guessing.

References
----------
arXiv:2306.08929, the figures of attack accuracy CDFs at the round of the largest AAC.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from gossiprec.figures import style
from gossiprec.figures.attack_selection import (
    EVERYTHING,
    FIELDS,
    AccuracyDistribution,
    AttackKey,
    AttackSelection,
    accuracy_distributions,
    arrange_panels,
    group_keys,
    require_attacks,
    select_attacks,
)
from gossiprec.figures.figure_files import write_figure
from gossiprec.figures.style import Axis, Panel, PanelLook, Series, draw_panels, plot_steps
from gossiprec.runs import Run

ACCURACY = Axis("attack accuracy per adversary (%)", (0, None))
AT_OR_BELOW = Axis("adversaries with this or less (%)", (0, 101))


def draw(runs: Sequence[Run], out_stem: Path, *, selection: AttackSelection = EVERYTHING) -> list[Path]:
    """Draw the attack accuracy CDFs of several runs and observers in one figure; return its files.

    Raises
    ------
    LogError
        If the runs hold no attack, or none that was selected.
    """
    require_attacks(runs, file="adversaries.npz")
    found = accuracy_distributions(runs)
    shown = {key: found[key] for key in select_attacks(list(found), selection)}
    header = (*FIELDS, "accuracy", "cumulative_share", "adversaries", "random_bound")
    return write_figure(out_stem, header, _rows(shown), lambda: _figure(shown))


def _rows(shown: dict[AttackKey, AccuracyDistribution]) -> list[list[str | int | float]]:
    return [
        [*key.cells(), float(accuracy), float(share), found.adversaries, found.random_bound]
        for key, found in shown.items()
        for accuracy, share in zip(found.accuracy, found.share, strict=True)
    ]


def _figure(shown: dict[AttackKey, AccuracyDistribution]) -> Figure:
    keys = list(shown)
    layout = arrange_panels(keys)
    names = {key: style.short_name(key.field_text(layout.line)) for key in keys}
    if len(set(names.values())) == len(keys):
        names = {key: f"{name}: mean {100 * shown[key].mean:.1f} %" for key, name in names.items()}
    panels = [
        Panel(
            layout.title(inside[0]),
            [to_percent_series(shown[key], names[key]) for key in inside],
            sorted({100 * shown[key].random_bound for key in inside if np.isfinite(shown[key].random_bound)}),
        )
        for inside in group_keys(keys, (*layout.down, *layout.across))
    ]
    return draw_panels(
        panels,
        x=ACCURACY,
        y=AT_OR_BELOW,
        look=PanelLook(
            line=plot_steps,
            order=list(dict.fromkeys(names.values())),
            n_columns=len(group_keys(keys, layout.across)),
            is_random_upright=True,
        ),
    )


def to_percent_series(found: AccuracyDistribution, name: str) -> Series:
    """Return a distribution as a line of a panel, in percent."""
    x, y = np.insert(found.accuracy, 0, found.accuracy[0]), np.insert(found.share, 0, 0.0)
    return Series(name, (100 * x).tolist(), (100 * y).tolist())
