"""The figures of the study: curves by epoch with printed values, utility over options, gains by activity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from matplotlib.axes import Axes

from analysis.papers.comparison import BEST, LAST, experiment_name
from analysis.papers.figures import (
    EPOCH,
    PaperFigure,
    SeedLine,
    baseline_series,
    drawable_figures,
    epoch_series,
    seed_line,
    sweep_series,
    table_curves,
    tick_whole_epochs,
)
from analysis.papers.verdict import Runs, mean
from analysis.perfedrec_pp.activity_groups import ALONE, MIX, WHEN, count_groups, group_gain, group_metric
from analysis.perfedrec_pp.federation_cost import central_score
from analysis.perfedrec_pp.plan import (
    CENTRAL,
    COUNTERPARTS,
    FEDERATED,
    PAPER,
    SETTINGS,
    STUDY,
    SWEEPS,
    TABLE_ROWS,
    VIEWS,
    WHOLE,
)
from gossiprec.figures.panels import Axis
from gossiprec.figures.style import GREY

WORDS = {
    "noise": "scale of the Laplace noise that clients add",
    "pretraining": "epochs of pre-training",
    "clusters": "number of clusters",
}


@cache
def paper_figures() -> dict[str, PaperFigure]:
    """Return the figures by name, setting by setting."""
    found: dict[str, PaperFigure] = {}
    for setting in SETTINGS:
        found[f"table4-{setting}"] = _federated(setting)
        found[f"central-{setting}"] = replace(
            table_curves(PAPER, setting, "table4", CENTRAL),
            caption=f"Centralised rows of Table 4 by pass over all data, {setting}. Thin dotted: what is printed.",
        )
        found[f"table5-{setting}"] = table_curves(PAPER, setting, "table5")
        for option, methods in SWEEPS.items():
            found[f"{option}-{setting}"] = _sweep(setting, option, methods)
        found[f"views-{setting}"] = _views(setting)
        found[f"deciles-{setting}"] = _deciles(setting)
    return drawable_figures(found, STUDY.experiments)


def _federated(setting: str) -> PaperFigure:
    """Return the federated rows by round, with the best values of centralised ones as levels."""
    drawing = table_curves(PAPER, setting, "table4", FEDERATED)

    def panels(runs: Runs) -> dict[str, list[SeedLine]]:
        found = {column: list(lines) for column, lines in drawing.panels(runs).items()}
        for column, lines in found.items():
            ends = next((one.x for one in lines if one.kind == "print"), (1.0, 1.5))
            lines += _central_levels(runs, column, (ends[0], ends[-1]))
        return found

    order = [*drawing.look["order"], *(_centralised(row) for row in CENTRAL)]
    caption = f"{drawing.caption} Centralised rows at their best validation epoch stand beside them."
    return replace(drawing, caption=caption, panels=panels, look={**drawing.look, "order": order})


def _central_levels(runs: Runs, column: str, ends: tuple[float, float]) -> list[SeedLine]:
    """Return the centralised counterparts of federated rows as levels."""
    found = {row: central_score(runs, row, column) for row in dict.fromkeys(COUNTERPARTS.values())}
    return [
        SeedLine(_centralised(row), ends, (100 * mean(own),) * 2, kind="level")
        for row, own in found.items()
        if own
    ]


def _centralised(row: str) -> str:
    return f"{row}, centralised"


def _sweep(setting: str, option: str, methods: Mapping[float, str]) -> PaperFigure:
    """Return utility over the values of an option, at the last epoch and at the best."""
    ends = (min(methods), max(methods))

    def panels(runs: Runs) -> dict[str, list[SeedLine]]:
        return {
            f"{column}, {look}": [
                sweep_series(PAPER, runs, setting, column, look, WHOLE, methods),
                *baseline_series(PAPER, runs, setting, column, ends),
            ]
            for look in (LAST, BEST)
            for column in PAPER.metrics
        }

    own = tuple(method for method in methods.values() if method not in TABLE_ROWS[PAPER.main].values())
    return PaperFigure(
        f"{WHOLE} over the {WORDS[option]}, {setting}; beside it the orders that need no training.",
        setting,
        tuple(methods.values()),
        own,
        panels,
        Axis(WORDS[option], (0.0, None)),
        Axis("%"),
    )


def _views(setting: str) -> PaperFigure:
    """Return the curves of both kinds of views by epoch."""
    names = {"noise": "views of its code", "mix": "views of its equations"}

    def panels(runs: Runs) -> dict[str, list[SeedLine]]:
        return {
            column: [
                epoch_series(runs, names[views], experiment_name(setting, method), PAPER.metrics[column])
                for views, method in VIEWS.items()
            ]
            for column in PAPER.metrics
        }

    return PaperFigure(
        f"{WHOLE} by views of pre-training, {setting}: noise alone, as in its published code, or with users left "
        "out and pseudo edges besides, as its equations say.",
        setting,
        tuple(VIEWS.values()),
        (VIEWS["mix"],),
        panels,
        EPOCH,
        Axis("%"),
        {"dress": tick_whole_epochs},
    )


def _deciles(setting: str) -> PaperFigure:
    """Return recall of mix and global model, and the gain, over groups of users by activity."""

    def panels(runs: Runs) -> dict[str, list[SeedLine]]:
        groups, found = range(count_groups(runs, setting)), {}
        for look in WHEN:
            both = {"mix": MIX, "global model alone": ALONE}
            found[f"Recall@20, {look}"] = [
                seed_line(name, {g + 1: group_metric(runs, setting, method, g, look) for g in groups})
                for name, method in both.items()
            ]
            found[f"gain, {look}"] = [
                seed_line("mix", {g + 1: group_gain(runs, setting, g, look) for g in groups})
            ]
        return found

    return PaperFigure(
        f"Recall@20 by group of users, the least active first, {setting}: a mix of local, cluster and global model "
        "against the global model alone, and what the mix gains.",
        setting,
        (MIX, ALONE),
        (ALONE,),
        panels,
        Axis("group"),
        Axis("%"),
        {"dress": _below_zero},
    )


def _below_zero(axes: Axes) -> None:
    """Set ticks at whole groups, and extend the axis to losses."""
    tick_whole_epochs(axes)
    least = float(axes.dataLim.ymin)  # includes the intervals
    if least < 0:
        axes.set_ylim(bottom=1.1 * least)
        axes.axhline(0.0, color=GREY, linewidth=0.9)
