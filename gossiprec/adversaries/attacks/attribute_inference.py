"""Attribute inference: who is a woman, who is young, by what an observer has received.

The attacker knows an attribute of some users. It trains a classifier that infers the attribute from what it has
received from them, and applies it to all others that it has heard.

References
----------
Zhang, Yuan and Yin, "Comprehensive privacy analysis on federated recommender system against attribute inference
attacks", TKDE 2023 (arXiv 2205.11857).

Notes
-----
The paper attacks a recommender of its own, part by part, with a network of two layers trained on
known users. Here the classifier is a multinomial logistic regression on standardised inputs with a fixed penalty: it
has no random part and one best solution, and the raw data can be given to the same one as a ceiling. Classes weigh the
same, because balanced accuracy is measured. The paper does not say which of the uploads of a round it reads; the
options say it here.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Annotated

import numpy as np
from pydantic import Field, field_validator

from gossiprec.adversaries.attacks import ATTACKS, AttackContext
from gossiprec.adversaries.attacks.attributes import (
    ATTRIBUTE_MEASURES,
    AttributeScores,
    KnownAttribute,
    class_probabilities,
)
from gossiprec.adversaries.attacks.findings import as_unique_list
from gossiprec.adversaries.attacks.observed_models import Kind, WatcherOptions, WatchingAttack
from gossiprec.base.arrays import F64, I64

Names = Annotated[tuple[str, ...], Field(min_length=1)]
Kinds = Annotated[tuple[Kind, ...], Field(min_length=1)]


class AttributeInferenceOptions(WatcherOptions):
    """Options of the attack. A list of attributes or features gives one result per combination."""

    attribute: str | Names
    """columns of users that are inferred, such as gender"""
    bins: tuple[float, ...] = ()
    """borders of the classes of a column of numbers: [25, 45] makes three of an age"""
    features: Kind | Kinds = "user"
    """what of the models is read: user (rows of users), items (all item rows), or updates (which items moved, and to
    which side)"""
    known: float = Field(default=0.5, gt=0, lt=1)
    """share of the users with a value of the attribute of whom the attacker knows it, drawn at random; a larger share
    contains a smaller one"""
    penalty: float = Field(default=1.0, gt=0)
    """weight of the squared length of the classifier's weights"""

    @field_validator("bins")
    @classmethod
    def _ascend(cls, bins: tuple[float, ...]) -> tuple[float, ...]:
        if any(low >= high for low, high in itertools.pairwise(bins)):
            raise ValueError(f"found {list(bins)}; expected ascending borders")
        return bins


@ATTACKS.register("attribute-inference")
class AttributeInference(WatchingAttack):
    """Inference of users' attributes by a classifier of what is received from them."""

    Options = AttributeInferenceOptions
    name = "attribute-inference"
    measures = ATTRIBUTE_MEASURES
    needs_features = True
    options: AttributeInferenceOptions

    def __init__(self, options: AttributeInferenceOptions, context: AttackContext) -> None:
        super().__init__(options, context)
        self._known = [
            context.known_attribute(name, options.bins, options.known)
            for name in as_unique_list(options.attribute)
        ]

    @classmethod
    def kinds_of(cls, options: AttributeInferenceOptions) -> list[Kind]:
        """Return the features that the options name."""
        return as_unique_list(options.features)

    def attribute_scores(self) -> Iterator[AttributeScores]:
        """Yield the inferred classes of each attribute by each kind of features."""
        for known in self._known:
            for kind in self.kinds_of(self.options):
                yield self._scores(known, kind)

    def _scores(self, known: KnownAttribute, kind: Kind) -> AttributeScores:
        classify = functools.partial(class_probabilities, strength=self.options.penalty)
        victims: list[I64] = [np.zeros(0, np.int64)]
        found: list[F64] = [np.zeros((0, len(known.classes)))]
        observers: list[I64] = [np.zeros(0, np.int64)]
        for group, own in enumerate(self._watchers.members):
            heard = self._observed.heard(kind, group)
            of_known = np.isin(known.users, heard)
            others = heard[~np.isin(heard, known.users)]
            if len(np.unique(known.codes[of_known])) < 2 or not len(others):
                continue
            rows = self._observed.features(kind, group)
            probabilities = classify(
                rows[known.users[of_known]], known.codes[of_known], rows[others], len(known.classes)
            )
            victims.append(others)
            found.append(probabilities)
            observers.append(np.full(len(others), own[0] if len(self._watchers.nodes) else 0))
        labels = {
            "observer": self._watchers.label,
            "attribute": known.name,
            "features": kind if self.options.over == "latest" else f"mean-{kind}",
        }
        return AttributeScores(
            known, np.concatenate(victims), np.concatenate(found), classify, labels, np.concatenate(observers)
        )
