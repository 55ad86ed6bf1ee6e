"""Secure sums: the integers that masked vectors add up to, the sizes of the protocol, and who is in a round."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.compute.answer_rounds import AnswerRounds, NeighbourRounds
from gossiprec.compute.plan.tape import Tape
from gossiprec.compute.secure_sums import (
    KEY_BYTES,
    SHARE_BYTES,
    FixedPoint,
    Masks,
    Modulus,
    Quorum,
    Round,
    SecureSum,
    SumSettings,
    combine_shares,
    exchange_bytes,
    split_secret,
)
from gossiprec.rules.aggregators import Inbox, ModelDelta

COLUMNS = 7
COHORT = np.array([2, 3, 5, 8, 13])
QUORUM = Quorum(0.3, 2)


def settings(modulus=32, **more):
    given = {"n_items": 3, "item_width": 2, "weighs": False, "counts_items": False, "quorum": QUORUM, **more}
    return SumSettings(11, FixedPoint(1.0, 6), Modulus(modulus), COLUMNS, **given)


def answers(clients, seed=0):
    """Return a version, and the models that some clients trained from it."""
    draw = np.random.default_rng(seed)
    own = draw.normal(size=COLUMNS).astype(np.float32)
    return own, (own + draw.uniform(-1.2, 1.2, (len(clients), COLUMNS))).astype(np.float32)


def plain_integers(own, models, weights):
    """Return the sum of the encoded changes, in Python's integers."""
    changes = np.clip(models.astype(np.float64) - own, -1.0, 1.0)
    total = [0] * COLUMNS
    for change, weight in zip(changes, weights, strict=True):
        total = [sum_ + weight * round(x * 2**6) for sum_, x in zip(total, change.tolist(), strict=True)]
    return total


@pytest.mark.parametrize("modulus", [12, 16, 31, 32, 33, 63, 64])
@pytest.mark.parametrize("clients", [COHORT, COHORT[[4, 0, 2]], COHORT[1:3]], ids=["all", "dropouts", "two"])
def test_a_secure_sum_is_the_plain_sum_to_the_last_bit(clients, modulus):
    weights = [3, 1, 7, 2, 9][: len(clients)]
    own, models = answers(clients)
    inbox = Inbox(models, np.arange(len(clients)), np.array(weights, np.float64))

    sums = SecureSum(settings(modulus, weighs=True)).sum_answers(
        own, inbox, clients, Round(20, 4, COHORT), clients
    )

    assert (sums.total * 2**6).tolist() == plain_integers(own, models, weights)
    assert sums.weight == sum(weights)


def test_updates_of_some_items_are_summed_with_the_number_of_their_clients():
    own, clients = np.ones(COLUMNS, np.float32), COHORT[:2]
    deltas = [
        ModelDelta(np.array([0, 2], np.int32), np.full((2, 2), 0.5, np.float32), np.float32([0.25])),
        ModelDelta(np.array([2], np.int32), np.full((1, 2), -0.25, np.float32), np.float32([0.5])),
    ]
    inbox = Inbox(np.zeros((2, COLUMNS), np.float32), np.arange(2), np.ones(2), 0.0, deltas)

    sums = SecureSum(settings(counts_items=True)).sum_answers(
        own, inbox, clients, Round(20, 0, COHORT), clients
    )

    assert sums.total.tolist() == [0.5, 0.5, 0, 0, 0.25, 0.25, 0.75]
    assert sums.touched.tolist() == [1, 1, 0, 0, 2, 2, 2]


def test_sums_are_the_same_without_masks():
    own, models = answers(COHORT)
    inbox = Inbox(models, np.arange(5), np.ones(5))
    found = [
        SecureSum(settings(24, masks=masks))
        .sum_answers(own, inbox, COHORT, Round(20, 1, COHORT), COHORT)
        .total
        for masks in (True, False)
    ]
    np.testing.assert_array_equal(*found)


def test_a_masked_vector_and_a_sum_without_one_answer_look_random():
    """Means over 4096 draws, uniform below 2^16: standard deviation 2^16 / sqrt(12 * 4096) = 296; 5 of these."""
    masks, zeros = Masks(1, Round(20, 3, COHORT), 2, 4096, Modulus(16)), np.zeros(4096, np.uint32)
    vectors = [masks.add(zeros, client) for client in COHORT.tolist()]
    partial = masks.modulus.wrap(np.sum(vectors[1:], axis=0, dtype=np.uint32))
    seen = masks.remove(partial, COHORT)  # as if client 2 had not dropped out
    for found in (*vectors, partial, seen):
        assert abs(found.mean() - 2**15) < 5 * 296
        assert found.max() < 2**16
    assert len({vector.tobytes() for vector in vectors}) == len(COHORT)
    assert not masks.remove(partial, COHORT[1:]).any()


def test_masks_follow_from_seed_receiver_round_and_clients_only():
    def masked(seed=1, receiver=20, number=3, client=5):
        masks = Masks(seed, Round(receiver, number, COHORT), 2, 8, Modulus(16))
        return masks.add(np.zeros(8, np.uint32), client).tolist()

    assert masked() == masked()
    others = [masked(seed=2), masked(receiver=21), masked(number=4), masked(client=8)]
    assert all(other != masked() for other in others)


def test_fewer_shares_than_the_threshold_recover_no_secret():
    secret = bytes(range(16))
    shares = split_secret(secret, 3, 5)
    assert {len(share) for _, share in shares} == {
        SHARE_BYTES // 2
    }  # a secret of 32 bytes is shared in two halves
    assert combine_shares(shares[2:]) == combine_shares(shares[:3]) == secret
    assert combine_shares(shares[:2]) != secret


def test_numbers_beyond_the_clip_are_clipped_and_counted():
    found, clipped = FixedPoint(0.5, 4).encode(np.array([-9.0, -0.5, 0.03, 0.04, 0.5, 0.51]))
    assert found.tolist() == [-8, -8, 0, 1, 8, 8]
    assert clipped == 2


@pytest.mark.parametrize(("clip", "bits", "weight"), [(1.0, 6, 1), (1.0, 6, 5), (0.75, 3, 9), (3.0, 1, 100)])
def test_the_needed_modulus_is_the_smallest_that_holds_the_extremes(clip, bits, weight):
    encoding = FixedPoint(clip, bits)
    needed, largest = encoding.needed_modulus(weight), weight * encoding.largest
    extremes = np.array([-largest, largest])
    for k, fits in ((needed, True), (needed - 1, False)):
        modulus = Modulus(k)
        assert (modulus.lift(modulus.reduce(extremes)).tolist() == extremes.tolist()) == fits


@pytest.mark.parametrize("n", [2, 3, 100])
def test_sizes_follow_the_formula_of_the_paper(n):
    assert sum(exchange_bytes(n).values()) == 2 * n * KEY_BYTES + (5 * n - 4) * SHARE_BYTES


@pytest.mark.parametrize(("log_users", "log_numbers", "factor"), [(10, 20, 1.73), (14, 24, 1.98)])
def test_sizes_are_those_that_the_paper_states(log_users, log_numbers, factor):
    """Bonawitz et al. 2017, abstract: expansion of 16-bit inputs, compared with sending them in the clear."""
    n, m = 2**log_users, 2**log_numbers
    k = (n * (2**16 - 1)).bit_length()
    vector = SumSettings(0, FixedPoint(1.0, 15), Modulus(k), m, 0, 0, False, False, QUORUM)
    sent = vector.vector_bytes + sum(exchange_bytes(n).values())
    assert round(sent / (2 * m), 2) == factor


def played(*events, minimum=2, threshold=0.5):
    """Return the rounds of coordinator 4 after some events."""
    tape, rounds = Tape(), AnswerRounds(4, Quorum(threshold, minimum))
    for name, *about in events:
        getattr(tape, name)(*about)
    rounds.read_segment(tape.cut())
    return rounds


TWO_ROUNDS = [
    ("wake", 1.0, 4, [0, 1, 2, 3]),  # messages 0 to 3
    ("deliver", 1.1, 0, 0, [4]),  # answers: 4, of client 0
    ("deliver", 1.2, 1, 1, [4]),  # 5, of client 1
    ("deliver", 1.2, 2, 2, [4]),  # 6, of client 2
    ("drop", 1.3, 3, 3, 0),
    ("deliver", 1.4, 4, 5),
    ("deliver", 1.5, 4, 4),
    ("wake", 2.0, 4, [1, 2]),  # messages 7 and 8
    ("deliver", 2.1, 4, 6),  # late
    ("deliver", 2.2, 2, 8, [4]),  # 9
    ("deliver", 2.3, 4, 9),
    ("wake", 3.0, 4, []),
]


def test_answers_count_in_their_own_round_only():
    rounds = played(*TWO_ROUNDS, minimum=2, threshold=0.5)
    assert rounds.rounds_of(np.arange(10)).tolist() == [-1, -1, -1, -1, 0, 0, -1, -1, -1, -1]
    assert {round_: [part.tolist() for part in done] for round_, done in rounds.completed.items()} == {
        0: [[0, 1, 2, 3], [1, 0], [5, 4]]
    }
    assert rounds.counts == {"rounds": 2, "skipped": 1, "requested": 6, "dropped": 3, "recovered": 4}
    assert rounds.latest == {1: 5, 0: 4, 2: 9}


def test_exchanges_are_rows_of_the_log():
    rows = played(*TWO_ROUNDS).take_rows()
    sizes = [*exchange_bytes(4).values()], [*exchange_bytes(2).values()]
    expected = [
        *[(1.0, kind, client, sizes[0][kind]) for kind in range(4) for client in range(4)],
        *[(2.0, 4, client, sizes[0][4]) for client in (0, 1)],  # no shares of clients without an answer
        *[(2.0, kind, client, sizes[1][kind]) for kind in range(4) for client in (1, 2)],
    ]
    client = np.where(rows["sender"] == 4, rows["receiver"], rows["sender"])
    columns = (rows["time"], rows["kind"], client, rows["size_bytes"])
    assert [*zip(*(column.tolist() for column in columns), strict=True)] == expected
    assert ((rows["sender"] == 4) == np.isin(rows["kind"], [1, 3])).all()


@pytest.mark.parametrize(
    ("threshold", "minimum", "n", "due"), [(0.67, 2, 3, 3), (0.5, 2, 4, 2), (0.1, 5, 20, 5)]
)
def test_a_quorum_is_a_share_and_a_minimum(threshold, minimum, n, due):
    assert Quorum(threshold, minimum).answers(n) == due


def neighbours(*events, inline):
    """Return the rounds of three nodes that all send to one another, after some events."""
    senders = [np.array(each) for each in ([1, 2], [0, 2], [0, 1])]
    tape, rounds = Tape(), NeighbourRounds(senders, 1.0, Quorum(0.5, 2), inline=inline)
    for name, *about in events:
        getattr(tape, name)(*about)
    rounds.read_segment(tape.cut())
    return rounds


def test_without_delays_a_node_adds_up_what_its_neighbours_sent_since_its_last_wake():
    others = {0: [1, 2], 1: [0, 2], 2: [0, 1]}
    wakes = [("wake", time, node, others[node]) for time in (1.0, 2.0) for node in range(3)]
    rounds = neighbours(*wakes, inline=True)
    # messages 0, 1 of node 0; 2, 3 of node 1; 4, 5 of node 2; then 6 to 11
    assert {number: [part.tolist() for part in done] for number, done in rounds.completed.items()} == {
        1 * 3 + 2: [[0, 1], [0, 1], [1, 3]],
        2 * 3 + 0: [[1, 2], [1, 2], [2, 4]],
        2 * 3 + 1: [[0, 2], [2, 0], [5, 6]],
        2 * 3 + 2: [[0, 1], [0, 1], [7, 9]],
    }
    # node 0 has heard from no node at its first wake, and node 1 from one
    assert rounds.counts == {"rounds": 5, "skipped": 1, "requested": 9, "dropped": 0, "recovered": 0}


def test_with_delays_late_and_lost_messages_drop_out_of_the_round():
    rounds = neighbours(
        ("wake", 1.0, 0, [1, 2]),  # messages 0 and 1
        ("wake", 1.0, 1, [0, 2]),  # 2 and 3
        ("wake", 1.0, 2, [0, 1]),  # 4 and 5
        ("deliver", 1.2, 0, 2),
        ("deliver", 1.3, 0, 4),
        ("deliver", 1.3, 1, 0),
        ("drop", 1.4, 1, 5, 0),
        ("wake", 2.0, 0, [1, 2]),  # 6 and 7
        ("wake", 2.0, 1, [0, 2]),  # 8 and 9
        ("deliver", 2.1, 2, 1),  # late; node 2 misses its wake at 2
        ("deliver", 2.2, 2, 7),
        ("deliver", 2.3, 2, 9),
        ("deliver", 2.4, 2, 3),  # late, too
        ("wake", 3.0, 2, []),
        inline=False,
    )
    assert {number: [part.tolist() for part in done] for number, done in rounds.completed.items()} == {
        2 * 3 + 0: [[1, 2], [1, 2], [2, 4]],
        3 * 3 + 2: [[0, 1], [0, 1], [7, 9]],
    }
    assert rounds.counts == {"rounds": 3, "skipped": 1, "requested": 6, "dropped": 1, "recovered": 0}
    assert rounds.rounds_of(np.arange(10)).tolist() == [-1, -1, 6, -1, 6, -1, -1, 11, -1, 11]
