"""What every registered policy keeps to; and that the contract catches those that do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import NoOptions
from gossiprec.compute.messages import Transform
from gossiprec.defences import POLICIES, Policy, PrivacySpent
from gossiprec.models import BlockRole
from gossiprec.rules.aggregators import AGGREGATORS, InboxConfig
from gossiprec.testing import check_policy
from tests.contracts.broken import told
from tests.slow import slow_except_first

UPDATES = {"scale": 0.1, "of": "update", "norm": "l2", "noise": "gaussian"}
CUT_OFF = {"scale": 0.1, "norm": "linf"}
OPTIONS = {
    "share-less": [{"tau": 0.5}],
    "ldp": [{"scale": 0.1}, UPDATES, CUT_OFF],
    "dp-sgd": [
        {"epsilon": 10},
        {"epsilon": "inf"},
        {"epsilon": 10, "noise_multiplier": 5.0},
        {"epsilon": 10, "unit": "user", "clip_norm": 0.1},
    ],
    "robust-merge": [{"rule": "median", "buffer": 3}],
    "chunks": [{"pieces": 2}],
    "low-rank": [{"rank": 2}],
}
"""Options with which a policy is checked; one that is not here is checked with its defaults."""
CASES = [(name, options) for name in POLICIES for options in OPTIONS.get(name, [{}])]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), CASES)
@pytest.mark.cases(8)
def test_a_policy_keeps_its_contract(name, options):
    check_policy(POLICIES[name], options)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(POLICIES))
@pytest.mark.cases(3)
def test_a_policy_keeps_its_contract_with_a_model_of_moves(name):
    check_policy(POLICIES[name], OPTIONS.get(name, [{}])[0], model="prme-g")


class Doubling(Transform):
    """Sends two times the shared weights, and says so in four bytes."""

    rewrites = True
    extra_bytes = 4

    def encode(self, payload, base, push):
        return replace(payload, shared=2 * payload.shared)


class Doubles(Policy):
    """Sends two times the shared weights."""

    Options = NoOptions
    how = Doubling

    def transform(self):
        return self.how()


def sends(name, encode, **more):
    """Return a policy whose transform is broken."""
    how = type("How", (Doubling,), {"encode": encode, **more})
    return type(name, (Doubles,), {"how": how})


def with_items(change):
    return lambda self, payload, base, push: replace(payload, items=change(payload.items, push))


drawn = np.random.default_rng().normal
HidesItems = sends("HidesItems", Doubling.encode, hides=frozenset({BlockRole.ITEM}))
DropsItems = sends("DropsItems", with_items(lambda items, push: items[1:]))
SendsDoubles = sends("SendsDoubles", with_items(lambda items, push: items.astype(np.float64)))
SendsNaN = sends("SendsNaN", with_items(lambda items, push: items * np.nan))
SaysTooLittle = sends("SaysTooLittle", Doubling.encode, extra_bytes=-4)
DrawsAnew = sends("DrawsAnew", with_items(lambda items, push: items + np.float32(drawn())))


class Counting(Doubling):
    def __init__(self):
        self.n_pushes = 0

    def encode(self, payload, base, push):
        self.n_pushes += 1
        return replace(payload, shared=payload.shared * np.float32(self.n_pushes))


class Remembers(Doubles):
    how = Counting


class BringsTheUserBack(Doubles):
    class how(Doubling):  # noqa: N801
        def encode(self, payload, base, push):
            return replace(payload, users=np.zeros((1, 8), np.float32))


class TouchesAll(Doubles):
    def configure(self, node_settings, *, training, updates):
        node_settings.clip_norm[:] = 1.0


class NeedsUpdates(Doubles):
    def configure(self, node_settings, *, training, updates):
        node_settings.most_updates[self.nodes] = updates[self.nodes]


class GetsPrivacyBack(Doubles):
    def privacy_spent(self, updates, pushes):
        return PrivacySpent(self.nodes, 1.0 / (1 + updates[self.nodes]), np.ones(3), 0.0)


class GetsCoordinatesBack(Doubles):
    def privacy_spent_by_coordinate(self, coordinates):
        return PrivacySpent(self.nodes, 1.0 / (1 + coordinates[self.nodes]), np.ones(3), 0.0, 1.0)


class AccountsForAll(Doubles):
    def privacy_spent(self, updates, pushes):
        return PrivacySpent(np.arange(8), 1.0 * updates, np.ones(8), 0.0)


class SharesItsRule(Doubles):
    def inbox(self):
        rule = AGGREGATORS["median"](None)
        return InboxConfig("median", lambda: rule, None, 8)


class RefusesAll(Doubles):
    def check(self, model, layout):
        raise ScenarioError("not today")


BROKEN = {
    HidesItems: "Hide nothing but the user's row. It hides the item blocks",
    DropsItems: r"finite numbers in float32, in the same shapes. Found shapes \[\(1, 8\), \(29, 8\), \(9,\)\]",
    BringsTheUserBack: r"in the same shapes. Found .* must be \[\(30, 8\), \(9,\)\]",
    SendsDoubles: "finite numbers in float32.* Found float32, float64",
    SendsNaN: "Found numbers that are not finite",
    SaysTooLittle: "Declare the size of its messages.* Found extra_bytes -4",
    DrawsAnew: "Rewrite a push in the same way each time.* Push 0 of node 0",
    Remembers: "Rewrite a push in the same way each time, whatever else it has rewritten before",
    TouchesAll: "only the settings of its own nodes.* clip_norm of other nodes",
    NeedsUpdates: "Accept an unknown number of local updates.* TypeError",
    GetsPrivacyBack: "never less after more updates and pushes. Found .*, later",
    GetsCoordinatesBack: "never less after more updates and pushes. Found .*, later",
    AccountsForAll: r"Report the privacy spent by all its own nodes.* Found nodes \[0, 1, 2, 3, 4, 5, 6, 7\]",
    SharesItsRule: "Make a separate rule for each receiver.* Two receivers share one object",
    RefusesAll: "Be accepted under some protocol.* All runs refuse it:\ngossip: not today",
}


@pytest.mark.slow
def test_a_policy_need_not_be_registered():
    check_policy(Doubles)


@pytest.mark.parametrize("policy", slow_except_first(BROKEN), ids=lambda policy: policy.__name__)
def test_a_policy_that_breaks_the_contract_is_told_which_claim(policy):
    with told(policy, BROKEN[policy], kind="policy"):
        check_policy(policy)
