"""Gain or loss from personal models by activity of users: the mix compared with only the global model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from analysis.papers.comparison import BEST, LAST, experiment_name
from analysis.papers.curves import seed_differences
from analysis.papers.document import DocumentBlock, Grid, GridCell, GridColumn, Heading, ParagraphBlock
from analysis.papers.tables import DASH, format_mean
from analysis.papers.verdict import PerSeed, Runs
from analysis.perfedrec_pp.plan import ABLATIONS, FEDERATED, GLOBAL, PAPER, SETTINGS, WHOLE

WHEN = {LAST: "last", BEST: "validated"}
"""Name of each reporting point in summaries."""
MIX, ALONE = FEDERATED[WHOLE], ABLATIONS[GLOBAL]
_ABOUT = (
    "Users by the number of their training interactions, from the least active group on: Recall@20 of their mixes of "
    "local, cluster and global model, of the global model alone (another run with the same seed, trained alike), and "
    "the difference, at the last epoch and at each run's best."
)


def count_groups(runs: Runs, setting: str) -> int:
    """Return the number of groups in the reports of both methods; 0 if one of them reports none."""
    both = [runs.get(experiment_name(setting, method), {}) for method in (MIX, ALONE)]
    if not all(both):
        return 0
    return min(len(_groups(run.summary)) for seeds in both for run in seeds.values())


def group_metric(
    runs: Runs, setting: str, method: str, group: int, look: str, column: str = "Recall@20"
) -> PerSeed:
    """Return a metric of a group of users at a reporting point, by seed, for runs that report it."""
    found = {}
    for seed, run in runs.get(experiment_name(setting, method), {}).items():
        told = _groups(run.summary)
        value = told[group].get(WHEN[look], {}).get(PAPER.metrics[column]) if group < len(told) else None
        if value is not None:
            found[seed] = float(value)
    return found


def group_gain(runs: Runs, setting: str, group: int, look: str) -> PerSeed:
    """Return the lead of the mix over the global model in a group, by seed."""
    mix, alone = (group_metric(runs, setting, method, group, look) for method in (MIX, ALONE))
    return seed_differences(mix, alone)


def interaction_range(runs: Runs, setting: str, group: int) -> str:
    """Return the fewest and the most training interactions of a group's users, over all seeds."""
    told = [
        own[group]
        for run in runs.get(experiment_name(setting, MIX), {}).values()
        if group < len(own := _groups(run.summary))
    ]
    if not told:
        return DASH
    low, high = min(one["train_min"] for one in told), max(one["train_max"] for one in told)
    return f"{low}" if low == high else f"{low} to {high}"


def activity_tables(runs: Runs) -> Iterator[DocumentBlock]:
    """Yield, per setting with both methods, recall of the mix and of the global model by group."""
    found = {setting: count_groups(runs, setting) for setting in SETTINGS}
    if not any(found.values()):
        return
    yield Heading(2, "Users who gain from personal models", "deciles")
    yield ParagraphBlock(_ABOUT)
    columns = [
        GridColumn("group"),
        GridColumn("interactions"),
        *(GridColumn(look, ("mix", "global", "gain")) for look in WHEN),
    ]
    for setting, number in found.items():
        rows = [_row(runs, setting, group) for group in range(number)]
        if rows:
            yield Heading(3, f"Setting {setting}", f"deciles-{setting}")
            yield Grid(f"Gain by activity, {setting}", columns, rows, 2)


def _row(runs: Runs, setting: str, group: int) -> list[GridCell]:
    fields = [GridCell(f"{group + 1}"), GridCell(interaction_range(runs, setting, group))]
    for look in WHEN:
        fields += [format_mean(group_metric(runs, setting, method, group, look)) for method in (MIX, ALONE)]
        fields.append(format_mean(group_gain(runs, setting, group, look)))
    return fields


def _groups(summary: Mapping[str, Any] | None) -> Sequence[Mapping[str, Any]]:
    """Return the groups by activity in a summary; empty for runs without them."""
    return (summary or {}).get("by_activity") or []
