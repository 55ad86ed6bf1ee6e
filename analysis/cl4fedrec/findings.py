"""What the paper says beyond the order of its rows: of attacks, of defences and what they cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from analysis.cl4fedrec.curves import LAST, curve, differences, level, score
from analysis.cl4fedrec.experiments import ATTACKS, DEFENCES, RULES, SETTINGS, TABLE_ROWS, name_of
from analysis.papers.claims import NOT_MEASURED, Finding, decided, in_words, together
from analysis.papers.seeds import PerSeed, Runs, mean

DIGITS = 4
EXPOSED, HIDDEN = 0.5, 0.05
"""ER@5 above which an item counts as promoted to everybody, and below which as not promoted."""


def claims(runs: Runs) -> list[Finding]:
    """Return what became of what the paper says beyond its tables' orders, in every setting that was run."""
    shown = (
        f"the least popular item is shown to more than half of the users (ER@5 above {EXPOSED} at some epoch)"
    )
    hidden = f"it is shown to hardly anybody (ER@5 below {HIDDEN} at every epoch)"
    found = [_judged("Methods recommend better than the most popular items", _above_popularity, runs)]
    for attack, words in ATTACKS.items():
        undefended = partial(_exposure, method=f"{attack}-none", bound=EXPOSED, sign=1)
        plain = partial(_exposure, method=f"{attack}-original", bound=EXPOSED, sign=1)
        found.append(_judged(f"{words}, against Original: {shown}", plain, runs))
        found.append(_judged(f"{words}, against CL4FedRec undefended: {shown}", undefended, runs))
        for defence in ("hics", "regulariser"):
            defended = partial(_exposure, method=f"{attack}-{defence}", bound=HIDDEN, sign=-1)
            found.append(_judged(f"{words}, under {DEFENCES[defence]}: {hidden}", defended, runs))
    costly = partial(_cost, rules=("krum", "median"), share=0.75, sign=-1)
    cheap = partial(_cost, rules=("trimmed-mean", "hics"), share=0.9, sign=1)
    found.append(_judged("Krum and Median cost at least a quarter of recall", costly, runs))
    found.append(_judged("Trimmed Mean and HiCS cost less than a tenth of recall", cheap, runs))
    return found


Evidence = Iterator[tuple[str, PerSeed]]
"""What was found, in words, and by how much the claim holds, by seed."""


def _judged(claim: str, evidence: Callable[[Runs, str], Evidence], runs: Runs) -> Finding:
    found = [(setting, *one) for setting in SETTINGS for one in evidence(runs, setting)]
    lines = [
        f"{setting}: {words}; {in_words(margins, DIGITS)}" for setting, words, margins in found if margins
    ]
    verdict = together([decided(margins) for *_, margins in found])
    return Finding(claim, verdict, tuple(lines) or (NOT_MEASURED,))


def _above_popularity(runs: Runs, setting: str) -> Evidence:
    for row, method in TABLE_ROWS["table2"].items():
        ours = score(runs, name_of(setting, method), "Recall@20", LAST)
        popular = level(runs, setting, "Recall@20", "popularity")
        if ours:
            said = f"{row}, Recall@20 {mean(ours):.{DIGITS}f} at the last epoch, popularity {mean(popular):.{DIGITS}f}"
            yield said, differences(ours, popular)


def _exposure(runs: Runs, setting: str, *, method: str, bound: float, sign: int) -> Evidence:
    """Yield the largest ER@5 over epochs, and how far it lies on the claimed side of a bound."""
    largest = _largest(runs, name_of(setting, method))
    attack = next(attack for attack in ATTACKS if method.startswith(attack))
    undefended = _largest(runs, name_of(setting, f"{attack}-none"))
    beside = f" ({mean(undefended):.3f} undefended)" if undefended and sign < 0 else ""
    if largest:
        margins = {seed: sign * (value - bound) for seed, value in largest.items()}
        yield f"ER@5 at most {mean(largest):.3f}{beside}", margins


def _largest(runs: Runs, experiment: str) -> PerSeed:
    """Return the largest ER@5 over epochs, by seed."""
    curves = {seed: curve(run, "er@5") for seed, run in runs.get(experiment, {}).items()}
    return {seed: max(by_epoch.values()) for seed, by_epoch in curves.items() if by_epoch}


def _cost(runs: Runs, setting: str, *, rules: tuple[str, ...], share: float, sign: int) -> Evidence:
    """Yield recall at the last epoch beside that without a rule, and how far it lies on the claimed side of a share."""
    plain = score(runs, name_of(setting, "cl4fedrec"), "Recall@20", LAST)
    for rule in rules:
        with_rule = score(runs, name_of(setting, f"cl4fedrec-{rule}"), "Recall@20", LAST)
        margins = {s: sign * (with_rule[s] - share * plain[s]) for s in with_rule if s in plain}
        if margins:
            ratio = mean({s: with_rule[s] / plain[s] for s in margins})
            yield f"{RULES[rule]}: {100 * (1 - ratio):.0f} % of recall lost at the last epoch", margins
