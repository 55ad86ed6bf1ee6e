"""The time of a run from its first rounds."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from gossiprec.cli.main import exit_code
from gossiprec.emulation import estimate_run
from gossiprec.emulation.estimate import timing
from gossiprec.emulation.estimate.timing import SETTING_UP_MOST_S
from gossiprec.emulation.run import calibration
from gossiprec.emulation.run.calibration import (
    FASTER,
    FIRST_ROUNDS,
    GROWTH_OF_COSTS,
    LOADED,
    SLOWER,
    FirstRounds,
    PartTimes,
    compute_parts,
    predict_from_parts,
    run_length,
    shortened,
    with_calibration,
)
from gossiprec.scenario import load_scenario
from gossiprec.study.calibration import calibrate_kinds
from gossiprec.study.run_hash import SharedSimulation
from tests.emulation.tiny_runs import tiny

SPLIT = {"name": "leave_last_k", "test": 1}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GOSSIPREC_RATES", str(tmp_path / "cache"))
    monkeypatch.setattr(calibration, "waiting_share", lambda: 1.0)


def predicted(parts, rounds, reports, waiting=1.0):
    return predict_from_parts(FirstRounds(parts, 4.0, waiting), rounds, reports)


def test_rounds_reports_and_first_use_are_extrapolated_each_by_its_number():
    parts = [PartTimes(1, 3.0, 0.5, 1.0, 2.0), PartTimes(10, 5.0, 0.1, 0.4, 0.2)]
    found = predicted(parts, rounds=100, reports=10)
    rounds = 0.5 * 100 + 10 * 0.1 + 0.4
    first_use = (3.0 - 0.5) + (0.5 - 0.1) + (1.0 - 0.4)
    assert found.seconds == pytest.approx(2.0 + rounds + 9 * 0.4 + first_use)
    assert found.low == pytest.approx((0.2 + rounds + 9 * 0.4) / FASTER)
    high = 2.0 + rounds + 9 * GROWTH_OF_COSTS * 0.4 + first_use
    assert found.high == pytest.approx(high * LOADED * SLOWER + SETTING_UP_MOST_S)
    assert "10 of 100 rounds" in found.by


def test_what_every_part_needs_counts_once_at_the_lower_end():
    """Half a second for any part, and a hundredth for a round: 500 rounds take 5.5 s, not half as much per round."""
    parts = [PartTimes(n, 0.5 + 0.01 * n, 0.0, 0.0, 0.0) for n in (1, 2, 10)]
    found = predicted(parts, rounds=500, reports=1)
    assert found.low == pytest.approx(5.5 / FASTER)
    assert found.high > 0.06 * 500
    assert found.low < 5.5 < found.high


def test_costs_that_grew_from_part_to_part_grow_on_up_to_a_limit():
    def highest(power, rounds=160):
        parts = [PartTimes(n, 0.1 * n, 0.0, 0.2 * n**power, 0.0) for n in (1, 4, 16)]
        return predicted(parts, rounds, 11).high

    even, root, linear = (highest(power) - highest(power, 16) for power in (0.0, 0.5, 1.0))
    assert even < root < linear
    assert linear == pytest.approx((144 * 0.1 + 10 * GROWTH_OF_COSTS * 3.2) * LOADED * SLOWER)
    rising, steady = (
        predicted([PartTimes(n, 0.1 * n**power, 0.0, 0.0, 0.0) for n in (1, 4, 16)], 64, 1)
        for power in (1.5, 1.0)
    )
    grown, even = (found.high - SETTING_UP_MOST_S for found in (rising, steady))
    assert grown == pytest.approx(even * 4**0.5 * 16**0.5)


def test_a_run_may_have_the_machine_for_itself_or_the_same_load_again():
    """Its threads waited for two thirds of the time; a busier machine at the time of the run is not to be known."""

    def found(busy, waiting):
        return predicted([PartTimes(n, 0.1 * n, 0.0, 0.0, 1.0, busy) for n in (1, 2, 10)], 50, 5, waiting)

    quiet, shared = found(1.0, 1.0), found(1 / 3, 3.0)
    assert shared.seconds == pytest.approx(quiet.seconds / 3**0.5)
    assert shared.low == pytest.approx(quiet.low / 3)
    measured, loaded = (each.high - SETTING_UP_MOST_S for each in (shared, quiet))
    assert measured == pytest.approx(loaded / LOADED)
    assert found(0.25, 1.0).low == pytest.approx(quiet.low / 2), (
        "such a load would be in the mean of a minute"
    )
    assert quiet.high / quiet.low < 5


def test_one_part_includes_the_loading_of_kernels_so_that_its_range_begins_lower():
    one, two = (predicted([PartTimes(1, 3.0, 0.1, 0.0, 1.0)] * n, rounds=50, reports=5) for n in (1, 2))
    assert one.low < two.low / 3
    assert one.seconds == two.seconds


def test_a_scenario_is_calibrated_without_what_happens_later():
    late = {
        "evaluate": {"every": 2, "metrics": ["hr@5", "val_recall@5"], "keep": {"versions": [4]}, "also": [5]},
        "stop": {"measure": "val_recall@5", "patience": 2},
        "changes": [{"at": 4, "set": {"training.learning_rate": 0.1}}],
    }
    scenario = load_scenario(tiny(**late))
    plain = shortened(scenario, estimate_run(scenario))
    assert load_scenario({**plain, "protocol": {**plain["protocol"], "wakes": 1}}).changes == ()
    assert "stop" not in plain
    assert plain["executor"]["name"] == "fused"


@pytest.mark.slow
@pytest.mark.full
def test_parts_get_longer_up_to_the_whole_run_and_leave_no_rates():
    scenario = load_scenario(tiny(executor={"name": "reference"}))
    plain = shortened(scenario, estimate_run(scenario))
    parts = list(compute_parts(plain, "wakes", 6, seconds=60.0))
    assert [part.rounds for part in parts] == [1, 2, 6]
    assert all(0.0 < part.busy <= 1.0 for part in parts)
    assert timing.RATES.read() == {}
    assert [part.rounds for part in compute_parts(plain, "wakes", 6, seconds=1e-6)] == [1, 2]


@pytest.mark.slow
@pytest.mark.full
def test_a_run_without_earlier_ones_has_a_time_and_only_then_is_computed(monkeypatch):
    scenario = load_scenario(tiny(executor={"name": "reference"}))
    estimate = estimate_run(scenario)
    assert with_calibration(scenario, estimate, None, 0.0) is estimate
    rare = load_scenario(
        tiny(executor={"name": "reference"}), ["evaluate.every=50"]
    )  # one report, at the end
    short = with_calibration(rare, estimate_run(rare), None, 1.0).duration
    assert 0.0 < short.low < short.seconds < short.high
    found = with_calibration(scenario, estimate, None, 2.0).duration
    assert found.low < found.seconds < found.high
    assert "of 6 rounds, computed now" in found.by

    compute = calibration._computed
    monkeypatch.setattr(calibration, "_computed", lambda *_: pytest.fail("the rounds are known"))
    again = load_scenario(tiny(executor={"name": "reference"}), ["seed=9", "name=other", "evaluate.every=3"])
    known = with_calibration(again, estimate_run(again), None, 2.0).duration
    assert known.by == found.by.replace("now", "earlier")
    assert known.seconds < found.seconds, "fewer reports"
    asked = []
    monkeypatch.setattr(calibration, "_computed", lambda order: asked.append(order) or [])
    wider = load_scenario(tiny(executor={"name": "reference"}), ["model.dim=16"])
    with_calibration(wider, estimate_run(wider), None, 2.0)
    with_calibration(again, estimate_run(again), None, 3.0)
    assert [order["seconds"] for order in asked] == [2.0, 3.0]
    monkeypatch.setattr(calibration, "_computed", compute)
    assert len(FIRST_ROUNDS.here()) == 1

    timing.record_timing(estimate.kind, timing.RunTiming(estimate.work, 20.0, 1))
    known = estimate_run(scenario)
    monkeypatch.setattr(calibration, "calibrate", lambda *_: pytest.fail("a good prediction is there"))
    monkeypatch.setattr(timing, "waiting_share", lambda: 1.0)
    assert with_calibration(scenario, estimate_run(scenario), None, 2.0).duration.by == known.duration.by


@pytest.mark.full
def test_a_run_that_fails_in_its_first_round_has_no_time_and_says_so(monkeypatch):
    scenario = load_scenario(tiny())
    monkeypatch.setattr(
        calibration, "shortened", lambda *_: {"name": "no scenario", "protocol": {}, "evaluate": {}}
    )
    estimate = estimate_run(scenario)
    notes = []
    progress = SimpleNamespace(phase=lambda text: None, note=notes.append)
    assert with_calibration(scenario, estimate, progress, 1.0) is estimate
    assert [note.partition(",")[0] for note in notes] == ["the first round failed or took over 15 s"]


def test_of_each_kind_of_a_study_the_largest_run_is_computed_and_others_follow_by_work(monkeypatch):
    scenarios = [load_scenario(tiny(), [f"protocol.wakes={wakes}"]) for wakes in (3, 12, 6)]
    simulations = [SharedSimulation(str(n), scenario, ()) for n, scenario in enumerate(scenarios)]
    estimates = {each.hash: estimate_run(each.scenario) for each in simulations}
    asked = []

    def calibrate(scenario, *_):
        asked.append(run_length(scenario))
        return timing.PredictedDuration(10.0, 5.0, 20.0, "computed now")

    monkeypatch.setattr(calibration, "calibrate", calibrate)
    found = calibrate_kinds(simulations, estimates, None, 1.0)
    assert asked == [("wakes", 12)]
    assert {key: each.duration.seconds for key, each in found.items()} == pytest.approx(
        {"0": 2.5, "1": 10.0, "2": 5.0}
    )
    assert found["0"].duration.low < 5.0 / 4 < 20.0 / 4 < found["0"].duration.high
    assert json.dumps(vars(found["1"].duration))


def test_times_of_a_file_hold_for_its_sizes_and_the_code_that_measured_them(tmp_path, monkeypatch):
    """The scenario names `ratings.csv`, and so does another one in another folder, or after the file grew."""
    monkeypatch.chdir(tmp_path)
    scenario = load_scenario(tiny(dataset={"name": "file", "path": "ratings.csv", "split": SPLIT}))
    asked = []
    monkeypatch.setattr(calibration, "_computed", lambda order: asked.append(1) or [PartTimes(1, 1, 0, 0, 0)])

    def dry_run(users):
        rows = [f"{user},{user + place},{place}" for user in range(users) for place in range(6)]
        Path("ratings.csv").write_text("\n".join(["user,item,time", *rows]))
        found = with_calibration(scenario, estimate_run(scenario), None, 1.0)
        return found.duration.by.rpartition(" ")[2], len(asked)

    assert [dry_run(20), dry_run(20), dry_run(30), dry_run(20)] == [
        ("now", 1), ("earlier", 1), ("now", 2), ("earlier", 2)
    ]  # fmt: skip
    monkeypatch.setattr(calibration, "scenario_code_version", lambda _: "after an upgrade")
    assert dry_run(20) == ("now", 3)


def with_times(**changed):
    """Return the text of a file of times for any key, with some of them changed."""
    part = {"rounds": 1, "of_rounds": 1.0, "of_utility": 0.0, "of_attacks": 0.0, "once": 0.0, "busy": 1.0}
    times = {"parts": None, "seconds": 9.0, "waiting": 1.0} | {
        k: v for k, v in changed.items() if k not in part
    }
    first = list((part | {k: v for k, v in changed.items() if k in part}).values())
    if times["parts"] is None:
        times["parts"] = [first]
    return json.dumps({timing.platform.node(): {"KEY": list(times.values())}})


DAMAGED = {
    "nothing": "", "no JSON": "{\"h\":", "a list": "[1, 2]", "deep": "[" * 100_000, "not text": "\udcff",
    "large": " " * timing.MOST_BYTES + with_times(), "no part": with_times(parts=[]),
    "equal parts": with_times(parts=[[2, 1.0, 1.0, 1.0, 0.0, 1.0]] * 3), "longer than the run": with_times(rounds=7),
    **{f"{key} of {value}": with_times(**{key: value}) for key, value in (
        ("rounds", 0), ("rounds", 10**400), ("of_rounds", float("nan")), ("of_rounds", -1.0), ("once", 1e308),
        ("of_utility", "x"), ("of_attacks", float("inf")), ("busy", 0.0), ("waiting", 0.0), ("waiting", None),
        ("seconds", float("nan")), ("seconds", float("inf")),
    )},
}  # fmt: skip


@pytest.fixture
def dry_run(monkeypatch, tmp_path, capsys):
    """Return a function that makes a dry run, of which any key is KEY, and returns the source of its time."""
    monkeypatch.setattr(calibration, "_key", lambda *_: "KEY")
    monkeypatch.setattr(calibration, "_computed", lambda order: [PartTimes(1, 1.0, 0.0, 0.0, 0.0)])
    path = tmp_path / "tiny.yaml"
    path.write_text(json.dumps(tiny()))

    def made():
        assert exit_code(["simulate", str(path), "--dry-run", "--json", "--calibrate", "1"]) == 0
        return json.loads(capsys.readouterr().out)["seconds"]["by"]

    FIRST_ROUNDS.path.parent.mkdir(mode=0o700)
    return made


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_of_times_is_replaced_by_the_next_dry_run(dry_run, name):
    FIRST_ROUNDS.path.write_text(with_times())
    assert FIRST_ROUNDS.here()["KEY"].seconds == 9.0
    FIRST_ROUNDS.path.write_bytes(DAMAGED[name].encode(errors="surrogateescape"))
    assert dry_run().endswith("now")
    assert FIRST_ROUNDS.here()["KEY"].seconds == 1.0


@pytest.mark.parametrize("rate", ["[1e-320, 9, 1]", "[1, Infinity, 1]", f"[1, 1, {10**400}]", "[1, 0, 1]"])
def test_damaged_rates_predict_nothing(dry_run, rate):
    kind = json.dumps(estimate_run(load_scenario(tiny())).kind)
    timing.RATES.path.write_text(f'{{"{timing.platform.node()}": {{{kind}: [{rate}]}}}}')
    assert dry_run().endswith("now")


def test_times_are_kept_of_the_machines_that_stored_last(monkeypatch):
    for number in (0, *range(timing.MOST_MACHINES), 0, timing.MOST_MACHINES):
        monkeypatch.setattr(timing.platform, "node", lambda name=f"host{number}": name)
        FIRST_ROUNDS.put("key", lambda _: FirstRounds([PartTimes(1, 1.0, 0.0, 0.0, 0.0)], 1.0, 1.0))
    kept = list(FIRST_ROUNDS.read())
    assert len(kept) == timing.MOST_MACHINES
    assert kept[-2:] == ["host0", f"host{timing.MOST_MACHINES}"]
    assert "host1" not in kept
