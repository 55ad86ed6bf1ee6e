"""The study of PerFedRec++ on Yelp, compared with the paper: ablations, and gains from personal models.

python -m analysis.perfedrec_pp --data ../shared/data --out study/

The report has the figures, gains by activity of users, and claims beyond the order of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from analysis.papers import comparison, figures, report
from analysis.papers.claims import DIGITS, Evidence
from analysis.papers.comparison import BEST, LAST, experiment_name, read_by_seed, seed_differences
from analysis.papers.document import DocumentBlock, GridColumn, GridRow
from analysis.papers.item_vectors import OTHERS, POPULAR, uniformity_by_seed, uniformity_tables
from analysis.papers.study import PaperStudyFile, StudyCommand
from analysis.papers.verdict import PerSeed, Runs, mean
from gossiprec.figures.style import GREY, Axis
from gossiprec.runs import Run

STUDY = PaperStudyFile(Path(__file__).with_name("perfedrec_pp") / "study.yaml")
PAPER = comparison.load_comparison(STUDY)
SETTINGS, TABLE_ROWS, ARMS = PAPER.settings, PAPER.rows, STUDY.plan["arms"]
CENTRAL, FEDERATED = ARMS["central"], ARMS["federated"]
"""Method by row."""
WHOLE, GLOBAL = "PerFedRec++", "no personalisation"
ABLATIONS: dict[str, str] = ARMS["ablations"]
"""Method by the part that is left out; without pre-training it is PerFedRec, as published."""
SWEEPS: dict[str, dict[float, str]] = ARMS["sweeps"]
"""Method by option and value, in setting `scaled`."""
VIEWS: dict[str, str] = ARMS["views"]
"""Views of pre-training: of the published code, and of the paper's equations."""


PRICE = report.FederationPrice(PAPER, **STUDY.plan["federation"])


@cache
def paper_figures() -> dict[str, figures.PaperFigure]:
    """Return the figures by name, setting by setting."""
    found: dict[str, figures.PaperFigure] = {}
    for setting in SETTINGS:
        found[f"table4-{setting}"] = _federated(setting)
        found[f"central-{setting}"] = replace(
            figures.table_curves(PAPER, setting, "table4", CENTRAL),
            caption=f"Centralised rows of Table 4 by pass over all data, {setting}. Thin dotted lines: printed values.",
        )
        found[f"table5-{setting}"] = figures.table_curves(PAPER, setting, "table5")
        for option, methods in SWEEPS.items():
            words = STUDY.plan["labels"][option]
            caption = f"{WHOLE} over the {words}, {setting}; for comparison orders without training."
            found[f"{option}-{setting}"] = figures.sweep_figure(
                PAPER, setting, caption, words, {WHOLE: methods}, columns=tuple(PAPER.metrics)
            )
        found[f"views-{setting}"] = _views(setting)
        found[f"deciles-{setting}"] = _deciles(setting)
    return figures.drawable_figures(found, STUDY.experiments)


def _federated(setting: str) -> figures.PaperFigure:
    """Return the federated rows by round, with the best values of centralised ones as levels."""
    central = {
        _centralised(row): PRICE.central_experiment(setting, row)
        for row in dict.fromkeys(PRICE.rows.values())
    }
    drawing = figures.table_curves(PAPER, setting, "table4", FEDERATED, central)
    order = [*drawing.look["order"], *(_centralised(row) for row in CENTRAL)]
    caption = f"{drawing.caption} Level lines: centralised rows at their best validation epoch."
    return replace(drawing, caption=caption, look={**drawing.look, "order": order})


def _centralised(row: str) -> str:
    return f"{row}, centralised"


def _views(setting: str) -> figures.PaperFigure:
    """Return the curves of both kinds of views by epoch."""
    drawing = figures.method_curves(
        setting,
        f"{WHOLE} by views of pre-training, {setting}: only noise, as in its published code, or also omitted users and "
        "pseudo edges, as in its equations.",
        {"views of its code": VIEWS["noise"], "views of its equations": VIEWS["mix"]},
        PAPER.metrics,
        Axis("%"),
    )
    return replace(drawing, needed=(experiment_name(setting, VIEWS["mix"]),))


def _deciles(setting: str) -> figures.PaperFigure:
    """Return recall of mix and global model, and the gain, over groups of users by activity."""

    def panels(runs: Runs) -> dict[str, list[figures.SeedLine]]:
        groups, found = range(count_groups(runs, setting)), {}
        for look in LOOK_KEYS:
            both = {"mix": MIX, "only the global model": GLOBAL_ONLY}
            found[f"Recall@20, {look}"] = [
                figures.seed_line(name, {g + 1: group_recall(runs, setting, method, g, look) for g in groups})
                for name, method in both.items()
            ]
            found[f"gain, {look}"] = [
                figures.seed_line("mix", {g + 1: group_gain(runs, setting, g, look) for g in groups})
            ]
        return found

    return figures.setting_figure(
        f"Recall@20 by group of users, the least active first, {setting}: a mix of local, cluster and global model, "
        "only the global model, and the gain of the mix.",
        setting,
        (MIX, GLOBAL_ONLY),
        panels,
        Axis("group"),
        Axis("%"),
        {"dress": _below_zero},
        drawn=(MIX,),
    )


def _below_zero(axes: Axes) -> None:
    """Set ticks at whole groups, and extend the axis to losses."""
    figures.tick_whole_epochs(axes)
    least = float(axes.dataLim.ymin)  # includes the intervals
    if least < 0:
        axes.set_ylim(bottom=1.1 * least)
        axes.axhline(0.0, color=GREY, linewidth=0.9)


LOOK_KEYS = {LAST: "last", BEST: "validated"}
"""Key of each reporting point in summaries."""
MIX, GLOBAL_ONLY = FEDERATED[WHOLE], ABLATIONS[GLOBAL]


def count_groups(runs: Runs, setting: str) -> int:
    """Return the number of groups in the reports of both methods; 0 if one of them reports none."""
    both = [runs.get(experiment_name(setting, method), {}) for method in (MIX, GLOBAL_ONLY)]
    if not all(both):
        return 0
    return min(len(_groups(run)) for seeds in both for run in seeds.values())


def group_recall(runs: Runs, setting: str, method: str, group: int, look: str) -> PerSeed:
    """Return Recall@20 of a group of users at a reporting point, by seed, for runs that report it."""
    return read_by_seed(runs.get(experiment_name(setting, method), {}), _recall_of, group, LOOK_KEYS[look])


def _recall_of(run: Run, group: int, key: str) -> float | None:
    groups, metric = _groups(run), PAPER.validation.removeprefix("val_")
    return groups[group].get(key, {}).get(metric) if group < len(groups) else None


def group_gain(runs: Runs, setting: str, group: int, look: str) -> PerSeed:
    """Return the lead of the mix over the global model in a group, by seed."""
    mix, global_only = (group_recall(runs, setting, method, group, look) for method in (MIX, GLOBAL_ONLY))
    return seed_differences(mix, global_only)


def interaction_range(runs: Runs, setting: str, group: int) -> str:
    """Return the fewest and the most training interactions of a group's users, over all seeds."""
    found = [
        own[group]
        for run in runs.get(experiment_name(setting, MIX), {}).values()
        if group < len(own := _groups(run))
    ]
    if not found:
        return report.DASH
    low, high = min(one["train_min"] for one in found), max(one["train_max"] for one in found)
    return f"{low}" if low == high else f"{low} to {high}"


def _groups(run: Run) -> Sequence[Mapping[str, Any]]:
    """Return the groups by activity in a summary; empty for runs without them."""
    return (run.summary or {}).get("by_activity") or []


def activity_tables(runs: Runs) -> Iterator[DocumentBlock]:
    """Yield, per setting with both methods, recall of the mix and of the global model by group."""
    titles: list[GridColumn | str] = ["group", "interactions"]
    titles += [GridColumn(look, ("mix", "global", "gain")) for look in LOOK_KEYS]
    rows: dict[str, list[GridRow]] = {setting: [] for setting in SETTINGS}
    for setting, own in rows.items():
        for group in range(count_groups(runs, setting)):
            own.append([f"{group + 1}", interaction_range(runs, setting, group)])
            for look in LOOK_KEYS:
                recalls = [group_recall(runs, setting, one, group, look) for one in (MIX, GLOBAL_ONLY)]
                own[-1] += map(report.format_mean, [*recalls, group_gain(runs, setting, group, look)])
    about = STUDY.plan["report"]["activity"]
    yield from report.setting_tables("Users who gain from personal models", "deciles", about, titles, rows, 2)


def _spread(runs: Runs, setting: str) -> Evidence:
    for group in (POPULAR, OTHERS):
        whole, without = (
            uniformity_by_seed(runs, experiment_name(setting, FEDERATED[row]), group)
            for row in (WHOLE, "PerFedRec")
        )
        words = f"uniformity of {group} items: {mean(whole):.3f} and {mean(without):.3f}"
        yield words, seed_differences(without, whole)


def _every_group(runs: Runs, setting: str) -> Evidence:
    for group in range(count_groups(runs, setting)):
        mix = mean(group_recall(runs, setting, MIX, group, BEST))
        words = (
            f"users with {interaction_range(runs, setting, group)} interactions, Recall@20 {mix:.{DIGITS}f}"
        )
        yield words, group_gain(runs, setting, group, BEST)


def _ends(runs: Runs, setting: str) -> Evidence:
    number = count_groups(runs, setting)
    if number > 1:
        least, most = (group_gain(runs, setting, group, BEST) for group in (0, number - 1))
        words = f"gains of Recall@20: {mean(least):+.{DIGITS}f} and {mean(most):+.{DIGITS}f}"
        yield words, seed_differences(least, most)


CLAIMS = {
    "Pre-training spreads the vectors of items: their uniformity is below that of PerFedRec": _spread,
    "Not in the paper: personal models help every group of users by activity": _every_group,
    "Not in the paper: they help the least active group more than the most active": _ends,
}


def extra_sections(runs: Runs) -> Iterator[DocumentBlock]:
    """Yield the sections between figures and times."""
    yield from PRICE.tables(runs)
    yield from uniformity_tables(PAPER, FEDERATED, runs)
    yield from activity_tables(runs)


def timing_group(experiment: str) -> str:
    """Return the group of a run in the table of times."""
    setting = PAPER.setting_of(experiment)
    return f"{setting}, centralised" if PAPER.has_other_epochs(experiment) else setting


REPORT = report.PaperReport(STUDY, PAPER, paper_figures(), extra_sections, timing_group, CLAIMS)

if __name__ == "__main__":
    StudyCommand(STUDY, comparison.selectable_names(STUDY), REPORT).main()
