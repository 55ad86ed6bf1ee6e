"""A run ends on request at its next report."""

import os
import signal
import threading
import time

import pytest

from gossiprec.emulation import resume, simulate
from gossiprec.emulation.progress import SIGNALS, NullProgress, sigterm_as_interrupt, stop_on_signals
from gossiprec.runs.checkpoints import read_stamp
from tests.emulation.ended_early import checkpoints, often, outcome


class Telling(NullProgress):
    """Sends this process signals at one of the reports."""

    def __init__(self, *signals, at=1):
        self.signals, self.at, self.notes, self.ticks = list(signals), at, [], 0

    def note(self, text):
        self.notes.append(text)

    def tick(self, status):
        self.ticks += 1
        while self.signals and self.ticks == self.at:
            signal.raise_signal(self.signals.pop(0))


def rare(**sections):
    """Return a run in which no checkpoint is due by itself."""
    return often(checkpoint={"minutes": 1e9}, **sections)


@pytest.fixture(autouse=True)
def handlers():
    """Leave signals as they were."""
    before = [signal.getsignal(each) for each in SIGNALS]
    yield
    assert [signal.getsignal(each) for each in SIGNALS] == before


@pytest.mark.slow
@pytest.mark.parametrize("by", SIGNALS, ids=lambda each: each.name)
@pytest.mark.cases(1)
def test_it_ends_at_the_next_report_and_goes_on_from_there(by, tmp_path):
    say = Telling(by)
    run = simulate(rare(), out=tmp_path / "run", progress=say, graceful_stop=True)
    assert (run.manifest["status"], say.ticks) == ("interrupted", 1)
    (kept,) = checkpoints(run)
    assert read_stamp(kept).time == run.summary["virtual_time"]
    again = Telling(by)
    assert resume(run.path, progress=again, graceful_stop=True).manifest["status"] == "interrupted"
    assert again.ticks == 1
    assert outcome(resume(run.path).path) == outcome(simulate(rare(), out=tmp_path / "whole").path)


@pytest.mark.slow
def test_the_last_report_is_no_place_to_stop(tmp_path):
    count = Telling()
    simulate(rare(), out=tmp_path / "whole", progress=count)
    say = Telling(signal.SIGINT, at=count.ticks)
    run = simulate(rare(), out=tmp_path / "run", progress=say, graceful_stop=True)
    assert run.manifest["status"] == "complete"


def test_a_second_signal_ends_it_at_once(tmp_path):
    say = Telling(signal.SIGTERM, signal.SIGINT)
    run = simulate(rare(), out=tmp_path / "run", progress=say, graceful_stop=True)
    assert (run.manifest["status"], say.ticks, checkpoints(run)) == ("interrupted", 1, [])


def test_without_the_wish_ctrl_c_is_as_ever(tmp_path):
    run = simulate(rare(), out=tmp_path / "run", progress=Telling(signal.SIGINT))
    assert (run.manifest["status"], checkpoints(run)) == ("interrupted", [])


def test_who_wants_no_checkpoints_gets_none(tmp_path):
    say = Telling(signal.SIGINT)
    run = simulate(
        often(checkpoint={"minutes": None}), out=tmp_path / "run", progress=say, graceful_stop=True
    )
    assert (run.manifest["status"], say.ticks, checkpoints(run)) == ("interrupted", 1, [])


def test_an_ignored_signal_stays_ignored_and_threads_change_nothing():
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with stop_on_signals(NullProgress()) as stop:
            signal.raise_signal(signal.SIGTERM)
            assert not stop.wanted
    finally:
        signal.signal(signal.SIGTERM, before)

    def elsewhere():
        with stop_on_signals(NullProgress()):
            assert signal.getsignal(signal.SIGTERM) is before

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()


def unheard(number, frame):
    raise AssertionError(f"nobody heard signal {number}")


def terminate():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10)


@pytest.mark.parametrize("before", [signal.SIG_DFL, unheard], ids=["default", "somebody's"])
def test_sigterm_is_ctrl_c_for_as_long_as_a_study_runs(before):
    kept = signal.signal(signal.SIGTERM, before)
    try:
        with pytest.raises(KeyboardInterrupt), sigterm_as_interrupt():
            terminate()
        assert signal.getsignal(signal.SIGTERM) is before
    finally:
        signal.signal(signal.SIGTERM, kept)


def test_sigterm_that_is_ignored_stays_ignored():
    kept = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with sigterm_as_interrupt():
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, kept)
