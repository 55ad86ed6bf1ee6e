"""Pools: a coalition, or the coordinator, keeps one whole momentum model per victim and shares it."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from gossiprec.attacks.base import F32, I64, World
from gossiprec.attacks.relevance import RELEVANCE
from gossiprec.attacks.targets import TargetItems
from gossiprec.compute.planner import Sightings

CHUNK = 256
"""Victims scored at a time."""


class ObserverPools:
    """Momentum models of several pools, and the rankings made of them.

    Parameters
    ----------
    world : World
    targets : sequence of TargetItems
        Of each pool: its members' own items, or everyone's for the coordinator.
    momenta : ndarray of float32, shape (n_momenta,)
    rules : sequence of str

    Notes
    -----
    A victim's score changes only when one of its models was seen, so a ranking scores the victims seen since the last.
    """

    def __init__(
        self,
        world: World,
        targets: Sequence[TargetItems],
        momenta: npt.NDArray[np.float32],
        rules: Sequence[str],
    ) -> None:
        self._world = world
        self._targets = targets
        self._momenta = momenta
        self._rules = rules
        self._latest = [
            np.full((len(momenta), len(rules), len(t.adversaries), world.n_users), np.nan, np.float32)
            for t in targets
        ]

    def foresee(self, first_pool: int) -> None:
        """Take the memory: a row per momentum, pool and victim."""
        row_size = self._world.executor.work.layout.row_size
        self._first_pool = first_pool
        shape = (len(self._momenta), len(self._targets), self._world.n_users)
        self._memory = np.zeros((*shape, row_size), np.float32)
        self._met = np.zeros(shape[1:], np.bool_)
        self._changed = np.zeros(shape[1:], np.bool_)

    def warm_up(self) -> None:
        """Rank nobody once."""
        self._rank(0, 0, np.zeros(0, np.int64))

    @property
    def state_bytes(self) -> int:
        """Memory of the kept rows and the latest scores."""
        return self._memory.nbytes + sum(latest.nbytes for latest in self._latest)

    def sight(self, rows: F32, sightings: Sightings, first: int, last: int) -> None:
        """See sightings number first .. last - 1, of which those of other attacks' pools are left out."""
        pool = sightings.pool[first:last] - self._first_pool
        mine = (
            (pool >= 0) & (pool < len(self._targets)) & (sightings.victim[first:last] < self._world.n_users)
        )
        pool, victim, row = pool[mine], sightings.victim[first:last][mine], sightings.row[first:last][mine]
        self._changed[pool, victim] = True
        if self._world.compiled:
            from gossiprec.attacks import cda_kernels

            n = self._world.executor.work.layout.size
            cda_kernels.blend_rows(
                rows, row, pool, victim, 0, len(pool), self._memory, self._momenta, self._met, n
            )
            return
        for p, v, r in zip(pool, victim, row, strict=True):
            for b, momentum in enumerate(self._momenta if self._met[p, v] else np.zeros_like(self._momenta)):
                held = self._memory[b, p, v]
                held *= momentum
                held += (np.float32(1.0) - momentum) * rows[r]
            self._met[p, v] = True

    def rankings(self) -> Iterator[tuple[int, str, np.float32, I64, F32]]:
        """Yield (pool, rule, momentum, adversaries, scores)."""
        for p, targets in enumerate(self._targets):
            changed = np.flatnonzero(self._changed[p])
            for b, momentum in enumerate(self._momenta):
                self._world.crew.run(functools.partial(self._rank_share, p, b, changed))
                for r, rule in enumerate(self._rules):
                    yield p, rule, momentum, targets.adversaries, self._latest[p][b, r]
            self._changed[p] = False

    def _rank_share(self, p: int, b: int, victims: I64, part: int) -> None:
        share = self._world.crew.share(len(victims), part)
        for low in range(share.start, share.stop, CHUNK):
            self._rank(p, b, victims[low : min(low + CHUNK, share.stop)])

    def _rank(self, p: int, b: int, victims: I64) -> None:
        """Score some victims anew for every target set of a pool."""
        work, targets, latest = self._world.executor.work, self._targets[p], self._latest[p][b]
        n_items = work.layout.n_items
        scores = self._world.executor.scores(
            work.layout, self._memory[b, p], victims, work.layout.user_index(victims),
            np.arange(len(victims) + 1, dtype=np.int64) * n_items,
            np.tile(np.arange(n_items, dtype=np.int32), len(victims)),
        ).reshape(len(victims), n_items)  # fmt: skip
        if self._world.compiled:
            from gossiprec.attacks import cda_kernels

            kept = (targets.offsets, targets.items, targets.n_targets)
            for r, rule in enumerate(self._rules):
                if rule == "ndcg":
                    cda_kernels.rank_by_gain(scores, victims, *kept, *targets.by_item, latest[r])
                else:
                    cda_kernels.rank_by_mean(scores, victims, *kept, rule == "standardized", latest[r])
        else:
            for a in range(len(targets.adversaries)):
                own, references = targets[a]
                for r, rule in enumerate(self._rules):
                    latest[r, a, victims] = RELEVANCE[rule](scores[:, own], scores[:, references])
        latest[:, np.arange(len(targets.adversaries)), targets.adversaries] = np.nan
