"""What every registered tracker keeps to; and that the contract catches those that do not."""

from __future__ import annotations

import random

import pytest

from gossiprec.testing import check_tracker
from gossiprec.trackers import TRACKERS, Tracker
from tests.contracts.broken import told


@pytest.mark.full
@pytest.mark.parametrize("name", list(TRACKERS))
def test_a_tracker_keeps_its_contract(name, tmp_path, monkeypatch):
    for module in TRACKERS[name].modules:
        pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    check_tracker(TRACKERS[name])


class Lines(Tracker):
    """Writes a line a report."""

    def __init__(self, run, scenario, *, name, resumed):
        self.run = run
        self.file = (run / "curves.txt").open("a" if resumed else "w")

    def report(self, figures, *, round, time):
        print(round, time, figures, file=self.file)

    def end(self, status):
        self.file.close()


class NeedsAReport(Lines):
    def report(self, figures, *, round, time):
        self.told = True

    def end(self, status):
        assert self.told


class BeginsOnce(Lines):
    def __init__(self, run, scenario, *, name, resumed):
        super().__init__(run, scenario, name=name, resumed=resumed)
        (run / "begun").mkdir()


class KeepsToTheFirst(Lines):
    known = None

    def report(self, figures, *, round, time):
        self.known = self.known or set(figures)
        assert self.known == set(figures)


class TidiesUp(Lines):
    def end(self, status):
        super().end(status)
        (self.run / "events.mplog").unlink()


class TakesOut(Lines):
    def report(self, figures, *, round, time):
        figures.clear()


class Draws(Lines):
    def report(self, figures, *, round, time):
        random.random()


BROKEN = {
    NeedsAReport: "end in any way, also before their first report.* AttributeError",
    BeginsOnce: "a resumed run.* FileExistsError",
    KeepsToTheFirst: "other figures than the report before",
    TidiesUp: "Change neither the files of the run.* events.mplog was deleted",
    TakesOut: r"nor its arguments.* are now \{\}",
    Draws: "Draw no numbers.* Found random in another state",
}


def test_a_tracker_need_not_be_registered():
    check_tracker(Lines)


@pytest.mark.parametrize("tracker", BROKEN, ids=lambda tracker: tracker.__name__)
def test_a_tracker_that_breaks_the_contract_is_told_which_claim(tracker):
    with told(tracker, BROKEN[tracker], kind="tracker"):
        check_tracker(tracker)
