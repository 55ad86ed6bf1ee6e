"""Virtual nodes: the identities under which nodes send pieces of their models, and what observers see of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gossiprec.adversaries.attacks import ATTACKS, Ranking
from gossiprec.adversaries.attacks.observations import KnownDeliveries, MergeDeliveries
from gossiprec.base.arrays import I32, I64, Bools
from gossiprec.base.errors import ScenarioError
from gossiprec.base.rng import generator
from gossiprec.compute.partial_messages import PartialMessages
from gossiprec.emulation.assembly.components import RunComponents
from gossiprec.models import BlockRole


@dataclass(frozen=True)
class VirtualNodes:
    """The virtual nodes of a run.

    A message names its piece, and each node has one virtual node per piece. So an observer sees, of each piece,
    messages from as many identities as there are nodes. Their names are a permutation of the nodes' ids for each piece.

    Attributes
    ----------
    piece : ndarray of int32, shape (n_messages,)
        The piece in each message; -1 for whole models, which come from nodes under their own ids.
    names : ndarray of int64, shape (n_pieces, n_nodes)
        The name of each node's virtual node; its id if it has none.
    """

    piece: I32
    names: I64

    def view(self, piece: int) -> PieceView:
        """Return the view of an observer of the virtual nodes with a piece."""
        return PieceView(self.piece, piece, self.names[piece])


@dataclass(frozen=True)
class PieceView:
    """The deliveries of one piece, and of whole models, with names in place of senders."""

    _piece: I32
    _number: int
    _names: I64

    def shows(self, messages: I32) -> Bools:
        """Return which messages belong to it."""
        found = self._piece[messages]
        return np.asarray((found < 0) | (found == self._number))

    def rename(self, deliveries: KnownDeliveries) -> KnownDeliveries:
        """Return the deliveries that belong to it, by the names of their senders."""
        own = self.shows(deliveries.message)
        parts = {name: getattr(deliveries, name)[own] for name in ("message", "sender", "receiver", "time")}
        return replace(deliveries, **parts | {"sender": self.names_of(parts["sender"]).astype(np.int32)})

    def select(self, raw: MergeDeliveries) -> MergeDeliveries:
        """Return the merges of which the messages belong to it."""
        program = raw.program
        own = self.shows(program.merge_message)
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(own)])[program.merge_offsets]
        columns = {name: getattr(program, name)[own] for name in ("merge_row", "merge_keep", "merge_message")}
        return replace(raw, program=replace(program, merge_offsets=ends, **columns))

    def names_of(self, nodes: I64 | I32) -> I64:
        """Return the names of the virtual nodes of some nodes."""
        return self._names[nodes]

    def by_node(self, ranking: Ranking) -> Ranking:
        """Return a ranking of virtual nodes as one of their nodes, which only the scoring may know."""
        n_users = ranking.scores.shape[1]
        return replace(ranking, scores=ranking.scores[:, self._names[:n_users]])


def join_views(rankings: Sequence[Ranking]) -> Ranking:
    """Return the rankings of one observer by piece as one."""
    return replace(rankings[0], views=tuple(ranking.scores for ranking in rankings[1:]))


def make_virtual_nodes(components: RunComponents, partial: PartialMessages | None) -> VirtualNodes | None:
    """Return the virtual nodes of a run, or None if nodes send under their own ids.

    Raises
    ------
    ScenarioError
        If messages or observers would tell the node of a virtual node.
    """
    outgoing, protocol, seed = components.outgoing, components.protocol, components.scenario.seed
    used = outgoing.nodes_with("n_virtual_nodes")
    if not used.any() or partial is None:
        return None
    _check(components, used)
    nodes = np.flatnonzero(used)
    transform = next(t for _, t in outgoing.rewriting_transforms(int(nodes[0])) if t.n_virtual_nodes)
    names = np.tile(np.arange(protocol.n_nodes), (transform.n_virtual_nodes, 1))
    for number, row in enumerate(names):
        row[nodes] = generator(seed, "virtual-nodes", number).permutation(nodes)
    return VirtualNodes(partial.piece, names)


def _check(components: RunComponents, used: Bools) -> None:
    scenario, where = components.scenario, "policies: virtual_nodes"
    kinds = {
        id(transform)
        for node in np.flatnonzero(used).tolist()
        for _, transform in components.outgoing.rewriting_transforms(node)
        if transform.n_virtual_nodes
    }
    if len(kinds) > 1:
        raise ScenarioError(
            f"{where}: found {len(kinds)} policies with virtual nodes; expected one, for its names hide a node "
            "among the nodes that use it; join them"
        )
    if components.layout.n_users > 1:
        raise ScenarioError(
            f"{where}: with protocol.user_table 'averaged' every piece holds rows of all users; set it to 'own'"
        )
    if components.outgoing.withholds_role(BlockRole.USER).any():
        raise ScenarioError(
            f"{where}: another policy withholds users' rows, which observers of virtual nodes do not support; remove "
            "one of both"
        )
    for section, choices in (("observers", scenario.observers), ("adversaries", scenario.adversaries)):
        for choice in choices:
            if not ATTACKS[choice.name].ranks_names:
                raise ScenarioError(
                    f"{section}: {choice.name} draws conclusions about nodes, but with virtual_nodes a message does "
                    "not name its node; use cda, or set virtual_nodes to false"
                )
