"""Pools: a coalition, or the coordinator, keeps and shares one whole momentum model per victim."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import numpy as np

from gossiprec.adversaries.attacks import AttackContext
from gossiprec.adversaries.attacks.fictive_users import FictiveUsers
from gossiprec.adversaries.attacks.observations import GroupDeliveries, KnownDeliveries, Observations
from gossiprec.adversaries.attacks.targets import TargetItems
from gossiprec.base.arrays import F32, I32, I64, U32, Bools
from gossiprec.base.rng import philox_words, purpose_id
from gossiprec.models.base.kernel_interface import (
    AdversaryQueries,
    BoundKernel,
    ScoreQuery,
    VictimModels,
    flat_view,
)
from gossiprec.numerics.noise import to_float16
from gossiprec.numerics.relevance import (
    CLOSENESS,
    MEAN_SCORE,
    MEMBERS,
    NDCG,
    STANDARDIZED,
    entropy,
    get_rule,
    rule_codes,
)
from gossiprec.runs.checkpoint_state import Stateful

ROUNDING = purpose_id("rounding-momentum")
_NO_KEYS = np.zeros(0, np.uint32)
CHUNK = 256
"""Number of victims that are scored together."""


class CoalitionObservers(Stateful):
    """Momentum models of several pools, and the rankings computed from them.

    Parameters
    ----------
    context : AttackContext
    targets : sequence of TargetItems
        For each pool: its members' own items, or all users' items for the coordinator.
    momenta : ndarray of float32, shape (n_momenta,)
    rules : sequence of str
    fictive : sequence of FictiveUsers
        For each pool: the user rows with which its adversaries score victims that hide their user row.
    hosts : sequence of ndarray of int64, shape (n_adversaries,)
        For each pool: the nodes of which its adversaries have the present models.

    Notes
    -----
    A ranking is a function of a pool's deliveries and of its members' present models: it does not depend on the time of
    the ranking before. A victim's score changes only when one of its models was seen, so a ranking scores the victims
    seen since the last one. It also scores all that hide their user row, because the rows for them have changed.

    Models with kernels that rank every victim are large. Without momentum, and if no victim hides its user row, they
    are scored on arrival, and none is kept. Kept models are stored as the run stores its own models: in float16 with
    stochastic rounding.
    """

    checkpointed = ("memory", "met", "changed", "latest", "shared_of")

    def __init__(
        self,
        context: AttackContext,
        targets: Sequence[TargetItems],
        momenta: F32,
        rules: Sequence[str],
        fictive: Sequence[FictiveUsers],
        hosts: Sequence[I64],
    ) -> None:
        self._context, self._scorer = context, context.scorer
        self.targets = targets
        self._momenta = momenta
        self._rules = rules
        self.fictive = fictive
        self._hosts = hosts
        layout, kernels = self._scorer.layout, self._scorer.kernels
        self._shared_of = [np.zeros((0, layout.n_shared), np.float32) for _ in targets]
        self._ranks_open = kernels is not None and kernels.ranks_open
        on_sight = self._ranks_open and not context.hides_user.any()
        self._scored_on_sight = on_sight & (momenta == 0)
        self._any_on_sight = bool(self._scored_on_sight.any())
        self._kept_momenta = momenta[~self._scored_on_sight]
        self._place_of = np.cumsum(~self._scored_on_sight) - 1
        self._latest = [
            np.full((len(momenta), len(rules), len(t.adversaries), context.n_users), np.nan, np.float32)
            for t in targets
        ]
        self._probabilities = self._scorer.model.predicts_probabilities
        self._codes = rule_codes(rules, probabilities=self._probabilities)
        self._asked = [] if kernels is None else [self._asked_of(t) for t in targets]

    def _asked_of(self, targets: TargetItems) -> AdversaryQueries:
        kernels = self._scorer.kernels
        assert kernels is not None
        weights = kernels.query_weights(targets.items, targets.context)
        return AdversaryQueries(
            targets.offsets, targets.items, targets.context, targets.n_targets, weights, *self._codes,
            kernels.room_size,
        )  # fmt: skip

    def allocate(self, deliveries: KnownDeliveries) -> None:
        """Allocate the memory: a row per momentum, pool and victim."""
        shape = (int((~self._scored_on_sight).sum()), len(self.targets), self._context.n_users)
        kind = self._scorer.storage
        self._memory = np.zeros((*shape, self._scorer.layout.row_size), kind)
        self._met = np.zeros(shape[1:], np.bool_)
        self._changed = np.zeros(shape[1:], np.bool_)

    def extend_deliveries(self, deliveries: KnownDeliveries) -> None:
        """Do nothing: pools need no notice of deliveries."""

    def warm_up(self) -> None:
        """Compile the loops by running them on empty input."""
        none = np.zeros(0, np.int32)
        self.allocate(KnownDeliveries(none, none, none, np.zeros(0), 0))
        if self._scorer.is_plain:
            return
        no_victims = np.zeros(0, np.int64)
        rows = np.zeros((1, self._scorer.layout.row_size), self._scorer.storage)
        run, arguments = self.bind(GroupDeliveries(rows, none, none), none, none, np.zeros(2, np.int64))
        run(0, 1, *arguments)
        for b in np.flatnonzero(~self._scored_on_sight)[:1].tolist():
            self._rank(0, b, no_victims)
            if self._hides.any():
                self._rank_apart(0, b, no_victims)
        if self._hides.any() and self.fictive[0].kind == "fitted":
            self.fictive[0].warm_up(rows)

    @property
    def state_bytes(self) -> int:
        """Memory of the kept rows and the latest scores."""
        return self._memory.nbytes + sum(latest.nbytes for latest in self._latest)

    def observe(self, seen: Observations) -> None:
        """Process the deliveries to the pools."""
        raw, sender_of = seen.raw, seen.deliveries.sender
        assert isinstance(raw, GroupDeliveries)
        for b in np.flatnonzero(self._scored_on_sight).tolist() if self._any_on_sight else ():
            of_users = seen.senders < self._context.n_users
            for p in range(len(self.targets)):
                mine = of_users & (raw.group == p)
                self._rank_compiled(
                    raw.rows, raw.row[mine].astype(np.int64), p, b, seen.senders[mine].astype(np.int64)
                )
        if self._scorer.is_plain:
            self._blend_plainly(raw.rows, raw.group, raw.row, seen.messages, sender_of)
        else:
            places = np.array([0, len(raw.row)])
            run, arguments = self.bind(raw, seen.messages, sender_of, places)
            run(0, 1, *arguments)

    @property
    def only_blends(self) -> bool:
        """Whether the loop of :meth:`bind` does all that is to do with deliveries."""
        return not self._scorer.is_plain and not self._any_on_sight

    def bind(self, raw: GroupDeliveries, message: I32, sender_of: I32, places: I64) -> BoundKernel:
        """Return the loop that blends users' versions, and its arguments after a range of deliveries.

        The user part of victims that hide it is not read.
        """
        from gossiprec.adversaries.attacks.ranking_kernels import PoolMemory, PoolReceptions, blend_rows

        layout, hides = self._scorer.layout, self._context.hides_user
        keys = self._keys(message, sender_of)
        received = PoolReceptions(flat_view(raw.rows), raw.row, raw.group, message, sender_of, keys, places)
        pools = PoolMemory(flat_view(self._memory), self._kept_momenta, self._met, self._changed)
        return blend_rows, (received, hides, pools, layout.items.start, layout.shared.stop, layout.row_size)

    def _keys(self, message: I32, sender_of: I32) -> U32:
        if self._memory.dtype != np.float16:
            return _NO_KEYS
        return philox_words(self._context.seed, 0, message, sender_of[message], ROUNDING)[:, 0].copy()

    def _blend_plainly(self, rows: F32, pool: I32, row: I32, message: I32, sender_of: I32) -> None:
        """Do the same for any model, one delivery after the other."""
        layout, hides, n_users = self._scorer.layout, self._context.hides_user, self._context.n_users
        begin, end, keys = layout.items.start, layout.shared.stop, self._keys(message, sender_of)
        for s, (p, v, r) in enumerate(zip(pool, sender_of[message], row, strict=True)):
            if v >= n_users:
                continue  # the coordinator's model belongs to no user
            seen = slice(begin if hides[v] else 0, end)
            met = self._met[p, v]
            for b, momentum in enumerate(self._momenta if met else np.zeros_like(self._momenta)):
                held = self._memory[b, p, v].astype(np.float32)
                held[seen] *= momentum
                held[seen] += (np.float32(1.0) - momentum) * rows[r, seen]
                self._memory[b, p, v] = (
                    to_float16(held[None], keys[s : s + 1])[0] if self._memory.dtype == np.float16 else held
                )
            self._met[p, v] = self._changed[p, v] = True

    def rankings(self) -> Iterator[tuple[int, str, np.float32, I64, F32]]:
        """Yield (pool, rule, momentum, adversaries, scores)."""
        for p, targets in enumerate(self.targets):
            changed = self._changed[p]
            if len(self.victims_without_user_row(p)):
                self._refit_hidden(p)
                changed = changed | (self._met[p] & self._hides)
            for b, momentum in enumerate(self._momenta):
                if not self._scored_on_sight[b]:
                    self._context.threads.run(
                        functools.partial(self._rank_share, p, b, np.flatnonzero(changed))
                    )
                for r, rule in enumerate(self._rules):
                    yield p, rule, momentum, targets.adversaries, self._latest[p][b, r]
            self._changed[p] = False

    @property
    def _hides(self) -> Bools:
        return self._context.hides_user[: self._context.n_users]

    def _refit_hidden(self, p: int) -> None:
        """Refit the user rows for hidden victims in a pool to the present models of its hosts."""
        fictive, hosts, layout = self.fictive[p], self._hosts[p], self._scorer.layout
        if fictive.kind == "paper":
            return
        nodes, row_of = np.unique(hosts, return_inverse=True)
        models = self._context.models_of_nodes(nodes)
        if fictive.kind == "fitted":
            fictive.fit_all(models, row_of)
            return
        models = models[row_of].astype(np.float32)
        users = models[:, layout.users].reshape(len(hosts), layout.n_users, -1)
        fictive.users[:] = users[np.arange(len(hosts)), layout.user_index(hosts)]
        self._shared_of[p] = np.ascontiguousarray(models[:, layout.shared])

    def victims_with_user_row(self, p: int) -> I64:
        """Return the victims that a pool has received models from and that share their user row."""
        return np.flatnonzero(self._met[p] & ~self._hides)

    def victims_without_user_row(self, p: int) -> I64:
        """Return the victims that a pool has received models from and that hide their user row."""
        return np.flatnonzero(self._met[p] & self._hides)

    def _rank_share(self, p: int, b: int, victims: I64, part: int) -> None:
        hides = self._context.hides_user[victims]
        for some, rank in ((victims[~hides], self._rank), (victims[hides], self._rank_apart)):
            share = self._context.threads.part_range(len(some), part)
            for low in range(share.start, share.stop, CHUNK):
                rank(p, b, some[low : min(low + CHUNK, share.stop)])

    def scores_of_all_items(self, p: int, b: int, victims: I64) -> F32:
        """Return the scores of all items by some victims' own models, shape (n_victims, n_items)."""
        layout = self._scorer.layout
        query = ScoreQuery(
            layout, self._memory[b, p], victims, layout.user_index(victims),
            np.arange(len(victims) + 1, dtype=np.int64) * layout.n_items,
            np.tile(np.arange(layout.n_items, dtype=np.int32), len(victims)),
        )  # fmt: skip
        return self._scorer.score(query).reshape(len(victims), layout.n_items)

    def _rank(self, p: int, b: int, victims: I64) -> None:
        """Score again some victims that share their user row, for every target set of a pool."""
        targets, latest = self.targets[p], self._latest[p][b]
        if targets.contexts or self._ranks_open:
            return self._rank_apart(p, b, victims)
        scores = self.scores_of_all_items(p, b, victims)
        if not self._scorer.is_plain:
            self._rank_scores(scores, victims, targets, latest)
        else:
            for a in range(len(targets.adversaries)):
                own, references = targets.targets_and_references(a)
                for r, rule in enumerate(self._rules):
                    score = get_rule(rule, probabilities=self._probabilities)
                    # np.take: the order of summation then does not depend on the number of victims
                    latest[r, a, victims] = score(
                        np.take(scores, own, axis=1), np.take(scores, references, axis=1)
                    )
        return self._clear_own_scores(p, b)

    def _clear_own_scores(self, p: int, b: int) -> None:
        """Clear the scores of adversaries by themselves: no node is its own victim."""
        adversaries, names = self.targets[p].adversaries, self._context.own_names
        own = adversaries if names is None else names(adversaries)
        self._latest[p][b][:, np.arange(len(adversaries)), own] = np.nan

    def _rank_scores(self, scores: F32, victims: I64, targets: TargetItems, latest: F32) -> None:
        """Apply the relevance rules to the scores of all items, in compiled loops for any model."""
        from gossiprec.adversaries.attacks import ranking_kernels

        kept, (codes, thresholds) = (targets.offsets, targets.items, targets.n_targets), self._codes
        if codes[0] == MEMBERS:
            ranking_kernels.rank_by_membership(scores, victims, *kept, thresholds, latest)
            return
        for code, found in zip(codes.tolist(), latest, strict=True):
            if code == NDCG:
                ranking_kernels.rank_by_ndcg(
                    scores, ranking_kernels.rank_items_descending(scores), victims, *kept, found
                )
            elif code in (MEAN_SCORE, CLOSENESS, STANDARDIZED):
                how = (code == STANDARDIZED, code == MEAN_SCORE)
                ranking_kernels.rank_by_mean(scores, victims, *kept, *how, found)
            else:
                ranking_kernels.rank_by_rule(scores, victims, *kept, code, found)

    def _rank_apart(self, p: int, b: int, victims: I64) -> None:
        """Score some victims again one by one for every adversary, each with the adversary's own user row."""
        if self._scorer.kernels is not None:
            self._rank_compiled(self._memory[self._place_of[b], p], victims, p, b, victims)
            return
        targets, latest = self.targets[p], self._latest[p][b]
        for a in range(len(targets.adversaries)):
            n, scores = targets.n_targets[a], self.scores_of_queries(p, b, a, victims)
            for r, rule in enumerate(self._rules):
                score = get_rule(rule, probabilities=self._probabilities)
                latest[r, a, victims] = score(scores[:, :n], scores[:, n:])
        self._clear_own_scores(p, b)

    def _rank_compiled(self, rows: F32, row: I64, p: int, b: int, victims: I64) -> None:
        """Score victims by the model's own loops; `rows` contains their models."""
        assert self._scorer.kernels is not None
        self._scorer.kernels.rank(self._victims(rows, row, p, victims), self._asked[p], self._latest[p][b])
        self._clear_own_scores(p, b)

    def _victims(self, rows: F32, row: I64, p: int, ids: I64) -> VictimModels:
        return VictimModels(
            rows, row, ids, self._context.hides_user, self.fictive[p].users, self._shared_of[p]
        )

    def scores_of_queries(self, p: int, b: int, a: int, victims: I64) -> F32:
        """Return adversary a's scores of its queries by some victims' models, shape (n_victims, n_asked).

        Victims that hide their user row are scored with the adversary's fictive user.
        """
        layout, targets = self._scorer.layout, self.targets[p]
        models = self._memory[self._place_of[b], p, victims].astype(np.float32)
        place = np.arange(len(victims))
        hides = self._context.hides_user[victims]
        users = models[:, layout.users].reshape(len(victims), layout.n_users, layout.user_width)
        users[place[hides], layout.user_index(victims)[hides]] = self.fictive[p].users[a]
        models[:, layout.users] = users.reshape(len(victims), layout.n_users * layout.user_width)
        if len(self._shared_of[p]):
            columns = np.arange(layout.size)[layout.shared]
            models[np.flatnonzero(hides)[:, None], columns] = self._shared_of[p][a]
        asked, kept = slice(targets.offsets[a], targets.offsets[a + 1]), targets[a]
        query = ScoreQuery(
            layout, models, place, layout.user_index(victims),
            np.arange(len(victims) + 1, dtype=np.int64) * len(kept), np.tile(kept, len(victims)),
            {name: np.tile(column[asked], len(victims)) for name, column in targets.contexts.items()},
        )  # fmt: skip
        return self._scorer.score(query).reshape(len(victims), len(kept))

    def entropies_of_kept_items(self, p: int, b: int, victims: I64, a: int) -> F32:
        """Return the entropies of adversary a's kept items by some victims' items, shape (n_victims, n_kept)."""
        kernels, targets = self._scorer.kernels, self.targets[p]
        if kernels is None:
            return entropy(self.scores_of_queries(p, b, a, victims)).astype(np.float32)
        return kernels.entropies(self._victims(self._memory[b, p], victims, p, victims), a, targets[a])
