"""Searches: the same file gives the same trials, also in two calls; constraints, pruning, and bad input."""

from __future__ import annotations

import json
import sys

import pytest

from gossiprec.base.errors import GossipRecError, LogError, ResourceError
from gossiprec.emulation.run import live_run
from gossiprec.runs.search_record import read_search
from gossiprec.study import search as search_module
from gossiprec.study.api import study
from gossiprec.study.search import SearchResult, Trial
from tests.cli.calls import invoke
from tests.emulation.tiny_runs import tiny

pytest.importorskip("optuna")
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


def results(folder):
    return json.loads((folder / "search.json").read_text())


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("search") / "whole"
    study(made(constraints={"hr@5": {"at_least": 0.1}}), out=folder)
    return folder


@pytest.mark.slow
def test_pruned_and_complete_trials_are_told_apart(whole):
    found = results(whole)
    states = [trial["state"] for trial in found["trials"]]
    assert states[:5] == ["complete"] * 5
    assert set(states) == {"complete", "pruned"}
    kept = {path.name for path in (whole / "runs").iterdir()}
    assert len(kept) == len({str(t["labels"]) for t in found["trials"] if t["state"] == "complete"})
    for trial in found["trials"]:
        early = trial["early"]
        assert early == sorted(early)  # the largest accuracy so far
        assert trial["value"] == early[-1]
        assert (len(early) < len(found["trials"][0]["early"])) == (trial["state"] == "pruned")
    best = found["trials"][found["best"]]
    within = [t["value"] for t in found["trials"] if t["state"] == "complete" and not t["violation"]]
    assert best["value"] == min(within)
    assert sum(found["importances"].values()) == pytest.approx(1.0)


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
    for name in ("search.json", "table.csv"):
        assert (tmp_path / "parts" / name).read_bytes() == (whole / name).read_bytes()


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
def test_without_a_feasible_trial_the_nearest_is_shown(whole, tmp_path, capsys):
    file = tmp_path / "tuning.yaml"
    file.write_text(json.dumps(made(samples=2, prune=False, constraints={"hr@5": {"at_least": 2}})))
    code, printed, said = invoke(capsys, "study", "--search", file, "--out", tmp_path / "out")
    assert code == 1
    assert "no trial meets the constraints; nearest: trial" in printed
    assert "(at least 2)" in printed
    assert "outside the constraints" in said
    assert invoke(capsys, "report", tmp_path / "out")[0] == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "No trial meets the constraints." in page
    assert "Trials, axis by axis" in page


def test_best_trial_is_the_first_with_the_best_feasible_value():
    trials = [
        Trial(0, {}, "complete", 0.1, violation=0.5),
        Trial(1, {}, "complete", 0.3, violation=0.0),
        Trial(2, {}, "pruned", 0.0, violation=0.0),
        Trial(3, {}, "complete", 0.2, violation=0.0),
        Trial(4, {}, "complete", 0.2, violation=0.0),
    ]
    assert SearchResult("x", False, {}, "", trials).best.number == 3
    assert SearchResult("x", True, {}, "", trials).best.number == 1
    assert SearchResult("x", True, {}, "", trials[:1]).best is None


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


DAMAGE = {
    "trials is 7; expected a list; the file is damaged": lambda found: found.update(trials=7),
    "trials.0.early is missing": lambda found: found["trials"][0].pop("early"),
    "trials.0.value is 'x'; expected a valid number": lambda found: found["trials"][0].update(value="x"),
    "trials.0: a complete trial without a value": lambda found: found["trials"][0].update(value=None),
    "trials.0: not the trial of this place": lambda found: found["trials"][0].update(labels={}),
    "trials.0.labels.fanout: 9 is not on the axis": lambda found: found["trials"][0]["labels"].update(
        fanout=9
    ),
    "best: found 99": lambda found: found.update(best=99),
    "objective is missing": lambda found: found.clear(),
}


@pytest.mark.parametrize("problem", DAMAGE)
def test_a_damaged_record_is_one_message_with_the_place(problem, tmp_path):
    trial = {"number": 0, "labels": {"fanout": 1}, "state": "complete", "value": 0.5, "bounded": {}}
    trial |= {"violation": None, "early": []}
    record = {"objective": "hr@5", "maximize": True, "constraints": {}, "code": "c", "trials": [trial]}
    record |= {"importances": {}, "axes": {"fanout": {"labels": [1, 3]}}, "best": 0}
    path = tmp_path / "search.json"
    path.write_text(json.dumps(record))
    assert read_search(tmp_path)["trials"] == [trial]
    DAMAGE[problem](record)
    path.write_text(json.dumps(record))
    with pytest.raises(LogError) as caught:
        read_search(tmp_path)
    assert str(caught.value).startswith(f"{path}: {problem}")
    assert "the file is damaged: delete it" in str(caught.value)
