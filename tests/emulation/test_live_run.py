"""A run carried out step by step from Python: the same bytes, and what can be seen between two reports."""

from __future__ import annotations

import numpy as np
import pytest

import gossiprec
from gossiprec.base.errors import LogError, ScenarioError
from gossiprec.emulation import resume, simulate
from tests.emulation.ended_early import Patient, checkpoints, often, outcome
from tests.emulation.sharded import Threads, divided
from tests.emulation.test_resume import JUDGING, PERSONAL, SLOW
from tests.emulation.tiny_runs import COORDINATOR, carried_out, final_models, tiny
from tests.slow import slow_except_first

FAST = {"executor": {"name": "fused"}}
UPDATES = {"name": "fedavg", "rounds": 8, "participation": 0.5, "client_model": "none"}
RUNS = {
    "rand-gossip": {**FAST, "network": SLOW},
    "pers-gossip": {**FAST, "protocol": PERSONAL, "dataset": JUDGING},
    "fedavg": {**FAST, "protocol": {**UPDATES, "client_model": "own"}, "observers": [COORDINATOR]},
    "updates": {"protocol": UPDATES, "observers": [COORDINATOR], "network": SLOW},
    "central": {"protocol": {"name": "central", "epochs": 8}, "observers": []},
}


@pytest.mark.parametrize("kind", slow_except_first(RUNS))
@pytest.mark.full
def test_stepped_closed_and_resumed_it_writes_the_bytes_of_a_run_at_once(kind, tmp_path):
    scenario = often(**RUNS[kind])
    whole = simulate(scenario, out=tmp_path / "whole")

    stepped = gossiprec.prepare(scenario, out=tmp_path / "stepped")
    times = [report.time for report in stepped]
    closed = gossiprec.prepare(scenario, out=tmp_path / "closed")
    closed.until(times[2])
    early = closed.close()

    assert times == list(dict.fromkeys(whole.metrics["time"].tolist()))
    assert stepped.report.last
    assert outcome(stepped.finish().path) == outcome(whole.path)
    assert (early.status, early.summary["virtual_time"]) == ("interrupted", times[2])
    assert outcome(resume(early.path).path) == outcome(whole.path)


@pytest.mark.parametrize("kind", slow_except_first([kind for kind in RUNS if kind != "pers-gossip"]))
@pytest.mark.full
def test_pauses_at_any_time_show_the_models_of_that_time_and_change_no_byte(kind, tmp_path):
    scenario = often(**RUNS[kind])
    whole = simulate(scenario, out=tmp_path / "whole")
    paused = gossiprec.prepare(scenario, out=tmp_path / "paused")
    trained = []
    for time in (0.05, 0.05, 1.4, 3.7):
        paused.pause(time)
        assert paused.time == time
        trained.append(int(paused.prepared.planner.update_counts.sum()))
    wakes = whole.events("wake")["time"]

    assert paused.report.time <= 3.7
    if kind == "rand-gossip":
        assert trained == [np.count_nonzero(wakes <= time) for time in (0.05, 0.05, 1.4, 3.7)]
    early = paused.close()
    assert early.status == "interrupted"
    assert early.summary["virtual_time"] > 3.7
    assert outcome(resume(early.path).path) == outcome(whole.path)


def test_each_event_can_be_a_step(tmp_path):
    with gossiprec.prepare(often(**FAST, network=SLOW), out=tmp_path / "run") as run:
        events = np.unique(np.concatenate([tick.segment.time for tick in run.prepared.schedule.ticks]))
        for number in range(40):
            before = run.model(0)
            run.pause(run.next_event)
            assert run.time == events[number]
            assert before.keys() == run.model(0).keys()
        assert not run.pause(0.0)
        done = run.finish()
        assert run.next_event == np.inf
    assert done.status == "complete"
    with gossiprec.prepare(often(**FAST, network=SLOW), out=tmp_path / "change") as run:
        run.pause(0.3)
        with pytest.raises(ScenarioError, match=r"found a pause at time 0.3; expected a report"):
            run.change("training.learning_rate", 0.1)
        run.step()
        run.change("training.learning_rate", 0.1)
        with pytest.raises(ScenarioError, match="pause: found nan"):
            run.pause(np.nan)


@pytest.mark.parametrize(
    ("scenario", "options", "message"),
    [
        (often(**RUNS["pers-gossip"]), {}, "chooses peers by values of models"),
        (divided(often(**FAST), 2), {"make_shard_group": Threads}, "divided among shards"),
    ],
)
def test_a_run_that_cannot_be_cut_anywhere_says_so(scenario, options, message, tmp_path):
    with (
        gossiprec.prepare(scenario, out=tmp_path / "run", **options) as run,
        pytest.raises(ScenarioError, match=message),
    ):
        run.pause(0.5)


@pytest.fixture
def live(tmp_path):
    """A run that stands before its first event."""
    with gossiprec.prepare(often(**FAST, network=SLOW), out=tmp_path / "run") as run:
        yield run


def test_a_report_has_the_numbers_of_the_tables(live):
    assert (live.time, live.round, live.report) == (0.0, 0, None)
    report = live.step()
    assert (report.time, report.round, report.last) == (live.time, live.round, False)
    rows = gossiprec.open_run(live.path).metrics
    assert report.metrics == dict(zip(rows["metric"].tolist(), rows["value"].tolist(), strict=True))
    (attack,) = report.attacks
    assert attack["aac"] == gossiprec.open_run(live.path).attacks["aac"][0]
    assert live.report is report


def test_callbacks_see_every_message_and_every_report_in_order(live):
    messages, reports = [], []
    live.on_message(messages.append)
    live.on_report(lambda report: reports.append((len(messages), report)))
    run = live.finish()

    columns = run.events("message")
    assert [tuple(message) for message in messages] == list(
        zip(*(columns[name].tolist() for name in messages[0]._fields), strict=True)
    )
    assert [report.time for _, report in reports] == run.events("evaluate")["time"].tolist()
    assert reports[0][0] == np.count_nonzero(columns["time"] <= reports[0][1].time)
    assert reports[-1][0] == len(messages)


def test_until_stops_at_the_first_report_that_is_not_before_a_time(live):
    assert [report.time for report in live.until(2.5)] == [1.0, 2.0, 3.0]
    assert (live.until(2.5), live.time) == ([], 3.0)
    rest = live.until(np.inf)
    assert rest[-1].last
    with pytest.raises(LogError, match=r"has made its last report.*finish\(\)"):
        live.step()
    with pytest.raises(ScenarioError, match="found nan; expected a virtual time"):
        live.until(np.nan)


def test_the_model_of_a_node_is_the_one_that_it_has_at_that_time(live):
    scenario = often(**FAST, network=SLOW)
    for reports in (0, 2):
        prepared = carried_out(scenario, reports)
        rows, layout = final_models(prepared), prepared.components.layout
        if reports:
            live.until(reports)
        for node in (0, 7):
            found = live.model(node)
            assert list(found) == ["users", "items", *(b.name for b in layout.blocks if b.role == "shared")]
            flat = np.concatenate([found[name].ravel() for name in layout.tables])
            assert np.array_equal(flat, rows[node])
            assert found["items"].shape == (40, 8)
            found["items"][:] = 0.0  # a copy
            assert live.model(node)["items"].any()
    with pytest.raises(ScenarioError, match=r"found node 12; expected a node id from 0 to 11"):
        live.model(12)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["updates", "central"])
def test_every_mode_gives_the_models_by_which_it_is_scored(kind, tmp_path):
    with gossiprec.prepare(often(**RUNS[kind]), out=tmp_path / "run") as live:
        live.step()
        first, second = live.model(0), live.model(1)
        assert np.array_equal(first["items"], second["items"])
        assert first["users"].shape == ((12, 8) if kind == "central" else (1, 8))
        assert kind == "central" or not np.array_equal(first["users"], second["users"])


@pytest.mark.slow
def test_a_divided_run_is_stepped_too(tmp_path):
    scenario = often(**FAST, network=SLOW)
    whole = gossiprec.prepare(scenario, out=tmp_path / "whole")
    with gossiprec.prepare(divided(scenario, 2), out=tmp_path / "run", make_shard_group=Threads) as live:
        with pytest.raises(ScenarioError, match="step"):
            live.model(3)
        live.until(3), whole.until(3)
        for node in range(12):
            assert np.array_equal(live.model(node)["items"], whole.model(node)["items"])
        ended, undivided = live.finish(), whole.finish()
    assert ended.manifest["log_digest"] == undivided.manifest["log_digest"]
    for name in ("metrics.csv", "attacks.csv"):
        assert (ended.path / name).read_bytes() == (undivided.path / name).read_bytes()
    with pytest.raises(LogError, match="has ended"):
        live.model(3)


def test_an_error_between_two_reports_leaves_a_run_that_can_be_resumed(tmp_path):
    scenario = often(**FAST, checkpoint={"minutes": 1e9})
    live = gossiprec.prepare(scenario, out=tmp_path / "run")

    def fail():
        with live:
            live.until(3)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert gossiprec.open_run(live.path).status == "interrupted"
    assert len(checkpoints(live)) == 1
    assert outcome(resume(live.path).path) == outcome(simulate(scenario, out=tmp_path / "whole").path)


def test_an_error_in_a_callback_is_the_callers_and_the_run_goes_on(live):
    @live.on_report
    def refuse(report):
        if report.time == 1:
            raise ValueError("not this one")

    with pytest.raises(ValueError, match="not this one"):
        live.step()
    assert live.step().time == 2
    assert live.finish().status == "complete"


def test_ctrl_c_during_a_step_ends_the_run_and_the_loop(tmp_path):
    live = gossiprec.prepare(often(**FAST), out=tmp_path / "run", progress=Patient(2))
    with pytest.raises(KeyboardInterrupt):
        for _ in live:
            pass
    assert live.close().status == gossiprec.open_run(live.path).status == "interrupted"


def test_closed_before_its_first_report_it_has_no_checkpoint(tmp_path):
    live = gossiprec.prepare(tiny(**FAST), out=tmp_path / "run")
    run = live.close()
    assert (run.status, live.close().status, checkpoints(run)) == ("interrupted", "interrupted", [])
    with pytest.raises(LogError, match=r"has ended \(interrupted\).*gossiprec resume"):
        live.step()


def test_time_between_two_steps_is_not_the_runs(live, monkeypatch):
    from gossiprec.emulation.run import active_run

    live.step()
    now = active_run.read_clocks()
    later = type(now)(now.wall + 1000, now.processor + 1000)
    monkeypatch.setattr(active_run, "read_clocks", lambda: later)
    live.step()
    assert live.finish().summary["wall_seconds"] < 900


def test_a_folder_with_a_run_is_refused_before_any_work(live):
    with pytest.raises(LogError, match="in use by a running process"):
        gossiprec.prepare(often(**FAST), out=live.path)
    live.finish()
    with pytest.raises(LogError, match="already contains a run"):
        gossiprec.prepare(often(**FAST), out=live.path)
    with gossiprec.prepare(often(**FAST), out=live.path, on_exists="new") as other:
        assert other.path.name == "run-2"
