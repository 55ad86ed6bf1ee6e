"""What becomes of answers in the coordinator's model, worked by hand and against a naive interpreter."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossiprec.compute.plan.planner import SMALL
from gossiprec.network.sim.clock import Exponential
from gossiprec.network.sim.network import Latency, Network
from gossiprec.testing.tapes import (
    NaiveInterpreter,
    ShuffledPlanRunner,
    initial_models,
    make_test_planner,
    make_test_protocol,
    train_once,
)
from tests.compute.test_planner import flat
from tests.protocols.star_plays import Script, coordinator_lines, fedavg, play


def shared_values(control, segment):
    """Return the coordinator's shared number after the run, carried out one event at a time."""
    naive = NaiveInterpreter(control)
    naive.play(segment)
    return naive.values[control.n_users][1]


def answer(client, update, own, model):
    """Return what a client answers to a model of which it has seen `update` before: its own and the shared number."""
    return train_once(client, update, np.array([own, model]))


def test_the_old_version_keeps_its_share():
    """Three answers of weights 1, 2, 3, alpha 0.6: at the second wake 0.4 old + 0.6 (a + 2 b + 3 c) / 6."""
    control = make_test_protocol("fedavg", 3, rounds=2, aggregation={"name": "synchronous", "mixing": 0.6})
    segment = play(control, Script(0.25))
    old = initial_models(4)[3][1]
    first = [answer(i, 0, initial_models(4)[i][0], old) for i in range(3)]
    mixed = 0.4 * old + 0.6 * sum((i + 1) * first[i][1] for i in range(3)) / 6
    second = [answer(i, 1, first[i][0], mixed) for i in range(3)]

    found = shared_values(control, segment)

    assert found == pytest.approx(sum((i + 1) * second[i][1] for i in range(3)) / 6, rel=1e-6)


def test_with_a_buffer_of_one_it_is_fedasync():
    """Xie et al.: x <- (1 - alpha s(tau)) x + alpha s(tau) x_new, here with alpha 0.8 and s(tau) = 1 / (1 + tau)."""
    control = fedavg(
        3,
        rounds=6,
        aggregation={
            "name": "buffered",
            "buffer": 1,
            "concurrency": 2,
            "mixing": 0.8,
            "staleness": {"law": "polynomial", "exponent": 1.0},
        },
    )
    segment = play(control, Script(0.0, n0=[0.1] * 9, n1=[0.35] * 9, n2=[0.8] * 9))
    first = initial_models(4)
    own, updates, version = [list(first[i][:1]) for i in range(3)], [0, 0, 0], first[3][1]
    versions, held, weights, pooled = [], {}, set(), None
    for line in coordinator_lines(control, segment):
        if len(line) == 2:
            if pooled is not None:
                version = (1 - 0.8 * pooled[0]) * version + 0.8 * pooled[0] * pooled[1]
            versions.append(version)
            held.update(dict.fromkeys(line[1], len(versions) - 1))
        else:
            client = line[1]
            value = answer(client, updates[client], own[client][0], versions[held[client]])
            own[client], updates[client] = [value[0]], updates[client] + 1
            pooled = (1 / len(versions[held[client] :]), value[1])
            weights.add(pooled[0])
            if len(versions) == 6:
                break
    naive = NaiveInterpreter(control)
    cut = next(k for k in range(len(segment.kind)) if (segment.kind[:k] == 0).sum() == 6)
    naive.play(first_events(segment, cut))

    assert len(weights) > 1
    assert naive.values[3][1] == pytest.approx(versions[5], rel=1e-6)


def first_events(segment, number):
    """Return a segment's first events; its messages all stay."""
    names = ("kind", "node", "message", "count", "time", "factor")
    return dataclasses.replace(segment, **{name: getattr(segment, name)[:number] for name in names})


def test_a_discarded_answer_is_merged_with_no_weight():
    control = fedavg(2, rounds=2, round={"deadline": 1.0, "late": "discard"})
    segment = play(control, Script(0.25, n1=[1.0]))
    plan = make_test_planner(control, inline=False, weights=[1, 1]).plan(segment)
    keeps = {
        int(segment.sender[m]): float(k)
        for m, k in zip(plan.program.merge_message, plan.program.merge_keep, strict=True)
        if m in (2, 3)  # the answers to the first round
    }

    assert keeps == {0: 0.0, 1: 1.0}


def test_the_coordinators_observers_see_what_it_discards():
    control = fedavg(2, rounds=2, round={"deadline": 1.0, "late": "discard"})
    segment = play(control, Script(0.25, n1=[1.0]))
    made = make_test_planner(control, inline=False, weights=[1, 1], pools=[{2}])

    seen = made.plan(segment).pool_deliveries

    assert segment.factor.min() == 0
    assert sorted(seen.victim.tolist()) == [0, 0, 1, 1]


def test_a_round_of_which_nothing_comes_leaves_the_model_as_it_is():
    for aggregation in ({"name": "synchronous"}, {"name": "synchronous", "mixing": 0.5}):
        control = fedavg(2, rounds=3, round={"give_up": 2.0}, aggregation=aggregation)
        segment = play(control, Script(0.25, n2=[None] * 6))

        assert shared_values(control, segment) == initial_models(3)[2][1]


aggregations = st.one_of(
    st.fixed_dictionaries(
        {
            "name": st.just("synchronous"),
            "mixing": st.sampled_from([None, 1.0, 0.3]),
            "staleness": st.sampled_from([{"law": "constant"}, {"law": "polynomial", "exponent": 0.5}]),
        }
    ),
    st.fixed_dictionaries(
        {
            "name": st.just("buffered"),
            "buffer": st.integers(1, 2),
            "concurrency": st.integers(2, 4),
            "mixing": st.sampled_from([None, 1.0, 0.3]),
            "give_up": st.sampled_from([1.0, 10.0]),
            "late": st.sampled_from(["count", "discard"]),
            "staleness": st.sampled_from([{"law": "constant"}, {"law": "polynomial", "exponent": 0.5}]),
        }
    ),
)
round_ends = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {
            "deadline": st.sampled_from([None, 0.5, 1.5]),
            "give_up": st.sampled_from([1.5, 4.0]),
            "late": st.sampled_from(["count", "discard"]),
        }
    ),
)


@st.composite
def stars(draw):
    """Draw a federation whose coordinator steers, and its tape on a network with losses."""
    aggregation = draw(aggregations)
    ends = None if aggregation["name"] == "buffered" else draw(round_ends)
    control = make_test_protocol(
        "fedavg",
        draw(st.integers(2, 6)),
        draw(st.integers(0, 2**32)),
        rounds=8,
        aggregation=aggregation,
        round=ends,
    )
    loss, latency = draw(st.sampled_from([0.0, 0.2])), draw(st.sampled_from([0.3, 1.0]))
    return control, play(control, noisy(control, latency, loss))


def noisy(control, latency, loss):
    """Return a network of exponential latencies with losses and copies."""
    n, seed = control.n_nodes, control.seed
    times = Latency(Exponential(latency), n_nodes=n, seed=seed)
    return Network(times, loss=loss, duplication=loss / 2, seed=seed)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(star=stars(), spare=st.sampled_from([0, 1, 100]), order=st.integers(0, 9))
@pytest.mark.full
def test_waves_give_what_one_event_at_a_time_gives_with_factors_and_mixing(star, spare, order):
    control, segment = star
    plans, naive = ShuffledPlanRunner(control.n_nodes, order), NaiveInterpreter(control)
    made = make_test_planner(control, inline=False, spare_rows=spare)

    plans.run(made.plan(segment), made.capacity)
    naive.play(segment)

    np.testing.assert_array_equal(plans.rows[made.current_rows], naive.values)
    assert plans.received == naive.received


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    n=st.integers(2, 6),
    seed=st.integers(0, 2**32),
    ends=st.sampled_from([{}, {"deadline": 50.0, "minimum": 1.0}]),
    mixing=st.sampled_from([None, 1.0]),
)
def test_where_all_answer_in_time_rounds_that_wait_are_classic_averaging(n, seed, ends, mixing):
    """The classic rounds are one unit long and the slowest answer takes less; so both average the same answers."""

    def final(**options):
        control = make_test_protocol("fedavg", n, seed, rounds=5, participation=0.7, **options)
        draw = np.random.default_rng(seed)
        delays = {f"n{i}": draw.uniform(0.0, 0.9, 5) for i in range(n)}
        return shared_values(control, play(control, Script(0.05, **delays)))

    waiting = {"round": ends, "aggregation": {"name": "synchronous", "mixing": mixing}}
    assert final(**waiting) == pytest.approx(final(), rel=1e-6)


def test_the_compiled_loop_weighs_and_mixes_alike():
    options = {
        "rounds": 30,
        "aggregation": {"name": "buffered", "buffer": 2, "concurrency": 6, "mixing": 0.5},
    }
    options["aggregation"]["staleness"] = {"law": "polynomial"}
    control = make_test_protocol("fedavg", 9, **options)
    segment = play(control, noisy(control, 0.4, 0.1))
    assert segment.factor.min(initial=1.0) < 1

    plain, fast = (
        make_test_planner(control, inline=False, spare_rows=2, pools=[{9}], expected_messages=n).plan(segment)
        for n in (0, SMALL)
    )

    assert [part.tobytes() for part in flat(plain)] == [part.tobytes() for part in flat(fast)]
