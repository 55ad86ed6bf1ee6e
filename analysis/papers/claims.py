"""What a paper claims, judged by paired differences over seeds: held, not held, or undecided.

Both sides of a comparison are measured in runs of the same seed, and share its data and draws. The claim is held if the
95 % interval of their mean difference lies on the claimed side, not held if it lies on the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.papers.seeds import PerSeed, interval, mean
from analysis.papers.verdict import Verdict

HELD, NOT_HELD, UNDECIDED, NOT_MEASURED = "held", "not held", "undecided", "not measured"
MARKS = {HELD: Verdict.WITHIN, NOT_HELD: Verdict.OUTSIDE}
"""The mark of a claim's verdict; of all others that of what was not run."""


@dataclass(frozen=True)
class Finding:
    """A claim, its verdict, and a line of evidence per comparison.

    Held: in every comparison that was measured; not held: one is not; undecided: otherwise.
    """

    claim: str
    verdict: str
    evidence: tuple[str, ...]


def decided(margins: PerSeed) -> str:
    """Return what paired differences over seeds, positive where a claim holds, say of it."""
    if not margins:
        return NOT_MEASURED
    low, high = interval(margins)  # NaN with one seed, which decides nothing
    return HELD if low > 0 else NOT_HELD if high < 0 else UNDECIDED


def in_words(margins: PerSeed, digits: int = 1) -> str:
    """Return the mean paired difference with its interval and the verdict."""
    low, high = interval(margins)
    several = f"[{low:+.{digits}f}, {high:+.{digits}f}] over {len(margins)} seeds"
    between = several if len(margins) > 1 else "one seed"
    return f"margin {mean(margins):+.{digits}f}, {between}: {decided(margins)}"


def together(verdicts: Sequence[str]) -> str:
    """Return the verdict of a claim, given those of its comparisons."""
    known = set(verdicts) - {NOT_MEASURED}
    return next((verdict for verdict in (NOT_HELD, UNDECIDED, HELD) if verdict in known), NOT_MEASURED)
