"""The Community Detection Attack (CDA; later versions of its paper call it CIA): which users share a taste.

An adversary u scores the models it receives on its own items, and takes a victim for a member of u's community if
the victim's model scores them well. Momentum averages the models of several deliveries into one.

References
----------
"On the Resilience of Collaborative Learning-based Recommender Systems Against Community Detection Attack",
arXiv 2306.08929: Algorithm 1 (relevance), eq. 5 (momentum), section 6.4 (colluders), Algorithm 3 (fictive user).

Notes
-----
The paper's relevance (eq. 4) is ``mean_score``; its code ranks by NDCG against 99 negatives (``ndcg``). Both are
implemented, and ``standardized``. References are 99 fixed items per adversary; the code draws 99 per target item. All
parameters are averaged by momentum; a branch of the code kept the first user row. Colluders are possible members of a
community.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from gossiprec.adversaries.attacks import ATTACKS
from gossiprec.adversaries.attacks.findings import as_unique_list
from gossiprec.adversaries.attacks.scoring_attack import ObserverOptions, ScoringAttack
from gossiprec.base.options import LARGEST
from gossiprec.numerics.relevance import RELEVANCE

if TYPE_CHECKING:
    Rule = str
else:
    Rule = Literal[tuple(RELEVANCE)]
Rules = Annotated[tuple[Rule, ...], Field(min_length=1)]


class CDAOptions(ObserverOptions):
    """Options of the attack. A list gives one observer per combination; one run serves them all."""

    relevance: Rule | Rules = "standardized"
    """rule for scoring a received model"""
    reference_items: Annotated[int, Field(ge=2, le=LARGEST)] | Literal["all"] = 99
    """items outside the target set to compare with; all: every other item (coalitions and the coordinator store them
    anyway)"""


@ATTACKS.register("cda")
class CDA(ScoringAttack):
    """The community-detection attack, by single nodes, coalitions or the coordinator."""

    name = "cda"
    Options = CDAOptions
    ranks_names = True
    measures = ("linked_share",)

    @staticmethod
    def relevance_rules(options: CDAOptions) -> list[str]:
        """Return the relevance rules."""
        return as_unique_list(options.relevance)

    @staticmethod
    def count_references(options: CDAOptions) -> int | Literal["all"]:
        """Return the option `reference_items`."""
        return options.reference_items
