"""PFedRec: its two steps beside the same in plain numpy, and clients that recommend by their own items."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gossiprec.base.errors import ScenarioError
from gossiprec.compute.executors.analytic_trainer import LabelledTrainer
from gossiprec.compute.executors.clients import TrainingTask
from gossiprec.emulation import prepare
from gossiprec.federated import RECOMMENDERS, AnalyticTerm, term_kernels
from gossiprec.models import MODELS
from gossiprec.scenario import load_scenario
from gossiprec.testing.tiny_runs import play_to_end
from tests.emulation.tiny_runs import tiny
from tests.slow import slow_except_first

DIM, RATE, ITEM_RATE = 4, 0.3, 2.0
ITEMS, LABELS = np.array([2, 0, 1, 0, 3]), np.array([1.0, 0.0, 0.0, 1.0, 0.0])


def pfedrec(**options):
    kind, model = RECOMMENDERS["pfedrec"], MODELS["mf"](MODELS["mf"].Options(dim=DIM))
    return kind(kind.Options(**options), model, negatives=1, learning_rate=RATE)


def slopes(user, rows):
    """Return the derivatives of the mean cross-entropy of the samples, by the user's row and by the items."""
    pull = (1 / (1 + np.exp(-rows[ITEMS] @ user)) - LABELS) / len(ITEMS)
    of_items = np.zeros_like(rows)
    np.add.at(of_items, ITEMS, pull[:, None] * user)
    return pull @ rows[ITEMS], of_items


@pytest.mark.parametrize("bias", [True, False])
def test_items_move_by_the_score_function_that_has_just_moved(bias):
    draw = np.random.default_rng(2)
    user, rows = draw.normal(0, 1, DIM), draw.normal(0, 1, (5, DIM))
    if bias:
        rows[:, -1] = 1
    p = {"users": torch.tensor(user[None]), "items": torch.tensor(rows)}
    batch = {
        "items": torch.tensor([*ITEMS, 4]),  # padding follows the samples
        "labels": torch.tensor([*LABELS, 0]),
        "weights": torch.tensor([1.0] * len(ITEMS) + [0.0]),
        "user": torch.tensor([0]),
    }
    for part in p.values():
        part.requires_grad_()
    pfedrec(bias=bias, item_rate=ITEM_RATE).loss(p, batch, {}).backward()
    by_user, _ = slopes(user, rows)
    moved = user - RATE * by_user
    _, by_items = slopes(moved, rows)
    expected = rows - ITEM_RATE * by_items
    if bias:
        expected[:, -1] = 1
    np.testing.assert_allclose(user - RATE * p["users"].grad.numpy()[0], moved, atol=1e-7)
    np.testing.assert_allclose(rows - RATE * p["items"].grad.numpy(), expected, atol=1e-6)


def played(executor="fused", size=12, rounds=2, policies=(), **recommender):
    scenario = tiny(
        model={"name": "mf", "dim": DIM, "init_std": 1.0},
        training={"optimizer": "sgd", "learning_rate": RATE, "batch_size": 8, "local_epochs": 2},
        protocol={"name": "fedavg", "rounds": rounds, "slice": size, "client_model": "none", "merge": "mean"},
        recommender={"name": "pfedrec", "item_rate": ITEM_RATE, **recommender},
        executor={"name": executor},
        policies=list(policies),
        observers=[],
    )
    run = prepare(load_scenario(scenario))
    first = run.executor.store.own.copy()
    play_to_end(run)
    return run, first


@pytest.mark.parametrize(
    "recommender",
    slow_except_first([{}, {"bias": False}, {"name": "gpfedrec", "guide_weight": 30.0}]),
)
@pytest.mark.cases(1)
def test_compiled_clients_train_as_those_of_torch(recommender):
    """They agree to rounding after two rounds in batches of 8, of which a client's last is smaller."""
    trains_alike(**recommender)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.01, 1.0])
@pytest.mark.cases(1)
def test_noise_of_uploads_leaves_items_their_numbers_and_tables(scale):
    """The noise is added to all numbers of a row, also to the one and the number of the item."""
    noise = {"name": "ldp", "of": "update", "norm": "linf", "bound": 1, "scale": scale}
    items = trains_alike(name="gpfedrec", rounds=3, policies=[noise])[: 40 * DIM].reshape(40, DIM)
    np.testing.assert_array_equal(items[:, -2:], np.stack([np.ones(40), np.arange(40)], axis=1))


def trains_alike(**options):
    """Check compiled clients beside those of torch, and return the last version."""
    compiled, torch_ = (played(executor, **options)[0] for executor in ("fused", "reference"))
    assert [run.executor.name for run in (compiled, torch_)] == ["fused", "reference"]
    versions = [run.executor.store.version(int(run.planner.current_rows[-1])) for run in (compiled, torch_)]
    np.testing.assert_allclose(*versions, rtol=0, atol=2e-6)
    users = [run.executor.store.own for run in (compiled, torch_)]
    np.testing.assert_allclose(*users, rtol=0, atol=2e-6)
    return versions[0]


def test_a_compiled_client_takes_an_extra_without_rows():
    """A coordinator may have nothing to send yet; wider extras have one row per client."""
    run = played(rounds=1)[0]
    trainer = LabelledTrainer(
        run.executor.work, run.executor.store, MODELS["mf"].gradient(run.components.model)
    )
    trainer._term = AnalyticTerm(term_kernels.add_nothing, np.zeros(0), extra="others")
    for shape, due in (((0, 3), (0, 3)), ((0, 2, 3), (0, 6)), ((4, 2, 3), (4, 6))):
        found = trainer._term_arguments([TrainingTask(0, 0, 0, 0)], {"others": np.zeros(shape, np.float32)})
        assert found.extra.shape == due


@pytest.mark.parametrize(("size", "sharing"), [(12, 1), (5, 10)])  # the last slice has two of twelve clients
def test_a_row_to_score_by_has_room_only_for_the_users_who_share_it(size, sharing):
    run, _ = played(size=size)
    store = run.executor.store
    view = store.scoring_view(run.planner.current_rows, np.arange(12))
    users = view.rows[:, view.layout.users].reshape(len(view.rows), -1, DIM)
    np.testing.assert_array_equal(users[view.row, view.user], store.own)
    assert users.shape[1] == sharing


def test_clients_start_with_one_score_function_and_end_with_items_of_their_own():
    run, first = played()
    store, layout = run.executor.store, run.executor.work.layout
    assert (first == first[0]).all()
    assert np.abs(first).max() <= 1 / np.sqrt(DIM - 1)
    assert len({row.tobytes() for row in store.own}) == 12
    view = store.scoring_view(run.planner.current_rows, np.arange(12))
    items = view.rows[:, view.layout.items].reshape(len(view.rows), 40, DIM)
    assert len(set(view.row.tolist())) == 12
    assert (items[..., -1] == 1).all()
    common = store.version(int(run.planner.current_rows[-1]))
    present = layout.version_tables(common)["items"]
    moved = np.abs(items[view.row] - present).max(axis=(1, 2))
    assert (moved > 0).all()


def test_without_personal_items_all_recommend_by_the_common_ones():
    run, _ = played(personal_items=False)
    view = run.executor.store.scoring_view(run.planner.current_rows, np.arange(12))
    assert set(view.row.tolist()) == {0}


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"name": "gmf"}, "linear score function trained on cross-entropy, which gmf"),
        ({"name": "mf", "loss": "bpr"}, "set model to {name: mf, loss: bce}"),
        ({"name": "mf", "dim": 1}, "model.dim: found 1, but the last number of a row is the bias"),
    ],
)
def test_a_score_function_that_is_not_linear_is_refused(model, message):
    protocol = {"name": "fedavg", "rounds": 2, "slice": 5, "client_model": "none", "merge": "mean"}
    scenario = tiny(model=model, protocol=protocol, recommender={"name": "pfedrec"}, observers=[])
    with pytest.raises(ScenarioError, match=message):
        prepare(load_scenario(scenario))
