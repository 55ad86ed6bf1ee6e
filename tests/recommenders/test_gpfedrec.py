"""GPFedRec: graph, tables and loss beside plain numpy, and what is refused."""

from __future__ import annotations

import tracemalloc
from collections import namedtuple

import numpy as np
import pytest
import torch

from gossiprec.base.errors import ScenarioError
from gossiprec.emulation import prepare
from gossiprec.federated import RECOMMENDERS, CoordinatorContext, term_kernels
from gossiprec.models import MODELS
from gossiprec.native.jit import kernel
from gossiprec.rules.aggregators import Inbox
from gossiprec.rules.servers import ClientAnswers, RoundContext
from gossiprec.scenario import load_scenario
from gossiprec.testing.tiny_runs import play_to_end
from tests.emulation.test_resume import check
from tests.emulation.tiny_runs import tiny

N_ITEMS, DIM, RATE, ITEM_RATE = 5, 3, 0.3, 2.0
KIND = RECOMMENDERS["gpfedrec"]
MODEL = MODELS["mf"](MODELS["mf"].Options(dim=DIM + 2))
LAYOUT = MODEL.layout(N_ITEMS)


def gpfedrec(**options):
    return KIND(KIND.Options(item_rate=ITEM_RATE, **options), MODEL, negatives=1, learning_rate=RATE)


def hook(**options):
    popularity = np.ones(N_ITEMS, np.int64)
    context = CoordinatorContext(MODEL, LAYOUT, popularity, 1, 5, n_clients=4, contribution=None)
    return gpfedrec(**options).coordinator_hook(context)


def tables(n=3):
    draw = np.random.default_rng(4)
    rows = draw.normal(0, 1, (n, N_ITEMS, DIM + 2)).astype(np.float32)
    rows[..., -2], rows[..., -1] = 1, np.arange(N_ITEMS)
    rows[1, :, :DIM] = rows[0, :, :DIM] + 0.1  # the first two clients are alike
    return rows


def stepped(rows, **options):
    """Return the common items and all clients' tables after clients 2, 0 and 3 have answered."""
    models = rows.reshape(len(rows), -1)
    inbox = Inbox(models, np.arange(len(rows)), np.ones(len(rows)))
    version = np.zeros(models.shape[1], np.float32)
    version.reshape(N_ITEMS, -1)[:, -2:] = rows[0, :, -2:]
    answers = ClientAnswers(np.array([2, 0, 3]), inbox)
    common, extras = hook(**options).step(version, answers, RoundContext(5, 1, 3, LAYOUT))
    return common.reshape(N_ITEMS, -1), extras["guides"]


@pytest.mark.parametrize("graph", ["similarity", "distance"])
@pytest.mark.parametrize(("neighbours", "layers"), [(0, 1), (2, 1), (2, 2)])
def test_tables_are_means_over_neighbours_in_the_graph(graph, neighbours, layers, monkeypatch):
    monkeypatch.setattr("gossiprec.federated.gpfedrec.AT_ONCE", (4, 2))  # several blocks
    rows = tables()
    flat = rows[:, :, :DIM].reshape(3, -1).astype(float)
    weights = np.zeros((3, 3))
    cosines = np.array([[a @ b / np.linalg.norm(a) / np.linalg.norm(b) for b in flat] for a in flat])
    close = cosines if graph == "similarity" else 1 - cosines
    for client in range(3):
        near = np.flatnonzero(close[client] > close.mean())
        near = np.argsort(-close[client])[:neighbours] if neighbours else near
        weights[client, near if len(near) else client] = 1 / max(len(near), 1)
    expected = flat
    for _ in range(layers):
        expected = weights @ expected
    common, guides = stepped(rows, graph=graph, neighbours=neighbours, layers=layers)
    for place, client in enumerate([2, 0, 3]):
        np.testing.assert_allclose(guides[client].ravel(), expected[place], atol=1e-5)
    np.testing.assert_allclose(common[:, :DIM].ravel(), expected.mean(0), atol=1e-5)
    np.testing.assert_array_equal(guides[1], common[:, :DIM])  # it has not answered
    np.testing.assert_array_equal(common[:, DIM:], rows[0, :, DIM:])


def test_alike_clients_are_neighbours_by_similarity_and_not_by_distance():
    rows = tables()
    mixed = {graph: stepped(rows, graph=graph, neighbours=2)[1] for graph in ("similarity", "distance")}
    alike = rows[:2, :, :DIM].mean(0)
    np.testing.assert_allclose(mixed["similarity"][2], alike, atol=1e-5)
    assert np.abs(mixed["distance"][2] - alike).max() > 0.1


@pytest.mark.parametrize("weight", [0.0, 3.0])
def test_items_are_drawn_to_the_clients_own_table(weight):
    items, labels = np.array([1, 0, 1]), np.array([1.0, 0.0, 0.0])
    draw, numbers = np.random.default_rng(2), [4, 2, 0]  # the third row is padding
    user, guide = draw.normal(0, 1, DIM + 2), draw.normal(0, 1, (N_ITEMS, DIM))
    user[-1] = 0
    rows = draw.normal(0, 1, (3, DIM + 2))
    rows[:, -2], rows[:, -1], rows[2] = 1, numbers, 0
    p = {"users": torch.tensor(user[None]), "items": torch.tensor(rows)}
    for part in p.values():
        part.requires_grad_()
    batch = {
        "items": torch.tensor(items),
        "labels": torch.tensor(labels),
        "weights": torch.ones(3, dtype=torch.float64),
        "user": torch.tensor([0]),
        "guide": torch.tensor(guide),
    }
    gpfedrec(guide_weight=weight).loss(p, batch, {}).backward()
    pull = (1 / (1 + np.exp(-rows[items] @ user)) - labels) / 3
    of_user, of_items = pull @ rows[items], np.zeros_like(rows)
    np.add.at(of_items, items, pull[:, None] * user)
    of_items[:2, :DIM] += weight * 2 * (rows[:2, :DIM] - guide[numbers[:2]]) / guide.size
    of_items[:, DIM:], of_user[-1] = 0, 0
    np.testing.assert_allclose(p["users"].grad.numpy()[0], of_user, atol=1e-6)
    np.testing.assert_allclose(p["items"].grad.numpy() * RATE, ITEM_RATE * of_items, atol=1e-6)


def scenario(dim=DIM + 2, rounds=2, **recommender):
    return tiny(
        model={"name": "mf", "dim": dim, "init_std": 1.0},
        training={"optimizer": "sgd", "learning_rate": RATE, "batch_size": 8},
        protocol={"name": "fedavg", "rounds": rounds, "slice": 12, "client_model": "none", "merge": "mean"},
        recommender={"name": "gpfedrec", "item_rate": ITEM_RATE, **recommender},
        observers=[],
    )


def test_a_run_ends_with_numbered_items_and_tables_that_differ():
    run = prepare(load_scenario(scenario()))
    play_to_end(run)
    store, latest = run.executor.store, int(run.planner.current_rows[-1])
    items = run.executor.work.layout.version_tables(store.version(latest))["items"]
    np.testing.assert_array_equal(items[:, -2:], np.stack([np.ones(40), np.arange(40)], axis=1))
    assert len({guide.tobytes() for guide in store.extras(latest)["guides"]}) > 1


@pytest.mark.slow
@pytest.mark.full
def test_a_run_resumes_with_the_tables_of_its_clients(tmp_path):
    check(tmp_path, {**scenario(rounds=5), "evaluate": {"every": 1, "metrics": ["hr@5"]}})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"neighbours": 13}, "recommender.neighbours: found 13; expected at most 12, the clients"),
        ({"bias": False}, "set bias to true and model.dim to 3 or more"),
        ({"dim": 2}, "rows of 2; set bias to true and model.dim to 3 or more"),
    ],
)
def test_what_does_not_fit_is_refused(options, message):
    with pytest.raises(ScenarioError, match=message):
        prepare(load_scenario(scenario(**options)))


def test_tables_that_do_not_fit_into_memory_are_refused(monkeypatch):
    monkeypatch.setattr("gossiprec.federated.gpfedrec.MOST_BYTES", 1000)
    with pytest.raises(ScenarioError, match=r"gpfedrec keeps a table for each client, .* found 12 clients"):
        prepare(load_scenario(scenario()))


def test_the_tables_are_all_that_a_round_holds_and_are_in_the_memory_of_the_plan(monkeypatch):
    """Last round's tables are kept while the next are made, and no third copy of that size."""
    monkeypatch.setattr("gossiprec.federated.gpfedrec.AT_ONCE", (512, 2))
    run = prepare(load_scenario(scenario(dim=402, rounds=3, guide_weight=0.0)))
    size = run.memory_bytes["recommender"]
    assert size == 2 * 4 * 12 * 40 * 400
    last = None
    rows = np.random.default_rng(1).normal(0, 1, (12, 40 * 402)).astype(np.float32)
    answers = ClientAnswers(np.arange(12), Inbox(rows, np.arange(12), np.ones(12)))
    version = rows[0].copy()
    tracemalloc.start()
    for number in range(3):
        last = run.components.coordination.hook.step(
            version, answers, RoundContext(5, number, 12, run.components.layout)
        )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert last[1]["guides"].nbytes == size / 2
    assert size < peak < 1.4 * size


@pytest.mark.slow
def test_compiled_clients_read_the_table_of_the_nearest_item_there_is():
    """Rows end with a one and their item's number; here both are as a policy could change them."""
    ends = np.array([(one, at) for one in (1.0, 0.8, 0.0) for at in (2.0, 1.6, 0.4, -7.0, 1e6)], np.float32)
    draw, n = np.random.default_rng(3), len(ends)
    rows = np.concatenate([draw.normal(0, 1, (n, DIM)).astype(np.float32), ends], axis=1)
    guides = draw.normal(0, 1, (2, N_ITEMS * DIM)).astype(np.float32)
    parts = {
        "items": rows.T.copy(), "extra": guides, "node": 1, "slopes": np.ones(DIM + 2, np.float32),
        "item_slopes": np.zeros((DIM + 2, n), np.float32), "numbers": np.array([ITEM_RATE / RATE, 3.0]),
    }  # fmt: skip
    client = namedtuple("Client", parts)(**parts)
    kernel(term_kernels.pull_to_guide.py_func)(client)
    p = {"users": torch.zeros(1, DIM + 2), "items": torch.tensor(rows, requires_grad=True)}
    batch = {
        "items": torch.arange(n), "labels": torch.zeros(n), "weights": torch.ones(n),
        "user": torch.tensor([0]), "guide": torch.tensor(guides[1]).reshape(N_ITEMS, DIM),
    }  # fmt: skip
    gpfedrec(guide_weight=3.0).loss(p, batch, {}).backward()
    np.testing.assert_allclose(client.item_slopes.T, p["items"].grad.numpy(), atol=1e-6)
