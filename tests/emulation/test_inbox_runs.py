"""Whole runs in which nodes aggregate inboxes: a coordinator by its ``merge``, nodes of gossip by ``robust-merge``."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import NoOptions
from gossiprec.emulation import prepare, resume, simulate
from gossiprec.rules.aggregators import AGGREGATORS, Aggregator
from gossiprec.rules.aggregators.samples import SampleWeightedMean
from gossiprec.scenario import load_scenario
from tests.emulation.ended_early import ended_early, outcome
from tests.emulation.tiny_runs import SINGLE, carried_out, final_models, tiny
from tests.slow import slow_except_first

SLOW = {"latency": {"law": "exponential", "mean": 0.4}, "loss": 0.1}
DAMPED = {"batch_size": 16, "eps": 1e-3}
COORDINATOR = {**SINGLE, "who": "coordinator"}
COALITION = {**SINGLE, "who": "coalition", "fraction": 0.5}
RULES = [name for name in AGGREGATORS if not AGGREGATORS[name].streaming]


def star(rule, **options):
    return {"protocol": {"name": "fedavg", "rounds": 8, "merge": rule, **options}, "observers": [COORDINATOR]}


def gossip(rule, nodes="all", **options):
    policy = {"name": "robust-merge", "rule": rule, "nodes": nodes, **options}
    return {"policies": [policy], "observers": [{**SINGLE, "fictive_user": "own_embedding"}, COALITION]}


def wait(**more):
    return {"round": {"deadline": 0.6, "give_up": 2.0, **more}}


STALE = {"mixing": 0.7, "staleness": {"law": "polynomial"}}
BUFFERED = {"name": "buffered", "buffer": 3, "concurrency": 6, "give_up": 2.0, **STALE}
RUNS = {
    "star": star("norm-bound"),
    "star-waiting": {**star("norm-bound", **wait(late="discard")), "network": SLOW},
    "star-buffered": {**star("trimmed-mean", aggregation=BUFFERED), "network": SLOW},
    "gossip": gossip("trimmed-mean", nodes={"fraction": 0.6}),
    "gossip-slow": {**gossip({"name": "norm-bound", "bound": 0.5}, buffer=2), "network": SLOW},
}


def scenario(run, **more):
    return tiny(**{"training": DAMPED, **RUNS[run], **more})


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.cases(1)
@pytest.mark.slow
def test_executors_agree(run):
    one, *others = (
        final_models(carried_out(scenario(run, executor={"name": name})))
        for name in ("reference", "batched", "fused")
    )
    for other in others:
        np.testing.assert_allclose(other, one, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("executor", "run"),
    [
        ("batched", "star"),
        ("fused", "star-waiting"),
        ("batched", "star-buffered"),
        ("fused", "gossip"),
        ("batched", "gossip-slow"),
        ("fused", "gossip-slow"),
    ],
)
@pytest.mark.cases(1)
def test_threads_and_waves_change_no_byte(executor, run, tmp_path):
    runs = [
        outcome(simulate(scenario(run, executor={"name": executor, **more}), out=tmp_path / str(number)).path)
        for number, more in enumerate([{"threads": 1}, {"threads": 2, "wave_size": 3}])
    ]
    assert runs[0] == runs[1]


@pytest.mark.parametrize("run", RUNS)
def test_how_often_a_run_is_reported_changes_no_model(run):
    models = [
        final_models(carried_out(scenario(run, evaluate={"every": every, "metrics": ["hr@5"]})))
        for every in (1, 3)
    ]
    np.testing.assert_array_equal(*models)


@pytest.mark.parametrize("run", slow_except_first(RUNS))
@pytest.mark.cases(1)
def test_a_run_that_ended_early_is_resumed_to_the_same_bytes(run, tmp_path):
    often = scenario(run, evaluate={"every": 1, "metrics": ["hr@5"]})
    whole = simulate(often, out=tmp_path / "whole")
    broken = ended_early(tmp_path / "broken", often, 3)

    assert outcome(resume(broken.path).path) == outcome(whole.path)


@pytest.mark.parametrize("storage", slow_except_first(["float32", "float16"]))
def test_models_of_moves_and_half_floats_have_inboxes_too(storage):
    from tests.emulation.test_resume import CITY

    dataset = {**CITY["dataset"], "split": {"name": "leave_last_k", "test": 2, "validation": 0}}
    city = {**CITY, "dataset": dataset, **gossip("norm-bound"), "observers": []}
    one, other = (
        final_models(carried_out(tiny(**city, executor={"name": name, "storage": storage})))
        for name in ("reference", "fused")
    )
    tolerance = 1e-4 if storage == "float32" else 0.02
    np.testing.assert_allclose(other, one, rtol=tolerance, atol=tolerance)


@pytest.mark.slow
@pytest.mark.usefixtures("registered")
def test_the_mean_of_an_inbox_is_what_streaming_gives():
    one, other = (
        final_models(carried_out(tiny(**star(rule), training=DAMPED))) for rule in ("samples", "waiting")
    )
    clients = slice(12)  # the coordinator's last inbox waits for a round that does not come
    np.testing.assert_allclose(one[clients], other[clients], rtol=1e-4, atol=1e-5)
    assert not np.array_equal(one[clients], other[clients])  # it did wait


@pytest.mark.slow
@pytest.mark.usefixtures("registered")
def test_who_looks_at_merges_is_one_round_behind_where_answers_wait():
    """As docs/coordinator.md says of the attribute inference attack."""
    watcher = {"name": "aia", "adversaries": 2, "models": 4, "epochs": 2, "community_size": 3}
    found = []
    for rule, rounds in (("samples", 3), ("waiting", 4), ("waiting", 3)):
        protocol = {"name": "fedavg", "rounds": rounds, "merge": rule}
        run = carried_out(tiny(protocol=protocol, observers=[watcher], training=DAMPED))
        found.append(run.attacks[0].rankings()[0].scores)
    streaming, later, behind = found
    np.testing.assert_allclose(later, streaming, rtol=1e-3, atol=1e-4)
    assert not np.allclose(behind, streaming, rtol=1e-3, atol=1e-4, equal_nan=True)


class Remembering(Aggregator):
    """Takes the latest model, and counts what has passed."""

    Options = NoOptions
    passed = 0

    def reduce(self, own, inbox):
        self.passed += len(inbox)
        out = own.copy()
        for columns, received in inbox.received():
            out[columns] = received[-1] + self.passed / 1000
        return out

    def state(self):
        return {"passed": self.passed}

    def restore(self, state):
        self.passed = state["passed"]


@pytest.fixture
def registered():
    """Register rules for one test."""
    before = dict(AGGREGATORS.members())
    AGGREGATORS._members["remembering"] = Remembering
    AGGREGATORS._members["waiting"] = type("Waiting", (SampleWeightedMean,), {"streaming": False})
    AGGREGATORS._members["huge"] = type(
        "Huge", (Remembering,), {"reduce": lambda self, own, inbox: own + np.inf}
    )
    AGGREGATORS._members["flat"] = type("Flat", (Remembering,), {"reduce": lambda self, own, inbox: own[:3]})
    yield
    AGGREGATORS._members.clear()
    AGGREGATORS._members.update(before)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("where", slow_except_first([star, gossip]))
@pytest.mark.full
def test_what_a_rule_remembers_is_in_the_checkpoint(where, tmp_path):
    often = tiny(**where("remembering"), evaluate={"every": 1, "metrics": ["hr@5"]})
    whole = simulate(often, out=tmp_path / "whole")
    broken = ended_early(tmp_path / "broken", often, 3)

    assert outcome(resume(broken.path).path) == outcome(whole.path)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(("sections", "node"), [(gossip("huge"), r"\d+"), (star("huge"), "12")])
def test_a_rule_that_makes_no_numbers_of_numbers_ends_the_run(sections, node):
    with pytest.raises(
        ScenarioError,
        match=rf"^node {node}: the aggregator 'huge' returned NaN or infinite values at time [\d.]+",
    ):
        carried_out(tiny(**sections))


@pytest.mark.usefixtures("registered")
def test_a_rule_that_returns_something_else_is_named():
    with pytest.raises(
        ScenarioError, match=r"the aggregator 'flat' returned shape \(3,\) for models of shape \(329,\)"
    ):
        carried_out(tiny(**gossip("flat")))


def broken_run(sections):
    """Return a run whose node 3 has no numbers in its answers after the first report, and the rest of its reports."""
    prepared = prepare(load_scenario(tiny(**sections)))
    plays = prepared.schedule.play(prepared.tape_runner().run_segment)
    next(plays)
    prepared.executor.work.arena.first[3] = np.nan
    return prepared, plays


def test_one_broken_model_that_is_left_out_harms_no_other():
    prepared, plays = broken_run(
        star("norm-bound", aggregation={"name": "synchronous", "invalid": "discard"})
    )
    for _ in plays:
        pass
    assert np.flatnonzero(~np.isfinite(final_models(prepared)).all(axis=1)).tolist() == [3]


@pytest.mark.parametrize("rule", ["samples", "norm-bound"])
def test_one_broken_model_ends_the_run_under_every_rule(rule):
    _, plays = broken_run(star(rule))
    with pytest.raises(
        ScenarioError,
        match=r"^node 3: local update \d+ at time \d+ produced a model with NaN or infinite values",
    ):
        for _ in plays:
            pass


def test_the_memory_of_inboxes_is_told():
    row_bytes = prepare(load_scenario(tiny())).executor.work.layout.row_size * 4
    assert prepare(load_scenario(scenario("star"))).memory_bytes["inboxes"] == 12 * row_bytes
    assert prepare(load_scenario(scenario("gossip-slow"))).memory_bytes["inboxes"] == 12 * 2 * row_bytes
    assert "inboxes" not in prepare(load_scenario(tiny())).memory_bytes


def test_attribute_inference_learns_from_answers_that_wait_in_an_inbox(tmp_path):
    aia = {"name": "aia", "adversaries": 2, "models": 4, "epochs": 2, "community_size": 3}
    run = simulate(tiny(**{**star("norm-bound"), "observers": [aia]}), out=tmp_path / "run")

    assert run.summary["attacks"][0]["max_aac"] > 0


PERSONAL = {"name": "pers-gossip", "view": {"size": 3}, "wakes": 4}
JUDGING = {**tiny()["dataset"], "split": {"name": "leave_last_k", "test": 2, "validation": 2}}
REFUSED = {
    "performance": (
        {"protocol": PERSONAL, "dataset": JUDGING},
        "weights each model by its performance on arrival",
    ),
    "receive": (
        {"protocol": {**tiny()["protocol"], "train_on": "receive"}},
        "trains immediately on each received model",
    ),
    "clients": ({"protocol": {"name": "fedavg", "rounds": 2}, "observers": []}, "adopts it"),
}


@pytest.mark.parametrize(("sections", "message"), REFUSED.values(), ids=REFUSED)
def test_a_rule_that_wants_an_inbox_is_refused_where_nodes_read_at_once(sections, message):
    with pytest.raises(
        ScenarioError, match=f"'norm-bound' requires an inbox, but with this protocol a node {message}"
    ):
        prepare(load_scenario(tiny(**{**gossip("norm-bound"), **sections})))


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        (
            {"protocol": {**tiny()["protocol"], "merge": "norm-bound"}},
            "requires an inbox, but gossip merges models one by",
        ),
        ({"protocol": {"name": "fedavg", "merge": "trimed-mean"}}, "did you mean 'trimmed-mean'"),
        (
            {"protocol": {"name": "fedavg", "merge": {"name": "mean", "share": 1}}},
            "mean has no option 'share'",
        ),
        ({"policies": [{"name": "robust-merge"}]}, "rule: is missing"),
        ({"policies": [{"name": "robust-merge", "rule": "norm-bund"}]}, "did you mean 'norm-bound'"),
        ({"policies": [{"name": "robust-merge", "rule": "norm-bound", "buffer": 0}]}, "buffer: found 0"),
    ],
)
def test_bad_rules_are_refused_in_plain_words(sections, message):
    with pytest.raises(ScenarioError, match=message):
        load_scenario(tiny(**sections))


def test_a_robust_rule_and_churn_with_lost_models_go_together(tmp_path):
    sessions = {"online": {"law": "exponential", "mean": 2.0}, "offline": {"law": "exponential", "mean": 1.0}}
    run = simulate(
        tiny(**gossip("trimmed-mean"), network=SLOW, churn={"sessions": sessions, "model": "reset"}),
        out=tmp_path / "run",
    )
    assert run.status == "complete"
