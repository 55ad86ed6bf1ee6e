"""Options that change during a run: by the scenario, from Python, and in resumed, replayed and divided runs."""

from __future__ import annotations

import numpy as np
import pytest

import gossiprec
from gossiprec.base.errors import LogError, ScenarioError
from gossiprec.emulation import replay, resume, simulate
from gossiprec.scenario import load_scenario
from tests.emulation.ended_early import OFTEN, Patient, checkpoints, often, outcome
from tests.emulation.sharded import Threads, divided
from tests.emulation.test_live_run import RUNS
from tests.emulation.test_resume import SLOW
from tests.slow import slow_except_first

RATE = "training.learning_rate"
CONSTANT = {"name": "rand-gossip", "fanout": 3, "view": {"size": 3}, "wakes": 8, "wake": {"law": "constant"}}


def changing(*changes, **sections):
    """Return a tiny scenario whose training changes at some reports."""
    sections = {"executor": {"name": "fused"}, "network": SLOW, **sections}
    return often(changes=[{"at": at, "set": values} for at, values in changes], **sections)


CHANGES = (3, {RATE: 0.5}), (5, {RATE: 0.02, "training.betas": [0.8, 0.99], "training.eps": 1e-6})


def change_in_steps(path, **options):
    """Return a run that stands at its report 6, after the changes were made from Python."""
    live = gossiprec.prepare(changing(**options), out=path, progress=Patient())
    for at, values in CHANGES:
        live.until(at)
        for option, value in values.items():
            live.change(option, value)
    live.until(6)
    return live


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    """A run whose scenario has the changes."""
    return simulate(changing(*CHANGES), out=tmp_path_factory.mktemp("changed") / "run")


def test_changes_are_events_and_change_models_from_then_on_only(changed, tmp_path):
    plain = simulate(changing(), out=tmp_path / "plain")
    found = changed.events("change")
    names = ["learning_rate", "betas.0", "betas.1", "eps", "local_epochs", "negatives"]
    assert [found[name].tolist() for name in ("time", "option", "value")] == [
        [3.0, 5.0, 5.0, 5.0, 5.0], [0, 0, 1, 2, 3], [0.5, 0.02, 0.8, 0.99, 1e-6]
    ]  # fmt: skip
    (column,) = (
        c for kind in changed.log.schema.kinds if kind.name == "change" for c in kind.columns if c.codes
    )
    assert list(column.codes) == [f"training.{name}" for name in names]
    differs = np.flatnonzero(changed.metrics["value"] != plain.metrics["value"])
    assert changed.metrics["time"][differs[0]] > 3.0
    for name, values in plain.events("message").items():
        assert np.array_equal(values, changed.events("message")[name])


@pytest.mark.full
def test_a_change_from_python_gives_the_bytes_of_one_in_the_scenario(changed, tmp_path):
    live = change_in_steps(tmp_path / "live")
    run = live.finish()
    assert outcome(run.path) == outcome(changed.path)
    assert run.manifest["changes"][0] == {"at": 3, "set": {RATE: 0.5}}
    assert replay(run.path).confirmed
    assert replay(changed.path).confirmed
    without = [gossiprec.counterfactual(path, [0]).path for path in (run.path, changed.path)]
    assert outcome(without[0]) == outcome(without[1])
    again = simulate(changing(), out=run.path, on_exists="reuse")
    assert not len(again.events("change")["time"])


@pytest.mark.full
def test_resumed_it_makes_the_changes_after_its_checkpoint_again(changed, tmp_path):
    run = change_in_steps(tmp_path / "live", checkpoint={**OFTEN, "keep": 9}).close()
    for at in (6, 5, 4, 2):
        files = checkpoints(run)
        for file in files:
            if int(file.stem) > at:
                file.unlink()
        assert int(checkpoints(run)[0].stem) == at
        if at > 2:
            assert resume(run.path, progress=Patient(1)).status == "interrupted"
            for file in checkpoints(run):
                if int(file.stem) > at:
                    file.unlink()
    done = resume(run.path)
    assert outcome(done.path) == outcome(changed.path)


def test_run_again_from_its_start_it_makes_them_too(changed, tmp_path):
    run = change_in_steps(tmp_path / "live", checkpoint={"minutes": None}).close()
    assert not checkpoints(run)
    with pytest.raises(LogError, match="no checkpoint"):
        resume(run.path)
    assert outcome(resume(run.path, from_start=True).path) == outcome(changed.path)


@pytest.mark.parametrize("kind", slow_except_first(["updates", "central", "batched", "reference", *RUNS]))
@pytest.mark.cases(1)
@pytest.mark.slow
def test_every_trainer_follows(kind, tmp_path):
    sections = {**RUNS.get(kind, {"executor": {"name": kind}}), "network": {}}
    nodes = [12] if kind == "central" else range(12)
    with gossiprec.prepare(often(**sections), out=tmp_path / "run") as live:
        live.step()
        begin = [live.model(node)["users"] for node in nodes]
        live.step()
        before = [live.model(node)["users"] for node in nodes]
        live.change(RATE, 1e-30)
        live.until(6)
        assert not np.array_equal(begin, before)
        assert np.array_equal(before, [live.model(node)["users"] for node in nodes])


EPOCHS, NEGATIVES = {"training.local_epochs": 3}, {"training.negatives": 9}
OTHERS = {
    "batched": {"executor": {"name": "batched"}},
    "reference": {"executor": {"name": "reference"}},
    "pers-gossip": RUNS["pers-gossip"],
    **{kind: {**RUNS[kind], "executor": {"name": "batched"}} for kind in ("updates", "central")},
}


@pytest.fixture(scope="module")
def more_work(tmp_path_factory):
    """A run whose updates have more epochs from report 3 on, and more negatives from report 5 on."""
    scenario = changing((3, EPOCHS), (5, NEGATIVES), network={})
    return simulate(scenario, out=tmp_path_factory.mktemp("more") / "run")


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=pytest.mark.slow) for kind in OTHERS])
@pytest.mark.full
def test_epochs_and_negatives_change_in_every_mode_and_executor(kind, more_work, tmp_path):
    scenario = changing((3, EPOCHS), (5, NEGATIVES), **{"network": {}, **OTHERS[kind]})
    run = simulate(scenario, out=tmp_path / "run")
    of = run.events("update")
    later, last = of["time"] > 3, of["time"] > 5
    assert set(of["epochs"][later]) == {3}
    assert set(of["epochs"][~later]) == {1}
    positives = of["samples"] / of["epochs"] / np.where(last, 1 + 9, 1 + 4)
    assert len({*zip(of["node"].tolist(), positives.tolist(), strict=True)}) == len(np.unique(of["node"]))
    assert run.summary["node_updates"] == of["epochs"].sum()
    assert replay(run.path).confirmed
    if kind in ("batched", "reference"):
        assert run.manifest["log_digest"] == more_work.manifest["log_digest"]
        np.testing.assert_allclose(run.metrics["value"], more_work.metrics["value"], atol=1e-3)


@pytest.mark.slow
@pytest.mark.full
def test_epochs_and_negatives_change_in_resumed_divided_and_live_runs_too(more_work, tmp_path):
    with gossiprec.prepare(
        changing(network={}, checkpoint={**OFTEN, "keep": 9}), out=tmp_path / "live"
    ) as live:
        for at, values in ((3, EPOCHS), (5, NEGATIVES)):
            live.until(at)
            for option, value in values.items():
                live.change(option, value)
        live.until(6)
        run = live.close()
    for at in (6, 4):
        for file in checkpoints(run):
            if int(file.stem) > at:
                file.unlink()
        done = resume(run.path, progress=Patient(1) if at == 6 else None)
    assert outcome(done.path) == outcome(more_work.path)
    assert done.summary["node_updates"] == more_work.summary["node_updates"]
    scenario = divided(changing((3, EPOCHS), (5, NEGATIVES), network={}), 2)
    parts = simulate(scenario, out=tmp_path / "parts", make_shard_group=Threads)
    assert parts.manifest["log_digest"] == more_work.manifest["log_digest"]
    assert (parts.path / "metrics.csv").read_bytes() == (more_work.path / "metrics.csv").read_bytes()


@pytest.mark.slow
def test_a_divided_run_changes_everywhere(changed, tmp_path):
    by_scenario = simulate(divided(changing(*CHANGES), 2), out=tmp_path / "one", make_shard_group=Threads)
    with gossiprec.prepare(divided(changing(), 2), out=tmp_path / "two", make_shard_group=Threads) as live:
        for at, values in CHANGES:
            live.until(at)
            for option, value in values.items():
                live.change(option, value)
        in_steps = live.finish()
    for run in (by_scenario, in_steps):
        assert run.manifest["log_digest"] == changed.manifest["log_digest"]
        assert (run.path / "metrics.csv").read_bytes() == (changed.path / "metrics.csv").read_bytes()


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"changes": [{"at": 3, "set": {"protocol.wakes": 9}}]}, "'protocol.wakes', which is fixed"),
        ({"changes": [{"at": 3, "set": {RATE: -1}}]}, "training.learning_rate: found -1: input should be greater"),
        ({"changes": [{"at": 3, "set": {}}]}, "changes.0.set"),
        ({"changes": [{"set": {RATE: 1}}]}, "changes.0.at: is missing"),
        ({"changes": [{"at": 3, "set": {RATE: 1}}] * 2}, "changes.1.set: found 'training.learning_rate'"),
        (
            {"changes": [{"at": 3, "set": {RATE: 1}}], "evaluate": {"every": 2, "metrics": ["hr@5"]}},
            "changes.0.at: found 3, a round without a report; expected one with a report, such as 4",
        ),
        (
            {"changes": [{"at": 3, "set": {"training.eps": 1}}], "training": {"optimizer": "sgd"}},
            "'training.eps', which has no effect with training.optimizer: sgd",
        ),
        (
            {
                "changes": [{"at": 3, "set": {"training.negatives": 2}}],
                "network": {"compute": {"time": {"law": "constant", "value": 0.1}}},
            },
            "'training.negatives', but network.compute plans the times of updates by it",
        ),
        (
            {
                "changes": [{"at": 3, "set": {"training.local_epochs": 2}}],
                "policies": [{"name": "dp-sgd", "epsilon": 10}],
            },
            "'training.local_epochs', but the noise of dp-sgd is planned by it",
        ),
        (
            {"changes": [{"at": 3, "set": {RATE: 1}}], "attackers": [{"name": "a-ra", "number": 1}]},
            "but attackers takes its numbers when the run is prepared",
        ),
        (
            {
                "changes": [{"at": 2, "set": {RATE: 0.01}}],
                "model": {"name": "mf", "dim": 4, "loss": "bce"},
                "protocol": {"name": "fedavg", "rounds": 4, "slice": 5, "client_model": "none", "merge": "mean"},
                "recommender": {"name": "pfedrec"},
            },
            "changes: found changes of training, but recommender takes its numbers when the run is prepared; "
            "remove changes or recommender",
        ),
    ],
)  # fmt: skip
def test_a_change_that_cannot_be_made_is_refused_when_it_is_read(sections, message):
    with pytest.raises(ScenarioError) as refused:
        load_scenario(often(**sections))
    assert message in str(refused.value)


def test_a_change_after_the_end_is_refused(tmp_path):
    with pytest.raises(ScenarioError, match=r"changes.0.at: found 500, but the run has about \d+ rounds"):
        simulate(changing((500, {RATE: 1})), out=tmp_path / "run")


def test_a_change_from_python_that_cannot_be_made_is_refused(tmp_path):
    with gossiprec.prepare(changing(protocol=CONSTANT), out=tmp_path / "run") as live:
        live.change("training.eps", 1e-7)
        with pytest.raises(ScenarioError, match=r"evaluate.every.*expected one of training.learning_rate, "):
            live.change("evaluate.every", 3)
        with pytest.raises(ScenarioError, match="found 'fast'"):
            live.change(RATE, "fast")
        live.until(np.inf)
        with pytest.raises(LogError, match="has made its last report"):
            live.change(RATE, 1)
        run = live.finish()
    assert run.events("change")["time"].tolist() == [0.0]
