"""Krum with more suspects than clients, or with two answers, used to be accepted without a word."""

import pytest

from gossiprec.base.errors import ScenarioError
from gossiprec.emulation import prepare
from gossiprec.scenario import load_scenario

PROTOCOLS = {
    "suspects": "{name: fedavg, rounds: 3, merge: {name: krum, byzantine: 30}}",
    "answers": "{name: fedavg, rounds: 3, participation: 0.2, merge: {name: krum, byzantine: 2}}",
    "keep": "{name: fedavg, rounds: 3, merge: {name: krum, keep: 13}}",
    "trimmed": "{name: fedavg, rounds: 3, merge: {name: trimmed-mean, drop: 6}}",
}


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
def test_a_rule_that_wants_more_models_than_come_is_refused(in_case, protocol):
    in_case("krum_too_few")
    with pytest.raises(
        ScenarioError, match=r"^protocol\.merge: .* needs at least \d+ models, but no more than"
    ) as caught:
        prepare(load_scenario("s.yaml", [f"protocol={protocol}"]))
    assert caught.value.exit_code == 2
