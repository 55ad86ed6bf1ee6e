"""Runs of models that follow sequences: under a coordinator with all data, at clients, and in gossip."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gossiprec.base.errors import DataError, ScenarioError
from gossiprec.compute.executors.tensors import table_views
from gossiprec.emulation import simulate
from gossiprec.emulation.scoring.utility import UtilityEvaluator, UtilityOptions
from gossiprec.testing.tiny_runs import current_models
from tests.emulation.tiny_runs import carried_out, tiny
from tests.slow import slow_except_first

MODEL = {"name": "gru4rec", "dim": 8, "hidden": 16, "max_length": 6}
TRAINING = {"optimizer": "adam", "learning_rate": 0.01, "batch_size": 4, "negatives": 3}
FEDERATED = {
    "name": "fedavg", "rounds": 5, "participation": 0.5, "client_model": "none", "merge": "mean", "upload": "gradients",
    "server": {"name": "adam", "learning_rate": 0.01},
}  # fmt: skip
AT_CLIENTS = {"optimizer": "sgd", "learning_rate": 1.0, "batch_size": "full", "negatives": 5}


def run(**sections):
    return tiny(**{"model": MODEL, "training": TRAINING, "observers": [], **sections})


def central(**sections):
    return run(protocol={"name": "central", "epochs": 3}, **sections)


def federated(**sections):
    model = {**MODEL, "loss": "sampled"}
    return run(
        **{
            "protocol": FEDERATED,
            "training": AT_CLIENTS,
            "model": model,
            **sections,
        }
    )


def naive_rank(prepared, part):
    """Return the mean reciprocal rank of a part's first item, asked after the items before, user by user."""
    split, work = prepared.components.split, prepared.executor.work
    row = torch.from_numpy(work.arena.rows[0, : work.layout.size])
    p, found = work.layout.blocks_by_name(table_views(work.layout, row)), []
    earlier = ("train", "validation")[: 2 if part == "test" else 1]
    for user in range(split.n_users):
        taken = {item for name in earlier for item in getattr(split, name)[user].tolist()}
        history = [item for item in split.sequences[user].tolist() if item in taken][-MODEL["max_length"] :]
        query = {"items": torch.arange(split.n_items), "user": torch.tensor([user])}
        scores = work.model.score(p, query | {"history": torch.tensor(history)}).numpy()
        scores[sorted(taken)] = -np.inf
        order = np.argsort(-scores, kind="stable").tolist()
        found.append(1 / (1 + min(order.index(item) for item in getattr(split, part)[user].tolist())))
    return np.mean(found)


@pytest.mark.parametrize("name", ["reference", "batched"])
def test_tests_are_asked_for_after_validation_items_and_these_after_training_items(name):
    telling = {**MODEL, "init_std": 2.0}  # rows so large that lists differ with histories
    prepared = carried_out(central(model=telling, executor={"name": name}))
    metrics = {"full_mrr@40": "test", "val_full_mrr@40": "validation"}
    utility = UtilityEvaluator(
        prepared.components.split,
        list(metrics),
        prepared.executor,
        3,
        UtilityOptions(mask="train+validation"),
    )
    found = utility.measure(prepared.planner.current_rows)
    expected = {
        metric: pytest.approx(naive_rank(prepared, part), rel=1e-6) for metric, part in metrics.items()
    }
    assert found == expected


def test_what_drops_out_depends_on_seed_node_update_and_step_alone():
    work = carried_out(federated(), upto=0).executor.work
    samples = {"previous": np.zeros((1, 32), np.int32)}
    each = [(3, 2, 0), (3, 2, 0), (4, 2, 0), (3, 1, 0), (3, 2, 1)]
    found = [work.draw_for_step(*which, samples)[1]["keep"].tobytes() for which in each]
    assert found[0] == found[1]
    assert len(set(found)) == 4


@pytest.mark.parametrize("whose", slow_except_first([federated, run]))
@pytest.mark.full
def test_nodes_train_alike_in_both_executors(whose):
    data = {**tiny()["dataset"], "items": 120, "interactions": 420}  # sequences of one and of two units
    long = {"dataset": data, "model": {**MODEL, "loss": "sampled", "max_length": 60}}
    if whose is run:
        long["training"] = {**TRAINING, "batch_size": "full"}
    one, other = (
        current_models(carried_out(whose(**long, executor={"name": name})))
        for name in ("reference", "batched")
    )
    begin = current_models(carried_out(whose(**long), upto=0))
    assert np.linalg.norm(one - other) < 1e-3 * np.linalg.norm(one - begin)


def test_bytes_of_clients_do_not_depend_on_threads():
    one, other = (
        current_models(carried_out(federated(executor={"name": "batched", "threads": threads})))
        for threads in (1, 2)
    )
    assert one.tobytes() == other.tobytes()


def test_a_client_cannot_tell_an_item_from_all_others():
    with pytest.raises(ScenarioError, match=r"model\.loss: gru4rec with loss 'all'.*set it to sampled"):
        carried_out(federated(model=MODEL))
    for name in ("ease", "mult-vae"):
        with pytest.raises(ScenarioError, match=rf"model\.name: {name} contrasts .*; choose another model"):
            carried_out(federated(model={"name": name}))


def test_users_with_one_item_take_no_step():
    data = {
        "name": "synthetic", "users": 12, "items": 40, "interactions": 40, "communities": 3,
        "split": {"name": "leave_last_k", "test": 1, "validation": 0},
    }  # fmt: skip
    prepared = carried_out(federated(dataset=data, evaluate={"every": 5, "metrics": ["recall@5"]}))
    assert (prepared.components.split.train.sizes == 1).any()
    assert np.isfinite(current_models(prepared)).all()


def test_data_without_times_are_refused_before_anything_is_written(tmp_path):
    for name, first in (("train", 0), ("test", 20)):
        lines = [f"{user} {first + user} {first + user + 5}" for user in range(4)]
        (tmp_path / f"{name}.txt").write_text("\n".join(lines))
    data = {
        "name": "files", "form": "lists", "train": str(tmp_path / "train.txt"), "test": str(tmp_path / "test.txt"),
        "split": {"name": "published"},
    }  # fmt: skip
    with pytest.raises(DataError, match="no times"):
        simulate(central(dataset=data), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
