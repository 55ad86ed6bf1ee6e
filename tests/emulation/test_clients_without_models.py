"""Clients that hold no model of their own: the same federation as with whole models, at the size of what is touched."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gossiprec.base.errors import ScenarioError
from gossiprec.compute.executors import submodel_trainer
from gossiprec.compute.store.update import Update
from gossiprec.compute.store.update_store import UpdateStore
from gossiprec.emulation import prepare, resume, simulate
from gossiprec.federated import RECOMMENDERS
from gossiprec.models import MODELS as MODEL_KINDS
from gossiprec.models.base.kernel_interface import ScoreQuery
from gossiprec.models.base.kernel_template import TemplateKernels
from gossiprec.models.base.parameter_blocks import BlockRole, ParameterBlock, normal
from gossiprec.models.feeds.base import PredrawnSamples
from gossiprec.scenario import load_scenario
from gossiprec.testing.tiny_runs import registered_as
from tests.emulation.ended_early import ended_early, often, outcome
from tests.emulation.tiny_runs import COORDINATOR, carried_out, final_models, tiny
from tests.slow import slow_except_first

SHARE_LESS = [{"name": "share-less", "tau": 0.0}]
SGD = {"optimizer": "sgd", "learning_rate": 0.5, "batch_size": 16}
NETWORK = {
    "latency": {"law": "exponential", "mean": 0.6},
    "loss": 0.05,
    "duplication": 0.3,
    "compute": {"time": {"law": "exponential", "mean": 0.3}, "per": "node"},
}
AWAY = {"online": {"law": "exponential", "mean": 3.0}, "offline": {"law": "exponential", "mean": 1.0}}
CHURN = {"sessions": AWAY, "leave": {"nodes": [7], "at": 5.0}, "messages": "held"}
MODELS = {
    "gmf": {"name": "gmf", "dim": 8, "init_std": 0.1},
    "mf": {"name": "mf", "dim": 4, "init_std": 0.1, "loss": "bpr"},
    "ncf": {"name": "ncf", "dim": 4, "hidden": [6, 3], "init_std": 0.1},
}


def star(client_model="none", merge="samples", rounds=4, **more):
    options = {
        "name": "fedavg",
        "rounds": rounds,
        "participation": 0.75,
        "client_model": client_model,
        "merge": merge,
    }
    return tiny(
        **{
            "training": SGD,
            "executor": {"name": "batched"},
            "observers": [],
            **more,
            "protocol": options | more.get("protocol", {}),
        }
    )


def version(prepared):
    """Return the coordinator's present version: its items and shared weights."""
    store = prepared.executor.store
    return store.load(prepared.planner.current_rows[-1:])[0, store.layout.merged]


@pytest.mark.parametrize("client_model", slow_except_first(["own", "none"]))
def test_clients_keep_their_negatives_where_these_are_drawn_once(client_model):
    def outcome_of(drawn):
        training = {**SGD, "negatives_drawn": drawn}
        prepared = carried_out(
            star(client_model, rounds=6, training=training, policies=SHARE_LESS[: client_model == "own"])
        )
        return prepared.executor.update_bytes, final_models(prepared) if client_model == "own" else version(
            prepared
        )

    (once, kept), (anew, fresh) = outcome_of("once"), outcome_of("each_update")
    assert not np.array_equal(kept, fresh)
    if client_model == "none":
        assert len({(node, size) for (node, _), size in once.items()}) == len({node for node, _ in once})
        assert len({(node, size) for (node, _), size in anew.items()}) > len({node for node, _ in anew})


@pytest.mark.parametrize("model", slow_except_first(MODELS))
@pytest.mark.parametrize("merge", slow_except_first(["median", {"name": "krum", "byzantine": 2}]))
@pytest.mark.cases(2)
def test_updates_make_the_versions_that_whole_models_make(model, merge):
    whole = carried_out(star("own", merge, model=MODELS[model], policies=SHARE_LESS))
    sparse = carried_out(star("none", merge, model=MODELS[model]))

    np.testing.assert_allclose(version(sparse), version(whole), rtol=0, atol=2e-6)
    users = final_models(whole)[:-1, whole.executor.store.layout.users]
    np.testing.assert_allclose(sparse.executor.store.own, users, rtol=0, atol=2e-6)
    assert np.abs(version(sparse)).max() > 0.1


@pytest.mark.parametrize("merge", slow_except_first(["samples", "mean"]))
def test_a_mean_of_updates_is_that_of_whole_models(merge):
    whole = carried_out(star("own", merge, policies=SHARE_LESS))  # answers are blended as they come
    sparse = carried_out(star("none", merge, rounds=5))  # those to the fourth round make the fifth

    np.testing.assert_allclose(version(sparse), version(whole), rtol=0, atol=2e-6)


@pytest.mark.slow
def test_the_coordinator_finds_the_same_communities(tmp_path):
    # a rule with an inbox: streaming ones blend as answers come, and fictive users are fitted to the row of the moment
    observed = {"observers": [COORDINATOR]}
    whole = simulate(star("own", "median", policies=SHARE_LESS, **observed), out=tmp_path / "whole")
    sparse = simulate(star("none", "median", **observed), out=tmp_path / "sparse")

    assert {name: column.tolist() for name, column in sparse.attacks.items()} == {
        name: column.tolist() for name, column in whole.attacks.items()
    }
    assert max(whole.attacks["aac"]) > 0


@pytest.mark.parametrize("optimizer", slow_except_first(["sgd", "adam"]))
@pytest.mark.parametrize("batch_size", slow_except_first([8, "full"]))
@pytest.mark.cases(1)
def test_executors_agree(optimizer, batch_size):
    training = {"optimizer": optimizer, "learning_rate": 0.05, "batch_size": batch_size, "local_epochs": 2}
    names = ("reference", "batched", "fused")
    runs = [carried_out(star(training=training, executor={"name": name})) for name in names]

    for run in runs[1:]:
        np.testing.assert_allclose(version(runs[0]), version(run), rtol=0, atol=1e-5)
        for name in ("own", "first", "second"):
            found = [getattr(each.executor.store, name) for each in (runs[0], run)]
            assert len(found[0]) == (12 if name == "own" or optimizer == "adam" else 0)
            np.testing.assert_allclose(*found, rtol=0, atol=1e-5)
        assert runs[0].executor.update_bytes == run.executor.update_bytes


def test_nothing_is_warmed_up_for_models_that_nobody_trains(monkeypatch):
    def trained(kernels, program, tasks, update):
        raise AssertionError("this is compiled for nothing")

    monkeypatch.setattr(TemplateKernels, "merge_and_train", trained)
    run = carried_out(star(training={**SGD, "batch_size": "full"}, executor={"name": "fused"}))

    assert run.executor.executor_class.name == "fused"
    assert np.abs(version(run)).max() > 0.1


ARCHITECTURES = st.one_of(
    st.fixed_dictionaries({"name": st.just("gmf"), "dim": st.integers(1, 9)}),
    st.fixed_dictionaries({"name": st.just("mf"), "dim": st.integers(1, 9)}),
    st.fixed_dictionaries(
        {
            "name": st.just("ncf"),
            "dim": st.integers(1, 9),
            "hidden": st.lists(st.integers(1, 9), min_size=1, max_size=3),
        }
    ),
)
WAYS = st.fixed_dictionaries(
    {
        "optimizer": st.sampled_from(["sgd", "adam"]),
        "local_epochs": st.integers(1, 4),
        "negatives": st.integers(1, 6),
        "negatives_drawn": st.sampled_from(["once", "each_update"]),
        "batch_size": st.sampled_from(["full", 1, 7]),
    }
)


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(model=ARCHITECTURES, way=WAYS, merge=st.sampled_from(["touched-mean", "sum", "median"]))
@pytest.mark.full
def test_a_written_out_gradient_trains_like_one_client_at_a_time(model, way, merge):
    """Two slices; a relative difference: rows of users and of the version grow by tens of per cent.

    Adam takes a whole step for a slope that is only rounding, unless its epsilon is larger than rounding.
    """
    way = {**way, "eps": 1e-3} if way["optimizer"] == "adam" else way
    world = {
        "model": {**model, "init_std": 0.5}, "training": {**way, "learning_rate": 0.01},
        "rounds": 1, "merge": merge, "protocol": {"participation": 1.0, "slice": 6},
    }  # fmt: skip
    runs = [carried_out(star(**world, executor={"name": name})) for name in ("reference", "fused")]

    assert [run.executor.name for run in runs] == ["reference", "fused"]
    for what in (version, lambda run: run.executor.store.own):
        slow, fast = map(what, runs)
        assert np.abs(fast - slow).max() <= 1e-5 * np.abs(slow).max()


@pytest.mark.slow
def test_a_written_out_gradient_is_taken_where_there_is_one():
    def executor_of(**more):
        return prepare(load_scenario(star(**{"executor": {"name": "auto"}, **more}))).executor.name

    full = {**SGD, "batch_size": "full"}
    assert executor_of(training=full) == "fused"
    assert executor_of(training=full, model=MODELS["ncf"]) == "fused"
    assert executor_of(training=full, model=MODELS["mf"]) == "fused"  # bpr
    assert executor_of(training=SGD) == "fused"
    assert executor_of(training=SGD, model=MODELS["mf"]) != "fused"  # batches of pairs
    assert executor_of(training=full, recommender={"name": "simgcl"}) == "fused"
    assert executor_of(training=full, recommender={"name": "simgcl", "temperature": 0.02}) != "fused"


def test_what_was_written_out_for_another_formula_is_not_taken():
    class Doubled(RECOMMENDERS["simgcl"]):
        def loss(self, p, batch, extras):
            return 2 * super().loss(p, batch, extras)

    class Halved(MODEL_KINDS["gmf"]):
        def score(self, p, query):
            return 0.5 * super().score(p, query)

    full = {**SGD, "batch_size": "full"}
    for registry, section, kind in ((RECOMMENDERS, "recommender", Doubled), (MODEL_KINDS, "model", Halved)):
        with registered_as(registry, kind) as name:
            prepared = prepare(
                load_scenario(star(training=full, executor={"name": "auto"}, **{section: {"name": name}}))
            )
            assert prepared.executor.name != "fused"


@pytest.mark.parametrize("executor", slow_except_first(["reference", "batched", "fused"]))
@pytest.mark.cases(2)
def test_raw_gradients_are_uploaded_whatever_trains_the_users_row(executor):
    def played(upload, optimizer, rounds):
        training = {"optimizer": optimizer, "learning_rate": 0.05, "batch_size": "full"}
        options = {"upload": upload, "participation": 1.0}
        return carried_out(
            star(rounds=rounds, training=training, executor={"name": executor}, merge="sum", protocol=options)
        )

    ways = (("changes", "sgd"), ("changes", "adam"), ("gradients", "adam"))
    plain, adam, mixed = (
        version(played(*way, rounds=2)) for way in ways
    )  # the second begins with what the first made
    np.testing.assert_allclose(mixed, plain, rtol=0, atol=1e-6)
    assert np.abs(mixed - adam).max() > 1e-2

    plain, adam, mixed = (played(*way, rounds=1).executor.store for way in ways)
    for name in ("own", "first", "second"):
        assert (getattr(mixed, name) == getattr(adam, name)).all()
    assert (mixed.own != plain.own).any()


@pytest.mark.parametrize("executor", ["reference", "batched", "fused"])
@pytest.mark.cases(1)
@pytest.mark.slow
def test_a_client_keeps_the_moments_of_its_user_alone(executor):
    training = {"optimizer": "adam", "learning_rate": 0.05, "batch_size": "full", "local_epochs": 2}
    scenario = star(training=training, executor={"name": executor}, protocol={"participation": 1.0})
    prepared = prepare(load_scenario({**scenario, "evaluate": {"every": 1, "metrics": ["hr@5"]}}))
    store, work = prepared.executor.store, prepared.executor.work
    user = torch.nn.Parameter(torch.from_numpy(store.own[3].copy()))
    of_user = torch.optim.Adam([user], lr=0.05)
    for update, _ in enumerate(prepared.schedule.play(prepared.tape_runner().run_segment)):
        parts = np.split(version(prepared), [40 * 8, 40 * 8 + 8])  # what the round was begun with
        items, weight, bias = (torch.nn.Parameter(torch.from_numpy(part.copy())) for part in parts)
        of_version = torch.optim.Adam([items, weight, bias], lr=0.05)
        samples = work.feed.samples(3, update=update, negatives=4, seed=5)
        batch = {
            "items": torch.from_numpy(samples["items"]).long(),
            "labels": torch.from_numpy(samples["labels"]),
        }
        batch |= {"user": torch.tensor([0]), "weights": torch.ones(len(samples["items"]))}
        for _ in range(2):
            of_user.zero_grad(), of_version.zero_grad()
            p = {"users": user[None], "items": items.view(40, 8), "weight": weight, "bias": bias}
            torch.autograd.backward(work.model.loss(p, batch))
            of_user.step(), of_version.step()

        answer = store._held[int(prepared.planner.current_rows[3])]
        np.testing.assert_allclose(store.own[3], user.detach(), rtol=0, atol=1e-5)
        np.testing.assert_allclose(answer.rows, items.detach().view(40, 8)[answer.items], rtol=0, atol=1e-5)
        np.testing.assert_allclose(answer.shared[:8], weight.detach(), rtol=0, atol=1e-5)
    assert update == 3


def touched(feed, node, update):
    return PredrawnSamples.of(feed, node, update=update, negatives=4, seed=5, changed=lambda drawn: drawn)


@pytest.mark.slow
def test_an_answer_is_as_large_as_what_the_client_has_touched(tmp_path):
    run = simulate(star(network=NETWORK, rounds=6), out=tmp_path / "run")
    feed = prepare(load_scenario(star())).executor.work.feed
    message = run.events("message")
    dropped = run.events("drop")
    down = message["size_bytes"][message["sender"] == 12]
    assert set(down.tolist()) == {4 * (40 * 8 + 9)}  # all items and shared weights, nobody's row

    for node in range(12):
        n_updates = int((run.events("update")["node"] == node).sum())
        due = {4 * (9 * len(touched(feed, node, update).items) + 9) for update in range(n_updates)}
        sent = set(message["size_bytes"][message["sender"] == node].tolist())
        assert sent <= due
        if not (dropped["sender"] == node).any():
            assert sent == due
    assert len(np.unique(message["size_bytes"])) > 5


@pytest.mark.parametrize(
    ("executor", "batch_size", "model"),
    slow_except_first(
        [("batched", 16, "gmf"), ("fused", 16, "gmf"), ("fused", "full", "gmf"), ("fused", "full", "ncf")]
    ),
)
@pytest.mark.full
def test_bytes_do_not_depend_on_who_trains_beside_whom(tmp_path, monkeypatch, executor, batch_size, model):
    training = {"optimizer": "adam", "learning_rate": 0.01, "batch_size": batch_size}
    scenario = star(network=NETWORK, training=training, model=MODELS[model], observers=[COORDINATOR])
    together = {**scenario, "executor": {"name": executor, "threads": 3}}
    runs = [simulate(together, out=tmp_path / "together")]
    monkeypatch.setattr(submodel_trainer, "AT_ONCE", 1)
    alone = {**scenario, "executor": {"name": executor, "threads": 1, "wave_size": 1}}
    runs.append(simulate(alone, out=tmp_path / "alone"))

    assert outcome(runs[0].path) == outcome(runs[1].path)


def test_nothing_is_kept_of_updates_that_have_arrived():
    prepared = prepare(load_scenario(star(rounds=8)))
    store = prepared.executor.store
    for _ in prepared.schedule.play(prepared.tape_runner().run_segment):
        held = list(store._held.values())
        updates = [each for each in held if not isinstance(each, np.ndarray)]
        versions = {id(each.base) for each in updates} | {
            id(each) for each in held if isinstance(each, np.ndarray)
        }
        assert len(updates) == 9  # those of the present round wait for the next
        assert len(versions) == 1


@pytest.mark.slow
def test_no_more_updates_are_kept_than_those_of_a_round_and_the_one_before(monkeypatch):
    kept, forget = [], UpdateStore.drop_unneeded

    def counted(store, planner):
        kept.append(sum(isinstance(each, Update) for each in store._held.values()))
        forget(store, planner)

    monkeypatch.setattr(UpdateStore, "drop_unneeded", counted)
    carried_out(star(rounds=8, evaluate={"every": 8}, protocol={"participation": 0.25}))  # three of twelve
    assert len(kept) >= 8
    assert 0 < max(kept) <= 2 * 3


@pytest.mark.parametrize(
    ("merge", "observers"), slow_except_first([("touched-mean", []), ("sum", []), ("median", [COORDINATOR])])
)
@pytest.mark.full
def test_a_run_goes_on_where_it_was(merge, observers, tmp_path):
    training = {"optimizer": "adam", "learning_rate": 0.02, "batch_size": 16}
    world = {"network": NETWORK, "churn": CHURN, "training": training, "observers": observers}
    scenario = often(**star(merge=merge, rounds=8, **world))
    whole = simulate(scenario, out=tmp_path / "whole")
    broken = ended_early(tmp_path / "broken", scenario, 3)
    done = resume(broken.path)

    assert outcome(done.path) == outcome(whole.path)


@pytest.mark.slow
def test_all_are_measured_with_the_version_that_the_coordinator_has(tmp_path):
    prepared = carried_out(star())
    store, current = prepared.executor.store, prepared.planner.current_rows
    users = np.array([7, 2])
    rows = store.models(current, users)
    found = store.scoring_view(current, users)

    table = found.rows[0, found.layout.users].reshape(2, -1)[found.user]
    assert table.tolist() == rows[:, store.layout.users].tolist() == store.own[users].tolist()
    assert found.rows[0, found.layout.items].tolist() == rows[0, store.layout.items].tolist()
    assert rows[:, store.layout.merged].tolist() == [version(prepared).tolist()] * 2


@pytest.mark.parametrize("of", slow_except_first(["model", "update"]))
@pytest.mark.parametrize("executor", slow_except_first(["reference", "batched"]))
def test_noise_falls_on_what_an_update_holds(of, executor, tmp_path):
    ldp = {"name": "ldp", "norm": "linf", "bound": 0.2, "scale": 0.5, "of": of, "nodes": [3, 5]}
    one_round = {"rounds": 1, "participation": 1.0}
    plain, noisy = (
        carried_out(star(protocol=one_round, policies=policies, executor={"name": executor}))
        for policies in ([], [ldp])
    )
    answers = [
        [run.executor.store.payload(int(row)) for row in run.planner.needed_rows] for run in (plain, noisy)
    ]
    as_trained, as_sent = (
        {
            tuple(each.items.tolist()): each
            for each in held
            if not isinstance(each, np.ndarray) and len(each.items)
        }
        for held in answers
    )
    changed = 0
    for items, sent in as_sent.items():
        trained = as_trained[items]
        base = trained.base[: 40 * 8].reshape(40, 8)[trained.items] if of == "update" else 0.0
        clipped = base + np.clip(trained.rows - base, -0.2, 0.2)
        if not np.array_equal(sent.rows, trained.rows):
            changed += 1
            spread = np.abs(sent.rows - clipped)
            assert 0.3 < spread.mean() < 0.7  # the mean of Laplace's |x| is its scale
            assert not np.array_equal(sent.shared, trained.shared)
    assert changed == 2
    assert {update.size_bytes for update in as_sent.values()} == {u.size_bytes for u in as_trained.values()}


@pytest.mark.parametrize("executor", slow_except_first(["reference", "batched"]))
@pytest.mark.cases(1)
def test_what_is_rewritten_was_trained_with_what_the_coordinator_sent_beside(executor):
    """Without noise, and with a bound that nothing reaches, a rewritten run is the run."""
    more = {
        "training": {**SGD, "batch_size": "full"},
        "recommender": {"name": "cl4fedrec", "synthetic_items": 5, "synthetic_users": 4},
    }
    same = [{"name": "ldp", "norm": "linf", "bound": 1e6, "scale": 0.0}]
    plain, rewritten = (
        carried_out(star(policies=policies, executor={"name": executor}, **more)) for policies in ([], same)
    )
    np.testing.assert_allclose(version(rewritten), version(plain), rtol=0, atol=1e-5)
    assert np.abs(version(plain)).max() > 0.1


@pytest.mark.slow
@pytest.mark.full
def test_a_run_with_noise_on_updates_goes_on_where_it_was_and_claims_no_epsilon(tmp_path):
    ldp = {"name": "ldp", "norm": "l1", "scale": 0.05, "of": "update"}
    scenario = often(**star(policies=[ldp], rounds=8, network=NETWORK, churn=CHURN))
    whole = simulate(scenario, out=tmp_path / "whole")
    broken = ended_early(tmp_path / "broken", scenario, 3)

    assert outcome(resume(broken.path).path) == outcome(whole.path)
    assert whole.summary["privacy"] is None  # which items were touched is not hidden


REFUSED = {
    "dp-sgd": (
        {"policies": [{"name": "dp-sgd", "epsilon": 4.0}]},
        "dp-sgd adds noise to every item",
    ),
    "fused, batches": (
        {"executor": {"name": "fused"}, "model": MODELS["mf"]},
        "'fused' has no .* for batches of 16 .training.batch_size.",
    ),
    "fused, recommender": (
        {
            "executor": {"name": "fused"},
            "recommender": {"name": "simgcl", "temperature": 0.02},
            "training": {**SGD, "batch_size": "full"},
        },
        "the losses that recommender simgcl adds, with these options",
    ),
    "half": ({"executor": {"name": "batched", "storage": "float16"}}, "found 'float16'; expected 'float32'"),
    "reset": ({"churn": {"model": "reset"}}, "a client has no model to lose"),
    "bandwidth": ({"network": {"bandwidth": {"up": 1e4}}}, "before the sizes of updates are known"),
    "averaged": ({"protocol": {"user_table": "averaged"}}, "only its own user row"),
    "whole models": (
        {"protocol": {"client_model": "own", "merge": "sum"}},
        "reduces updates, but clients send whole",
    ),
    "gradients, several steps": (
        {"protocol": {"upload": "gradients"}, "training": {**SGD, "batch_size": "full", "local_epochs": 2}},
        "protocol.upload: found 'gradients', of one step, but a client takes several steps .training.local_epochs 2",
    ),
    "gradients, whole models": (
        {"protocol": {"upload": "gradients", "client_model": "own"}},
        "found upload gradients, but clients send whole models; set client_model to none",
    ),
    "mixing": (
        {"protocol": {"aggregation": {"name": "synchronous", "mixing": 0.5}}},
        "updates are added to the version without mixing",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_go_with_updates_is_refused(case):
    changes, why = REFUSED[case]
    with pytest.raises(ScenarioError, match=why):
        prepare(load_scenario(star(**changes)))


class OwnScale(MODEL_KINDS["mf"]):
    """Dot products times a weight that each node keeps to itself."""

    def blocks(self):
        return (*super().blocks(), ParameterBlock("scale", BlockRole.PRIVATE, (1,), normal(1.0)))

    def score(self, p, query):
        return super().score(p, query) * p["scale"]


@pytest.mark.parametrize(
    "training", slow_except_first([SGD, {"optimizer": "adam", "learning_rate": 0.05, "batch_size": 16}])
)
def test_private_weights_stay_with_their_client(training, monkeypatch):
    monkeypatch.setitem(MODEL_KINDS._members, "own-scale", OwnScale)
    world = {"model": {"name": "own-scale", "dim": 4, "init_std": 0.1}, "training": training}
    runs = [carried_out(star(**world, executor={"name": name})) for name in ("reference", "batched")]
    stores = [run.executor.store for run in runs]
    before = prepare(load_scenario(star(**world))).executor.store.own

    np.testing.assert_allclose(stores[0].own, stores[1].own, rtol=0, atol=1e-5)
    assert (stores[0].own[:, 4] != before[:, 4]).all()
    assert version(runs[0]).shape == (40 * 4,)
    users = np.array([3, 1])
    found = stores[0].scoring_view(runs[0].planner.current_rows, users)
    assert found.rows[:, found.layout.private].ravel().tolist() == stores[0].own[users, 4].tolist()
    asked = (found.row, found.user, np.array([0, 40, 80]), np.tile(np.arange(40, dtype=np.int32), 2))
    scores = runs[0].executor.score(ScoreQuery(found.layout, found.rows, *asked)).reshape(2, 40)
    own = stores[0].own[users]
    expected = own[:, 4:] * (own[:, :4] @ version(runs[0]).reshape(40, 4).T)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-6)


def test_a_checkpoint_holds_what_was_sent_beside_versions_once():
    stores = [prepare(load_scenario(star())).executor.store for _ in range(2)]
    one, other = ({"told": np.full(3, k, np.float32)} for k in range(2))
    for handle, extras in ((0, one), (1, other), (2, one), (4, other)):
        stores[0].attach_extras(handle, extras)

    state = stores[0].state(np.arange(4))
    stores[1].restore(state)

    assert len(state["extras"]) == 2
    for handle in range(4):
        assert {name: part.tolist() for name, part in stores[1].extras(handle).items()} == {
            name: part.tolist() for name, part in stores[0].extras(handle).items()
        }
    assert stores[1].extras(4) == {}
