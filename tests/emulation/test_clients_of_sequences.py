"""Clients without a model that learn from sequences: what is written out trains them as the reference does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossiprec.base.errors import ScenarioError
from gossiprec.compute.executors import analytic_trainer
from gossiprec.emulation import prepare, simulate
from gossiprec.federated import RECOMMENDERS, Recommender
from gossiprec.models import MODELS
from gossiprec.scenario import load_scenario
from gossiprec.testing.tiny_runs import registered_as
from tests.emulation.ended_early import outcome
from tests.emulation.test_clients_without_models import NETWORK, star, version
from tests.emulation.tiny_runs import carried_out
from tests.slow import slow_except_first

ONE_STEP = {"optimizer": "sgd", "learning_rate": 0.5, "batch_size": "full", "negatives": 3}
GRU = {"name": "gru4rec", "dim": 5, "hidden": 7, "init_std": 0.3, "loss": "sampled", "max_length": 6}
DATASET = {
    "name": "synthetic", "users": 12, "items": 40, "interactions": 90, "split": {"name": "leave_last_k", "test": 1},
}  # fmt: skip
SIZES = st.fixed_dictionaries(
    {
        "dim": st.integers(1, 17),
        "hidden": st.sampled_from([1, 7, 32, 40]),
        "dropout": st.sampled_from([0.0, 0.3]),
        "in_batch": st.booleans(),
        "max_length": st.sampled_from([1, 4, 50]),
    }
)
WAYS = st.fixed_dictionaries(
    {
        "optimizer": st.sampled_from(["sgd", "adam"]),
        "local_epochs": st.integers(1, 3),
        "negatives": st.sampled_from([1, 3, 20]),
        "negatives_drawn": st.sampled_from(["once", "each_update"]),
    }
)


class Thinned(Recommender):
    """Leaves out some negatives at random, and adds an item that each of a list is told from."""

    adds_to_loss = False

    def check(self, layout, *, full_batches):
        pass

    def loss(self, p, batch, extras):
        return self.model.loss(p, batch)

    def transform_samples(self, samples, client, draw):
        wide = np.concatenate([samples["negatives"], samples["items"][:, :1]], axis=1)
        return {**samples, "negatives": np.where(draw.random(wide.shape) < 0.3, np.int32(-1), wide)}


class ThinnedForEach(Thinned):
    """Lets each place of a list have negatives of its own."""

    def transform_samples(self, samples, client, draw):
        items = samples["items"]
        own = draw.integers(-8, client.layout.n_items, (*items.shape, 5)).astype(np.int32)
        return {**samples, "negatives": np.where(items[..., None] >= 0, np.maximum(own, -1), np.int32(-1))}


def world(**more):
    fixed = {"model": GRU, "training": ONE_STEP, "dataset": DATASET, "observers": []}
    return star(**{**fixed, "evaluate": {"every": 3, "metrics": ["recall@5"]}, **more})


def executor_of(**more):
    return prepare(load_scenario(world(**{"executor": {"name": "auto"}, **more}))).executor.name


def assert_alike(slow, fast, *, apart=1e-5):
    assert slow.executor.update_bytes == fast.executor.update_bytes
    one, other = version(slow), version(fast)
    assert one.shape == other.shape
    assert np.abs(other - one).max() <= apart * np.abs(one).max()
    assert slow.executor.store.steps.tolist() == fast.executor.store.steps.tolist()


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    sizes=SIZES, way=WAYS, changed=st.sampled_from([None, Thinned, ThinnedForEach]),
    upload=st.sampled_from(["changes", "gradients"]),
    merge=st.sampled_from(["mean", "sum", "touched-mean"]), interactions=st.integers(40, 240),
)  # fmt: skip
@pytest.mark.full
def test_a_written_out_gradient_of_sequences_trains_like_one_client_at_a_time(
    sizes, way, changed, upload, merge, interactions
):
    """Three rounds of most clients, some with one item and some with many; a relative difference.

    A sum adds up the rounding of all clients, in each of three rounds (1.5e-4 was seen, with one place per list). With
    the usual eps of 1e-8 Adam makes full steps of gradients that are no more than rounding.
    """
    if upload == "gradients":
        way, merge = {**way, "local_epochs": 1}, "sum"
    with registered_as(RECOMMENDERS, changed or Thinned) as thinned:
        told = {
            "model": {**GRU, **sizes}, "training": {**ONE_STEP, "learning_rate": 0.05, "eps": 1e-3, **way},
            "rounds": 3, "merge": merge, "recommender": {"name": thinned} if changed else None,
            "protocol": {"upload": upload}, "dataset": {**DATASET, "interactions": interactions},
        }  # fmt: skip
        runs = [carried_out(world(**told, executor={"name": name})) for name in ("reference", "fused")]

    assert [run.executor.name for run in runs] == ["reference", "fused"]
    assert_alike(*runs, apart=3e-4 if merge == "sum" else 1e-5)


@pytest.mark.parametrize(
    "told",
    slow_except_first(
        [
            {},
            {"model": {"name": "two-tower", "dim": 4, "loss": "sampled"}},
            {"recommender": {"name": "fed-softmax", "local_items": 10, "local_negatives": 3}},
        ]
    ),
)
def test_it_trains_as_stacks_of_tensors_do(told):
    runs = [carried_out(world(**told, executor={"name": name})) for name in ("batched", "fused")]

    assert [run.executor.name for run in runs] == ["batched", "fused"]
    assert_alike(*runs)


def test_it_is_taken_where_there_is_one():
    assert executor_of() == "fused"
    assert executor_of(training={**ONE_STEP, "batch_size": 16}) == "fused"  # of which a client has one
    assert executor_of(model={"name": "bert4rec", "dim": 4, "heads": 1, "loss": "sampled"}) != "fused"
    with registered_as(RECOMMENDERS, Thinned) as name:
        assert executor_of(recommender={"name": name}) == "fused"


def test_what_was_written_out_for_another_formula_is_not_taken():
    class Doubled(MODELS["gru4rec"]):
        def loss(self, p, batch):
            return 2 * super().loss(p, batch)

    class Flat(MODELS["gru4rec"]):
        def states(self, p, batch):
            return 0.5 * super().states(p, batch)

    class Whole(MODELS["gru4rec"]):
        def draws(self, samples, draw):
            return {}

    class Shrinking(Thinned):
        def loss(self, p, batch, extras):
            return super().loss(p, batch, extras) + p["items"].square().sum()

    for kind in (Doubled, Flat, Whole):
        with registered_as(MODELS, kind) as name:
            assert executor_of(model={**GRU, "name": name}) != "fused"
            with pytest.raises(ScenarioError, match=f"no compiled gradient for {name}"):
                executor_of(model={**GRU, "name": name}, executor={"name": "fused"})
    with registered_as(RECOMMENDERS, Shrinking) as name:
        assert executor_of(recommender={"name": name}) != "fused"


@pytest.mark.slow
def test_bytes_do_not_depend_on_who_trains_beside_whom(tmp_path, monkeypatch):
    scenario = world(network=NETWORK, protocol={"server": {"name": "adam", "learning_rate": 0.01}})
    together = {**scenario, "executor": {"name": "fused", "threads": 3}}
    runs = [simulate(together, out=tmp_path / "together")]
    monkeypatch.setattr(analytic_trainer, "AT_ONCE", 1)
    alone = {**scenario, "executor": {"name": "fused", "threads": 1, "wave_size": 1}}
    runs.append(simulate(alone, out=tmp_path / "alone"))

    assert outcome(runs[0].path) == outcome(runs[1].path)
