"""What every registered recommender keeps to; and that the contract catches those that do not."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import Field

from gossiprec.base.options import Options
from gossiprec.federated import RECOMMENDERS, CoordinatorHook, Recommender
from gossiprec.testing import check_recommender
from tests.contracts.broken import told

FEW = {"synthetic_users": 3, "synthetic_items": 5}
NEGATIVES = {"local_items": 9, "local_negatives": 3, "semi_hard": 4}
PUBLIC = {"similarity": {"name": "co-occurrence", "public_users": 0.5}}
OPTIONS = {
    "cl4fedrec": [
        FEW,
        {**FEW, "item_views": "noise", "item_loss": "sum", "synthetic_by": "uniform", "refresh": False},
        {**FEW, "item_view_scale": "learning-rate"},
    ],
    "correlation": [{"alpha": 3.0}],
    "fedgnn": [{"pseudo_items": 0.3}, {"table_noise": 0.01}],
    "perfedrec": [
        {"clusters": {"number": 3, "first": 1, "every": 2}, "row_noise": 0.02},
        {"clusters": {"number": 2, "first": 2, "every": 1, "last": 4}, "cluster_models": "round"},
        {"clusters": {"number": 2, "first": 1}, "cluster_models": "none", "local_share": 0.0},
    ],
    "perfedrec-pp": [
        {"clusters": {"number": 3, "first": 1, "every": 2}, "pretraining": {"sampled": 5}},
        {
            "clusters": {"number": 2, "first": 2},
            "pretraining": {"views": "mix", "epochs": 2},
            "table_noise": 0.01,
        },
    ],
    "pdc-frs": [
        {**PUBLIC, "augmented": 6, "user_weight": 2.0, "epsilon": 20.0},
        {**PUBLIC, "augmented": 0, "user_weight": 0.5, "item_weight": 0.0},
        {**PUBLIC, "augmented": 4, "user_weight": 0.0, "auxiliary_batch": 7, "auxiliary_epochs": 2},
        {**PUBLIC, "augmented": 4, "item_weight": 0.0, "item_optimizer": "adam"},
    ],
    "bil": [{"random_items": 6}, {"spread_weight": 0.0, "margin": 0.5}],
    "fed-softmax": [{"local_items": 9, "local_negatives": 4}],
    "fedcl": [
        {**NEGATIVES, "clusters": 2},
        {**NEGATIVES, "clusters": 3, "clustering": "kmeans", "leaks": 3, "epsilon": 400.0},
        {**NEGATIVES, "clustering": "none", "hard": True, "epsilon": None},
        {**NEGATIVES, "semi_hard": 0},
    ],
    "simgcl": [{}, {"temperature": 0.02}],
    "pfedrec": [{"item_rate": 2.0}, {"bias": False, "personal_items": False}],
    "gpfedrec": [{"item_rate": 2.0, "guide_weight": 2.0}],
    "rcl4fedrec": [{**FEW, "hot_items": 4, "sub_items": 10, "regulariser_steps": 2}],
}
"""One that is not here is checked with its defaults."""
LIGHT = {"name": "lightgcn", "dim": 6, "layers": 2}
GRU = {"name": "gru4rec", "dim": 6, "hidden": 8, "loss": "sampled", "dropout": 0.0}
TOWERS = {"name": "two-tower", "dim": 6, "loss": "sampled"}
BERT = {"name": "bert4rec", "dim": 6, "inner": 8, "layers": 1, "loss": "sampled", "dropout": 0.0}
MODELS = {
    "bil": [GRU, TOWERS],
    "fed-softmax": [TOWERS],
    "fedcl": [GRU, TOWERS, BERT],
    "fedgnn": [LIGHT],
    "perfedrec": [{"name": "mf", "dim": 6, "loss": "bpr"}],
    "perfedrec-pp": [LIGHT],
    "gpfedrec": [{"name": "mf", "dim": 6, "init_std": 0.3}],
    "pfedrec": [{"name": "mf", "dim": 6, "init_std": 0.3}],
}
CASES = [
    (name, options, model)
    for name in RECOMMENDERS
    for number, options in enumerate(OPTIONS.get(name, [{}]))
    for place, model in enumerate(MODELS.get(name, [None]))
    if number == 0 or place == -number % len(MODELS.get(name, [None]))
]
"""Each recommender with each of its models, by its first options; each of its other options with one of them."""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options", "model"), CASES)
@pytest.mark.cases(5)
def test_a_recommender_keeps_its_contract(name, options, model):
    check_recommender(RECOMMENDERS[name], options, model)


class Shrinks(Recommender):
    """Pulls the user's row towards a number that the coordinator names, and a drawn one."""

    def draws(self, layout, samples, draw):
        return {"pull": draw.random(layout.user_width, np.float32)}, {}

    def loss(self, p, batch, extras):
        return self.model.loss(p, batch) + (p["users"] - batch["pull"] - extras["level"]).square().sum()

    def coordinator_hook(self, known):
        return Levels()


class Levels(CoordinatorHook):
    """Names the number of rounds so far."""

    extra_bytes = 4
    checkpointed = ("rounds",)

    def __init__(self):
        self._rounds = 0

    def step(self, version, answers, round):
        self._rounds += 1
        return version, {"level": np.full(1, self._rounds, np.float32)}


class DrawsByItself(Shrinks):
    counter = 0

    def draws(self, layout, samples, draw):
        type(self).counter += 1
        return {"pull": np.full(layout.user_width, type(self).counter, np.float32)}, {}


class CountsPadding(Shrinks):
    def loss(self, p, batch, extras):
        return self.model.loss(p, batch) + p["users"].sum() * (1 - batch["weights"]).sum()


class Forgets(Shrinks):
    def coordinator_hook(self, known):
        levels = Levels()
        levels.checkpointed = ()
        return levels


class SaysLess(Shrinks):
    def coordinator_hook(self, known):
        levels = Levels()
        levels.extra_bytes = 2
        return levels


class Scribbles(Shrinks):
    def coordinator_hook(self, known):
        levels = Levels()

        def step(version, answers, round):
            version += 1
            return version, {"level": np.ones(1, np.float32)}

        levels.step = step
        return levels


class PullOptions(Options):
    weight: float = Field(default=0.5, ge=0)


class Pulls(Shrinks):
    """Weighs its loss."""

    Options = PullOptions
    loss_weights = ("weight",)

    def loss(self, p, batch, extras):
        total = self.model.loss(p, batch)
        return total + self.options.weight * (super().loss(p, batch, extras) - total)


class HidesAWeight(Pulls):
    loss_weights = ()


class WeighsInVain(Pulls):
    """As a new Adam does with the weight of a loss that it takes alone: it divides by the gradient's own size."""

    def loss(self, p, batch, extras):
        return Shrinks.loss(self, p, batch, extras)


class HasAnothersTerm(RECOMMENDERS["correlation"]):
    def loss(self, p, batch, extras):
        return super().loss(p, batch, extras) + p["users"].square().sum()

    def analytic_term(self, gradient):
        return super().analytic_term(gradient)


BROKEN = {
    HidesAWeight: "Found weight among the options, but not in loss_weights",
    WeighsInVain: "Four times weight moves the result by",
    HasAnothersTerm: "by the analytic term, if any. The reference and fused end",
    DrawsByItself: "Train a client to the same bytes whatever other clients are trained with it",
    CountsPadding: "Train equally one client after the other, many at once",
    Forgets: r"Continue from state\(\) after restore",
    SaysLess: "Give finite versions of the same shape, and extras of extra_bytes",
    Scribbles: "Give finite versions of the same shape",
}


class HasNoTermOfItsOwn(RECOMMENDERS["correlation"]):
    def loss(self, p, batch, extras):
        return super().loss(p, batch, extras) + p["users"].square().sum()


@pytest.mark.slow
def test_a_loss_that_a_new_adam_takes_alone_is_caught():
    """The items' loss of PDC-FRS as it was: weights of 0.05, 0.5 and 5 gave results within 2e-6 of one another."""
    kind = RECOMMENDERS["pdc-frs"]
    with told(kind, "Four times item_weight moves the result by", kind="recommender"):
        check_recommender(kind, {**PUBLIC, "item_optimizer": "adam"})


@pytest.mark.parametrize("own", [Shrinks, Pulls, HasNoTermOfItsOwn])
@pytest.mark.slow
def test_a_recommender_of_ones_own_keeps_the_contract(own):
    check_recommender(own)


@pytest.mark.slow
@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_one_that_does_not_is_caught(broken):
    with told(broken, BROKEN[broken], kind="recommender"):
        check_recommender(broken)
