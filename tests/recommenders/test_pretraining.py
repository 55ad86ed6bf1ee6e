"""Pre-training beside the same by loops in float64, what it depends on, and what it takes from clients."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gossiprec.base.errors import ScenarioError
from gossiprec.federated.perfedrec.coordinator import (
    PretrainingOptions,
    draw_epoch_items,
    draw_epoch_users,
    measure_edge_disclosure,
    pretrain,
)
from gossiprec.models.base.graph import InteractionGraph
from tests.audit.formulas import pretrained, pretraining

N_USERS, N_ITEMS, DIM, SEED = 7, 9, 5, 11


def drawn_graph(n_users=N_USERS, n_items=N_ITEMS, share=0.3, seed=0):
    users, items = np.nonzero(np.random.default_rng(seed).random((n_users, n_items)) < share)
    return InteractionGraph(n_users, n_items, users, items)


GRAPH = drawn_graph()


def tables(n_users=N_USERS, n_items=N_ITEMS, dim=DIM, seed=1):
    draw = np.random.default_rng(seed)
    return tuple(draw.normal(0, 0.3, (n, dim)).astype(np.float32) for n in (n_users, n_items))


def trained(graph=GRAPH, seed=SEED, layers=2, rows=None, **options):
    options = PretrainingOptions(**{"epochs": 3, "sampled": 4, **options})
    return pretrain(*(rows or tables()), graph, options, layers=layers, seed=seed)


TRUE = list(zip(GRAPH.users.tolist(), GRAPH.items.tolist(), strict=True))


@pytest.mark.parametrize("views", ["noise", "mix"])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("sampled", [4, 256])
@pytest.mark.cases(6)
def test_it_is_the_literal_loop(views, layers, sampled):
    options = {
        "views": views,
        "sampled": sampled,
        "learning_rate": 0.01,
        "noise": 0.2,
        "temperature": 0.3,
        "pseudo_edges": 0.3,
        "epochs": 3,
    }
    expected = pretrained(
        np.concatenate(tables()), TRUE, N_USERS, N_ITEMS, PretrainingOptions(**options), layers, SEED
    )
    found = np.concatenate(trained(layers=layers, **options))
    assert np.abs(found - np.concatenate(tables())).max() > 0.01
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_it_lowers_what_it_contrasts():
    """Over steps of which each has other users, items and noise."""
    o = PretrainingOptions(epochs=30, sampled=256, learning_rate=0.01)
    losses = [pretraining(TRUE, N_USERS, N_ITEMS, o, 2, seed=SEED, epoch=epoch) for epoch in range(50, 60)]
    begun, ended = (np.concatenate(rows).astype(float) for rows in (tables(), trained(**dict(o))))
    before, after = (np.mean([loss(rows) for loss in losses]) for rows in (begun, ended))
    assert after < 0.7 * before


def test_no_epochs_leave_rows_as_they_are():
    for found, given in zip(trained(epochs=0), tables(), strict=True):
        assert found.tobytes() == given.tobytes()


@pytest.mark.parametrize("views", ["noise", "mix"])
def test_given_rows_are_not_changed_and_new_ones_are_their_own(views):
    rows = tables()
    users, items = trained(views=views, rows=rows)
    assert all(left.tobytes() == given.tobytes() for left, given in zip(rows, tables(), strict=True))
    assert users.dtype == items.dtype == np.float32
    assert users.flags.owndata
    assert items.flags.owndata


@pytest.mark.parametrize("views", ["noise", "mix"])
def test_torch_threads_change_nothing_and_are_given_back(views):
    graph, rows = drawn_graph(700, 900, 0.02), tables(700, 900, 64)
    before, found = torch.get_num_threads(), set()
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            parts = trained(graph, rows=rows, sampled=256, views=views)
            assert torch.get_num_threads() == threads
            found.add(b"".join(part.tobytes() for part in parts))
    finally:
        torch.set_num_threads(before)
    assert len(found) == 1


def test_one_torch_thread_is_used():
    """On tables so small that threads change no sum this is what the bytes above cannot show."""
    from torch.overrides import TorchFunctionMode

    seen = set()

    class Watch(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            if function is torch.nn.functional.cross_entropy:
                seen.add(torch.get_num_threads())
            return function(*args, **(kwargs or {}))

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        with Watch():
            trained()
    finally:
        torch.set_num_threads(before)
    assert seen == {1}


def test_an_epoch_draws_alike_however_many_there_are_and_another_seed_otherwise():
    options = PretrainingOptions(sampled=4)
    for draw, n in ((draw_epoch_users, N_USERS), (draw_epoch_items, N_ITEMS)):
        epochs = [draw(n, options, seed=SEED, epoch=epoch).tolist() for epoch in range(6)]
        assert all(len(set(some)) == 4 and some == sorted(some) for some in epochs)
        assert len({tuple(some) for some in epochs}) > 1
        others = [draw(n, options, seed=SEED + 1, epoch=epoch).tolist() for epoch in range(6)]
        assert others != epochs
    assert trained(seed=1)[0].tobytes() != trained(seed=2)[0].tobytes()


def test_in_mixed_views_users_keep_their_rows_if_they_have_no_edge_or_are_never_drawn_and_others_move():
    with_edges = set(GRAPH.users.tolist())
    options = PretrainingOptions(views="mix", sampled=2, epochs=2)
    drawn = {
        user
        for epoch in range(2)
        for user in draw_epoch_users(N_USERS, options, seed=SEED, epoch=epoch).tolist()
    }
    assert len(drawn & with_edges) < len(drawn) < N_USERS  # both kinds of users are there
    moved = (trained(**dict(options))[0] != tables()[0]).any(axis=1)
    assert set(np.flatnonzero(moved).tolist()) == drawn & with_edges


def test_rows_that_are_not_finite_are_refused():
    with pytest.raises(ScenarioError, match=r"^recommender: pre-training produced NaN or infinite values"):
        trained(temperature=1e-45)


@pytest.mark.parametrize(
    "sizes", [(N_USERS - 1, N_ITEMS), (N_USERS + 1, N_ITEMS - 1), (N_USERS, N_ITEMS + 1)]
)
def test_rows_of_others_than_those_in_the_graph_are_refused(sizes):
    with pytest.raises(
        ValueError, match=rf"^found rows of {sizes[0]} users and {sizes[1]} items; expected 7 and 9"
    ):
        trained(rows=tables(*sizes))


def test_views_of_noise_need_every_interaction():
    known = measure_edge_disclosure(GRAPH, PretrainingOptions(epochs=1, sampled=2), SEED)
    assert known.share == 1.0
    assert known.pseudo_edges == 0
    assert known.sent_bytes.tolist() == (8 * np.bincount(GRAPH.users, minlength=N_USERS)).tolist()
    assert known.received_bytes(DIM).tolist() == [4 * DIM] * N_USERS
    assert known.report(DIM) == {
        "edges": len(GRAPH.users),
        "share_of_edges_told": 1.0,
        "clients_telling": N_USERS,
        "pseudo_edges_of_a_view": 0.0,
        "bytes_sent": 8 * len(GRAPH.users),
        "bytes_received": 4 * DIM * N_USERS,
        "note": "the coordinator receives 100.0% of the training interactions unmodified",
    }


def test_mixed_views_need_the_interactions_of_users_whom_some_epoch_draws():
    options = PretrainingOptions(views="mix", sampled=2, epochs=3, pseudo_edges=0.5)
    known = measure_edge_disclosure(GRAPH, options, SEED)
    drawn = [draw_epoch_users(N_USERS, options, seed=SEED, epoch=epoch).tolist() for epoch in range(3)]
    edges = [GRAPH.users.tolist().count(user) for user in range(N_USERS)]
    told = {user for some in drawn for user in some}
    assert 2 < len(told) < N_USERS
    assert known.share == sum(edges[user] for user in told) / len(GRAPH.users)
    assert known.sent_bytes.tolist() == [8 * edges[user] * (user in told) for user in range(N_USERS)]
    assert known.received_bytes(DIM).tolist() == [4 * DIM * (user in told) for user in range(N_USERS)]
    assert known.pseudo_edges == sum(sum(edges[user] for user in some) // 2 for some in drawn) / 3


def test_what_is_not_told_decides_nothing():
    """Edges of users never drawn can be any: mixed views are the same without them."""
    options = {"views": "mix", "sampled": 2, "epochs": 3}
    told = measure_edge_disclosure(GRAPH, PretrainingOptions(**options), SEED).disclosed
    kept = told[GRAPH.users]
    assert 0 < kept.sum() < len(kept)
    less = InteractionGraph(N_USERS, N_ITEMS, GRAPH.users[kept], GRAPH.items[kept])
    for found, whole in zip(trained(less, **options), trained(**options), strict=True):
        assert found.tobytes() == whole.tobytes()


def test_share_told_comes_near_to_all_only_over_many_epochs():
    graph = drawn_graph(2000, 50, 0.2)
    for epochs in (1, 5, 60):
        found = measure_edge_disclosure(
            graph, PretrainingOptions(views="mix", sampled=100, epochs=epochs), SEED
        ).share
        assert found == pytest.approx(1 - 0.95**epochs, abs=0.02)  # five deviations of users drawn, at most


@pytest.mark.parametrize("views", ["noise", "mix"])
def test_without_epochs_nobody_tells_anything(views):
    known = measure_edge_disclosure(GRAPH, PretrainingOptions(views=views, epochs=0), SEED)
    assert (known.share, known.sent_bytes.sum(), known.received_bytes(DIM).sum()) == (0, 0, 0)
    assert "note" not in known.report(DIM)
