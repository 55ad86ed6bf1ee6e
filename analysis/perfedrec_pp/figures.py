"""The figures of the study: curves by epoch with printed values, utility over options, gains by activity."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from matplotlib.axes import Axes

from analysis.papers.comparison import BEST
from analysis.papers.curves import reported_score
from analysis.papers.figures import (
    PaperFigure,
    SeedLine,
    SweepFigures,
    drawable_figures,
    method_curves,
    seed_line,
    table_curves,
    tick_whole_epochs,
    with_levels,
)
from analysis.papers.verdict import PerSeed, Runs
from analysis.perfedrec_pp import (
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
    central_experiment,
)
from analysis.perfedrec_pp.activity_groups import (
    GLOBAL_ONLY,
    LOOK_KEYS,
    MIX,
    count_groups,
    group_gain,
    group_recall,
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
    sweeps = SweepFigures(PAPER, tuple(PAPER.metrics), TABLE_ROWS[PAPER.main].values())
    for setting in SETTINGS:
        found[f"table4-{setting}"] = _federated(setting)
        found[f"central-{setting}"] = replace(
            table_curves(PAPER, setting, "table4", CENTRAL),
            caption=f"Centralised rows of Table 4 by pass over all data, {setting}. Thin dotted lines: printed values.",
        )
        found[f"table5-{setting}"] = table_curves(PAPER, setting, "table5")
        for option, methods in SWEEPS.items():
            caption = f"{WHOLE} over the {WORDS[option]}, {setting}; for comparison orders without training."
            found[f"{option}-{setting}"] = sweeps.make_figure(
                setting, caption, WORDS[option], {WHOLE: methods}
            )
        found[f"views-{setting}"] = _views(setting)
        found[f"deciles-{setting}"] = _deciles(setting)
    return drawable_figures(found, STUDY.experiments)


def _federated(setting: str) -> PaperFigure:
    """Return the federated rows by round, with the best values of centralised ones as levels."""

    def levels(runs: Runs, column: str) -> dict[str, PerSeed]:
        return {
            _centralised(row): reported_score(PAPER, runs, central_experiment(row), column, BEST)
            for row in dict.fromkeys(COUNTERPARTS.values())
        }

    drawing = with_levels(table_curves(PAPER, setting, "table4", FEDERATED), levels)
    order = [*drawing.look["order"], *(_centralised(row) for row in CENTRAL)]
    caption = f"{drawing.caption} Level lines: centralised rows at their best validation epoch."
    return replace(drawing, caption=caption, look={**drawing.look, "order": order})


def _centralised(row: str) -> str:
    return f"{row}, centralised"


def _views(setting: str) -> PaperFigure:
    """Return the curves of both kinds of views by epoch."""
    drawing = method_curves(
        setting,
        f"{WHOLE} by views of pre-training, {setting}: only noise, as in its published code, or also omitted users and "
        "pseudo edges, as in its equations.",
        {"views of its code": VIEWS["noise"], "views of its equations": VIEWS["mix"]},
        PAPER.metrics,
        Axis("%"),
    )
    return replace(drawing, own=(VIEWS["mix"],))


def _deciles(setting: str) -> PaperFigure:
    """Return recall of mix and global model, and the gain, over groups of users by activity."""

    def panels(runs: Runs) -> dict[str, list[SeedLine]]:
        groups, found = range(count_groups(runs, setting)), {}
        for look in LOOK_KEYS:
            both = {"mix": MIX, "only the global model": GLOBAL_ONLY}
            found[f"Recall@20, {look}"] = [
                seed_line(name, {g + 1: group_recall(runs, setting, method, g, look) for g in groups})
                for name, method in both.items()
            ]
            found[f"gain, {look}"] = [
                seed_line("mix", {g + 1: group_gain(runs, setting, g, look) for g in groups})
            ]
        return found

    return PaperFigure(
        f"Recall@20 by group of users, the least active first, {setting}: a mix of local, cluster and global model, "
        "only the global model, and the gain of the mix.",
        setting,
        (MIX, GLOBAL_ONLY),
        (GLOBAL_ONLY,),
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
