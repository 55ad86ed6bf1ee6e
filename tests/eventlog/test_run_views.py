"""A run as notebooks see it: words, tables, pictures; and what becomes of an earlier one."""

import builtins

import numpy as np
import pytest

import gossiprec
from gossiprec.base.errors import LogError, ResourceError
from tests.emulation.tiny_runs import tiny


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return gossiprec.simulate(tiny(), out=tmp_path_factory.mktemp("runs") / "tiny")


def stamp(run):
    """Return when a run was begun, to the nanosecond."""
    return (run.path / "scenario.yaml").stat().st_mtime_ns


def test_it_says_what_it_is(run, tmp_path):
    told = repr(run)
    assert told.startswith(f"<Run {run.path}: complete, nodes 12, hr@5 ")
    rows = run._repr_html_()
    assert "max AAC, single" in rows
    assert f"{100 * run.summary['attacks'][0]['max_aac']:.1f} %" in rows
    begun = gossiprec.open_run(run.path)
    begun.summary = None
    assert repr(begun) == f"<Run {run.path}: complete>"


def test_names_in_html_are_escaped(run):
    shown = gossiprec.open_run(run.path)
    shown.scenario = {"name": "<b>"}
    assert "&lt;b&gt;" in shown._repr_html_()


@pytest.mark.parametrize("name", ["metrics", "attacks", "positions"])
def test_tables_are_those_of_the_run(name, run):
    table = run.table(name)
    for column, values in getattr(run, name).items():
        np.testing.assert_array_equal(table[column].to_numpy(zero_copy_only=False), values)


@pytest.mark.parametrize("kind", ["message", "view", "update", "wake"])
def test_events_are_tables_also_where_a_row_has_several_numbers(kind, run):
    table, events = run.table(kind), run.events(kind)
    assert table.num_rows == len(events["time"])
    for column, values in events.items():
        assert table[column].to_pylist() == [each.tolist() for each in values]


def test_adversaries_are_a_row_each(run):
    ((key, (nodes, accuracies)),) = run.adversaries.items()
    table = run.table("adversaries")
    assert set(table["attack"].to_pylist()) == {key}
    assert table["node"].to_pylist() == nodes.tolist()
    assert table["accuracy"].to_pylist() == accuracies.tolist()


def test_frames_are_the_same_tables(run):
    pytest.importorskip("pandas")
    frame = run.frame("view")
    assert [list(peers) for peers in frame["peers"]] == run.table("view")["peers"].to_pylist()
    assert list(run.frame("metrics")["metric"]) == run.metrics["metric"].tolist()


def test_without_pandas_it_says_what_to_install(run, monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **more):
        if name == "pandas":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ResourceError, match=r"pip install 'gossiprec\[frames\]'"):
        run.frame("metrics")


def test_an_unknown_table_is_answered_with_those_there_are(run):
    with pytest.raises(LogError, match=r"no table 'mesage'; did you mean 'message'.*metrics, attacks"):
        run.table("mesage")


@pytest.mark.parametrize("figure", ["cdf", "curves", "exposure", "position"])
@pytest.mark.cases(3)
def test_it_draws_as_the_command_does(figure, run, tmp_path):
    assert [path.name for path in run.plot(figure, tmp_path / "f.pdf")] == ["f.csv", "f.pdf"]
    (tmp_path / "f.csv").unlink()


@pytest.mark.slow
def test_it_draws_others_beside_itself(run, tmp_path):
    other = gossiprec.simulate(tiny(seed=6), out=tmp_path / "other")
    run.plot("exposure", tmp_path / "both", other)
    assert {line.split(",")[0] for line in (tmp_path / "both.csv").read_text().splitlines()[1:]} == {
        "tiny",
        "other",
    }
    with pytest.raises(LogError, match="unknown figure 'cdff'; did you mean 'cdf'"):
        run.plot("cdff")


@pytest.mark.slow
def test_an_earlier_run_is_refused_replaced_kept_or_returned(tmp_path):
    out = tmp_path / "run"
    began = stamp(gossiprec.simulate(tiny(), out=out))
    for how in ({}, {"on_exists": "refuse"}):
        with pytest.raises(LogError, match="already contains a run"):
            gossiprec.simulate(tiny(), out=out, **how)
    assert stamp(gossiprec.simulate(tiny(), out=out, on_exists="reuse")) == began
    beside = [gossiprec.simulate(tiny(), out=out, on_exists="new").path.name for _ in range(2)]
    assert beside == ["run-2", "run-3"]
    assert stamp(gossiprec.open_run(out)) == began
    assert stamp(gossiprec.simulate(tiny(), out=out, on_exists="overwrite")) > began


@pytest.mark.slow
def test_a_run_of_another_scenario_or_code_or_end_is_not_reused(tmp_path, monkeypatch):
    out = tmp_path / "run"
    gossiprec.simulate(tiny(), out=out)
    other = gossiprec.simulate(tiny(seed=9), out=out, on_exists="reuse")
    assert other.manifest["seed"] == 9
    for status, same in (("interrupted", False), ("complete", True)):
        monkeypatch.setattr(type(other), "status", status)
        began = stamp(gossiprec.open_run(out))
        again = gossiprec.simulate(tiny(seed=9), out=out, on_exists="reuse")
        assert (stamp(again) == began) == same
    monkeypatch.setattr("gossiprec.emulation.run.simulate.scenario_code_version", lambda scenario: "other")
    began = stamp(again)
    assert stamp(gossiprec.simulate(tiny(seed=9), out=out, on_exists="reuse")) > began


def test_a_run_of_other_data_is_not_reused(tmp_path):
    file, out = tmp_path / "views.csv", tmp_path / "run"
    split = {"name": "leave_last_k", "test": 1, "validation": 1}
    scenario = tiny(dataset={"name": "file", "path": str(file), "split": split}, observers=[])

    def write(*, swapped):
        rows = [(user, (3 * user + k) % 9) for user in range(8) for k in range(5)]
        rows[0] = (0, 8) if swapped else rows[0]
        file.write_text("".join(f"{u},{i},1,{10**9 + t}\n" for t, (u, i) in enumerate(rows)))

    write(swapped=False)
    began = stamp(gossiprec.simulate(scenario, out=out))
    assert stamp(gossiprec.simulate(scenario, out=out, on_exists="reuse")) == began
    write(swapped=True)
    began_anew = stamp(gossiprec.simulate(scenario, out=out, on_exists="reuse"))
    assert began_anew > began
    file.unlink()
    assert stamp(gossiprec.simulate(scenario, out=out, on_exists="reuse")) == began_anew


def test_types_are_shipped():
    from importlib.resources import files

    assert (files("gossiprec") / "py.typed").is_file()
