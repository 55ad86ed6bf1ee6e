"""Scenarios that were moved into folders: their old paths still work and name the new ones."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from gossiprec.base.errors import MovedWarning, ScenarioError
from gossiprec.cli.main import exit_code, gossiprec
from gossiprec.scenario import load_scenario
from gossiprec.scenario.bundled import get_bundled
from gossiprec.study.spec import load_study

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "scenarios"
MOVED = sorted((SCENARIOS / "papers").rglob("*.yaml"))
FEDMF = "scenarios/papers/fedmf/fedmf.yaml"
NOTE = f"note: scenarios/fedmf.yaml has moved to {FEDMF}; use the new path\n"


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """Work in a folder with a copy of the scenarios."""
    shutil.copytree(SCENARIOS, tmp_path / "scenarios")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys, *arguments):
    code = exit_code(arguments)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize("path", MOVED, ids=lambda path: path.stem)
def test_the_old_path_of_a_moved_scenario_loads_the_same_scenario(path):
    with pytest.warns(MovedWarning, match=str(path)) as told:
        old = load_scenario(SCENARIOS / path.name)
    assert len(told) == 1
    assert old == load_scenario(path)


@pytest.mark.parametrize(
    "command",
    [
        ("simulate", "--dry-run", "--set", "protocol.rounds=2"),
        ("scenario", "show"),
        ("scenario", "check"),
        ("topology", "compare"),
    ],
    ids=" ".join,
)
def test_a_command_names_the_new_path_in_one_note(command, clone, capsys):
    code, out, err = run(capsys, *command, "scenarios/fedmf.yaml")
    assert code == 0, err
    assert err.count(NOTE) == 1
    same = run(capsys, *command, FEDMF)
    assert same[0] == 0
    assert "has moved" not in same[2]
    if command[0] != "simulate":  # an estimate measures the machine
        assert (out.replace("scenarios/fedmf.yaml", FEDMF), err.replace(NOTE, "")) == same[1:]


def test_a_study_over_old_paths_works_and_says_so_once(clone, capsys):
    study = {
        "name": "old",
        "set": {"protocol.rounds": 2},
        "axes": {
            "clients": {
                "values": {
                    "few": {"base": "scenarios/fedmf.yaml", "dataset.limit_users": 60},
                    "many": {"base": "scenarios/fedmf.yaml", "dataset.limit_users": 90},
                }
            }
        },
        "seeds": 1,
    }
    Path("old.yaml").write_text(yaml.safe_dump(study))
    code, _, err = run(capsys, "study", "old.yaml", "--dry-run", "--quiet")
    assert code == 0, err
    assert err.count(NOTE) == 1
    with pytest.warns(MovedWarning):
        told = load_study("old.yaml").to_plain_data()
    study["axes"]["clients"]["values"]["few"]["base"] = FEDMF
    study["axes"]["clients"]["values"]["many"]["base"] = FEDMF
    assert told == load_study(study).to_plain_data()


def test_a_file_at_the_old_path_wins(clone, capsys):
    mine = load_scenario(SCENARIOS / "smoke.yaml").resolved() | {"name": "mine"}
    Path("scenarios/fedmf.yaml").write_text(yaml.safe_dump(mine))
    code, out, err = run(capsys, "scenario", "check", "scenarios/fedmf.yaml")
    assert (code, err) == (0, "")
    assert "ok (mine: " in out


@pytest.mark.parametrize("old", ["scenarios/fedmff.yaml", "fedmf.yaml", "scenarios/cda/fedmf.yaml"])
def test_a_path_that_never_was_is_refused(old, clone):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ScenarioError, match="no such file"):
            load_scenario(old)


def test_init_writes_a_moved_scenario_into_the_working_folder(clone, capsys):
    code, out, _ = run(capsys, "init", "cda_table6_ml100k_full_batch")
    assert (code, out.splitlines()[0]) == (0, "cda_table6_ml100k_full_batch.yaml: written")
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
