"""The report of the study, and claims beyond the order of rows, also about personal models."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial

from analysis.papers.comparison import BEST, LAST, experiment_name
from analysis.papers.curves import reported_score, seed_differences
from analysis.papers.document import DocumentBlock
from analysis.papers.printed_orders import DIGITS, Evidence, beats_popularity, judge_claim
from analysis.papers.report import StudyReport
from analysis.papers.verdict import ClaimVerdict, PerSeed, Runs, mean
from analysis.perfedrec_pp.activity_groups import (
    activity_tables,
    count_groups,
    group_gain,
    group_metric,
    interaction_range,
)
from analysis.perfedrec_pp.federation_cost import central_score, federation_cost_tables, has_converged
from analysis.perfedrec_pp.figures import paper_figures
from analysis.perfedrec_pp.plan import ABLATIONS, COUNTERPARTS, FEDERATED, PAPER, STUDY, SWEEPS, VIEWS, WHOLE

IN_WORDS = {LAST: "at equal rounds", BEST: "after convergence"}
"""Description of an improvement at a reporting point; the second compares rows at their best validation epochs."""


def judge_claims(runs: Runs) -> list[ClaimVerdict]:
    """Return the verdicts on the claims beyond the table's orders, in every setting that was run."""
    found = [beats_popularity(PAPER, runs)]
    for look, when in IN_WORDS.items():
        for other in (row for row in FEDERATED if row != WHOLE):
            ahead = partial(_ahead, other=other, look=look)
            found.append(judge_claim(PAPER, f"{WHOLE} recommends better than {other}, {when}", ahead, runs))
    for look, when in IN_WORDS.items():
        for part, method in ABLATIONS.items():
            less = partial(_less, method=method, look=look)
            found.append(judge_claim(PAPER, f"Table 5, {when}: with {part} it recommends worse", less, runs))
    found += [
        judge_claim(
            PAPER, "Federated rows stay below the centralised row with their model", _below_central, runs
        ),
        judge_claim(PAPER, "Not in the paper: less noise at clients recommends better", _less_noise, runs),
        judge_claim(
            PAPER,
            "Not in the paper: views of its equations recommend better than its code's",
            _views,
            runs,
        ),
        judge_claim(
            PAPER,
            "Not in the paper: personal models help every group of users by activity",
            _every_group,
            runs,
        ),
        judge_claim(
            PAPER, "Not in the paper: they help the least active group more than the most active", _ends, runs
        ),
    ]
    return found


def _ahead(runs: Runs, setting: str, *, other: str, look: str) -> Evidence:
    """Yield the lead of the whole method over another federated row, with the printed lead."""
    for column in PAPER.metrics:
        ours, theirs = (_score(runs, setting, FEDERATED[row], column, look) for row in (WHOLE, other))
        margins = seed_differences(ours, theirs)
        if margins:
            first, second = (PAPER.published.value_of(PAPER.main, row, column) for row in (WHOLE, other))
            said = f"{_gain(mean(ours), mean(theirs))}, printed {_gain(first, second)}"
            yield f"{column}: {said}{_if_unfinished(runs, setting, (WHOLE, other), look)}", margins


def _less(runs: Runs, setting: str, *, method: str, look: str) -> Evidence:
    """Yield the lead of the whole method over a variant that lacks a part."""
    for column in PAPER.metrics:
        whole, without = (_score(runs, setting, one, column, look) for one in (FEDERATED[WHOLE], method))
        margins = seed_differences(whole, without)
        if margins:
            yield f"{column} {mean(without):.{DIGITS}f}, the whole {mean(whole):.{DIGITS}f}", margins


def _below_central(runs: Runs, setting: str) -> Evidence:
    for row, central in COUNTERPARTS.items():
        ours, theirs = (
            _score(runs, setting, FEDERATED[row], "Recall@20", BEST),
            central_score(runs, central, "Recall@20"),
        )
        margins = seed_differences(theirs, ours)
        if margins:
            words = f"Recall@20 of {row} {mean(ours):.{DIGITS}f}, of centralised {central} {mean(theirs):.{DIGITS}f}"
            yield f"{words}{_if_unfinished(runs, setting, (row,), BEST)}", margins


def _less_noise(runs: Runs, setting: str) -> Evidence:
    """Yield the lead of each scale of noise over the next larger one."""
    found = {
        scale: _score(runs, setting, method, "Recall@20", BEST)
        for scale, method in sorted(SWEEPS["noise"].items())
    }
    known = [(scale, own) for scale, own in found.items() if own]
    for (low, better), (high, worse) in itertools.pairwise(known):
        margins = seed_differences(better, worse)
        if margins:
            yield (
                f"Recall@20 {mean(better):.{DIGITS}f} with scale {low:g}, {mean(worse):.{DIGITS}f} with {high:g}",
                margins,
            )


def _views(runs: Runs, setting: str) -> Evidence:
    for column in PAPER.metrics:
        code, mix = (_score(runs, setting, VIEWS[name], column, BEST) for name in ("noise", "mix"))
        margins = seed_differences(mix, code)
        if margins:
            yield f"{column} {mean(mix):.{DIGITS}f}, {mean(code):.{DIGITS}f} by its code", margins


def _every_group(runs: Runs, setting: str) -> Evidence:
    for group in range(count_groups(runs, setting)):
        margins = group_gain(runs, setting, group, BEST)
        if margins:
            mix = group_metric(runs, setting, FEDERATED[WHOLE], group, BEST)
            who = f"users of {interaction_range(runs, setting, group)} interactions"
            yield f"{who}, Recall@20 {mean(mix):.{DIGITS}f}", margins


def _ends(runs: Runs, setting: str) -> Evidence:
    number = count_groups(runs, setting)
    if number > 1:
        least, most = group_gain(runs, setting, 0, BEST), group_gain(runs, setting, number - 1, BEST)
        margins = seed_differences(least, most)
        if margins:
            yield f"they gain {mean(least):+.{DIGITS}f} and {mean(most):+.{DIGITS}f} of Recall@20", margins


def _score(runs: Runs, setting: str, method: str, column: str, look: str) -> PerSeed:
    return reported_score(PAPER, runs, experiment_name(setting, method), column, look)


def _gain(ours: float, theirs: float) -> str:
    return f"{100 * (ours / theirs - 1):+.1f} %" if theirs else "over nothing"


def _if_unfinished(runs: Runs, setting: str, rows: tuple[str, ...], look: str) -> str:
    """Return a remark on rows that were still improving at the claimed convergence."""
    rising = list(_rising(runs, setting, rows)) if look == BEST else []
    return f" ({' and '.join(rising)} best at the last epoch: perhaps not converged)" if rising else ""


def _rising(runs: Runs, setting: str, rows: tuple[str, ...]) -> Iterator[str]:
    return (row for row in rows if not has_converged(runs, setting, row))


def timing_group(experiment: str) -> str:
    """Return the group of a run in the table of times."""
    setting = PAPER.setting_of(experiment)
    return f"{setting}, centralised" if PAPER.is_apart(experiment) else setting


def extra_sections(runs: Runs) -> Iterator[DocumentBlock]:
    """Yield the sections between figures and times."""
    yield from federation_cost_tables(runs)
    yield from activity_tables(runs)


REPORT = StudyReport(
    paper=PAPER,
    beside="Compared with the PerFedRec++ paper on Yelp.",
    about="The published code is not the paper's algorithm in several places, so there are two settings, compared "
    "in this order:",
    below="An epoch of a federated row is a round, in which 256 clients are asked; that of a centralised row is a pass "
    "over all data, so these are compared with others at their best validation epoch alone. Of Yelp only Table 4 is at "
    "hand.",
    drawings=paper_figures(),
    sections=extra_sections,
    claims=judge_claims,
    experiments=STUDY.experiments,
    kind="setting",
    kind_of=timing_group,
)
write_report = REPORT.write
