"""Unlearning methods against the counterfactual, and each method's formula in plain numpy."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec import counterfactual, influence, unlearn
from gossiprec.base.errors import DataError, ScenarioError
from gossiprec.compute import local_update, update_noise
from gossiprec.compute.executors import batched
from gossiprec.defences import compute_epsilon
from gossiprec.emulation import prepare, simulate
from gossiprec.emulation.unlearning import (
    UNLEARNERS,
    FinalModels,
    Forgotten,
    Unlearner,
    UnlearningRequest,
)
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
@pytest.mark.cases(2)
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
    assert "epsilon" not in table["nothing"]
    assert table["fine-tune"]["distance"] not in (0.0, table["nothing"]["distance"])
    assert ("fru" in table) == ("cfru" in table) == (judged[2] == "updates")
    for name in {"fru", "cfru"} & set(table):
        assert 0 < table[name]["remaining"] < 1


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

    train = before.components.split.train
    candidates = draw_candidates(train, before.components.split.test, 40, 50, "popularity", 5)[FORGOTTEN]
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
        run.executor.store.models(run.planner.current_rows, nodes)[:, :337] for run in (further, ended)
    )
    np.testing.assert_array_equal(begun, last)
    for moments in ("first", "second", "steps"):
        np.testing.assert_array_equal(getattr(store, moments), getattr(ended.executor.store, moments))
    for _ in further.schedule.play(further.tape_runner().run_segment):
        pass
    done = store.models(further.planner.current_rows, nodes)[:, :337]
    assert (done != last).any(axis=1).all()
    assert further.counts.epochs == 12


@pytest.mark.parametrize("unit", ["user", "interaction"])
@pytest.mark.cases(1)
def test_fine_tuning_with_dp_sgd_draws_new_noise_of_the_same_size_and_spends_more(
    unit, tmp_path, monkeypatch
):
    drawn, draw = [], local_update.dp_noise_row

    def noted(layout, seed, node, number):
        drawn.append((node, number))
        return draw(layout, seed, node, number)

    for module in (update_noise, batched):
        monkeypatch.setattr(module, "dp_noise_row", noted)
    policies = [{"name": "dp-sgd", "unit": unit, "epsilon": 8.0, "delta": 1e-3}]
    training = {"optimizer": "sgd", "batch_size": "full"}
    run = simulate(
        tiny(observers=[], protocol=RUNS["whole models"]["protocol"], policies=policies, training=training,
             executor={"name": "batched"}), out=tmp_path / "run",
    )  # fmt: skip
    drawn.clear()
    found = unlearn(run.path, [FORGOTTEN], methods=[{"name": "fine-tune", "fraction": 0.5}], k=5)

    assert {number for node, number in drawn if node == 0} == set(range(6)), "four rounds, and two more"
    prepared = [found.methods[name].forgotten.models.prepared for name in ("nothing", "fine-tune")]
    for name in ("noise_multiplier", "update_noise"):
        of_run, of_method = (getattr(each.executor.work.node_settings, name) for each in prepared)
        np.testing.assert_array_equal(of_method, of_run)
    table, sigma = found.table(), run.summary["privacy"]["noise_multiplier_max"]
    assert table["nothing"]["epsilon"] == pytest.approx(8.0, rel=1e-5)
    assert table["fine-tune"]["epsilon"] == pytest.approx(compute_epsilon(sigma, 6, 1e-3), rel=1e-5)
    assert table["fine-tune"]["local_epochs"] == 24
    assert table["retrain"]["epsilon"] > 8.0, "both runs are known"


MERGES = ("samples", "mean", "sum", "touched-mean")
TWO_EPOCHS = {"local_epochs": 2, "batch_size": "full"}


def federation(merge="samples", **sections):
    protocol = {**UPDATES, "merge": merge, "participation": 0.6}
    return load_scenario(tiny(observers=[], protocol=protocol, training=TWO_EPOCHS, **sections))


def watched(scenario, on_aggregate):
    """Carry a run out, with a function that sees and changes each aggregation."""
    prepared = prepare(scenario)
    prepared.seams.reducer.on_aggregate = on_aggregate
    for _ in prepared.schedule.play(prepared.tape_runner().run_segment):
        pass
    return prepared


def last_version(prepared):
    return prepared.executor.store.merged_columns(prepared.planner.current_row(12)).astype(np.float64)


def history(scenario, method, removed):
    """Return the run, shown to a method, and its rounds: key, clients, dense changes, touched items, weights."""
    rounds = []

    def note(answers):
        changes, touched = np.zeros((len(answers.clients), 329)), np.zeros((len(answers.clients), 40), bool)
        for change, items, delta in zip(changes, touched, answers.inbox.deltas, strict=True):
            change[:320].reshape(40, 8)[delta.items] = delta.rows
            change[320:] = delta.shared
            items[delta.items] = True
        weights = answers.inbox.weights.copy()
        rounds.append((answers.key, answers.clients.copy(), changes, touched, weights))
        method.note_round(answers, removed)
        return answers.aggregated

    return watched(scenario, note), rounds


def reduced(changes, touched, keep):
    """Return changes and touched items, cut to a fraction of the items of each client, rounded up."""
    changes, touched = changes.copy(), touched.copy()
    for change, items in zip(changes, touched, strict=True):
        rows = change[:320].reshape(40, 8)
        by_length = sorted(np.flatnonzero(items), key=lambda item: -np.linalg.norm(rows[item]))
        for item in by_length[int(np.ceil(keep * len(by_length))) :]:
            rows[item], items[item] = 0.0, False
    return changes, touched


def combined(changes, touched, weights, some, merge):
    """Return the aggregate of some clients' changes by a rule."""
    if not some.any():
        return np.zeros(329)
    total = (weights[some, None] * changes[some]).sum(axis=0)
    if merge == "sum":
        return total
    if merge != "touched-mean":
        return total / weights[some].sum()
    mass = (weights[some, None] * touched[some]).sum(axis=0)
    share = np.append(np.repeat(np.where(mass > 0, mass, 1.0), 8), np.full(9, weights[some].sum()))
    return total / share


REMOVED = np.array([3, 5])


@pytest.mark.parametrize("merge", MERGES)
def test_cfru_carries_the_difference_of_the_versions_on(merge):
    method = UNLEARNERS["cfru"](UNLEARNERS["cfru"].Options(keep=0.4, alpha=0.3, theta=0.9))
    run, rounds = history(federation(merge), method, REMOVED)
    error, n_bytes = np.zeros(329), 0
    for _, clients, changes, touched, weights in rounds:
        changes, touched = reduced(changes, touched, 0.4)
        stays = ~np.isin(clients, REMOVED)
        beta = 0.0 if not stays.any() else weights[stays].sum() if merge == "sum" else 1.0
        everyone = np.ones(len(clients), bool)
        error *= 1 - 0.3 * beta
        error += combined(changes, touched, weights, stays, merge)
        error -= combined(changes, touched, weights, everyone, merge)
        n_bytes += 4 * (9 * touched.sum() + 9 * len(clients))
    models = FinalModels(LiveLike(run))
    found = method.forget(UnlearningRequest(federation(), REMOVED, models, None))
    np.testing.assert_allclose(found.models.version, last_version(run) + 0.9 * error, atol=2e-6)
    assert np.abs(error).max() > 1e-3
    assert (found.stored_bytes, found.sent_bytes, found.local_epochs) == (n_bytes, 0, 0)


class LiveLike:
    """A run that has ended, as a method reads it."""

    def __init__(self, prepared):
        self.prepared = prepared


@pytest.mark.parametrize("merge", MERGES)
@pytest.mark.cases(3)
def test_fru_keeps_the_lengths_of_updates_and_renews_their_directions(merge):
    method = UNLEARNERS["fru"](UNLEARNERS["fru"].Options(keep=0.4, epochs=0.1))
    _, rounds = history(federation(merge), method, REMOVED)
    stored = []
    for key, clients, changes, touched, weights in rounds:
        stays = ~np.isin(clients, REMOVED)
        stored.append((key, combined(*reduced(changes, touched, 0.4), weights, stays, merge)))
    steps = []

    def revise(answers):
        new = method.revise(answers)
        assert not np.isin(answers.clients, REMOVED).any()
        steps.append((answers.key, answers.published.copy(), answers.aggregated.copy(), np.array(new)))
        return new

    without = federation(merge, dataset={**tiny()["dataset"], "without": REMOVED.tolist()})
    watched(without, revise)
    assert [key for key, *_ in steps] == [key for key, _ in stored]
    for number, ((_, published, aggregated, new), (_, change)) in enumerate(zip(steps, stored, strict=True)):
        direction = aggregated.astype(np.float64) - published
        length = np.linalg.norm(direction)
        expected = change if number == 0 else np.linalg.norm(change) / length * direction
        np.testing.assert_allclose(new, published + expected, atol=2e-6)
    (_, _, first, _), (_, published, *_), *_ = steps
    assert np.abs(published - first).max() > 1e-4, "the first version is that of the stored updates"


@pytest.mark.parametrize("name", ["fru", "cfru"])
def test_forgetting_no_user_gives_the_run_again(name):
    """With all changes stored and as many epochs, revised updates are the run's own."""
    options = {"keep": 1.0, **({"epochs": 1.0} if name == "fru" else {})}
    method = UNLEARNERS[name](UNLEARNERS[name].Options(**options))
    run, _ = history(federation(), method, np.zeros(0, np.int64))
    if name == "fru":
        found = last_version(watched(federation(), method.revise))
    else:
        models = FinalModels(LiveLike(run))
        found = method.forget(UnlearningRequest(federation(), REMOVED, models, None)).models.version
    np.testing.assert_allclose(found, last_version(run), atol=1e-5)


def test_a_version_in_place_of_the_runs_own_is_read_and_taken_back():
    run = watched(federation(), None)
    own, other = last_version(run), np.full(329, 0.5, np.float32)
    rows = FinalModels(LiveLike(run), other).rows(np.array([0, 12]))
    assert (rows[:, 8:337] == 0.5).all()
    assert (rows[0, :8] == run.executor.store.own[0]).all()
    np.testing.assert_array_equal(last_version(run), own)


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({}, "found whole models; .*client_model: none"),
        ({"protocol": {**UPDATES, "merge": "median"}}, "found the rule median; .*touched-mean"),
        ({"protocol": {**UPDATES, "server": "momentum"}}, "a coordinator that changes what it aggregates"),
        ({"protocol": UPDATES, "coordinator": {"sees": "sums"}}, "coordinator.sees: sums; .*single updates"),
    ],
)
def test_runs_without_single_updates_that_are_added_up_are_refused(sections, words):
    prepared = prepare(load_scenario(tiny(observers=[], **sections)))
    for name in ("fru", "cfru"):
        with pytest.raises(ScenarioError, match=f"method {name}: .*{words}"):
            UNLEARNERS[name](UNLEARNERS[name].Options()).check(prepared)


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


def test_noise_on_messages_would_be_drawn_twice():
    noise = {"name": "ldp", "norm": "l2", "noise": "gaussian", "scale": 0.1}
    prepared = prepare(load_scenario(tiny(observers=[], policies=[noise])))
    with pytest.raises(ScenarioError, match=r"method fine-tune: found the policy ldp, .*; use retrain"):
        UNLEARNERS["fine-tune"](UNLEARNERS["fine-tune"].Options()).check(prepared)


def test_central_training_can_only_be_repeated(tmp_path):
    run = simulate(tiny(observers=[], protocol={"name": "central", "epochs": 2}), out=tmp_path / "run")
    with pytest.raises(ScenarioError, match=r"method fine-tune: found central training.*use retrain"):
        unlearn(run.path, [3], methods=["fine-tune"])
    assert unlearn(run.path, [3], k=5).table()["retrain"]["distance"] == 0
