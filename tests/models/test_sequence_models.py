"""Models with a state of the user: what they are learnt by and asked, and GRU4Rec held to torch's own unit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gossiprec.compute.executors.tensors import table_views
from gossiprec.models.base.sequence_model import dropout_mask
from tests.compute.worlds import make_model
from tests.slow import slow_except_first

N_ITEMS, LENGTH = 12, 6


def blocks_of(model, seed=0):
    """Return random blocks of a model, in float64."""
    layout = model.layout(N_ITEMS, 3)
    row = torch.randn(layout.size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return layout.blocks_by_name(table_views(layout, row))


def sequences(*rows):
    """Return sequences as columns of a feed: what came, and what came before."""
    filled = [list(row) + [-1] * (LENGTH + 1 - len(row)) for row in rows]
    whole = torch.tensor(filled)
    items = whole[:, 1:]
    previous = torch.where(items >= 0, whole[:, :-1], -1)
    return {
        "previous": previous,
        "items": items,
        "negatives": torch.tensor([[9, 10, 11]] * len(rows)),
        "weights": torch.ones(len(rows), dtype=torch.float64),
        "user": torch.arange(len(rows)),
    }


def made(name="gru4rec", **options):
    sizes = {"dim": 5, **({"hidden": 7} if name == "gru4rec" else {})}
    return make_model(name, **{**sizes, **options})


def library_unit(p):
    """Return torch's own unit with the weights of a model."""
    unit = torch.nn.GRU(5, 7, batch_first=True, dtype=torch.float64)
    names = {"weight_ih_l0": "input_weights", "weight_hh_l0": "recurrent_weights"}
    names |= {"bias_ih_l0": "input_biases", "bias_hh_l0": "recurrent_biases"}
    with torch.no_grad():
        for theirs, ours in names.items():
            getattr(unit, theirs).copy_(p[ours])
    return unit, names


@pytest.mark.parametrize("with_dropout", [False, True])
def test_gru4rec_is_torchs_unit_forward_and_backward(with_dropout):
    model = made()
    p = {name: part.requires_grad_() for name, part in blocks_of(model).items()}
    batch = sequences([3, 1, 4, 1, 5], [2, 7])
    keep = torch.from_numpy(dropout_mask((2, LENGTH, 5), 0.3, np.random.default_rng(0))["keep"]).double()
    if with_dropout:
        batch["keep"] = keep
    found = model.states(p, batch)
    unit, names = library_unit(p)
    rows = p["items"].detach().clone().requires_grad_()
    outputs, _ = unit(rows[batch["previous"].clamp(min=0)] * (keep if with_dropout else 1.0))
    expected = outputs @ p["dense_weights"].T + p["dense_biases"]
    real = batch["items"] >= 0
    torch.testing.assert_close(found[real], expected[real], rtol=1e-10, atol=1e-10)
    way = torch.randn(found[real].shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    (found[real] * way).sum().backward()
    ours = {name: part.grad.clone() for name, part in p.items()}
    for part in p.values():
        part.grad = None
    (expected[real] * way).sum().backward()
    for theirs, name in names.items():
        torch.testing.assert_close(ours[name], getattr(unit, theirs).grad, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(ours["items"], rows.grad, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(ours["dense_weights"], p["dense_weights"].grad, rtol=1e-8, atol=1e-10)


def naive_loss(states, rows, batch, candidates_of):
    """Return the mean cross-entropy, place by place."""
    found = []
    for s, items in enumerate(batch["items"].tolist()):
        for t, item in enumerate(items):
            if item >= 0:
                others = sorted(set(candidates_of(s)) - {item, -1})
                logits = states[s, t] @ rows[[item, *others]].T
                found.append(torch.logsumexp(logits, 0) - logits[0])
    return torch.stack(found).mean()


@pytest.mark.parametrize("in_batch", slow_except_first([False, True]))
@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.lists(st.lists(st.integers(0, N_ITEMS - 1), min_size=2, max_size=LENGTH + 1), min_size=1, max_size=3),
    st.lists(st.integers(-1, N_ITEMS - 1), min_size=1, max_size=6),
)
def test_the_sampled_loss_is_the_cross_entropy_against_different_candidates(in_batch, rows, negatives):
    model = made(loss="sampled", in_batch=in_batch)
    p, batch = blocks_of(model), sequences(*rows)
    batch["negatives"] = torch.tensor([negatives] * len(rows))
    found = model.loss(p, batch)
    own = batch["items"].tolist()
    expected = naive_loss(
        model.states(p, batch), p["items"], batch, lambda s: negatives + (own[s] if in_batch else [])
    )
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_the_loss_over_all_items_is_the_cross_entropy_against_each():
    model = made(loss="all")
    p, batch = blocks_of(model), sequences([3, 1, 4], [2, 7, 2, 2])
    expected = naive_loss(model.states(p, batch), p["items"], batch, lambda _: range(N_ITEMS))
    torch.testing.assert_close(model.loss(p, batch), expected)
    places = torch.from_numpy(np.flatnonzero(batch["items"].numpy() >= 0))
    torch.testing.assert_close(model.loss(p, {**batch, "places": places}), expected)


@pytest.mark.parametrize("loss", ["all", "sampled"])
def test_a_client_that_can_tell_its_positive_from_nothing_has_no_loss_to_lower(loss):
    model = made(loss=loss, in_batch=False)
    p = {name: part.requires_grad_() for name, part in blocks_of(model).items()}
    batch = sequences([3, 1]) | {"negatives": torch.tensor([[1, -1, 1]])}
    found = model.loss(p, batch)
    found.backward()
    if loss == "sampled":
        assert float(found.detach()) == 0
        assert all(not part.grad.any() for part in p.values())
    assert all(part.grad.isfinite().all() for part in p.values())


@pytest.mark.parametrize("name", ["gru4rec", "two-tower"])
def test_scores_after_a_history_are_those_of_all_items_at_once(name):
    model = made(name)
    p, user = blocks_of(model), torch.tensor([1])
    history = torch.tensor([3, 1, 4, -1, -1, -1])
    items = torch.arange(N_ITEMS)
    whole = model.score(p, {"items": items, "user": user, "history": history})
    torch.testing.assert_close(model.scores_after(p, history[None], user)[0], whole)


def test_padding_behind_a_history_changes_nothing():
    model, user = made(), torch.tensor([0])
    p, items = blocks_of(model), torch.arange(N_ITEMS)
    short, long = (torch.tensor([3, 1, 4] + [-1] * n) for n in (0, 9))
    one, other = (model.score(p, {"items": items, "user": user, "history": each}) for each in (short, long))
    torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_the_item_before_is_a_history_of_one():
    model, user = made(), torch.tensor([0])
    p = blocks_of(model)
    asked = model.score(p, {"items": torch.tensor([5, 6]), "user": user, "previous": torch.tensor([3, -1])})
    for k, history in enumerate(([3], [-1])):
        alone = model.score(
            p, {"items": torch.tensor([5, 6]), "user": user, "history": torch.tensor(history)}
        )
        torch.testing.assert_close(asked[k], alone[k])


def test_a_score_tells_the_order_of_a_history():
    model, user = made(), torch.tensor([0])
    p, items = blocks_of(model), torch.arange(N_ITEMS)
    one, other = (
        model.score(p, {"items": items, "user": user, "history": torch.tensor(each)})
        for each in ([3, 1], [1, 3])
    )
    assert not torch.allclose(one, other)


def test_dropout_keeps_the_mean_and_drops_its_share():
    keep = dropout_mask((200, 500), 0.3, np.random.default_rng(0))["keep"]
    assert set(np.unique(keep)) == {np.float32(0), np.float32(1) / np.float32(0.7)}
    # 100,000 draws: five standard deviations of the share are 5 * sqrt(0.3 * 0.7 / 1e5)
    assert abs(np.mean(keep == 0) - 0.3) < 5 * np.sqrt(0.3 * 0.7 / 1e5)
    assert dropout_mask((2, 3), 0.0, np.random.default_rng(0)) == {}
