"""What TensorBoard reads of a run."""

from __future__ import annotations

import pytest

from gossiprec.trackers import TRACKERS

pytest.importorskip("tensorboard")


def curves(folder):
    """Return what TensorBoard's own reader finds: points by name."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder))
    found.Reload()
    return {
        name: [(point.step, round(point.value, 6)) for point in found.Scalars(name)]
        for name in found.Tags()["scalars"]
    }


def report(tracker, *rounds, value):
    for each in rounds:
        tracker.report({"aac/coalition-5% ndcg 0.9 3": value * each}, round=each, time=each / 2)


def test_curves_can_be_read_while_the_run_goes_on_and_a_resumed_run_takes_up_where_it_was(tmp_path):
    begun = TRACKERS["tensorboard"](tmp_path, {}, resumed=False)
    report(begun, 1, 2, 3, value=0.1)
    assert curves(tmp_path) == {
        "aac/coalition-5% ndcg 0.9 3": [(1, 0.1), (2, 0.2), (3, 0.3)],
        "virtual time": [(1, 0.5), (2, 1.0), (3, 1.5)],
    }
    begun.end("interrupted")

    resumed = TRACKERS["tensorboard"](tmp_path, {}, resumed=True)
    report(resumed, 3, 4, value=0.2)
    resumed.end("complete")
    assert curves(tmp_path)["aac/coalition-5% ndcg 0.9 3"] == [(1, 0.1), (2, 0.2), (3, 0.6), (4, 0.8)]
