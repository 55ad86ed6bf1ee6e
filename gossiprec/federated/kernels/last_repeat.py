"""Compiled correction of a gradient for learning only from the last of an item's samples."""

from __future__ import annotations

from numpy import float32

from gossiprec.native.jit import kernel


@kernel
def add(client):
    """Keep one sample's part of each item's slope: the samples of an item are equal (:class:`AnalyticTerm`).

    Numbers: 1 if the loss is summed over the samples, 0 if it is their mean.
    """
    share = float32(1.0) if client.numbers[0] else float32(1.0) / float32(len(client.places))
    for i in range(len(client.items)):
        row = client.item_slopes[i]
        for t in range(len(row)):
            row[t] *= share / client.samples[t]
