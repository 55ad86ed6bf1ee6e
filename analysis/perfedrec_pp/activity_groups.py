"""Gain or loss from personal models by activity of users: the mix compared with only the global model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from analysis.papers.comparison import BEST, LAST, experiment_name
from analysis.papers.curves import read_by_seed, seed_differences
from analysis.papers.document import DocumentBlock, GridCell, GridColumn
from analysis.papers.sections import setting_tables
from analysis.papers.tables import DASH, format_mean
from analysis.papers.verdict import PerSeed, Runs
from analysis.perfedrec_pp import ABLATIONS, FEDERATED, GLOBAL, PAPER, SETTINGS, WHOLE
from gossiprec.runs import Run

LOOK_KEYS = {LAST: "last", BEST: "validated"}
"""Key of each reporting point in summaries."""
MIX, GLOBAL_ONLY = FEDERATED[WHOLE], ABLATIONS[GLOBAL]
_ABOUT = (
    "Users in groups by the number of their training interactions, the least active first: Recall@20 of the mixes of "
    "local, cluster and global model, of only the global model (another run with the same seed, trained in the same "
    "way), and the difference, at the last epoch and at the best epoch of each run."
)


def count_groups(runs: Runs, setting: str) -> int:
    """Return the number of groups in the reports of both methods; 0 if one of them reports none."""
    both = [runs.get(experiment_name(setting, method), {}) for method in (MIX, GLOBAL_ONLY)]
    if not all(both):
        return 0
    return min(len(_groups(run)) for seeds in both for run in seeds.values())


def group_recall(runs: Runs, setting: str, method: str, group: int, look: str) -> PerSeed:
    """Return Recall@20 of a group of users at a reporting point, by seed, for runs that report it."""

    def read(run: Run) -> float | None:
        groups = _groups(run)
        return (
            groups[group].get(LOOK_KEYS[look], {}).get(PAPER.validation.removeprefix("val_"))
            if group < len(groups)
            else None
        )

    return read_by_seed(runs.get(experiment_name(setting, method), {}), read)


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
        return DASH
    low, high = min(one["train_min"] for one in found), max(one["train_max"] for one in found)
    return f"{low}" if low == high else f"{low} to {high}"


def _groups(run: Run) -> Sequence[Mapping[str, Any]]:
    """Return the groups by activity in a summary; empty for runs without them."""
    return (run.summary or {}).get("by_activity") or []


def activity_tables(runs: Runs) -> Iterator[DocumentBlock]:
    """Yield, per setting with both methods, recall of the mix and of the global model by group."""
    titles: list[GridColumn | str] = ["group", "interactions"]
    titles += [GridColumn(look, ("mix", "global", "gain")) for look in LOOK_KEYS]
    rows = {
        setting: [_row(runs, setting, group) for group in range(count_groups(runs, setting))]
        for setting in SETTINGS
    }
    yield from setting_tables("Users who gain from personal models", "deciles", _ABOUT, titles, rows, 2)


def _row(runs: Runs, setting: str, group: int) -> list[GridCell]:
    fields = [GridCell(f"{group + 1}"), GridCell(interaction_range(runs, setting, group))]
    for look in LOOK_KEYS:
        fields += [
            format_mean(group_recall(runs, setting, method, group, look)) for method in (MIX, GLOBAL_ONLY)
        ]
        fields.append(format_mean(group_gain(runs, setting, group, look)))
    return fields
