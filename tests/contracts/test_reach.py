"""The walk over what plug-ins are given: it finds the data of a run behind bases, closures and owners."""

import functools
import weakref

import numpy as np
import pytest

from gossiprec.adversaries.attacks import ATTACKS
from gossiprec.base import isolation
from gossiprec.base.isolation import CallOnly, copy_data
from gossiprec.base.ragged import Ragged
from gossiprec.compute.message_encoder import MessageEncoder
from gossiprec.defences import POLICIES
from gossiprec.emulation import prepare
from gossiprec.rules.aggregators import AGGREGATORS
from gossiprec.rules.servers import SERVERS
from gossiprec.scenario import load_scenario
from gossiprec.testing import blinding
from gossiprec.testing.tiny_runs import FEDERATED, GOSSIP, PERSONAL, UPDATES, WITHHELD, tiny_scenario
from tests.slow import slow_except_first

CDA = [{"name": "cda", "who": "single", "community_size": 3, "reference_items": 8}]
POOL = [{"name": "cda", "who": "coalition", "members": [0, 1, 6], "community_size": 3, "reference_items": 8}]
NOISY = [{"name": "ldp", "nodes": [0, 3, 4], "scale": 0.1}]
KRUM = {"name": "krum"}


class Slotted:
    __slots__ = ("__weakref__", "held")

    def __init__(self, held):
        self.held = held

    def method(self):
        return self.held


def closing_over(thing):
    return lambda: thing


def read_only(secret):
    view = secret.view()
    view.flags.writeable = False
    return view


WAYS = {
    "base": lambda secret: secret[2:4],
    "read_only_view": read_only,
    "closure": closing_over,
    "default": lambda secret: lambda found=secret: found,
    "owner": lambda secret: Slotted(secret).method,
    "slot": Slotted,
    "partial": lambda secret: functools.partial(len, secret),
    "wrapped": lambda secret: functools.wraps(closing_over(secret))(lambda: None),
    "memoryview": memoryview,
    "container": lambda secret: {"a": [({"b": secret},)]},
    "object_array": lambda secret: np.array([secret, None], dtype=object),
    "ragged": lambda secret: Ragged(np.array([0, 2]), secret)[0],
    "buffer": lambda secret: np.frombuffer(secret.data, np.int64),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_walk_finds_an_array_behind_each_way(way):
    secret = np.arange(10)
    given = WAYS[way](secret)

    shared = [
        name
        for name, each in blinding.reachable(given, "given")
        if isinstance(each, np.ndarray) and np.may_share_memory(each, secret)
    ]

    assert shared


def test_the_walk_finds_what_a_weak_reference_names():
    held = Slotted(np.arange(3))
    assert any(each is held for _, each in blinding.reachable(weakref.ref(held), "given"))


def test_a_copy_owns_its_data_and_a_call_only_function_holds_no_reference():
    secret = np.arange(10)
    function = CallOnly(closing_over(secret[2:5]))
    for given in (
        copy_data({"a": (secret[::2], Ragged(np.array([0, 2]), secret[4:6]))}),
        function,
        function(),
    ):
        for _, each in blinding.reachable(given, "given"):
            if isinstance(each, np.ndarray):
                assert each.base is None
                assert not np.may_share_memory(each, secret)
    assert function().tolist() == [2, 3, 4]


RUNS = {
    "attack": (ATTACKS, "cda", "observe", {"observers": CDA, "policies": [WITHHELD]}),
    "attack_of_a_pool": (ATTACKS, "cda", "observe", {"observers": POOL, "policies": [WITHHELD]}),
    "attack_weighing": (ATTACKS, "cda", "observe", {"observers": CDA, "protocol": PERSONAL}),
    "rule": (AGGREGATORS, "krum", "reduce", {"protocol": {**FEDERATED, "merge": KRUM}}),
    "rule_of_updates": (AGGREGATORS, "krum", "reduce", {"protocol": {**UPDATES, "merge": KRUM}}),
    "server": (SERVERS, "momentum", "round", {"protocol": {**FEDERATED, "server": "momentum"}}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_what_code_from_outside_is_given_leads_nowhere_and_what_ours_shares_is_found(name, monkeypatch):
    registry, known, method, sections = RUNS[name]
    run = tiny_scenario(**{"protocol": GOSSIP, **sections})

    blinding.refuse_reach(run, registry[known], method)

    monkeypatch.setattr(isolation, "_is_ours", lambda kind: True)
    monkeypatch.setattr(blinding, "treated", lambda kind, as_ours: blinding.patch.dict({}))
    with pytest.raises(AssertionError, match=r"can reach what is not its own: .* leads to the run's "):
        blinding.refuse_reach(run, registry[known], method)


@pytest.mark.parametrize("protocol", slow_except_first([GOSSIP, UPDATES]), ids=["gossip", "updates"])
def test_what_a_policy_is_given_leads_nowhere_and_a_view_of_the_items_is_found(protocol, monkeypatch):
    run = tiny_scenario(protocol=protocol, policies=NOISY)
    transform = type(POLICIES["ldp"](load_scenario(run).policies[0].options, np.array([0])).transform())
    blinding.refuse_reach(run, transform, "encode")

    encoded = MessageEncoder._encoded

    def sharing(self, program, task, node, number):
        from gossiprec.compute import message_encoder

        whole = self._work.feed.positives[node]
        monkeypatch.setattr(message_encoder, "PushContext", lambda *about: _Shared(whole))
        return encoded(self, program, task, node, number)

    class _Shared:
        node = number = round = 0

        def __init__(self, items):
            self.items = items

        def generator(self, purpose):
            return np.random.default_rng(0)

    monkeypatch.setattr(MessageEncoder, "_encoded", sharing)
    with pytest.raises(AssertionError, match=r"push\.items.* leads to the run's training items"):
        blinding.refuse_reach(run, transform, "encode")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["attack", "attack_weighing", "rule", "rule_of_updates", "server"])
def test_code_from_outside_computes_the_same_bytes(name):
    registry, known, _, sections = RUNS[name]
    run = load_scenario(
        {**tiny_scenario(**{"protocol": GOSSIP, **sections}), "executor": {"name": "reference", "threads": 1}}
    )

    def played():
        prepared = prepare(run)
        for _ in prepared.schedule.play(prepared.tape_runner().run_segment):
            pass
        store = prepared.executor.store
        scores = [r.scores.tobytes() for attack in prepared.attacks for r in attack.rankings()]
        return store.load(prepared.planner.current_rows).tobytes(), scores

    expected = played()
    with blinding.treated(registry[known], as_ours=False):
        assert played() == expected
