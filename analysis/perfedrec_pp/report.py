"""The report of the study, and claims beyond the order of rows, also about personal models."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.papers.claims import Evidence, judge_claim, judge_declared
from analysis.papers.comparison import BEST
from analysis.papers.curves import seed_differences
from analysis.papers.document import DocumentBlock
from analysis.papers.printed_orders import DIGITS
from analysis.papers.report import PaperReport
from analysis.papers.verdict import ClaimVerdict, Runs, mean
from analysis.perfedrec_pp import PAPER, PRICE, STUDY
from analysis.perfedrec_pp.activity_groups import (
    MIX,
    activity_tables,
    count_groups,
    group_gain,
    group_recall,
    interaction_range,
)
from analysis.perfedrec_pp.figures import paper_figures

_PRICE = (
    "Each federated row at its best validation epoch, next to the centralised row with the model of its clients at its "
    "own best epoch. *Kept*: federated divided by centralised, in percent, here and as published; with several seeds, "
    "seed by seed. A row whose best epoch is its last may not have converged."
)


def judge_claims(runs: Runs) -> list[ClaimVerdict]:
    """Return the verdicts on the claims beyond the table's orders, in every setting that was run."""
    every = "Not in the paper: personal models help every group of users by activity"
    ends = "Not in the paper: they help the least active group more than the most active"
    return [
        *judge_declared(PAPER, runs),
        judge_claim(PAPER, every, _every_group, runs),
        judge_claim(PAPER, ends, _ends, runs),
    ]


def _every_group(runs: Runs, setting: str) -> Evidence:
    for group in range(count_groups(runs, setting)):
        margins = group_gain(runs, setting, group, BEST)
        if margins:
            mix = group_recall(runs, setting, MIX, group, BEST)
            users = f"users with {interaction_range(runs, setting, group)} interactions"
            yield f"{users}, Recall@20 {mean(mix):.{DIGITS}f}", margins


def _ends(runs: Runs, setting: str) -> Evidence:
    number = count_groups(runs, setting)
    if number > 1:
        least, most = group_gain(runs, setting, 0, BEST), group_gain(runs, setting, number - 1, BEST)
        margins = seed_differences(least, most)
        if margins:
            yield f"gains of Recall@20: {mean(least):+.{DIGITS}f} and {mean(most):+.{DIGITS}f}", margins


def extra_sections(runs: Runs) -> Iterator[DocumentBlock]:
    """Yield the sections between figures and times."""
    yield from PRICE.tables(runs, PAPER.metrics, title="The price of federation", name="price", about=_PRICE)
    yield from activity_tables(runs)


def timing_group(experiment: str) -> str:
    """Return the group of a run in the table of times."""
    setting = PAPER.setting_of(experiment)
    return f"{setting}, centralised" if PAPER.has_other_epochs(experiment) else setting


REPORT = PaperReport(STUDY, PAPER, paper_figures(), extra_sections, judge_claims, timing_group)
