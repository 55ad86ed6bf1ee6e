"""PDC-FRS piece by piece, beside the same by hand; and whole runs of it."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from gossiprec.adversaries.attacks.uploads import BATCH_USERS, victim_blocks
from gossiprec.base.errors import ScenarioError
from gossiprec.base.ragged import Ragged
from gossiprec.emulation import prepare, simulate
from gossiprec.emulation.scoring.upload_leakage import score_auxiliary_model
from gossiprec.federated import RECOMMENDERS, CoordinatorContext
from gossiprec.federated.pdc_frs import AuxiliaryModel
from gossiprec.federated.pdc_frs.contribution import Contribution
from gossiprec.models import MODELS
from gossiprec.rules.aggregators import Inbox
from gossiprec.rules.servers import ClientAnswers, RoundContext
from gossiprec.scenario import load_scenario
from tests.emulation.test_resume import check
from tests.emulation.tiny_runs import tiny

PDC = {
    "name": "pdc-frs", "similarity": {"name": "co-occurrence", "public_users": 0.5}, "epsilon": 10.0, "augmented": 7,
}  # fmt: skip
SLICES = {"name": "fedavg", "rounds": 3, "slice": 5, "client_model": "none", "merge": "touched-mean"}
DIM, N_USERS, N_ITEMS, SEED = 4, 6, 30, 3
NCF = MODELS["ncf"](MODELS["ncf"].Options(dim=DIM, hidden=(5,), init_std=0.3))
SETS = Ragged.from_parts([np.arange(u, N_ITEMS, N_USERS + u).astype(np.int32) for u in range(N_USERS)])


def contributing(**sections):
    return tiny(
        **{
            "model": {"name": "ncf", "dim": 6, "hidden": [8, 4]},
            "training": {"batch_size": "full", "local_epochs": 2},
            "protocol": SLICES,
            "recommender": PDC,
            "executor": {"name": "batched"},
            "observers": [],
            **sections,
        }
    )


def auxiliary(batch=16, rate=0.05):
    return AuxiliaryModel(NCF, SETS, n_items=N_ITEMS, negatives=2, batch=batch, rate=rate, seed=SEED)


def recommender(**options):
    kind = RECOMMENDERS["pdc-frs"]
    return kind(kind.Options(similarity=PDC["similarity"], **options), NCF, negatives=2, learning_rate=0.05)


def coordinator(n_clients=N_USERS, **options):
    """Return the coordinator's part of users whose contribution is SETS, and a version."""
    layout = NCF.layout(N_ITEMS)
    given = Contribution(None, SETS, SETS.values, 1.0, 1.0, 1.0, np.ones(N_USERS))
    known = CoordinatorContext(
        NCF, layout, np.bincount(SETS.values, minlength=N_ITEMS), 2, SEED, n_clients, given
    )
    size = layout.merged.stop - layout.merged.start
    version = np.random.default_rng(1).normal(0, 0.5, size).astype(np.float32)
    return recommender(**options).coordinator_hook(known), version


def rounds_of(between, version, number):
    return between.step(version, nobody(version), RoundContext(SEED, number, N_USERS, NCF.layout(N_ITEMS)))


def nobody(version):
    """Return a round's answers, of which there are none."""
    none = np.zeros(0, np.int64)
    return ClientAnswers(none, Inbox(np.zeros((0, len(version)), np.float32), none, np.zeros(0), deltas=[]))


# --- the auxiliary model


def test_batches_together_are_a_pass(monkeypatch):
    seen = []
    loss = type(NCF).loss
    monkeypatch.setattr(type(NCF), "loss", lambda self, p, batch: seen.append(batch) or loss(self, p, batch))
    one = auxiliary(batch=16)
    one.train(0)
    assert [len(batch["items"]) for batch in seen[:-1]] == [16] * (len(seen) - 1)
    positive = {
        (user, item)
        for batch in seen
        for user, item, label in zip(*(batch[k].tolist() for k in ("user", "items", "labels")), strict=True)
        if label
    }
    assert positive == set(zip(SETS.row_of_each_value.tolist(), SETS.values.tolist(), strict=True))
    assert sum(len(batch["items"]) for batch in seen) == 3 * len(SETS.values)
    first = [batch["user"].tolist() for batch in seen]
    seen.clear()
    one.train(1)
    assert [batch["user"].tolist() for batch in seen] != first  # another order


def test_its_best_items_are_those_of_highest_probability():
    one = auxiliary()
    one.train(0)
    items, labels = one.best_items(5)
    for user, scores in enumerate(one.iter_scores()):
        best = sorted(range(N_ITEMS), key=lambda item: (-scores[item], item))[:5]
        assert items[user].tolist() == sorted(best)
        np.testing.assert_allclose(labels[user], 1 / (1 + np.exp(-scores[np.sort(best)])), rtol=1e-6)


def test_bytes_do_not_depend_on_torchs_threads():
    found = []
    for threads in (1, 2):
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        one = auxiliary()
        one.train(0)
        torch.set_num_threads(before)
        found.append(one.users.tobytes() + one.items.tobytes())
    assert found[0] == found[1]


# --- what clients make of it


def test_a_client_learns_from_predicted_items_that_it_does_not_have():
    told = {
        "sent_items": np.array([[1, 4, 9], [2, 3, 5]], np.int32),
        "sent_labels": np.full((2, 3), 0.5, np.float32),
    }
    told["sent_labels"][1] = 0.1, 0.2, 0.3
    more = recommender().extra_samples(1, np.array([3, 8], np.int32), told)
    assert more["items"].tolist() == [2, 5]
    assert more["labels"].tolist() == pytest.approx([0.1, 0.3])
    assert recommender().extra_samples(1, np.array([3]), {}) == {}


@pytest.mark.parametrize("executor", ["reference", "batched", "fused"])
def test_soft_labels_are_learned(executor):
    """A round of plain descent with nothing else: what the first answers make of the version is written out."""
    scenario = contributing(
        executor={"name": executor, "threads": 1},
        training={"optimizer": "sgd", "learning_rate": 0.5, "batch_size": "full"},
        protocol={**SLICES, "slice": 12, "merge": "sum", "rounds": 2},
        recommender={**PDC, "user_weight": 0.0, "item_weight": 0.0},
    )
    prepared = prepare(load_scenario(scenario))
    store, work = prepared.executor.store, prepared.executor.work
    layout, sent = work.layout, store.version(0).copy()
    users = store.own.copy()
    for _ in prepared.schedule.play(prepared.tape_runner().run_segment):
        pass
    extras = prepared.seams.serving.extras
    again = prepare(load_scenario(scenario))  # its extras of the first round
    first = again.components.coordination.hook.step(sent, nobody(sent), RoundContext(5, 0, 12, layout))[1]
    assert first["sent_items"].shape == extras["sent_items"].shape == (12, 7)
    total = np.zeros(len(sent))
    for node in range(12):
        samples = work.feed.samples(node, update=0, negatives=4, seed=5)
        more = work.recommender.extra_samples(node, work.feed.positives[node], first)
        assert len(more["items"]) > 0
        assert not set(more["items"].tolist()) & set(work.feed.positives[node].tolist())
        tables = {
            name: torch.tensor(part, requires_grad=True) for name, part in layout.version_tables(sent).items()
        }
        batch = {
            "items": torch.tensor(np.concatenate([samples["items"], more["items"]])).long(),
            "labels": torch.tensor(np.concatenate([samples["labels"], more["labels"]])),
            "user": torch.tensor([0]),
        }
        batch["weights"] = torch.ones(len(batch["items"]))
        torch.autograd.backward(work.model.loss({**tables, "users": torch.tensor(users[node][None])}, batch))
        total -= 0.5 * np.concatenate([part.grad.numpy().ravel() for part in tables.values()])
    found = store.load(prepared.planner.current_rows[-1:])[0, layout.merged]  # of the second wake
    np.testing.assert_allclose(found, sent + total, rtol=0, atol=2e-5)


# --- what the coordinator makes of it


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_items_are_drawn_near_to_those_of_the_auxiliary_model(optimizer):
    between, version = coordinator(
        item_weight=0.4, item_optimizer=optimizer, temperature=0.5, user_weight=0.0, augmented=0
    )
    first, told = rounds_of(between, version, 0)
    assert told == {}
    assert (first == version).all()
    others = between.auxiliary.items.astype(np.float64).copy()
    assert (rounds_of(between, version, 1)[0] == version).all()  # within the epoch
    found, _ = rounds_of(between, version, 2)

    items = torch.nn.Parameter(torch.tensor(version[: N_ITEMS * DIM].reshape(N_ITEMS, DIM)).double())
    kind = torch.optim.Adam if optimizer == "adam" else torch.optim.SGD
    step = kind([items], lr=0.05)
    units = torch.tensor(others / np.linalg.norm(others, axis=1, keepdims=True))
    near = (items / items.norm(dim=1, keepdim=True)) @ units.T / 0.5
    losses = -0.4 * torch.log(torch.exp(near.diagonal()) / torch.exp(near).sum(1))
    (losses.mean() if optimizer == "adam" else losses.sum()).backward()  # 30 items: one batch
    step.step()
    np.testing.assert_allclose(found[: N_ITEMS * DIM], items.detach().numpy().ravel(), rtol=0, atol=1e-5)
    assert (found[N_ITEMS * DIM :] == version[N_ITEMS * DIM :]).all()


def test_a_step_on_all_items_does_not_depend_on_how_many_are_looked_at_together(monkeypatch):
    found = []
    for anchors in (512, 7):
        monkeypatch.setattr("gossiprec.federated.pdc_frs.ANCHORS", anchors)
        between, version = coordinator(item_weight=0.4)
        for number in range(3):
            version, _ = rounds_of(between, version, number)
        found.append(version)
    np.testing.assert_allclose(found[1], found[0], rtol=0, atol=1e-6)


def test_each_client_is_sent_its_own_predictions_and_all_auxiliary_users():
    between, version = coordinator(n_clients=N_USERS + 2, augmented=5, user_weight=0.1)
    _, told = rounds_of(between, version, 0)
    assert between.extra_bytes == 5 * 8 + 4 * N_USERS * DIM
    assert told["sent_items"].shape == told["sent_labels"].shape == (N_USERS + 2, 5)  # two poisoners
    items, labels = between.auxiliary.best_items(5)
    assert (told["sent_items"][:N_USERS] == items).all()
    assert (told["sent_labels"][:N_USERS] == labels).all()
    rows = between.auxiliary.users
    np.testing.assert_allclose(
        told["auxiliary_users"].T, rows / np.linalg.norm(rows, axis=1, keepdims=True), rtol=1e-5
    )


# --- what the auxiliary model gives away


def attacked(train, scores, *, n_items, k):
    """Return what is found where every user looks for its community by its own items."""
    victims = victim_blocks(lambda: iter(scores), train, n_items)
    return score_auxiliary_model(victims, train, n_items=n_items, k=k)


def test_scores_that_are_the_truth_give_all_away():
    draw = np.random.default_rng(7)
    train = Ragged.from_parts(
        [np.sort(draw.choice(200, 40, replace=False)).astype(np.int32) for _ in range(20)]
    )
    held = np.zeros((20, 200), np.float32)
    held[train.row_of_each_value, train.values] = 1.0
    found, of_model = attacked(train, held, n_items=200, k=3)
    assert found > 0.85  # ties are broken in another way
    assert of_model == 1.0
    nothing = draw.normal(0, 1, (20, 200)).astype(np.float32)
    found, of_model = attacked(train, nothing, n_items=200, k=3)
    assert found < 0.5
    assert of_model == pytest.approx(0.5, abs=0.05)


def test_leaks_do_not_depend_on_how_many_users_are_looked_at_together(monkeypatch):
    draw = np.random.default_rng(8)
    train = Ragged.from_parts(
        [np.sort(draw.choice(50, 9, replace=False)).astype(np.int32) for _ in range(11)]
    )
    scores = draw.normal(0, 1, (11, 50)).astype(np.float32)
    assert BATCH_USERS > 11
    found = attacked(train, scores, n_items=50, k=4)
    monkeypatch.setattr("gossiprec.adversaries.attacks.uploads.BATCH_USERS", 3)
    assert attacked(train, scores, n_items=50, k=4) == found


# --- whole runs


@pytest.mark.slow
@pytest.mark.full
def test_the_summary_tells_what_was_released(tmp_path):
    run = simulate(contributing(recommender={**PDC, "leaks": 3}), out=tmp_path / "run")
    told = json.loads((run.path / "summary.json").read_text())["contribution"]
    sizes = prepare(load_scenario(contributing())).components.split.train.sizes
    assert told["epsilon_item"] == 10.0
    assert told["epsilon_set_max"] == 10.0 * sizes.max()
    assert told["epsilon_set_mean"] == pytest.approx(10.0 * sizes.mean())
    assert 0 < told["kept"] < 1
    assert {"cda", "mia_auc", "auxiliary_cda", "auxiliary_mia_auc"} <= set(told["leaks"])
    assert "leaks" not in simulate(contributing(), out=tmp_path / "quiet").summary["contribution"]


@pytest.mark.slow
@pytest.mark.full
def test_the_more_is_kept_the_more_is_given_away(tmp_path):
    public = {"name": "co-occurrence", "public_users": 1.0}
    little, much = (
        simulate(
            contributing(recommender={**PDC, "similarity": public, "epsilon": epsilon, "leaks": 3}),
            out=tmp_path / str(epsilon),
        ).summary["contribution"]
        for epsilon in (0.01, 1e5)
    )
    assert much["kept"] > 0.9 > 0.1 > little["kept"]
    assert much["leaks"]["cda"] > 0.9 > 0.6 > little["leaks"]["cda"]
    assert much["leaks"]["mia_f1"] > 0.9 > 0.6 > little["leaks"]["mia_f1"]


@pytest.mark.parametrize("late", [{}, {"network": {"latency": {"law": "exponential", "mean": 0.7}}}])
@pytest.mark.full
def test_a_run_goes_on_where_it_was(late, tmp_path):
    check(
        tmp_path,
        contributing(
            protocol={**SLICES, "rounds": 6},
            evaluate={"every": 1, "metrics": ["hr@5"]},
            **late,
        ),
    )


@pytest.mark.slow
def test_what_is_sent_is_counted(tmp_path):
    plain, helped = (
        simulate(contributing(recommender=choice), out=tmp_path / str(place)).events("message")
        for place, choice in enumerate((None, PDC))
    )
    sizes = [one["size_bytes"][one["sender"] == 12] for one in (plain, helped)]
    assert set((sizes[1] - sizes[0]).tolist()) == {7 * 8 + 4 * 12 * 6}


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"recommender": {**PDC, "epsilon": 0}}, "recommender.epsilon: found 0, must be greater than 0"),
        ({"recommender": {**PDC, "epsilon": -1}}, "recommender.epsilon: found -1, must be greater than 0"),
        ({"recommender": {**PDC, "augmented": 41}}, "augmented is 41, but there are 40 items; lower it"),
        ({"recommender": {**PDC, "sensitivity": 0.5}}, "recommender.sensitivity: found 0.5; expected at least 1"),
        ({"recommender": {**PDC, "similarity": "title"}}, "unknown similarity 'title'.*titles"),
        ({"recommender": {**PDC, "similarity": "titles"}}, "recommender.similarity: titles compares item texts"),
        ({"recommender": {**PDC, "leaks": 12}}, "leaks is 12, but there are only 11 other users; lower it"),
        ({"model": {"name": "mf", "loss": "bpr"}}, "which mf is not; choose gmf"),
        ({"training": {"batch_size": 8}}, "set training.batch_size to full"),
        ({"protocol": {"name": "rand-gossip", "wakes": 2}}, "recommender: pdc-frs requires a coordinator and clients"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(sections, message, tmp_path):
    with pytest.raises(ScenarioError, match=message):
        simulate(contributing(**sections), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
