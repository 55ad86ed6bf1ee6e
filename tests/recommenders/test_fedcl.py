"""FedCL piece by piece: what clients tell and learn from, and what the coordinator makes of what it is told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from gossiprec.base.errors import ScenarioError
from gossiprec.base.machine import ThreadPool
from gossiprec.federated import RECOMMENDERS, ClientContext, CoordinatorContext
from gossiprec.federated import fedcl as module
from gossiprec.federated.fed_softmax import draw_local_items
from gossiprec.federated.fedcl import VectorBank
from gossiprec.federated.user_vectors import compute_user_vectors
from gossiprec.models import MODELS
from gossiprec.rules.aggregators import Inbox
from gossiprec.rules.servers import ClientAnswers, RoundContext

N_ITEMS, DIM, N_CLIENTS = 60, 4, 20
GRU = MODELS["gru4rec"](MODELS["gru4rec"].Options(dim=DIM, hidden=5, loss="sampled"))
BERT = MODELS["bert4rec"](MODELS["bert4rec"].Options(dim=DIM, inner=6, layers=1, loss="sampled"))
TOWERS = MODELS["two-tower"](MODELS["two-tower"].Options(dim=DIM, loss="sampled", init_std=0.5))
LAYOUT = GRU.layout(N_ITEMS)
FEW = {"local_items": 12, "local_negatives": 5, "semi_hard": 8, "local_drawn": "update"}
CENTROIDS = np.float32([[1, 0, 0, 0], [-1, 0, 0, 0], [0, 1, 0, 0]])


def fedcl(model=GRU, kind="fedcl", **options):
    cls = RECOMMENDERS[kind]
    return cls(cls.Options(**{**FEW, **options}), model, negatives=1, learning_rate=0.1)


def version(seed=1, layout=LAYOUT):
    n = layout.merged.stop - layout.merged.start
    return np.random.default_rng(seed).normal(0, 0.5, n).astype(np.float32)


def client(node=3, update=0, positives=(2, 7, 40), user_upload=None, extras=None, model=GRU, sent=None):
    layout = model.layout(N_ITEMS)
    history = np.array(positives, np.int32)
    return ClientContext(
        5, node, update, layout, np.sort(history), history, np.full(layout.user_width, 0.1 * node, np.float32),
        version(layout=layout) if sent is None else sent, extras or {}, user_upload,
    )  # fmt: skip


DRAWN = {
    "previous": np.full((1, 32), -1, np.int32),
    "items": np.full((1, 32), -1, np.int32),
    "negatives": np.array([[9]], np.int32),
}


def negatives(made, one, seed=4):
    """Return what a client tells its positives from: local ones, and semi-hard ones."""
    found = made.transform_samples(DRAWN, one, np.random.default_rng(seed))
    assert found["items"] is DRAWN["items"]
    assert found["previous"] is DRAWN["previous"]
    (row,) = found["negatives"]
    assert row.dtype == np.int32
    return row[:5].tolist(), row[5:].tolist()


def best(vector, share=0.25):
    scores = version()[: N_ITEMS * DIM].reshape(N_ITEMS, DIM) @ np.float32(vector)
    return np.argsort(-scores, kind="stable")[: int(share * N_ITEMS)].tolist()


def told_by(vector):
    return client(user_upload=np.float32(vector), extras={"centroids": CENTROIDS})


# --- what clients tell


def exact(clients, made):
    """Return vectors before clipping, by one user after the other and without padding to others' lengths."""
    found = []
    for one in clients:
        p = one.layout.version_tables(torch.from_numpy(one.version))
        if one.layout.user_width:
            p["users"] = torch.from_numpy(one.own[None])
        history = torch.from_numpy(one.history[None].astype(np.int64))
        found.append(
            made.model.state_after(one.layout.blocks_by_name(p), history, torch.zeros(1, dtype=torch.int64))
        )
    return torch.cat(found).detach().numpy()


@pytest.mark.parametrize("model", [GRU, TOWERS])
def test_without_noise_a_client_tells_its_clipped_vector_by_the_version_it_was_sent(model):
    clients = [client(node, positives=range(node, 2 + 5 * node), model=model) for node in range(3)]
    made = fedcl(model, epsilon=None, clip=0.5)
    vectors = exact(clients, made)
    norms = np.abs(vectors).sum(axis=1, keepdims=True)
    assert 0 < (norms > 0.5).sum() < 3 or model is GRU
    found = made.user_uploads(clients)
    np.testing.assert_allclose(
        found, vectors * np.minimum(1, 0.5 / np.maximum(norms, 0.5)), rtol=1e-5, atol=1e-6
    )
    other = [replace(one, version=version(2, one.layout)) for one in clients]
    assert (made.user_uploads(other) == found).all() == (
        model is TOWERS
    )  # whose vectors are rows of their own


def test_noise_is_drawn_for_each_client_and_update():
    found = [
        fedcl().user_uploads([client(node, update)])[0].tobytes()
        for node, update in ((3, 0), (3, 1), (4, 0), (3, 0))
    ]
    assert found[0] == found[3]
    assert len(set(found)) == 3


@pytest.mark.parametrize("model", [GRU, BERT])
def test_what_a_client_tells_depends_on_nobody_s_company(model):
    clients = [
        client(node % 7, positives=range(1 + node), model=model) for node in range(40)
    ]  # two widths, stacks
    whole = fedcl(model).user_uploads(clients)
    for node in (0, 5, 16, 35, 39):
        assert fedcl(model).user_uploads([clients[node]]).tobytes() == whole[node].tobytes()
    assert fedcl(model).user_uploads(clients[::-1])[::-1].tobytes() == whole.tobytes()


@pytest.mark.parametrize("model", [GRU, BERT])
def test_what_clients_tell_is_the_same_by_any_number_of_threads(model):
    clients = [client(node % 7, positives=range(1 + node), model=model) for node in range(11)]
    several = fedcl(model)
    several.threads = ThreadPool(3)
    assert several.user_uploads(clients).tobytes() == fedcl(model).user_uploads(clients).tobytes()


def test_users_who_have_taken_nothing_have_a_vector():
    found = compute_user_vectors(
        GRU, LAYOUT, version(), [np.zeros(0, np.int32)], np.zeros((1, 0), np.float32)
    )
    assert np.isfinite(found).all()


def test_vectors_are_told_only_where_semi_hard_negatives_are_wanted():
    assert fedcl().user_upload_width(LAYOUT) == DIM
    assert fedcl().user_upload_epsilon == 4.0
    plain = RECOMMENDERS["fed-softmax"]
    for made in (fedcl(semi_hard=0), plain(plain.Options(), GRU, negatives=1, learning_rate=1)):
        assert made.user_upload_width(LAYOUT) == 0
        assert made.coordinator_hook(known()) is None


# --- what clients learn from


@pytest.mark.parametrize(
    ("options", "kernels"),
    [
        ({}, {"compute_user_vectors", "top_item_ids", "score_by_vectors", "ward_clusters"}),
        ({"clustering": "kmeans"}, {"compute_user_vectors", "top_item_ids", "score_by_vectors"}),
        ({"clustering": "none"}, {"compute_user_vectors", "top_item_ids"}),
        ({"semi_hard": 0}, set()),
    ],
)
@pytest.mark.parametrize("model", [GRU, TOWERS])
def test_what_a_run_will_call_is_compiled_before_it(monkeypatch, model, options, kernels):
    called = set()
    for name in ("compute_user_vectors", "top_item_ids", "score_by_vectors", "ward_clusters"):

        def told(*args, name=name, real=getattr(module, name)):  # noqa: B008
            called.add(name)
            return real(*args)

        monkeypatch.setattr(module, name, told)
    fedcl(model, **options).warm_up(model.layout(N_ITEMS))
    assert called == kernels


def test_local_negatives_are_drawn_among_the_client_s_local_items():
    one = client()
    kept = draw_local_items(5, 3, one.positives, n_items=N_ITEMS, number=12).tolist()
    drawn = [negatives(fedcl(), one, seed)[0] for seed in range(300)]
    assert all(len(set(row)) == 5 for row in drawn)
    assert {item for row in drawn for item in row} == set(kept)


def test_each_positive_has_local_negatives_of_its_own():
    """Ten for each positive, in the paper; a place without a positive has none, and semi-hard ones are shared."""
    one, drawn = told_by([0.1, 0.9, 0, 0]), {**DRAWN, "items": DRAWN["items"].copy()}
    drawn["items"][0, :6] = [2, 7, 40, 2, 7, 40]
    kept = draw_local_items(5, 3, one.positives, n_items=N_ITEMS, number=12).tolist()
    seen = set()
    for seed in range(60):
        found = fedcl(local_drawn="positive").transform_samples(drawn, one, np.random.default_rng(seed))
        (negatives,) = found["negatives"]
        assert (negatives.shape, negatives.dtype) == ((32, 13), np.int32)
        local, semi_hard = negatives[:6, :5], negatives[:6, 5:]
        assert all(len(set(row)) == 5 for row in local.tolist())
        assert set(local.ravel().tolist()) <= set(kept)
        assert len({tuple(sorted(row)) for row in local.tolist()}) > 1
        assert (semi_hard == semi_hard[0]).all()
        assert set(semi_hard[0].tolist()) - {-1} <= set(best(CENTROIDS[2]))
        assert (negatives[6:] == -1).all()
        seen |= set(local.ravel().tolist())
    assert seen == set(kept)


def test_semi_hard_negatives_are_of_the_best_of_the_nearest_centroid():
    drawn = {item for seed in range(300) for item in negatives(fedcl(), told_by([0.1, 0.9, 0, 0]), seed)[1]}
    assert drawn - {-1} == set(best(CENTROIDS[2])) - {2, 7, 40}
    assert set(best(CENTROIDS[2])) != set(best(CENTROIDS[0]))


def test_clients_of_one_cluster_draw_each_for_itself():
    one = told_by([1, 0, 0, 0])
    assert negatives(fedcl(), one, 1)[1] != negatives(fedcl(), one, 2)[1]


def test_neither_own_items_nor_any_twice_are_semi_hard_negatives():
    own = best(CENTROIDS[0])[:6]
    one = replace(told_by(CENTROIDS[0]), positives=np.sort(own).astype(np.int32), node=8)
    dropped = 0
    for seed in range(100):
        local, semi_hard = negatives(fedcl(), one, seed)
        there = [item for item in semi_hard if item >= 0]
        assert not set(there) & ({*own, *local})
        assert len(set(there)) == len(there)
        dropped += len(semi_hard) - len(there)
    assert dropped > 0


def test_of_a_client_whose_items_are_all_candidates_local_negatives_are_left():
    one = replace(told_by(CENTROIDS[0]), positives=np.sort(best(CENTROIDS[0])).astype(np.int32))
    local, semi_hard = negatives(fedcl(), one)
    assert semi_hard == [-1] * 8
    assert min(local) >= 0


@pytest.mark.parametrize("model", [GRU, TOWERS])
def test_positives_that_nothing_is_told_from_have_no_loss_and_no_slope(model):
    layout = model.layout(3)
    p = {name: torch.randn(shape, requires_grad=True) for name, shape in layout.tables.items()}
    batch = {name: torch.from_numpy(column.astype(np.int64)) for name, column in DRAWN.items()}
    batch["items"] = batch["items"].clone()
    batch["items"][0, :1] = 2
    batch["negatives"] = torch.full((1, 13), -1)
    batch |= {"user": torch.zeros(1, dtype=torch.int64), "weights": torch.ones(1)}
    loss = fedcl(model).loss(p, batch, {})
    assert loss.item() == 0.0
    slopes = torch.autograd.grad(loss, list(p.values()), allow_unused=True)
    assert all(slope is None or not slope.any() for slope in slopes)


@pytest.mark.parametrize("extras", [{}, {"centroids": CENTROIDS[:0]}])
def test_before_there_are_clusters_there_are_local_negatives_alone(extras):
    local, semi_hard = negatives(fedcl(), client(user_upload=CENTROIDS[0], extras=extras))
    assert semi_hard == [-1] * 8
    assert min(local) >= 0


def test_hard_ones_are_the_best_of_all():
    local, semi_hard = negatives(fedcl(hard=True), told_by(CENTROIDS[1]))
    assert set(semi_hard) - {-1} == set(best(CENTROIDS[1])[:8]) - {2, 7, 40, *local}


def test_without_clusters_a_client_s_own_vector_is_its_centroid():
    vector = np.float32([0.3, -0.2, 0.4, 0.1])
    one = client(user_upload=vector)
    drawn = {item for seed in range(300) for item in negatives(fedcl(clustering="none"), one, seed)[1]}
    assert drawn - {-1} == set(best(vector)) - {2, 7, 40}


def test_a_client_without_samples_gets_none():
    nothing = {name: column[:0] for name, column in DRAWN.items()}
    found = fedcl().transform_samples(nothing, told_by(CENTROIDS[0]), np.random.default_rng(1))
    assert found["negatives"].shape == (0, 13)


# --- the coordinator


def known(n_clients=N_CLIENTS):
    return CoordinatorContext(GRU, LAYOUT, np.zeros(N_ITEMS, np.int64), 5, 5, n_clients, None)


def answers(told):
    """Return answers in which clients tell some vectors; None: nothing."""
    clients = np.array([node for node, _ in told], np.int64)
    nothing = np.full(DIM, np.nan)
    rows = np.array([nothing if row is None else row for _, row in told], np.float32).reshape(-1, DIM)
    inbox = Inbox(np.zeros((len(clients), 1), np.float32), np.arange(len(clients)), np.ones(len(clients)))
    return ClientAnswers(clients, inbox, rows)


def bank(number=2):
    return VectorBank(known(), number, "ward", answered=8)


def step(made, told, number=1):
    given = version()
    found, extras = made.step(given, answers(told), RoundContext(5, number, N_CLIENTS, LAYOUT))
    assert found is given
    return extras["centroids"].tolist()


LEFT, RIGHT = [-1.0, 0, 0, 0], [9.0, 0, 0, 0]


def test_a_bank_holds_what_each_user_told_last():
    made = bank()
    step(made, [(1, LEFT), (2, RIGHT)])
    step(made, [(1, RIGHT), (4, None), (1, [0, 2, 0, 0])])  # the same one twice
    assert made.latest[1].tolist() == [0, 2, 0, 0]
    assert made.vector_counts.tolist() == [0, 3, 1] + [0] * (N_CLIENTS - 3)
    assert np.isnan(made.latest[4]).all()


def test_clusters_are_made_when_there_are_as_many_vectors_then_at_doublings_then_once_an_epoch():
    made, when = bank(number=3), []
    for come in range(1, 4 * N_CLIENTS):
        before = made.report()["times"]
        step(made, [(come % N_CLIENTS, np.random.default_rng(come).normal(0, 1, DIM))])
        if made.report()["times"] > before:
            when.append(come)
    assert when == [3, 6, 12, 24, 44, 64]


def test_centroids_are_means_of_what_members_told():
    made = bank()
    assert step(made, [(1, LEFT)]) == []
    found = step(made, [(2, RIGHT), (3, [-3.0, 0, 0, 0]), (5, [-2.0, 3, 0, 0])])
    assert found == [[-2, 1, 0, 0], RIGHT]
    assert made.report() == {"times": 1, "sizes": [3, 1], "unknown": N_CLIENTS - 4}
    assert made.upload_report() == {"received_mean": 4 / N_CLIENTS, "received_max": 1}


def test_a_run_that_is_told_of_too_few_has_no_clusters():
    made = bank(number=19)
    assert step(made, [(node, LEFT) for node in range(18)]) == []
    assert made.report() == {"times": 0, "sizes": [], "unknown": N_CLIENTS}


# --- what is refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"semi_hard_share": 0.1},
            r"semi_hard_share: found 0.1, which leaves 6 of 60 items to draw 8 semi-hard",
        ),
        (
            {"semi_hard": 61, "hard": True, "semi_hard_share": 1.0},
            "leaves 60 of 60 items to draw 61 semi-hard",
        ),
        ({"semi_hard": 0, "local_negatives": 0}, "found no negatives"),
    ],
)
def test_options_that_do_not_fit_the_data_are_refused(options, message):
    with pytest.raises(ScenarioError, match=message):
        fedcl(TOWERS, **options).check(TOWERS.layout(N_ITEMS), full_batches=True)


def test_a_model_whose_lists_hold_negatives_of_their_own_needs_no_others():
    fedcl(GRU, semi_hard=0, local_negatives=0).check(LAYOUT, full_batches=True)  # in_batch


def test_more_clusters_than_clients_are_refused():
    with pytest.raises(
        ScenarioError, match=r"recommender.clusters: found 21, but there are only 20 clients; lower"
    ):
        fedcl(clusters=21).coordinator_hook(known())
    assert fedcl(clusters=21, clustering="none").coordinator_hook(known()) is not None


@pytest.mark.parametrize("kind", ["fedcl", "fed-softmax", "bil"])
@pytest.mark.parametrize("name", ["gmf", "lightgcn", "ncf"])
def test_models_without_vectors_of_users_are_refused(kind, name):
    cls, model = RECOMMENDERS[kind], MODELS[name](MODELS[name].Options())
    made = cls(cls.Options(), model, negatives=1, learning_rate=0.1)
    with pytest.raises(
        ScenarioError, match=r"requires a model that scores items by a user vector.*choose two-tower, gru4rec"
    ):
        made.check(model.layout(N_ITEMS), full_batches=True)
