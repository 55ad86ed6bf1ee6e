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
    begun = TRACKERS["tensorboard"](tmp_path, {}, name=tmp_path.name, resumed=False)
    report(begun, 1, 2, 3, value=0.1)
    assert curves(tmp_path) == {
        "aac/coalition-5% ndcg 0.9 3": [(1, 0.1), (2, 0.2), (3, 0.3)],
        "virtual time": [(1, 0.5), (2, 1.0), (3, 1.5)],
    }
    begun.end("interrupted")

    resumed = TRACKERS["tensorboard"](tmp_path, {}, name=tmp_path.name, resumed=True)
    report(resumed, 3, 4, value=0.2)
    resumed.end("complete")
    assert curves(tmp_path)["aac/coalition-5% ndcg 0.9 3"] == [(1, 0.1), (2, 0.2), (3, 0.6), (4, 0.8)]


def test_a_run_of_a_study_is_found_under_what_it_is_called(tmp_path):
    tracker = TRACKERS["tensorboard"](tmp_path, {}, name="split=last/file, seed 1", resumed=False)
    report(tracker, 1, value=0.1)
    tracker.end("complete")
    assert curves(tmp_path / "split=last_file, seed 1")["virtual time"] == [(1, 0.5)]
