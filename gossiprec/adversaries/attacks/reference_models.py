"""Reference models for membership inference: federations of users with known data.

Each reference model trains on a random half of the items of every known user. It is then observed as a victim is: the
scores of candidates by each user's model after its last local update, of which the attacker knows the training items.

References
----------
Shokri, Stronati, Song and Shmatikov, "Membership inference attacks against machine learning models", S&P 2017; Carlini,
Chien, Nasr, Song, Terzis and Tramer, "Membership inference attacks from first principles", S&P 2022.

Notes
-----
In the papers a model is trained with or without the example in question. A recommender's example is a pair
of a user and an item, and the attacker has no data of its victims. So the example is an item: its scores for known
users that have trained on it, and for known users that have not. Models come in pairs with complementary halves, so
that every pair of a known user and an item is in exactly half of them, as in the code of Carlini et al.

Local updates of all known users alternate with weighted means of their models, whatever the run's protocol: the known
users' part of a federation is all that the attacker can imitate. Scores are standardised over a user's candidates,
because victims may have trained for longer than reference models.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from pydantic import Field, model_validator

from gossiprec.adversaries.attacks import AttackContext, AttackMemoryInputs
from gossiprec.adversaries.attacks.candidates import draw_candidates, membership_of
from gossiprec.adversaries.attacks.membership import (
    MembershipAttack,
    MembershipOptions,
    judge_moves,
    selected_users,
    standardised,
)
from gossiprec.adversaries.attacks.scoring_attack import Ids, NodeShare
from gossiprec.base.arrays import F32, F64, I32, I64, Bools
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import LARGEST
from gossiprec.base.ragged import Ragged
from gossiprec.base.rng import generator
from gossiprec.models.base.kernel_interface import ScoreQuery

PURPOSE = "reference-models"


class ReferenceOptions(MembershipOptions):
    """Options of attacks with reference models."""

    known: NodeShare | Ids = NodeShare(fraction=0.5)
    """coordinator: users of which the attacker has the data, who are no victims; {fraction: f} or a list of ids"""
    models: Annotated[int, Field(ge=2, le=LARGEST, multiple_of=2)] = 16
    """number of reference models"""
    rounds: Annotated[int, Field(ge=1, le=LARGEST)] = 20
    """local updates of each known user in a reference model"""

    @model_validator(mode="after")
    def _users_are_known(self) -> ReferenceOptions:
        if self.who == "single":
            raise ValueError(
                "found who: single; expected coordinator or coalition, because reference models need the data of "
                "several users"
            )
        if self.who == "coalition" and self.known != type(self).model_fields["known"].default:
            raise ValueError("known belongs to who: coordinator; a coalition knows the data of its members")
        return self


@dataclass(frozen=True)
class ReferenceScores:
    """Scores of candidates of known users by reference models, standardised over each user's candidates.

    Attributes
    ----------
    items : ndarray of int32, shape (n,)
    scores, ranks : ndarray of float64, shape (n,)
        And the share of the user's candidates with lower scores, ties counting half.
    is_member : ndarray of bool, shape (n,)
        Whether the user has trained on the item.
    """

    items: I32
    scores: F64
    ranks: F64
    is_member: Bools


class ReferenceAttack(MembershipAttack):
    """Membership inference with reference models. They are trained at the first report, once for each coalition."""

    Options = ReferenceOptions
    options: ReferenceOptions

    def __init__(self, options: Any, context: AttackContext) -> None:
        super().__init__(options, context)
        groups = self._groups or [self.known_users()]
        self._known_items = [self._usable(users) for users in groups]
        self._models: dict[int, Any] = {}

    def known_users(self) -> I64:
        """Return the users of which the attacker has the data: members of coalitions, or those that `known` selects."""
        if self.options.who == "coalition":
            return super().known_users()
        return selected_users(self.context, self.options.known, "known")

    def _usable(self, users: I64) -> Ragged:
        """Return the items of the known users that have two or more, and refuse more models than they allow."""
        feed = self.context.feed_of_nodes(users)
        sets = [feed.positives[user] for user in users.tolist()]
        sets = [items for items in sets if len(items) > 1]
        ways = sum(
            math.lgamma(n + 1) - math.lgamma(n // 2 + 1) - math.lgamma(n - n // 2 + 1) for n in map(len, sets)
        )
        models = self.options.models
        if not sets or ways + 1e-9 < math.log(models):
            possible = f"{2 * (round(math.exp(ways)) // 2)}" if sets else "0"
            raise ScenarioError(
                f"observers: {self.name}: found models: {models}, but the items of the {len(sets)} known users that "
                f"have two or more can be halved in only {possible} ways; expected at most as many models; let it "
                "know more users, or lower models"
            )
        self._feed = feed
        return Ragged.from_parts(sets)

    @classmethod
    def expected_bytes(cls, options: Any, prospect: AttackMemoryInputs) -> float:
        """Return an estimate of the memory of the kept models and of one reference model with Adam's moments."""
        n_known = (
            prospect.count_nodes(options.known) if options.who == "coordinator" else prospect.n_users / 10
        )
        return super().expected_bytes(options, prospect) + 12.0 * n_known * prospect.layout.row_size

    def references(self, group: int) -> list[ReferenceScores]:
        """Return the scores of each reference model of the coordinator or of a coalition."""
        known, context = self._known_items[group], self.context
        found: list[ReferenceScores] = []
        for pair in range(self.options.models // 2):
            halves: tuple[list[I32], list[I32]] = ([], [])
            for user in range(len(known)):
                order = generator(context.seed, PURPOSE, user, pair).permutation(known[user])
                middle = (len(order) + pair % 2) // 2
                for half, part in zip(halves, (order[:middle], order[middle:]), strict=True):
                    half.append(np.sort(part))
            for which, (own, other) in enumerate((halves, halves[::-1])):
                sets = (Ragged.from_parts(own), Ragged.from_parts(other))
                found.append(self._reference(*sets, group=group, number=2 * pair + which))
        return found

    def _reference(self, train: Ragged, other: Ragged, *, group: int, number: int) -> ReferenceScores:
        """Train a reference model, and return the scores of its users' candidates."""
        context, options = self.context, self.options
        draw = generator(context.seed, PURPOSE + "-seed", group, number)
        seed = int(draw.integers(2**62))
        n_items = context.scorer.layout.n_items
        candidates = draw_candidates(train, other, n_items, options.pairs, options.non_members, seed)
        before, rows = self._federation(train, seed)
        scores = self._candidate_scores(candidates, before, rows)
        ranks = np.zeros_like(scores)
        for user in range(len(train)):
            part = slice(candidates.offsets[user], candidates.offsets[user + 1])
            scores[part] = standardised(scores[part])
            ranks[part] = tied_ranks(scores[part])
        is_member = membership_of(train, candidates)
        known = ~np.isnan(scores)
        return ReferenceScores(candidates.values[known], scores[known], ranks[known], is_member[known])

    def _federation(self, train: Ragged, seed: int) -> tuple[F32, F32]:
        """Return the version before the last local updates, and every user's model after them."""
        context, scorer = self.context, self.context.scorer
        layout = replace(scorer.layout, n_users=1)
        rows = scorer.model.initial_rows(layout, len(train), seed)
        nodes = scorer.imitate_nodes(
            self._feed.for_sets(train, layout.n_items), layout, np.arange(len(train)), rows, seed
        )
        weights = train.sizes / train.sizes.sum()
        before = rows[0]
        for number in range(self.options.rounds):
            if number:
                before = nodes.rows[0].copy()
                before[layout.merged] = weighted_mean(nodes.rows, weights, layout.merged)
                nodes.rows[:, layout.merged] = before[layout.merged]
            nodes.train(number, context.threads)
        return before, nodes.rows

    def _candidate_scores(self, candidates: Ragged, before: F32, rows: F32) -> F64:
        layout = replace(self.context.scorer.layout, n_users=1)
        n = len(candidates)
        # if all victims hide their user row, reference models are observed without it, too
        if not self.context.hides_user[: self.context.n_users][self.candidates.sizes > 0].all():
            query = ScoreQuery(
                layout,
                rows,
                np.arange(n),
                np.zeros(n, np.int64),
                candidates.offsets.astype(np.int64),
                candidates.values,
            )
            return self.context.scorer.score(query).astype(np.float64)
        first, found = before[layout.items].reshape(layout.n_items, -1), np.zeros(len(candidates.values))
        for user in range(n):
            part = slice(candidates.offsets[user], candidates.offsets[user + 1])
            after = (
                rows[user, layout.items]
                .reshape(layout.n_items, -1)[candidates.values[part]]
                .astype(np.float64)
            )
            direction, _ = judge_moves(after - first[candidates.values[part]])
            found[part] = (after * direction).sum(axis=1)
        return found

    def _scores_of(self, slot: int) -> F64:
        """Return the scores of all candidates: of each victim's logits, standardised, by the reference models."""
        if not self.heard[slot].any():
            return np.full(len(self.candidates.values), np.nan)
        if slot not in self._models:
            found = self.references(slot)
            whole = [np.concatenate([getattr(each, name) for each in found]) for name in FIELDS]
            self._models[slot] = self.fitted(ReferenceScores(*whole))
        logits = self.logits(slot)
        ranks = np.full_like(logits, np.nan)
        for victim in np.flatnonzero(self.heard[slot] & (self.candidates.sizes > 0)).tolist():
            part = slice(self.candidates.offsets[victim], self.candidates.offsets[victim + 1])
            logits[part] = standardised(logits[part])
            ranks[part] = tied_ranks(logits[part])
        return self.judged(self._models[slot], self.candidates.values, logits, ranks)

    def fitted(self, references: ReferenceScores) -> Any:
        """Return the parameters that the attack fits to reference models."""
        raise NotImplementedError

    def judged(self, learnt: Any, items: I32, scores: F64, ranks: F64) -> F64:
        """Return the scores of candidates: of the items, their standardised scores, and their ranks."""
        raise NotImplementedError


FIELDS = ("items", "scores", "ranks", "is_member")


def weighted_mean(rows: F32, weights: F64, columns: slice) -> F32:
    """Return the weighted mean of some columns, added up row by row in float64."""
    total = np.zeros(columns.stop - columns.start)
    for row, weight in zip(rows, weights.tolist(), strict=True):
        total += weight * row[columns]
    return total.astype(np.float32)


def tied_ranks(values: F64) -> F64:
    """Return the share of lower values for each value, equal ones counting half."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    below = np.cumsum(counts) - counts
    return np.asarray((below + counts / 2)[place] / max(1, len(values)), np.float64)


def item_means(references: ReferenceScores, n_items: int, *, members: bool) -> F64:
    """Return the mean score of each item for users that have trained on it, or that have not.

    The mean over all items counts as one score of each item, because some items have few scores or none.
    """
    some = references.is_member == members
    items, scores = references.items[some], references.scores[some]
    overall = float(scores.mean()) if len(scores) else 0.0
    counts = np.bincount(items, minlength=n_items)
    return np.asarray((np.bincount(items, scores, n_items) + overall) / (counts + 1), np.float64)
