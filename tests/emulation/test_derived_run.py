"""Every look back at a finished run refuses the same runs, with the same words, before any work."""

from __future__ import annotations

import json
import shutil

import pytest

import gossiprec
from gossiprec.base.errors import LogError
from gossiprec.emulation import simulate
from gossiprec.emulation.run import derived_run
from gossiprec.scenario import load_scenario
from tests.emulation.tiny_runs import SINGLE, tiny

LOOKS = {
    "counterfactual": lambda run: gossiprec.counterfactual(run, [1]),
    "influence": lambda run: gossiprec.influence(run, run),
    "unlearn": lambda run: gossiprec.unlearn(run, [1]),
    "observe": lambda run: gossiprec.observe(run, {"observers": [SINGLE]}),
    "epsilon": gossiprec.network_epsilon,
    "audit": gossiprec.audit_privacy,
}
PLUGINS = {"absent": {"version": "1", "code": "0"}}
REFUSED = {
    "interrupted": ({"status": "interrupted"}, "status interrupted; expected a complete run; .*resume"),
    "of a plug-in": ({"plugins": PLUGINS}, "plug-ins that are not installed; .*pip install absent==1"),
    "later results": ({"observes": {"log_digest": "0"}}, "results of observers of another run; .*; name "),
    "of other code": ({"code": "0" * 16}, "a run of other code .0000.*; run it again: gossiprec rerun"),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return simulate(tiny(observers=[]), out=tmp_path_factory.mktemp("runs") / "run").path


@pytest.fixture
def run(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "run")


@pytest.mark.parametrize("look", LOOKS)
def test_a_run_that_would_not_be_repeated_is_refused(run, look):
    manifest = json.loads((run / "manifest.json").read_text())
    for changed, words in REFUSED.values():
        if look == "observe" and "code" in changed:  # it compares all results instead
            continue
        (run / "manifest.json").write_text(json.dumps({**manifest, **changed}))
        with pytest.raises(LogError, match=words):
            LOOKS[look](run)
    (run / "manifest.json").write_text(json.dumps(manifest))
    (run / "metrics.csv").write_text("time\n")
    with pytest.raises(LogError, match=r"metrics.csv was changed after .*; restore it from a copy"):
        LOOKS[look](run)
    assert sorted(path.name for path in run.parent.iterdir()) == ["run"]


def test_runs_of_changed_data_are_refused(run, monkeypatch):
    monkeypatch.setattr(derived_run, "changed_since", lambda *_: "views.csv changed")
    with pytest.raises(
        LogError, match=r"its data differ from now: views.csv changed; restore them, or run it"
    ):
        gossiprec.observe(run, {"observers": [SINGLE]})


def test_temporary_runs_are_closed_and_deleted():
    with derived_run.temporary_runs(None) as start:
        paths = [start(load_scenario(tiny())).path for _ in range(2)]
        assert paths[0].parent == paths[1].parent
        assert all(path.exists() for path in paths)
    assert not paths[0].parent.exists()
