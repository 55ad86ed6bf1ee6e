"""``gossiprec simulate`` from the scenario to the closing table."""

import json
import re
from pathlib import Path
from shlex import quote

import pytest
from calls import QUICK, ROOT, SMOKE, invoke

import gossiprec.figures.curves
from gossiprec import open_run
from gossiprec.scenario import load_scenario
from gossiprec.scenario.bundled import bundled_files as all_shipped

DATA = ROOT.parent / "shared" / "data"
REAL = {"movielens-100k": DATA / "ml-100k", "movielens-1m": DATA / "ml-1m"}
"""Where the data sets lie that a shipped scenario only names."""
MADE_UP_CITY = "{name: synthetic-checkins, users: 12, items: 400, checkins: 540, split: {name: published}}"
"""In place of check-ins: their readers have tests of their own, and 38,333 places are no matter of a second."""
CDA = "cda_"
"""How scenarios of the paper on community detection begin: many, and the dearest, with observers of all nodes."""
SHIPPED = sorted(one.path for one in all_shipped("scenarios").values())


def shipped(path):
    """A test of the scenario in `path`, skipped where it needs data that are not there."""
    data = REAL.get(load_scenario(path).dataset.name)
    absent = pytest.mark.skipif(bool(data) and not data.exists(), reason=f"needs {data}")
    return pytest.param(path, id=path.name, marks=[pytest.mark.realdata, absent] if data else [])


def looks(scenario):
    """Return what decides how the pictures of a scenario look: whom they tell of, over which time, and which curves."""
    observers = frozenset((each.name, getattr(each.options, "who", None)) for each in scenario.observers)
    return scenario.protocol.name, observers, tuple(scenario.evaluate.metrics)


DRAWN = {
    looks(scenario): path
    for path, scenario in sorted(
        ((path, load_scenario(path)) for path in SHIPPED), key=lambda each: each[1].dataset.name not in REAL
    )
}.values()
"""One scenario of each look, if possible one whose data are everywhere: drawing takes longer than a run of a second."""
DEAR = {"dp-sgd", "share-less"}
"""Policies under which plain torch takes many steps: one for each sample, or those of fictive users."""
LENGTH = {"fedavg": "rounds", "semi-decentralised": "rounds", "central": "epochs"}


def shortened(path):
    """Overrides that make the scenario in `path` a matter of a second."""
    scenario = load_scenario(path)
    if scenario.dataset.name in ("foursquare-nyc", "gowalla"):
        yield f"dataset={MADE_UP_CITY}"
    if scenario.dataset.name == "files":  # of a public program, which are not shipped
        yield "dataset={name: synthetic, users: 40, items: 60, interactions: 600, split: {name: random}}"
    if "contacts" not in scenario.resolved()["protocol"].get(
        "view", {}
    ):  # a trace of contacts names all nodes
        yield f"dataset.limit_users={12 if path.stem.startswith(CDA) else 20}"
    yield f"protocol.{LENGTH.get(scenario.protocol.name, 'wakes')}=2"
    if (scenario.resolved()["stop"] or {}).get("patience"):
        yield "stop.patience=1"
    if scenario.protocol.name == "central":
        yield "training.batch_size=64"
    if "concurrency" in scenario.resolved()["protocol"].get("aggregation", {}):
        yield "protocol.aggregation.concurrency=12"
    if scenario.resolved()["protocol"].get("slice"):
        yield "protocol.slice=8"
    for index, _ in enumerate(scenario.attackers):
        yield f"attackers.{index}.fraction=0.1"
    yield "evaluate.every=1"
    yield f"plots={str(path in DRAWN).lower()}"
    if scenario.evaluate.group_choices:
        yield "evaluate.groups=[{by: gender}]"  # of 20 users
    if scenario.dataset.name in REAL:
        yield f"dataset.path={REAL[scenario.dataset.name]}"
    for index, observer in enumerate(scenario.observers):
        if "community_size" in type(observer.options).model_fields:
            yield f"observers.{index}.community_size=5"
        if observer.name == "aia":
            yield f"observers.{index}.models=4"


def quick(capsys, tmp_path, *arguments):
    """Run the smoke scenario for two wakes into ``tmp_path/run``; return stdout and the run."""
    code, out, err = invoke(capsys, "simulate", SMOKE, *QUICK, "--out", tmp_path / "run", *arguments)
    assert code == 0, err
    return out, open_run(tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("path", [shipped(path) for path in SHIPPED])
@pytest.mark.cases(7)
def test_a_shipped_scenario_runs_from_end_to_end(capsys, tmp_path, path):
    overrides = [part for text in shortened(path) for part in ("--set", text)]
    executor = "fused" if any(policy.name in DEAR for policy in load_scenario(path).policies) else "reference"
    arguments = (path, *overrides, "--executor", executor, "--out", tmp_path / "run")
    code, out, err = invoke(capsys, "simulate", *arguments)

    assert code == 0, err
    run = open_run(tmp_path / "run")
    assert run.manifest["status"] == "complete"
    assert run.log.complete
    assert run.summary["node_updates"] > 0
    for attack in run.summary["attacks"]:
        assert 0 <= attack["last_aac"] <= attack["max_aac"] <= 1
        assert attack["observer"] in out
    if run.summary["attacks"] and path in DRAWN:  # there is nothing to draw without
        assert all((run.path / name).stat().st_size for name in ("cdf.png", "curves.png"))
        assert f"figures       {run.path / 'cdf.png'}, {run.path / 'curves.png'}" in out
    assert f"gossiprec report {quote(str(run.path))}\n" in out
    code, _, err = invoke(capsys, "report", run.path)
    assert code == 0, err


def test_the_closing_table_says_what_the_summary_says(capsys, tmp_path):
    out, run = quick(capsys, tmp_path)
    attack = run.summary["attacks"][0]
    line = next(line for line in out.splitlines() if line.startswith("single"))
    assert line.split() == [
        "single",
        "standardized",
        "0.9",
        "5",
        f"{100 * attack['max_aac']:.1f}",
        str(attack["at_round"]),
        f"{100 * attack['best10_min']:.1f}/{100 * attack['best10_mean']:.1f}",
        f"{100 * attack['upper_bound']:.1f}",
        f"{100 * attack['random_bound']:.1f}",
    ]
    assert f"hr@5 {100 * run.summary['utility']['hr@5']:.1f} %" in out
    assert "48 local epochs" in out
    assert str(run.path) in out


def test_json_is_the_summary_and_nothing_else(capsys, tmp_path):
    out, run = quick(capsys, tmp_path, "--json")
    assert json.loads(out) == {**run.summary, "run": str(run.path)}


@pytest.mark.slow
def test_progress_goes_to_stderr_and_quiet_ends_it(capsys, tmp_path):
    loud = invoke(capsys, "simulate", SMOKE, *QUICK, "--out", tmp_path / "loud")
    quiet = invoke(capsys, "simulate", SMOKE, *QUICK, "--out", tmp_path / "quiet", "--quiet")
    assert "simulating ...\n" in loud[2]
    assert "simulating" not in loud[1]
    assert quiet[2] == ""


def test_short_options_are_overrides(capsys, tmp_path):
    _, run = quick(capsys, tmp_path, "--seed", "7", "--threads", "1", "--set", "seed=3")
    assert run.scenario["seed"] == 7
    assert run.scenario["executor"]["threads"] == 1
    assert run.scenario["executor"]["name"] == "fused"


def test_seed_zero_is_a_seed(capsys, tmp_path):
    _, run = quick(capsys, tmp_path, "--seed", "0", "--set", "seed=3")
    assert run.scenario["seed"] == 0


def test_a_run_goes_to_a_folder_named_after_scenario_and_seed(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert invoke(capsys, "simulate", SMOKE, *QUICK, "--seed", "4")[0] == 0
    assert open_run("runs/smoke-s4").manifest["status"] == "complete"


@pytest.mark.slow
def test_the_scenario_in_a_run_directory_runs_to_the_same_log(capsys, tmp_path):
    _, first = quick(capsys, tmp_path)
    again = ("simulate", first.path / "scenario.yaml", "--no-plots", "--out", tmp_path / "again")
    assert invoke(capsys, *again)[0] == 0
    assert open_run(tmp_path / "again").log.digest == first.log.digest


@pytest.mark.slow
def test_no_pictures_are_drawn_if_the_scenario_or_the_command_says_so(capsys, tmp_path):
    _, run = quick(capsys, tmp_path)
    assert not list(run.path.glob("*.png"))
    arguments = [option for option in QUICK if option != "--no-plots"]
    code, out, _ = invoke(
        capsys, "simulate", SMOKE, *arguments, "--set", "plots=false", "--out", tmp_path / "b"
    )
    assert code == 0
    assert "\npictures" not in out
    assert not list((tmp_path / "b").glob("*.png"))


def test_a_run_without_observers_has_no_table_and_pictures_of_its_utility_alone(capsys, tmp_path):
    arguments = (
        *("--set", "observers=[]", "--set", "plots=true"),
        *("--set", "protocol.wakes=2", "--executor", "fused"),
    )
    code, out, err = invoke(capsys, "simulate", SMOKE, *arguments, "--out", tmp_path / "run")
    assert code == 0
    assert "utility" in out
    assert "AAC" not in out
    assert "note:" not in err
    assert [path.name for path in (tmp_path / "run").glob("*.png")] == ["curves.png"]


def test_ctrl_c_while_drawing_keeps_the_results(capsys, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(gossiprec.figures.curves, "draw", interrupted)
    arguments = [option for option in QUICK if option != "--no-plots"]
    arguments += ["--set", "plots=true"]
    code, out, err = invoke(capsys, "simulate", SMOKE, *arguments, "--out", tmp_path / "run")
    assert code == 0
    assert "AAC" in out
    assert "note: figures skipped" in err


@pytest.mark.slow
def test_an_earlier_run_is_refused_before_any_work_and_replaced_on_request(capsys, tmp_path):
    quick(capsys, tmp_path)
    before = (tmp_path / "run" / "manifest.json").read_bytes()

    code, out, err = invoke(capsys, "simulate", SMOKE, *QUICK, "--out", tmp_path / "run")
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {tmp_path / 'run'} ")
    assert "--overwrite" in err
    assert err.count("\n") == 1  # no phase was begun
    assert (tmp_path / "run" / "manifest.json").read_bytes() == before

    _, run = quick(capsys, tmp_path, "--overwrite", "--seed", "9")
    assert run.manifest["seed"] == 9


def test_overwrite_does_not_touch_a_folder_that_holds_no_run(capsys, tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    code, _, err = invoke(capsys, "simulate", SMOKE, *QUICK, "--out", tmp_path, "--overwrite")
    assert code == 2
    assert "contains no gossiprec run" in err
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_a_dry_run_says_what_is_ahead_and_writes_nothing(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = invoke(capsys, "simulate", SMOKE, "--dry-run")
    assert code == 0
    for words in (
        "24 nodes, 60 items",
        "240 wakes, 720 messages",
        "240 local epochs",
        "MiB available",
        "% of the nodes met",
    ):
        assert words in out
    assert not list(tmp_path.iterdir())


def test_a_dry_run_of_a_model_without_kernels_says_that_it_is_slow(capsys):
    many = ("--set", "protocol.wakes=1000", "--dry-run")
    for name, slow in (("deepfm", True), ("ncf", False)):
        code, out, _ = invoke(capsys, "simulate", SMOKE, *many, "--set", f"model={{name: {name}}}")
        assert code == 0
        assert ("there are no kernels for deepfm" in out) == slow


def test_a_dry_run_says_how_long_it_will_take_by_earlier_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("GOSSIPREC_RATES", str(tmp_path / "cache"))
    asked = ("simulate", SMOKE, *QUICK, "--executor", "reference", "--dry-run")
    assert (
        "time          unknown: no comparable run has finished on this machine; first make a run with a twentieth"
        in invoke(capsys, *asked)[1]
    )
    quick(capsys, tmp_path, "--executor", "reference")
    assert re.search(
        r"time {10}about [\d.]+ s \([\d.]+ s to [\d.]+ s\), from a run of this kind",
        invoke(capsys, *asked)[1],
    )


def test_a_dry_run_of_what_does_not_fit_says_why_and_is_refused(capsys):
    sets = ("dataset.users=1000000", "dataset.interactions=100000000", "dataset.items=2000", "model.dim=512")
    code, out, err = invoke(capsys, "simulate", SMOKE, "--dry-run", *(p for s in sets for p in ("--set", s)))
    assert code == 1
    assert "1,000,000 nodes, 2,000 items, about 100,000,000 interactions" in out
    assert "10,000,000 wakes, 30,000,000 messages, virtual time about" in out
    assert "error: the run needs" in err


def test_a_dry_run_in_json_foresees_the_run(capsys, tmp_path):
    code, out, _ = invoke(capsys, "simulate", SMOKE, *QUICK, "--dry-run", "--json")
    _, run = quick(capsys, tmp_path)
    foreseen = json.loads(out)
    assert code == 0
    for key in ("nodes", "items", "interactions", "wakes", "messages", "node_updates", "virtual_time"):
        assert foreseen[key] == run.summary[key]
    assert sum(foreseen["memory_mib"].values()) < foreseen["available_mib"]
    assert foreseen["executor"] == "fused"
    assert 0 < foreseen["fraction_met"] < 1
    assert foreseen["fraction_heard"] is None


def test_a_dry_run_of_a_star_promises_what_the_coordinator_will_hear(capsys):
    asked = (
        "protocol.rounds=2",
        "protocol.participation=0.5",
        "dataset.limit_users=60",
        "observers.0.community_size=20",
    )
    sets = [part for text in asked for part in ("--set", text)]
    arguments = (ROOT / "scenarios" / "fedavg.yaml", "--dry-run", "--executor", "fused", *sets)
    code, out, err = invoke(capsys, "simulate", *arguments)
    assert code == 0, err
    assert "60 nodes and a coordinator" in out
    assert "75.0 % of the nodes from which the coordinator receives" in out
    assert "met by a single observer" not in out


BAD = {
    "unknown key": ("protocol.waeks=3", "protocol.waeks: unknown key; did you mean 'wakes'?"),
    "unknown thing": ("model.name=gmff", "did you mean 'gmf'?"),
    "wrong type": ("protocol.wakes=many", "protocol.wakes: found 'many', must be a whole number"),
    "out of range": ("training.learning_rate=-1", "found -1, must be greater than 0"),
    "as many peers as nodes": ("protocol.view.size=24", "found 24, but a node has only 23 possible peers"),
    "community of all": ("observers.0.community_size=24", "a community has no more than 23 members"),
    "no equals sign": ("protocol.wakes", "expected key.path=value"),
}


@pytest.mark.parametrize(("override", "message"), BAD.values(), ids=BAD)
def test_a_bad_value_is_refused_with_2_and_leaves_nothing(capsys, tmp_path, override, message):
    out_dir = tmp_path / "run"
    code, out, err = invoke(capsys, "simulate", SMOKE, *QUICK, "--set", override, "--out", out_dir)
    assert (code, out) == (2, "")
    assert message in err
    assert "error: " in err
    assert not out_dir.exists()


def test_missing_data_are_named(capsys, tmp_path):
    scenario = ROOT / "scenarios" / "cda_ml100k_fedavg.yaml"
    path = tmp_path / "nowhere.zip"
    code, _, err = invoke(
        capsys, "simulate", scenario, "--set", f"dataset.path={path}", "--out", tmp_path / "run"
    )
    assert code == 2
    assert f"error: {path}: no such file" in err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("text", ["", "[1, 2]", "name: [", "\x00", "name: x\nname: y\n"])
def test_a_file_that_is_no_scenario_is_refused_with_2(capsys, tmp_path, text):
    file = tmp_path / "odd.yaml"
    file.write_text(text)
    code, _, err = invoke(capsys, "simulate", file)
    assert code == 2
    assert err.startswith(f"error: {file}")


def test_a_scenario_that_is_not_there_is_named(capsys, tmp_path):
    code, _, err = invoke(capsys, "simulate", tmp_path / "no.yaml")
    assert (code, err) == (2, f"error: {tmp_path / 'no.yaml'}: no such file\n")


@pytest.mark.parametrize("out_dir", ["file/run", "/proc/gossiprec"])
def test_an_output_that_cannot_be_written_is_a_matter_of_resources(capsys, tmp_path, out_dir):
    (tmp_path / "file").write_text("")
    code, out, err = invoke(capsys, "simulate", SMOKE, *QUICK, "--quiet", "--out", tmp_path / Path(out_dir))
    assert (code, out) == (1, "")
    assert err.startswith("error: cannot write ")
    assert "--out" in err
