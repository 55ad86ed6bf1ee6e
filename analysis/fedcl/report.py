"""The report of the study, and claims beyond the order of rows, also about user uploads."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from analysis.fedcl.central_comparison import central_tables, has_converged
from analysis.fedcl.figures import paper_figures
from analysis.fedcl.plan import (
    ABLATIONS,
    BEST_VALUES,
    EPSILON,
    MODELS,
    PAPER,
    SPREAD,
    STUDY,
    SWEEPS,
    SWEPT,
    methods_with_uploads,
)
from analysis.fedcl.user_vector_leakage import leakage_number, leakage_tables
from analysis.papers.comparison import BEST, LAST, experiment_name
from analysis.papers.curves import reported_score, seed_differences
from analysis.papers.document import DocumentBlock
from analysis.papers.printed_orders import DIGITS, Evidence, beats_popularity, judge_claim
from analysis.papers.report import StudyReport
from analysis.papers.verdict import ClaimVerdict, PerSeed, Runs, mean

IN_WORDS = {LAST: "at equal rounds", BEST: "at the best validation report"}
HARDLY = 0.01
"""Margin over guessing that counts as none."""
_IN_PRINT = {
    "clusters": "25 clusters are the best (section 4.5)",
    "share": "R = 25 % is the best (appendix)",
    "semi-hard": "T = 20 semi-hard negatives are the best (appendix)",
    "local": "K = 10 local negatives are the best (appendix)",
}


def judge_claims(runs: Runs) -> list[ClaimVerdict]:
    """Return the verdicts on the claims beyond the tables' orders, in both settings."""
    found = [beats_popularity(PAPER, runs)]
    for model, central in MODELS.items():
        ahead = partial(_ahead, first=f"{central}-fedcl", second=central, look=BEST)
        found.append(
            judge_claim(PAPER, f"{model}+FedCL recommends better than centralised {model}", ahead, runs)
        )
    for look, when in IN_WORDS.items():
        for model, own in MODELS.items():
            for words, way in (("Fed", "fed"), ("BIL", "bil")):
                ahead = partial(_ahead, first=f"{own}-fedcl", second=f"{own}-{way}", look=look)
                claim = f"{model}+FedCL recommends better than {model}+{words}, {when}"
                found.append(judge_claim(PAPER, claim, ahead, runs))
    for model, own in MODELS.items():
        below = partial(_ahead, first=own, second=f"{own}-fed", look=BEST)
        found.append(judge_claim(PAPER, f"{model}+Fed stays below centralised {model}", below, runs))
    for words, method in ABLATIONS.items():
        less = partial(_ahead, first=SWEPT, second=method, look=BEST)
        found.append(judge_claim(PAPER, f"Ablation: with {words} it recommends worse", less, runs))
    for option, claim in _IN_PRINT.items():
        found.append(judge_claim(PAPER, claim, partial(_best_value, option=option), runs))
    claim = "Not in the paper: what spreads items out helps BIL (weight 0.1 against none)"
    spread = partial(_ahead, first=SPREAD[0.1], second=SPREAD[0], look=BEST)
    found.append(judge_claim(PAPER, claim, spread, runs))
    return [*found, *_leaks(runs)]


def _leaks(runs: Runs) -> list[ClaimVerdict]:
    """Return the verdicts on questions about user uploads that the paper does not ask."""
    about = {
        "the last upload of a user does not match its earlier uploads": ("re-identified", "guessing"),
        "uploaded vectors do not reveal similar users (CDA)": ("CDA", "CDA, guessing"),
        "means over all uploads of a user do not reveal them either": ("CDA of means", "CDA, guessing"),
    }
    return [
        judge_claim(
            PAPER,
            f"Not in the paper: with epsilon 4 {words} (by {HARDLY} more often than by guessing at most)",
            partial(_no_more, column=column, guess=guess),
            runs,
        )
        for words, (column, guess) in about.items()
    ] + [judge_claim(PAPER, "Not in the paper: less noise recommends better", _less_noise, runs)]


def _score(runs: Runs, setting: str, method: str, column: str, look: str) -> PerSeed:
    return reported_score(PAPER, runs, experiment_name(setting, method), column, look)


def _ahead(runs: Runs, setting: str, *, first: str, second: str, look: str) -> Evidence:
    """Yield the lead of one method over another."""
    for column in PAPER.metrics:
        ours, theirs = (_score(runs, setting, method, column, look) for method in (first, second))
        margins = seed_differences(ours, theirs)
        if margins:
            words = f"{column} {mean(ours):.{DIGITS}f} against {mean(theirs):.{DIGITS}f}"
            yield f"{words}{_if_unfinished(runs, setting, (first, second), look)}", margins


def _if_unfinished(runs: Runs, setting: str, methods: tuple[str, ...], look: str) -> str:
    """Return a remark on methods that were still improving at their best report."""
    names = [experiment_name(setting, method) for method in methods]
    rising = [name for name in names if look == BEST and not has_converged(runs, name)]
    return f" ({' and '.join(rising)} best at the last report: perhaps not converged)" if rising else ""


def _best_value(runs: Runs, setting: str, *, option: str) -> Evidence:
    """Yield the lead of the paper's best value over each other value."""
    methods, best = SWEEPS[option], BEST_VALUES[option]
    ours = _score(runs, setting, methods[best], "HR@10", BEST)
    for value, method in methods.items():
        theirs = _score(runs, setting, method, "HR@10", BEST)
        margins = seed_differences(ours, theirs) if value != best else {}
        if margins:
            yield f"HR@10 {mean(ours):.{DIGITS}f}, with {value:g} {mean(theirs):.{DIGITS}f}", margins


def _no_more(runs: Runs, setting: str, *, column: str, guess: str) -> Evidence:
    """Yield, per model with the default epsilon, the margin by which its leakage is below guessing plus a tolerance."""
    for words, method in methods_with_uploads(setting).items():
        if method not in EPSILON.values() or method == SWEPT:
            found, by_chance = (
                leakage_number(runs, experiment_name(setting, method), name) for name in (column, guess)
            )
            margins = {seed: HARDLY - by for seed, by in seed_differences(found, by_chance).items()}
            if margins:
                yield f"{words}, {mean(found):.{DIGITS}f}, guessing {mean(by_chance):.{DIGITS}f}", margins


def _less_noise(runs: Runs, setting: str) -> Evidence:
    """Yield the lead of no noise over each budget."""
    *budgets, without = EPSILON.items()
    ours = _score(runs, setting, without[1], "HR@10", BEST)
    for epsilon, method in budgets:
        theirs = _score(runs, setting, method, "HR@10", BEST)
        margins = seed_differences(ours, theirs)
        if margins:
            words = f"HR@10 {mean(ours):.{DIGITS}f} without noise"
            yield f"{words}, {mean(theirs):.{DIGITS}f} with epsilon {epsilon:g}", margins


def timing_group(experiment: str) -> str:
    """Return the group of a run in the table of times."""
    setting = PAPER.setting_of(experiment)
    method = experiment.removeprefix(f"{setting}-")
    if PAPER.is_apart(experiment):
        return f"{setting}, {method} centralised"
    model = method.partition("-")[0]
    return f"{setting}, {model if model in MODELS.values() else 'gru4rec'} federated"


def extra_sections(runs: Runs) -> Iterator[DocumentBlock]:
    """Yield the sections between figures and times."""
    yield from central_tables(runs)
    yield from leakage_tables(runs)


REPORT = StudyReport(
    paper=PAPER,
    beside="Compared with the FedCL paper on Amazon Beauty and MovieLens-1M.",
    about="Both data sets are others than the paper's, so that orders say more than levels do:",
    below="An epoch of a federated row is as many rounds of 16 clients as make up the number of clients, 1,398 on "
    "Beauty and 377 on MovieLens-1M; its reports are numbered by rounds. An epoch of a centralised row is a pass over "
    "all data, so these rows are compared with others at their best validation report alone. *NCF* in the federated "
    "rows is two towers, which score by a dot product as the paper's loss wants it.",
    drawings=paper_figures(),
    sections=extra_sections,
    claims=judge_claims,
    experiments=STUDY.experiments,
    kind="what",
    kind_of=timing_group,
)
write_report = REPORT.write
