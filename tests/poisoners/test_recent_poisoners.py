"""Poisoners of papers since 2022 against their formulas in plain numpy, for scores that are dot products."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gossiprec.adversaries.poisoners import POISONERS
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


@pytest.mark.parametrize("sign", [1, -1])
def test_fedrecattack_lifts_targets_over_the_border_of_users_that_it_trained(sign):
    player = Player("fedrecattack", sign, passes=1, rate=0.1, candidates=3, std=0.5)
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
        free = [i for i in range(N_ITEMS) if i not in KNOWN[u] and i not in TARGETS]
        top = sorted(free, key=lambda i: -scores[i])[:3]
        for t, border in zip(TARGETS, (top[2], top[1]), strict=True):
            if t not in KNOWN[u]:
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
