"""Pools: a coalition, or the coordinator, keeps one whole momentum model per victim and shares it."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gossiprec.arrays import F32, I32, I64, U32
from gossiprec.attacks.base import Meetings, World
from gossiprec.attacks.fictive import FictiveUsers
from gossiprec.attacks.relevance import RELEVANCE, entropy, rule_code, rule_named
from gossiprec.attacks.targets import TargetItems
from gossiprec.compute.plan.planner import Sightings
from gossiprec.numerics.rounding import to_half
from gossiprec.rng import philox_words, purpose_id

ROUNDING = purpose_id("rounding-momentum")
CHUNK = 256
"""Victims scored at a time."""
_STATE = ("memory", "met", "changed", "seen_at", "latest", "shared_of")
"""What changes in the course of a run."""


class CoalitionObservers:
    """Momentum models of several pools, and the rankings made of them.

    Parameters
    ----------
    world : World
    targets : sequence of TargetItems
        Of each pool: its members' own items, or everyone's for the coordinator.
    momenta : ndarray of float32, shape (n_momenta,)
    rules : sequence of str
    fictive : sequence of FictiveUsers
        Of each pool: what its adversaries look with at victims that hide their user row.
    hosts : sequence of ndarray of int64, shape (n_adversaries,)
        Of each pool: the nodes whose present models its adversaries have at hand.

    Notes
    -----
    A victim's score changes only when one of its models was seen, so a ranking scores the victims seen since the last;
    and, after a change of the fictive users, all those that hide their user row.

    Models of moves are large. Without momentum, and if nobody hides its user row, the compiled form scores them when
    they are seen and keeps none. With momentum they are kept as the run keeps its own: in float16 rounded at random.
    """

    def __init__(
        self,
        world: World,
        targets: Sequence[TargetItems],
        momenta: F32,
        rules: Sequence[str],
        fictive: Sequence[FictiveUsers],
        hosts: Sequence[I64],
    ) -> None:
        self._world = world
        self.targets = targets
        self._momenta = momenta
        self._rules = rules
        self.fictive = fictive
        self._hosts = hosts
        self._shared_of = [np.zeros((0, world.executor.work.layout.n_shared), np.float32) for _ in targets]
        self._moves = world.moves is not None
        on_sight = self._moves and world.compiled and not world.hides_user.any()
        self._scored_on_sight = on_sight & (momenta == 0)
        self._place_of = np.cumsum(~self._scored_on_sight) - 1
        self._latest = [
            np.full((len(momenta), len(rules), len(t.adversaries), world.n_users), np.nan, np.float32)
            for t in targets
        ]
        self._weights: list[F32] = []
        if self._moves and world.compiled:
            model = world.executor.work.model
            assert model.places is not None
            self._weights = [t.weights(model.places, model.options.alpha) for t in targets]

    def foresee(self, meetings: Meetings, first_pool: int) -> None:
        """Take the memory: a row per momentum, pool and victim."""
        row_size = self._world.executor.work.layout.row_size
        self._first_pool = first_pool
        shape = (int((~self._scored_on_sight).sum()), len(self.targets), self._world.n_users)
        kind = self._world.executor.work.arena.rows.dtype if self._moves else np.float32
        self._memory = np.zeros((*shape, row_size), kind)
        self._met = np.zeros(shape[1:], np.bool_)
        self._changed = np.zeros(shape[1:], np.bool_)
        self._seen_at = np.full(shape[1:], -np.inf)
        self._time_of = np.zeros(meetings.n_messages)
        self._time_of[meetings.message] = meetings.time

    def announce(self, meetings: Meetings) -> None:
        """Learn when the next deliveries arrive."""
        self._time_of[meetings.message] = meetings.time

    def warm_up(self) -> None:
        """Rank nobody once."""
        nobody = np.zeros(0, np.int64)
        for b in np.flatnonzero(~self._scored_on_sight)[:1].tolist():
            self._rank(0, b, nobody)
            self._rank_apart(0, b, nobody)
        some_rows = np.zeros(len(self._hosts[0]), np.int64)
        rows = self._world.executor.work.arena.rows
        self.fictive[0].fit_due(rows, some_rows, np.nan)  # none is due at no time

    def state(self) -> dict[str, Any]:
        """Return momentum models and scores, for a checkpoint."""
        return {name: getattr(self, f"_{name}") for name in _STATE}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state` gave."""
        for name in _STATE:
            setattr(self, f"_{name}", state[name])

    @property
    def state_bytes(self) -> int:
        """Memory of the kept rows and the latest scores."""
        return self._memory.nbytes + sum(latest.nbytes for latest in self._latest)

    def sight(self, rows: F32, sightings: Sightings, first: int, last: int) -> None:
        """See sightings number first .. last - 1, of which those of other attacks' pools are left out."""
        pool = sightings.pool[first:last] - self._first_pool
        mine = (pool >= 0) & (pool < len(self.targets)) & (sightings.victim[first:last] < self._world.n_users)
        pool, victim, row = pool[mine], sightings.victim[first:last][mine], sightings.row[first:last][mine]
        self._changed[pool, victim] = True
        self._seen_at[pool, victim] = self._time_of[sightings.message[first:last][mine]]
        layout, hides = self._world.executor.work.layout, self._world.hides_user
        begin, end = layout.items.start, layout.size
        if self._moves:
            message = sightings.message[first:last][mine]
            keys = philox_words(self._world.seed, 0, message, victim, ROUNDING)[:, 0]
            return self._sight_moves(rows, pool, victim, row, keys)
        if self._world.compiled:
            from gossiprec.attacks import cda_kernels

            cda_kernels.blend_rows(
                rows, row, pool, victim, hides, begin, self._memory, self._momenta, self._met, end
            )
            return None
        for p, v, r in zip(pool, victim, row, strict=True):
            self._blend(p, v, rows[r])
        return None

    def _blend(self, p: int, v: int, row: F32, key: U32 | None = None) -> None:
        """Blend a version into a victim's models, for any model: the plain form of the compiled loops."""
        layout, met = self._world.executor.work.layout, self._met[p, v]
        seen = slice(layout.items.start if self._world.hides_user[v] else 0, layout.size)
        for b, momentum in enumerate(self._momenta if met else np.zeros_like(self._momenta)):
            held = self._memory[b, p, v].astype(np.float32)
            held[seen] *= momentum
            held[seen] += (np.float32(1.0) - momentum) * row[seen]
            self._memory[b, p, v] = held if key is None else to_half(held[None], key[None])[0]
        self._met[p, v] = True

    def _sight_moves(self, rows: F32, pool: I32, victim: I32, row: I32, keys: U32) -> None:
        if not self._world.compiled:
            is_half = self._memory.dtype == np.float16
            for p, v, r, key in zip(pool, victim, row, keys, strict=True):
                self._blend(p, v, rows[r], key if is_half else None)
            return
        from gossiprec.attacks import moves_kernels
        from gossiprec.compute.executors.prme_calls import flat

        layout = self._world.executor.work.layout
        for b in np.flatnonzero(self._scored_on_sight).tolist():
            for p in range(len(self.targets)):
                mine = pool == p
                self._rank_moves_compiled(
                    rows, row[mine].astype(np.int64), p, b, victim[mine].astype(np.int64)
                )
        moves_kernels.blend_rows(
            flat(rows), layout.row_size, row, pool, victim, keys, self._world.hides_user, layout.items.start,
            flat(self._memory), self._momenta[~self._scored_on_sight], self._met, layout.size,
        )  # fmt: skip

    def rankings(self) -> Iterator[tuple[int, str, np.float32, I64, F32]]:
        """Yield (pool, rule, momentum, adversaries, scores)."""
        for p, targets in enumerate(self.targets):
            changed = self._changed[p] | (self._met[p] & self._world.hides_user[: self._world.n_users])
            if not self._refresh(p):
                changed = self._changed[p]
            for b, momentum in enumerate(self._momenta):
                if not self._scored_on_sight[b]:
                    self._world.threads.run(
                        functools.partial(self._rank_share, p, b, np.flatnonzero(changed))
                    )
                for r, rule in enumerate(self._rules):
                    yield p, rule, momentum, targets.adversaries, self._latest[p][b, r]
            self._changed[p] = False

    def _refresh(self, p: int) -> bool:
        """Bring the fictive users up to date if there is anyone to look at with them; say if any changed."""
        hidden = self.hidden_met(p)
        fictive, rows = self.fictive[p], self._world.executor.work.arena.rows
        if not len(hidden):
            return False
        row_of = self._world.own_rows()[self._hosts[p]]
        if not fictive.own:
            return fictive.fit_due(rows, row_of, float(self._seen_at[p].max()))
        layout = self._world.executor.work.layout
        index = layout.user_index(self._hosts[p])
        users = rows[row_of, layout.users].reshape(len(row_of), layout.n_users, -1)
        fictive.users[:] = users[np.arange(len(row_of)), index]
        self._shared_of[p] = np.ascontiguousarray(rows[row_of, layout.shared])
        return True

    def open_met(self, p: int) -> I64:
        """Return the victims that a pool has met and that share their user row."""
        return np.flatnonzero(self._met[p] & ~self._world.hides_user[: self._world.n_users])

    def hidden_met(self, p: int) -> I64:
        """Return the victims that a pool has met and that hide their user row."""
        return np.flatnonzero(self._met[p] & self._world.hides_user[: self._world.n_users])

    def _rank_share(self, p: int, b: int, victims: I64, part: int) -> None:
        hides = self._world.hides_user[victims]
        for some, rank in ((victims[~hides], self._rank), (victims[hides], self._rank_apart)):
            share = self._world.threads.share(len(some), part)
            for low in range(share.start, share.stop, CHUNK):
                rank(p, b, some[low : min(low + CHUNK, share.stop)])

    def scores_of(self, p: int, b: int, victims: I64) -> F32:
        """Return the scores of all items by some victims' own models, shape (n_victims, n_items)."""
        layout = self._world.executor.work.layout
        return self._world.executor.scores(
            layout, self._memory[b, p], victims, layout.user_index(victims),
            np.arange(len(victims) + 1, dtype=np.int64) * layout.n_items,
            np.tile(np.arange(layout.n_items, dtype=np.int32), len(victims)),
        ).reshape(len(victims), layout.n_items)  # fmt: skip

    def _rank(self, p: int, b: int, victims: I64) -> None:
        """Score some victims anew for every target set of a pool."""
        targets, latest = self.targets[p], self._latest[p][b]
        if self._moves:
            return self._rank_moves(p, b, victims)
        scores = self.scores_of(p, b, victims)
        if self._world.compiled:
            self._rank_compiled(scores, victims, targets, latest)
        else:
            for a in range(len(targets.adversaries)):
                own, references = targets[a]
                for r, rule in enumerate(self._rules):
                    latest[r, a, victims] = rule_named(rule)(scores[:, own], scores[:, references])
        latest[:, np.arange(len(targets.adversaries)), targets.adversaries] = np.nan
        return None

    def _rank_moves(self, p: int, b: int, victims: I64) -> None:
        """Score some victims anew for every adversary's moves, whether or not they hide their user row."""
        if self._world.compiled:
            return self._rank_moves_compiled(self._memory[self._place_of[b], p], victims, p, b, victims)
        targets, latest = self.targets[p], self._latest[p][b]
        for a in range(len(targets.adversaries)):
            n, scores = targets.n_targets[a], self.scores_apart(p, b, a, victims)
            for r, rule in enumerate(self._rules):
                score = rule_named(rule, moves=True)
                latest[r, a, victims] = score(scores[:, :n], scores[:, n:])
        latest[:, np.arange(len(targets.adversaries)), targets.adversaries] = np.nan
        return None

    def _rank_moves_compiled(self, rows: F32, row: I64, p: int, b: int, victims: I64) -> None:
        """Score victims, whose models are some of `rows`, for every adversary's moves."""
        from gossiprec.attacks import moves_kernels
        from gossiprec.compute.executors.prme_calls import flat

        layout, targets, latest = self._world.executor.work.layout, self.targets[p], self._latest[p][b]
        rules = np.array([rule_code(rule)[0] for rule in self._rules])
        moves_kernels.rank(
            flat(rows), layout.row_size, row, victims, self._world.hides_user, self.fictive[p].users,
            targets.offsets, targets.items, targets.contexts, targets.n_targets, self._weights[p], rules, latest,
            layout.n_items, layout.n_users, (0,) * layout.user_width,
        )  # fmt: skip
        latest[:, np.arange(len(targets.adversaries)), targets.adversaries] = np.nan

    def _rank_compiled(self, scores: F32, victims: I64, targets: TargetItems, latest: F32) -> None:
        from gossiprec.attacks import cda_kernels, entropy_kernels

        kept = (targets.offsets, targets.items, targets.n_targets)
        if self._rules[0] not in RELEVANCE:
            thresholds = np.array([rule_code(rule)[1] for rule in self._rules], np.float32)
            entropy_kernels.rank_by_members(scores, victims, *kept, thresholds, latest)
            return
        for r, rule in enumerate(self._rules):
            if rule == "ndcg":
                cda_kernels.rank_by_gain(scores, victims, *kept, *targets.by_item, latest[r])
            else:
                cda_kernels.rank_by_mean(scores, victims, *kept, rule == "standardized", latest[r])

    def _rank_apart(self, p: int, b: int, victims: I64) -> None:
        """Score some victims anew that hide their user row: every adversary with a user of its own."""
        targets, latest, layout = self.targets[p], self._latest[p][b], self._world.executor.work.layout
        if self._moves:
            return self._rank_moves(p, b, victims)
        if self._world.compiled:
            from gossiprec.attacks import fictive_kernels

            codes, thresholds = zip(*map(rule_code, self._rules), strict=True)
            fictive_kernels.rank_apart(
                self._memory[b, p], victims, self.fictive[p].users, self._shared_of[p], targets.offsets, targets.items,
                targets.n_targets, np.array(codes),
                np.array(thresholds, np.float32), latest, layout.n_items, layout.n_users, (0,) * layout.user_width,
            )  # fmt: skip
        else:
            for a in range(len(targets.adversaries)):
                n, scores = targets.n_targets[a], self.scores_apart(p, b, a, victims)
                for r, rule in enumerate(self._rules):
                    latest[r, a, victims] = rule_named(rule)(scores[:, :n], scores[:, n:])
        latest[:, np.arange(len(targets.adversaries)), targets.adversaries] = np.nan
        return None

    def scores_apart(self, p: int, b: int, a: int, victims: I64) -> F32:
        """Return adversary a's scores of all it asks about by some victims' models, shape (n_victims, n_asked).

        Those that hide their user row are seen with the adversary's fictive user.
        """
        layout, targets = self._world.executor.work.layout, self.targets[p]
        models, place = (
            self._memory[self._place_of[b], p, victims].astype(np.float32),
            np.arange(len(victims)),
        )
        hides = self._world.hides_user[victims]
        users = models[:, layout.users].reshape(len(victims), layout.n_users, layout.user_width)
        users[place[hides], layout.user_index(victims)[hides]] = self.fictive[p].users[a]
        models[:, layout.users] = users.reshape(len(victims), layout.n_users * layout.user_width)
        if len(self._shared_of[p]):
            models[np.flatnonzero(hides)[:, None], np.arange(layout.size)[layout.shared]] = self._shared_of[
                p
            ][a]
        asked = slice(targets.offsets[a], targets.offsets[a + 1])
        kept = targets.items[asked]
        contexts = None if targets.contexts is None else np.tile(targets.contexts[asked], len(victims))
        return self._world.executor.scores(
            layout, models, place, layout.user_index(victims),
            np.arange(len(victims) + 1, dtype=np.int64) * len(kept), np.tile(kept, len(victims)), contexts,
        ).reshape(len(victims), len(kept))  # fmt: skip

    def entropies_apart(self, p: int, b: int, victims: I64, a: int) -> F32:
        """Return the entropies of adversary a's kept items by some victims' items, shape (n_victims, n_kept)."""
        if not self._world.compiled:
            return entropy(self.scores_apart(p, b, a, victims)).astype(np.float32)
        from gossiprec.attacks import fictive_kernels

        layout, targets = self._world.executor.work.layout, self.targets[p]
        kept = targets.items[targets.offsets[a] : targets.offsets[a + 1]]
        out = np.empty((len(victims), len(kept)), np.float32)
        fictive_kernels.entropies_apart(
            self._memory[b, p], victims, self.fictive[p].users[a], self._shared_of[p][a : a + 1], kept,
            layout.n_items, layout.n_users, (0,) * layout.user_width, out,
        )  # fmt: skip
        return out
