"""Overlays for tests, and rounds of wakes without an engine."""

from __future__ import annotations

import numpy as np
from pydantic import TypeAdapter

from gossiprec.network.overlay import SAMPLINGS, ExchangeView, OverlayContext
from gossiprec.network.sim.availability import Availability


def exchange(view, n_nodes, *, fanout=2, seed=1, availability=None, profiles=None):
    """Return the overlay that a scenario's view names."""
    options = TypeAdapter(ExchangeView).validate_python(view)
    setting = OverlayContext(
        n_nodes, fanout, seed, availability or Availability.always_online(n_nodes), profiles
    )
    return SAMPLINGS[options.sampling](options, setting)


def rounds(views, count, *, availability=None, first=0, seed=0):
    """Let every node wake once a round, in an order drawn anew; return the (node, receivers) of each wake."""
    order = np.random.default_rng(seed)
    sent = []
    for number in range(first, first + count):
        for place, node in enumerate(order.permutation(views.n_nodes).tolist()):
            now = number + place / views.n_nodes
            if availability is None or availability.is_online(node, now):
                sent.append((node, list(views.next_receivers(node, now))))
            else:
                views.on_missed_wake(node, now)
    return sent


def in_degrees(views):
    return np.bincount([peer for own in views.views for peer in own], minlength=views.n_nodes)
