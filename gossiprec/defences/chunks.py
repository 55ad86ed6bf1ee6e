"""Chunks: each receiver of a push gets another piece of the model, so that no message shows the whole of it.

References
----------
S. Biswas, M. Even, A.-M. Kermarrec, L. Massoulie, R. Pires, R. Sharma, M. de Vos, "Noiseless privacy-preserving
decentralized learning" (Shatter), arXiv 2404.09536, algorithm 1. There each node runs k virtual nodes, which send its k
pieces, each to peers of its own in a random graph of all virtual nodes that is new in each round; so receivers cannot
tell who has sent a piece. Here the receivers of a push are divided among the virtual nodes of the sender, at each push
again. So no node gets two pieces of the same push, which can happen in Shatter; and the numbers of a piece are the same
for all nodes and pushes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import LARGEST, Options
from gossiprec.base.rng import purpose_id
from gossiprec.compute.messages import Cut, MessagePayload, MessageSize, PushedRows, RowTransform
from gossiprec.defences import POLICIES, Policy
from gossiprec.models.base import Layout, Model

SHIFTED = purpose_id("chunks")
HEADER = 8
"""Bytes that name a piece: its number and the number of pieces."""


class ChunksOptions(Options):
    """Options of chunks."""

    pieces: Annotated[int, Field(ge=2, le=LARGEST)]
    """number of pieces of a model; a push must have at least as many receivers to send all of them"""
    cut: Literal["interleaved", "contiguous"] = "interleaved"
    """interleaved: a piece holds every n-th number; contiguous: neighbouring numbers, mostly whole items"""
    virtual_nodes: bool = False
    """send each piece by a virtual node of its own, which receivers cannot link to the node; if false they can"""

    @property
    def n_virtual_nodes(self) -> int:
        """Number of virtual nodes of a node."""
        return self.pieces if self.virtual_nodes else 0


class Pieces(RowTransform):
    """A transform that sends receiver number i of a push piece i + s; s is drawn for each push."""

    is_partial = True
    per_receiver = True
    cut: Cut

    def __init__(self, options: ChunksOptions) -> None:
        self._options = options
        self.cut = Cut(options.pieces, options.cut == "contiguous", SHIFTED, HEADER)
        self.n_virtual_nodes = options.n_virtual_nodes

    def encode_rows(self, rows: PushedRows) -> None:
        """Encode the values in place."""
        from gossiprec.numerics.partial_rows import keep_piece

        cut = self.cut
        pieces = cut.pieces(rows.keys(SHIFTED), rows.place)
        keep_piece(rows.values, *cut.columns(pieces, np.zeros_like(pieces), rows.ends[-1]))

    def resized(self, payload: MessagePayload) -> MessagePayload:
        """Return the payload with the name of the piece."""
        return replace(payload, overhead=payload.overhead + HEADER)

    def planned_size(self, size: MessageSize) -> MessageSize:
        """Return the size of the largest piece and its name."""
        largest = -(-size.n_numbers // self._options.pieces)
        return MessageSize(largest, size.bits, size.overhead + HEADER)


@POLICIES.register("chunks")
class Chunks(Policy):
    """Each receiver of a push is sent one piece of the model, and keeps its own values of the other pieces.

    The pieces are disjoint and cover the model. If a push has more receivers than pieces, some get the same piece; a
    node with fewer receivers than usual leaves pieces out, others at each push.
    """

    Options = ChunksOptions
    options: ChunksOptions

    def check(self, model: Model, layout: Layout) -> None:
        """Refuse more pieces than numbers."""
        if self.options.pieces > layout.shared.stop:
            raise ScenarioError(
                f"policies: chunks: pieces: found {self.options.pieces}; expected at most {layout.shared.stop}, the "
                "numbers of a message; lower pieces"
            )

    def check_receivers(self, most: int | None) -> None:
        """Refuse more pieces than receivers."""
        if most is not None and self.options.pieces > most:
            raise ScenarioError(
                f"policies: chunks: pieces: found {self.options.pieces}, but with this protocol a node sends at most "
                f"{most} messages at once, so its chunks do not cover its model; lower pieces, or use gossip with a "
                "larger fanout"
            )

    def transform(self) -> Pieces:
        """Return the transform that cuts models into pieces."""
        return Pieces(self.options)
