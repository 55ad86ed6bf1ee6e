"""What an attack says of itself for a checkpoint is all that another one needs to go on, whenever it is asked."""

from __future__ import annotations

import pytest

from gossiprec.adversaries.attacks.cda import CDA, CDAOptions
from gossiprec.runs.checkpoint_format import CheckpointStamp
from gossiprec.runs.checkpoints import read_checkpoint, write_checkpoint
from tests.attacks.glimpses import Receptions, all_forms, make_world, see, show, started
from tests.compute.worlds import make_model

PAIRS = [(1, 0), (2, 0), (3, 1), (2, 0), (0, 1), (3, 0), (4, 1), (5, 0), (2, 1), (3, 0), (5, 1), (2, 0)]
WATCHING = {"single": {}, "coalition": {"members": (0, 1)}}


@all_forms
@pytest.mark.parametrize("hidden", [(), (2, 3)], ids=["open", "hidden"])
@pytest.mark.parametrize("who", WATCHING)
def test_an_attack_goes_on_from_its_state_where_no_ranking_was_asked_for(who, hidden, form, tmp_path):
    world = make_world(
        form=form, hidden=hidden, model=None if form == "compiled" else make_model("mf", dim=6)
    )
    received = Receptions.drawn(PAIRS, world)
    options = CDAOptions(who=who, momentum=(0.0, 0.9), reference_items=8, community_size=2, **WATCHING[who])
    whole, before, after = (started(CDA(options, world), world, received) for _ in range(3))
    see(before, world, received, upto=9)
    with (tmp_path / "state").open("wb", buffering=0) as file:
        write_checkpoint(file, CheckpointStamp("", "", 0, 0.0, 0, ""), before.attack.state(8.0))
    after.attack.restore(read_checkpoint(tmp_path / "state", limit_bytes=2**30)[1])
    see(whole, world, received, upto=9)

    found = [ranking.scores for ranking in show(after, world, received, first=9)]
    expected = [ranking.scores for ranking in show(whole, world, received, first=9)]
    assert [scores.tobytes() for scores in found] == [scores.tobytes() for scores in expected]
