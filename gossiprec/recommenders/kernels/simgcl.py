"""What SimGCL adds to a gradient."""

from __future__ import annotations

from gossiprec.numerics.jit import kernel
from gossiprec.recommenders.kernels.contrast import add_noisy_views


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
    """Add the derivatives of the mean InfoNCE (:class:`AnalyticTerm`); numbers: weight, temperature, noise."""
    n = len(of_samples)
    its = places[:: len(places) // n]
    add_noisy_views(items, item_slopes, its, of_samples, numbers[2], numbers[1], numbers[0] / n)
