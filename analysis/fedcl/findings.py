"""What the paper says beyond the order of its rows, and what it does not ask: what told vectors give away."""

from __future__ import annotations

from functools import partial

from analysis.fedcl.beside_central import has_converged
from analysis.fedcl.experiments import (
    ABLATIONS,
    BEST_VALUES,
    EPSILON,
    MODELS,
    PAPER,
    SPREAD,
    SWEEPS,
    SWEPT,
    told_by,
)
from analysis.fedcl.told_vectors import told
from analysis.papers.claims import Finding
from analysis.papers.comparison import BEST, LAST, name_of
from analysis.papers.curves import differences, score
from analysis.papers.evidence import DIGITS, Evidence, above_popularity, judged
from analysis.papers.seeds import PerSeed, Runs, mean

IN_WORDS = {LAST: "at equal rounds", BEST: "at the best validation report"}
HARDLY = 0.01
"""What counts as no more than guessing."""
_IN_PRINT = {
    "clusters": "25 clusters are the best (section 4.5)",
    "share": "R = 25 % is the best (appendix)",
    "semi-hard": "T = 20 semi-hard negatives are the best (appendix)",
    "local": "K = 10 local negatives are the best (appendix)",
}


def claims(runs: Runs) -> list[Finding]:
    """Return what became of what the paper says beyond its tables' orders, in both settings."""
    found = [above_popularity(PAPER, runs)]
    for model, central in MODELS.items():
        ahead = partial(_ahead, first=f"{central}-fedcl", second=central, look=BEST)
        found.append(judged(PAPER, f"{model}+FedCL recommends better than centralised {model}", ahead, runs))
    for look, when in IN_WORDS.items():
        for model, own in MODELS.items():
            for words, way in (("Fed", "fed"), ("BIL", "bil")):
                ahead = partial(_ahead, first=f"{own}-fedcl", second=f"{own}-{way}", look=look)
                claim = f"{model}+FedCL recommends better than {model}+{words}, {when}"
                found.append(judged(PAPER, claim, ahead, runs))
    for model, own in MODELS.items():
        below = partial(_ahead, first=own, second=f"{own}-fed", look=BEST)
        found.append(judged(PAPER, f"{model}+Fed stays below centralised {model}", below, runs))
    for words, method in ABLATIONS.items():
        less = partial(_ahead, first=SWEPT, second=method, look=BEST)
        found.append(judged(PAPER, f"Ablation: with {words} it recommends worse", less, runs))
    for option, claim in _IN_PRINT.items():
        found.append(judged(PAPER, claim, partial(_best_value, option=option), runs))
    claim = "Not in the paper: what spreads items out helps BIL (weight 0.1 against none)"
    spread = partial(_ahead, first=SPREAD[0.1], second=SPREAD[0], look=BEST)
    found.append(judged(PAPER, claim, spread, runs))
    return [*found, *_leaks(runs)]


def _leaks(runs: Runs) -> list[Finding]:
    """Return what becomes of questions about told vectors that the paper does not ask."""
    about = {
        "what a user tells is not recognised by what it told before": ("re-identified", "guessing"),
        "told vectors do not tell who is alike (CDA)": ("CDA", "CDA, guessing"),
        "nor do means of all that a user told": ("CDA of means", "CDA, guessing"),
    }
    return [
        judged(
            PAPER,
            f"Not in the paper: with epsilon 4 {words} (by {HARDLY} more often than by guessing at most)",
            partial(_no_more, column=column, guess=guess),
            runs,
        )
        for words, (column, guess) in about.items()
    ] + [judged(PAPER, "Not in the paper: less noise recommends better", _less_noise, runs)]


def _score(runs: Runs, setting: str, method: str, column: str, look: str) -> PerSeed:
    return score(PAPER, runs, name_of(setting, method), column, look)


def _ahead(runs: Runs, setting: str, *, first: str, second: str, look: str) -> Evidence:
    """Yield by how much a method is ahead of another."""
    for column in PAPER.metrics:
        ours, theirs = (_score(runs, setting, method, column, look) for method in (first, second))
        margins = differences(ours, theirs)
        if margins:
            words = f"{column} {mean(ours):.{DIGITS}f} against {mean(theirs):.{DIGITS}f}"
            yield f"{words}{_if_unfinished(runs, setting, (first, second), look)}", margins


def _if_unfinished(runs: Runs, setting: str, methods: tuple[str, ...], look: str) -> str:
    """Return a remark on methods that were still rising where they are compared at their best."""
    names = [name_of(setting, method) for method in methods]
    rising = [name for name in names if look == BEST and not has_converged(runs, name)]
    return f" ({' and '.join(rising)} best at the last report: perhaps not converged)" if rising else ""


def _best_value(runs: Runs, setting: str, *, option: str) -> Evidence:
    """Yield by how much the best value of the paper is ahead of each other one."""
    methods, best = SWEEPS[option], BEST_VALUES[option]
    ours = _score(runs, setting, methods[best], "HR@10", BEST)
    for value, method in methods.items():
        theirs = _score(runs, setting, method, "HR@10", BEST)
        margins = differences(ours, theirs) if value != best else {}
        if margins:
            yield f"HR@10 {mean(ours):.{DIGITS}f}, with {value:g} {mean(theirs):.{DIGITS}f}", margins


def _no_more(runs: Runs, setting: str, *, column: str, guess: str) -> Evidence:
    """Yield how far a leak of each model with the default epsilon is from more than guessing."""
    for words, method in told_by(setting).items():
        if method not in EPSILON.values() or method == SWEPT:
            found, by_chance = (told(runs, name_of(setting, method), name) for name in (column, guess))
            margins = {seed: HARDLY - by for seed, by in differences(found, by_chance).items()}
            if margins:
                yield f"{words}, {mean(found):.{DIGITS}f}, guessing {mean(by_chance):.{DIGITS}f}", margins


def _less_noise(runs: Runs, setting: str) -> Evidence:
    """Yield by how much no noise is ahead of each budget."""
    *budgets, without = EPSILON.items()
    ours = _score(runs, setting, without[1], "HR@10", BEST)
    for epsilon, method in budgets:
        theirs = _score(runs, setting, method, "HR@10", BEST)
        margins = differences(ours, theirs)
        if margins:
            words = f"HR@10 {mean(ours):.{DIGITS}f} without noise"
            yield f"{words}, {mean(theirs):.{DIGITS}f} with epsilon {epsilon:g}", margins
