"""The report of the study, and claims beyond the order of rows, also about contributed data."""

from __future__ import annotations

from functools import partial

from analysis.papers.comparison import BEST, LAST, experiment_name
from analysis.papers.curves import reported_score, seed_differences
from analysis.papers.printed_orders import DIGITS, Evidence, beats_popularity, judge_claim
from analysis.papers.report import StudyReport
from analysis.papers.verdict import ClaimVerdict, PerSeed, Runs, mean
from analysis.pdc_frs.contribution_leakage import leakage_number, leakage_tables
from analysis.pdc_frs.figures import paper_figures
from analysis.pdc_frs.plan import PAPER, STUDY, WEIGHTS, methods_by_epsilon

BEST_WEIGHT = 0.05
NEARLY_ALL, HARDLY = 0.9, 0.01
"""Fraction of items kept above which they are nearly the training data; margin over popularity that counts as none."""


def judge_claims(runs: Runs) -> list[ClaimVerdict]:
    """Return the verdicts on the claims beyond the table's orders, in every setting that was run."""
    found = [
        beats_popularity(PAPER, runs),
        judge_claim(PAPER, "PDC-FRS recommends better than FedNCF", _ahead, runs),
    ]
    for letter in ("lambda", "beta"):
        best = partial(_best_weight, letter=letter)
        found.append(judge_claim(PAPER, f"{letter} = {BEST_WEIGHT} is the best (section 5.8)", best, runs))
    nearly = f"With epsilon 30 nearly the training data are contributed (kept above {NEARLY_ALL})"
    found.append(judge_claim(PAPER, nearly, _kept, runs))
    for column, what in (("MIA, contributed", "contributed sets"), ("MIA, auxiliary", "the auxiliary model")):
        known = partial(_no_more_than_popularity, column=column)
        claim = f"Not in the paper: with epsilon 5 {what} tell no more of who has what than popularity does"
        found.append(judge_claim(PAPER, f"{claim} (AUC, by {HARDLY} at most)", known, runs))
    return found


def _ahead(runs: Runs, setting: str) -> Evidence:
    for column in PAPER.metrics:
        for look in (LAST, BEST):
            ours, without = (
                reported_score(PAPER, runs, experiment_name(setting, method), column, look)
                for method in ("pdc-frs", "fedncf")
            )
            margins = seed_differences(ours, without)
            if margins:
                words = f"{column} {mean(ours):.{DIGITS}f}, FedNCF {mean(without):.{DIGITS}f}, {look}"
                yield words, margins


def _best_weight(runs: Runs, setting: str, *, letter: str) -> Evidence:
    """Yield the lead of the paper's best weight over each other weight."""
    methods = WEIGHTS[letter]

    def recall(value: float) -> PerSeed:
        return reported_score(PAPER, runs, experiment_name(setting, methods[value]), "Recall@20", LAST)

    for value in methods:
        margins = seed_differences(recall(BEST_WEIGHT), recall(value))
        if margins and value != BEST_WEIGHT:
            yield f"Recall@20 at the last epoch against {letter} = {value:g}", margins


def _kept(runs: Runs, setting: str) -> Evidence:
    for similarity, methods in methods_by_epsilon(setting).items():
        kept = leakage_number(runs, experiment_name(setting, methods[30]), "kept")
        if kept:
            yield f"{similarity}, kept {mean(kept):.3f}", {s: value - NEARLY_ALL for s, value in kept.items()}


def _no_more_than_popularity(runs: Runs, setting: str, *, column: str) -> Evidence:
    for similarity, methods in methods_by_epsilon(setting).items():
        name = experiment_name(setting, methods[5])
        found, popular = leakage_number(runs, name, column), leakage_number(runs, name, "MIA, popularity")
        if found:
            words = f"{similarity}, AUC {mean(found):.3f}, popularity {mean(popular):.3f}"
            yield words, {seed: HARDLY - by for seed, by in seed_differences(found, popular).items()}


REPORT = StudyReport(
    paper=PAPER,
    beside="Compared with the PDC-FRS paper on MovieLens-1M and Amazon Office.",
    about="The text says that a random fifth of the items is for test, where everything lies far above the print; so "
    "each is run in named settings, compared in this order:",
    below="FedMF is FCF under encryption and has its numbers: one method stands in both rows. The paper's word vectors "
    "are not named: titles are compared by TF-IDF.",
    drawings=paper_figures(),
    sections=leakage_tables,
    claims=judge_claims,
    experiments=STUDY.experiments,
    kind="setting",
    kind_of=PAPER.setting_of,
)
write_report = REPORT.write
