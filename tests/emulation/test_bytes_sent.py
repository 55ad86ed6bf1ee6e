"""What a summary says of the bytes that were sent."""

from __future__ import annotations

import pytest

from gossiprec.emulation import simulate
from tests.emulation.test_clients_without_models import star
from tests.emulation.tiny_runs import tiny
from tests.slow import slow_except_first


@pytest.mark.parametrize(
    "network", slow_except_first([{}, {"loss": 0.3}]), ids=["all-arrive", "some-are-lost"]
)
def test_the_summary_counts_what_was_sent_up_and_down(network, tmp_path):
    run = simulate(star(rounds=6, network=network), out=tmp_path / "run")
    message, found = run.events("message"), run.summary["bytes"]
    down = message["sender"] == 12
    arrived = {"up": int(message["size_bytes"][~down].sum()), "down": int(message["size_bytes"][down].sum())}

    assert found["sent"] == found["up"] + found["down"]
    if not network:
        assert {name: found[name] for name in arrived} == arrived
    else:  # what is lost was sent
        assert found["down"] == 6 * round(0.75 * 12) * 4 * (40 * 8 + 9) > arrived["down"]
        assert found["up"] > arrived["up"]


@pytest.mark.slow
def test_in_gossip_all_bytes_are_counted_together(tmp_path):
    run = simulate(tiny(), out=tmp_path / "run")
    assert run.summary["bytes"] == {"sent": int(run.events("message")["size_bytes"].sum())}
