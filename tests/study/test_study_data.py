"""Data are read once by a worker, and a run on data read before is the same run."""

from __future__ import annotations

import pytest
from small_studies import BASE, SINGLE, carried_out, planned, tables

from gossiprec.adversaries.attacks.cda import CDA
from gossiprec.base.errors import LogError
from gossiprec.emulation.assembly.data_loading import load_data
from gossiprec.scenario import load_scenario
from gossiprec.study.task import DataCache, array_bytes, run_task


def test_the_same_data_are_read_once():
    load = DataCache()
    one = load(load_scenario(BASE))
    assert load(load_scenario(BASE, ["protocol.wakes=9"])) is one
    assert load(load_scenario(BASE, ["seed=6"])) is not one
    assert load(load_scenario(BASE, ["dataset.users=13"])) is not one
    assert load(load_scenario(BASE)) is one


def test_what_does_not_fit_is_let_go_the_oldest_first():
    one = load_data(load_scenario(BASE))
    load = DataCache(most_bytes=int(2.5 * array_bytes(one)))
    held = [load(load_scenario(BASE, [f"seed={seed}"])) for seed in (1, 2, 3)]
    again = [load(load_scenario(BASE, [f"seed={seed}"])) for seed in (3, 2, 1)]
    assert [a is b for a, b in zip(again, held[::-1], strict=True)] == [True, True, False]


def test_data_larger_than_the_cache_are_still_read():
    assert DataCache(most_bytes=1)(load_scenario(BASE)).n_users == 12


@pytest.mark.slow
@pytest.mark.full
def test_runs_on_data_read_before_are_the_same_runs(tmp_path):
    load = DataCache()

    def with_cache(tasks):
        for task in tasks:
            yield run_task(task, threads=1, load=load)

    carried_out(planned(tmp_path), tmp_path / "cached", start=with_cache)
    carried_out(planned(tmp_path), tmp_path / "fresh")
    assert tables(tmp_path / "cached") == tables(tmp_path / "fresh")


def test_an_attack_that_calls_itself_otherwise_than_it_said_is_not_passed_over(tmp_path, monkeypatch):
    plan = planned(tmp_path, axes={}, set={"observers": [SINGLE]})
    monkeypatch.setattr(
        CDA, "table_keys", classmethod(lambda cls, options: frozenset({("lone", "ndcg", 0.9, 3)}))
    )
    with pytest.raises(LogError, match=r"has no attack named lone/ndcg/b0\.9/k3"):
        carried_out(plan, tmp_path / "out")


def on_a_file(path, odd):
    rows = [f"u{u},i{(7 * u + 3 * n) % 40},{n}" for u in range(12) for n in range(10)]
    path.write_text("\n".join(["user,item,time", *rows, f"u1,{odd},11", ""]))
    return {
        **BASE,
        "dataset": {"name": "file", "path": str(path), "split": {"name": "leave_last_k", "test": 2}},
    }


def never(tasks):
    raise AssertionError(f"nothing was to be run, but {len(tasks)} tasks were")
    yield


@pytest.mark.slow
@pytest.mark.full
def test_finished_runs_on_other_data_stop_the_study_unless_it_is_said_what_to_do(tmp_path):
    plan = planned(tmp_path, base=on_a_file(tmp_path / "own.csv", "i1"))
    carried_out(plan, tmp_path / "out")
    carried_out(plan, tmp_path / "out", start=never)
    on_a_file(tmp_path / "own.csv", "i39")
    with pytest.raises(
        LogError, match=r"6 of 6 runs made with other data: fingerprint \w{16} then, \w{16} now"
    ):
        carried_out(plan, tmp_path / "out", start=never)
    assert carried_out(plan, tmp_path / "out", start=never, other_code="keep").outcome.kept == 6
    assert carried_out(plan, tmp_path / "out", other_code="again").outcome.made == 6
    assert carried_out(plan, tmp_path / "out", start=never).outcome.kept == 6


@pytest.mark.slow
@pytest.mark.full
def test_data_that_are_gone_contradict_nothing(tmp_path):
    plan = planned(tmp_path, base=on_a_file(tmp_path / "own.csv", "i1"))
    carried_out(plan, tmp_path / "out")
    (tmp_path / "own.csv").unlink()
    assert carried_out(plan, tmp_path / "out", start=never).outcome.kept == 6
