"""What learning from the last of an item's samples alone makes of a gradient."""

from __future__ import annotations

from numpy import float32

from gossiprec.native.jit import kernel


@kernel
def add(client):
    """Leave of each item's slope the part of one of its samples: they are all alike (:class:`AnalyticTerm`).

    Numbers: 1 if the loss is summed over the samples, 0 if it is their mean.
    """
    share = float32(1.0) if client.numbers[0] else float32(1.0) / float32(len(client.places))
    for i in range(len(client.items)):
        row = client.item_slopes[i]
        for t in range(len(row)):
            row[t] *= share / client.samples[t]
