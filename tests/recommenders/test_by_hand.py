"""Federated training beside plain numpy in float64: which executor is right, and the sum and the mean of L_rec."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gossiprec.emulation import prepare
from gossiprec.models.base.contrastive import info_nce
from gossiprec.scenario import load_scenario
from tests.audit.federated_loop import Loop, info_nce_slopes

EXECUTORS = ("reference", "batched", "fused")
SLICES = {"name": "fedavg", "rounds": 3, "slice": 8, "close_epochs": True, "client_model": "none"}
STEP = {"name": "cl4fedrec", "item_view_scale": "learning-rate", "user_weight": 0.0, "synthetic_items": 5}
ADAM = {"optimizer": "adam", "learning_rate": 0.001, "batch_size": "full", "local_epochs": 3}
SGD = {"optimizer": "sgd", "learning_rate": 0.01, "batch_size": "full", "local_epochs": 1}
MEDIAN = {"name": "median", "over": "touched", "rescale": "n"}
POISONED = {
    "recommender": {"name": "last-repeat"}, "attackers": [{"name": "a-hum", "number": 3, "std": 0.5, "rate": 0.5}],
}  # fmt: skip
RUNS = {
    "FedNCF": ({}, ADAM, "touched-mean"),
    "CL4FedRec, Adam": ({"recommender": STEP}, ADAM, "touched-mean"),
    "poisonfeddlrs": (POISONED, {**SGD, "negatives_drawn": "once"}, "sum"),
    "CL4FedRec, summed gradients": ({"recommender": {**STEP, "item_loss": "sum"}}, SGD, "sum"),
}


def scenario(executor, training, merge, reduction="mean", **sections):
    return {
        "name": "by-hand", "seed": 5, "plots": False,
        "dataset": {"name": "synthetic", "users": 20, "items": 30, "interactions": 160, "communities": 2,
                    "split": {"name": "leave_last_k", "test": 1, "validation": 1}},
        "model": {"name": "ncf", "dim": 4, "hidden": [6, 4], "loss_reduction": reduction},
        "training": training, "protocol": {**SLICES, "merge": merge},
        "evaluate": {"every": 1, "metrics": ["hr@5"]}, "executor": {"name": executor, "threads": 1}, **sections,
    }  # fmt: skip


def made(*stated, **sections):
    return prepare(load_scenario(scenario(*stated, **sections)))


def versions(plain, number):
    """Return the coordinator's version after each epoch, and the one before the first."""
    run = prepare(load_scenario(plain))
    store, columns = run.executor.store, run.executor.store.layout.merged
    found = [store.version(0)[: columns.stop - columns.start].astype(float)]
    for tick in run.schedule.play(run.tape_runner().run_segment):
        found.append(store.load(run.planner.current_rows[-1:])[0, columns].astype(float))
        if tick.round == number:
            break
    return found


@pytest.mark.slow
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("name", RUNS)
@pytest.mark.full
def test_executors_train_what_float64_does(name, reduction):
    sections, training, merge = RUNS[name]
    by_hand = list(Loop(made("reference", training, merge, reduction, **sections)).epochs(3))
    for executor in EXECUTORS:
        begun, *found = versions(scenario(executor, training, merge, reduction, **sections), 3)
        way = np.linalg.norm(by_hand[-1] - begun)
        apart = [np.linalg.norm(a - b) / way for a, b in zip(found, by_hand, strict=True)]
        assert max(apart) < 2e-5, f"{executor} ends {max(apart):.2g} of its way away"


def test_sum_and_mean_of_the_loss_train_differently_beside_another_loss():
    """And alike under Adam without one: it divides by the gradient's own size."""
    ends = {}
    for name in ("FedNCF", "CL4FedRec, Adam"):
        sections, training, merge = RUNS[name]
        ends[name] = [
            versions(scenario("fused", training, merge, how, **sections), 1) for how in ("mean", "sum")
        ]
    apart = {
        name: np.linalg.norm(mean[1] - total[1]) / np.linalg.norm(mean[1] - mean[0])
        for name, (mean, total) in ends.items()
    }
    assert apart["FedNCF"] < 1e-3 < 1e-2 < apart["CL4FedRec, Adam"]


def test_a_median_times_n_is_exact_to_the_rounding_of_answers():
    """Executors agree, and one epoch after float64 they are off by what answers in float32 are, times n.

    Adam makes whole steps of whatever is left of small gradients, so that the distance grows from epoch to epoch,
    whichever arithmetic is used: rounding nothing but the answers in :class:`Loop` has the same effect.
    """
    by_hand = next(Loop(made("reference", ADAM, MEDIAN)).epochs(1))
    for executor in EXECUTORS:
        _, found = versions(scenario(executor, ADAM, MEDIAN), 1)
        rounding = np.spacing(np.float32(np.abs(found).max()))
        assert np.abs(found - by_hand).max() < 8 * 4 * rounding


@pytest.mark.parametrize(("n", "seed"), [(2, 12), (3, 3), (5, 15)])
def test_the_slopes_of_views_that_are_nearly_the_same_are_not_noise(n, seed):
    """Such views come of ``item_view_scale: learning-rate``."""
    found, expected = slopes_of_views(n, seed, 16, std=0.3, apart=1e-6)
    assert np.abs(found - expected).max() < 5e-6 * np.abs(expected).mean()


def test_one_item_has_nothing_to_be_told_from_and_no_slope():
    found, _ = slopes_of_views(1, 1, 32, std=0.01, apart=0.1)
    assert np.abs(found).max() < 1e-12


def slopes_of_views(n, seed, dim, *, std, apart):
    """Return the slopes by rows of which two views are taken, in float32 and in float64."""
    draw = np.random.default_rng(seed)
    rows = draw.normal(0, std, (n, dim))
    views = [(rows + apart * draw.normal(0, 1, rows.shape)).astype(np.float32) for _ in range(2)]
    leaves = [torch.tensor(view, requires_grad=True) for view in views]
    info_nce(*leaves, torch.ones(n), 0.2).backward()
    return sum(leaf.grad.numpy() for leaf in leaves), sum(
        info_nce_slopes(*(view.astype(float) for view in views), 0.2)
    )
