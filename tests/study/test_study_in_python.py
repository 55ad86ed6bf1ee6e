"""``gossiprec.study``: a study run from Python, and what came of it as tables, runs, pictures and a page."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from shlex import quote

import pandas as pd
import pytest
import yaml
from small_studies import BASE, COALITION, FANOUT, SINGLE, tables

import gossiprec
from gossiprec.base.errors import LogError, ResourceError, ScenarioError
from gossiprec.base.portable import NotPortableError
from gossiprec.cli.main import exit_code
from gossiprec.cli.progress import format_table_note
from gossiprec.figures.study.table_reader import read_study
from gossiprec.study.api import study as in_python

PLACED = {
    "name": "placed",
    "base": {**BASE, "observers": [COALITION]},
    "seeds": 2,
    "axes": {
        **FANOUT,
        "fraction": {"key": "observers.0.fraction", "values": [0.25, 0.5], "words": "colluders"},
    },
    "measures": ["hr@5", "max_aac"],
    "baseline": {"fanout": 1},
    "picture": {"kind": "heat", "y": ["hr@5"]},
}


@pytest.fixture(scope="module")
def placed(tmp_path_factory):
    """Six combinations, two of which share each of six runs."""
    return gossiprec.study(PLACED, out=tmp_path_factory.mktemp("study") / "placed")


@pytest.mark.slow
def test_the_package_is_called_like_the_function(placed):
    import gossiprec.study.plan

    assert isinstance(gossiprec.study.plan.make_plan, object)
    again = gossiprec.study(PLACED, out=placed.path)
    assert (again.status, again.mark["kept"]) == ("complete", 6)


def test_a_study_of_portable_runs_needs_a_portable_process_before_it_begins(monkeypatch, tmp_path):
    monkeypatch.setattr("gossiprec.base.portable.check_processor", lambda: None)
    monkeypatch.delenv("NUMBA_CPU_NAME", raising=False)
    executor = {
        "key": "executor",
        "values": {"own": {"name": "auto"}, "one": {"name": "auto", "portable": True}},
    }
    with pytest.raises(NotPortableError, match=r"gossiprec.base.portable.enter\(\)"):
        gossiprec.study({**PLACED, "axes": {"executor": executor}, "baseline": {}}, out=tmp_path / "study")
    assert not (tmp_path / "study" / "study.json").exists()


def test_points_are_means_over_seeds(placed):
    points, runs = placed.frame(), placed.frame("runs")
    assert list(points.columns[:3]) == ["fanout", "fraction", "measure"]
    assert list(points.dtypes[["fanout", "fraction"]]) == ["int64", "float64"]
    assert len(points) == 12
    assert set(points.n) == {2}
    assert set(points.observer.dropna()) == {"coalition"}
    values = runs.groupby(["fanout", "fraction", "measure"]).value.mean()
    found = points.set_index(["fanout", "fraction", "measure"])["mean"]
    pd.testing.assert_series_equal(found.sort_index(), values.sort_index(), check_names=False)
    assert (points.low <= points["mean"]).all()


def test_values_of_users_are_joined_with_the_axes_and_own_attacks_only(placed):
    """Two combinations share each run: each has the metrics, and the results of its own coalition."""
    found = placed.frame("by_user")
    assert [*found.columns] == [
        "fanout",
        "fraction",
        "seed",
        "run",
        "user",
        "time",
        "round",
        "metric",
        "value",
    ]
    assert set(found[["fanout", "seed"]].itertuples(index=False)) == {
        (f, s) for f in (1, 2, 3) for s in (1, 2)
    }
    own = found[found.metric.str.contains("coalition")].groupby("fraction").metric.unique()
    assert all(f"coalition-{100 * fraction:g}%" in name for fraction, names in own.items() for name in names)
    assert len(own) == 2
    of_users, runs = found[found.metric == "hr@5"], placed.frame("runs")
    means = of_users.groupby(["fanout", "fraction", "seed"]).value.mean()
    whole = runs[runs.measure == "hr@5"].set_index(["fanout", "fraction", "seed"]).value
    pd.testing.assert_series_equal(means.sort_index(), whole.sort_index(), check_names=False)


@pytest.mark.slow
def test_the_combinations_of_a_study_are_tested_against_its_baseline(placed, tmp_path, capsys):
    """Each seed has its own synthetic data, so there is no test over users of all seeds; of one seed there is one."""
    assert exit_code(["compare", str(placed.path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    others = [f"fanout {n}, fraction 0.25 / fanout {n}, fraction 0.5" for n in (2, 3)]
    assert list(dict.fromkeys(test["run"] for test in found)) == others
    assert {test["unit"] for test in found} == {"seeds"}
    assert any(test["metric"].startswith("accuracy[coalition") for test in found)
    of_users = placed.frame("by_user").groupby(["fanout", "seed", "metric"]).value.mean()
    means = of_users.groupby(["fanout", "metric"]).mean()
    for test in found:
        assert test["second"] == pytest.approx(means[int(test["run"][7]), test["metric"]])
        assert test["first"] == pytest.approx(means[1, test["metric"]])

    axes = {
        "fanout": {"key": "protocol.fanout", "values": [1, 2]},
        "wakes": {"key": "protocol.wakes", "values": [2, 3]},
    }
    single = gossiprec.study({**PLACED, "seeds": 1, "axes": axes, "picture": {}}, out=tmp_path / "single")
    assert exit_code(["compare", str(single.path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    pairs = [[f"fanout {n}, wakes {wakes}, seed 1" for n in (2, 1)] for wakes in (2, 3)]
    assert [*dict.fromkeys((test["run"], test["reference"]) for test in found)] == [
        tuple(pair) for pair in pairs
    ]
    means = single.frame("by_user").groupby(["fanout", "wakes", "metric"]).value.mean()
    for test in found:
        of = int(test["run"][16]), test["metric"]
        assert (test["second"], test["first"]) == pytest.approx((means[2, *of], means[1, *of]))
    assert exit_code(["compare", str(single.path)]) == 0
    out = capsys.readouterr().out
    assert "accuracy[coalition" in out
    assert "of fanout 1, wakes 3, seed 1" in out
    assert "tests over the users of single runs" in out
    for row in single.frame("runs").itertuples():
        if (row.fanout, row.wakes) == (1, 3):
            shutil.rmtree(single.path / "runs" / row.run, ignore_errors=True)
    assert exit_code(["compare", str(single.path), "--metric", "hr@5", "--json"]) == 0
    out, err = capsys.readouterr()
    assert [test["reference"] for test in json.loads(out)] == ["fanout 1, wakes 2, seed 1"]
    assert "because their baseline has no finished run in this study: fanout 2, wakes 3" in err
    assert exit_code(["compare", str(single.path / "runs" / os.listdir(single.path / "runs")[0])]) == 2
    assert "found one run, " in capsys.readouterr().err
    assert exit_code(["compare", str(single.path), str(placed.path)]) == 2
    assert "single is a study; expected only runs, or one study by itself" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kept", "names", "notes"),
    [
        ("1 1, 1 2, 2 1, 2 2, 3 1", ["2, fraction 0.5"], ["left out 1 of 6 runs", "two seeds in common with fanout 1"]),
        ("1 2, 2 1, 2 2, 3 1", ["2, fraction 0.5, seed 2"], ["without the seed of fanout 1"]),
        ("2 1, 2 2, 3 1, 3 2", [], ["found no finished run of the baseline, fanout 1; expected one; run the study"]),
        ("1 1, 1 2, 2 1, 3 2", [], ["expected combinations with the same seeds; run the study again"]),
        ("1 1, 1 2", [], ["found one group of finished runs", "gossiprec table"]),
        ("", [], ["left out 6 of 6 runs", "found no groups of finished runs"]),
    ],
)  # fmt: skip
def test_only_finished_runs_of_equal_seeds_are_compared(placed, tmp_path, capsys, kept, names, notes):
    """A run that was refused before its start has a row, but no folder. Combinations of one fanout share their runs."""
    folder = shutil.copytree(placed.path, tmp_path / "study")
    for row in placed.frame("runs").itertuples():
        if f"{row.fanout} {row.seed}" not in kept.split(", "):
            shutil.rmtree(folder / "runs" / row.run, ignore_errors=True)
    status = exit_code(["compare", str(folder), "--json"])
    out, err = capsys.readouterr()
    tests = json.loads(out) if names else []
    assert status == (0 if names else 2)
    found = dict.fromkeys(test["run"].replace("fanout 2, fraction 0.25 / fanout 2", "2") for test in tests)
    assert [*found] == names
    assert {test["unit"] for test in tests} <= {"seeds" if "1 1" in kept else "users"}
    assert all(note in err for note in notes)


@pytest.mark.slow
def test_a_study_whose_combinations_share_all_runs_has_nothing_to_compare(placed, tmp_path, capsys):
    """Both combinations have the runs of seeds 1 and 2; testing one seed against the other would say nothing."""
    axes = {"fraction": PLACED["axes"]["fraction"]}
    shared = gossiprec.study({**PLACED, "axes": axes, "baseline": {}}, out=tmp_path / "shared")
    assert exit_code(["compare", str(shared.path)]) == 2
    assert (
        "found one group of finished runs (combinations that differ only in what" in capsys.readouterr().err
    )


def test_a_study_without_values_of_users_says_what_to_do(placed, tmp_path):
    copy = shutil.copytree(placed.path, tmp_path / "copy")
    (copy / "metrics_by_user.parquet").unlink()
    with pytest.raises(LogError, match=r"has no metrics_by_user.parquet; .* run it again: gossiprec study"):
        gossiprec.open_study(copy).table("by_user")
    assert gossiprec.study(PLACED, out=copy).table("by_user").equals(placed.table("by_user"))


def test_tables_are_arrow(placed):
    assert placed.table("runs").equals(gossiprec.open_study(placed.path).table("runs"))
    assert placed.table().num_rows == 12
    with pytest.raises(LogError, match=r"unknown table 'point'; did you mean 'points'\?"):
        placed.table("point")


def test_without_pandas_the_arrow_table_is_named(placed, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ResourceError, match=r"study\.frame needs pandas.*study\.table gives the same"):
        placed.frame()


def test_runs_are_found_by_the_values_of_axes(placed):
    assert len(placed.runs()) == 6
    (run,) = placed.runs(fanout=3, fraction=0.5, seed=2)
    assert run.scenario["protocol"]["fanout"] == 3
    assert run.scenario["seed"] == 2
    assert placed.runs(fanout=4) == []
    with pytest.raises(LogError, match=r"no axis 'fan'; did you mean 'fanout'\?"):
        placed.runs(fan=3)


def test_it_says_what_it_is(placed):
    assert repr(placed) == (
        f"<StudyResult {placed.path}: complete, 6 of 6 runs finished, fanout (3) x fraction (2)>"
    )
    page = placed._repr_html_()
    assert page.count("<tr>") == 7
    assert "coalition<br>standardized<br>max AAC (%)" in page


@pytest.mark.slow
def test_pictures_and_pages_lie_in_its_folder(placed, tmp_path):
    assert {path.name for path in placed.plot("heat", y="max_aac")} == {"heat.csv", "heat.png", "heat.svg"}
    drawn = placed.plot("lines", tmp_path / "a.pdf", where={"fraction": 0.5}, y="hr@5")
    assert tmp_path / "a.pdf" in drawn
    with pytest.raises(LogError, match=r"unknown figure 'line'; did you mean 'lines'\?"):
        placed.plot("line")
    assert placed.report() == placed.path / "report.html"
    assert placed.report(tmp_path / "page.html").stat().st_size > 100_000


def test_its_folder_keeps_what_the_file_says_of_pictures(placed):
    table = read_study(placed.path)
    assert table.picture == PLACED["picture"]
    assert (table.axis_label("fraction"), table.axis_label("fanout")) == ("colluders", "fanout")
    note = format_table_note(table, placed.path).splitlines()[1]
    assert note.endswith(f"gossiprec plot study {quote(str(placed.path))}")


def test_options_are_those_of_the_command(tmp_path):
    found = gossiprec.study(PLACED, overrides=["protocol.wakes=1"], seeds=1, limit=1, out=tmp_path / "s")
    (run,) = found.runs()
    assert run.scenario["protocol"]["wakes"] == 1
    assert found.mark["variants"] == 1


@pytest.mark.slow
@pytest.mark.full
def test_workers_give_the_same_bytes(placed, tmp_path):
    other = gossiprec.study(PLACED, out=tmp_path / "other", jobs=2)
    assert tables(other.path) == tables(placed.path)


def test_a_file_is_read_like_the_command_reads_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.yaml").write_text(yaml.safe_dump({**PLACED, "seeds": 1, "axes": {}, "baseline": {}}))
    assert gossiprec.study("one.yaml").path.as_posix() == "studies/placed"
    with pytest.raises(ScenarioError, match="did you mean 'fanout'"):
        gossiprec.study({**PLACED, "axes": {"fanout": {"key": "protocol.fanuot", "values": [1]}}})


def test_runs_that_fail_are_told(tmp_path):
    bad = {
        "who": {"key": "observers", "values": {"good": [SINGLE], "bad": [{**SINGLE, "reference_items": 39}]}}
    }
    found = gossiprec.study(
        {**PLACED, "axes": bad, "seeds": 1, "share": False, "baseline": {}}, out=tmp_path / "s"
    )
    assert repr(found) == f"<StudyResult {found.path}: failed, 1 of 2 runs finished, 1 failed>"
    assert "reference_items is 39" in found.mark["failed"][0]["problem"]


@pytest.mark.slow
def test_ctrl_c_ends_it_and_the_table_holds_what_is_finished(tmp_path, monkeypatch):
    calls = []

    class Impatient:
        def begin(self, **_):
            pass

        def split(self, *_):
            pass

        def ended(self, *_):
            calls.append(1)
            if len(calls) == 2:
                import signal

                from gossiprec.emulation.run.active_run import ActiveRun

                report = ActiveRun._report
                monkeypatch.setattr(
                    ActiveRun,
                    "_report",
                    lambda self, *rest: (report(self, *rest), signal.raise_signal(signal.SIGINT)),
                )

    with pytest.raises(KeyboardInterrupt):
        in_python(PLACED, out=tmp_path / "s", progress=Impatient())
    found = gossiprec.open_study(tmp_path / "s")
    assert (found.status, found.mark["finished"], found.mark["left"]) == ("interrupted", 2, 4)


def test_a_folder_of_something_else_is_no_study(tmp_path):
    with pytest.raises(LogError, match=r"it has no study\.json"):
        gossiprec.open_study(tmp_path)


UNGUARDED = """
import gossiprec
gossiprec.study({study!r}, out={out!r}, jobs=2)
"""


@pytest.mark.slow
@pytest.mark.full
def test_a_script_without_a_main_guard_is_told_what_to_write(tmp_path):
    study = {**PLACED, "seeds": 1, "axes": FANOUT, "baseline": {}, "picture": None}
    (tmp_path / "script.py").write_text(UNGUARDED.format(study=study, out=str(tmp_path / "out")))
    root = str(Path(gossiprec.__file__).parents[1])
    ended = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": root},
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert 'put the call under `if __name__ == "__main__":`, or use jobs=1' in ended.stderr
    assert ended.stderr.count("Traceback") == 1
    assert "another study is running" not in ended.stderr
