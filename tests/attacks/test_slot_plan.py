"""Slots: where single adversaries keep the versions of a victim between its first and its last meeting."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossiprec.adversaries.attacks.individual_kernels import SlotTables, plan_slots

N_NODES = 5
ADVERSARIES = (1, 3, 4)
node = st.integers(0, N_NODES - 1)
deliveries = st.lists(st.tuples(node, node).filter(lambda pair: pair[0] != pair[1]), max_size=60)
forms = pytest.mark.parametrize("plan", [plan_slots, plan_slots.py_func])


def planned(plan, pairs, message):
    """Return each delivery's slot, whether its pair was seen before, and the slots each adversary needs."""
    sender, receiver = np.array(pairs, np.int32).reshape(-1, 2).T.copy()
    place = np.full(N_NODES, -1, np.int32)
    place[list(ADVERSARIES)] = np.arange(len(ADVERSARIES))
    table = (len(ADVERSARIES), N_NODES)
    n_free, used = np.zeros(len(ADVERSARIES), np.int32), np.zeros(len(ADVERSARIES), np.int64)
    slot_of, seen = np.full(len(pairs) + 9, -1, np.int32), np.zeros(len(pairs) + 9, np.bool_)
    tables = np.zeros(table, np.int8), np.full(table, -1, np.int32), np.zeros(table, np.int32)
    plan(message, sender, receiver, place, SlotTables(*tables, n_free, used, slot_of, seen))
    return slot_of[message], seen[message], used


def message_ids(n, seed):
    """Return ids in an order of arrival that is not the order of sending; some are never delivered."""
    return np.random.default_rng(seed).permutation(n + 9)[:n].astype(np.int32)


@pytest.mark.slow
@forms
@settings(deadline=None, derandomize=True, max_examples=150)
@given(pairs=deliveries, seed=st.integers(0, 5))
@pytest.mark.cases(1)
def test_a_slot_is_one_pairs_from_its_first_to_its_last_meeting(plan, pairs, seed):
    slot, seen, used = planned(plan, pairs, message_ids(len(pairs), seed))
    owner, last_of = {}, {pair: t for t, pair in enumerate(pairs)}
    met, peak = set(), dict.fromkeys(ADVERSARIES, 0)
    for t, pair in enumerate(pairs):
        adversary = pair[1]
        if adversary not in ADVERSARIES:
            assert slot[t] == -1
            continue
        assert seen[t] == (pair in met)
        met.add(pair)
        if pairs.count(pair) == 1:
            assert slot[t] == -1
            continue
        assert owner.setdefault((adversary, slot[t]), pair) == pair
        peak[adversary] = max(peak[adversary], sum(held[1] == adversary for held in owner.values()))
        if last_of[pair] == t:
            del owner[adversary, slot[t]]
    assert not owner
    assert used.tolist() == list(peak.values())


@forms
def test_a_slot_is_used_again_after_the_last_meeting(plan):
    pairs = [(0, 1), (2, 1), (0, 1), (4, 1), (2, 1), (4, 1)]
    slot, seen, used = planned(plan, pairs, np.arange(6, dtype=np.int32))

    assert slot.tolist() == [0, 1, 0, 0, 1, 0]
    assert seen.tolist() == [False, False, True, False, True, True]
    assert used.tolist() == [2, 0, 0]
