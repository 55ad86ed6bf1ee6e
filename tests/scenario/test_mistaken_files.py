"""A study where a scenario is wanted, a scenario where a study is, and another name over another's keys."""

import re

import pytest

from gossiprec.base.errors import ScenarioError
from gossiprec.scenario import load_scenario
from gossiprec.study.spec import load_study
from tests.emulation.tiny_runs import tiny


@pytest.mark.parametrize(
    ("load", "text", "told"),
    [
        (
            load_scenario,
            "name: s\nbase: b.yaml\naxes: {x: {key: seed, values: [1]}}\n",
            "is a study, not a scenario; run it with: gossiprec study",
        ),
        (
            load_study,
            "name: s\ndataset: {name: synthetic}\n",
            "is a scenario, not a study; run it with: gossiprec simulate",
        ),
    ],
    ids=["study", "scenario"],
)
def test_the_wrong_kind_of_file_is_answered_with_its_command(load, text, told, tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=re.escape(f"{told} {path}")):
        load(path)


def test_another_protocol_over_the_keys_of_one_is_answered_with_the_way():
    with pytest.raises(ScenarioError) as caught:
        load_scenario(tiny(), ["protocol.name=pers-gossip"])
    assert "protocol: the keys of the previous choice are kept; replace the whole section" in str(
        caught.value
    )
    assert "--set 'protocol={name: pers-gossip, ...}'" in str(caught.value)


def test_a_mistyped_key_is_not_taken_for_that():
    with pytest.raises(ScenarioError) as caught:
        load_scenario(tiny(), ["protocol.fanuot=2", "model.name=mf"])
    assert "replace the whole section" not in str(caught.value)
