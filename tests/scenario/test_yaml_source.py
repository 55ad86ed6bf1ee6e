"""Files that are not scenarios at all get one clear message, and none makes the reader hang."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gossiprec.base.errors import ScenarioError
from gossiprec.scenario import load_scenario
from gossiprec.scenario.problems import Problems
from gossiprec.scenario.yaml_source import read_mapping, read_yaml_text

LEVELS = "bcdefghij"
ALIAS_BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("a" + LEVELS, LEVELS, strict=False)
)
MERGE_BOMB = "a: &a {x: 1}\n" + "".join(
    f"{new}: &{new} {{<<: [{', '.join([f'*{old}'] * 9)}]}}\n"
    for old, new in zip("a" + LEVELS, LEVELS, strict=False)
)


def message(load, text: str | bytes, *overrides: str) -> str:
    load.path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ScenarioError) as caught:
        load_scenario(load.path, overrides, load.registries)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "x.yaml: is empty"),
        ("# only a comment\n", "x.yaml: is empty"),
        ("---\n", "x.yaml: is empty"),
        ("- a\n- b\n", "x.yaml: found ['a', 'b'], must be a mapping of keys"),
        ("just words", "x.yaml: found 'just words', must be a mapping of keys"),
        (
            "a: 1\nb: [1,\nc: 2\n",
            "x.yaml:4: not valid YAML: expected ',' or ']', but got '<stream end>' (while "
            "parsing a flow sequence from line 2)",
        ),
        ("a: 1\n\tb: 2\n", "x.yaml:2: not valid YAML: "),
        ("a: *nowhere\n", "x.yaml:1: not valid YAML: found undefined alias 'nowhere'"),
        ("a: 1\n---\nb: 2\n", "x.yaml:2: not valid YAML: "),
        ("a: \x07\n", "x.yaml: not valid YAML: "),
        (b"PK\x03\x04\x00\x00", "x.yaml: not a text file; expected YAML in UTF-8"),
        (b"name: caf\xe9\n", "x.yaml: not a text file; expected YAML in UTF-8"),
        ("a: &a [*a]\n", "x.yaml:1: contains more than 40 levels"),
        (ALIAS_BOMB, "x.yaml:1: contains more than 100000 values"),
        (MERGE_BOMB, "x.yaml:1: contains more than 100000 values"),
        ("[" * 5000, "x.yaml: is nested too deeply"),
        ("a: " + "x" * 600_000, "x.yaml: found 586 KiB or more; expected up to 512 KiB"),
    ],
)
@pytest.mark.cases(3)
def test_what_is_no_scenario_gets_one_message(load, text, expected):
    found = message(load, text)
    assert found.startswith(expected)
    assert len(found.splitlines()) == 1


def test_a_missing_file_suggests_the_near_one(load):
    load.path.with_name("rand_gossip.yaml").write_text("name: x")
    with pytest.raises(
        ScenarioError, match=r"^rand_gosip.yaml: no such file; did you mean 'rand_gossip.yaml'\?$"
    ):
        load_scenario("rand_gosip.yaml", (), load.registries)


def test_a_missing_folder_is_named(load):
    with pytest.raises(ScenarioError, match=r"^nowhere/x.yaml: no such file \(and no folder nowhere\)$"):
        load_scenario("nowhere/x.yaml", (), load.registries)


def test_a_folder_is_not_a_scenario(load, tmp_path):
    with pytest.raises(ScenarioError, match="found a folder; expected a regular file"):
        load_scenario(tmp_path, (), load.registries)


def test_every_repeated_key_is_found_with_both_lines(load, minimal):
    found = message(load, minimal + "  wakes: 6\ntraining:\n  negatives: 1\n  negatives: 2\n")
    assert found.splitlines() == [
        "x.yaml:7: protocol.wakes: found twice (first in x.yaml:6)",
        "x.yaml:10: training.negatives: found twice (first in x.yaml:9)",
    ]


def test_numbers_that_cannot_be_read_are_refused(load, minimal):
    assert "x.yaml:7: seed: " in message(load, minimal + "seed: " + "9" * 6000 + "\n")
    assert "x.yaml:7: seed: found 'x', must be a whole number" in message(load, minimal + "seed: !!int x\n")


def test_a_number_in_scientific_notation_needs_no_dot(load, minimal):
    assert load(minimal + "training: {learning_rate: 1e-3}\n").training.learning_rate == 0.001


def test_a_byte_order_mark_and_windows_line_ends_are_harmless(load, minimal, registries):
    load.path.write_bytes(b"\xef\xbb\xbf" + minimal.replace("\n", "\r\n").encode())
    assert load_scenario(load.path, (), registries) == load(minimal)


def test_anchors_and_merge_keys_work_and_own_keys_win(load, minimal):
    text = minimal + (
        "observers:\n"
        "  - &one {name: cda, who: single, momentum: 0.5}\n"
        "  - {<<: *one, momentum: 0}\n"
        "  - {<<: [{who: coordinator}, *one]}\n"
    )
    observers = load(text).observers
    assert [o.options.who for o in observers] == ["single", "single", "coordinator"]
    assert [o.options.momentum for o in observers] == [0.5, 0, 0.5]


def test_a_problem_in_merged_values_is_placed_where_they_were_written(load, minimal):
    text = minimal + "observers:\n  - &one {name: cda, who: singl}\n  - <<: *one\n    momentum: 0\n"
    found = message(load, text)
    assert [line.split(": found")[0] for line in found.splitlines()] == [
        "x.yaml:8: observers.0.who",
        "x.yaml:8: observers.1.who",
    ]


@settings(max_examples=40)
@given(
    st.recursive(
        st.text() | st.just("\ud800") | st.integers() | st.floats() | st.booleans() | st.none(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    )
)
def test_a_mapping_is_read_as_the_text_that_yaml_makes_of_it(value):
    found, expected = Problems(), Problems()
    read = read_mapping({"value": value}, found)
    written = read_yaml_text(
        yaml.safe_dump({"value": value}, sort_keys=False), "scenario", expected, numbered=False
    )
    assert (repr(read.data), read.origins, vars(found)) == (
        repr(written.data),
        written.origins,
        vars(expected),
    )


def test_a_mapping_in_memory_follows_the_same_rules(registries):
    with pytest.raises(ScenarioError, match=r"^scenario: the key '1' must be text"):
        load_scenario({1: "one"}, (), registries)
    with pytest.raises(ScenarioError, match=r"^scenario: contains a value that YAML cannot represent"):
        load_scenario({"name": object()}, (), registries)
