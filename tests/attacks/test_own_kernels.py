"""A model that brings kernels of its own is attacked by its own formula, by whatever name its functions go."""

from __future__ import annotations

import numpy as np
import pytest
from numpy import float32

from gossiprec.adversaries.attacks.cda import CDA, CDAOptions
from gossiprec.base.options import Options
from gossiprec.models import MODELS, BlockRole, Model, ParameterBlock
from gossiprec.models.base.kernel_interface import ModelKernels
from gossiprec.models.base.parameter_blocks import normal
from gossiprec.models.feeds import PointwiseFeed
from gossiprec.native.jit import inline, length, noinline
from gossiprec.numerics.relevance import RELEVANCE
from gossiprec.testing import temporarily_registered
from tests.attacks.glimpses import Receptions, make_world, show, started
from tests.compute.worlds import make_executor, make_model

PAIRS = [(1, 0), (2, 0), (3, 1), (2, 0), (0, 1), (3, 0), (4, 1), (5, 0), (2, 1), (3, 0), (5, 1), (2, 0)]
RULES = tuple(RELEVANCE)


class Toy(Model):
    """Rows of three numbers and a common factor; a score is the factor times :meth:`near`."""

    Options = Options
    feed = PointwiseFeed

    def blocks(self):
        return (
            ParameterBlock("users", BlockRole.USER, (3,), normal(1.0)),
            ParameterBlock("items", BlockRole.ITEM, (3,), normal(1.0)),
            ParameterBlock("factor", BlockRole.SHARED, (1,), normal(1.0)),
        )

    def score(self, p, query):
        return p["factor"] * self.near(p["users"][query["user"]], p["items"][query["items"]])

    def loss(self, p, batch):
        return ((self.score(p, batch) - batch["labels"]) ** 2 * batch["weights"]).sum() / batch[
            "weights"
        ].sum()


class Dot(Toy):
    @classmethod
    def kernels(cls):
        return DotKernels

    @staticmethod
    def near(user, items):
        return (user * items).sum(-1)


class Gap(Toy):
    @classmethod
    def kernels(cls):
        return GapKernels

    @staticmethod
    def near(user, items):
        return -((user - items) ** 2).sum(-1)


@inline
def score_by_product(vector, user, user_at, shared, shared_at, queries, sizes, scores):
    queries, dim = queries.items, length(sizes.dims)
    for j in range(len(queries)):
        total = float32(0.0)
        for k in range(dim):
            total += user[user_at + k] * vector[(1 + queries[j]) * dim + k]
        scores[j] = shared[shared_at] * total


@inline
def score_by_gap(vector, user, user_at, shared, shared_at, queries, sizes, scores):
    queries, dim = queries.items, length(sizes.dims)
    for j in range(len(queries)):
        total = float32(0.0)
        for k in range(dim):
            total += (user[user_at + k] - vector[(1 + queries[j]) * dim + k]) ** 2
        scores[j] = -shared[shared_at] * total


@noinline
def keep_start(a, rows, row, now, state, recipe, sizes):
    """Fit nothing: nobody hides a user row from a fitted one here."""


class ToyKernels(ModelKernels):
    """Slow kernels: all but what observers do message by message is the reference's."""

    fit_user = keep_start

    @classmethod
    def missing_feature(cls, training, storage, ways, layout):
        return None

    def merge_and_train(self, program, tasks, update_numbers):
        make_executor("reference", self.work).run(program, tasks)

    def predict_scores(self, query):
        return make_executor("reference", self.work).score(query)

    def rank(self, victims, queries, latest):
        layout, near = self.work.layout, type(self.work.model).near
        for row, victim in zip(victims.row, victims.ids, strict=True):
            items = victims.rows[row, layout.items].reshape(-1, 3)
            for a, user in enumerate(victims.users):
                factor = victims.shared_of[a] if len(victims.shared_of) else victims.rows[row, layout.shared]
                kept = queries.items[queries.offsets[a] : queries.offsets[a + 1]]
                scores, n = (factor * near(user, items[kept]))[None], queries.n_targets[a]
                for r, code in enumerate(queries.rules):
                    latest[r, a, victim] = RELEVANCE[RULES[code]](scores[:, :n], scores[:, n:])[0]


class DotKernels(ToyKernels):
    score_kept = score_by_product


class GapKernels(ToyKernels):
    score_kept = score_by_gap


@pytest.mark.parametrize("hidden", [(), (2, 3)], ids=["open", "hidden"])
@pytest.mark.parametrize("who", ["single", "coalition"])
@pytest.mark.cases(1)
def test_each_model_is_attacked_by_its_own_formula(who, hidden):
    """GMF's loops, or those of the other toy, would rank otherwise: rows are the same numbers for both."""
    found = {}
    with temporarily_registered(MODELS, {"dot": Dot, "gap": Gap}):
        for name in ("dot", "gap"):
            for form in ("plain", "compiled", "stacked"):
                world = make_world(form=form, hidden=hidden, model=make_model(name))
                received = Receptions.drawn(PAIRS, world)
                options = CDAOptions(
                    who=who, momentum=(0.0, 0.9), relevance=RULES, reference_items=8, community_size=2,
                    fictive_user="own_embedding", **({"members": (0, 1)} if who == "coalition" else {}),
                )  # fmt: skip
                attack = started(CDA(options, world), world, received)
                found[name, form] = [ranking.scores for ranking in show(attack, world, received)]
    for name in ("dot", "gap"):
        for form in ("compiled", "stacked"):
            for plain, other in zip(found[name, "plain"], found[name, form], strict=True):
                np.testing.assert_allclose(other, plain, rtol=1e-4, atol=2e-5)
                assert np.isfinite(plain).any()
    for dot, gap in zip(found["dot", "compiled"], found["gap", "compiled"], strict=True):
        assert not np.allclose(dot, gap, equal_nan=True)
