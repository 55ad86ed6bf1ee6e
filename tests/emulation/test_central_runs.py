"""A coordinator that holds everybody's interactions: what it learns from, where it begins, and what it refuses."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
import torch

from gossiprec.base.errors import ScenarioError
from gossiprec.base.ragged import Ragged
from gossiprec.compute.local_update import TrainingSettings, central_epochs
from gossiprec.emulation import prepare, simulate
from gossiprec.models.base.graph import InteractionGraph
from gossiprec.models.feeds import PairwiseFeed, PointwiseFeed
from gossiprec.models.feeds.base import Feed
from gossiprec.scenario import load_scenario
from tests.emulation.ended_early import outcome
from tests.emulation.test_resume import check
from tests.emulation.tiny_runs import carried_out, tiny
from tests.slow import slow_except_first

CENTRAL = {"name": "central", "epochs": 4}
TRAINING = {"learning_rate": 0.01, "batch_size": 32, "negatives": 1}
WHOLE = {"every": 1, "metrics": ["val_recall@5", "recall@5", "full_ndcg@5"], "mask": "train+validation"}
MODELS = ("mf", "lightgcn", "sgl", "simgcl", "xsimgcl")
SETS = ({"name": "ease", "l2": 2.0}, {"name": "mult-vae", "dim": 4, "hidden": 6})
"""Models with a sample per user, of whom there are few."""


def central(model="lightgcn", **sections):
    named = {"name": model, "dim": 8} if isinstance(model, str) else model
    return tiny(
        **{
            "model": named,
            "protocol": CENTRAL,
            "training": TRAINING,
            "observers": [],
            "executor": {"name": "auto"},
            "evaluate": WHOLE,
            **sections,
        }
    )


def model_of(prepared):
    return prepared.executor.work.arena.rows[0].copy()


@pytest.mark.parametrize("model", [*MODELS, *SETS], ids=str)
@pytest.mark.full
def test_a_resumed_run_writes_the_bytes_of_an_unbroken_one(model, tmp_path):
    checkpoint = {"minutes": 1e-9, "keep": 2}
    training = {**TRAINING, "batch_size": 4 if model in SETS else 32}
    protocol = {**CENTRAL, "epochs": 6}
    scenario = central(model, protocol=protocol, checkpoint=checkpoint, training=training)
    check(tmp_path, scenario, stops=(3, 2))


@pytest.mark.parametrize("model", slow_except_first([*MODELS, *SETS]), ids=str)
@pytest.mark.cases(2)
def test_bytes_do_not_depend_on_threads(model, tmp_path):
    before = torch.get_num_threads()
    found = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        try:
            scenario = central(
                model, dataset={**tiny()["dataset"], "users": 60, "items": 90, "interactions": 1500}
            )
            scenario = {**scenario, "training": {**TRAINING, "batch_size": "full"}}
            run = simulate({**scenario, "executor": {"threads": threads}}, out=tmp_path / str(threads))
        finally:
            torch.set_num_threads(before)
        found.append(
            {**outcome(run.path), "digest": None, "model": model_of(carried_out(scenario)).tobytes()}
        )
    assert found[0] == found[1]


@pytest.mark.slow
def test_nobody_is_sent_anything(tmp_path):
    run = simulate(central(), out=tmp_path)
    summary = json.loads((run.path / "summary.json").read_text())
    assert summary["messages"] == 0
    assert summary["wakes"] == CENTRAL["epochs"]


@pytest.mark.parametrize("feed", [PairwiseFeed, PointwiseFeed])
@pytest.mark.parametrize("negatives", [1, 4, 5])
def test_the_samples_of_all_are_those_of_each(feed, negatives):
    data = prepare(load_scenario(central())).components.split
    made = feed.of(data)
    found, expected = (
        kind.samples_of_all(made, update=2, negatives=negatives, seed=7) for kind in (feed, Feed)
    )
    assert list(found) == list(expected)
    for name, column in expected.items():
        np.testing.assert_array_equal(found[name], column)
        assert found[name].dtype == column.dtype


def test_an_epoch_has_every_sample_once_in_an_order_of_its_own():
    data = prepare(load_scenario(central())).components.split
    feed, settings = PairwiseFeed.of(data), TrainingSettings(batch_size=32, negatives=1, local_epochs=2)
    samples = feed.samples_of_all(update=3, negatives=1, seed=5)
    orders = []
    for _, batches in central_epochs(feed, settings, 12, 3, 5):
        parts = list(batches)
        assert {len(part["user"]) for part in parts[:-1]} == {32}
        columns = [np.concatenate([part[name] for part in parts]).tolist() for name in samples]
        orders.append(list(zip(*columns, strict=True)))
    whole = sorted(zip(*(column.tolist() for column in samples.values()), strict=True))
    assert sorted(orders[0]) == sorted(orders[1]) == whole
    assert orders[0] != orders[1]
    for user, _, negative in orders[0]:
        assert negative not in data.train[user]


def test_drawn_by_user_every_user_counts_alike_with_own_positives_and_fresh_negatives():
    few, many = np.array([3], np.int32), np.arange(10, 29, dtype=np.int32)
    feed = PairwiseFeed(Ragged.from_parts([few, np.empty(0, np.int32), many]), 40)
    settings = TrainingSettings(batch_size=None, negatives=2, positives_drawn="by_user")
    drawn, seen = np.zeros(3), set()
    for update in range(100):
        [(_, [batch])] = [(n, list(batches)) for n, batches in central_epochs(feed, settings, 3, update, 5)]
        assert len(batch["user"]) == feed.n_samples(2).sum()
        drawn += np.bincount(batch["user"], minlength=3)
        seen.add(tuple(batch["items"].tolist()))
        for user, item, negative in zip(batch["user"], batch["items"], batch["negatives"], strict=True):
            assert item in feed.positives[user]
            assert negative not in feed.positives[user]
    assert drawn[1] == 0
    assert len(seen) == 100
    assert abs(drawn[0] / drawn.sum() - 0.5) < 0.05  # five standard errors of 2,000 draws, in pairs


def test_lightgcn_begins_with_normal_rows_on_request():
    rows = [
        model_of(prepare(load_scenario(central({"name": "lightgcn", **more}))))
        for more in ({}, {"init_std": 0.1})
    ]
    stds = [row.std() for row in rows]  # uniform rows are wider here, with so few users and items
    assert abs(stds[1] - 0.1) < 0.005 < stds[0] - stds[1]


def test_it_begins_where_a_federation_of_the_seed_does():
    mf = {"name": "mf", "dim": 4, "loss": "bpr"}
    alone = prepare(load_scenario(central(mf)))
    clients = prepare(load_scenario(tiny(model=mf, protocol={"name": "fedavg", "rounds": 2}, observers=[])))
    row, layout = model_of(alone), alone.components.layout
    rows, of_client = clients.executor.work.arena.rows, clients.components.layout
    users = row[layout.users].reshape(12, 4)
    np.testing.assert_array_equal(users, rows[:12, of_client.users])
    np.testing.assert_array_equal(row[layout.merged][48:], rows[0, of_client.merged])


@pytest.mark.slow
def test_a_full_batch_goes_along_what_clients_would_add_up():
    """A step of SGD on everybody's samples is that of the clients' own losses, each by its number of samples."""
    mf = {"name": "mf", "dim": 4, "loss": "bpr", "init_std": 0.3}
    sgd = {"optimizer": "sgd", "learning_rate": 0.5, "batch_size": "full", "negatives": 1}
    prepared = carried_out(central(mf, training=sgd, protocol={"name": "central", "epochs": 1}))
    begin = prepare(load_scenario(central(mf))).executor.work.arena.rows[0]
    layout, feed = prepared.components.layout, prepared.components.feed
    users, items = (torch.from_numpy(begin[part].copy()) for part in (layout.users, layout.items))
    p = {"users": users.view(-1, 4).requires_grad_(), "items": items.view(-1, 4).requires_grad_()}
    total = sum(len(items) for items in (feed.positives[user] for user in range(12)))
    for user in range(12):
        samples = feed.samples(user, update=0, negatives=1, seed=5)
        good, bad = (torch.from_numpy(samples[name].astype(np.int64)) for name in ("items", "negatives"))
        gain = ((p["items"][good] - p["items"][bad]) * p["users"][user]).sum(1)
        (torch.nn.functional.softplus(-gain).sum() / total).backward()
    expected = torch.cat([(p[name] - 0.5 * p[name].grad).detach().ravel() for name in ("users", "items")])
    torch.testing.assert_close(
        torch.from_numpy(model_of(prepared)[: layout.size]), expected, rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("name", slow_except_first(["reference", "batched"]))
def test_each_user_is_scored_by_its_own_row_through_the_graph(name):
    prepared = carried_out(central(executor={"name": name}))
    executor, layout, row = (
        prepared.executor,
        prepared.components.layout,
        torch.from_numpy(model_of(prepared)),
    )
    p = {"users": row[layout.users].view(12, 8), "items": row[layout.items].view(40, 8)}
    seen = prepared.components.model.encode(p, InteractionGraph.of(prepared.components.split.train, 40))
    users = np.array([7, 0, 11])
    models = executor.store.scoring_view(prepared.planner.current_rows, users)
    found = executor.score_all(models, prepared.threads)
    np.testing.assert_allclose(found, (seen["users"][users] @ seen["items"].T).numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_adam_goes_on_from_epoch_to_epoch():
    """Its moments and its count of steps are those of one optimizer that sees the batches of all epochs."""
    mf = {"name": "mf", "dim": 4, "loss": "bpr"}
    prepared, begin = carried_out(central(mf)), model_of(prepare(load_scenario(central(mf))))
    model, layout, work = prepared.components.model, prepared.components.layout, prepared.executor.work
    row = torch.from_numpy(begin[: layout.size]).requires_grad_()
    adam = torch.optim.Adam([row], lr=0.01)
    for update in range(CENTRAL["epochs"]):
        for _, batches in central_epochs(work.feed, work.training, 12, update, 5):
            for columns in batches:
                batch = {name: torch.from_numpy(column.astype(np.int64)) for name, column in columns.items()}
                p = {"users": row[layout.users].view(12, 4), "items": row[layout.items].view(40, 4)}
                adam.zero_grad()
                model.loss(p, {**batch, "weights": torch.ones(len(batch["user"]))}).backward()
                adam.step()
    torch.testing.assert_close(
        torch.from_numpy(model_of(prepared)[: layout.size]), row.detach(), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(
    "model", slow_except_first([{"name": "lightgcn"}, {"name": "simgcl", "weight": 0.05}])
)
@pytest.mark.cases(1)
def test_it_learns_what_users_take(model, tmp_path):
    data = {**tiny()["dataset"], "users": 60, "items": 120, "interactions": 2400}
    run = simulate(
        central(
            model,
            dataset=data,
            protocol={"name": "central", "epochs": 8},
            training={**TRAINING, "learning_rate": 0.05, "batch_size": 128},
            evaluate={**WHOLE, "metrics": ["recall@20"], "every": 8, "beside": ["popularity", "random"]},
        ),
        out=tmp_path,
    )
    utility = json.loads((run.path / "summary.json").read_text())["utility"]
    assert utility["recall@20"] > 2 * utility["recall@20[random]"]


REFUSED = {
    "policies": ([{"name": "share-less"}], "policies: is about messages"),
    "observers": ([{"name": "cda", "who": "single", "community_size": 3}], "observers: is about messages"),
    "attackers": ([{"name": "a-ra", "number": 1}], "attackers: is about messages"),
    "recommender": ({"name": "simgcl"}, "recommender: is about messages"),
    "network": ({"loss": 0.1}, "network: is about messages"),
    "churn": ({"messages": "held"}, "churn: is about messages"),
    "executor": ({"name": "fused"}, "executor.name: found 'fused'; expected auto or batched or reference"),
    "training": (
        {"batch_size": 5000, "negatives": 1},
        "training.batch_size: found 5000, but an epoch has only",
    ),
    "training of lists": (
        {"model": "gru4rec", "training": {"positives_drawn": "by_user", "batch_size": "full"}},
        "training.positives_drawn: found 'by_user', but gru4rec learns from whole lists of users; expected 'all'",
    ),
    "training of clients": (
        {
            "model": "mf",
            "training": {"positives_drawn": "by_user"},
            "protocol": {"name": "fedavg", "rounds": 2},
        },
        "training.positives_drawn: found 'by_user', but with fedavg a node has the positives of one user",
    ),
    "protocol": ({"name": "central", "epochs": 0}, "protocol.epochs: found 0"),
    "model": ({"name": "lightgcn", "layers": 0}, "model.layers: found 0"),
}


@pytest.mark.parametrize("section", REFUSED)
def test_what_makes_no_sense_is_refused_with_one_message(section):
    value, expected = REFUSED[section]
    changes = value if " of " in section else {section: value}
    with pytest.raises(ScenarioError) as caught:
        prepare(load_scenario(central(**{"model": "lightgcn", **changes})))
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value).strip()


def test_a_dimension_that_is_too_large_is_refused():
    with pytest.raises(ScenarioError, match=r"model\.dim: found 5000, must be less than or equal to 1024"):
        load_scenario(central({"name": "lightgcn", "dim": 5000}))


OWN_GRAPH = {"name": "fedavg", "rounds": 2, "client_model": "none", "merge": "touched-mean"}


@pytest.mark.parametrize(
    ("model", "protocol"),
    [
        *itertools.product(
            MODELS[1:],
            [{"name": "fedavg", "rounds": 2}, {"name": "rand-gossip", "wakes": 2, "view": {"size": 3}}],
        ),
        *[
            (model, OWN_GRAPH) for model in MODELS[1:] if model != "lightgcn"
        ],  # which has their own items' graph there
    ],
)
def test_nodes_without_the_graph_cannot_train_what_looks_through_it(model, protocol):
    with pytest.raises(ScenarioError, match=f"model.name: '{model}' uses the interaction graph") as caught:
        load_scenario(tiny(model={"name": model}, protocol=protocol, observers=[]))
    assert "\n" not in str(caught.value).strip()


@pytest.mark.slow
def test_a_run_that_diverges_says_so():
    with pytest.raises(
        ScenarioError, match=r"NaN or infinite values after epoch \d+; lower training\.learning_rate"
    ):
        carried_out(central(training={**TRAINING, "optimizer": "sgd", "learning_rate": 1e30}))
