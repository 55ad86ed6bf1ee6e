"""Values that Python, numpy or the system cannot handle used to end in tracebacks, some of them after the run."""

import pytest

from gossiprec.base.errors import LogError, ScenarioError
from gossiprec.base.text import format_value
from gossiprec.cli.main import exit_code
from gossiprec.runs.run_files import replace_file
from gossiprec.scenario import load_scenario
from gossiprec.scenario.section_checks import check_sizes

SCENARIO = """\
name: s
seed: 1
dataset: {name: synthetic, users: 40, items: 80, interactions: 1200, split: {name: leave_last_k, test: 4}}
model: {name: gmf, dim: 8}
protocol: {name: rand-gossip, wakes: 5, view: {size: 3}}
training: {learning_rate: 0.1}
"""
LONG = "n" * 300
HUGE = {"hexadecimal": "0x" + "f" * 5000, "decimal": "9" * 5000, "negative": "-0x" + "f" * 5000}


@pytest.mark.parametrize("huge", HUGE.values(), ids=HUGE)
@pytest.mark.parametrize(("key", "line"), [("seed: 1", 2), ("learning_rate: 0.1", 6)])
def test_huge_numbers_are_refused_with_file_line_and_key(huge, key, line, tmp_path, capsys):
    name = key.split(":")[0]
    file = tmp_path / "huge.yaml"
    file.write_text(SCENARIO.replace(key, f"{name}: {huge}"))
    assert exit_code(["scenario", "check", str(file)]) == 2
    (message,) = capsys.readouterr().err.splitlines()
    assert message.startswith(f"{file}:{line}: ")
    assert f"{name}: found a number of more than 30 digits, must be less than 1e30" in message
    with pytest.raises(ScenarioError, match=r"found a number of more than 30 digits|cannot represent"):
        load_scenario({**load_scenario(file, ["seed=1", "training={}"]).resolved(), name: int(huge, 0)})


def test_values_of_any_size_are_formatted():
    number = 16**5000
    assert format_value(number) == format_value(-number) == "a number of more than 60 digits"
    assert format_value([number]) == "a list with a number of more than 60 digits"
    assert format_value({"a": number}) == "a dict with a number of more than 60 digits"
    assert format_value(10**59) == "1" + "0" * 59
    assert format_value(True) == "true"
    assert format_value("\x1b[31m") == "'\\x1b[31m'"


@pytest.mark.parametrize("key", ["dataset.path", "name", "protocol.view.graph.file"])
def test_text_with_a_nul_character_is_refused(key, tmp_path):
    file = tmp_path / "s.yaml"
    file.write_text(SCENARIO)
    with pytest.raises(ScenarioError, match=rf"{key}: found 'a\\x00b', must be text without the character"):
        load_scenario(file, [rf'{key}="a\0b"'])


@pytest.mark.parametrize("bad", ["a\0b", LONG, f"/tmp/{LONG}/a"], ids=["nul", "name", "folder"])
def test_paths_that_no_system_takes_give_one_message(bad, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(SCENARIO)
    commands = [
        *(
            ["runs", bad],
            ["report", bad],
            ["plot", "curves", bad],
            ["plot", "study", bad],
            ["log", "verify", bad],
        ),
        *(["log", "cat", bad], ["diff", bad, bad], ["compare", bad, bad], ["resume", bad], ["replay", bad]),
        *(
            ["rerun", bad],
            ["epsilon", bad],
            ["observe", bad, "--observers", bad],
            ["study", bad],
            ["table", bad],
        ),
        *(["scenario", "check", bad], ["simulate", bad], ["simulate", "s.yaml", "--out", bad, "--quiet"]),
        *(["data", "check", bad], ["topology", "inspect", bad], ["unlearn", bad, "--without", "1"]),
        ["topology", "make", "ring", "--nodes", "5", "--out", f"{bad}.csv"],
    ]
    for command in commands:
        assert exit_code(command) == 2, command[:2]
        out, err = capsys.readouterr()
        assert err
        assert not out
    assert [path.name for path in tmp_path.iterdir()] == ["s.yaml"]


def test_a_name_that_is_too_long_to_be_written_is_an_error_of_the_user(tmp_path):
    with pytest.raises(LogError, match="choose a shorter one"):
        replace_file(tmp_path / LONG, b"x")


@pytest.mark.parametrize("length", [81, 100_000])
def test_lists_longer_than_the_number_of_items_are_refused_before_the_run(length, tmp_path):
    file = tmp_path / "s.yaml"
    file.write_text(SCENARIO)
    scenario = load_scenario(file, [f"evaluate.keep_lists={length}"])
    with pytest.raises(
        ScenarioError, match=f"evaluate.keep_lists: found {length}, but there are only 80 items"
    ):
        check_sizes(scenario, 40, 80)
    check_sizes(load_scenario(file, ["evaluate.keep_lists=80"]), 40, 80)
