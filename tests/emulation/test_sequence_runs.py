"""Runs of models that follow sequences: under a coordinator with all data, at clients, and in gossip."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gossiprec.compute.executors.tensors import tables_of
from gossiprec.emulation import simulate
from gossiprec.emulation.scoring.utility import Utility
from gossiprec.errors import DataError, ScenarioError
from gossiprec.testing.worlds import models_of
from tests.emulation.tiny_runs import carried_out, tiny

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


def federated(name="reference", **sections):
    model = {**MODEL, "loss": "sampled"}
    return run(
        **{
            "protocol": FEDERATED,
            "training": AT_CLIENTS,
            "model": model,
            "executor": {"name": name},
            **sections,
        }
    )


def naive_recall(prepared, part, k=5):
    """Return the recall of a part's items, asked after the items before it, one user after the other."""
    split, work = prepared.split, prepared.executor.work
    row = torch.from_numpy(work.arena.rows[0, : work.layout.size])
    p, found = work.layout.named(tables_of(work.layout, row)), []
    earlier = ("train", "validation")[: 2 if part == "test" else 1]
    for user in range(split.n_users):
        taken = {item for name in earlier for item in getattr(split, name)[user].tolist()}
        history = [item for item in split.sequences[user].tolist() if item in taken][-MODEL["max_length"] :]
        query = {"items": torch.arange(split.n_items), "user": torch.tensor([user])}
        scores = work.model.score(p, query | {"history": torch.tensor(history)}).numpy()
        scores[sorted(taken)] = -np.inf
        tests = getattr(split, part)[user].tolist()
        found.append(np.mean([item in np.argsort(-scores)[:k] for item in tests]))
    return np.mean(found)


def test_tests_are_asked_for_after_validation_items_and_these_after_training_items():
    prepared = carried_out(central())
    metrics = ["recall@5", "val_recall@5"]
    utility = Utility(prepared.split, metrics, prepared.executor, 3, mask="train+validation")
    found = utility.measure(prepared.planner.current)
    expected = {
        "recall@5": naive_recall(prepared, "test"),
        "val_recall@5": naive_recall(prepared, "validation"),
    }
    assert found == {name: pytest.approx(value) for name, value in expected.items()}
    assert all(expected.values())


def test_clients_train_alike_in_both_executors():
    one, other = (models_of(carried_out(federated(name))) for name in ("reference", "batched"))
    begin = models_of(carried_out(federated(), upto=0))
    assert np.linalg.norm(one - other) < 1e-4 * np.linalg.norm(one - begin)


def test_bytes_of_clients_do_not_depend_on_threads():
    one, other = (
        models_of(carried_out(federated(executor={"name": "batched", "threads": threads})))
        for threads in (1, 2)
    )
    assert one.tobytes() == other.tobytes()


def test_a_node_that_gossips_hears_of_sequences_it_has_not_got():
    prepared = carried_out(run(training={**TRAINING, "batch_size": "full"}))
    assert np.isfinite(models_of(prepared)).all()


def test_a_client_cannot_tell_an_item_from_all_others():
    with pytest.raises(ScenarioError, match=r"model\.loss: gru4rec with loss 'all'.*set it to sampled"):
        carried_out(federated(model=MODEL))


def test_users_with_one_item_take_no_step():
    data = {
        "name": "synthetic", "users": 12, "items": 40, "interactions": 40, "communities": 3,
        "split": {"name": "leave_last_k", "test": 1, "validation": 0},
    }  # fmt: skip
    prepared = carried_out(federated(dataset=data, evaluate={"every": 5, "metrics": ["recall@5"]}))
    assert (prepared.split.train.sizes == 1).any()
    assert np.isfinite(models_of(prepared)).all()


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
