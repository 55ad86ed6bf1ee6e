"""What ``--dry-run`` says of a run: against what the run then is, and without the work of setting one up."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import gossiprec.emulation.assembly.data_loading
from gossiprec import simulate
from gossiprec.base.errors import ResourceError
from gossiprec.data.synthetic import Synthetic
from gossiprec.emulation import estimate_run, prepare
from gossiprec.emulation.estimate import timing
from gossiprec.scenario import load_scenario
from tests.emulation.tiny_runs import COORDINATOR, SINGLE, tiny


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch):
    monkeypatch.setattr(timing.os, "getloadavg", lambda: (0.0, 0.0, 0.0))


COALITIONS = {**SINGLE, "who": "coalition", "fraction": (0.25, 0.5), "momentum": (0.0, 0.9)}
FEW = {"name": "synthetic", "users": 60, "items": 80, "interactions": 900, "communities": 3}
FEW["split"] = {"name": "leave_last_k", "test": 2, "validation": 1}
LONG = {"name": "rand-gossip", "fanout": 3, "view": {"size": 3}, "wakes": 40}
UPDATES = {"name": "fedavg", "rounds": 6, "client_model": "none"}
WORLDS = {
    "gossip": {"observers": [SINGLE, COALITIONS], "protocol": LONG},
    "half its size": {"executor": {"name": "batched", "storage": "float16"}, "observers": [COALITIONS]},
    "everybody's rows": {"protocol": {**LONG, "user_table": "averaged"}, "observers": []},
    "trains on receive": {"protocol": {**LONG, "train_on": "receive", "wakes": 20}},
    "slow clocks": {"protocol": {**LONG, "wake": {"redraw": False}, "view": {"refresh": {"every": 4}, "size": 3}}},
    "inboxes": {"policies": [{"name": "robust-merge", "rule": "median", "buffer": 4, "nodes": {"fraction": 0.5}}]},
    "resets": {"churn": {"model": "reset"}, "observers": [COALITIONS]},
    "star": {"protocol": {"name": "fedavg", "rounds": 6, "participation": 0.5}, "observers": [COORDINATOR]},
    "clients without models": {
        "model": {"name": "ncf", "dim": 8, "hidden": [8]},
        "protocol": UPDATES,
        "training": {"batch_size": "full"},
        "observers": [COORDINATOR],
    },
    "tables of clients": {
        "model": {"name": "mf", "dim": 5, "loss": "bce"},
        "protocol": {**UPDATES, "merge": "mean"},
        "recommender": {"name": "gpfedrec"},
        "observers": [],
    },
    "who does better": {
        "dataset": {**FEW, "split": {**FEW["split"], "validation": 3}},
        "protocol": {"name": "pers-gossip", "wakes": 6},
        "observers": [SINGLE],
    },
    "central": {"protocol": {"name": "central", "epochs": 3}, "training": {"batch_size": 32}, "observers": []},
    "attributes": {
        "protocol": {"name": "fedavg", "rounds": 2},
        "observers": [{"name": "aia", "community_size": 3, "adversaries": 2, "models": 2}],
    },
}  # fmt: skip


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Rates of these runs go nowhere else, and no other runs have been."""
    monkeypatch.setenv("GOSSIPREC_RATES", str(tmp_path / "cache"))


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_what_follows_from_sizes_is_what_the_run_takes(world):
    scenario = load_scenario(tiny(**{"dataset": FEW, **world}))
    found, played = (estimate_run(scenario, played=played) for played in (False, True))
    run = prepare(scenario)
    sizes, clocks = run.sizes(), ("virtual_time",)

    assert {**played.sizes, "executor": sizes["executor"]} == sizes
    assert {**found.sizes, **{key: sizes[key] for key in clocks}} == {**played.sizes}
    assert found.sizes["virtual_time"] == pytest.approx(sizes["virtual_time"], rel=0.15, abs=1.5)
    assert found.memory_bytes.keys() == run.memory_bytes.keys()
    for part, size in run.memory_bytes.items():
        near = {"rel": 0.25} if part == "observers" else {"abs": 0}
        assert found.memory_bytes[part] == pytest.approx(size, **near), part
        assert played.memory_bytes[part] == pytest.approx(size, **near), part


def test_what_the_parts_are_said_to_take_they_take():
    run = prepare(load_scenario(tiny(dataset=FEW, **WORLDS["gossip"])))
    arena, split, schedule = run.executor.work.arena, run.components.split, run.schedule
    parts = [split.train.values, split.validation.values, split.test.values, split.sequences.values]
    tape = [
        array
        for tick in schedule.ticks
        for array in vars(tick.segment).values()
        if isinstance(array, np.ndarray)
    ]
    events = sum(array.nbytes for array in tape) + sum(
        getattr(schedule.deliveries, name).nbytes for name in ("message", "sender", "receiver", "time")
    )

    assert run.memory_bytes["parameters"] == arena.rows[:60].nbytes
    assert run.memory_bytes["data"] == sum(part.nbytes for part in parts) + run.components.feed.member.nbytes
    assert 0.4 * run.memory_bytes["events"] < events < run.memory_bytes["events"]


def test_rows_that_are_told_of_are_rows_of_the_arena():
    beyond = set()
    for world in ("gossip", "resets", "inboxes", "half its size"):
        run = prepare(load_scenario(tiny(dataset=FEW, **WORLDS[world])))
        rows, told = run.executor.work.arena.rows, run.memory_bytes
        parts = ("parameters", "versions in waiting", "inboxes", "first versions")
        beyond.add(len(rows) - sum(told.get(part, 0) for part in parts) // rows[:1].nbytes)
    assert len(beyond) == 1  # what the planner has room for besides


EVENTFUL = {
    "away": {"churn": {"sessions": [{"period": 4, "offline_from": 1, "offline_until": 2}]}},
    "lost": {"network": {"loss": 0.3}},
    "few neighbours": {
        "protocol": {"name": "rand-gossip", "fanout": 3, "wakes": 6, "view": {"graph": {"family": "ring"}}}
    },
    "heads and members": {"protocol": {"name": "semi-decentralised", "clusters": 6, "rounds": 4, "fanout": 1}},
    "poisoners": {"attackers": [{"name": "a-ra", "number": 3, "targets": [1]}], "observers": []},
}  # fmt: skip


@pytest.mark.parametrize("world", EVENTFUL.values(), ids=EVENTFUL)
def test_where_events_decide_counts_are_at_most_what_is_said(world):
    protocol = {"protocol": {"name": "rand-gossip", "fanout": 3, "wakes": 6}} | world
    scenario = load_scenario(tiny(dataset=FEW, **protocol))
    found, played = (estimate_run(scenario, played=played) for played in (False, True))

    assert played.count_accuracy == "exact"
    assert {**played.sizes} == prepare(scenario).sizes()
    for key in ("wakes", "messages", "node_updates"):
        assert played.sizes[key] <= found.sizes[key], key
    assert "attackers" in world or found.count_accuracy == "at most"


def test_data_that_take_long_to_draw_are_not_drawn(monkeypatch):
    scenario = load_scenario(tiny(dataset={**FEW, "users": 400, "interactions": 6000}, **WORLDS["gossip"]))
    run = prepare(scenario)
    monkeypatch.setattr(gossiprec.emulation.assembly.data_loading, "MAX_SAMPLE", 1000)
    found = estimate_run(scenario)

    assert not found.data_loaded
    assert found.sizes["nodes"] == 400
    assert found.sizes["interactions"] == pytest.approx(6000, rel=0.01)
    assert found.sizes["messages"] == run.sizes()["messages"]
    assert sum(found.memory_bytes.values()) == pytest.approx(sum(run.memory_bytes.values()), rel=0.1)


@pytest.mark.parametrize("users", [60_000, 1_000_000])
def test_a_world_that_does_not_fit_is_refused_before_it_is_drawn(users, monkeypatch):
    load = Synthetic.load

    def drawn(self, seed):
        assert self.options.users < 2000
        return load(self, seed)

    monkeypatch.setattr(Synthetic, "load", drawn)
    dataset = {**FEW, "users": users, "items": 1682, "interactions": 106 * users}
    scenario = load_scenario(tiny(dataset=dataset, model={"name": "gmf", "dim": 1024}))

    assert estimate_run(scenario).sizes["nodes"] == users
    with pytest.raises(ResourceError, match=r"the run needs .*parameters"):
        prepare(scenario)


def test_a_limit_to_the_first_users_counts(monkeypatch):
    monkeypatch.setattr(gossiprec.emulation.assembly.data_loading, "MAX_SAMPLE", 100)
    found = estimate_run(load_scenario(tiny(dataset={**FEW, "limit_users": 30})))
    assert (found.sizes["nodes"], found.sizes["wakes"]) == (30, 180)
    assert found.sizes["interactions"] == pytest.approx(450, rel=0.2)


@pytest.mark.slow
@pytest.mark.full
def test_torch_is_not_needed(tmp_path):
    dataset = {**FEW, "users": 1_000_000, "items": 1682, "interactions": 100_000_000}
    path = tmp_path / "large.yaml"
    path.write_text(json.dumps(tiny(dataset=dataset, observers=[], executor={"name": "auto"})))
    program = (
        "import sys\n"
        "from gossiprec.emulation import estimate_run\n"
        "from gossiprec.scenario import load_scenario\n"
        f"print(estimate_run(load_scenario({str(path)!r})).sizes['executor'], 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["fused", "False"]


def test_how_long_a_run_takes_follows_from_earlier_ones(tmp_path):
    scenario = load_scenario(tiny())
    assert estimate_run(scenario).duration is None

    run = simulate(scenario, out=tmp_path / "run")
    found = estimate_run(scenario).duration
    assert 0 < found.seconds - timing.SETTING_UP_S <= run.summary["wall_seconds"]
    assert found.low < found.seconds < found.high
    assert "from a run of this kind" in found.by
    longer = estimate_run(
        scenario.with_(protocol=load_scenario(tiny(protocol={**LONG, "wakes": 60})).protocol)
    ).duration
    took = found.seconds - timing.SETTING_UP_S
    fixed = timing.FIXED_SHARE / 2 * took
    assert longer.seconds - timing.SETTING_UP_S == pytest.approx(fixed + 10 * (took - fixed))
    assert longer.high / longer.low > found.high / found.low
    other = estimate_run(load_scenario(tiny(observers=[]))).duration
    assert "of other kinds" in other.by
    low, high = other.low - timing.SETTING_UP_LEAST_S, other.high - timing.SETTING_UP_MOST_S
    assert high / low > 0.99 * timing.LEAST_ERROR[False] ** 2
    assert estimate_run(load_scenario(tiny(model={"name": "mf", "dim": 8}))).duration is None
    assert estimate_run(load_scenario(tiny(executor={"name": "batched"}))).duration is None


KIND = timing.run_kind(load_scenario(tiny()), "reference")


def test_a_busy_machine_has_a_later_upper_end_only(monkeypatch):
    timing.record_timing(KIND, timing.RunTiming(1e6, 10.0, 1))
    monkeypatch.setattr(timing, "usable_cores", lambda: 2)
    monkeypatch.setattr(timing.os, "getloadavg", lambda: (1.9, 9.0, 9.0))
    quiet = timing.predict_duration(KIND, 1e6, threads=1)
    monkeypatch.setattr(timing.os, "getloadavg", lambda: (8.0, 0.0, 0.0))
    busy = timing.predict_duration(KIND, 1e6, threads=1)
    assert busy == replace(quiet, high=4 * quiet.high)


def test_the_run_of_the_nearest_size_tells_and_the_latest_are_kept():
    for work, seconds in ((1e3, 9.0), (1e6, 10.0), (1e9, 5000.0)):
        timing.record_timing(KIND, timing.RunTiming(work, seconds, 2))
    found = timing.predict_duration(KIND, 2e6, threads=1)
    assert found.seconds == pytest.approx(timing.SETTING_UP_S + 0.9 + 4 * 9.1)
    assert "3 runs" in found.by
    for _ in range(timing.MOST_KEPT):
        timing.record_timing(KIND, timing.RunTiming(1e6, 1.0, 1))
    assert timing.predict_duration(KIND, 2e7, threads=1).seconds == pytest.approx(
        timing.SETTING_UP_S + 0.45 + 20 * 0.55
    )


def test_kinds_that_ran_last_are_kept(monkeypatch):
    monkeypatch.setattr(timing, "MOST_KINDS", 2)
    for kind in ("a", "b", "a", "c"):
        timing.record_timing(kind, timing.RunTiming(1e6, 1.0, 1))
    (kept,) = timing.read_rates().values()
    assert {kind: len(found) for kind, found in kept.items()} == {"a": 2, "c": 1}


def test_the_interval_covers_the_errors_of_earlier_predictions():
    """Equal work, times that differ by a factor of 9: each is predicted by another one."""
    for seconds in (10.0, 10.5):
        timing.record_timing(KIND, timing.RunTiming(1e6, seconds, 1))
    narrow = timing.predict_duration(KIND, 1e6, threads=1)
    assert narrow.low <= 10.0 / timing.LEAST_ERROR[True] + 1
    assert narrow.high < 30.0
    for seconds in (10.0, 90.0, 10.0, 90.0):
        timing.record_timing(KIND, timing.RunTiming(1e6, seconds, 1))
    wide = timing.predict_duration(KIND, 1e6, threads=1)
    assert wide.high >= 90.0
    assert wide.high > 2 * narrow.high


def test_a_run_of_a_moment_does_not_tell_how_long_a_large_one_takes():
    timing.record_timing(KIND, timing.RunTiming(1e6, 1.0, 1))
    assert timing.predict_duration(KIND, 1e9, threads=1) is None
    timing.record_timing(KIND, timing.RunTiming(1e6, 6.0, 1))
    assert timing.predict_duration(KIND, 1e9, threads=1).seconds == pytest.approx(
        timing.SETTING_UP_S + 0.9 + 1000 * 5.1
    )


def test_runs_of_other_kinds_that_disagree_say_nothing():
    kinds = [KIND.replace("cda single", who) for who in ("cda coalition", "aia")]
    timing.record_timing(kinds[0], timing.RunTiming(1e6, 10.0, 1))
    assert timing.predict_duration(KIND, 1e6, threads=1) is not None
    timing.record_timing(kinds[1], timing.RunTiming(1e6, 10_000.0, 1))
    assert timing.predict_duration(KIND, 1e6, threads=1) is None


def test_rates_of_the_machines_that_ran_last_are_kept(monkeypatch):
    for number in (0, *range(timing.MOST_MACHINES), 0, timing.MOST_MACHINES):
        monkeypatch.setattr(timing.platform, "node", lambda name=f"host{number}": name)
        timing.record_timing(KIND, timing.RunTiming(1e6, 1.0, 1))
    kept = list(timing.read_rates())
    assert len(kept) == timing.MOST_MACHINES
    assert kept[-2:] == ["host0", f"host{timing.MOST_MACHINES}"]
    assert "host1" not in kept


RATES = ("[1e-320, 9, 1]", "[1, Infinity, 1]", f"[1, 1, {10**400}]", "[1, 0, 1]")
DAMAGED = (
    "", "[1]", "{\"h\":", "[" * 100_000, "\udcff", " " * timing.MOST_BYTES + "{}", '{"HOST": 3}',
    *(f'{{"HOST": {{"KIND": [{rate}]}}}}' for rate in RATES),
    '{"HOST": {"KIND": [[1, 2], [0, 0, 0], "x"], "x": [[1, 1, 1]], "y": 3}}',
)  # fmt: skip


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_file_of_rates_is_as_good_as_none(text):
    path = timing.rates_path()
    path.parent.mkdir(parents=True)
    told = text.replace("HOST", timing.platform.node()).replace('"KIND"', json.dumps(KIND))
    path.write_bytes(told.encode(errors="surrogateescape"))
    assert timing.predict_duration(KIND, 1.0, threads=1) is None
    timing.record_timing(KIND, timing.RunTiming(1.0, 1.0, 1))
    assert timing.predict_duration(KIND, 1.0, threads=1) is not None


def test_a_cache_that_cannot_be_written_to_is_no_matter(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GOSSIPREC_RATES", str(tmp_path / "file"))
    timing.record_timing(KIND, timing.RunTiming(1.0, 1.0, 1))
    assert timing.predict_duration(KIND, 1.0, threads=1) is None


def test_runs_that_end_at_once_leave_all_their_rates():
    def note(number):
        timing.record_timing(f"kind {number}", timing.RunTiming(1e6, 1.0 + number, 1))

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(note, range(32))) == [None] * 32
    assert len(timing.read_rates()[timing.platform.node()]) == 32


def test_a_cache_that_cannot_be_written_to_keeps_nothing_and_hurts_nobody():
    timing.rates_path().mkdir(parents=True)  # a folder in the way
    timing.record_timing(KIND, timing.RunTiming(1e6, 1.0, 1))
    assert timing.predict_duration(KIND, 1e6, threads=1) is None


def test_the_effort_of_an_estimate_does_not_grow_with_the_records(monkeypatch):
    calls = []
    predict = timing._predict
    monkeypatch.setattr(timing, "_predict", lambda *known: calls.append(len(known[0])) or predict(*known))
    rates = {f"fused gmf None p{n} o": [timing.RunTiming(1e6, 10.0, 1)] * 3 for n in range(300)}
    monkeypatch.setattr(timing, "read_rates", lambda: {timing.platform.node(): rates})
    assert timing.predict_duration("fused gmf None p1 o", 2e6, 1) is not None
    assert len(calls) <= 1 + 2 * timing.MOST_JUDGED
    assert max(calls[1:]) < timing.MOST_JUDGED
