"""What the next start of a study does not do again, and what it must notice."""

import json
import os

import pytest
from small_studies import carried_out, planned, tables

from gossiprec.study import folder as study_folder

BY_USER = "metrics_by_user.parquet"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    home = tmp_path_factory.mktemp("study")
    plan = planned(home, axes={})
    return plan, home / "out", carried_out(plan, home / "out")


@pytest.fixture
def writes(monkeypatch):
    """The number of times that the table of users was written, as the length of a list."""
    found, write = [], study_folder.write_user_table
    monkeypatch.setattr(study_folder, "write_user_table", lambda *about: (found.append(1), write(*about)))
    return found


def test_a_finished_study_writes_its_table_of_users_once(study, writes):
    plan, out, _ = study
    before = (out / BY_USER).read_bytes(), tables(out)
    carried_out(plan, out)
    assert not writes
    assert ((out / BY_USER).read_bytes(), tables(out)) == before


@pytest.mark.parametrize("changed", ["own table", "table of a run"])
def test_a_changed_file_is_noticed(study, writes, changed):
    plan, out, _ = study
    file = out / BY_USER
    if changed == "table of a run":
        file = out / "runs" / plan.simulations[0].hash / BY_USER
    os.utime(file, ns=(1, 1))
    carried_out(plan, out)
    assert writes


def test_one_broken_run_among_finished_ones_is_run_again(study, writes):
    plan, out, _ = study
    before = tables(out)
    broken = out / "runs" / plan.simulations[0].hash / "manifest.json"
    content = json.loads(broken.read_text())
    broken.write_text(json.dumps({**content, "log_digest": "0" * 64}))
    outcome = carried_out(plan, out).outcome
    assert (outcome.made, outcome.kept) == (1, 1)
    assert tables(out) == before
    assert writes
