"""The views that pre-training contrasts: their noise, and the edges of mixed ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import chi2, kstest

from gossiprec.federated.perfedrec.coordinator import make_view, mix_pseudo_edges, nonnegative_noise
from gossiprec.models.base.graph import InteractionGraph

N_USERS, N_ITEMS = 6, 8
EDGES = [(0, 0), (0, 5), (1, 1), (1, 2), (1, 7), (2, 3), (3, 0), (3, 4), (4, 6), (5, 2), (5, 7)]
GRAPH = InteractionGraph(N_USERS, N_ITEMS, *np.array(EDGES).T)
SOME = np.array([0, 1, 3])
THEIRS = {edge for edge in EDGES if edge[0] in SOME}


def edges_of(graph):
    return list(zip(graph.users.tolist(), graph.items.tolist(), strict=True))


@pytest.mark.parametrize("size", [0.1, 3.0])
@pytest.mark.parametrize("dim", [1, 2, 64])
def test_noise_has_its_norm_in_every_row_and_is_nowhere_negative(size, dim):
    noise = nonnegative_noise((500, dim), size, np.random.default_rng(0))
    assert noise.dtype == np.float32
    assert noise.shape == (500, dim)
    assert np.linalg.norm(noise.astype(float), axis=1) == pytest.approx(np.full(500, size), rel=1e-6)
    assert (noise >= 0).all()


def test_noise_has_the_direction_of_a_uniform_draw():
    """In two dimensions, an angle below a has the share tan(a) / 2 of the square up to half a right angle."""

    def below(angle):
        return np.where(angle < np.pi / 4, np.tan(angle) / 2, 1 - 1 / np.tan(np.maximum(angle, 0.1)) / 2)

    noise = nonnegative_noise((20_000, 2), 0.1, np.random.default_rng(1))
    assert kstest(np.arctan2(noise[:, 1], noise[:, 0]), below).pvalue > 1e-4  # of normal draws: 1e-20


def test_a_draw_of_zeros_is_no_division_by_zero():
    class Zeros:
        def random(self, shape, dtype):
            return np.zeros(shape, dtype)

    assert nonnegative_noise((2, 3), 0.1, Zeros()).tolist() == [[0, 0, 0]] * 2


def test_noise_is_added_after_each_layer_whatever_the_signs_of_rows_and_layer_0_is_in_no_mean():
    draw = np.random.default_rng(5)
    rows = torch.from_numpy(-draw.random((N_USERS + N_ITEMS, 4), np.float32))  # all negative
    layers, own = [rows], np.random.default_rng(9)
    for _ in range(3):
        noise = torch.from_numpy(nonnegative_noise(tuple(rows.shape), 0.2, own))
        assert (noise >= 0).all()
        layers.append(GRAPH.propagate(layers[-1]) + noise)
    expected = (layers[1] + layers[2] + layers[3]) / 3
    found = make_view(rows, GRAPH, layers=3, noise=0.2, draw=np.random.default_rng(9))
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7)


def test_a_mixed_view_has_the_edges_of_its_users_and_pseudo_edges_of_theirs_beside():
    for seed in range(50):
        found = edges_of(mix_pseudo_edges(GRAPH, SOME, 0.5, np.random.default_rng(seed)))
        assert len(found) == len(set(found)) == len(THEIRS) + 3  # floor(7 / 2)
        assert set(found) >= THEIRS
        assert {user for user, _ in found} <= set(SOME.tolist())
        assert not (set(found) - THEIRS) & set(EDGES)
        assert all(0 <= item < N_ITEMS for _, item in found)


@pytest.mark.full
def test_pseudo_edges_are_uniform_over_what_drawn_users_have_not_taken():
    counts = np.zeros((N_USERS, N_ITEMS))
    for seed in range(6000):
        for edge in set(edges_of(mix_pseudo_edges(GRAPH, SOME, 0.15, np.random.default_rng(seed)))) - THEIRS:
            counts[edge] += 1
    free = np.array(
        [[user in SOME and (user, item) not in THEIRS for item in range(N_ITEMS)] for user in range(N_USERS)]
    )
    assert counts.sum() == counts[free].sum() == 6000
    mean = 6000 / free.sum()
    assert ((counts[free] - mean) ** 2).sum() / mean < chi2.ppf(1 - 1e-4, free.sum() - 1)


def test_without_a_share_there_are_true_edges_alone():
    assert edges_of(mix_pseudo_edges(GRAPH, SOME, 0.0, np.random.default_rng(0))) == sorted(THEIRS)


def test_pseudo_edges_are_no_more_than_there_can_be():
    full = InteractionGraph(2, 2, np.array([0, 0, 1]), np.array([0, 1, 0]))
    assert sorted(edges_of(mix_pseudo_edges(full, np.arange(2), 1.0, np.random.default_rng(0)))) == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    ]
