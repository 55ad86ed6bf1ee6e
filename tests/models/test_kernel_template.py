"""Kernels made from a score and a gradient: what they compute, refuse and cost."""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import Options
from gossiprec.compute.local_update import TrainingSettings
from gossiprec.emulation.assembly.prepare import prepare
from gossiprec.emulation.progress import NullProgress
from gossiprec.models import MODELS, BlockRole, Model, ParameterBlock, biased_mf
from gossiprec.models.base.kernel_template import template_kernels
from gossiprec.models.base.parameter_blocks import normal
from gossiprec.models.feeds import PairwiseFeed, PointwiseFeed
from gossiprec.scenario import load_scenario
from gossiprec.testing import models as model_checks
from gossiprec.testing.tiny_runs import current_models, registered_as, run_to_end, tiny_scenario

TUTORIAL = Path(__file__).resolve().parents[2] / "examples" / "gossiprec-tutorial"
EXAMPLES = {"distance_mf": "DistanceMF", "perceptron": "Perceptron"}


def example(name):
    """Return a module of the tutorial package, without registering its model in this process."""
    known = {*MODELS}
    sys.path.insert(0, str(TUTORIAL))
    try:
        return import_module(f"gossiprec_tutorial.{name}")
    finally:
        sys.path.remove(str(TUTORIAL))
        for added in {*MODELS} - known:
            del MODELS._members[added]


def drawn(model, module):
    """Return random rows, room and shape for the functions, and the score by the formula in torch."""
    layout, rng = model.layout(1), np.random.default_rng(1)
    row = rng.normal(size=layout.size)
    parts = (row[columns].copy() for columns in (layout.users, layout.items, layout.shared))
    p = SimpleNamespace(**dict(zip(("user", "item", "shared"), parts, strict=True)))
    shape, room = module.sizes(model.options) if hasattr(module, "sizes") else ((), 0)

    def by_torch(values):
        tables = {
            "users": values.user[None],
            "items": values.item[None],
            **layout.shared_blocks(values.shared),
        }
        named = {name: torch.from_numpy(part) for name, part in layout.blocks_by_name(tables).items()}
        zero = torch.zeros(1, dtype=torch.int64)
        return float(model.score(named, {"user": zero, "items": zero}))

    return p, np.full(room, np.nan), np.array(shape, np.int64), by_torch


@pytest.mark.parametrize("name", ["biased-mf", *EXAMPLES])
def test_the_two_functions_are_the_formula_and_its_derivatives(name):
    """In plain Python, by numpy: no compiler takes part."""
    module = biased_mf if name == "biased-mf" else example(name)
    kind = MODELS[name] if name == "biased-mf" else getattr(module, EXAMPLES[name])
    p, room, shape, by_torch = drawn(kind(kind.Options()), module)
    slopes = SimpleNamespace(**{part: np.zeros_like(values) for part, values in vars(p).items()})

    np.testing.assert_allclose(module.score(p, room, shape), by_torch(p), rtol=1e-12)
    module.add_gradient(p, 0.5, slopes, room, shape)

    for part, values in vars(p).items():
        for k in range(len(values)):
            around = []
            for sign in (1, -1):
                moved = values.copy()
                moved[k] += sign * 1e-5
                around.append(by_torch(SimpleNamespace(**{**vars(p), part: moved})))
            expected = 0.5 * (around[0] - around[1]) / 2e-5
            assert getattr(slopes, part)[k] == pytest.approx(expected, abs=1e-7)


@pytest.mark.slow
def test_a_node_without_noise_clips_each_sample():
    """By hand: with a bound of 0 nothing moves, and with a large one the step is that of plain training."""
    ends = []
    for policies in ([], [{"name": "dp-sgd", "epsilon": "inf", "clip_norm": 1e6}]):
        run = tiny_scenario(model={"name": "biased-mf"}, policies=policies)
        prepared, first = run_to_end(run, name="fused", threads=1)
        ends.append(current_models(prepared))
    assert np.abs(ends[0] - first).max() > 0.01
    np.testing.assert_allclose(ends[1], ends[0], atol=1e-5)

    run = tiny_scenario(
        model={"name": "biased-mf"}, policies=[{"name": "dp-sgd", "epsilon": "inf", "clip_norm": 1e-9}]
    )
    prepared, first = run_to_end(run, name="fused", threads=1)
    assert np.abs(current_models(prepared) - first).max() < 1e-4


def test_biased_mf_scores_by_hand():
    model = MODELS["biased-mf"](MODELS["biased-mf"].Options(dim=2))
    p = {"user_factors": torch.tensor([[1.0, 2.0]]), "item_factors": torch.tensor([[3.0, 4.0], [5.0, 6.0]])}
    p |= {"user_bias": torch.tensor([[0.5]]), "item_bias": torch.tensor([[10.0], [20.0]])}

    found = model.score(
        {**p, "offset": torch.tensor([100.0])}, {"user": torch.tensor([0]), "items": torch.tensor([1, 0])}
    )

    assert found.tolist() == [5 + 12 + 0.5 + 20 + 100, 3 + 8 + 0.5 + 10 + 100]


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_fast_kernel_takes_less_than_60_lines(name):
    module = example(name)
    functions = (
        getattr(module, name) for name in ("score", "add_gradient", "sizes") if hasattr(module, name)
    )
    assert sum(len(inspect.getsource(function).splitlines()) for function in functions) < 60


def wrong_gradient(p, error, slopes, room, shape):
    """Forget the bias of the item."""
    for k in range(len(p.user)):
        slopes.item[k] += error * p.user[k]
        slopes.user[k] += error * p.item[k]
    slopes.shared[0] += error


class Wrong(MODELS["biased-mf"]):
    @classmethod
    def kernels(cls):
        return template_kernels(biased_mf.score, wrong_gradient)


@pytest.mark.full
def test_a_wrong_gradient_breaks_the_contract():
    with (
        registered_as(MODELS, Wrong) as name,
        pytest.raises(AssertionError, match=r"kernels end .* of their movement off"),
    ):
        model_checks.kernels_compute_or_refuse(tiny_scenario(model={"name": name}))


class Own(Model):
    """A score of the user's row and the item's, with a weight of the node alone."""

    Options = Options
    feed = PointwiseFeed
    roles = (BlockRole.USER, BlockRole.ITEM, BlockRole.PRIVATE)

    @classmethod
    def kernels(cls):
        return template_kernels(biased_mf.score, biased_mf.add_gradient)

    def blocks(self):
        return tuple(ParameterBlock(f"{role}s", role, (2,), normal(0.1)) for role in self.roles)

    def score(self, p, query):
        return (p["users"][query["user"]] * p["items"][query["items"]]).sum(-1)

    def loss(self, p, batch):
        return (self.score(p, batch) * batch["weights"]).sum()


class OfPairs(Own):
    feed = PairwiseFeed
    roles = (BlockRole.USER, BlockRole.ITEM)


class WithConstants(OfPairs):
    feed = PointwiseFeed

    def bind_to_data(self, split):
        bound = type(self)(self.options)
        bound.constants = {"prices": np.zeros((split.n_items, 1), np.float32)}
        return bound


def test_private_weights_are_left_to_another_executor():
    kernels, layout = Own.kernels(), Own(Options()).layout(3)

    assert kernels.missing_feature(None, "float32", frozenset(), layout) == "the private block 'privates'"
    assert kernels.missing_feature(None, "float32", frozenset(), OfPairs(Options()).layout(3)) is None


@pytest.mark.parametrize(
    ("optimizer", "ways", "missing"),
    [("sgd", (), None), ("adam", (), "float16"), ("sgd", ("private",), "float16")],
)
def test_rows_of_float16_have_kernels_under_plain_gradient_descent(optimizer, ways, missing):
    layout, training = OfPairs(Options()).layout(3), TrainingSettings(optimizer=optimizer)
    found = Own.kernels().missing_feature(training, "float16", frozenset(ways), layout)
    assert found is None if missing is None else missing in found


class Notes(NullProgress):
    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)


@pytest.mark.parametrize(
    ("kind", "found"),
    [(OfPairs, "samples from PairwiseFeed"), (WithConstants, "constants prices")],
    ids=["pairs", "known"],
)
def test_what_the_functions_do_not_see_runs_stacked_with_a_note(kind, found):
    progress = Notes()
    with registered_as(MODELS, kind) as name:
        run = tiny_scenario(model={"name": name}, training={"local_epochs": 1000})
        with pytest.raises(
            ScenarioError, match=rf"'fused' has no kernels for {name} with {found}; use 'batched'"
        ):
            prepare(load_scenario({**run, "executor": {"name": "fused"}}))
        prepared = prepare(load_scenario(run), progress)
    assert prepared.executor.name == "batched"
    assert [
        note
        for note in progress.notes
        if note.startswith(f"executor: there are no kernels for {name} with {found};")
    ]


def test_a_run_with_kernels_has_no_such_note():
    progress = Notes()
    prepare(
        load_scenario(tiny_scenario(model={"name": "biased-mf"}, training={"local_epochs": 1000})), progress
    )
    assert not progress.notes
