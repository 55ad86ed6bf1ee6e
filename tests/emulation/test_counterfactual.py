"""A run without a user's data is the scenario written by hand, and differs by these data only."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gossiprec import counterfactual
from gossiprec.base.errors import DataError
from gossiprec.base.ragged import Ragged
from gossiprec.emulation import simulate
from gossiprec.emulation.assembly.data_loading import load_data
from gossiprec.emulation.run.influence import counterfactual_path
from gossiprec.scenario import load_scenario
from tests.emulation.ended_early import outcome
from tests.emulation.tiny_runs import SINGLE, carried_out, final_models, tiny

GOSSIP = tiny()["protocol"]
FEDAVG = {"name": "fedavg", "rounds": 6}
DATASET = tiny()["dataset"]
FORGOTTEN = [0, 3]


def emptied(scenario):
    """Return the data with the rows of the forgotten users emptied by hand."""

    def cut(sets):
        return Ragged.from_parts([sets[u][: 0 if u in FORGOTTEN else None] for u in range(len(sets))])

    split = load_data(scenario)
    parts = ("train", "validation", "test", "sequences")
    return replace(split, **{name: cut(sets) for name in parts if (sets := getattr(split, name)) is not None})


BY_HAND = {
    "gossip": {"observers": [SINGLE, {**SINGLE, "who": "coalition", "members": [0, 4]}]},
    "whole models": {"protocol": FEDAVG},
    "updates": {"protocol": {**FEDAVG, "client_model": "none"}},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_HAND)
@pytest.mark.full
def test_counterfactual_is_the_scenario_written_by_hand(tmp_path, name):
    scenario = tiny(**BY_HAND[name])
    factual = simulate(scenario, out=tmp_path / "run")
    found = counterfactual(factual.path, FORGOTTEN)
    assert found.path == tmp_path / "run-without-0-3"

    written = simulate({**scenario, "dataset": {**DATASET, "without": FORGOTTEN}}, out=tmp_path / "written")
    by_hand = simulate(scenario, out=tmp_path / "hand", load_data=emptied)
    assert outcome(found.path) == outcome(written.path) == outcome(by_hand.path)
    assert (found.path / "scenario.yaml").read_bytes() == (written.path / "scenario.yaml").read_bytes()
    assert outcome(found.path) != outcome(factual.path)
    for kind in ("wake", "message", *(["view"] if name == "gossip" else [])):
        before, after = factual.events(kind), found.events(kind)
        for column in before.keys() - ({"size_bytes"} if name == "updates" else set()):
            np.testing.assert_array_equal(before[column], after[column])
    samples = found.events("update")
    assert set(samples["samples"][np.isin(samples["node"], FORGOTTEN)].tolist()) <= {0}


SLICES = {"name": "fedavg", "rounds": 2, "slice": 4, "client_model": "none", "merge": "mean"}
NEGATIVES = {"local_items": 10, "local_negatives": 3}
RECOMMENDERS = {
    "fed-softmax": {"name": "fed-softmax", **NEGATIVES},
    "fedcl": {"name": "fedcl", **NEGATIVES, "semi_hard": 4, "clusters": 3},
    "pdc-frs": {
        "name": "pdc-frs",
        "similarity": {"name": "co-occurrence", "public_users": 0.5},
        "augmented": 5,
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RECOMMENDERS)
@pytest.mark.cases(2)
def test_federated_recommenders_leave_users_out(name):
    """The versions do not depend on the items that the forgotten users had."""
    pairs = name == "pdc-frs"
    model = {"name": "ncf", "dim": 4, "hidden": [6]} if pairs else {"name": "gru4rec", "dim": 6, "hidden": 7}
    scenario = load_scenario(
        tiny(
            observers=[],
            model=model if pairs else {**model, "loss": "sampled"},
            training={"optimizer": "sgd", "learning_rate": 0.5, "batch_size": "full"},
            protocol=SLICES,
            recommender=RECOMMENDERS[name],
            evaluate={"every": 1, "metrics": ["recall@5"]},
            dataset={**DATASET, "without": FORGOTTEN},
        )
    )
    found = carried_out(scenario)
    version = found.executor.store.version(found.planner.current_row(12))
    assert np.isfinite(version).all()
    assert not found.components.split.train.sizes[FORGOTTEN].any()
    plain = carried_out(scenario.with_(dataset=scenario.dataset.model_copy(update={"without": ()})))
    assert (version != plain.executor.store.version(plain.planner.current_row(12))).any()


def models(*, upto=None, **sections):
    return final_models(carried_out(tiny(**{"observers": [], **sections}), upto))


@pytest.mark.parametrize("policy", [None, "dp-sgd"])
def test_a_node_without_data_only_relays(policy):
    """Its own local updates change nothing, also if they are noisy."""
    others = list(range(1, 12))
    private = {"name": "dp-sgd", "epsilon": 5.0, "delta": 1e-3, "clip_norm": 1.0, "nodes": others}
    sections = {
        "dataset": {**DATASET, "without": others},
        "protocol": {**GOSSIP, "merge": "samples"},
        "training": {"batch_size": "full"},
    }
    first, last = (models(**sections, policies=[private] if policy else [], upto=n) for n in (0, None))
    changed = first != last
    assert changed[0].all(), "the only node with data trains"
    assert not changed[1:, :8].any(), "user rows are trained, never merged"
    assert changed[1:, 8:].any(), "relays take what they receive"
    np.testing.assert_array_equal(last, models(**sections))


def test_a_coordinator_leaves_out_clients_without_data():
    """Its version is the same however many clients without data answer."""
    few = {**DATASET, "without": list(range(2, 12))}
    protocol = {**FEDAVG, "client_model": "none", "merge": "mean"}
    (version,) = {
        models(dataset=few, protocol=protocol, policies=policies)[12, 8:].tobytes()
        for policies in ([], [{"name": "quantize", "bits": 8, "nodes": list(range(2, 12))}])
    }
    assert np.isfinite(np.frombuffer(version, np.float32)).all()


def test_an_equal_counterfactual_is_reused_and_users_can_be_left_out_one_after_the_other(tmp_path):
    run = simulate(tiny(observers=[]), out=tmp_path / "run")
    first = counterfactual(run.path, [3])
    assert counterfactual(run.path, [3]).manifest == first.manifest
    second = counterfactual(first.path, [5], out=tmp_path / "both")
    assert second.scenario["dataset"]["without"] == [3, 5]
    with pytest.raises(DataError, match="user 3 has no data in it"):
        counterfactual(first.path, [3])


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    return simulate(tiny(observers=[]), out=tmp_path_factory.mktemp("runs") / "run").path


@pytest.mark.parametrize(
    ("without", "words"),
    [
        ([12], "found user 12; expected a node id from 0 to 11"),
        (["ann"], "no user named 'ann'; expected a node id as a number: its users have no names"),
        ([*range(12)], "found all 12 users"),
    ],
)
def test_users_who_do_not_exist_and_all_users_are_refused(short, without, words):
    with pytest.raises(DataError, match=words):
        counterfactual(short, without)
    assert not list(short.parent.glob("run-*"))


def test_many_users_are_named_by_a_hash(tmp_path):
    assert counterfactual_path(tmp_path / "run", [5, 1]).name == "run-without-1-5"
    many = [counterfactual_path(tmp_path / "run", range(low, low + 6)).name for low in (0, 1)]
    assert many[0] != many[1]
    assert many[0].startswith("run-without-6-users-")


def test_no_observer_without_data_searches(tmp_path):
    from gossiprec.base.errors import ScenarioError

    dataset = {**DATASET, "without": FORGOTTEN}
    with pytest.raises(ScenarioError, match="no node of an observer of cda has data"):
        simulate(tiny(dataset=dataset, observers=[{**SINGLE, "nodes": [3]}]), out=tmp_path / "run")
    run = simulate(tiny(dataset=dataset, observers=[SINGLE]), out=tmp_path / "run2")
    (nodes, _), *_ = run.adversaries.values()
    assert nodes.tolist() == [1, 2, *range(4, 12)]
    assert load_scenario(run.path / "scenario.yaml").dataset.without == tuple(FORGOTTEN)
