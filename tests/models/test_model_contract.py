"""What every registered model keeps to; and that the contract catches those that do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from gossiprec.base.errors import PluginError, ScenarioError
from gossiprec.base.options import Options
from gossiprec.emulation import prepare
from gossiprec.emulation.assembly.data_loading import load_data
from gossiprec.models import MODELS, BlockRole, Model, ParameterBlock
from gossiprec.models.base.parameter_blocks import normal, zeros
from gossiprec.models.feeds import PointwiseFeed
from gossiprec.models.gmf import GMF
from gossiprec.scenario import load_scenario
from gossiprec.testing import check_model
from gossiprec.testing import models as model_checks
from gossiprec.testing.blinding import reachable
from gossiprec.testing.tiny_runs import FEDERATED, run_to_end, temporarily_registered, tiny_scenario
from tests.slow import slow_except_first

GMFKernels = GMF.kernels()

OPTIONS = {
    "bert4rec": [
        {"dim": 8, "inner": 12, "max_length": 12},
        {"dim": 4, "inner": 6, "loss": "sampled", "output_layer": False, "max_length": 25},
    ],
    "biased-mf": [{}, {"loss_reduction": "sum", "dim": 5}],
    "deepfm": [
        {},
        {
            "user_attributes": ["gender", "occupation"],
            "item_attributes": ["genres"],
            "dropout": 0.3,
            "hidden": [6],
        },
    ],
    "ease": [{"l2": 4.0}],
    "fedrap": [{"dim": 4, "init_std": 0.1}],
    "gmf": [{}, {"loss_reduction": "sum"}],
    "gru4rec": [{"max_length": 12}],
    "mf": [{}, {"loss": "bpr"}, {"loss": "bpr", "loss_reduction": "sum"}],
    "mult-vae": [{"dim": 3, "hidden": 5}, {"dim": 4, "hidden": 4, "dropout": 0, "kl_weight": 0}],
    "ncf": [{}, {"loss_reduction": "sum"}],
    "neumf": [{"dim": 4, "gmf_dim": 3, "hidden": [5], "loss_reduction": "sum"}],
    "prme-g": [{}, {"loss_reduction": "mean", "dim": 6}],
    "simgcl": [{}, {"contrast_with": "all", "contrast_reduction": "sum"}],
}
"""Options with which a model is checked; one that is not here is checked with its defaults.

Sequences are cut, for some users, or have places without an item.
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options"), [(name, options) for name in MODELS for options in OPTIONS.get(name, [{}])]
)
@pytest.mark.cases(2)
def test_a_model_keeps_its_contract(name, options):
    check_model(MODELS[name], options)


class Biased(Model):
    """Matrix factorisation with biases: several blocks of a role, one of them a matrix, one the node's alone."""

    Options = Options
    feed = PointwiseFeed

    def blocks(self):
        return (
            ParameterBlock("taste", BlockRole.USER, (2, 3), normal(0.1)),
            ParameterBlock("mood", BlockRole.USER, (1,)),
            ParameterBlock("kind", BlockRole.ITEM, (2, 3), normal(0.1)),
            ParameterBlock("bias", BlockRole.ITEM, (1,)),
            ParameterBlock("level", BlockRole.SHARED, (1,)),
            ParameterBlock("own", BlockRole.PRIVATE, (1,)),
        )

    def score(self, p, query):
        user, items = query["user"], query["items"]
        near = (p["taste"][user] * p["kind"][items]).sum((1, 2))
        return near + p["bias"][items, 0] + p["mood"][user, 0] + p["level"] + p["own"]

    def loss(self, p, batch):
        weights = batch["weights"]
        total = binary_cross_entropy_with_logits(
            self.score(p, batch), batch["labels"], weights, reduction="sum"
        )
        return total / weights.sum()


class Popularity(Model):
    """No user row at all."""

    Options = Options
    feed = PointwiseFeed

    def blocks(self):
        return (ParameterBlock("worth", BlockRole.ITEM, (1,)),)

    def score(self, p, query):
        return p["worth"][query["items"], 0]

    loss = Biased.loss


@pytest.mark.slow
@pytest.mark.parametrize("model", [Biased, Popularity])
def test_models_of_other_shapes_keep_the_contract_too(model):
    check_model(model)


class LooksAround(Biased):
    def score(self, p, query):
        return super().score(p, query) + p["bias"].mean()


class LooksAtOtherUsers(Biased):
    def score(self, p, query):
        return super().score(p, query) + p["mood"][0, 0]


class KnowsItemsByNumber(Biased):
    def score(self, p, query):
        return super().score(p, query) + query["items"] / 10


class GivesAColumn(Biased):
    def score(self, p, query):
        return super().score(p, query)[:, None]


class ScoresAllItemsOtherwise(Biased):
    def score_all_items(self, p):
        query = {"items": torch.arange(len(p["bias"]))}
        return lambda user: self.score(p, {**query, "user": torch.zeros_like(user)})


class SpoilsItsItems(MODELS["ncf"]):
    def score_all_items(self, p):
        p["items"].mul_(1.5)
        return super().score_all_items(p)


class CountsPadding(Biased):
    def loss(self, p, batch):
        return binary_cross_entropy_with_logits(self.score(p, batch), batch["labels"])


class Branches(Biased):
    def loss(self, p, batch):
        lost = super().loss(p, batch)
        return lost if lost.item() < 10 else 2 * lost


class StopsTheGradient(Biased):
    def loss(self, p, batch):
        return super().loss({**p, "kind": p["kind"].detach()}, batch)


class PushesAway(Biased):
    def loss(self, p, batch):
        return -super().loss(p, batch)


class MixesSamples(Biased):
    def loss(self, p, batch):
        return super().loss(p, batch) ** 2


class TakesTheFirstUser(Biased):
    def loss(self, p, batch):
        return super().loss(p, {**batch, "user": batch["user"][:1]})


class LooksAtNoEdge(MODELS["lightgcn"]):
    def encode(self, p, graph):
        return p


class KnowsRowsByNumber(MODELS["lightgcn"]):
    def encode(self, p, graph):
        found = super().encode(p, graph)
        return {**found, "items": found["items"] + torch.arange(graph.n_items)[:, None]}


class SpoilsItsRows(MODELS["lightgcn"]):
    def encode(self, p, graph):
        p["users"].mul_(1.5)
        return super().encode(p, graph)


class DrawsNoiseAnew(MODELS["simgcl"]):
    def encode_step(self, p, graph, views, draw):
        return super().encode_step(p, graph, views, np.random.default_rng())


class DrawsAnew(Biased):
    def blocks(self):
        return (
            *super().blocks(),
            ParameterBlock("w", BlockRole.SHARED, (9,), lambda rng, n: np.random.default_rng().random(n)),
        )


class BeginsAlike(Biased):
    def blocks(self):
        _, mood, *others = super().blocks()
        return (ParameterBlock("taste", BlockRole.USER, (2, 3), lambda rng, n: np.ones(n)), mood, *others)


class HasAnothersGradient(MODELS["gmf"]):
    def score(self, p, query):
        return 2 * super().score(p, query)

    def gradient(self):
        return super().gradient()


class HasAnothersKernels(HasAnothersGradient):
    def gradient(self):
        return None


BROKEN = {
    LooksAround: "Read only the rows of the user, of the item",
    LooksAtOtherUsers: "Read only the rows of the user, of the item",
    KnowsItemsByNumber: "Give equal scores in a model of a few renumbered items",
    GivesAColumn: "Return one finite score for each item",
    ScoresAllItemsOtherwise: "Return equal scores by ``score_all_items``",
    SpoilsItsItems: "Return equal scores by ``score_all_items``",
    CountsPadding: "Have the same loss and gradient with samples of weight 0",
    Branches: "Give each of several versions in a stack",
    StopsTheGradient: "Have a gradient of the loss that predicts",
    PushesAway: "Score the items of a node higher",
    MixesSamples: "Have the mean or the sum of the samples' own losses",
    TakesTheFirstUser: "Have as loss, for samples of two users",
    LooksAtNoEdge: "Encode differently without some edges",
    KnowsRowsByNumber: "Encode equally up to rounding if items have other numbers",
    SpoilsItsRows: "and do not change the input",
    DrawsNoiseAnew: "that is byte-identical for the same draws",
    DrawsAnew: "Begin at the same finite numbers for the same seed",
    BeginsAlike: "Begin with a different row for each user",
    HasAnothersGradient: "Have a compiled gradient, if any, equal to autograd's",
    HasAnothersKernels: "Train equally in every executor that can.* fused: models end .* off the reference",
}


@pytest.mark.parametrize("model", slow_except_first(BROKEN), ids=lambda model: model.__name__)
def test_a_model_that_breaks_the_contract_is_told_which_claim(model):
    with pytest.raises(
        AssertionError, match=f"(?s)the model {model.__name__}.* breaks its contract:.*{BROKEN[model]}"
    ):
        check_model(model)


MORE = {
    "level": (BlockRole.SHARED, "the block 'level' shares its name with another block or a constant"),
    "bias": (BlockRole.PRIVATE, "the block 'bias' shares its name"),
    "places": (BlockRole.USER, "the block 'places' shares its name"),
    "items": (
        BlockRole.SHARED,
        "the block 'items' is shared, but its name is reserved for the table of all items",
    ),
    "users": (
        BlockRole.ITEM,
        "the block 'users' is item, but its name is reserved for the table of all users",
    ),
}


@pytest.mark.parametrize("name", MORE)
def test_a_block_whose_name_is_taken_is_refused(name):
    role, told = MORE[name]

    class Crowded(Biased):
        def bind_to_data(self, split):
            self.constants = {"places": np.zeros((split.n_items, 2), np.float32)}
            return self

        def blocks(self):
            return (*super().blocks(), ParameterBlock(name, role, (2,), zeros))

    with (
        temporarily_registered(MODELS, {"crowded": Crowded}),
        pytest.raises(PluginError, match=f"^model: Crowded: {told}"),
    ):
        prepare(load_scenario(tiny_scenario(model={"name": "crowded"})))


def test_a_model_that_would_send_nothing_is_refused():
    class Silent(Biased):
        def blocks(self):
            return super().blocks()[:2]

    with pytest.raises(PluginError, match="Silent has no block with role item or shared"):
        check_model(Silent)


@pytest.mark.slow
def test_a_model_without_a_gradient_of_samples_need_not_fall_apart_into_them():
    class Honest(MixesSamples):
        has_sample_gradients = False

    check_model(Honest)


def test_scores_of_a_stack_are_those_of_torch_alone():
    """The claims are checked on the formula that the executors use: a random model's, by hand."""
    model = MODELS["gmf"](MODELS["gmf"].Options(dim=2))
    p = {"users": torch.tensor([[1.0, 2.0]]), "items": torch.tensor([[3.0, 4.0], [5.0, 6.0]])}
    p |= {"weight": torch.tensor([0.5, -1.0]), "bias": torch.tensor([7.0])}

    found = model.score(p, {"user": torch.tensor([0]), "items": torch.tensor([1, 0])})

    assert found.tolist() == [7.0 + 0.5 * 5 - 2 * 6, 7.0 + 0.5 * 3 - 2 * 4]


class OwnRowKernels(GMFKernels):
    """Kernels that find the user's row at the front, whoever's rows there are, and say nothing of it."""

    def merge_and_train(self, program, tasks, update_numbers):
        nodes = program.node.copy()
        if self.work.layout.n_users > 1:
            nodes[:] = 0
        super().merge_and_train(replace(program, node=nodes), tasks, update_numbers)


class NeverKernels(GMFKernels):
    @classmethod
    def missing_feature(cls, training, storage, ways, layout):
        return "anything"


def with_kernels(kernels_class):
    class Model(GMF):
        @classmethod
        def kernels(cls):
            return kernels_class

    return Model


@pytest.mark.slow
def test_kernels_that_ignore_a_layout_are_found_and_refused_where_they_do_not_claim_it():
    run = {**tiny_scenario(model={"name": "own"}), "training": {"optimizer": "sgd", "learning_rate": 0.05}}
    claims = model_checks.kernels_compute_or_refuse
    with temporarily_registered(MODELS, {"own": with_kernels(OwnRowKernels)}):
        with pytest.raises(AssertionError, match=r"With rows of all users, two negatives kernels end .* off"):
            claims(run)
        OwnRowKernels.all_users = False
        claims(run)
        averaged = {**run, "protocol": {**FEDERATED, "user_table": "averaged"}}
        with pytest.raises(ScenarioError, match=r"no kernels for own with rows of all users"):
            run_to_end(averaged, name="fused", threads=1)


@pytest.mark.slow
def test_kernels_that_never_run_break_the_contract():
    with (
        temporarily_registered(MODELS, {"never": with_kernels(NeverKernels)}),
        pytest.raises(AssertionError, match=r"kernels never run: they lack never with anything"),
    ):
        model_checks.kernels_compute_or_refuse(tiny_scenario(model={"name": "never"}))


class EqualKernels(GMFKernels):
    """Kernels that merge equally instead of by performance."""

    def merge_and_train(self, program, tasks, update_numbers):
        keep = np.where(program.merge_keep < 0, np.float32(0.5), program.merge_keep)
        super().merge_and_train(replace(program, merge_keep=keep), tasks, update_numbers)


@pytest.mark.slow
def test_kernels_that_ignore_performance_break_the_contract():
    run = tiny_scenario(model={"name": "equal"})
    model_checks.executors_agree_on_performance(tiny_scenario())
    with (
        temporarily_registered(MODELS, {"equal": with_kernels(EqualKernels)}),
        pytest.raises(AssertionError, match=r"fused: models end .* off the reference's"),
    ):
        model_checks.executors_agree_on_performance(run)


class Peeks(GMF):
    """A model that looks at what it is tested by."""

    def bind_to_data(self, split):
        self.known = np.bincount(split.test.values, minlength=split.n_items)
        return self


def test_a_model_that_looks_at_test_items_breaks_the_contract():
    with pytest.raises(
        AssertionError, match="training data only: 'TrainingData' object has no attribute 'test'"
    ):
        check_model(Peeks)


def test_training_data_hold_the_training_items_in_order_and_no_other():
    data = load_data(load_scenario(tiny_scenario()))
    found = data.training_data()

    for user in range(data.n_users):
        own = set(data.train[user].tolist())
        assert found.sequences[user].tolist() == [
            item for item in data.sequences[user].tolist() if item in own
        ]
    hidden = [
        data.validation.values,
        data.test.values,
        data.sequences.values,
        data.check_ins.test.items.values,
    ]
    for way, thing in reachable(found, "data"):
        if isinstance(thing, np.ndarray) and thing.size:
            assert not any(np.may_share_memory(thing, each) for each in hidden), way
