"""Clients without a model that learn from pairs: what is written out trains them as the reference does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossiprec.base.errors import ScenarioError
from gossiprec.compute.executors import analytic_trainer
from gossiprec.emulation import prepare, simulate
from gossiprec.federated import RECOMMENDERS
from gossiprec.models import MODELS
from gossiprec.scenario import load_scenario
from gossiprec.testing.tiny_runs import registered_as
from tests.emulation.ended_early import outcome
from tests.emulation.test_clients_without_models import NETWORK, star, version
from tests.emulation.tiny_runs import carried_out
from tests.slow import slow_except_first

FULL = {"optimizer": "adam", "learning_rate": 0.01, "batch_size": "full", "negatives": 1}
LIGHTGCN = {"name": "lightgcn", "dim": 5, "l2": 0.01}
MF = {"name": "mf", "dim": 4, "init_std": 0.5, "loss": "bpr"}
CLUSTERS = {"name": "perfedrec", "pseudo_items": 0.3, "clusters": {"number": 2, "first": 1, "every": 1}}
MODELS_OF_PAIRS = st.one_of(
    st.fixed_dictionaries(
        {
            "name": st.just("lightgcn"),
            "dim": st.integers(1, 17),
            "layers": st.integers(1, 3),
            "l2": st.sampled_from([0.0, 0.5]),
        }
    ),
    st.fixed_dictionaries(
        {"name": st.just("mf"), "dim": st.integers(1, 17), "loss": st.just("bpr"), "init_std": st.just(0.5)}
    ),
)
WAYS = st.fixed_dictionaries(
    {
        "optimizer": st.sampled_from(["sgd", "adam"]),
        "local_epochs": st.integers(1, 4),
        "negatives": st.integers(1, 2),
        "negatives_drawn": st.sampled_from(["once", "each_update"]),
    }
)
PARTS = ("own", "first", "second")
RECOMMENDED = st.sampled_from(
    [None, {"name": "fedgnn", "pseudo_items": 0.0}, {"name": "fedgnn", "pseudo_items": 0.5}, CLUSTERS]
)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    model=MODELS_OF_PAIRS, way=WAYS, recommender=RECOMMENDED, upload=st.sampled_from(["changes", "gradients"]),
    merge=st.sampled_from(["mean", "sum", "touched-mean"]), interactions=st.integers(80, 240),
)  # fmt: skip
@pytest.mark.full
def test_a_written_out_gradient_of_pairs_trains_like_one_client_at_a_time(
    model, way, recommender, upload, merge, interactions
):
    """Three rounds of most clients, of whom some have few items and some many; a relative difference.

    With the usual eps of 1e-8 Adam makes full steps of gradients that are no more than rounding.
    """
    if upload == "gradients":
        way, merge = {**way, "local_epochs": 1}, "sum"
    dataset = {
        "name": "synthetic",
        "users": 12,
        "items": 40,
        "interactions": interactions,
        "split": {"name": "leave_last_k", "test": 1},
    }
    world = {
        "model": model, "training": {**FULL, "eps": 1e-3, **way}, "rounds": 3, "merge": merge,
        "recommender": recommender, "protocol": {"upload": upload}, "dataset": dataset,
        "evaluate": {"every": 3, "metrics": ["recall@5"]}, "observers": [],
    }  # fmt: skip
    runs = [carried_out(star(**world, executor={"name": name})) for name in ("reference", "fused")]

    assert [run.executor.name for run in runs] == ["reference", "fused"]
    assert runs[0].executor.update_bytes == runs[1].executor.update_bytes
    for what in (version, *(lambda run, part=part: getattr(run.executor.store, part) for part in PARTS)):
        slow, fast = map(what, runs)
        assert slow.shape == fast.shape
        assert np.abs(fast - slow).max(initial=0.0) <= 1e-5 * np.abs(slow).max(initial=0.0)
    assert runs[0].executor.store.steps.tolist() == runs[1].executor.store.steps.tolist()


@pytest.mark.parametrize("model", slow_except_first([LIGHTGCN, MF]), ids=lambda model: model["name"])
def test_an_answer_holds_the_touched_items_in_order(model):
    """Those that the reference finds, ascending; rules that read single columns of updates rely on that."""
    world = {"model": model, "training": {**FULL, "eps": 1e-3}, "recommender": CLUSTERS, "observers": []}
    runs = [carried_out(star(**world, executor={"name": name})) for name in ("reference", "fused")]
    answers = [
        [each for each in run.executor.store._held.values() if not isinstance(each, np.ndarray)]
        for run in runs
    ]

    assert len(answers[0]) == len(answers[1]) > 0
    for slow, fast in zip(*answers, strict=True):
        assert (np.diff(fast.items) > 0).all()
        assert fast.items.tolist() == slow.items.tolist()
        np.testing.assert_allclose(fast.rows, slow.rows, rtol=0, atol=1e-5)


def executor_of(**more):
    world = {"training": FULL, "executor": {"name": "auto"}, "observers": [], **more}
    return prepare(load_scenario(star(**world))).executor.name


def test_it_is_taken_where_there_is_one():
    for recommender in (None, {"name": "fedgnn"}, CLUSTERS):
        assert executor_of(model=LIGHTGCN, recommender=recommender) == "fused"
        assert executor_of(model=MF, recommender=recommender) == "fused"
    assert executor_of(model=LIGHTGCN, training={**FULL, "batch_size": 16}) != "fused"


def test_what_was_written_out_for_another_formula_is_not_taken():
    class Doubled(MODELS["lightgcn"]):
        def loss(self, p, batch):
            return 2 * super().loss(p, batch)

    class Unseen(MODELS["lightgcn"]):
        def encode_client(self, p, batch):
            return p

    class Halved(MODELS["mf"]):
        def score(self, p, query):
            return 0.5 * super().score(p, query)

    class Shrinking(RECOMMENDERS["perfedrec"]):
        def loss(self, p, batch, extras):
            return super().loss(p, batch, extras) + p["users"].square().sum()

    for kind, model in ((Doubled, LIGHTGCN), (Unseen, LIGHTGCN), (Halved, MF)):
        with registered_as(MODELS, kind) as name:
            assert executor_of(model={**model, "name": name}) != "fused"
            with pytest.raises(ScenarioError, match=f"no compiled gradient for {name}"):
                executor_of(model={**model, "name": name}, executor={"name": "fused"})
    with registered_as(RECOMMENDERS, Shrinking) as name:
        assert executor_of(model=LIGHTGCN, recommender={**CLUSTERS, "name": name}) != "fused"


@pytest.mark.slow
def test_a_formula_of_other_layers_has_its_own_numbers():
    """Layers from the first on alone: the same class with another number, held to the reference."""

    class Later(MODELS["lightgcn"]):
        first_layer = 1

    with registered_as(MODELS, Later) as name:
        world = {"model": {**LIGHTGCN, "name": name, "layers": 3}, "training": FULL, "observers": []}
        runs = [carried_out(star(**world, executor={"name": each})) for each in ("reference", "fused")]
    slow, fast = map(version, runs)
    assert np.abs(fast - slow).max() <= 1e-5 * np.abs(slow).max()


@pytest.mark.parametrize("model", slow_except_first([LIGHTGCN, MF]), ids=lambda model: model["name"])
def test_bytes_do_not_depend_on_who_trains_beside_whom(tmp_path, monkeypatch, model):
    scenario = star(network=NETWORK, training=FULL, model=model, recommender=CLUSTERS, observers=[])
    together = {**scenario, "executor": {"name": "fused", "threads": 3}}
    runs = [simulate(together, out=tmp_path / "together")]
    monkeypatch.setattr(analytic_trainer, "AT_ONCE", 1)
    alone = {**scenario, "executor": {"name": "fused", "threads": 1, "wave_size": 1}}
    runs.append(simulate(alone, out=tmp_path / "alone"))

    assert outcome(runs[0].path) == outcome(runs[1].path)
