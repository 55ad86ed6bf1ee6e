"""The report of the study, and the claims of the paper beyond the order of its rows."""

from __future__ import annotations

from functools import partial

from analysis.cl4fedrec import ATTACKS, PAPER, RULES, STUDY
from analysis.cl4fedrec.figures import paper_figures
from analysis.cl4fedrec.uniformity import uniformity_tables
from analysis.papers.claims import Evidence, beats_popularity, judge_claim
from analysis.papers.comparison import LAST, experiment_name
from analysis.papers.curves import metric_by_epoch, reported_score
from analysis.papers.report import PaperReport
from analysis.papers.verdict import ClaimVerdict, PerSeed, Runs, mean

EXPOSED, HIDDEN = 0.5, 0.05
"""ER@5 above which an item counts as promoted to all users, and below which as not promoted."""


def judge_claims(runs: Runs) -> list[ClaimVerdict]:
    """Return the verdicts on the claims beyond the tables' orders, in every setting that was run."""
    shown = (
        f"the least popular item is shown to more than half of the users (ER@5 above {EXPOSED} at some epoch)"
    )
    hidden = f"it is shown to hardly any user (ER@5 below {HIDDEN} at every epoch)"
    found = [beats_popularity(PAPER, runs)]
    for attack, words in ATTACKS.items():
        undefended = partial(_exposure, method=f"{attack}-none", bound=EXPOSED, sign=1)
        plain = partial(_exposure, method=f"{attack}-original", bound=EXPOSED, sign=1)
        found.append(judge_claim(PAPER, f"{words}, against Original: {shown}", plain, runs))
        found.append(judge_claim(PAPER, f"{words}, against CL4FedRec undefended: {shown}", undefended, runs))
        for defence, label in {"hics": "HiCS", "regulariser": "Regularizer"}.items():
            defended = partial(_exposure, method=f"{attack}-{defence}", bound=HIDDEN, sign=-1)
            found.append(judge_claim(PAPER, f"{words}, under {label}: {hidden}", defended, runs))
    costly = partial(_cost, rules=("krum", "median"), share=0.75, sign=-1)
    cheap = partial(_cost, rules=("trimmed-mean", "hics"), share=0.9, sign=1)
    found.append(judge_claim(PAPER, "Krum and Median cost at least a quarter of recall", costly, runs))
    found.append(judge_claim(PAPER, "Trimmed Mean and HiCS cost less than a tenth of recall", cheap, runs))
    return found


def _exposure(runs: Runs, setting: str, *, method: str, bound: float, sign: int) -> Evidence:
    """Yield the largest ER@5 over epochs, with its margin over a bound on the claimed side."""
    largest = _largest(runs, experiment_name(setting, method))
    attack = next(attack for attack in ATTACKS if method.startswith(attack))
    undefended = _largest(runs, experiment_name(setting, f"{attack}-none"))
    without = f" ({mean(undefended):.3f} undefended)" if undefended and sign < 0 else ""
    if largest:
        margins = {seed: sign * (value - bound) for seed, value in largest.items()}
        yield f"largest ER@5 {mean(largest):.3f}{without}", margins


def _largest(runs: Runs, experiment: str) -> PerSeed:
    """Return the largest ER@5 over epochs, by seed."""
    curves = {seed: metric_by_epoch(run, "er@5") for seed, run in runs.get(experiment, {}).items()}
    return {seed: max(by_epoch.values()) for seed, by_epoch in curves.items() if by_epoch}


def _cost(runs: Runs, setting: str, *, rules: tuple[str, ...], share: float, sign: int) -> Evidence:
    """Yield the recall lost to a rule at the last epoch, with its margin over a fraction on the claimed side."""
    plain = reported_score(PAPER, runs, experiment_name(setting, "cl4fedrec"), "Recall@20", LAST)
    for rule in rules:
        with_rule = reported_score(
            PAPER, runs, experiment_name(setting, f"cl4fedrec-{rule}"), "Recall@20", LAST
        )
        margins = {s: sign * (with_rule[s] - share * plain[s]) for s in with_rule if s in plain}
        if margins:
            ratio = mean({s: with_rule[s] / plain[s] for s in margins})
            yield f"{RULES[rule]}: {100 * (1 - ratio):.0f} % of recall lost at the last epoch", margins


REPORT = PaperReport(
    STUDY,
    PAPER,
    paper_figures(),
    uniformity_tables,
    judge_claims,
    lambda experiment: PAPER.setting_of(experiment).partition("-")[2],
)
