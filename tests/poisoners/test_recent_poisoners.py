"""Poisoners of papers since 2022 against their formulas in plain numpy, for scores that are dot products."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gossiprec.adversaries.poisoners import POISONERS
from gossiprec.adversaries.poisoners.synthetic_clients import client_gradient, client_samples
from gossiprec.base.errors import ScenarioError
from gossiprec.base.ragged import Ragged
from gossiprec.base.rng import generator
from gossiprec.compute.messages import MessagePayload, PushContext
from gossiprec.emulation.assembly.poisoners import draw_interactions
from gossiprec.models import BlockRole, Layout, ParameterBlock
from tests.poisoners.test_gradients import DIM, N_ITEMS, NODE, SEED, TARGETS, World

KNOWN = Ragged.from_parts([np.array(items, np.int32) for items in ([0, 4], [2, 5], [7], [])])
N_USERS = len(KNOWN)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class Player:
    """A poisoner of a dot-product model that is sent one version after another."""

    def __init__(self, name, sign=1, **options):
        self.world = World("mf")
        made = self.world.poisoner(name, **options)
        known = {
            "popularity": np.arange(N_ITEMS) % 7,
            "interactions": KNOWN,
            "nodes": np.array([NODE, NODE + 1]),
        }
        targets = TARGETS if made.targeted else TARGETS[:0]
        self.poisoner = type(made)(made.options, replace(made.context, sign=sign, targets=targets, **known))
        size = made.memory_numbers(made.options, self.world.layout, N_USERS)
        self.memory, self.number = np.zeros(size, np.float32), 0

    def push(self, items=None):
        """Return the rows of all items in the gradient of the next push."""
        items = self.world.sent.items if items is None else items
        push = PushContext(
            SEED, NODE, self.number, np.zeros(0, np.int32), round=1 + self.number, memory=self.memory
        )
        self.number += 1
        found = self.poisoner.gradient(MessagePayload(None, items.copy(), np.zeros(0, np.float32)), push)
        rows = np.zeros((N_ITEMS, DIM))
        rows[found.items] = found.rows
        return rows


def versions(count):
    draw = np.random.default_rng(1)
    return draw.normal(0, 0.7, (count, N_ITEMS, DIM)).astype(np.float32)


@pytest.mark.parametrize("targets", [[3, 5], [2, 3, 7], [0, 2, 4, 5, 7], [1, 3, 6, 8]])
@pytest.mark.parametrize("sign", [1, -1])
def test_fedrecattack_lifts_targets_over_the_border_of_users_that_it_trained(sign, targets):
    player = Player("fedrecattack", sign, passes=1, rate=0.1, candidates=3, std=0.5)
    context = player.poisoner.context
    player.poisoner.context = replace(context, targets=np.array(targets, context.targets.dtype))
    items = versions(1)[0]

    found = player.push(items)

    draw, v = generator(SEED, "poison", NODE, 0), items.astype(np.float64)
    users = draw.normal(0, 0.5, (N_USERS, DIM))
    who, taken = KNOWN.row_of_each_value, KNOWN.values
    drawn = draw.integers(N_ITEMS, size=len(who))
    while (wrong := np.array([d in KNOWN[u] for u, d in zip(who, drawn, strict=True)])).any():
        drawn[wrong] = draw.integers(N_ITEMS, size=wrong.sum())
    slope = np.zeros_like(users)
    for u, i, j in zip(who, taken, drawn, strict=True):
        slope[u] -= sigmoid(-users[u] @ (v[i] - v[j])) * (v[i] - v[j])
    users -= 0.1 * slope / (np.abs(slope) + 1e-8)  # the first step of Adam
    expected = np.zeros_like(v)
    for u in range(N_USERS):
        scores = v @ users[u]
        free = [i for i in range(N_ITEMS) if i not in KNOWN[u] and i not in targets]
        top = sorted(free, key=lambda i: -scores[i])[:3]
        for t in targets:  # each target that the user lacks takes the last item that is left on the list
            if t not in KNOWN[u]:
                border = top.pop() if len(top) > 1 else top[0]
                lead = sign * (scores[border] - scores[t])
                weight = sign * (1 if lead > 0 else np.exp(lead))
                expected[border] += weight * users[u]
                expected[t] -= weight * users[u]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_fedrecattack_keeps_to_the_items_that_its_first_gradient_chose():
    player = Player("fedrecattack", items=4, candidates=3, std=0.5)
    changed = [set(np.flatnonzero(player.push(items).any(axis=1))) for items in versions(4)]
    assert len(changed[0]) == 4
    assert all(set(TARGETS) <= each <= changed[0] for each in changed)


def test_known_interactions_are_a_fraction_of_each_users_items_rounded_up():
    train = Ragged.from_parts(
        [np.arange(10, dtype=np.int32), np.array([3, 8], np.int32), np.zeros(0, np.int32)]
    )
    found = draw_interactions(train, 0.3, SEED)
    assert found.sizes.tolist() == [3, 1, 0]
    assert set(found[1]) <= {3, 8}
    assert draw_interactions(train, 0.3, SEED + 1).values.tolist() != found.values.tolist()


def mined(before, after, count):
    moved = np.linalg.norm(after.astype(np.float64) - before, axis=1)
    moved[TARGETS] = -1
    return np.argsort(-moved)[:count]


@pytest.mark.parametrize("sign", [1, -1])
def test_pieck_ipe_turns_targets_towards_the_items_that_moved_most(sign):
    player, (first, second, third) = Player("pieck", sign, variant="ipe", popular=4, balance=0.7), versions(3)
    assert not player.push(first).any()
    best = mined(first, second, 4)
    player.push(second)

    found = player.push(third)  # the items were mined before

    v, expected = third.astype(np.float64), np.zeros((N_ITEMS, DIM))
    for t in TARGETS:
        size = np.linalg.norm(v[t])
        cosines = v[best] @ v[t] / np.linalg.norm(v[best], axis=1) / size
        for above in (cosines > 0, cosines <= 0):
            for rank in np.flatnonzero(above):
                unit = v[best[rank]] / np.linalg.norm(v[best[rank]])
                slope = (unit - cosines[rank] * v[t] / size) / size
                expected[t] -= sign * 0.7 * (4 - rank) / 10 * slope / above.sum() / len(TARGETS)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("sign", [1, -1])
def test_pieck_uea_promotes_targets_to_users_with_rows_of_popular_items(sign):
    player, (first, second) = Player("pieck", sign, variant="uea", popular=5), versions(2)
    player.push(first)

    found = player.push(second)

    v, expected = second.astype(np.float64), np.zeros((N_ITEMS, DIM))
    for p in mined(first, second, 5):
        for t in TARGETS:
            expected[t] -= sign * sigmoid(-v[p] @ v[t]) * v[p] / 10
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_pieck_refuses_a_model_with_user_rows_of_another_size():
    blocks = (ParameterBlock("users", BlockRole.USER, (2,)), ParameterBlock("items", BlockRole.ITEM, (3,)))
    with pytest.raises(ScenarioError, match="but in mf they have 3 and 2 numbers; choose a model"):
        POISONERS["pieck"].check(World("mf").model, Layout(blocks, n_items=5, n_users=1), "pieck")


def test_pamn_follows_the_items_that_its_neighbours_changed(monkeypatch):
    fitted = []
    monkeypatch.setattr(
        "gossiprec.adversaries.poisoners.psmu.client_samples",
        lambda context, items, *args, **more: (
            fitted.append(items),
            client_samples(context, items, *args, **more),
        )[1],
    )
    first, second = versions(2)
    player = Player("pamn", items=3)
    player.push(first)
    player.push(second)
    moved = np.linalg.norm(second - first, axis=1)
    ranked = [item for item in np.argsort(-moved) if item not in TARGETS]
    assert fitted[1].tolist() == sorted(ranked[:6:2])  # the first of two poisoners
    alone = Player("pamn", items=3, diverse=False)
    alone.push(first)
    alone.push(second)
    assert fitted[3].tolist() == sorted(ranked[:3])


def test_clusterattack_draws_rows_to_the_centres_of_their_clusters():
    player, items = Player("clusterattack", clusters=3, spread=2.0), versions(1)[0]

    found = player.push(items)

    draw, v = generator(SEED, "poison", NODE, 0), items.astype(np.float64)
    centers = v[draw.choice(N_ITEMS, 3, replace=False)]
    for _ in range(50):
        label = np.array([np.argmin([np.sum((row - center) ** 2) for center in centers]) for row in v])
        centers = np.array([v[label == k].mean(axis=0) for k in range(3)])
    away, length = v - centers[label], 1 + 2 * draw.uniform(size=N_ITEMS)
    expected = length[:, None] * away / np.maximum(np.linalg.norm(away, axis=1, keepdims=True), 1e-9)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(("factor", "clusters"), [(1.5, 9), (0.5, 1)])
def test_clusterattack_follows_its_loss_with_the_number_of_clusters(factor, clusters):
    player, items = Player("clusterattack", patience=3, decay=0.5), versions(1)[0]
    for power in range(4):
        assert player.memory[0] in (0, 2)
        player.push(items * np.float32(factor**power))
    assert player.memory[0] == clusters  # 2 + sqrt(50 - 2), or 2 - sqrt(2 - 1)


def test_spattack_sends_one_noise_or_undoes_the_last_change():
    first, second = versions(2)
    limited, undo = Player("spattack"), Player("spattack", variant="undo")
    noise = generator(SEED, "spattack", 0, 0).standard_normal((N_ITEMS, DIM))
    for items in (first, second):
        np.testing.assert_allclose(limited.push(items), noise, rtol=1e-6)
    assert not undo.push(first).any()
    np.testing.assert_allclose(undo.push(second), (second - first) / 2, rtol=1e-5)  # two poisoners, rate 1
    few = Player("spattack", items=4).push(first)
    np.testing.assert_allclose(few[few.any(axis=1)], noise[few.any(axis=1)], rtol=1e-6)
    assert np.count_nonzero(few.any(axis=1)) == 4
    assert not few[np.arange(N_ITEMS) % 7 == 0].any()  # no user has them


@pytest.mark.parametrize("sign", [1, -1])
def test_pipattack_boosts_targets_and_makes_them_look_popular(sign):
    player, items = Player("pipattack", sign, weight=0.5, steps=1, rate=0.2, std=0.5), versions(1)[0]

    found = player.push(items)

    v, user = items.astype(np.float64), generator(SEED, "poison", NODE, 0).normal(0, 0.5, DIM)
    level = np.full(N_ITEMS, 2)
    ranked = np.argsort(-(np.arange(N_ITEMS) % 7), kind="stable")
    level[ranked[:9]], level[ranked[:2]] = 1, 0  # of 15 items
    inputs = np.append(v, np.ones((N_ITEMS, 1)), axis=1)
    slope = inputs.T @ (1 / 3 - np.eye(3)[level]) / N_ITEMS
    weights, expected = -0.2 * slope / (np.abs(slope) + 1e-8), np.zeros((N_ITEMS, DIM))
    for t in TARGETS:
        chances = np.exp(inputs[t] @ weights)
        chances /= chances.sum()
        chances[0 if sign > 0 else 2] -= 1
        boosting = -sign * sigmoid(-sign * user @ v[t]) * user
        expected[t] = (boosting + 0.5 * weights[:DIM] @ chances) / len(TARGETS)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    slope = -sign * sum(sigmoid(-sign * user @ v[t]) * v[t] for t in TARGETS) / len(TARGETS)
    np.testing.assert_allclose(player.memory, user - slope, atol=1e-5)


@pytest.mark.parametrize("profile", ["random", "bandwagon", "popular"])
@pytest.mark.parametrize("sign", [1, -1])
def test_shilling_trains_like_a_client_that_has_the_targets_or_dislikes_them(profile, sign):
    player, items = Player("shilling", sign, profile=profile, items=4, std=0.5), versions(1)[0]
    user = generator(SEED, "shilling", NODE, 0).normal(0, 0.5, DIM)

    found = player.push(items)

    along = found @ user  # positives are lifted along the user, negatives lowered
    lifted, lowered = set(np.flatnonzero(along < -1e-6)), set(np.flatnonzero(along > 1e-6))
    assert set(TARGETS) <= (lifted if sign > 0 else lowered)
    assert len(lifted) == 4
    if profile == "popular":
        best = [i for i in np.argsort(-(np.arange(N_ITEMS) % 7), kind="stable") if i not in TARGETS]
        assert lifted - set(TARGETS) == set(best[: 2 if sign > 0 else 4])
    v = items.astype(np.float64)
    for i in lifted:
        weight = -sigmoid(-user @ v[i]) / 12  # four items and two negatives for each
        np.testing.assert_allclose(found[i], weight * user, atol=1e-5)
    again = player.push(items)
    assert set(np.flatnonzero(again.any(axis=1))) == set(np.flatnonzero(found.any(axis=1)))


@pytest.mark.parametrize("sign", [1, -1])
def test_an_adaptive_poisoner_stays_where_clients_are(sign):
    items = versions(1)[0]
    honest, users, parts = [], [], {}

    def kept(context, sent, user, samples):
        slope, found = client_gradient(context, sent, user, samples)
        rows = np.zeros((N_ITEMS, DIM))
        rows[found.items] = found.rows
        honest.append(rows[TARGETS])
        users.append(user.ravel())
        return slope, found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gossiprec.adversaries.poisoners.adaptive.client_gradient", kept)
        for evades in ("range", "norm", "similarity"):
            how = {"evades": evades, "clients": 4, "items": 3, "std": 0.5, "deviations": 0.5}
            parts[evades] = Player("adaptive", sign, **how).push(items)[TARGETS]
    clients = np.array(honest[:4])
    assert (np.abs(clients).sum(axis=2) > 0).all()  # all have the targets among their negatives
    off = (parts["range"] - clients.mean(axis=0)) / clients.std(axis=0)
    np.testing.assert_allclose(np.abs(off), 0.5, rtol=1e-4)
    assert (np.sign(off) == np.sign(parts["norm"])).all()
    scores = np.array(users[:4]) @ items[TARGETS].T
    aim = -sign * sigmoid(-sign * scores).T @ np.array(users[:4])
    assert (np.sign(off) == np.sign(aim)).all()
    lengths = np.median(np.linalg.norm(clients, axis=2), axis=0)
    for evades in ("norm", "similarity"):
        np.testing.assert_allclose(np.linalg.norm(parts[evades], axis=1), lengths, rtol=1e-4)
    cosine = (parts["norm"] * parts["similarity"]).sum(axis=1) / lengths**2
    np.testing.assert_allclose(cosine, np.sqrt(0.5), rtol=1e-4)


@pytest.mark.parametrize("name", ["fedrecattack", "pipattack", "shilling", "clusterattack"])
def test_a_poisoner_that_starts_late_starts_like_others(name):
    player = Player(name)
    player.number = 5
    player.push(versions(1)[0])
    assert player.memory.any()


@pytest.mark.parametrize("weights", ["mean", "none"])
def test_an_adaptive_poisoner_changes_shared_weights_only_if_it_may(weights):
    world = World("ncf")
    push = PushContext(SEED, NODE, 0, np.zeros(0, np.int32), round=1, memory=np.zeros(0, np.float32))
    found = world.poisoner("adaptive", weights=weights, clients=2, steps=1).gradient(world.sent, push)
    assert len(found.shared) > 10
    assert found.shared.any() == (weights == "mean")
    assert found.rows.any()
