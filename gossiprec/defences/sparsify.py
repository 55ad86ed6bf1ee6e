"""Sparsification of messages with error feedback: part of the numbers are sent, the others' changes are remembered.

References
----------
S. U. Stich, J.-B. Cordonnier, M. Jaggi, "Sparsified SGD with memory", NeurIPS 2018, algorithm 1. There the sparsified
vectors are updates, which a server adds up. Here a message holds values of a model: a node of gossip keeps its own
model, so that a number that it sends contains all its earlier changes; a client of FedAvg gives up its model in each
round, so that the remembered change is added to the number that it sends.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from pydantic import Field, model_validator

from gossiprec.base.arrays import F32, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import LARGEST, Options
from gossiprec.base.registry import registry_name
from gossiprec.base.rng import purpose_id
from gossiprec.compute.messages import MessagePayload, MessageSize, PackedRows, PushedRows, RowTransform
from gossiprec.compute.plan.tape import Behaviour, Op
from gossiprec.defences import Policy
from gossiprec.models.base import Layout, Model

CHOSEN = purpose_id("random-k")


class SparsifyOptions(Options):
    """Options of sparsification."""

    share: float | None = Field(default=None, gt=0, le=1)
    """fraction of a message's numbers that are sent; default 0.1, unless k is set"""
    k: Annotated[int, Field(ge=1, le=LARGEST)] | None = None
    """number of a message's numbers that are sent, in place of share"""

    @model_validator(mode="after")
    def _one_of_both(self) -> SparsifyOptions:
        if self.share is not None and self.k is not None:
            raise ValueError("found both share and k; expected one of them; remove the other")
        return self


class Sparsify(RowTransform):
    """A transform that sends k numbers, and remembers the changes of the others."""

    is_partial = True
    keeps_memory = True
    sums_updates = True
    needs_base = True
    has_fixed_size = True

    def __init__(self, options: SparsifyOptions, *, largest: bool, adopts: bool) -> None:
        self._options, self._largest, self._adopts = options, largest, adopts

    def encode_rows(self, rows: PushedRows) -> None:
        """Encode the values in place."""
        from gossiprec.numerics.partial_rows import sparsify

        k = self._count(rows.values.shape[1])
        how = (k, self._adopts, self._largest, rows.ends[0])
        sparsify(rows.values, rows.bases, rows.memory, rows.memory_row, rows.keys(CHOSEN), how)

    def packed_count(self, n_numbers: int) -> int:
        """Return k if nodes keep their own models."""
        return 0 if self._adopts else self._count(n_numbers)

    def pack_rows(self, rows: F32, packed: PackedRows) -> None:
        """Write k numbers of each version, and after them their columns."""
        from gossiprec.numerics.partial_rows import pack_rows

        source, base, target, memory, pushes, begin, end, first = packed
        keys = np.zeros(len(source), np.int64) if self._largest else pushes.of(CHOSEN)
        how = (self._count(end - begin), self._largest, begin, first)
        pack_rows(rows, (source, base, target), memory[:, :end], pushes.node, keys, how)

    def resized(self, payload: MessagePayload) -> MessagePayload:
        """Return the payload with four bytes for each place, or eight from which random places follow."""
        n_sent = sum(part.size for part in payload.parts) if payload.sent is None else payload.sent.sum()
        return replace(payload, overhead=payload.overhead + (4 * int(n_sent) if self._largest else 8))

    def planned_size(self, size: MessageSize) -> MessageSize:
        """Return the size of k numbers and their places."""
        k = self._count(size.n_numbers)
        return MessageSize(k, size.bits, size.overhead + (4 * k if self._largest else 8))

    def _count(self, n_numbers: int) -> int:
        share = 0.1 if self._options.share is None else self._options.share
        k = max(1, round(share * n_numbers)) if self._options.k is None else self._options.k
        return min(k, n_numbers)


class Sparsification(Policy):
    """The common part of both policies."""

    Options = SparsifyOptions
    options: SparsifyOptions
    largest: bool

    def __init__(self, options: Any, nodes: I64) -> None:
        super().__init__(options, nodes)
        self._adopts = False

    def check(self, model: Model, layout: Layout) -> None:
        """Refuse more numbers than a message has."""
        if self.options.k is not None and self.options.k > layout.shared.stop:
            raise ScenarioError(
                f"policies: {registry_name(self)}: k: found {self.options.k}; expected at most {layout.shared.stop}, "
                "the numbers of a message; lower k, or remove the policy to send whole models"
            )

    def check_behaviour(self, behaviour: Behaviour) -> None:
        """Note whether nodes give up their own model."""
        self._adopts = Op.ADOPT in behaviour.on_any_receive

    def transform(self) -> Sparsify:
        """Return the transform that sends k numbers."""
        return Sparsify(self.options, largest=self.largest, adopts=self._adopts)
