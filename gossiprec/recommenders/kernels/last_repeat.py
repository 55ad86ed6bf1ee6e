"""What learning from the last of an item's samples alone makes of a gradient."""

from __future__ import annotations

from numpy import float32

from gossiprec.numerics.jit import kernel


@kernel
def add(
    core,
    items,
    slopes,
    item_slopes,
    samples,
    positives,
    places,
    numbers,
    extra,
    of_step,
    of_samples,
    shape,
    room,
):
    """Leave of each item's slope the part of one of its samples: they are all alike (:class:`AnalyticTerm`)."""
    share = float32(1.0) / float32(len(places))
    for i in range(len(items)):
        row = item_slopes[i]
        for t in range(len(row)):
            row[t] *= share / samples[t]
