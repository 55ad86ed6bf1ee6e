"""How attack accuracy is spread over the adversaries: its distribution at the best round of each attack.

Lines are observers, panels relevance rules (and momenta, community sizes, runs where several are given); a
dotted line marks the accuracy of guessing.

References
----------
arXiv:2306.08929, the figures of attack accuracy CDFs at the round of the largest AAC.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gossiprec.arrays import F64
from gossiprec.figures import style
from gossiprec.figures.command import command_line
from gossiprec.figures.output import csv_bytes, save
from gossiprec.figures.series import (
    EVERYTHING,
    FIELDS,
    AttackKey,
    Layout,
    Run,
    Selection,
    arrange,
    attack_curves,
    chosen,
    grouped,
    require_attacks,
    run_names,
    title,
    told_fields,
)

MAX_COLUMNS = 3
MARKED_SHARES = np.array([0.1, 0.3, 0.5, 0.7, 0.9])


@dataclass(frozen=True)
class Distribution:
    """The accuracies of the adversaries of one attack.

    Attributes
    ----------
    accuracy : ndarray of float64
        Distinct accuracies, ascending, as fractions.
    share : ndarray of float64
        Share of the adversaries with this accuracy or less.
    adversaries : int
    random_bound : float
        NaN where the run does not say.
    """

    accuracy: F64
    share: F64
    adversaries: int
    random_bound: float


def draw(runs: Sequence[Run], out_stem: Path, *, selection: Selection = EVERYTHING) -> list[Path]:
    """Draw the attack accuracy CDFs of several runs and observers in one figure.

    Parameters
    ----------
    runs : sequence of Run
    out_stem : Path
        Files go to ``<out_stem>.csv``, ``.png`` and ``.svg``.
    selection : Selection
        The attacks to show.

    Raises
    ------
    LogError
        If the runs hold no attack, or none that was selected.
    """
    require_attacks(runs, file="adversaries.npz")
    found = _distributions(runs)
    shown = {key: found[key] for key in chosen(list(found), selection)}
    table = csv_bytes((*FIELDS, "accuracy", "cumulative_share", "adversaries", "random_bound"), _rows(shown))
    with style.house_look():
        return save(_figure(shown), table, out_stem)


def distribution(accuracies: F64, random_bound: float) -> Distribution:
    """Return the empirical distribution of these accuracies."""
    levels, counts = np.unique(accuracies, return_counts=True)
    return Distribution(levels, np.cumsum(counts) / accuracies.size, accuracies.size, random_bound)


def _distributions(runs: Sequence[Run]) -> dict[AttackKey, Distribution]:
    found = {}
    for run, name in zip(runs, run_names(runs), strict=True):
        curves = attack_curves(run, name)
        for label, (_, accuracies) in run.adversaries.items():
            observer, relevance, momentum, size = label.rsplit("/", 3)
            key = AttackKey(name, observer, relevance, float(momentum[1:]), int(size[1:]))
            bound = float(curves[key]["random_bound"][0]) if key in curves else float("nan")
            if accuracies.size:
                found[key] = distribution(np.asarray(accuracies, dtype=np.float64), bound)
    return found


def _rows(shown: dict[AttackKey, Distribution]) -> list[list[str | int | float]]:
    return [
        [*key.cells(), float(accuracy), float(share), found.adversaries, found.random_bound]
        for key, found in shown.items()
        for accuracy, share in zip(found.accuracy, found.share, strict=True)
    ]


def _figure(shown: dict[AttackKey, Distribution]) -> Figure:
    keys = list(shown)
    layout = arrange(keys)
    names = {getattr(key, layout.line): style.short_name(key.words(layout.line)) for key in keys}
    contents = grouped(keys, (*layout.down, *layout.across))
    n_columns = min(len(grouped(keys, layout.across)), MAX_COLUMNS)
    width = style.COLUMN_IN if n_columns == 1 else style.PAGE_IN
    sample_in = 0.5 + max(map(style.text_width_in, names.values()))
    per_row = max(1, int((width - style.Margins.left) / sample_in))
    margins = style.Margins(top=0.45 + 0.17 * -(-len(names) // per_row), between_rows=0.55)
    n_rows = -(-len(contents) // n_columns)
    figure, grid = style.panels(n_rows, n_columns, width=width, panel_height=1.9, margins=margins)
    right = max(1.0, 103 * max(float(found.accuracy[-1]) for found in shown.values()))
    for place, axes in enumerate(axes for row in grid for axes in row):
        if place >= len(contents):
            axes.remove()
            continue
        _panel(axes, {key: shown[key] for key in contents[place]}, layout, list(names))
        axes.set_xlim(0, right)
        _axis_labels(axes, is_lowest=place + n_columns >= len(contents), is_first=place % n_columns == 0)
    _legend(figure, list(names.values()), n_columns=min(per_row, len(names)), left=margins.left / width)
    return figure


def _panel(
    axes: Axes, inside: dict[AttackKey, Distribution], layout: Layout, lines: Sequence[object]
) -> None:
    _mark_random(axes, {found.random_bound for found in inside.values() if np.isfinite(found.random_bound)})
    for key, found in inside.items():
        look = style.line_style(lines.index(getattr(key, layout.line)))
        x = 100 * np.concatenate([found.accuracy[:1], found.accuracy])
        y = 100 * np.concatenate([[0.0], found.share])
        marked = np.unique(1 + np.searchsorted(found.share, MARKED_SHARES)).tolist()
        axes.plot(x, y, drawstyle="steps-post", markevery=marked, **look.kwargs())
    axes.set_title(title(next(iter(inside)), told_fields(layout)), pad=15)
    axes.set_ylim(0, 101)
    axes.set_yticks((0, 25, 50, 75, 100))


def _mark_random(axes: Axes, bounds: set[float]) -> None:
    """Mark the accuracy of guessing; where community sizes differ, one label names all its lines."""
    percents = [100 * bound for bound in sorted(bounds)]
    for percent in percents:
        axes.axvline(percent, color=style.GREY, linewidth=0.9, linestyle=":")
    if percents:
        axes.text(
            percents[0],
            1.015,
            f"random {', '.join(f'{percent:.1f}' for percent in percents)} %",
            transform=axes.get_xaxis_transform(),
            va="bottom",
            color=style.GREY,
        )


def _axis_labels(axes: Axes, *, is_lowest: bool, is_first: bool) -> None:
    if is_lowest:
        axes.set_xlabel("attack accuracy of an adversary (%)")
    if is_first:
        axes.set_ylabel("adversaries at or below (%)")
    axes.tick_params(labelbottom=is_lowest, labelleft=is_first)


def _legend(figure: Figure, names: Sequence[str], *, n_columns: int, left: float) -> None:
    samples = [
        Line2D([], [], label=name, **style.line_style(place).kwargs()) for place, name in enumerate(names)
    ]
    figure.legend(
        handles=samples,
        loc="upper left",
        bbox_to_anchor=(left, 1.0),
        ncols=n_columns,
        borderaxespad=0.2,
        borderpad=0.2,
        handlelength=2.6,
        columnspacing=1.4,
    )


if __name__ == "__main__":
    command_line(draw, __doc__)
