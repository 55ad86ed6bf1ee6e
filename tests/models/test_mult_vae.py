"""Mult-VAE by plain numpy: sets, draws and the loss; and that sets alone decide a user's scores."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gossiprec.models import MODELS
from gossiprec.models.feeds import SetFeed
from gossiprec.testing.tiny_runs import CITY, run_to_end, tiny_scenario
from tests.compute.worlds import World

N_ITEMS, DIM, HIDDEN = 9, 2, 3


def made(**options):
    kind = MODELS["mult-vae"]
    return kind(kind.Options(dim=DIM, hidden=HIDDEN, **options))


def drawn(model):
    rng, layout = np.random.default_rng(4), model.layout(N_ITEMS)
    return layout.blocks_by_name({name: rng.normal(size=shape) for name, shape in layout.tables.items()})


def tensors(arrays):
    return {name: torch.from_numpy(part) for name, part in arrays.items()}


def encode(p, items, keep):
    """Return mean and log variance for a set, item by item."""
    hidden = p["input_offset"].copy()
    for item, factor in zip(items, keep, strict=True):
        hidden += factor / np.sqrt(len(items)) * p["inputs"][item]
    both = p["encoder"] @ np.tanh(hidden) + p["encoder_offset"]
    return both[:DIM], both[DIM:]


def decode(p, z):
    state = np.tanh(p["decoder"] @ z + p["decoder_offset"])
    return p["items"][:, :HIDDEN] @ state + p["items"][:, HIDDEN]


def test_the_loss_is_the_likelihood_of_sets_and_the_divergence():
    model = made(kl_weight=0.7)
    p, rng = drawn(model), np.random.default_rng(5)
    sets = [[3, 1, 7], [2], [0, 4]]
    items = np.array([[3, 1, 7, -1], [2, -1, -1, -1], [0, 4, -1, -1]])
    draws = {"keep": 2.0 * (rng.random(items.shape) < 0.5), "noise": rng.normal(size=(3, DIM))}
    batch = {"items": items, **draws, "weights": np.array([1.0, 1.0, 0.0])}

    found = float(model.loss(tensors(p), tensors(batch)))

    expected = []
    for user, own in enumerate(sets[:2]):
        mean, log_variance = encode(p, own, draws["keep"][user, : len(own)])
        scores = decode(p, mean + draws["noise"][user] * np.exp(log_variance / 2))
        chances = np.exp(scores) / np.exp(scores).sum()
        divergence = 0.5 * (np.exp(log_variance) + mean**2 - 1 - log_variance).sum()
        expected.append(-np.log(chances[own]).sum() + 0.7 * divergence)
    assert found == pytest.approx(np.mean(expected), rel=1e-9)


def test_a_user_is_scored_by_the_mean_of_its_set_in_any_order():
    model = made()
    p = drawn(model)
    query = {"items": torch.arange(N_ITEMS), "user": torch.tensor([0])}
    for history, own in (([3, 1, 7, -1], [3, 1, 7]), ([7, 3, 1], [3, 1, 7]), ([-1], [])):
        scores = model.score(tensors(p), {**query, "history": torch.tensor(history)})
        np.testing.assert_allclose(scores.numpy(), decode(p, encode(p, own, np.ones(len(own)))[0]), rtol=1e-9)
    np.testing.assert_allclose(model.score(tensors(p), query).numpy(), scores.numpy())


def test_draws_are_masks_of_items_and_normal_noise():
    found = made(dropout=0.25).draws({"items": np.zeros((300, 8), np.int32)}, np.random.default_rng(1))

    assert found["keep"].shape == (300, 8)
    assert set(np.unique(found["keep"])) == {np.float32(0), np.float32(4 / 3)}
    assert found["keep"].mean() == pytest.approx(1, abs=5 / (3 * 2400) ** 0.5)
    assert found["noise"].shape == (300, DIM)
    assert found["noise"].mean() == pytest.approx(0, abs=5 / 600**0.5)


def test_histories_are_the_items_known_before_a_part():
    split = World(n_items=40).split()
    feed = SetFeed.of(split)
    histories = feed.histories(split, "test")["history"]

    assert len(histories) == split.n_users
    for user, row in enumerate(histories):
        assert row[row >= 0].tolist() == split.train[user].tolist()


@pytest.mark.slow
def test_it_learns_under_central_to_the_same_bytes_for_any_number_of_threads():
    run = tiny_scenario(
        model={"name": "mult-vae", "dim": 4, "hidden": 8},
        protocol={"name": "central", "epochs": 4},
        training={"optimizer": "adam", "learning_rate": 0.01, "batch_size": 4},
        dataset={**CITY, "users": 12},
    )
    one, two = (run_to_end(run, threads=n)[0] for n in (1, 2))
    rows = one.executor.work.arena.rows
    assert rows.tobytes() == two.executor.work.arena.rows.tobytes()
    assert np.isfinite(rows).all()
    assert one.executor.work.arena.steps[0] == 12
