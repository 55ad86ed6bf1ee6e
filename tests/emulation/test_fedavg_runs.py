"""Whole runs of FedAvg whose coordinator waits or buffers."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.base.errors import ScenarioError
from gossiprec.emulation import resume, simulate
from gossiprec.scenario import load_scenario
from gossiprec.scenario.section_checks import check_sizes
from tests.emulation.ended_early import ended_early, outcome
from tests.emulation.tiny_runs import carried_out, final_models, tiny
from tests.slow import slow_except_first

SLOW = {"latency": {"law": "exponential", "mean": 0.4}, "loss": 0.1}
DAMPED = {"batch_size": 16, "eps": 1e-3}
WAITING = {"round": {"deadline": 0.6, "minimum": 0.5, "give_up": 2.0, "late": "discard"}}
BUFFER = {"name": "buffered", "buffer": 3, "concurrency": 6, "give_up": 2.0}
BUFFERED = {"aggregation": {**BUFFER, "mixing": 0.7, "staleness": {"law": "polynomial", "exponent": 0.5}}}
KINDS = {"waiting": WAITING, "buffered": BUFFERED}


def scenario(options, **sections):
    protocol = {"name": "fedavg", "rounds": 12, **options}
    coordinator = {"name": "cda", "who": "coordinator", "community_size": 3, "reference_items": 9}
    return tiny(
        **{"protocol": protocol, "network": SLOW, "training": DAMPED, "observers": [coordinator], **sections}
    )


@pytest.mark.parametrize("kind", slow_except_first(KINDS))
@pytest.mark.cases(1)
def test_executors_agree_on_weighted_and_mixed_models(kind):
    one, *others = (
        final_models(carried_out(scenario(KINDS[kind], executor={"name": name})))
        for name in ("reference", "batched", "fused")
    )

    for other in others:
        np.testing.assert_allclose(other, one, rtol=1e-3, atol=1e-4)
    assert np.abs(one[-1] - one[0]).max() > 0.01  # the coordinator has learned something of its own


@pytest.mark.parametrize("kind", KINDS)
def test_threads_and_waves_change_no_byte(kind, tmp_path):
    runs = [
        simulate(scenario(KINDS[kind], executor={"name": "fused", **more}), out=tmp_path / str(number))
        for number, more in enumerate([{"threads": 1}, {"threads": 2, "wave_size": 3}])
    ]

    one, other = (
        (run.path / "attacks.csv").read_bytes() + run.manifest["log_digest"].encode() for run in runs
    )
    assert one == other


@pytest.mark.parametrize("kind", KINDS)
def test_the_summary_tells_what_became_of_rounds_and_the_log_holds_every_answer(kind, tmp_path):
    run = simulate(scenario(KINDS[kind]), out=tmp_path / "run")
    rounds, message = run.summary["rounds"], run.events("message")
    answers = int((message["receiver"] == 12).sum())

    assert rounds["n"] == run.summary["wakes"] == 12
    assert rounds["given_up"] > 0
    discarded = answers - round(rounds["mean_answers"] * 12)
    assert (discarded == rounds["late"] > 0) if kind == "waiting" else (discarded == 0)
    assert "predicted_fraction_met" not in run.metrics["metric"]


@pytest.mark.parametrize("kind", slow_except_first(KINDS))
@pytest.mark.cases(1)
def test_a_run_that_ended_early_is_resumed_to_the_same_bytes(kind, tmp_path):
    """What was pushed last, and what has been pooled since, is in the checkpoint."""
    world = scenario(KINDS[kind], evaluate={"every": 1, "metrics": ["hr@5"]})
    whole = simulate(world, out=tmp_path / "whole")
    broken = ended_early(tmp_path / "broken", world, 3)

    assert outcome(resume(broken.path).path) == outcome(whole.path)


@pytest.mark.slow
def test_rounds_by_the_clock_say_nothing_of_rounds(tmp_path):
    assert "rounds" not in simulate(scenario({}), out=tmp_path / "run").summary


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"round": {"deadline": 1.0, "minimum": 1.5}},
            "round.minimum: found 1.5, must be less than or equal to 1",
        ),
        ({"round": {"minimum": 0.5}}, "found minimum 0.5 but no deadline"),
        ({"round": {"deadline": 2.0, "give_up": 1.0}}, "give_up 1.0, which comes before the deadline 2.0"),
        ({"round": {"deadline": 2.0, "at_least": 3.0}}, "at_least 3.0, which is longer than deadline 2.0"),
        ({"round": {"deadline": float("nan")}}, "round.deadline"),
        ({"round": {"deadline": -1}}, "round.deadline: found -1, must be greater than 0"),
        ({"round": {"late": "maybe"}}, "found 'maybe', must be 'count' or 'discard'"),
        ({"ask": "everyone"}, "protocol.ask"),
        ({"aggregation": {**BUFFER, "buffer": 7}}, "found buffer 7, but concurrency 6"),
        (
            {"aggregation": {**BUFFER, "concurrency": 13}},
            "concurrency: found 13, but there are only 12 clients",
        ),
        ({"aggregation": {"name": "buffered"}}, "aggregation.concurrency: is missing"),
        ({"aggregation": BUFFER, "round": {}}, "found round, but buffered aggregation has no rounds"),
        ({"aggregation": BUFFER, "participation": 0.5}, "remove participation"),
        ({"aggregation": {"name": "synchronous", "mixing": 0}}, "mixing: found 0, must be greater than 0"),
        ({"aggregation": {"name": "synchronous", "mixing": 1.5}}, "mixing: found 1.5"),
        ({"aggregation": {"name": "synchronous", "buffer": 3}}, "aggregation.buffer: unknown key"),
        ({"aggregation": {"name": "bufered"}}, "did you mean 'buffered'"),
        ({"aggregation": {**BUFFER, "staleness": {"law": "hinge"}}}, "staleness.law: found 'hinge'"),
    ],
)
def test_contradictory_options_are_refused_in_plain_words(options, message):
    with pytest.raises(ScenarioError, match=message.replace("(", r"\(")):
        check_sizes(load_scenario(scenario(options)), 12, 40)


def test_a_buffer_without_anything_that_takes_time_is_refused():
    with pytest.raises(ScenarioError, match=r"set network\.latency or network\.compute"):
        load_scenario(scenario({"aggregation": BUFFER}, network={}))


def test_a_buffer_lives_on_computing_times_alone(tmp_path):
    compute = {"time": {"law": "exponential", "mean": 1.0}}
    run = simulate(scenario({"aggregation": BUFFER}, network={"compute": compute}), out=tmp_path / "run")

    assert run.summary["rounds"]["mean_answers"] >= 3


@pytest.mark.slow
def test_with_churn_a_coordinator_that_asks_those_online_gives_up_fewer(tmp_path):
    sessions = {"online": {"law": "exponential", "mean": 4.0}, "offline": {"law": "exponential", "mean": 4.0}}
    given_up = {}
    for ask in ("all", "online"):
        options = {"ask": ask, "rounds": 20, "round": {"deadline": 1.0}}
        run = simulate(
            scenario(
                options, churn={"sessions": sessions}, network={"latency": {"law": "constant", "value": 0.1}}
            ),
            out=tmp_path / ask,
        )
        given_up[ask] = run.summary["rounds"]["given_up"]
        assert run.summary["rounds"]["n"] == 20

    assert given_up["online"] < given_up["all"] / 2
    assert given_up["all"] > 60  # about half of 12 clients are away in each of 20 rounds
