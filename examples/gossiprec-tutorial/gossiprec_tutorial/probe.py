"""Probe: nodes that push items away, and look at who pulls them back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from pydantic import Field

from gossiprec.adversaries.attacks import ATTACKS, ITEM_MEASURES, ItemScores
from gossiprec.adversaries.attacks.adversary import Adversary
from gossiprec.adversaries.attacks.findings import Finding
from gossiprec.base.options import Options


class ProbeOptions(Options):
    """Options of the adversary."""

    share: float = Field(default=0.5, ge=0, le=1)
    """share of the items that a message pushes away"""
    strength: float = Field(default=1.0, gt=0)
    """factor of the opposite of the rows that were received last"""


@ATTACKS.register("probe")
class Probe(Adversary):
    """Sends the opposite of what it received last for some items; who moves an item back has it."""

    Options = ProbeOptions
    measures = ("heard", *ITEM_MEASURES)

    def observe(self, seen):
        """Remember the item rows of the model, and how far its sender has moved them."""
        own, sender = self.memory[int(seen.receivers[0])], int(seen.senders[0])
        rows = seen.gather(np.arange(self.context.scorer.layout.n_items, dtype=np.int32))[0]
        own["heard"] = own.get("heard", 0) + 1
        own["latest"] = rows
        if sender < self.context.n_users and sender not in self.nodes:  # a coordinator has no items
            if f"rows_{sender}" in own:
                own[f"moved_{sender}"] = np.linalg.norm(rows - own[f"rows_{sender}"], axis=1)
            own[f"rows_{sender}"] = rows

    def forge(self, message, base, push):
        """Return the message with the opposite of the latest rows for some items."""
        latest = self.memory[push.node].get("latest")
        if message.touched is not None:  # a client without a model, which was sent the version `base`
            latest = base.items[message.touched]
        if latest is None:
            return None
        pushed = push.generator("probe").random(len(message.items)) < self.options.share
        return replace(
            message, items=np.where(pushed[:, None], -self.options.strength * latest, message.items)
        )

    def item_scores(self):
        """Score the items of each victim by how far it has moved them, for each node on its own."""
        found = [
            (node, int(name.removeprefix("moved_")), moved)
            for node, own in self.memory.items()
            for name, moved in sorted(own.items())
            if name.startswith("moved_")
        ]
        if found:
            nodes, victims, scores = zip(*found, strict=True)
            n_items = len(scores[0])
            items = np.tile(np.arange(n_items, dtype=np.int32), len(found))
            pairs = (np.repeat(victims, n_items), items, np.concatenate(scores))
            yield ItemScores(*pairs, {"observer": "probe"}, adversaries=np.repeat(nodes, n_items))

    def findings(self, now):
        """Report the mean number of models that a node has received."""
        heard = np.array([own.get("heard", 0) for own in self.memory.values()])
        yield Finding("heard", {"observer": "probe"}, heard.mean(), per_node=(self.nodes, heard))
