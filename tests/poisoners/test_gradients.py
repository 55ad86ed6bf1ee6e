"""What poisoners send, against the same written out by hand in float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from gossiprec.adversaries.poisoners import POISONERS
from gossiprec.base.errors import ScenarioError
from gossiprec.base.ragged import Ragged
from gossiprec.base.rng import generator
from gossiprec.compute.messages import MessagePayload, PushContext
from gossiprec.emulation.assembly.poisoners import poisoner_context
from gossiprec.models import MODELS
from gossiprec.models.feeds import PointwiseFeed

SEED, NODE, NUMBER = 5, 12, 3
N_ITEMS, DIM = 15, 4
TARGETS = np.array([2, 11], np.int32)
PUSH = PushContext(SEED, NODE, NUMBER, np.zeros(0, np.int32), round=4)


def ncf(p, user, item):
    hidden = torch.relu(p["weight0"] @ torch.cat([user, item]) + p["offset0"])
    hidden = torch.relu(p["weight1"] @ hidden + p["offset1"])
    return (p["weight2"] @ hidden + p["offset2"])[0]


def gmf(p, user, item):
    return p["weight"] @ (user * item) + p["bias"][0]


def mf(p, user, item):
    return user @ item


CASES = {
    "ncf": (
        {"dim": DIM, "hidden": [6, 3]},
        ncf,
        {"weight0": (6, 8), "offset0": (6,), "weight1": (3, 6), "offset1": (3,), "weight2": (1, 3), "offset2": (1,)},
    ),
    "gmf": ({"dim": DIM}, gmf, {"weight": (DIM,), "bias": (1,)}),
    "mf": ({"dim": DIM}, mf, {}),
}  # fmt: skip


class World:
    """A model, a version of it, and the same version in float64 by the names of its blocks."""

    def __init__(self, name):
        options, self.score, shapes = CASES[name]
        kind = MODELS[name]
        self.model = kind(kind.Options(**options))
        self.layout = self.model.layout(N_ITEMS)
        draw = np.random.default_rng(7)
        items = draw.normal(0, 0.7, (N_ITEMS, DIM)).astype(np.float32)
        shared = draw.normal(0, 0.7, self.layout.n_shared).astype(np.float32)
        self.sent = MessagePayload(None, items, shared)
        self.items = torch.tensor(items, dtype=torch.float64, requires_grad=True)
        self.shared = torch.tensor(shared, dtype=torch.float64, requires_grad=True)
        self.p, at = {}, 0
        for block, shape in shapes.items():
            size = int(np.prod(shape))
            self.p[block] = self.shared[at : at + size].reshape(shape)
            at += size
        assert at == self.layout.n_shared

    def poisoner(self, name, targets=TARGETS, sign=1, **options):
        nobody = PointwiseFeed(Ragged.from_sizes(np.zeros(20, np.int64), np.zeros(0, np.int32)), N_ITEMS)
        world = poisoner_context(self.model, self.layout, nobody, 2, targets)
        return POISONERS[name](POISONERS[name].Options(**options), replace(world, sign=sign))

    def loss(self, user, label, targets=TARGETS):
        """The mean cross-entropy of the targets, all labelled alike."""
        logits = torch.stack([self.score(self.p, user, self.items[t]) for t in targets])
        p = torch.sigmoid(logits)
        return -(torch.nn.functional.logsigmoid(logits) if label else torch.log(1 - p)).mean()

    def derived(self, loss):
        rows, shared = torch.autograd.grad(
            loss, (self.items, self.shared), allow_unused=True, materialize_grads=True
        )
        return rows.numpy(), shared.numpy()


def agree(found, rows, shared):
    np.testing.assert_allclose(found.rows, rows[found.items], rtol=0, atol=1e-5)
    np.testing.assert_allclose(found.shared, shared, rtol=0, atol=1e-5)
    assert not rows[np.setdiff1d(np.arange(N_ITEMS), found.items)].any()
    assert np.abs(found.rows).max() > 5e-4


def drawn_users(count=10, std=0.01):
    return torch.tensor(
        generator(SEED, "poison", NODE, NUMBER).normal(0, std, (count, DIM)).astype(np.float32), dtype=torch.float64
    )  # fmt: skip


def hard_users(world, users, steps=30, rate=0.001, targets=TARGETS, label=0):
    found = []
    for user in users:
        for _ in range(steps):
            row = user.clone().requires_grad_()
            user = user - rate * torch.autograd.grad(world.loss(row, label, targets), row)[0]
        found.append(user)
    return found


@pytest.mark.parametrize("model", CASES)
@pytest.mark.parametrize(("targets", "sign"), [([2, 11], 1), ([7], 1), ([2, 11], -1)])
@pytest.mark.cases(5)
def test_a_hum_trains_targets_and_shared_weights_on_users_made_hard(model, targets, sign):
    world, targets = World(model), np.array(targets, np.int32)
    users = hard_users(world, drawn_users(), targets=targets, label=sign < 0)
    loss = torch.stack([world.loss(user, sign > 0, targets) for user in users]).mean()

    found = world.poisoner("a-hum", targets, sign).gradient(world.sent, PUSH)

    assert found.items.tolist() == targets.tolist()
    agree(found, *world.derived(loss))
    easy = world.poisoner("a-ra", targets, sign).gradient(world.sent, PUSH)
    assert np.abs(easy.rows - found.rows).max() > 1e-4 or np.abs(easy.shared - found.shared).max() > 1e-4


@pytest.mark.parametrize("name", ["a-ra", "a-hum"])
@pytest.mark.parametrize("model", ["gmf", "ncf"])
@pytest.mark.parametrize("logit", [12, 30])
def test_a_gradient_that_float32_rounds_to_0_beside_1_keeps_its_digits(name, model, logit):
    world = World(model)
    with torch.no_grad():
        world.shared[-1] = logit
    world.sent.shared[-1] = logit
    users = hard_users(world, drawn_users()) if name == "a-hum" else drawn_users()
    rows, shared = world.derived(torch.stack([world.loss(user, 1) for user in users]).mean())

    found = world.poisoner(name).gradient(world.sent, PUSH)

    np.testing.assert_allclose(found.shared, shared, rtol=1e-3, atol=1e-3 * np.abs(shared).max())
    np.testing.assert_allclose(found.rows, rows[TARGETS], rtol=1e-3, atol=1e-3 * np.abs(rows).max())


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("model", CASES)
def test_a_ra_takes_its_users_as_they_are_drawn(model, sign):
    world = World(model)
    loss = torch.stack([world.loss(user, sign > 0) for user in drawn_users()]).mean()

    found = world.poisoner("a-ra", sign=sign).gradient(world.sent, PUSH)

    agree(found, *world.derived(loss))
    unhardened = world.poisoner("a-hum", sign=sign, steps=0).gradient(world.sent, PUSH)
    assert unhardened.rows.tobytes() == found.rows.tobytes()


@pytest.mark.parametrize("name", ["a-ra", "a-hum"])
def test_a_model_without_a_compiled_gradient_is_poisoned_by_torch(name, monkeypatch):
    world = World("ncf")
    compiled = world.poisoner(name).gradient(world.sent, PUSH)
    monkeypatch.setattr(type(world.model), "gradient", lambda model: None)
    found = world.poisoner(name).gradient(world.sent, PUSH)
    np.testing.assert_allclose(found.rows, compiled.rows, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(found.shared, compiled.shared, rtol=1e-5, atol=1e-7)
    assert found.rows.tobytes() != compiled.rows.tobytes()


def test_options_say_how_many_users_there_are_and_how_hard_they_become():
    world = World("ncf")
    users = hard_users(world, drawn_users(3, 0.5), steps=4, rate=0.2)
    loss = torch.stack([world.loss(user, 1) for user in users]).mean()

    found = world.poisoner("a-hum", users=3, std=0.5, steps=4, rate=0.2).gradient(world.sent, PUSH)

    agree(found, *world.derived(loss))


def made_up_user(world, draw, taken, steps=20, rate=0.01):
    """The row of psmu's user: Adam on what a client would learn from these items."""
    feed = PointwiseFeed(Ragged.from_parts([taken]), N_ITEMS)
    row = draw.normal(0, 0.01, (1, DIM)).astype(np.float32)[0]
    columns = feed.samples(0, update=0, negatives=2, seed=SEEDED["of"])
    user = torch.nn.Parameter(torch.tensor(row, dtype=torch.float64))
    adam = torch.optim.Adam([user], lr=rate)
    labels = torch.tensor(columns["labels"], dtype=torch.float64)
    for _ in range(steps):
        adam.zero_grad()
        logits = torch.stack([world.score(world.p, user, world.items[i]) for i in columns["items"]])
        torch.nn.functional.binary_cross_entropy_with_logits(logits, labels).backward(inputs=[user])
        adam.step()
    return user.detach()


SEEDED = {}


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("model", CASES)
def test_psmu_sets_targets_above_what_its_user_is_recommended(model, sign):
    world = World(model)
    draw = generator(SEED, "poison", NODE, NUMBER)
    taken = np.sort(draw.choice(N_ITEMS, 6, replace=False)).astype(np.int32)
    SEEDED["of"] = int(draw.integers(2**63))
    user = made_up_user(world, draw, taken)
    scores = torch.stack([world.score(world.p, user, item) for item in world.items])
    best, *others = sorted((i for i in range(N_ITEMS) if i not in taken), key=lambda i: -scores[i].item())
    targets, rivals = np.array([best], np.int32), others[:3]  # what is shown already is no rival of itself
    loss = sum(-torch.log(torch.sigmoid(sign * scores[t])) for t in targets)
    lead = [sign * (scores[t] - scores[a]) for t in targets for a in rivals]
    loss = loss + 0.5 * sum(-torch.log(torch.sigmoid(one)) for one in lead)

    found = world.poisoner("psmu", targets, sign, items=6, alternatives=3, weight=0.5).gradient(
        world.sent, PUSH
    )

    assert found.items.tolist() == sorted([best, *rivals])
    rows, shared = world.derived(loss)
    np.testing.assert_allclose(found.rows, rows[found.items], rtol=0, atol=1e-4)
    np.testing.assert_allclose(found.shared, shared, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "options", "why"),
    [
        (
            "mf",
            {"loss": "bpr"},
            "mf does not learn from single items with labels; choose a model such as gmf",
        ),
        ("prme-g", {}, "prme-g does not learn from single items with labels"),
    ],
)
def test_models_without_labels_are_refused(name, options, why):
    model = MODELS[name](MODELS[name].Options(**options))
    with pytest.raises(ScenarioError, match=f"attackers: a-hum trains items on synthetic users.*{why}"):
        POISONERS["a-hum"].check(model, model.layout(N_ITEMS), "a-hum")
