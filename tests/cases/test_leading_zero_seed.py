"""``--set seed=010`` used to give seed 8, ``--seed 010`` gave 10, and ``protocol.wakes=1:30`` gave 90."""

import pytest
import yaml
from click.testing import CliRunner

from gossiprec.base.errors import ScenarioError
from gossiprec.base.plain_text import dump_yaml, parse_yaml
from gossiprec.cli.options import WholeNumber
from gossiprec.runs.run_list import RunRow, select_rows
from gossiprec.scenario import load_scenario
from gossiprec.scenario.problems import Problems
from gossiprec.scenario.yaml_source import read_mapping
from gossiprec.study.plan import make_plan
from gossiprec.study.spec import load_study

SCENARIO = """\
name: six
seed: 1
dataset: {name: synthetic, users: 24, items: 60, interactions: 600, split: {name: leave_last_k, test: 5}}
model: {name: gmf, dim: 8}
protocol: {name: rand-gossip, fanout: 3, view: {size: 3}, wakes: 4}
observers:
- {name: cda, who: single, community_size: 5, momentum: 0.9, reference_items: 20}
evaluate: {every: 4, metrics: [hr@5]}
plots: false
"""
DECIMAL = {
    "010": 10,
    "008": 8,
    "0000000000000000000000000000000000000012": 12,
    "+05": 5,
    "0x1F": 31,
    "'010'": 10,
}
REFUSED = ["1:30", "0o17", "1_000", "0b101", "0x_1F", "1:30.5", "1_000.5", "'1_000'", "190:20:30", "-1:30"]


@pytest.mark.parametrize("text", DECIMAL)
def test_whole_numbers_are_decimal_in_files_and_overrides(text, tmp_path):
    file = tmp_path / "six.yaml"
    for key, line in {"seed": "seed: 1", "wakes": "wakes: 4", "size": "community_size: 5"}.items():
        file.write_text(SCENARIO.replace(line, f"{line.split(':')[0]}: {text}"))
        scenario = load_scenario(file).resolved()
        found = {
            "seed": scenario["seed"],
            "wakes": scenario["protocol"]["wakes"],
            "size": scenario["observers"][0]["community_size"],
        }
        assert found[key] == DECIMAL[text]
    file.write_text(SCENARIO)
    overrides = [
        f"seed={text}",
        f"observers=[{{name: cda, who: single, community_size: {text}, momentum: 0, reference_items: 9}}]",
    ]
    scenario = load_scenario(file, overrides).resolved()
    assert scenario["seed"] == scenario["observers"][0]["community_size"] == DECIMAL[text]


@pytest.mark.parametrize("text", REFUSED)
def test_other_numbers_of_yaml_1_1_are_refused_with_file_line_and_key(text, tmp_path):
    file = tmp_path / "six.yaml"
    file.write_text(SCENARIO.replace("seed: 1", f"seed: {text}"))
    with pytest.raises(ScenarioError) as refusal:
        load_scenario(file)
    message = str(refusal.value)
    assert message.startswith(f"{file}:2: seed: found '{text.strip(chr(39))}', must be a ")
    assert "\n" not in message
    file.write_text(SCENARIO)
    with pytest.raises(ScenarioError, match=r"override .*: protocol\.wakes: found .*, must be a "):
        load_scenario(file, [f"protocol.wakes={text}"])


def test_seeds_and_axes_of_studies_are_decimal(tmp_path):
    (tmp_path / "six.yaml").write_text(SCENARIO)
    study = tmp_path / "study.yaml"
    text = "name: s\nbase: six.yaml\nseeds: [008, 009, 010]\naxes:\n  w: {key: protocol.wakes, values: [08, 010]}\n"
    study.write_text(text)
    plan = make_plan(load_study(study))
    assert {(v.seed, v.labels["w"]) for v in plan.variants} == {(s, w) for s in (8, 9, 10) for w in (8, 10)}
    assert {v.scenario.protocol.options.wakes for v in plan.variants} == {8, 10}
    for wrong in ("1:30", "1_0"):
        study.write_text(text.replace("[08, 010]", f"[{wrong}]"))
        with pytest.raises(
            ScenarioError, match=rf"study\.yaml:5: axes\.w\.values\.0: found '{wrong}', must be"
        ):
            load_study(study)


def test_options_of_commands_and_conditions_are_decimal(tmp_path):
    number = WholeNumber(min=0)
    assert number.convert("010", None, None) == 10
    for wrong in ("1_000", "0x10", "1:30", "9" * 5000):
        with pytest.raises(Exception, match="expected a whole number"):
            number.convert(wrong, None, None)
    row = RunRow(tmp_path, {"seed": 10}, {}, {})
    assert select_rows([row], ["seed=010"]) == [row]


def test_text_of_digits_stays_text_when_it_is_written_and_read():
    texts = ["008", "010", "0o17", "1_000", "1:30", "9", "yes", "1e3", "-08", "half \ud800"]
    for text in texts[:-1]:
        assert parse_yaml(dump_yaml({"a": text})) == {"a": text}
    assert read_mapping({"a": texts}, Problems()).data == {"a": texts}
    assert yaml.safe_load(dump_yaml({"a": texts[:-1]})) == {"a": texts[:-1]}


def test_help_of_simulate_names_no_limit():
    from gossiprec.cli.main import gossiprec

    assert "2147483647" not in CliRunner().invoke(gossiprec, ["simulate", "--help"]).output
