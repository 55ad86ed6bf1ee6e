"""Whole runs in which transforms rewrite what leaves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import NoOptions
from gossiprec.compute.messages import Transform
from gossiprec.compute.waves import DeliveryHook
from gossiprec.defences import POLICIES, Policy
from gossiprec.emulation import prepare, resume, simulate
from gossiprec.models import MODELS
from gossiprec.scenario import load_scenario
from tests.emulation.ended_early import ended_early, outcome
from tests.emulation.test_resume import CITY
from tests.emulation.tiny_runs import SINGLE, carried_out, final_models, tiny
from tests.slow import slow_except_first

LAYOUT = MODELS["gmf"](MODELS["gmf"].Options(dim=8)).layout(40)
SLOW = {"latency": {"law": "exponential", "mean": 0.4}, "loss": 0.1}
CHURN = {
    "sessions": {
        "online": {"law": "exponential", "mean": 3.0},
        "offline": {"law": "exponential", "mean": 1.0},
    },
    "model": "reset",
}
DAMPED = {"batch_size": 16, "eps": 1e-3}
LDP = {
    "name": "ldp",
    "norm": "l2",
    "bound": 4.0,
    "noise": "gaussian",
    "scale": 0.01,
    "nodes": {"fraction": 0.5},
}
HIDING = {"name": "share-less", "nodes": {"fraction": 0.7}, "tau": 0.1}
COALITION = {**SINGLE, "who": "coalition", "fraction": 0.5}
FEDAVG = {"name": "fedavg", "rounds": 6}
RUNS = {
    "gossip": {"policies": [LDP], "observers": [SINGLE, COALITION]},
    "gossip-slow": {"policies": [HIDING, LDP], "network": SLOW, "churn": CHURN, "observers": [SINGLE]},
    "receive": {"policies": [LDP], "protocol": {**tiny()["protocol"], "train_on": "receive"}},
    "star": {
        "policies": [{**LDP, "of": "update"}],
        "protocol": FEDAVG,
        "observers": [{**SINGLE, "who": "coordinator"}],
    },
}


def scenario(run, **more):
    return tiny(**{"training": DAMPED, **RUNS[run], **more})


@pytest.mark.parametrize("run", slow_except_first(RUNS))
@pytest.mark.full
def test_executors_agree(run):
    one, *others = (
        final_models(carried_out(scenario(run, executor={"name": name})))
        for name in ("reference", "batched", "fused")
    )
    for other in others:
        np.testing.assert_allclose(other, one, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("executor", "run"),
    slow_except_first(
        [
            ("batched", "gossip"),
            ("fused", "gossip-slow"),
            ("batched", "receive"),
            ("fused", "receive"),
            ("fused", "star"),
        ]
    ),
)
@pytest.mark.full
def test_threads_and_waves_change_no_byte(executor, run, tmp_path):
    runs = [
        outcome(simulate(scenario(run, executor={"name": executor, **more}), out=tmp_path / str(number)).path)
        for number, more in enumerate([{"threads": 1}, {"threads": 2, "wave_size": 3}])
    ]
    assert runs[0] == runs[1]


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.full
def test_a_run_that_ended_early_is_resumed_to_the_same_bytes(run, tmp_path):
    often = scenario(run, evaluate={"every": 1, "metrics": ["hr@5"]})
    whole = simulate(often, out=tmp_path / "whole")
    broken = ended_early(tmp_path / "broken", often, 3)

    assert outcome(resume(broken.path).path) == outcome(whole.path)


@pytest.mark.slow
@pytest.mark.full
def test_half_floats_are_rewritten_too():
    dataset = {**CITY["dataset"], "split": {"name": "leave_last_k", "test": 2, "validation": 0}}
    city = {**CITY, "dataset": dataset, "policies": [LDP], "observers": []}
    one, other = (
        final_models(carried_out(tiny(**city, executor={"name": name, "storage": "float16"})))
        for name in ("reference", "fused")
    )
    np.testing.assert_allclose(other, one, rtol=0.02, atol=0.02)


class Noting(Transform):
    """Notes what it is given, and doubles the shared weights."""

    rewrites = True
    extra_bytes = 4

    def __init__(self, seen):
        self.seen = seen

    def encode(self, payload, base, push):
        self.seen.append((payload, base, push, push.generator("test").random()))
        return replace(payload, shared=2 * payload.shared)


class Broken(Transform):
    rewrites = True

    def encode(self, payload, base, push):
        if (push.node, push.number) == (3, 1):
            return replace(payload, **self.how(payload))
        return payload


@pytest.fixture
def seen():
    """Register policies of the test's own; return what the first one's transform is given."""
    before, given = dict(POLICIES.members()), []
    nan = {"how": lambda self, payload: {"items": payload.items * np.nan}}
    short = {"how": lambda self, payload: {"items": payload.items[1:]}}
    for name, transform in [
        ("noting", lambda: Noting(given)),
        ("nan", type("NaN", (Broken,), nan)),
        ("short", type("Short", (Broken,), short)),
    ]:
        made = {"Options": NoOptions, "transform": lambda self, transform=transform: transform()}
        POLICIES._members[name] = type(name, (Policy,), made)
    yield given
    POLICIES._members.clear()
    POLICIES._members.update(before)


def test_a_transform_is_given_its_own_nodes_model_base_and_items_and_nothing_else(seen):
    policies = [{"name": "noting", "nodes": [2, 5]}, {"name": "share-less", "nodes": [5], "tau": 0}]
    prepared = carried_out(tiny(policies=policies, protocol=FEDAVG, observers=[]))

    assert sorted((push.node, push.number) for *_, push, _ in seen) == [
        (n, k) for n in (2, 5) for k in range(6)
    ]
    assert len({draw for *_, draw in seen}) == 12  # draws differ from push to push and node to node
    for payload, base, push, _ in seen:
        assert (payload.users is None) == (base.users is None) == (push.node == 5)
        assert payload.items.shape == base.items.shape == (40, 8)
        assert not np.array_equal(payload.items, base.items)
        np.testing.assert_array_equal(push.items, prepared.components.split.train[push.node])
    first = [base for _, base, push, _ in seen if push.number == 1]
    np.testing.assert_array_equal(first[0].items, first[1].items)  # both were sent the same version
    start = prepared.executor.work.model.initial_rows(LAYOUT, 1, 5)[0]
    bases = [base for _, base, push, _ in seen if push.number == 0]
    np.testing.assert_array_equal(bases[0].shared, start[LAYOUT.shared])


def test_what_leaves_is_what_the_transform_returned_and_the_own_model_stays(seen):
    policies = [{"name": "noting", "nodes": [2]}]
    one_round = {"protocol": {**FEDAVG, "rounds": 1, "merge": "mean"}, "observers": []}
    plain, doubled = (final_models(carried_out(tiny(**one_round, policies=p))) for p in ([], policies))
    shared = LAYOUT.shared

    np.testing.assert_array_equal(doubled[2], plain[2])
    np.testing.assert_allclose(
        doubled[12, shared] - plain[12, shared], plain[2, shared] / 12, rtol=1e-3, atol=1e-6
    )


def test_what_a_transform_adds_is_in_the_size_of_updates_too(seen, tmp_path):
    star = {**FEDAVG, "rounds": 2, "client_model": "none"}
    plain, noted = (
        simulate(tiny(protocol=star, policies=p, observers=[]), out=tmp_path / str(len(p))).events("message")
        for p in ([], [{"name": "noting", "nodes": [2]}])
    )
    more = noted["size_bytes"] - plain["size_bytes"]
    assert set(more[noted["sender"] == 2].tolist()) == {4}
    assert not more[noted["sender"] != 2].any()


def test_hidden_blocks_of_rewritten_messages_are_not_there_to_be_read(seen):
    policies = [{"name": "share-less", "tau": 0}, {"name": "noting"}]
    prepared = prepare(load_scenario(tiny(policies=policies, observers=[])))
    program_rows = []

    class Looking(DeliveryHook):
        def observe(self, rows, program, tasks):
            for task in tasks:
                program_rows.extend(
                    rows[program.merge_row[k]].copy()
                    for k in range(program.merge_offsets[task], program.merge_offsets[task + 1])
                )

        def observe_pools(self, *_):
            pass

    prepared.meters.append(Looking())
    for _ in prepared.schedule.play(prepared.tape_runner().run_segment):
        pass
    assert len(program_rows) == prepared.schedule.n_messages
    assert not np.any([row[LAYOUT.users] for row in program_rows])
    assert np.any([row[LAYOUT.items] for row in program_rows])


def test_the_log_tells_the_size_of_what_leaves(seen, tmp_path):
    policies = [{"name": "share-less", "nodes": [1, 4]}, {"name": "noting", "nodes": [4, 7]}]
    run = simulate(tiny(policies=policies, observers=[]), out=tmp_path / "run")

    message, whole = run.events("message"), LAYOUT.message_bytes
    sizes = {n: set(message["size_bytes"][message["sender"] == n].tolist()) for n in range(12)}
    assert sizes == {n: {whole - 32 * (n in (1, 4)) + 4 * (n in (4, 7))} for n in range(12)}


@pytest.mark.usefixtures("seen")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nan", "policies: nan: push 1 of node 3 contains NaN or infinite values; lower"),
        (
            "short",
            r"policies: short: push 1 of node 3 was encoded in shapes \[\(1, 8\), \(39, 8\), \(9,\)\]; expected",
        ),
    ],
)
def test_a_broken_payload_is_refused_with_node_and_push(name, message, tmp_path):
    with pytest.raises(ScenarioError, match=message):
        simulate(tiny(policies=[{"name": name}]), out=tmp_path / "run")


@pytest.mark.slow
def test_privacy_of_messages_adds_up_in_the_log(tmp_path):
    laplace = {"name": "ldp", "bound": 1.0, "scale": 4.0, "nodes": [1, 6]}
    run = simulate(tiny(policies=[laplace]), out=tmp_path / "run")

    message, spent = run.events("message"), run.events("privacy")
    final = dict(zip(spent["node"].tolist(), spent["epsilon"].tolist(), strict=True))
    pushes = {n: len(np.unique(message["sent_at"][message["sender"] == n])) for n in (1, 6)}
    assert final == {n: pytest.approx(0.5 * count) for n, count in pushes.items()}
    assert run.summary["privacy"]["delta"] == 0.0


def test_an_update_relative_to_the_own_past_is_refused():
    with pytest.raises(
        ScenarioError, match=r"in gossip an update is relative to a model that contains the node's own"
    ):
        prepare(load_scenario(tiny(policies=[{"name": "ldp", "scale": 1.0, "of": "update"}])))


def test_two_rules_for_one_inbox_are_refused():
    other = type("Other", (POLICIES["robust-merge"],), {})
    POLICIES._members["other-merge"] = other
    try:
        policies = [
            {"name": name, "rule": "median", "nodes": [3]} for name in ("robust-merge", "other-merge")
        ]
        with pytest.raises(
            ScenarioError, match="other-merge and another policy both define how node 3 aggregates"
        ):
            prepare(load_scenario(tiny(policies=policies)))
    finally:
        del POLICIES._members["other-merge"]
