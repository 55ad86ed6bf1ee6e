"""Entropy-based membership inference as a community proxy: which models were trained on most of the adversary's items.

An item is taken for a member of a victim's training set if its entropy by the victim's model is low. The victims with
the most members among the adversary's items are taken for its community.

References
----------
arXiv 2306.08929, eq. 11 and 12; after Song and Mittal, "Systematic evaluation of privacy risks of machine learning
models", USENIX Security 2021.

Notes
-----
The paper mentions neither momentum nor ties: the attack keeps the same momentum models as CDA, and of two
victims with the same number of members the one with the lower mean entropy comes first.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from gossiprec.adversaries.attacks import ATTACKS, ITEM_MEASURES, AttackContext, ItemScores, MembershipGuesses
from gossiprec.adversaries.attacks.findings import RATES, as_unique_list, shortest_decimal
from gossiprec.adversaries.attacks.individual_observers import IndividualObservers
from gossiprec.adversaries.attacks.scoring_attack import ObserverOptions, ScoringAttack
from gossiprec.base.arrays import I64
from gossiprec.base.options import LARGEST
from gossiprec.numerics.relevance import MIA, entropy

Threshold = Annotated[float, Field(gt=0, le=1e6)]
Thresholds = Annotated[tuple[Threshold, ...], Field(min_length=1)]


class EntropyMIAOptions(ObserverOptions):
    """Options of the attack. A list gives one observer per combination; one run serves them all."""

    threshold: Threshold | Thresholds = (0.2, 0.4, 0.6, 0.8, 1.0)
    """rho: an item with an entropy below this is classified as a member"""
    item_scores: bool = False
    """whether a pool also scores all items of the victims that share their user row, by the logits of their models"""
    precision_at: int = Field(default=20, ge=1, le=LARGEST)
    """with item_scores: length of a victim's list of likeliest items, of which the precision is measured"""

    @model_validator(mode="after")
    def _pools_score_items(self) -> EntropyMIAOptions:
        if self.item_scores and self.who == "single":
            raise ValueError(
                "found item_scores with who: single, which keeps too little of a model to score all items; expected "
                "who: coalition or coordinator"
            )
        return self


@ATTACKS.register("entropy-mia")
class EntropyMIA(ScoringAttack):
    """Membership inference from entropies, by single nodes, coalitions or the coordinator."""

    name = "entropy-mia"
    measures = (*RATES, *ITEM_MEASURES)
    Options = EntropyMIAOptions
    options: EntropyMIAOptions

    def __init__(self, options: EntropyMIAOptions, context: AttackContext) -> None:
        context.check_probabilities(self.name)
        self._thresholds: list[float] = as_unique_list(options.threshold)
        super().__init__(options, context)
        # single adversaries keep too little of a model to guess
        rates = () if options.who == "single" else RATES
        self.measures = (*rates, *(ITEM_MEASURES if options.item_scores else ()))

    @staticmethod
    def relevance_rules(options: EntropyMIAOptions) -> list[str]:
        """Return one rule per threshold."""
        return [f"{MIA}{rho:g}" for rho in as_unique_list(options.threshold)]

    @staticmethod
    def count_references(options: EntropyMIAOptions) -> int:
        """Return 0: an item is classified without references."""
        return 0

    def guesses(self) -> Iterator[MembershipGuesses]:
        """Yield the membership guesses of pools; single adversaries keep too little of a model for guesses."""
        pools = self._observers
        if isinstance(pools, IndividualObservers):
            return
        for p, name in enumerate(self._names):
            targets = pools.targets[p]
            victims = pools.victims_with_user_row(p)
            hidden = pools.victims_without_user_row(p)
            for b, momentum in enumerate(as_unique_list(self.options.momentum)):
                entropies = entropy(pools.scores_of_all_items(p, b, victims)).astype(np.float32)
                yield MembershipGuesses(
                    observer=name,
                    momentum=shortest_decimal(np.float32(momentum)),
                    thresholds=tuple(self._thresholds),
                    adversaries=targets.adversaries,
                    offsets=targets.offsets,
                    items=targets.items,
                    victims=victims,
                    entropies=entropies,
                    hidden=hidden,
                    hidden_entropies=functools.partial(pools.entropies_of_kept_items, p, b, hidden),
                )

    def item_scores(self) -> Iterator[ItemScores]:
        """Yield the logits of all items by the models of victims that share their user row."""
        pools = self._observers
        if not self.options.item_scores or isinstance(pools, IndividualObservers):
            return
        for p, name in enumerate(self._names):
            met = pools.victims_with_user_row(p)
            victims: I64 = met[~np.isin(met, self._groups[p])]
            for b, momentum in enumerate(as_unique_list(self.options.momentum)):
                scores = pools.scores_of_all_items(p, b, victims)
                yield ItemScores(
                    np.repeat(victims, scores.shape[1]),
                    np.tile(np.arange(scores.shape[1], dtype=np.int32), len(victims)),
                    scores.ravel(),
                    {"observer": name, "momentum": shortest_decimal(np.float32(momentum))},
                    self.options.precision_at,
                )
