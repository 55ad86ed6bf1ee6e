"""Plug-ins from the command line: in runs, in the workers of studies, when a run is resumed or replayed."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from pathlib import Path

import pytest
import yaml
from acme import ROOT, as_acme, exchanging, gossiprec, gossiprec_each, install_acme, python, uninstall_acme
from fake_distributions import install

from gossiprec.scenario.registries import KINDS

EARLY = """
import sys
from pathlib import Path
from tests.emulation.ended_early import ended_early, often
ended_early(Path(sys.argv[1]), often(model={"name": "acme-model", "dim": 4}))
"""
TELL = """
import json, sys
from gossiprec.scenario import load_scenario
from gossiprec.scenario.registries import scenario_plugins
for kind, scenario in json.load(open(sys.argv[1])).items():
    print(kind, *(f"{name} {about['version']}" for name, about in scenario_plugins(load_scenario(scenario)).items()))
"""
CHANGED = "\n    CHANGED = True\n"
SMOKE = ROOT / "scenarios" / "smoke.yaml"


@pytest.fixture
def site(tmp_path):
    """A folder on the path of a process with a plug-in that works, and one that does not."""
    folder = tmp_path / "site"
    folder.mkdir()
    install(
        folder,
        "acme-wreck",
        "0.1",
        {"gossiprec.models": {"wreck": "wreck"}},
        wreck="import nothing_of_the_kind",
    )
    install_acme(folder)
    return folder


def written(folder, scenario, name="scenario.yaml"):
    path = folder / name
    path.write_text(yaml.safe_dump(scenario))
    return path


def succeeded(ran):
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def refused(ran):
    """Return the message of a command that was refused."""
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "Traceback" not in ran.stderr
    return ran.stderr


def manifest(run):
    return json.loads((run / "manifest.json").read_text())


@pytest.mark.slow
@pytest.mark.full
def test_a_run_of_a_plug_in_s_things_has_the_numbers_of_the_same_things_of_ours(site, tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    both = [
        ("simulate", written(tmp_path, scenario, f"{out.name}.yaml"), "--out", out)
        for out, scenario in ((theirs, as_acme(exchanging())), (ours, exchanging()))
    ]
    for ran in gossiprec_each(site, *both):
        succeeded(ran)

    for table in ("metrics.csv", "attacks.csv", "adversaries.npz"):
        assert (theirs / table).read_bytes().replace(b"acme-hit", b"hit") == (ours / table).read_bytes()
    assert manifest(ours)["plugins"] == {}
    (about,) = manifest(theirs)["plugins"].items()
    assert about[0] == "acme-recs"
    assert about[1]["version"] == "1.0"
    assert len(about[1]["code"]) == 16


@pytest.mark.full
def test_a_scenario_tells_the_plug_in_of_whatever_it_names(site, tmp_path):
    tiny = exchanging(evaluate={"every": 2, "metrics": ["ndcg@5"]}, policies=[])
    protocol = tiny["protocol"]
    scenarios = {
        "datasets": {"dataset": tiny["dataset"] | {"name": "acme-data"}},
        "splits": {"dataset": tiny["dataset"] | {"split": {"name": "acme-split"}}},
        "models": {"model": {"name": "acme-model"}},
        "protocols": {"protocol": protocol | {"name": "acme-protocol"}},
        "samplings": {"protocol": protocol | {"view": {"sampling": "acme-tide"}}},
        "topologies": {"protocol": protocol | {"view": {"graph": {"family": "acme-caves"}}}},
        "session_formats": {
            "seconds_per_wake": 60,
            "churn": {"sessions": {"trace": "phones.txt", "format": "acme-phones"}},
        },
        "aggregators": {"policies": [{"name": "robust-merge", "rule": {"name": "acme-rule"}}]},
        "servers": {"protocol": {"name": "fedavg", "server": "acme-server"}, "observers": []},
        "recommenders": {"recommender": {"name": "acme-cl"}},
        "policies": {"policies": [{"name": "acme-policy"}]},
        "poisoners": {"attackers": [{"name": "acme-poisoner", "number": 1}]},
        "attacks": {"observers": [{"name": "acme-attack", "who": "single"}]},
        "similarities": {
            "recommender": {"name": "pdc-frs", "similarity": {"name": "acme-likeness", "public_users": 0.5}}
        },
        "measures": {"evaluate": {"metrics": ["ndcg@5", "acme-hit@5"]}},
    }
    assert set(scenarios) == {*KINDS} - {"trackers", "unlearners"}  # no scenario names one

    (tmp_path / "all.json").write_text(json.dumps({kind: tiny | own for kind, own in scenarios.items()}))
    told = succeeded(python(site, "-c", TELL, tmp_path / "all.json")).splitlines()
    assert told == [f"{kind} acme-recs 1.0" for kind in scenarios]


@pytest.mark.slow
@pytest.mark.full
def test_a_graph_family_of_a_plug_in_can_be_named_and_drawn(site, tmp_path):
    view = {"graph": {"family": "acme-caves", "size": 4}}
    scenario = exchanging()
    scenario["protocol"] |= {"fanout": 3, "view": view}
    simulated, inspected, listed = gossiprec_each(
        site,
        ("simulate", written(tmp_path, scenario), "--out", tmp_path / "run"),
        ("topology", "inspect", "acme-caves:size=4", "--nodes", 12, "--json"),
        ("topology", "list"),
    )

    succeeded(simulated)
    assert list(manifest(tmp_path / "run")["plugins"]) == ["acme-recs"]
    (facts,) = json.loads(succeeded(inspected))
    assert facts["links"] == 18
    assert "acme-caves" in succeeded(listed)


@pytest.mark.full
def test_a_broken_plug_in_is_told_where_it_is_named_and_troubles_nobody_else(site, tmp_path):
    broken = written(tmp_path, exchanging(model={"name": "wreck"}))
    named, unnamed, schema = gossiprec_each(
        site, ("scenario", "check", broken), ("scenario", "check", SMOKE), ("scenario", "schema")
    )

    message = refused(named)
    assert "scenario.yaml:" in message
    assert (
        "model.name: model 'wreck' belongs to the plug-in acme-wreck 0.1, which cannot be imported" in message
    )
    assert "No module named 'nothing_of_the_kind'" in message

    assert ": ok (" in succeeded(unnamed)
    parts = json.loads(succeeded(schema))["$defs"]
    assert {"model.acme-model", "model.gmf"} <= set(parts)
    assert "model.wreck" not in parts


@pytest.mark.full
def test_list_tells_what_plug_ins_bring_and_what_is_broken(site):
    install(site, "acme-typo", "3", {"gossiprec.model": {"a": "a", "b": "b"}})
    install(site, "acme-thief", "2", {"gossiprec.datasets": {"file": "thief"}}, thief="")
    as_json, kinds, data, caves, wreck = gossiprec_each(
        site,
        ("list", "models", "--json"),
        ("list",),
        ("data", "list"),
        ("list", "topologies", "acme-caves"),
        ("list", "models", "wreck"),
    )

    models = json.loads(succeeded(as_json))
    origins = {name: model["origin"] for name, model in models.items()}
    assert (origins["acme-model"], origins["gmf"], origins["wreck"]) == (
        "acme-recs 1.0",
        "gossiprec",
        "acme-wreck 0.1",
    )
    assert "cannot be imported (ModuleNotFoundError" in models["wreck"]["problem"]

    assert "acme-tide" in succeeded(kinds)
    assert kinds.stderr == (
        "note: acme-typo 3 has entry points in the group gossiprec.model, which gossiprec does not know; did you mean "
        "'gossiprec.models'?\n"
    )

    said = succeeded(data).splitlines()
    assert "  acme-data           acme-recs 1.0  Data of Acme." in said
    (stolen,) = [line for line in said if line.startswith("  file ")]
    assert "broken: the dataset 'file' is registered by gossiprec" in stolen
    assert "and acme-thief 2;" in stolen

    assert "acme-caves (acme-recs 1.0)\n  cliques on a ring." in succeeded(caves)
    assert "cannot be imported" in refused(wreck)


@pytest.mark.full
def test_help_and_runs_of_our_own_things_import_no_plug_in(site, tmp_path):
    install(
        site, "acme-noise", "1", {"gossiprec.models": {"noise": "noise"}}, noise="print('I was imported')"
    )
    noisy = written(tmp_path, exchanging(model={"name": "noise"}), "noisy.yaml")

    *others, asked = gossiprec_each(
        site,
        ("--help",),
        ("scenario", "check", written(tmp_path, exchanging())),
        ("scenario", "check", SMOKE),
        ("scenario", "check", noisy),
    )
    assert all("I was imported" not in succeeded(ran) for ran in others)
    assert "I was imported" in asked.stdout


@pytest.mark.slow
def test_a_misspelt_name_is_answered_with_a_plug_in_s(site, tmp_path):
    message = refused(
        gossiprec(site, "scenario", "check", written(tmp_path, exchanging(model={"name": "acme-modell"})))
    )
    assert re.search("known: acme-model, .*gmf, .*, wreck, .*; did you mean 'acme-model'", message)


@pytest.fixture(scope="module")
def ended_early(tmp_path_factory):
    """A run with the plug-in that ended before it was complete, with checkpoints."""
    folder = tmp_path_factory.mktemp("early")
    install_acme(folder)
    succeeded(python(folder, "-c", EARLY, folder / "run"))
    return folder / "run"


@pytest.fixture
def early(ended_early, tmp_path):
    return Path(shutil.copytree(ended_early, tmp_path / "run"))


@pytest.mark.slow
@pytest.mark.full
def test_a_run_is_resumed_with_the_plug_in_that_began_it(site, early):
    succeeded(gossiprec(site, "resume", early, "-q"))
    assert manifest(early)["status"] == "complete"
    assert manifest(early)["resumed"][0]["code"].partition(" + ")[2].startswith("acme-recs 1.0 (")


@pytest.mark.slow
@pytest.mark.full
def test_another_version_of_a_plug_in_is_refused_unless_forced(site, early):
    go_on = ("resume", early, "-q")
    install_acme(site, "1.1")
    newer = gossiprec(site, *go_on)
    install_acme(site, "1.0", CHANGED)
    changed, forced = gossiprec_each(site, go_on, (*go_on, "--force"))

    for version, ran in (("1.1", newer), ("1.0", changed)):
        message = refused(ran)
        assert " + acme-recs 1.0 (" in message
        assert f", this is {manifest(early)['code']} + acme-recs {version} (" in message
        assert "pass --force" in message
        assert "--from-start" in message

    succeeded(forced)
    assert manifest(early)["status"] == "complete"


@pytest.mark.slow
@pytest.mark.full
def test_a_plug_in_that_is_missing_is_named_with_what_to_install(site, early):
    uninstall_acme(site)
    what = "uses plug-ins that are not installed; install them with: pip install acme-recs==1.0"

    for ran in gossiprec_each(site, ("resume", early, "-q"), ("replay", early, "-q")):
        assert f"the run {early} {what}" in refused(ran)


@pytest.mark.slow
@pytest.mark.full
def test_a_replay_says_that_the_plug_in_is_another(site, early):
    install_acme(site, "1.1")

    said = succeeded(gossiprec(site, "replay", early, "-q"))
    assert "changed since the run: acme-recs was 1.0 (" in said
    assert ", is 1.1 (" in said
    assert "confirmed" in said


@pytest.mark.slow
@pytest.mark.full
def test_the_workers_of_a_study_see_the_plug_in_and_its_version_is_part_of_what_a_run_is(site, tmp_path):
    axes = {"fanout": {"key": "protocol.fanout", "values": [2]}}
    study = {"name": "acme", "base": as_acme(exchanging()), "seeds": 1, "axes": axes}
    out = tmp_path / "out"
    command = ("study", written(tmp_path, study, "study.yaml"), "--out", out, "--jobs", 1, "-q")

    succeeded(gossiprec(site, *command))
    assert " + acme-recs 1.0 (" in (out / "table.csv").read_text()

    install_acme(site, "1.1")
    succeeded(gossiprec(site, *command))
    versions = [manifest(run)["plugins"]["acme-recs"]["version"] for run in (out / "runs").iterdir()]
    assert sorted(versions) == ["1.0", "1.1"]

    install_acme(site, "1.1", CHANGED)
    message = refused(gossiprec(site, *command))
    assert "contains 1 of 1 runs made by code version" in message
    assert message.count(" + acme-recs 1.1 (") == 2


@pytest.mark.slow
@pytest.mark.full
def test_the_package_of_the_docs_works(site, tmp_path):
    page = (ROOT / "docs" / "extending.md").read_text()
    (name,) = set(re.findall(r"\]\(\.\./(\S+/last_heard\.py)\)", page))
    attack = (ROOT / name).read_text()
    (project,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    told = tomllib.loads(project)["project"]
    install(site, told["name"], told["version"], told["entry-points"])
    (site / "my_lab").mkdir()
    (site / "my_lab" / "last_heard.py").write_text(attack)

    scenario = exchanging(observers=[{"name": "last-heard", "community_size": 3}])
    listed, simulated = gossiprec_each(
        site,
        ("list", "attacks"),
        ("simulate", written(tmp_path, scenario), "--out", tmp_path / "run"),
    )

    assert re.search(r"^last-heard +my-lab 0\.1\.0 +Every node ", succeeded(listed), re.MULTILINE)
    succeeded(simulated)
    assert manifest(tmp_path / "run")["plugins"]["my-lab"]["version"] == "0.1.0"
    assert all(f"`gossiprec.{kind}`" in page for kind in KINDS)
