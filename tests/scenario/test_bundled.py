"""The scenarios that come with gossiprec, and its registered things, fit this layer."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import options_class
from gossiprec.cli.main import exit_code, gossiprec
from gossiprec.cli.scenario import scenario as command
from gossiprec.scenario import Registries, json_schema, load_scenario
from gossiprec.scenario.bundled import bundled_files as all_shipped
from gossiprec.scenario.bundled import get_bundled
from gossiprec.scenario.definition import AttackerChoice, DatasetChoice, PolicyChoice, RegisteredChoice

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = sorted(one.path for one in all_shipped("scenarios").values())
SCENARIOS = ROOT / "scenarios"
SMOKE = str(ROOT / "scenarios" / "smoke.yaml")


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_a_shipped_scenario_loads_and_resolves_to_itself(path):
    scenario = load_scenario(path)
    assert load_scenario(scenario.resolved()) == scenario


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_a_shipped_scenario_is_named_as_its_file(path):
    assert load_scenario(path).name == path.stem.replace("_", "-")


def test_fedmf_is_fcf_under_its_own_name():
    """Its page says that encryption changes no number: nothing else may differ."""
    fcf, fedmf = (load_scenario(get_bundled("scenarios", name).path) for name in ("fcf", "fedmf"))
    assert fedmf == fcf.with_(name="fedmf")


@pytest.mark.parametrize(
    ("kind", "section"),
    [
        ("datasets", DatasetChoice),
        ("splits", RegisteredChoice),
        ("models", RegisteredChoice),
        ("recommenders", RegisteredChoice),
        ("protocols", RegisteredChoice),
        ("attacks", RegisteredChoice),
        ("policies", PolicyChoice),
        ("poisoners", AttackerChoice),
    ],
)
def test_no_option_of_a_registered_thing_hides_a_key_of_its_section(kind, section):
    registry = getattr(Registries(), kind)
    for name in registry:
        assert not {"name", *section.own_keys()} & set(options_class(registry, name).model_fields), name


def test_every_registered_thing_is_in_the_schema():
    definitions = json_schema()["$defs"]
    things = Registries()
    assert {f"protocol.{name}" for name in things.protocols} <= set(definitions)
    assert {f"dataset.{name}" for name in things.datasets} <= set(definitions)


def test_a_scenario_travels_between_processes():
    scenario = load_scenario(SMOKE)
    assert pickle.loads(pickle.dumps(scenario)) == scenario


POISONED = (
    "attackers=[{name: a-ra, fraction: 0.1}, {name: a-hum, fraction: 0.1}, {name: psmu, fraction: 0.1}]"
)


@pytest.mark.parametrize("source", [(SMOKE,), ("scenarios/fedncf.yaml", [POISONED])])
@pytest.mark.full
def test_loading_a_scenario_imports_no_heavy_library(source):
    code = (
        f"import sys; from gossiprec.scenario import load_scenario; load_scenario(*{source!r}); "
        "print([m for m in ('torch', 'numba', 'simpy', 'matplotlib', 'scipy.special') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_check_reports_each_file_and_leaves_with_2_if_any_is_bad(tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text(Path(SMOKE).read_text().replace("wakes:", "waeks:"))
    good = CliRunner().invoke(command, ["check", SMOKE])
    assert (good.exit_code, good.output) == (0, f"{SMOKE}: ok (smoke: rand-gossip on synthetic)\n")
    both = CliRunner().invoke(command, ["check", str(bad), SMOKE])
    assert both.exit_code == 2
    assert "protocol.waeks: unknown key; did you mean 'wakes'?" in both.stderr
    assert "ok (smoke" in both.stdout


def test_show_prints_a_scenario_that_loads_as_the_same(tmp_path):
    shown = CliRunner().invoke(command, ["show", SMOKE, "--set", "seed=7"])
    assert yaml.safe_load(shown.stdout) == load_scenario(SMOKE, ["seed=7"]).resolved()


@pytest.mark.slow
def test_schema_is_written_to_a_file(tmp_path):
    out = tmp_path / "scenario.schema.json"
    assert CliRunner().invoke(command, ["schema", "--out", str(out)]).exit_code == 0
    assert json.loads(out.read_text()) == json_schema()


@pytest.mark.parametrize(
    ("path", "step"),
    [
        ("scenarios/fedmf.yaml", "; use its present path scenarios/papers/fedmf/fedmf.yaml"),
        ("scenarios/smokes.yaml", "; did you mean 'smoke.yaml'?"),
        ("fedmf.yaml", "; run gossiprec init fedmf to write it"),
        ("scenarios/cda/fedmf.yaml", "; run gossiprec init fedmf to write it"),
    ],
)
def test_a_missing_path_is_refused_with_the_next_step(path, step, monkeypatch):
    monkeypatch.chdir(ROOT)
    with pytest.raises(ScenarioError, match=re.escape(f"{path}: no such file{step}")):
        load_scenario(path)


def test_init_writes_the_scenario_of_a_paper_into_the_working_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert exit_code(["init", "cda_table6_ml100k_full_batch"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "cda_table6_ml100k_full_batch.yaml: written"
    assert get_bundled("scenarios", "fedmf").text_to_write.count("papers/") == 0
    assert "this is fcf.yaml" in get_bundled("scenarios", "fedmf").text_to_write


def test_the_top_folder_holds_the_scenarios_that_the_readme_names():
    readme = (ROOT / "README.md").read_text()
    assert [path.name for path in SCENARIOS.glob("*.yaml") if f"scenarios/{path.name}" not in readme] == []


@pytest.mark.parametrize("path", sorted(SCENARIOS.rglob("*.yaml")), ids=lambda path: path.stem)
def test_the_first_line_of_a_scenario_asks_its_question(path):
    first, second, *_ = path.read_text().splitlines()
    assert first.startswith("# ")
    assert first.endswith("?")
    assert second.startswith("# ")
    kind = "studies" if path.is_relative_to(SCENARIOS / "studies") else "scenarios"
    assert get_bundled(kind, path.stem).summary == first.removeprefix("# ")


def test_every_scenario_and_study_is_listed():
    studies = list((SCENARIOS / "studies").rglob("*.yaml"))
    for kind, n in (
        ("scenarios", len(list(SCENARIOS.rglob("*.yaml"))) - len(studies)),
        ("studies", len(studies)),
    ):
        assert len(CliRunner().invoke(gossiprec, ["list", kind]).output.splitlines()) == n
