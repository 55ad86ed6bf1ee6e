"""Rows go from shard to shard by connections that only the shards of one run can open."""

from __future__ import annotations

import pickle
import socket
import struct
import threading
import time
from contextlib import suppress

import numpy as np
import pytest

from gossiprec.base.errors import ShardLostError
from gossiprec.compute.shards import Mailbox, runner
from gossiprec.compute.shards.runner import RowLinks


@pytest.fixture(params=["tcp", "unix"])
def pair(request):
    """Two shards with the same secret, of which shard 0 reaches shard 1."""
    found = [RowLinks(number, Mailbox(), b"s" * 32, "127.0.0.1") for number in range(2)]
    host, port, name = found[1].address
    assert found[0].connect({1: (host, port, name if request.param == "unix" else "")}) == {}
    assert (found[0]._links[1].family == socket.AF_UNIX) == (request.param == "unix")
    yield found
    for each in found:
        each.close()


@pytest.mark.parametrize("shape", [(3, 5), (0, 5), (2000, 700)])
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_rows_arrive_as_they_were_sent(pair, shape, kind):
    rows = np.random.default_rng(1).normal(size=shape).astype(kind)
    for number in range(3):
        pair[0].send(1, ("rows", number, 7), rows + kind(number))

    for number in (2, 0, 1):
        found = pair[1]._mailbox.take(0, ("rows", number, 7))
        assert found.dtype == rows.dtype
        np.testing.assert_array_equal(found, rows + kind(number))


def test_some_rows_arrive_as_one_array(pair):
    rows = np.arange(4000 * 3, dtype=np.float32).reshape(4000, 3)
    some = np.arange(0, 4000, 3)
    pair[0].send(1, ("rows", 0), rows, some)

    np.testing.assert_array_equal(pair[1]._mailbox.take(0, ("rows", 0)), rows[some])


def test_a_name_of_another_machine_is_no_obstacle(pair):
    host, port, _ = pair[1].address
    assert pair[0].connect({1: (host, port, "gossiprec-elsewhere")}) == {}
    assert pair[0]._links[1].family == socket.AF_INET


def test_memory_of_rows_is_not_reused_while_they_are_kept(pair):
    first, second = np.ones((4, 4), np.float32), np.full((4, 4), 2, np.float32)
    pair[0].send(1, ("rows", 1), first)
    kept = pair[1]._mailbox.take(0, ("rows", 1))
    pair[0].send(1, ("rows", 2), second)
    pair[1]._mailbox.take(0, ("rows", 2))

    np.testing.assert_array_equal(kept, first)


def test_a_shard_of_another_run_is_refused(pair):
    stranger = RowLinks(0, Mailbox(), b"t" * 32, "127.0.0.1")

    problems = stranger.connect({1: pair[1].address})

    assert list(problems) == [1]
    assert "digest" in problems[1]
    assert not stranger.reaches(1)
    stranger.close()


def test_a_closed_shard_listens_no_more():
    before = set(threading.enumerate())
    shard = RowLinks(0, Mailbox(), b"s" * 32, "127.0.0.1")
    (host, port, _), accepting = shard.address, set(threading.enumerate()) - before
    shard.close()

    for thread in accepting:
        thread.join(5)
    assert accepting
    assert not any(thread.is_alive() for thread in accepting)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, port), 5)


def test_a_stranger_that_proves_nothing_is_dropped(monkeypatch):
    monkeypatch.setattr(runner, "CONNECT_S", 1.0)
    shard = RowLinks(0, Mailbox(), b"s" * 32, "127.0.0.1")
    with socket.create_connection(shard.address[:2], 10) as stranger:
        while stranger.recv(100):  # the challenge, and then the end
            pass
    shard.close()


def test_a_stranger_s_bytes_reach_no_mailbox(pair):
    with socket.create_connection(pair[1].address[:2], 5) as stranger:
        stranger.sendall(b"\x00\x00\x00\x08" + b"a" * 8 + b"\x00" * 4096)
        stranger.settimeout(5)
        with suppress(ConnectionError):  # the shard closes the link before it has read everything
            while stranger.recv(4096):
                pass
    assert not pair[1]._mailbox._letters


def test_a_shard_that_cannot_be_reached_is_named_with_its_address(pair):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = (*closed.getsockname(), "")

    problems = pair[0].connect({4: address})

    assert f"127.0.0.1:{address[1]}" in problems[4]


def test_a_link_that_stalls_counts_as_a_lost_shard(monkeypatch):
    monkeypatch.setattr(runner, "STALL_S", 1.0)
    monkeypatch.setattr(
        runner.RowLinks, "_receive", lambda self, found: kept.append(self._connection(found, arriving=True))
    )
    kept = []
    ends = [RowLinks(number, Mailbox(), b"s" * 32, "127.0.0.1") for number in range(2)]
    ends[0].connect({1: ends[1].address})

    with pytest.raises(ShardLostError, match="shard 1 died: it took no rows for 1 s"):
        ends[0].send(1, ("rows", 0), np.zeros((5000, 5000), np.float32))


def test_a_closed_link_counts_as_a_lost_shard(pair):
    pair[0].send(1, ("rows", 0), np.zeros((2, 2), np.float32))
    pair[1]._mailbox.take(0, ("rows", 0))
    pair[1].close()

    with pytest.raises(ShardLostError, match="shard 1 died: its link is closed"):
        pair[0].send(1, ("rows", 1), np.zeros((5000, 5000), np.float32))


def test_a_link_that_breaks_is_a_lost_shard_for_who_waits_for_rows():
    ends = [RowLinks(number, Mailbox(), b"s" * 32, "127.0.0.1") for number in range(2)]
    ends[0].connect({1: (*ends[1].address[:2], "")})
    ends[0].send(1, ("rows", 0), np.zeros((2, 2), np.float32))
    ends[1]._mailbox.take(0, ("rows", 0))
    link = ends[0]._links[1]
    assert link.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
    link.setsockopt(
        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
    )  # closing resets the connection
    link.close()

    with pytest.raises(ShardLostError, match="shard 0 died: its link is broken") as found:
        ends[1]._mailbox.take(0, ("rows", 1))
    other_process = pickle.loads(pickle.dumps(found.value))
    assert (other_process.number, str(other_process)) == (0, str(found.value))


def test_a_closed_link_alone_ends_no_wait_for_other_shards(pair):
    pair[0].send(1, ("rows", 0), np.zeros((2, 2), np.float32))
    pair[0].close()
    pair[1]._mailbox.put(2, ("rows", 0), "theirs")
    time.sleep(0.1)

    assert pair[1]._mailbox._failure is None
