"""The model of the speed of shards, next to cases computed by hand."""

import importlib
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def model(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    yield importlib.import_module("shards_model")
    for name in ("shards_model", "shards", "common"):
        sys.modules.pop(name)


def two_waves(model):
    """Shard 0 computes 1 s and sends 10 bytes that shard 1 reads in wave 1, after 2 s of other work."""
    idle = model.Wave(0.0, 0.0, [], [])
    return [
        [model.Wave(1.0, 0.0, [], []), model.Wave(1.5, 0.0, [], [])],
        [model.Wave(0.0, 0.0, [(1, 1, 10.0)], []), model.Wave(2.0, 4.0, [], [(0, 10.0)])],
        [idle, idle],
    ]


def test_a_shard_waits_only_for_what_its_other_tasks_do_not_hide(model):
    rates = model.Rates(send_byte_s=0.01, store_byte_s=0.02, batch_s=0.1)

    def seconds(**network):
        return model.wall_seconds(two_waves(model), rates, model.Network(**network), 2)

    # sent at 1 + 0.1 + 10 * 0.01 = 1.2; on its way for 1 + 10 / 10 s, to 3.2; shard 1, at 3.5, stores .2 and computes 4
    assert seconds(delay_s=1.0, bytes_per_s=10.0) == pytest.approx((7.7, 0.0))
    # ... for 3 + 1 s, to 5.2: shard 1 waits 1.7
    assert seconds(delay_s=3.0, bytes_per_s=10.0) == pytest.approx((9.4, 0.85))
    # only 4 bytes wait to leave: shard 0 waits for the other 6, 0.6 s, and nothing else changes
    assert seconds(delay_s=3.0, bytes_per_s=10.0, buffer_bytes=4) == pytest.approx((9.4, 0.5 * (1.7 + 0.6)))
    # without overlap shard 0 waits until 2.2
    assert seconds(delay_s=1.0, bytes_per_s=10.0, overlap=False) == pytest.approx((7.7, 0.5))


def test_the_connection_of_a_machine_carries_one_batch_after_the_other(model):
    rates = model.Rates()
    idle = model.Wave(0.0, 0.0, [], [])
    sends = model.Wave(0.0, 0.0, [(2, 0, 10.0)], [])
    wave = [sends, sends, model.Wave(0.0, 1.0, [], [(0, 10.0), (1, 10.0)])]
    # two machines send 10 bytes each at once, and the third takes 10 bytes/s
    assert model.wall_seconds([wave, [idle] * 3], rates, model.Network(0.5, 10.0), 3)[0] == pytest.approx(3.5)
