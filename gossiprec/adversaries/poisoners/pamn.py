"""PAMN-style, a reconstruction: targets are trained on users that resemble the neighbours of the poisoner.

References
----------
R. Zheng, L. Qu, T. Chen, K. Zheng, Y. Shi, H. Yin, "Poisoning decentralized collaborative recommender system and its
countermeasures", SIGIR 2024 (arXiv 2404.01177).

Notes
-----
**A reconstruction.** No code is public, and only the abstract and the caption of figure 1 could be read: an adversary
updates its user and its items by what its neighbours send, then trains its items so that the targets rank higher for
this user, and passes this on; adversaries are kept diverse; substitute items are trained, too. How it does so is our
choice: the neighbours' profile is the items of which the rows changed most, and diversity divides these items among
the poisoners. The loss is that of :mod:`gossiprec.adversaries.poisoners.psmu`.
"""

from __future__ import annotations

import numpy as np

from gossiprec.adversaries.poisoners import POISONERS, VersionWatcher, largest_first
from gossiprec.adversaries.poisoners.psmu import PSMU, PSMUOptions
from gossiprec.base.arrays import I32
from gossiprec.compute.messages import MessagePayload, PushContext


class PAMNOptions(PSMUOptions):
    """Options of the reconstruction."""

    diverse: bool = True
    """whether poisoners divide the items that changed most among them, by their place in the ranking"""


@POISONERS.register("pamn")
class PAMN(PSMU, VersionWatcher):
    """A reconstruction of PAMN: the synthetic user has the items that the neighbours changed most since the last push.

    At the first push the user has random items.
    """

    Options = PAMNOptions
    options: PAMNOptions

    def profile(self, sent: MessagePayload, push: PushContext, draw: np.random.Generator) -> I32:
        """Return the items with the largest changes of their rows, ascending, or the node's part of them."""
        seen, change, _ = self.item_changes(sent, push)
        nodes = self.context.nodes.tolist()
        if not seen:
            return super().profile(sent, push, draw)
        count = min(self.options.items, len(sent.items) - 1)
        apart = len(nodes) if self.options.diverse and len(nodes) * count < len(sent.items) else 1
        moved = np.linalg.norm(change, axis=1)
        ranked = largest_first(moved, count * apart, without=self.context.targets)
        return np.sort(ranked[nodes.index(push.node) % apart :: apart]).astype(np.int32)
