"""Gossip of descriptors: views converge to the most similar peers.

A descriptor describes a node's user; nodes pass on the descriptors that they hold, and each keeps the descriptors of
the peers most similar to itself. The *emulated* nodes share their tastes here, which a real system would have to
protect.

References
----------
M. Jelasity, A. Montresor, O. Babaoglu, "T-Man: gossip-based fast overlay topology construction", Computer Networks 53
(2009).
S. Voulgaris, M. van Steen, "VICINITY: a pinch of randomness brings out the structure", Middleware 2013.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from pydantic import Field

from gossiprec.base.arrays import F64, I32
from gossiprec.base.errors import ScenarioError
from gossiprec.base.rng import purpose_id, uniforms
from gossiprec.network.graphs.similarity import (
    BlockSimilarity,
    iter_similarity_blocks,
    spatial_proximity,
    taste_similarity,
)
from gossiprec.network.overlay import SAMPLINGS, ExchangedViews, ExchangeOptions, OverlayContext, View

RANK = purpose_id("descriptor-rank")
MAX_NODES = 20_000
"""Maximum number of nodes for which all ranks are stored: 4 bytes per pair, 1.6 GB."""


class DescriptorOptions(ExchangeOptions):
    """Nodes pass on descriptors of users, and keep the peers most similar to themselves."""

    sampling: Literal["descriptors"]
    rank: Literal["taste", "place", "random"] = Field(
        default="taste",
        description="similarity of nodes: Jaccard similarity of training items, distance of homes, or drawn "
        "once (for comparison)",
    )

    @property
    def follows_data(self) -> bool:
        """Whether nodes are similar by taste or place."""
        return self.rank != "random"


@SAMPLINGS.register("descriptors")
class Descriptors(ExchangedViews):
    """Views pooled at each wake with the view of the oldest peer, and with a random node.

    Notes
    -----
    VICINITY takes the random node from a peer-sampling layer below it; here it is drawn uniformly from the nodes
    online. A peer found offline is not accepted again with a descriptor made before that.
    """

    Options = DescriptorOptions

    def __init__(self, options: Any, setting: OverlayContext) -> None:
        super().__init__(options, setting)
        self._ranks = [memoryview(row) for row in similarity_ranks(options.rank, setting)]

    @property
    def n_words(self) -> int:
        """One word, for the random node."""
        return 1

    def exchange(self, node: int, now: float, words: Sequence[int]) -> None:
        """Pool the views of the node and of its oldest peer that is online."""
        own = self.views[node]
        peer = self.oldest_online(node, now)
        pooled = dict(own)
        pooled.update((random, now) for random in self.iter_introduced(node, now, words[0]))
        if peer is not None:
            pooled = self.merge_newest(pooled, self.views[peer])
            pooled[node] = pooled[peer] = now
            self.views[peer] = self._likest(pooled, peer)
        self.views[node] = self._likest(pooled, node)

    def _likest(self, pooled: View, node: int) -> View:
        known = self.accept_entries(node, pooled)
        likest = sorted(known, key=self._ranks[node].__getitem__)
        return {peer: known[peer] for peer in likest[: self.size]}


def similarity_ranks(rank: str, setting: OverlayContext) -> I32:
    """Return every node's rank by similarity to each node, 0 for the most similar; shape (n_nodes, n_nodes).

    Ties go to the lower id; a node is last in its own order.

    Raises
    ------
    ScenarioError
        If the users have no profiles, their items have no places, or there are too many nodes.
    """
    key, n = "protocol.view.rank", setting.n_nodes
    if n > MAX_NODES:
        raise ScenarioError(
            f"{key}: found {n} nodes, but similarities are stored for every pair of up to {MAX_NODES} "
            "nodes; lower dataset.limit_users, or use sampling: cyclon"
        )
    places = np.empty((n, n), np.int32)
    for first, block in iter_similarity_blocks(_similarity(rank, setting, key), n):
        order, ranks = np.argsort(-block, axis=1, kind="stable"), np.arange(n, dtype=np.int32)
        np.put_along_axis(places[first : first + len(block)], order, ranks[None, :], axis=1)
    return places


def _similarity(rank: str, setting: OverlayContext, key: str) -> BlockSimilarity:
    """Return the similarity function of a rank, as a function of a block of nodes."""
    profiles, n = setting.profiles, setting.n_nodes
    if rank == "random":
        return partial(_drawn_similarity, setting)
    if profiles is None:
        raise ScenarioError(f"{key}: found {rank!r}, but no user profiles are available; use random")
    if rank == "taste":
        return partial(taste_similarity, [profiles.items[user] for user in range(n)])
    if profiles.places is None:
        raise ScenarioError(
            f"{key}: found 'place', but the items of {profiles.dataset} have no places; use taste, or "
            "check-in data such as synthetic-checkins"
        )
    return partial(spatial_proximity, profiles.places)


def _drawn_similarity(setting: OverlayContext, rows: slice) -> F64:
    """Return random similarities, drawn once for each pair of nodes and symmetric."""
    nodes = np.arange(setting.n_nodes)
    some = nodes[rows, None]
    return uniforms(setting.seed, np.maximum(some, nodes), np.minimum(some, nodes), RANK)
