"""Runs on data of one's own: who is which node is kept, and other data are noticed."""

from __future__ import annotations

import pytest

from gossiprec.base.errors import DataError, LogError
from gossiprec.emulation import replay, resume, simulate
from tests.emulation.ended_early import ended_early, outcome
from tests.emulation.own_data import on_own_data, write_own
from tests.emulation.tiny_runs import tiny


class Listening:
    """Keeps the phases of a run."""

    def __init__(self):
        self.phases = []
        self.phase = self.phases.append

    def note(self, text):
        """Pass over notes."""

    def tick(self, status):
        """Pass over reports."""


def test_the_run_keeps_what_the_file_calls_nodes_and_items_and_says_how_it_was_read(tmp_path):
    path, said = write_own(tmp_path / "own.csv"), Listening()
    run = simulate(on_own_data(path), out=tmp_path / "run", progress=said)
    assert run.users["node"].tolist() == list(range(12))
    assert run.users["name"].tolist() == sorted(f"user {n}" for n in range(12))
    assert set(run.items["name"]) <= {f"i{n}" for n in range(40)}
    assert len(run.items["name"]) == run.summary["items"] == run.manifest["data"]["items"]
    assert (
        f"read {path}: a comma between columns, a header, user = customer, item = product, time = ts; 120 "
        in (said.phases[1])
    )


def test_data_without_names_leave_no_tables_of_names(tmp_path):
    run = simulate(tiny(), out=tmp_path / "run")
    assert (run.users, run.items) == ({}, {})
    assert not (run.path / "users.csv").exists()


@pytest.mark.slow
def test_the_fingerprint_is_that_of_the_data_and_not_of_the_file_or_the_run(tmp_path):
    runs = {}
    for name, odd in (("one", "i1"), ("same", "i1"), ("other", "i2")):
        path = write_own(tmp_path / f"{name}.csv", odd=odd)
        if name == "same":
            path.write_text(path.read_text().replace(",", ";"))
        scenario = on_own_data(path) | {"seed": len(name)}
        runs[name] = simulate(scenario, out=tmp_path / name).manifest["data"]["fingerprint"]
    assert runs["one"] == runs["same"] != runs["other"]
    assert len(runs["one"]) == 16


@pytest.mark.slow
@pytest.mark.full
def test_resume_refuses_other_data_and_names_both(tmp_path):
    path = write_own(tmp_path / "own.csv")
    run = ended_early(tmp_path / "run", on_own_data(path))
    then = run.manifest["data"]["fingerprint"]
    write_own(path, odd="i2")
    with pytest.raises(
        LogError, match=rf"data have changed since .*{then} \(12 users.*then, fingerprint .* now"
    ):
        resume(run.path)
    write_own(path)
    whole = simulate(on_own_data(path), out=tmp_path / "whole")
    assert outcome(resume(run.path).path) == outcome(whole.path)


@pytest.mark.slow
def test_replay_says_that_the_data_are_others(tmp_path):
    path = write_own(tmp_path / "own.csv")
    run = simulate(on_own_data(path), out=tmp_path / "run")
    assert replay(run.path).elsewhere == ()
    write_own(path, odd="i2")
    changed, data = sorted(replay(run.path).elsewhere, key=lambda line: line.startswith("data was "))
    assert str(path) in changed
    assert data.startswith(f"data was {run.manifest['data']['fingerprint']}, is ")


def test_a_user_with_too_few_items_is_called_as_in_the_file(tmp_path):
    path = write_own(tmp_path / "own.csv")
    path.write_text(path.read_text() + "alice,i3,4\n")
    with pytest.raises(DataError, match="own: user 'alice' has 1 items, but the split needs 4"):
        simulate(on_own_data(path), out=tmp_path / "run")


def test_a_user_with_every_item_is_called_as_in_the_file(tmp_path):
    path = write_own(tmp_path / "own.csv")
    rows = "".join(f"zoe,i{n},{n}\n" for n in range(40))
    path.write_text(path.read_text() + rows)
    with pytest.raises(DataError, match="user 'zoe' has all 40 items"):
        simulate({**on_own_data(path), "observers": []}, out=tmp_path / "run")
