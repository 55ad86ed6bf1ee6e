"""Epidemic learning: fresh random receivers at each wake, and the mean of all that arrived."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.base.errors import ScenarioError
from gossiprec.emulation import prepare, resume, simulate
from gossiprec.scenario import load_scenario
from gossiprec.testing.tapes import make_test_protocol, record_tape
from tests.emulation.ended_early import ended_early, outcome
from tests.emulation.tiny_runs import carried_out, final_models, tiny

EPIDEMIC = {"name": "epidemic", "receivers": 2, "wakes": 8}


def test_receivers_are_drawn_anew_for_each_wake():
    (segment,), _ = record_tape(make_test_protocol("epidemic", 9, receivers=3, wakes=40))
    sent = {}
    for sender, receiver in zip(segment.sender.tolist(), segment.receiver.tolist(), strict=True):
        sent.setdefault(sender, []).append(receiver)
    for node, receivers in sent.items():
        groups = [frozenset(receivers[low : low + 3]) for low in range(0, len(receivers), 3)]
        assert all(len(group) == 3 and node not in group for group in groups)
        assert len(set(groups)) > 20  # of 56 possible groups, 40 draws


@pytest.mark.parametrize("merge", ["mean", "samples"])
def test_it_is_rand_gossip_with_fresh_views_and_means(merge):
    view = {"size": 2, "refresh": {"every": 1}}
    same = {"average": "all", "fanout": 2, "view": view, "wake": {"law": "constant"}}
    one, other = (
        final_models(carried_out(tiny(protocol={**protocol, "merge": merge})))
        for protocol in (EPIDEMIC, {"name": "rand-gossip", "wakes": 8, **same})
    )
    np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_executors_agree():
    one, *others = (
        final_models(carried_out(tiny(protocol=EPIDEMIC, training={"eps": 1e-3}, executor={"name": name})))
        for name in ("reference", "batched", "fused")
    )
    for other in others:
        np.testing.assert_allclose(other, one, rtol=1e-3, atol=1e-4)


@pytest.mark.full
def test_a_run_that_ended_early_is_resumed_to_the_same_bytes(tmp_path):
    often = tiny(protocol=EPIDEMIC, evaluate={"every": 1, "metrics": ["hr@5"]})
    whole = simulate(often, out=tmp_path / "whole")
    broken = ended_early(tmp_path / "broken", often, 3)

    assert outcome(resume(broken.path).path) == outcome(whole.path)


def test_more_receivers_than_other_nodes_are_refused():
    with pytest.raises(ScenarioError, match=r"protocol.receivers: found 12, but a node has only 11 possible"):
        prepare(load_scenario(tiny(protocol={**EPIDEMIC, "receivers": 12})))
    assert final_models(carried_out(tiny(protocol={**EPIDEMIC, "receivers": 11, "wakes": 2}))).any()
