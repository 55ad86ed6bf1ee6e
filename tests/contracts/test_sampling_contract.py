"""What every registered way to exchange views keeps to; and that the contract catches those that do not."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from gossiprec.network.overlay import SAMPLINGS, ExchangedViews, ExchangeOptions
from gossiprec.testing import check_sampling
from tests.contracts.broken import told

OPTIONS = {
    "cyclon": [{"shuffle": 2}, {"size": 2, "shuffle": 1}, {"size": 7}],
    "descriptors": [{"rank": rank} for rank in ("taste", "place", "random")],
}
"""Options with which a sampling is checked; one that is not here is checked with its defaults."""


@pytest.mark.parametrize(
    ("name", "options"), [(name, options) for name in SAMPLINGS for options in OPTIONS.get(name, [{}])]
)
def test_a_sampling_keeps_its_contract(name, options):
    check_sampling(SAMPLINGS[name], options)


class SwapOptions(ExchangeOptions):
    sampling: Literal["swap"]


class Swap(ExchangedViews):
    """Take a random peer of a random peer instead of it."""

    Options = SwapOptions
    n_words = 2

    def exchange(self, node, now, words):
        own = self.views[node]
        peer = list(own)[words[0] * len(own) >> 32]
        del own[peer]
        if self.is_online(peer, now):
            theirs = [entry for entry in self.views[peer] if entry != node] or [peer]
            own[theirs[words[1] * len(theirs) >> 32]] = now


class Hoards(Swap):
    def exchange(self, node, now, words):
        before = dict(self.views[node])
        super().exchange(node, now, words)
        if self.is_online(next(iter(before)), now):
            self.views[node] |= before


class KnowsItself(Swap):
    def exchange(self, node, now, words):
        super().exchange(node, now, words)
        if self.views[node]:
            self.views[node].popitem()
            self.views[node][node] = now


class SendsToOne(Swap):
    def next_receivers(self, node, now):
        return super().next_receivers(node, now)[:1]


class SendsElsewhere(Swap):
    def next_receivers(self, node, now):
        return [(peer + 1) % self.n_nodes for peer in super().next_receivers(node, now)]


class DrawsAnew(Swap):
    def exchange(self, node, now, words):
        super().exchange(node, now, np.random.default_rng().integers(2**32, size=2).tolist())


class Deaf(Swap):
    def __init__(self, options, setting):
        super().__init__(options, setting)
        self.views = [{(node + 1) % self.n_nodes: 0.0} for node in range(self.n_nodes)]

    def exchange(self, node, now, words):
        pass


class SkipsWords(Swap):
    def on_missed_wake(self, node, now):
        pass


class NeverForgets(Swap):
    def exchange(self, node, now, words):
        pass


class AsksAnybody(Swap):
    def is_online(self, node, now):
        return True


BROKEN = {
    Hoards: "Hold in each view up to `size`.* holds 5 peers",
    KnowsItself: r"never the node itself. Node \d+ has itself",
    SendsToOne: "Send to as many distinct peers of the view as the fanout.* must be 3 peers",
    SendsElsewhere: "Send to as many distinct peers of the view",
    DrawsAnew: "Two runs with the same seed differ",
    Deaf: "Another seed changes nothing",
    SkipsWords: "Draw the same words for the wake after a missed wake.* The words of wake 1 differ",
    NeverForgets: "Send to no node, and keep an empty view",
    AsksAnybody: r"Send to online nodes only.* but only node 4 is online",
}


def test_a_sampling_need_not_be_registered():
    check_sampling(Swap)


@pytest.mark.parametrize("sampling", BROKEN, ids=lambda sampling: sampling.__name__)
def test_a_sampling_that_breaks_the_contract_is_told_which_claim(sampling):
    with told(sampling, BROKEN[sampling], kind="sampling"):
        check_sampling(sampling)
