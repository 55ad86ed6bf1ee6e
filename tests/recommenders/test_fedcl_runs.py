"""Whole runs of FedCL: who tells what when, what that costs in bytes and privacy, and what the summary says."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.base.errors import ScenarioError
from gossiprec.cli.summary_text import format_header
from gossiprec.compute.store.update import Update
from gossiprec.emulation import prepare, simulate
from gossiprec.federated import ClientContext
from gossiprec.federated.fedcl import FedCL
from gossiprec.models import BlockRole
from gossiprec.scenario import load_scenario
from tests.emulation.test_resume import check
from tests.emulation.tiny_runs import COORDINATOR, carried_out, tiny
from tests.slow import slow_except_first

GRU = {"name": "gru4rec", "dim": 6, "hidden": 7, "loss": "sampled"}
TOWERS = {"name": "two-tower", "dim": 6, "loss": "sampled", "init_std": 0.1}
NEGATIVES = {"local_items": 10, "local_negatives": 3}
FEDCL = {"name": "fedcl", **NEGATIVES, "semi_hard": 4, "clusters": 3}
SLICES = {"name": "fedavg", "rounds": 4, "slice": 4, "client_model": "none", "merge": "mean"}
N_SHARED = 3 * 7 * (6 + 7 + 2) + 6 * 7 + 6
LDP = {"name": "ldp", "norm": "linf", "bound": 0.5, "noise": "laplace", "scale": 0.25, "of": "update"}


def fedcl(recommender=None, **sections):
    return tiny(
        **{
            "model": GRU,
            "training": {"optimizer": "sgd", "learning_rate": 0.5, "batch_size": "full"},
            "protocol": SLICES,
            "recommender": {**FEDCL, **(recommender or {})},
            "executor": {"name": "batched"},
            "observers": [],
            "evaluate": {"every": 1, "metrics": ["recall@5"]},
            **sections,
        }
    )


def updates_of(prepared):
    """Return what is under way to the coordinator."""
    store = prepared.executor.store
    return [held for held in map(store.payload, list(store._held)) if isinstance(held, Update)]


@pytest.mark.slow
def test_what_it_calls_is_compiled_before_the_first_round(monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr(FedCL, "warm_up", lambda self, layout: calls.append(layout.n_items))
    monkeypatch.setattr(FedCL, "user_uploads", lambda self, clients: calls.append("told"))
    with pytest.raises(TypeError):  # nothing was told
        simulate(fedcl(executor={"name": "fused"}), out=tmp_path / "run")
    *before, last = calls  # once more where something had to be compiled
    assert last == "told"
    assert before
    assert "told" not in before


@pytest.mark.parametrize("model", [GRU, TOWERS], ids=["gru4rec", "two-tower"])
def test_a_client_tells_its_vector_by_the_version_it_was_sent_and_before_it_trains(model):
    protocol = {**SLICES, "slice": 12, "rounds": 1}  # one wake, whose answers are still there at the end
    prepared = prepare(load_scenario(fedcl({"epsilon": 50.0}, model=model, protocol=protocol)))
    work, store = prepared.executor.work, prepared.executor.store
    begun, due = store.own.copy(), []
    for node in range(12):
        at_hand = ClientContext(
            5, node, 0, work.layout, work.feed.positives[node], work.feed.history(node),
            begun[node, : work.layout.user_width], store.version(0).copy(), {},
        )  # fmt: skip
        due.append(work.recommender.user_uploads([at_hand])[0].tobytes())
    for _ in prepared.schedule.play(prepared.tape_runner().run_segment):
        pass
    updates = updates_of(prepared)
    assert sorted({update.user.tobytes() for update in updates}) == sorted(due)
    assert all(np.abs(update.change.rows).max() > 0 for update in updates)
    assert np.array_equal(begun, store.own) == (model is GRU)


@pytest.mark.slow
@pytest.mark.full
def test_what_is_told_and_answered_is_counted_and_centroids_are_not(tmp_path):
    sizes = {}
    for name, recommender in (("plain", {"name": "fed-softmax", **NEGATIVES}), ("whole", FEDCL)):
        run = simulate(fedcl() | {"recommender": recommender}, out=tmp_path / name)
        message = run.events("message")
        for down in (True, False):
            sizes[name, down] = message["size_bytes"][(message["sender"] == 12) == down]
    assert set((sizes["whole", True] - sizes["plain", True]).tolist()) == {4 * 4}
    for name, told in (("plain", 0), ("whole", 6)):
        rows, rest = np.divmod(sizes[name, False] - 4 * (N_SHARED + told), 4 * (1 + 6))
        assert (rest == 0).all()
        assert (rows > 3).all()
    assert (
        sizes["whole", False].sum() > sizes["plain", False].sum() + 48 * 4 * 6
    )  # semi-hard ones are touched, too


@pytest.mark.slow
def test_the_bank_has_what_came_and_clusters_follow():
    prepared = carried_out(fedcl({"epsilon": None}))
    told, report = prepared.components.coordination.hook, prepared.components.coordination.hook.report()
    assert (
        told.vector_counts.sum() >= 44
    )  # 12 clients, four epochs; the last slice's answers are not there yet
    assert np.isfinite(told.latest).all()
    assert (np.abs(told.latest).sum(axis=1) <= 1 + 1e-5).all()
    assert report["times"] > 2
    assert sum(report["sizes"]) + report["unknown"] == 12
    assert prepared.seams.serving.extras["centroids"].shape == (3, 6)


@pytest.mark.slow
@pytest.mark.full
def test_semi_hard_negatives_change_what_is_learnt():
    runs = [carried_out(fedcl({"semi_hard": n, "epsilon": 100.0})) for n in (4, 0)]
    versions = [run.executor.store.version(int(run.planner.current_rows[-1])) for run in runs]
    assert np.isfinite(versions).all()
    assert np.abs(versions[0] - versions[1]).max() > 1e-4


@pytest.mark.parametrize(
    ("kind", "semi_hard"),
    slow_except_first([("fedcl", 4), ("fedcl", 0), ("fed-softmax", 0), ("bil", 4), ("bil", 0)]),
)
@pytest.mark.parametrize("model", slow_except_first(["gru4rec", "two-tower", "bert4rec"]))
@pytest.mark.cases(4)
def test_every_recommender_of_vectors_runs_with_every_model_of_them(model, kind, semi_hard, tmp_path):
    recommender = {
        "fedcl": {**FEDCL, "semi_hard": semi_hard},
        "fed-softmax": {"name": "fed-softmax", **NEGATIVES},
        "bil": {"name": "bil", "random_items": 5 * semi_hard},
    }[kind]
    scenario = fedcl() | {"recommender": recommender, "model": {"name": model, "dim": 6, "loss": "sampled"}}
    run = simulate(scenario | {"protocol": {**SLICES, "rounds": 1}}, out=tmp_path / "run")
    assert 0 <= run.summary["utility"]["recall@5"] <= 1


@pytest.mark.slow
@pytest.mark.full
def test_threads_and_waves_change_no_byte(tmp_path):
    found = set()
    for threads, size in ((1, "unlimited"), (2, 3), (1, 1)):
        executor = {"name": "batched", "threads": threads, "wave_size": size}
        run = simulate(fedcl({"leaks": 3}, executor=executor), out=tmp_path / f"{threads}{size}")
        found.add(((run.path / "metrics.csv").read_bytes(), str(run.summary["told_vectors"])))
    assert len(found) == 1


LATE = {"latency": {"law": "exponential", "mean": 0.7}, "loss": 0.1}


@pytest.mark.slow
@pytest.mark.parametrize("network", [{}, LATE], ids=["at once", "late"])
@pytest.mark.parametrize(("model", "options"), [(GRU, {"leaks": 3}), (TOWERS, {"clustering": "kmeans"})])
@pytest.mark.full
def test_a_run_goes_on_where_it_was(network, model, options, tmp_path):
    protocol = {**SLICES, "rounds": 6}
    sections = {
        "model": model,
        "network": network,
        "protocol": protocol,
        "policies": [LDP],
    }
    check(tmp_path, fedcl(options, **sections))


# --- privacy


@pytest.mark.slow
@pytest.mark.full
def test_each_told_vector_spends_epsilon(tmp_path):
    run = simulate(fedcl({"epsilon": 3.0}), out=tmp_path / "run")
    update, privacy = run.events("update"), run.events("privacy")
    last = dict(zip(privacy["node"].tolist(), privacy["epsilon"].tolist(), strict=True))
    told = np.bincount(update["node"], minlength=12)
    assert last == {node: 3.0 * told[node] for node in range(12)}
    assert len(set(np.unique(privacy["epsilon"]).tolist())) > 2  # it grows with every report
    assert run.summary["privacy"] == {
        "nodes": 12,
        "delta": 0.0,
        "epsilon_max": 3.0 * told.max(),
        "epsilon_mean": pytest.approx(3.0 * told.mean()),
        "noise_multiplier_min": pytest.approx(1 / 3),
        "noise_multiplier_max": pytest.approx(1 / 3),
        "updates_in_the_open": True,
    }
    assert "but not their updates, which are not protected" in format_header(run.summary)


@pytest.mark.slow
@pytest.mark.full
def test_what_a_policy_spends_besides_adds_up(tmp_path):
    epsilon = []
    for name, recommender in (("plain", {"semi_hard": 0}), ("whole", {"epsilon": 3.0})):
        policy = {**LDP, "nodes": [1, 5]}
        run = simulate(fedcl(recommender, policies=[policy]), out=tmp_path / name)
        rows = run.events("privacy")
        epsilon.append(dict(zip(rows["node"].tolist(), rows["epsilon"].tolist(), strict=True)))
    told = np.bincount(run.events("update")["node"], minlength=12)
    assert set(epsilon[0]) == {1, 5}
    assert set(epsilon[1]) == set(range(12))
    assert epsilon[1][2] == 3.0 * told[2]
    assert epsilon[1][1] > 3.0 * told[1]
    assert run.summary["privacy"]["nodes"] == 2
    assert run.summary["privacy"]["told_rows"]["epsilon_max"] == 3.0 * told.max()
    assert "updates_in_the_open" not in run.summary["privacy"]["told_rows"]
    assert f"; in addition, epsilon up to {3.0 * told.max():.3g} for what 12 clients upload" in format_header(
        run.summary
    )


@pytest.mark.parametrize("recommender", slow_except_first([{"epsilon": None}, {"semi_hard": 0}]))
@pytest.mark.full
def test_without_noise_or_vectors_nothing_is_accounted(recommender, tmp_path):
    run = simulate(fedcl(recommender), out=tmp_path / "run")
    assert run.summary["privacy"] is None
    assert len(run.events("privacy")["node"]) == 0


# --- who sees what


@pytest.mark.slow
def test_observers_see_told_vectors_where_a_model_has_rows_of_users():
    told = carried_out(fedcl(model=TOWERS, observers=[COORDINATOR]), upto=2)
    hidden = carried_out(fedcl({"semi_hard": 0}, model=TOWERS, observers=[COORDINATOR]), upto=2)
    for prepared, seen in ((told, True), (hidden, False)):
        store = prepared.executor.store
        held = np.array([number for number in store._held if isinstance(store.payload(number), Update)])
        rows = store.load(held)[:, store.layout.users]
        assert len(rows)
        assert rows.any(axis=1).all() == seen
        assert prepared.components.outgoing.withholds_role(BlockRole.USER)[0] != seen


@pytest.mark.slow
@pytest.mark.full
def test_the_coordinator_can_look_at_models_without_rows_of_users(tmp_path):
    run = simulate(fedcl(observers=[COORDINATOR]), out=tmp_path / "run")
    assert 0 <= max(run.attacks["aac"]) <= 1


@pytest.mark.slow
@pytest.mark.full
def test_the_summary_tells_of_clusters_and_of_what_is_told_and_leaks(tmp_path):
    summary = simulate(fedcl({"leaks": 3}), out=tmp_path / "run").summary
    assert sum(summary["clusters"]["sizes"]) == 12
    told = summary["told_vectors"]
    assert (told["epsilon"], told["clip"], told["received_max"]) == (4.0, 1.0, 4)
    assert 3.5 < told["received_mean"] <= 4
    leaks = told["leaks"]
    assert leaks["random"]["cda"] == pytest.approx(3 / 11)
    assert 0 <= leaks["likeliest"]["own_rank"] <= 1
    assert "leaks" not in simulate(fedcl(), out=tmp_path / "other").summary["told_vectors"]


@pytest.mark.slow
def test_a_run_too_short_for_clusters_says_so(tmp_path):
    run = simulate(fedcl({"clusters": 12}, protocol={**SLICES, "rounds": 1}), out=tmp_path / "run")
    assert run.summary["clusters"] == {"times": 0, "sizes": [], "unknown": 12}


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"recommender": {**FEDCL, "clusters": 13}}, "recommender.clusters: found 13, but there are only 12 clients"),
        ({"recommender": {**FEDCL, "epsilon": 0}}, "recommender: found epsilon 0 with clip 1, .* would be infinite"),
        ({"recommender": {**FEDCL, "epsilon": -2}}, "recommender: found epsilon -2 with clip 1, .* would be infinite"),
        ({"recommender": {**FEDCL, "epsilon": float("inf")}}, "recommender.epsilon: "),
        ({"recommender": {**FEDCL, "clip": 1e-20, "epsilon": 1e30}}, "found epsilon 1e[+]30 with clip 1e-20.*none"),
        ({"recommender": {**FEDCL, "semi_hard_share": 0.05}}, "found 0.05, which leaves 2 of 40 items to draw 4"),
        ({"recommender": {**FEDCL, "local_items": 2}}, "found local_negatives 3, but only 2 local_items"),
        ({"recommender": {**FEDCL, "leaks": 12}}, "recommender.leaks: found 12, but there are only 11 other users"),
        ({"model": {"name": "gmf"}}, "recommender: fedcl requires a model that scores items by a user vector"),
        ({"recommender": {"name": "bil", "margin": 1.5}}, "recommender.margin: found 1.5"),
        ({"protocol": {**SLICES, "client_model": "own"}}, "recommender: fedcl requires a coordinator and clients"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(sections, message, tmp_path):
    with pytest.raises(ScenarioError, match=message):
        simulate(fedcl() | sections, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("model", slow_except_first([GRU, TOWERS]), ids=["gru4rec", "two-tower"])
def test_all_recommend_by_the_version_with_rows_of_norm_one_under_bil(model):
    prepared = carried_out(fedcl(model=model) | {"recommender": {"name": "bil", "random_items": 5}})
    store, users = prepared.executor.store, np.arange(12)
    readable = store.scoring_view(prepared.planner.current_rows, users)
    assert readable.together
    layout = readable.layout
    (row,) = readable.rows
    items = row[layout.items].reshape(40, 6)
    given = store.version(int(prepared.planner.current_rows[-1]))
    raw = given[: items.size].reshape(40, 6)
    np.testing.assert_allclose(items, raw / np.linalg.norm(raw, axis=1, keepdims=True), rtol=1e-5)
    assert np.array_equal(row[layout.shared], given[items.size :])
    assert np.array_equal(row[layout.users], store.own.ravel())
