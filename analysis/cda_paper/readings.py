"""Readings of a printed number: each names a setting, a measure, and the relevance rule that is compared."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.cda_paper.measures import MAIN_RULE, AttackNumber, RunNumber

OTHER_RULES = {"mean_score": "the paper's rule, eq. 4", "ndcg": "the rule of the published code"}


@dataclass(frozen=True)
class Reading:
    """One way to measure a printed number.

    Attributes
    ----------
    setting : str
        Users and K, training, attacker; empty if there is only one.
    measure : RunNumber
    rule : str
        The relevance rule that is compared with the printed number; the default is ours.
    note : str
        A remark, for example that the reading was chosen after both numbers were seen.
    """

    setting: str
    measure: RunNumber
    rule: str = MAIN_RULE
    note: str = ""


def readings_by_rule(setting: str, measure: AttackNumber) -> list[Reading]:
    """Return the readings of one attack under our rule, the paper's and the code's; a bound has no rule."""
    if not measure.uses_rule:
        return [Reading(setting, measure)]
    others = [Reading(setting, measure, rule, note) for rule, note in OTHER_RULES.items()]
    return [Reading(setting, measure), *others]
