"""Quantisation: the numbers of a message are rounded at random to a few levels.

References
----------
D. Alistarh, D. Grubic, J. Li, R. Tomioka, M. Vojnovic, "QSGD: communication-efficient SGD via gradient quantization and
encoding", NeurIPS 2017, section 3.1: levels at equal distances, up or down so that the mean is kept. There they
reach from zero to the norm; here from the smallest to the largest number of the user's row, of the items, and of the
shared weights.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from pydantic import Field

from gossiprec.base.options import Options
from gossiprec.base.rng import purpose_id
from gossiprec.compute.messages import BYTES, MessagePayload, MessageSize, PushedRows, RowTransform
from gossiprec.defences import POLICIES, Policy

ROUNDED = purpose_id("quantize")


class QuantizeOptions(Options):
    """Options of quantisation."""

    bits: int = Field(default=8, ge=1, le=16)
    """bits of a number in a message"""


class Levels(RowTransform):
    """A transform that rounds numbers to ``2 ** bits`` levels between the extremes of their part."""

    def __init__(self, bits: int) -> None:
        self._bits = bits

    def encode_rows(self, rows: PushedRows) -> None:
        """Encode the values in place; numbers that are not sent stay missing."""
        from gossiprec.numerics.partial_rows import quantize

        quantize(rows.values, rows.keys(ROUNDED), np.array(rows.ends), 2**self._bits - 1)

    def resized(self, payload: MessagePayload) -> MessagePayload:
        """Return the payload with fewer bits, and the two extremes of each part."""
        n_parts = sum(part.size > 0 for part in payload.parts)
        return replace(payload, bits=self._bits, overhead=payload.overhead + 2 * BYTES * n_parts)

    def planned_size(self, size: MessageSize) -> MessageSize:
        """Return the size with fewer bits, and the extremes of three parts."""
        return MessageSize(size.n_numbers, self._bits, size.overhead + 6 * BYTES)


@POLICIES.register("quantize")
class Quantize(Policy):
    """Numbers are rounded up or down at random to equal steps, so that their mean over many messages is kept."""

    Options = QuantizeOptions
    options: QuantizeOptions

    def transform(self) -> Levels:
        """Return the transform that rounds."""
        return Levels(self.options.bits)
