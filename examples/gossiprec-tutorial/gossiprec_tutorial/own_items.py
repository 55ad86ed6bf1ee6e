"""Own items: a node sends another part of the items that it knows to each receiver, and nothing about other items."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gossiprec.base.options import NoOptions
from gossiprec.compute.messages import Transform
from gossiprec.defences import POLICIES, Policy


class KnownItems(Transform):
    """Leave only the rows of some of the node's own items, and the shared weights."""

    rewrites = True
    is_partial = True
    resizes = True
    per_receiver = True

    def encode(self, payload, base, push, receiver):
        """Return the payload for one receiver; the places of items are sent too, four bytes each."""
        place = push.receivers.tolist().index(receiver)
        items = push.items[place :: len(push.receivers)]
        held = np.arange(len(payload.items)) if payload.touched is None else payload.touched
        rows = np.isin(held, items)
        parts = [np.repeat(rows, payload.items.shape[1]), np.ones(payload.shared.size, bool)]
        if payload.users is not None:  # another policy withholds it
            parts.insert(0, np.zeros(payload.users.size, bool))
        return replace(payload, sent=np.concatenate(parts), overhead=4 * int(rows.sum()))


@POLICIES.register("own-items")
class OwnItems(Policy):
    """The policy of a scenario with `policies: [{name: own-items, nodes: all}]`."""

    Options = NoOptions

    def transform(self):
        """Return the transform that leaves the node's own items."""
        return KnownItems()
