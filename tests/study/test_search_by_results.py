"""Searches: the same file gives the same trials, also in two calls; constraints, pruning, and bad input."""

from __future__ import annotations

import json
import sys

import pytest

from gossiprec.base.errors import GossipRecError, LogError, ResourceError
from gossiprec.emulation.run import live_run
from gossiprec.runs.search_record import best_trial, describe_trial, read_search
from gossiprec.study import search as search_module
from gossiprec.study.api import study
from gossiprec.study.folder import StudyFolder
from gossiprec.study.plan import make_plan
from gossiprec.study.spec import load_study
from tests.cli.calls import invoke
from tests.emulation.tiny_runs import tiny

optuna = pytest.importorskip("optuna")
OBJECTIVE = "max_aac[single]"


def made(**options):
    """Return a search over tiny runs; `search` options and sections can be replaced."""
    found = {"method": "optuna", "samples": 8, "minimize": OBJECTIVE, "prune": True, **options}
    found = {key: value for key, value in found.items() if value is not None}
    return {
        "name": "tuning",
        "base": tiny(protocol={**tiny()["protocol"], "wakes": 4}, evaluate={"every": 1, "metrics": ["hr@5"]}),
        "axes": {
            "rate": {"key": "training.learning_rate", "low": 0.001, "high": 0.5, "scale": "log"},
            "fanout": {"key": "protocol.fanout", "values": [1, 3]},
        },
        "seeds": [5],
        "search": found,
    }


def trials(folder):
    """Return number, values, state, objective, early values and results of each trial."""
    return [
        (
            trial.number,
            trial.params,
            trial.state.name,
            trial.value,
            trial.intermediate_values,
            trial.user_attrs,
        )
        for trial in read_search(folder).trials
    ]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("search") / "whole"
    study(made(constraints={"hr@5": {"at_least": 0.1}}), out=folder)
    return folder


@pytest.mark.slow
def test_pruned_and_complete_trials_are_told_apart(whole):
    search = read_search(whole)
    states = [trial.state.name for trial in search.trials]
    assert states[:5] == ["COMPLETE"] * 5
    assert set(states) == {"COMPLETE", "PRUNED"}
    kept = {path.name for path in (whole / "runs").iterdir()}
    complete = [trial for trial in search.trials if trial.state.name == "COMPLETE"]
    assert len(kept) == len({str(trial.params) for trial in complete})
    for trial in search.trials:
        early = list(trial.intermediate_values.values())
        assert early == sorted(early)  # the largest accuracy so far
        assert trial.value == trial.user_attrs["results"][OBJECTIVE] == pytest.approx(early[-1])
        all_reports = len(search.trials[0].intermediate_values)
        assert (len(early) < all_reports) == (trial.state.name == "PRUNED")
    assert best_trial(search).value == min(
        trial.value for trial in complete if trial.user_attrs["results"]["hr@5"] >= 0.1
    )


@pytest.mark.slow
@pytest.mark.full
def test_search_in_two_calls_makes_the_trials_of_an_unbroken_one(whole, tmp_path, monkeypatch):
    file = made(constraints={"hr@5": {"at_least": 0.1}})
    study(file, out=tmp_path / "parts", limit=6)
    started = []
    prepare = live_run.prepare
    monkeypatch.setattr(
        search_module, "prepare", lambda *a, **k: started.append(k["out"].name) or prepare(*a, **k)
    )
    study(file, out=tmp_path / "parts")
    assert len(started) <= 2
    assert trials(tmp_path / "parts") == trials(whole)
    assert (tmp_path / "parts" / "table.csv").read_bytes() == (whole / "table.csv").read_bytes()
    again = [trial[:4] for trial in trials(whole)]
    (tmp_path / "parts" / "search.log").unlink()
    study(file, out=tmp_path / "parts", limit=5)
    assert [trial[:4] for trial in trials(tmp_path / "parts")] == again[:5]
    assert len(started) <= 2, "finished runs are found without the record"


@pytest.mark.slow
def test_a_trial_that_failed_or_was_interrupted_is_made_again(tmp_path, monkeypatch):
    file, prepare, failing = made(prune=False, samples=3), live_run.prepare, [False, True, KeyboardInterrupt]

    def fails(*args, **options):
        error = failing.pop(0) if failing else False
        if error is True:
            raise ResourceError("no room")
        if error:
            raise error
        return prepare(*args, **options)

    monkeypatch.setattr(search_module, "prepare", fails)
    with pytest.raises(KeyboardInterrupt):
        study(file, out=tmp_path / "broken")
    assert [trial[2] for trial in trials(tmp_path / "broken")] == ["COMPLETE", "FAIL", "FAIL"]
    assert "failed: no room" in describe_trial(read_search(tmp_path / "broken").trials[1])
    study(file, out=tmp_path / "broken")
    study(file, out=tmp_path / "whole")
    assert trials(tmp_path / "broken") == trials(tmp_path / "whole")


@pytest.mark.parametrize(
    ("aim", "says"),
    [
        ({"minimize": OBJECTIVE}, ""),
        ({"minimize": None, "maximize": OBJECTIVE}, f"highest {OBJECTIVE}"),
        ({"minimize": "hr@5"}, "lowest hr@5"),
    ],
)
def test_a_search_for_the_worst_value_says_so(aim, says, tmp_path, capsys):
    file = tmp_path / "tuning.yaml"
    file.write_text(json.dumps(made(**aim)))
    code, _, said = invoke(capsys, "study", "--search", file, "--out", tmp_path / "out", "--dry-run")
    assert code == 0
    assert ("the worst for users" in said) == bool(says)
    assert says in said


@pytest.mark.slow
def test_without_a_feasible_trial_none_is_best(tmp_path, capsys):
    file = tmp_path / "tuning.yaml"
    file.write_text(json.dumps(made(samples=2, prune=False, constraints={"hr@5": {"at_least": 2}})))
    code, printed, said = invoke(capsys, "study", "--search", file, "--out", tmp_path / "out")
    assert code == 1
    assert "2 trials: 2 complete, 0 pruned, 0 failed\nno trial meets the constraints" in printed
    assert said.count("hr@5") == 2
    assert invoke(capsys, "report", tmp_path / "out")[0] == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "No trial meets the constraints." in page
    assert "Trials, axis by axis" in page


@pytest.mark.slow
def test_without_optuna_a_page_names_the_extra(whole, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert invoke(capsys, "report", whole, "--out", tmp_path / "page.html")[0] == 0
    assert "pip install 'gossiprec[search]'" in (tmp_path / "page.html").read_text().replace("&#x27;", "'")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"minimize": None}, "found neither of minimize and maximize"),
        ({"maximize": "hr@5"}, "found both of minimize and maximize"),
        ({"minimize": "max_aa"}, "search.minimize: unknown measure 'max_aa'; did you mean 'max_aac'?"),
        ({"minimize": "max_aac[coordinator]"}, "search.minimize: no run has such an attack"),
        ({"constraints": {"hr@7": {"at_least": 0.1}}}, "search.constraints.hr@7: no run measures 'hr@7'"),
        ({"constraints": {"hr@5": {}}}, "sets no bound; expected at_least, at_most or both"),
        ({"constraints": {"hr@5": {"at_least": 2, "at_most": 1}}}, "no value is at least 2 and at most 1"),
        ({"minimize": "wall_seconds"}, "differs between runs of the same scenario"),
        ({"minimize": "rounds.late"}, "found no value of rounds.late"),
        ({"method": "random"}, "require method optuna"),
    ],
)
def test_bad_searches_are_one_message(tmp_path, changes, words):
    with pytest.raises(GossipRecError) as found:
        study(made(**{"samples": 1, **changes}), out=tmp_path / "out")
    assert words in str(found.value)


def test_ranges_are_suggested_on_their_scale(tmp_path):
    axes = {
        "dim": {"key": "model.dim", "low": 1.5, "high": 16, "scale": "log", "integer": True},
        "rate": {"key": "training.learning_rate", "low": 0.001, "high": 0.5, "scale": "log"},
        "wakes": {"key": "protocol.wakes", "low": 2, "high": 9, "integer": True},
        "fanout": {"key": "protocol.fanout", "values": [1, 3]},
    }
    trial = optuna.create_study().ask()
    plan = make_plan(load_study({**made(), "axes": axes}))
    point = search_module.Search(plan, StudyFolder(tmp_path))._point(trial)
    distributions = optuna.distributions
    assert trial.distributions == {
        "dim": distributions.IntDistribution(2, 16, log=True),
        "rate": distributions.FloatDistribution(0.001, 0.5, log=True),
        "wakes": distributions.IntDistribution(2, 9),
        "fanout": distributions.CategoricalDistribution((0, 1)),
    }
    assert point["fanout"].label == [1, 3][trial.params["fanout"]]
    assert point["dim"].label == trial.params["dim"]


def test_an_empty_range_and_no_axis_are_refused(tmp_path):
    for axes, words in (
        ({"rate": {"key": "training.learning_rate", "low": 1, "high": 1}}, "range from 1 to 1 is empty"),
        ({}, "a search needs something to vary"),
        ({"rate": {"key": "training.learning_rat", "low": 0, "high": 1}}, "learning_rat"),
    ):
        with pytest.raises(GossipRecError) as found:
            study({**made(), "axes": axes}, out=tmp_path / "out")
        assert words in str(found.value)


def test_without_optuna_the_message_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ResourceError, match=r"pip install 'gossiprec\[search\]'"):
        study(made(), out=tmp_path / "out")


def test_command_refuses_what_a_search_cannot_do(tmp_path, capsys):
    file = tmp_path / "tuning.yaml"
    file.write_text(json.dumps(made()))
    code, _, said = invoke(capsys, "study", "--search", file, "--jobs", "2")
    assert code == 2
    assert "remove --jobs, --ray and --track" in said
    file.write_text(json.dumps({**made(), "search": {"method": "random", "samples": 2}}))
    code, _, said = invoke(capsys, "study", "--search", file)
    assert code == 2
    assert "found search.method 'random'" in said


@pytest.mark.slow
@pytest.mark.parametrize("text", ["", "[1]", "{", '{"op_code": 0}', '{"op_code": 99, "worker_id": "x"}'])
def test_a_damaged_record_is_one_message(text, tmp_path):
    (tmp_path / "search.log").write_text(f"{text}\n{text}\n")
    with pytest.raises(LogError, match=r"search\.log: found .*; delete it, and run the search again"):
        read_search(tmp_path)
