"""Push-pull: a pair of nodes exchanges models, or one asks and merges."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.base.errors import ScenarioError
from gossiprec.emulation import resume, simulate
from gossiprec.runs import read_log
from gossiprec.scenario import load_scenario
from gossiprec.testing.tapes import NaiveInterpreter, make_test_protocol, record_tape
from tests.emulation.ended_early import ended_early, outcome
from tests.emulation.tiny_runs import carried_out, final_models, tiny

PULL = {"name": "push-pull", "exchange": "pull", "receivers": 2, "wakes": 8, "request_bytes": 20}
SLOW = {"latency": {"law": "exponential", "mean": 0.6}, "loss": 0.1, "duplication": 0.1}


def played(**options):
    """Return the models of two nodes after each has woken once."""
    (segment,), _ = record_tape(
        make_test_protocol("push-pull", 2, wakes=1, merge="mean", **options), latency=0.1
    )
    naive = NaiveInterpreter(make_test_protocol("push-pull", 2, merge="mean", **options))
    naive.play(segment)
    return naive


def test_both_nodes_of_an_exchange_merge_and_answers_carry_the_version_before_the_merge():
    naive = played()
    assert [[int(message) for message, *_ in some] for some in naive.received] == [[1, 2], [0, 3]]
    for some in naive.received:  # the answer is the version that the same node had pushed
        (*_, pushed), (*_, answered) = some
        assert pushed == answered


def test_only_the_node_that_asks_merges():
    naive = played(exchange="pull")
    assert naive.updates == [1, 1]
    assert [len(some) for some in naive.received] == [1, 1]


@pytest.mark.full
def test_executors_agree():
    one, *others = (
        final_models(
            carried_out(tiny(protocol=PULL, network=SLOW, training={"eps": 1e-3}, executor={"name": name}))
        )
        for name in ("reference", "batched", "fused")
    )
    for other in others:
        np.testing.assert_allclose(other, one, rtol=1e-3, atol=1e-4)


@pytest.mark.full
def test_a_run_that_ended_early_is_resumed_to_the_same_bytes(tmp_path):
    often = tiny(protocol=PULL, network=SLOW, evaluate={"every": 1, "metrics": ["hr@5"]})
    whole = simulate(often, out=tmp_path / "whole")
    broken = ended_early(tmp_path / "broken", often, 3)

    assert outcome(resume(broken.path).path) == outcome(whole.path)
    requests = read_log(whole.path / "events.mplog").events("control")
    assert np.unique(requests["size_bytes"]) == [20]


@pytest.mark.parametrize("size", [-5, 0])
def test_sizes_of_requests_below_one_byte_are_refused(size):
    with pytest.raises(ScenarioError, match=r"protocol.request_bytes: .*greater than or equal to 1"):
        load_scenario(tiny(protocol={**PULL, "request_bytes": size}))
