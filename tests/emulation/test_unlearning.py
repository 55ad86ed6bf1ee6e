"""Unlearning methods against the counterfactual, and each method's formula in plain numpy."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec import counterfactual, influence, unlearn
from gossiprec.base.errors import DataError, ScenarioError
from gossiprec.emulation import prepare, simulate
from gossiprec.emulation.unlearning import UNLEARNERS, Forgotten, Unlearner
from gossiprec.emulation.unlearning.fine_tune import shortened
from gossiprec.scenario import load_scenario
from gossiprec.testing import temporarily_registered
from tests.emulation.tiny_runs import carried_out, final_models, tiny

UPDATES = {"name": "fedavg", "rounds": 4, "client_model": "none"}
RUNS = {
    "gossip": {},
    "whole models": {"protocol": {"name": "fedavg", "rounds": 4}},
    "updates": {"protocol": UPDATES},
}
OTHERS = [0, 1, 2, *range(4, 12)]
FORGOTTEN = 3


class Idle(Unlearner):
    """Does nothing."""

    def forget(self, request):
        return Forgotten(request.models)


@pytest.fixture(scope="module", params=RUNS)
def judged(request, tmp_path_factory):
    """A run, and all methods that fit it, judged."""
    run = simulate(tiny(observers=[], **RUNS[request.param]), out=tmp_path_factory.mktemp("runs") / "run")
    with temporarily_registered(UNLEARNERS, {"idle": Idle}):
        return run, unlearn(run.path, [FORGOTTEN], k=5), request.param


@pytest.mark.slow
def test_the_yardstick_is_the_counterfactual_run(judged):
    run, found, _ = judged
    expected = influence(run.path, counterfactual(run.path, [FORGOTTEN]).path, k=5)
    nothing, exact = (found.methods[name].differences for name in ("nothing", "retrain"))
    np.testing.assert_allclose(nothing.distance, expected.distance)
    assert nothing.users.tolist() == OTHERS
    assert not exact.distance.any()
    assert (exact.overlap == 1).all()
    table = found.table()
    assert table["nothing"]["remaining"] == 1
    assert table["retrain"]["remaining"] == 0
    assert table["retrain"]["sent_bytes"] == counterfactual(run.path, [FORGOTTEN]).summary["bytes"]["sent"]


def test_a_method_that_does_nothing_shows_up_as_such(judged):
    table = judged[1].table()
    np.testing.assert_equal(table["idle"], table["nothing"])
    assert table["fine-tune"]["distance"] not in (0.0, table["nothing"]["distance"])


def logits(row, items, weights, own):
    return (items[own] * row) @ weights


def test_the_attacker_knows_the_user_row_from_before_the_request(judged):
    """Its AUC is that of GMF's formula with this row and the attacked nodes' items."""
    run, found, name = judged
    if name != "gossip":
        return
    before, after = (
        carried_out({**run.scenario, "dataset": {**run.scenario["dataset"], **more}})
        for more in ({}, {"without": [FORGOTTEN]})
    )
    from gossiprec.adversaries.attacks.candidates import draw_candidates

    train = before.split.train
    candidates = draw_candidates(train, before.split.test, 40, 50, "popularity", 5)[FORGOTTEN]
    members = np.isin(candidates, train[FORGOTTEN])
    row = final_models(before)[FORGOTTEN, :8]
    for method, models in (("nothing", final_models(before)), ("retrain", final_models(after))):
        aucs = []
        for model in models[OTHERS]:
            scores = logits(row, model[8:328].reshape(40, 8), model[328:336], candidates)
            aucs.append(np.mean(scores[members][:, None] > scores[~members]))
        assert found.methods[method].membership_auc == pytest.approx(np.mean(aucs), abs=1e-6)


@pytest.mark.parametrize("name", RUNS)
def test_fine_tuning_continues_from_the_final_models(name):
    scenario = load_scenario(tiny(observers=[], **RUNS[name]))
    ended, further = carried_out(scenario), prepare(shortened(scenario, 0.01))
    store = further.executor.store
    store.continue_from(ended.executor.store, ended.planner.current_rows)
    nodes = np.arange(12)
    begun, last = (
        run.executor.store.models(run.planner.current_rows, nodes)[:, :336] for run in (further, ended)
    )
    np.testing.assert_array_equal(begun, last)
    for moments in ("first", "second", "steps"):
        np.testing.assert_array_equal(getattr(store, moments), getattr(ended.executor.store, moments))
    for _ in further.schedule.play(further.tape_runner().run_segment):
        pass
    done = store.models(further.planner.current_rows, nodes)[:, :336]
    assert (done != last).any(axis=1).all()
    assert further.counts.epochs == 12


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    return simulate(tiny(observers=[], **RUNS["updates"]), out=tmp_path_factory.mktemp("short") / "run").path


@pytest.mark.parametrize(
    ("without", "words"),
    [
        ([], "found no user to leave out"),
        ([12], "found user 12; expected a node id from 0 to 11"),
        (["ann"], "no user named 'ann'"),
        ([*range(12)], "found all 12 users"),
    ],
)
def test_users_who_cannot_be_forgotten_are_refused(short, without, words):
    with pytest.raises(DataError, match=words):
        unlearn(short, without)


@pytest.mark.parametrize(
    ("methods", "words"),
    [
        (["forget"], "unknown unlearning method 'forget'; known: "),
        ([{"name": "fine-tune", "fraction": 0}], "method: fine-tune: .*fraction.*found 0"),
        (["retrain", "retrain"], "found retrain twice"),
    ],
)
def test_bad_methods_are_refused(short, methods, words):
    with pytest.raises(ScenarioError, match=words):
        unlearn(short, [3], methods=methods)


def test_a_user_without_data_and_long_lists_are_refused(short, tmp_path):
    with pytest.raises(ScenarioError, match="k: found 41; expected a length of lists from 1 to 40"):
        unlearn(short, [3], k=41)
    with pytest.raises(DataError, match="user 3 has no data in it"):
        unlearn(counterfactual(short, [3], out=tmp_path / "without").path, [3])


def test_central_training_can_only_be_repeated(tmp_path):
    run = simulate(tiny(observers=[], protocol={"name": "central", "epochs": 2}), out=tmp_path / "run")
    with pytest.raises(ScenarioError, match=r"method fine-tune: found central training.*use retrain"):
        unlearn(run.path, [3], methods=["fine-tune"])
    assert unlearn(run.path, [3], k=5).table()["retrain"]["distance"] == 0
