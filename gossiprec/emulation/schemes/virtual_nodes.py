"""Messages in parts as observers see them: completed models, and virtual nodes, under which nodes send pieces."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gossiprec.adversaries.attacks import ATTACKS, Attack, Ranking
from gossiprec.adversaries.attacks.observations import KnownDeliveries, MergeDeliveries
from gossiprec.base.arrays import F32, I32, I64, Bools
from gossiprec.base.errors import ScenarioError
from gossiprec.base.rng import generator
from gossiprec.compute.partial_messages import PartialMessages
from gossiprec.emulation.assembly.components import RunComponents
from gossiprec.models import BlockRole
from gossiprec.runs.checkpoint_state import Stateful


class PartialViews(Stateful):
    """The completion of received models for observers, which score whole models.

    A single observer takes its own value of an item's number or a shared weight that was not sent. A pool takes the one
    that it received last from the same node, and before that the one with which all nodes begin. A number of the user's
    row that an observer does not have counts as zero.

    Parameters
    ----------
    partial : PartialMessages
    n_pools : int
    first : ndarray of float32, shape (row_size,)
        The version with which all nodes begin, without a user's row.
    """

    checkpointed = ("latest", "met")

    def __init__(self, partial: PartialMessages, n_pools: int, first: F32) -> None:
        self._partial, self._first = partial, first
        n_nodes = len(partial.is_partial)
        self._latest = np.zeros((n_pools, n_nodes, partial.layout.row_size), np.float32)
        self._met = np.zeros((n_pools, n_nodes), np.bool_)

    def complete_merges(self, raw: MergeDeliveries, senders: I32) -> None:
        """Complete the models that single observers are about to merge, in copies of their rows."""
        merges, layout = raw.merges, self._partial.layout
        own_user = layout.users if layout.n_users == 1 else slice(0, 0)
        entries = np.flatnonzero(self._partial.is_partial[senders])
        tasks = np.searchsorted(merges.merge_offsets, entries, side="right") - 1
        sent = slice(0, layout.shared.stop)
        rows = [raw.rows[row, sent] for row in merges.merge_row[entries].tolist()]
        messages, receivers = merges.merge_message[entries], merges.node[tasks]
        self._partial.expand(rows, sent, messages, senders[entries], receivers)
        for row, own in zip(rows, merges.source[tasks].tolist(), strict=True):
            row[own_user][np.isnan(row[own_user])] = 0.0
            _fill(row, raw.rows[own])

    def complete(self, rows: F32, pools: I32, senders: I32, messages: I32) -> None:
        """Complete copies of models that pools receive; the pairs of pool and sender are distinct."""
        sent = slice(0, self._partial.layout.shared.stop)
        self._partial.expand(list(rows[:, sent]), sent, messages, senders)
        for row, pool, sender in zip(rows, pools.tolist(), senders.tolist(), strict=True):
            if self._partial.is_partial[sender]:
                latest = self._latest[pool, sender]
                if not self._met[pool, sender]:
                    latest[:], self._met[pool, sender] = self._first, True
                _fill(row[sent], latest)
                latest[sent] = row[sent]


def _fill(row: F32, known: F32) -> None:
    np.copyto(row, known[: len(row)], where=np.isnan(row))


def make_partial_views(
    components: RunComponents, attacks: list[Attack], partial: PartialMessages
) -> PartialViews | None:
    """Return the completion of partial models for attacks, or None if there are none."""
    if not attacks:
        return None
    layout, draw = components.layout, generator(components.scenario.seed, "initial-common", 0)
    first = np.zeros(layout.row_size, np.float32)
    first[layout.items.start : layout.shared.stop] = layout.initial_common(draw)
    return PartialViews(partial, sum(len(attack.pools) for attack in attacks), first)


@dataclass(frozen=True)
class PieceView:
    """The deliveries of one piece, and of whole models, with names in place of senders.

    A message names its piece, and each node has one virtual node per piece. So an observer sees, of each piece,
    messages from as many identities as there are nodes. Their names are a permutation of the nodes' ids for each piece.

    Parameters
    ----------
    piece : ndarray of int32, shape (n_messages,)
        The piece in each message; -1 for whole models, which come from nodes under their own ids.
    number : int
        The piece that is seen.
    names : ndarray of int64, shape (n_nodes,)
        The name of each node's virtual node; its id if it has none.
    """

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
        merges = raw.merges
        own = self.shows(merges.merge_message)
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(own)])[merges.merge_offsets]
        columns = {name: getattr(merges, name)[own] for name in ("merge_row", "merge_keep", "merge_message")}
        return replace(raw, merges=merges._replace(merge_offsets=ends, **columns))

    def names_of(self, nodes: I64 | I32) -> I64:
        """Return the names of the virtual nodes of some nodes."""
        return self._names[nodes]

    def by_node(self, ranking: Ranking) -> Ranking:
        """Return a ranking of virtual nodes as one of their nodes, which only the scoring may know."""
        n_users = ranking.scores.shape[1]
        return replace(ranking, scores=ranking.scores[:, self._names[:n_users]])


def make_piece_views(components: RunComponents, partial: PartialMessages) -> list[PieceView]:
    """Return the view of an observer of the virtual nodes with each piece; none if nodes send under their own ids.

    Raises
    ------
    ScenarioError
        If messages or observers would tell the node of a virtual node.
    """
    outgoing, protocol, seed = components.outgoing, components.protocol, components.scenario.seed
    used = outgoing.nodes_with("n_virtual_nodes")
    if not used.any():
        return []
    _check(components, used)
    nodes = np.flatnonzero(used)
    transform = next(t for _, t in outgoing.rewriting_transforms(int(nodes[0])) if t.n_virtual_nodes)
    names = np.tile(np.arange(protocol.n_nodes), (transform.n_virtual_nodes, 1))
    for number, row in enumerate(names):
        row[nodes] = generator(seed, "virtual-nodes", number).permutation(nodes)
    return [PieceView(partial.piece, number, row) for number, row in enumerate(names)]


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
