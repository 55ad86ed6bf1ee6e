"""What recommenders add to a client's loss, beside the same by loops in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gossiprec.federated import RECOMMENDERS
from gossiprec.federated.correlation import correlation_loss
from gossiprec.models import MODELS
from gossiprec.models.base.contrastive import signed_noise
from tests.audit.federated_loop import contrast, noisy

DIM, N_ITEMS, NEGATIVES, POSITIVES = 5, 23, 4, 4
EACH = NEGATIVES + 1
LAYOUT = MODELS["ncf"](MODELS["ncf"].Options(dim=DIM, hidden=(6,))).layout(N_ITEMS)


def made(name, **options):
    model = MODELS["ncf"](MODELS["ncf"].Options(dim=DIM, hidden=(6,)))
    kind = RECOMMENDERS[name]
    return kind(kind.Options(**options), model, negatives=NEGATIVES, learning_rate=0.1)


def case(recommender, seed=0, padding=0):
    """Return a client's tables, its samples with draws, and what it was sent; `padding` rows follow the samples."""
    draw = np.random.default_rng(seed)
    p = {name: torch.tensor(draw.normal(0, 0.7, shape)) for name, shape in LAYOUT.tables.items()}
    items = draw.permutation(N_ITEMS)[: POSITIVES * EACH]
    labels = (np.arange(len(items)) % EACH == 0).astype(float)
    of_step, of_samples = recommender.draws(LAYOUT, {"items": items}, np.random.default_rng(seed + 1))
    columns = {"items": items, "labels": labels, "weights": np.ones(len(items)), **of_samples}
    batch = {
        name: torch.from_numpy(np.concatenate([column, np.zeros((padding, *column.shape[1:]), column.dtype)]))
        for name, column in columns.items()
    }
    batch |= {name: torch.from_numpy(part) for name, part in of_step.items()}
    batch["user"] = torch.tensor([0])
    extras = {"synthetic_users": torch.tensor(draw.normal(0, 0.7, (3, DIM)))}
    return p, batch, extras


def cosine(a, b):
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def numbers(*tensors):
    return [tensor.detach().numpy().astype(float) for tensor in tensors]


def views_of(p, batch, size=0.1):
    user, noise = numbers(p["users"][0], batch["user_noise"])
    return [noisy(user, noise[k], size) for k in range(2)]


def item_views(recommender, p, batch, scale):
    """Return the client's positives moved by one gradient step for each view of the user."""
    found = []
    for view in views_of(p, batch):
        tables = {name: part.clone().requires_grad_(name == "items") for name, part in p.items()}
        tables["users"] = torch.tensor(view)[None]
        recommender.model.loss(tables, batch).backward()
        slope, rows = numbers(tables["items"].grad, p["items"])
        norms = np.linalg.norm(slope, axis=1, keepdims=True)
        step = -0.1 * slope if scale is None else -scale * slope / np.where(norms > 0, norms, 1)
        found.append((rows + step)[batch["items"].numpy()[: POSITIVES * EACH : EACH]])
    return found


@pytest.mark.parametrize("scale", [0.1, 0.7, "learning-rate"])
@pytest.mark.parametrize("over", ["mean", "sum"])
def test_cl4fedrec_is_what_the_paper_says(scale, over):
    recommender = made("cl4fedrec", item_view_scale=scale, item_loss=over, user_weight=0.3, item_weight=0.9)
    p, batch, extras = case(recommender)

    one, other = views_of(p, batch)
    own = np.exp(cosine(one, other) / 0.2)
    of_users = -np.log(
        own / (own + sum(np.exp(cosine(one, s) / 0.2) for s in extras["synthetic_users"].numpy()))
    )
    of_items = contrast(*item_views(recommender, p, batch, None if scale == "learning-rate" else scale), 0.2)
    of_items /= POSITIVES if over == "mean" else 1
    expected = float(recommender.model.loss(p, batch)) + 0.3 * of_users + 0.9 * of_items

    assert float(recommender.loss(p, batch, extras)) == pytest.approx(expected, rel=1e-7)


def test_noisy_item_views_are_those_of_simgcl():
    noisy_views = made("cl4fedrec", item_views="noise", user_weight=0.0, item_weight=0.5)
    simgcl = made("simgcl")
    for recommender in (noisy_views, simgcl):
        p, batch, extras = case(recommender)
        rows, noise = numbers(p["items"][batch["items"][::EACH]], batch["item_noise"][::EACH])
        views = [[noisy(row, one[k], 0.1) for row, one in zip(rows, noise, strict=True)] for k in range(2)]
        expected = float(recommender.model.loss(p, batch)) + 0.5 * contrast(*views, 0.2) / POSITIVES
        assert float(recommender.loss(p, batch, extras)) == pytest.approx(expected, rel=1e-7)


def test_union_tells_another_positive_from_negatives():
    recommender = made("union", others=6)
    p, batch, extras = case(recommender)
    rows, compared = p["items"].numpy(), batch["compared"].numpy()
    total = 0.0
    for sample in range(0, POSITIVES * EACH, EACH):
        anchor, candidates = rows[batch["items"][sample]], compared[sample]
        labels = batch["labels"].numpy()[candidates]
        assert labels.tolist() == [1] + [0] * 6
        assert candidates[0] != sample
        near = [np.exp(rows[batch["items"][place]] @ anchor) for place in candidates]
        total -= np.log(near[0] / sum(near))
    expected = float(recommender.model.loss(p, batch)) + total / POSITIVES
    assert float(recommender.loss(p, batch, extras)) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 4.0])
def test_correlation_is_the_norm_of_the_correlation_matrix_of_the_items_of_the_step(alpha):
    recommender = made("correlation", alpha=alpha)
    p, batch, extras = case(recommender, padding=3)
    batch["items"][[8, 9]] = int(batch["items"][7])  # drawn three times as a negative, counted once
    batch["items"][-3:] = (
        set(range(N_ITEMS)) - set(batch["items"].tolist())
    ).pop()  # padding, of another item
    own = sorted(set(batch["items"][:-3].tolist()))
    of_dimensions = np.corrcoef(p["items"].numpy()[own].T)
    assert of_dimensions.shape == (DIM, DIM)
    printed = np.sqrt(sum(entry**2 for entry in of_dimensions.ravel())) / DIM

    expected = float(recommender.model.loss(p, batch)) + alpha * printed
    assert float(recommender.loss(p, batch, extras)) == pytest.approx(expected, rel=1e-7)
    assert 1 / np.sqrt(DIM) < printed < 1


def test_correlation_is_least_of_dimensions_that_are_not_correlated_and_nothing_of_one_item():
    rows = torch.tensor(np.linalg.qr(np.random.default_rng(1).normal(size=(9, 4)) - 0.3)[0])
    rows = torch.cat([rows, -rows])  # means of zero; columns at right angles
    every = torch.ones(len(rows), dtype=torch.bool)
    assert float(correlation_loss(rows, every)) == pytest.approx(1 / np.sqrt(4))
    assert float(correlation_loss(rows[:, :1].repeat(1, 4), every)) == pytest.approx(1)

    leaf = rows.clone().requires_grad_()
    alone = correlation_loss(leaf, torch.arange(len(rows)) == 3)
    alone.backward()
    assert alone.item() < 1e-9
    assert torch.isfinite(leaf.grad).all()


def test_correlation_moves_the_items_of_the_step_alone():
    recommender = made("correlation")
    p, batch, extras = case(recommender)
    leaf = p["items"].clone().requires_grad_()
    (
        recommender.loss({**p, "items": leaf}, batch, extras)
        - recommender.model.loss({**p, "items": leaf}, batch)
    ).backward()
    moved = leaf.grad.norm(dim=1) > 1e-9
    assert sorted(moved.nonzero()[:, 0].tolist()) == sorted(batch["items"].tolist())


@pytest.mark.parametrize(
    "name", sorted({*RECOMMENDERS} - {"bil", "gpfedrec"})
)  # whose clients hold something else
@pytest.mark.parametrize("padding", [1, 7, 12])
def test_padding_changes_neither_the_loss_nor_its_gradient(name, padding):
    recommender = made(name)
    found = []
    for rows in (0, padding):
        p, batch, extras = case(recommender, padding=rows)
        leaves = {key: part.clone().requires_grad_() for key, part in p.items()}
        loss = recommender.loss(leaves, batch, extras)
        loss.backward()
        found.append((loss.detach(), {key: leaf.grad for key, leaf in leaves.items()}))
    (alone, slopes), (padded, others) = found
    torch.testing.assert_close(padded, alone)
    for key, slope in slopes.items():
        torch.testing.assert_close(others[key], slope)
        assert torch.isfinite(slope).all()


def test_views_and_steps_are_constant_to_gradients():
    """The user's gradient of L_uc is that of cosines with the noise held still, by finite differences."""
    recommender = made("cl4fedrec", item_weight=0.0, user_weight=1.0)
    p, batch, extras = case(recommender)
    noise = [signed_noise(p["users"], batch["user_noise"][k], 0.1) for k in range(2)]

    def of_users(user):
        return float(recommender._of_users([user + noise[0], user + noise[1]], extras["synthetic_users"]))

    leaf = p["users"].clone().requires_grad_()
    (
        recommender.loss({**p, "users": leaf}, batch, extras)
        - recommender.model.loss({**p, "users": leaf}, batch)
    ).backward()
    for k in range(DIM):
        step = torch.zeros(1, DIM, dtype=torch.float64)
        step[0, k] = 1e-6
        slope = (of_users(p["users"] + step) - of_users(p["users"] - step)) / 2e-6
        assert float(leaf.grad[0, k]) == pytest.approx(slope, rel=1e-4, abs=1e-7)


def test_a_client_with_one_positive_has_nothing_to_contrast_its_item_with():
    for name in ("cl4fedrec", "simgcl", "union", "correlation"):
        recommender = made(name)
        p, batch, extras = case(recommender)
        few = {key: part[:EACH] if len(part) == POSITIVES * EACH else part for key, part in batch.items()}
        if name == "union":
            few["compared"] = few["compared"] % EACH
        assert torch.isfinite(recommender.loss(p, few, extras))


def test_an_item_learns_from_its_last_sample_and_all_else_from_all():
    recommender = made("last-repeat")
    p, batch, extras = case(recommender, padding=3)
    items = batch["items"]
    items[[7, 12]] = items[1].clone()  # a negative thrice, the last time at place 12
    draws = recommender.draws(LAYOUT, {"items": items[: POSITIVES * EACH].numpy()}, np.random.default_rng(0))[
        1
    ]
    assert np.flatnonzero(~draws["is_last"]).tolist() == [1, 7]
    batch["is_last"] = torch.from_numpy(np.concatenate([draws["is_last"], np.zeros(3, bool)]))

    def gradient(loss, weights):
        tables = {name: part.clone().requires_grad_() for name, part in p.items()}
        torch.autograd.backward(loss(tables, {**batch, "weights": weights}))
        return {name: part.grad for name, part in tables.items()}

    weights = batch["weights"]
    found = gradient(lambda t, b: recommender.loss(t, b, extras), weights)
    plain = gradient(recommender.model.loss, weights)
    last_alone = weights.clone()
    last_alone[[1, 7]] = 0
    once = gradient(recommender.model.loss, last_alone)["items"] * last_alone.sum() / weights.sum()
    for name in p:
        torch.testing.assert_close(found[name], once if name == "items" else plain[name])
    assert not torch.allclose(found["items"], plain["items"])
