"""A coordinator without a sample in an epoch used to end in a traceback."""

import pytest

from gossiprec.base.errors import DataError
from gossiprec.emulation import simulate
from gossiprec.scenario import load_scenario


@pytest.mark.parametrize("protocol", ["central", "{name: rand-gossip, fanout: 1, view: {size: 3}, wakes: 2}"])
def test_data_without_a_training_sample_are_one_clear_message(in_case, tmp_path, protocol):
    in_case("central_no_samples")
    changes = [] if protocol == "central" else [f"protocol={protocol}"]
    with pytest.raises(
        DataError, match=r"no user has a training sample for the model gru4rec; expected"
    ) as caught:
        simulate(load_scenario("s.yaml", changes), out=tmp_path / "run")
    assert caught.value.exit_code == 2
