"""Low-rank uploads: the projection beside plain numpy, its size in the log, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.base.errors import ScenarioError
from gossiprec.compute.messages import MessagePayload, PushContext
from gossiprec.defences import POLICIES
from gossiprec.defences.low_rank import round_directions
from gossiprec.emulation import prepare, simulate
from gossiprec.scenario import load_scenario
from tests.emulation.tiny_runs import tiny

WIDTH = 6
FEDERATED = {"name": "fedavg", "rounds": 2, "slice": 5, "client_model": "none", "merge": "touched-mean"}


def encoded(rank, node=3, round=2):
    """Return items before and after training, the message, and the projection of its round by plain numpy."""
    draw = np.random.default_rng(1)
    before, after = draw.normal(0, 1, (2, 4, WIDTH)).astype(np.float32)
    touched, shared = np.arange(4, dtype=np.int32), np.ones(2, np.float32)
    policy = POLICIES["low-rank"](POLICIES["low-rank"].Options(rank=rank), np.arange(5))
    push = PushContext(7, node, 0, touched, round)
    payload, base = (MessagePayload(None, items, shared, touched) for items in (after, before))
    return before, after, policy.transform().encode(payload, base, push)


@pytest.mark.parametrize("rank", [1, 4])
def test_changes_keep_their_part_along_the_directions_of_the_round(rank):
    before, after, message = encoded(rank)
    directions = round_directions(7, 2, WIDTH, rank)
    np.testing.assert_allclose(directions.T @ directions, np.eye(rank), atol=1e-12)
    expected = before.astype(float)
    for item in range(4):
        for along in directions.T:
            expected[item] += np.sqrt(WIDTH / rank) * ((after - before)[item] @ along) * along
    np.testing.assert_allclose(message.items, expected, atol=1e-5)
    assert np.linalg.matrix_rank(message.items - before, tol=1e-3) == rank
    assert message.size_bytes == 4 * (4 * rank + 2 + 4)


def test_clients_of_a_round_share_directions_and_rounds_do_not():
    same, other = encoded(2, node=4), encoded(2, round=3)
    assert (encoded(2)[2].items == same[2].items).all()
    assert (encoded(2)[2].items != other[2].items).all()


def test_a_rank_of_a_whole_row_changes_nothing():
    _, after, message = encoded(WIDTH)
    np.testing.assert_allclose(message.items, after, atol=1e-5)


@pytest.mark.slow
def test_the_log_has_r_numbers_for_each_row(tmp_path):
    sections = {
        "model": {"name": "mf", "dim": WIDTH},
        "training": {"batch_size": "full"},
        "protocol": FEDERATED,
        "observers": [],
        "executor": {"name": "fused"},
    }
    sizes = []
    for place, policies in enumerate(([], [{"name": "low-rank", "rank": 2}])):
        run = simulate(tiny(**sections, policies=policies), out=tmp_path / str(place))
        messages = run.events("message")
        sizes.append(messages["size_bytes"][messages["sender"] < 12].astype(int))
    assert (sizes[0] % (1 + WIDTH) == 0).all()
    np.testing.assert_array_equal(sizes[1], sizes[0] // (1 + WIDTH) * (1 + 2))


@pytest.mark.parametrize(
    ("rank", "protocol", "message"),
    [
        (9, FEDERATED, "rank: found 9; expected at most 8, the numbers of an item's row"),
        (0, FEDERATED, "policies.0.rank"),
        (2, {"name": "rand-gossip", "wakes": 2}, "low-rank: found gossip"),
    ],
)
def test_what_does_not_fit_is_refused(rank, protocol, message):
    scenario = tiny(protocol=protocol, policies=[{"name": "low-rank", "rank": rank}], observers=[])
    with pytest.raises(ScenarioError, match=message):
        prepare(load_scenario(scenario))
