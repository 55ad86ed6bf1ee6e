"""What travels of clients that hold no model: versions with what is beside them, and updates without their versions."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.compute.plan.program import Program
from gossiprec.compute.shards.runner import make_store_codec
from gossiprec.compute.store.update import Update
from gossiprec.compute.store.update_store import UpdateStore
from gossiprec.models import MODELS

MODEL = MODELS["ncf"](MODELS["ncf"].Options(dim=2, hidden=(3,), init_std=0.1))
LAYOUT = MODEL.layout(5)
CLIENTS, COORDINATOR = 4, 4
WIDTH = LAYOUT.item_width


@pytest.fixture
def stores():
    """Return the stores of two shards: of the coordinator with clients 0 and 1, and of clients 2 and 3."""
    found = [
        UpdateStore(MODEL, LAYOUT, n_nodes=CLIENTS + 1, seed=1, moments=True, user_upload_width=2)
        for _ in range(2)
    ]
    for store in found:
        store.own_extras = frozenset({"each"})
    return found


def program_of(*tasks):
    """Return a program of (node, source, target, rows adopted)."""
    node, source, target, adopted = zip(*tasks, strict=True)
    rows = np.concatenate([np.array(some, np.int32) for some in adopted])
    return Program(
        *(np.array(column, np.int32) for column in (node, source, target, np.zeros(len(tasks)))),
        np.cumsum([0, *map(len, adopted)]), rows, np.zeros(len(rows), np.float32), rows,
    )  # fmt: skip


def handles(*numbers):
    return np.array(numbers, np.int64)


def test_a_version_comes_under_all_handles_that_stand_for_it_with_what_is_for_own_clients(stores):
    lead, other = stores
    version = np.arange(lead.n_columns, dtype=np.float32)
    lead.store_payload(9, version)
    lead.attach_extras(9, {"all": np.arange(3.0), "each": np.arange(CLIENTS)[:, None] * 10})
    payloads = make_store_codec(other)
    payloads.follow_other_shards(program_of((COORDINATOR, 4, 9, [])), handles(0))
    payloads.follow_other_shards(program_of((0, 0, 7, [9]), (1, 7, 8, [])), handles(0, 1))
    assert not other.version(8).any()

    sent = make_store_codec(lead).pack(handles(9), handles(2, 3))
    payloads.unpack(handles(9), sent, handles(2, 3))

    assert other.version(7) is other.version(8) is other.version(9)
    np.testing.assert_array_equal(other.version(8), version)
    np.testing.assert_array_equal(other.extras(9)["all"], np.arange(3.0))
    assert other.extras(9)["each"].tolist() == [[0], [0], [20], [30]]
    assert sent["versions"][0]["own_extras"]["each"].tolist() == [[20], [30]]


def test_an_update_is_of_the_version_that_its_client_was_sent(stores):
    lead, other = stores
    versions = [np.full(lead.n_columns, number, np.float32) for number in (1, 2)]
    for store in stores:
        store.store_payload(8, versions[0].copy())
        store.store_payload(9, versions[1].copy())
    update = Update(
        other.version(9), np.array([1, 4], np.int32), np.full((2, WIDTH), 5, np.float32),
        np.full(LAYOUT.n_shared, 6, np.float32), np.array([0.5, 0.25], np.float32),
    )  # fmt: skip
    other.store_payload(3, update)
    make_store_codec(lead).follow_other_shards(program_of((3, 3, 3, [8, 9])), handles(0))
    sent = make_store_codec(other).pack(handles(3), handles(0, 1, COORDINATOR))
    make_store_codec(lead).unpack(handles(3), sent, handles(0, 1, COORDINATOR))

    found = lead.payload(3)
    assert found.base is lead.version(9)
    np.testing.assert_array_equal(found.model, update.model)
    np.testing.assert_array_equal(found.user, update.user)
    assert found.size_bytes == update.size_bytes
    assert sent["versions"] == []


def test_what_a_coordinator_publishes_is_unknown_until_it_comes(stores):
    _, other = stores
    before = other.version(4)
    make_store_codec(other).follow_other_shards(program_of((COORDINATOR, 4, 4, [])), handles(0))

    assert before.any()
    assert not other.version(4).any()


def test_handles_that_stood_for_one_version_do_so_after_a_checkpoint(stores):
    lead, other = stores
    one, two = np.ones(lead.n_columns, np.float32), np.ones(lead.n_columns, np.float32)
    for handle, version in ((0, one), (1, two), (2, one)):
        lead.store_payload(handle, version)
    make_store_codec(other).refer_to_versions(
        handles(0, 1, 2), make_store_codec(lead).version_numbers(handles(0, 1, 2))
    )

    assert other.version(0) is other.version(2)
    assert other.version(0) is not other.version(1)


def test_what_was_made_of_a_version_is_let_go_of_and_the_version_is_not(stores):
    lead, _ = stores
    version = lead.version(0)
    nothing = np.zeros(0, np.int32), np.zeros((0, WIDTH), np.float32), np.ones(LAYOUT.n_shared, np.float32)
    lead.store_payload(2, Update(version, *nothing))
    payloads = make_store_codec(lead)
    assert payloads.result_handles(handles(0, 2, 3)).tolist() == [2]
    lead.discard(handles(2, 3))

    assert lead.payload(2) is version
    assert payloads.result_handles(handles(0, 2, 3)).tolist() == []


def test_moments_and_steps_of_clients_go_with_their_rows(stores):
    lead, other = stores
    some = handles(2, 3)
    for name, value in (("own", 1), ("first", 2), ("second", 3), ("steps", 4)):
        getattr(other, name)[some] = value
    make_store_codec(lead).restore_outside_handles(some, make_store_codec(other).state_outside_handles(some))

    for name, value in (("own", 1), ("first", 2), ("second", 3), ("steps", 4)):
        assert (getattr(lead, name)[some] == value).all()
        assert (getattr(lead, name)[:2] != value).all()
