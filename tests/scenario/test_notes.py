"""Notes on options that cannot change a result."""

from __future__ import annotations

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from gossiprec.cli.scenario import show
from gossiprec.scenario import load_scenario
from gossiprec.scenario.section_checks import describe_ineffective_options
from tests.emulation.tiny_runs import carried_out, final_models, tiny

CLIENTS = {"name": "fedavg", "rounds": 2, "slice": 5, "client_model": "none", "merge": "touched-mean"}
PDC = {
    "name": "pdc-frs",
    "similarity": {"name": "co-occurrence", "public_users": 0.5},
    "item_optimizer": "adam",
}
FULL = {"batch_size": "full"}
NOTED = {
    "recommender.item_weight": {
        "model": {"name": "ncf"}, "training": FULL, "protocol": CLIENTS, "recommender": PDC, "observers": [],
    },
    "policies: share-less": {"training": FULL, "policies": [{"name": "share-less", "tau": 2.0}]},
    "model.loss_reduction": {"model": {"name": "gmf", "loss_reduction": "sum"}},
}  # fmt: skip


@pytest.mark.parametrize("where", NOTED)
def test_an_option_without_effect_is_noted(where):
    (note,) = describe_ineffective_options(load_scenario(tiny(**NOTED[where])))
    assert note.startswith(where)


def test_options_that_have_an_effect_are_not():
    for sections in (
        {},
        {"training": {**FULL, "local_epochs": 2}, "policies": [{"name": "share-less", "tau": 2.0}]},
        {"training": {"optimizer": "sgd"}, "model": {"name": "gmf", "loss_reduction": "sum"}},
        {**NOTED["recommender.item_weight"], "recommender": {**PDC, "item_optimizer": "sgd"}},
    ):
        assert describe_ineffective_options(load_scenario(tiny(**sections))) == []


def test_what_the_note_on_share_less_says_is_so():
    ends = [
        final_models(carried_out(tiny(training=FULL, policies=[{"name": "share-less", "tau": tau}])))
        for tau in (0.5, 5.0)
    ]
    np.testing.assert_array_equal(*ends)


def test_show_prints_notes_as_comments(tmp_path):
    file = tmp_path / "noted.yaml"
    file.write_text(yaml.safe_dump(tiny(**NOTED["model.loss_reduction"])))
    found = CliRunner().invoke(show, [str(file)])
    assert found.exit_code == 0
    assert "\n# note: model.loss_reduction: Adam normalises" in found.output
    assert yaml.safe_load(found.output)["name"] == "tiny"
