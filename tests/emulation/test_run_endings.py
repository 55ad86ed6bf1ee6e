"""How runs end: complete, interrupted or failed, and what their directories then hold."""

import numpy as np
import pytest

from gossiprec.emulation import simulate
from gossiprec.runs import open_run, read_log
from tests.emulation.tiny_runs import tiny


class Stopper:
    """Tells what it heard, and raises at the tick number `stop`."""

    def __init__(self, stop=None, error=KeyboardInterrupt):
        self.heard, self._stop, self._error = [], stop, error

    def phase(self, text):
        """Pass over phases."""

    def note(self, text):
        raise AssertionError(text)

    def tick(self, status):
        self.heard.append(status)
        if len(self.heard) == self._stop:
            raise self._error("stopped by the test")


def tables(path):
    return [(path / name).read_text() for name in ("metrics.csv", "attacks.csv")]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return a complete run and what it said."""
    heard = Stopper()
    run = simulate(tiny(), out=tmp_path_factory.mktemp("runs") / "whole", progress=heard)
    return run, heard.heard


def test_a_complete_run_says_so_and_verifies(whole):
    run, heard = whole
    assert run.manifest["status"] == run.summary["status"] == "complete"
    assert run.log.complete
    assert run.log.digest == run.manifest["log_digest"]
    assert heard[-1].updates == heard[-1].total_updates == run.summary["node_updates"] == 12 * 6


def test_a_run_keeps_its_results_when_another_begins_in_its_folder(tmp_path):
    first = simulate(tiny(), out=tmp_path / "run")
    (
        first.path / "summary.json"
    ).unlink()  # as the other run does, perhaps before the first one has said anything
    assert first.summary["status"] == "complete"


def test_progress_rises_to_the_end(whole):
    run, heard = whole
    ticks = [(status.time, status.round, status.updates) for status in heard]
    assert ticks == sorted(ticks)
    assert [status.time for status in heard] == sorted(set(run.metrics["time"].tolist()))


@pytest.mark.parametrize("stop", [1, 3])
def test_an_interrupted_run_keeps_everything_up_to_its_last_report(stop, whole, tmp_path):
    complete, heard = whole
    run = simulate(tiny(), out=tmp_path / "run", progress=Stopper(stop))
    reached = heard[stop - 1].time

    assert run.manifest["status"] == run.summary["status"] == "interrupted"
    for cut, full in zip(tables(run.path), tables(complete.path), strict=True):
        assert full.startswith(cut)
        assert cut.endswith("\n")
        assert len(cut) < len(full)
    assert run.metrics["time"].max() == run.attacks["time"].max() == reached
    assert run.summary["virtual_time"] == reached
    assert run.summary["node_updates"] == heard[stop - 1].updates == run.log.rows["update"]
    assert run.summary["wakes"] == len(run.events("wake")["time"]) < complete.summary["wakes"]
    assert run.log.rows["message"] <= run.summary["messages"] < complete.summary["messages"]
    assert read_log(run.log.path, strict=True).digest == run.manifest["log_digest"]
    for kind in ("wake", "message", "update"):
        before = complete.events(kind)["time"] <= reached
        for name, column in run.events(kind).items():
            assert column.tobytes() == complete.events(kind)[name][before].tobytes()
    assert run.summary["attacks"][0]["last_aac"] == run.attacks["aac"][-1]
    assert len(run.adversaries) == 1


@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
def test_a_failure_in_the_middle_is_raised_and_marked(error, whole, tmp_path):
    with pytest.raises(error, match="stopped by the test"):
        simulate(tiny(), out=tmp_path / "run", progress=Stopper(2, error))

    run = open_run(tmp_path / "run")
    assert run.manifest["status"] == "failed"
    assert run.summary is None
    assert len(set(run.metrics["time"].tolist())) == 2
    assert read_log(run.log.path, strict=True).rows["evaluate"] == 2


def test_the_same_scenario_gives_the_same_bytes(whole, tmp_path):
    complete, _ = whole
    again = simulate(complete.scenario, out=tmp_path / "again")

    assert again.manifest["log_digest"] == complete.manifest["log_digest"]
    assert tables(again.path) == tables(complete.path)
    for key, (nodes, accuracies) in complete.adversaries.items():
        np.testing.assert_array_equal(again.adversaries[key][0], nodes)
        np.testing.assert_array_equal(again.adversaries[key][1], accuracies)


def test_another_seed_gives_another_run(whole, tmp_path):
    other = simulate(tiny(seed=6), out=tmp_path / "other")
    assert other.manifest["log_digest"] != whole[0].manifest["log_digest"]
