"""Rows go from shard to shard by connections that only the shards of one run can open."""

from __future__ import annotations

import socket
from contextlib import suppress

import numpy as np
import pytest

from gossiprec.compute.shards import Mailbox, ShardLostError, runner
from gossiprec.compute.shards.runner import RowLinks


@pytest.fixture
def pair():
    """Two shards with the same secret, of which shard 0 reaches shard 1."""
    found = [RowLinks(number, Mailbox(), b"s" * 32, "127.0.0.1") for number in range(2)]
    assert found[0].connect({1: found[1].address}) == {}
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


def test_a_stranger_s_bytes_reach_no_mailbox(pair):
    with socket.create_connection(pair[1].address, 5) as stranger:
        stranger.sendall(b"\x00\x00\x00\x08" + b"a" * 8 + b"\x00" * 4096)
        stranger.settimeout(5)
        with suppress(ConnectionError):  # the shard closes the link before it has read everything
            while stranger.recv(4096):
                pass
    assert not pair[1]._mailbox._letters


def test_a_shard_that_cannot_be_reached_is_named_with_its_address(pair):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = closed.getsockname()

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
