"""Models that are not numbers used to end in "complete, 0.0 %"."""

import pytest

from gossiprec.base.errors import ScenarioError
from gossiprec.emulation import simulate
from gossiprec.scenario import load_scenario

MODES = {
    "gossip": [],
    "fedavg": ["protocol={name: fedavg, rounds: 4}"],
    "median": ["protocol={name: fedavg, rounds: 4, merge: median}"],
    "central": ["protocol={name: central, epochs: 4}"],
}


@pytest.mark.parametrize("mode", MODES)
def test_the_run_stops_and_names_node_time_and_update(in_case, tmp_path, mode):
    in_case("diverged_silently")
    with pytest.raises(
        ScenarioError, match=r"^node \d+: local update \d+ at time [\d.]+ .* NaN or infinite"
    ) as caught:
        simulate(load_scenario("s.yaml", MODES[mode]), out=tmp_path / "run")
    assert caught.value.exit_code == 2
