"""FedRAP: its loss next to the same in plain numpy, and tables of items that stay with their clients."""

from __future__ import annotations

import numpy as np
import torch

from gossiprec.emulation import prepare
from gossiprec.models import MODELS
from gossiprec.scenario import load_scenario
from gossiprec.testing.tiny_runs import play_to_end
from tests.compute.worlds import World
from tests.emulation.tiny_runs import tiny

DIM, APART, SPARSE, STEP = 3, 0.3, 0.2, 0.5
ITEMS, LABELS = np.array([2, 0, 1, 0, 3]), np.array([1.0, 0.0, 0.0, 1.0, 0.0])


def test_its_gradient_is_that_of_the_sum_of_both_tables_apart_and_sparse():
    kind, split = MODELS["fedrap"], World().split()
    options = kind.Options(dim=DIM, apart=APART, sparse=SPARSE, score_step=STEP)
    model, draw = kind(options).bind_to_data(split.training_data()), np.random.default_rng(2)
    change, common, personal = (draw.normal(size=n) for n in ((1, DIM + 1), (4, DIM), (split.n_items, DIM)))
    number = np.array([5, 1, 7, 0])  # a client numbers its items from 0
    given = {"change": change, "common": common, "number": number[:, None] * 1.0, "personal": personal}
    p = {name: torch.tensor(part, requires_grad=name != "number") for name, part in given.items()}
    batch = {
        "items": torch.tensor([*ITEMS, 3]),  # padding follows the samples
        "labels": torch.tensor([*LABELS, 0]),
        "weights": torch.tensor([1.0] * len(ITEMS) + [0.0]),
        "user": torch.tensor([0]),
    }
    model.loss(p, batch).backward()

    unit, own = change[0, :-1] + 1 / np.sqrt(3 * DIM), personal[number]
    rows = common + own
    logits = rows[ITEMS] @ unit + change[0, -1]
    np.testing.assert_allclose(model.score(p, batch).detach().numpy()[:-1], logits, atol=1e-12)
    pull = (1 / (1 + np.exp(-logits)) - LABELS) / len(ITEMS)
    drift = 2 * APART * (own - common) / DIM / len(ITEMS)
    by_common, by_own = np.zeros((4, DIM)), np.zeros_like(personal)
    np.add.at(
        by_common, ITEMS, pull[:, None] * unit + (drift + SPARSE * np.sign(common) / DIM / len(ITEMS))[ITEMS]
    )
    np.add.at(by_own, number[ITEMS], pull[:, None] * unit - drift[ITEMS])
    np.testing.assert_allclose(p["common"].grad.numpy(), by_common, atol=1e-12)
    np.testing.assert_allclose(p["personal"].grad.numpy(), by_own, atol=1e-12)
    np.testing.assert_allclose(
        p["change"].grad.numpy()[0], STEP * np.append(pull @ rows[ITEMS], pull.sum()), atol=1e-12
    )


def test_a_clients_own_table_is_trained_where_it_has_samples_and_is_never_sent():
    run = tiny(
        model={"name": "fedrap", "dim": DIM}, observers=[], evaluate={"every": 1, "metrics": ["hr@5"]},
        training={"optimizer": "sgd", "learning_rate": 1.0, "batch_size": "full", "negatives": 1},
        protocol={"name": "fedavg", "rounds": 1, "client_model": "none", "merge": "mean"},
    )  # fmt: skip
    prepared = prepare(load_scenario(run))
    store, layout = prepared.executor.store, prepared.executor.work.layout
    first = store.own.copy()
    assert (first == first[0]).all()  # the same start
    play_to_end(prepared)

    n, width = layout.n_items, layout.item_width
    moved = (store.own != first)[:, layout.user_width :].reshape(-1, n, DIM).any(axis=2)
    for user, positives in enumerate(
        prepared.components.split.train[u] for u in range(prepared.components.split.n_users)
    ):
        assert moved[user][positives].all()
    assert not moved.all()
    version = store.version(int(prepared.planner.current_rows[-1]))[: n * width].reshape(n, width)
    assert (version[:, -1] == np.arange(n)).all()
    sizes = set(prepared.executor.update_bytes.values())
    assert max(sizes) <= n * 4 * (1 + width)  # a number and a row for each touched item, nothing else
