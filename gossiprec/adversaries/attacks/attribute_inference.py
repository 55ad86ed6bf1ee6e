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

import itertools
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field, field_validator

from gossiprec.adversaries.attacks import ATTACKS, AttackContext
from gossiprec.adversaries.attacks.attributes import (
    ATTRIBUTE_MEASURES,
    AttributeScores,
    KnownAttribute,
    LogisticClassifier,
)
from gossiprec.adversaries.attacks.findings import as_unique_list
from gossiprec.adversaries.attacks.observed_models import Kind, WatcherOptions, WatchingAttack
from gossiprec.base.arrays import F32, F64, I64
from gossiprec.base.errors import ScenarioError

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
    hops: int = Field(default=1, ge=1, le=100)
    """largest distance of inferred users: 1 infers those that were heard; above 1, in a fixed graph, also users that
    many hops away, by the mean features of their neighbours that are one hop nearer to the observer"""
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
        self._classify = LogisticClassifier(options.penalty)
        self._links = None if options.hops == 1 else _known_links(context)
        self._known = [
            context.known_attribute(name, options.bins, options.known)
            for name in as_unique_list(options.attribute)
        ]

    @classmethod
    def kinds_of(cls, options: AttributeInferenceOptions) -> list[Kind]:
        """Return the features that the options name."""
        return as_unique_list(options.features)

    def attribute_scores(self) -> Iterator[AttributeScores]:
        """Yield the inferred classes of each attribute by each kind of features, and at each distance."""
        kinds = self.kinds_of(self.options)
        found = [
            self._of_kind(kind) for kind in kinds
        ]  # attributes of the same users share a classifier's input
        for number in range(len(self._known)):
            for by_attribute in found:
                yield from by_attribute[number]

    def _of_kind(self, kind: Kind) -> list[list[AttributeScores]]:
        """Return the inferred classes by one kind of features, by distance, for each attribute."""
        found = [dict[int, list[_Inferred]]() for _ in self._known]
        for group, own in enumerate(self._watchers.members):
            observer = own[0] if len(self._watchers.nodes) else 0
            for hops, heard, rows in self._by_hops(kind, group):
                for each, part in zip(found, self._infer(heard, rows, observer), strict=True):
                    each.setdefault(hops, []).append(part)
        return [
            [self._scores(known, kind, hops, parts) for hops, parts in each.items()]
            for known, each in zip(self._known, found, strict=True)
        ]

    def _by_hops(self, kind: Kind, group: int) -> Iterator[tuple[int, I64, F32]]:
        """Yield distances, the users at each that are inferred, and features of all users, shape (n_users, width)."""
        heard, rows = self._observed.heard(kind, group), self._observed.features(kind, group)
        if self._links is None:
            yield 1, heard, rows
            return
        from gossiprec.network.graphs.centrality import hops_to  # here: networkx takes 0.3 s

        rows, has_row = rows.copy(), np.isin(np.arange(len(rows)), heard)
        distance = hops_to(self._links, self._watchers.members[group])
        for hops in range(1, self.options.hops + 1):
            users = np.flatnonzero(distance == hops)
            if hops > 1:
                relays = np.flatnonzero(has_row & (distance == hops - 1))
                to_relays = self._links[users][:, relays]
                counts = to_relays.sum(axis=1)
                means = to_relays @ rows[relays] / np.maximum(counts, 1)[:, None]
                rows[users], has_row[users] = means, counts > 0
            yield hops, users[has_row[users]], rows

    def _infer(self, heard: I64, rows: F32, observer: int) -> Iterator[_Inferred]:
        """Yield the inferred classes of each attribute from the rows of some users."""
        inputs: tuple[bytes, F32, F32] = b"", rows, rows
        for known in self._known:
            of_known, others = np.isin(known.users, heard), heard[~np.isin(heard, known.users)]
            users, codes = known.users[of_known], known.codes[of_known]
            n_classes = len(known.classes)
            if len(np.unique(codes)) < 2 or not len(others):
                yield _Inferred(others[:0], np.zeros((0, n_classes)), others[:0])
                continue
            if inputs[0] != users.tobytes():
                inputs = users.tobytes(), rows[users], rows[others]
            probabilities = self._classify(inputs[1], codes, inputs[2], n_classes)
            yield _Inferred(others, probabilities, np.full(len(others), observer))

    def _scores(
        self, known: KnownAttribute, kind: Kind, hops: int, parts: list[_Inferred]
    ) -> AttributeScores:
        labels: dict[str, str | int] = {
            "observer": self._watchers.label,
            "attribute": known.name,
            "features": kind if self.options.over == "latest" else f"mean-{kind}",
        }
        if self._links is not None:
            labels["hops"] = hops
        victims, probabilities, observers = (np.concatenate(each) for each in zip(*parts, strict=True))
        return AttributeScores(known, victims, probabilities, self._classify, labels, observers)


class _Inferred(NamedTuple):
    """Victims of one observer, the probabilities of their classes, and the observer of each."""

    victims: I64
    probabilities: F64
    observers: I64


def _known_links(context: AttackContext) -> Any:
    """Return the links of the network's graph, a sparse matrix of shape (n_users, n_users)."""
    from scipy import sparse

    neighbors = context.neighbors()
    if neighbors is None:
        raise ScenarioError(
            "observers: attribute-inference: hops: found no fixed graph; expected protocol.view.graph, in which users "
            "have a distance; set hops to 1"
        )
    ends = [(node, peer) for node, peers in enumerate(neighbors) for peer in peers]
    own = np.array([pair for pair in ends if max(pair) < context.n_users], np.int64).reshape(-1, 2)
    return sparse.csr_array(
        (np.ones(len(own), np.float32), (own[:, 0], own[:, 1])), shape=(context.n_users,) * 2
    )
