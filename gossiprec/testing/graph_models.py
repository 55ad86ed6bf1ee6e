"""Claims about models that encode over the graph of interactions, by themselves and in a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from gossiprec.compute.executors.tensors import Tensors, to_tensor
from gossiprec.models.base.graph import GraphModel, InteractionGraph
from gossiprec.models.feeds import Feed
from gossiprec.testing.model_formula import SEED, ModelCase


@dataclass(frozen=True)
class GraphModelCase:
    """A graph model on small data, with a node that holds all users' rows."""

    case: ModelCase
    model: GraphModel

    @cached_property
    def feed(self) -> Feed:
        """The interactions of all users."""
        return self.case.feed

    @cached_property
    def graph(self) -> InteractionGraph:
        """The graph of all users' interactions."""
        return InteractionGraph.of(self.feed.positives, self.case.layout.n_items)

    @cached_property
    def p(self) -> Tensors:
        """The blocks of a random version."""
        return self.case.p(self.case.row)

    @cached_property
    def batch(self) -> Tensors:
        """The samples of all users."""
        columns = self.feed.samples_of_all(update=0, negatives=1, seed=SEED)
        batch = {name: to_tensor(column) for name, column in columns.items()}
        return {**batch, "weights": torch.ones(len(batch["user"]), dtype=torch.float64)}

    def encoded(self, graph: InteractionGraph, p: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the encoded rows of users and of items."""
        found = self.model.encode(p, graph)
        return found["users"], found["items"]

    def step(self, epoch: int = 0) -> Tensor:
        """Return the gradient of a training step with respect to the rows of users."""
        users = self.p["users"].detach().clone().requires_grad_()
        draw = np.random.default_rng(epoch)
        views = self.model.views(self.graph, draw)
        p = self.model.encode_step({**self.p, "users": users}, self.graph, views, draw)
        (slopes,) = torch.autograd.grad(self.model.loss(p, self.batch), users)
        return slopes


def encoding_keeps_shapes_and_what_it_is_given(through: GraphModelCase) -> None:
    """Encode to finite rows of the same shapes, and change nothing that it is handed."""
    before = {name: part.clone() for name, part in through.p.items()}
    for found, name in zip(through.encoded(through.graph, through.p), ("users", "items"), strict=True):
        assert found.shape == before[name].shape, f"Found {name} of shape {tuple(found.shape)}."
        assert found.isfinite().all(), f"Found {name} that are not finite."
    assert all(torch.equal(through.p[name], part) for name, part in before.items()), "It changes its input."


def encoding_looks_through_the_graph(through: GraphModelCase) -> None:
    """Encode otherwise without some edges, and to finite rows without any."""
    users, _ = through.encoded(through.graph, through.p)
    less, _ = through.encoded(through.graph.without(0.5, np.random.default_rng(0)), through.p)
    assert not torch.equal(users, less), "Half of the edges change nothing."
    none = np.zeros(0, np.int64)
    alone = through.encoded(replace(through.graph, users=none, items=none), through.p)
    assert all(rows.isfinite().all() for rows in alone), "Rows without an edge are not finite."


def numbers_of_items_have_no_meaning(through: GraphModelCase) -> None:
    """Encode equally, but for rounding, if items have other numbers."""
    number = np.random.default_rng(1).permutation(through.graph.n_items)
    other = replace(through.graph, items=number[through.graph.items])
    back = torch.from_numpy(number)
    shuffled = torch.empty_like(through.p["items"])
    shuffled[back] = through.p["items"]
    users, items = through.encoded(through.graph, through.p)
    found = through.encoded(other, {**through.p, "items": shuffled})
    torch.testing.assert_close(found[0], users, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(found[1][back], items, rtol=1e-6, atol=1e-6)


def a_step_follows_from_its_draws(through: GraphModelCase) -> None:
    """Have a finite gradient that is byte-identical for the same draws, and reaches users through the graph."""
    slopes = through.step()
    assert slopes.isfinite().all(), "Found a gradient that is not finite."
    assert slopes.any(1).all(), "Rows of some users are not trained."
    assert torch.equal(through.step(), slopes), "The same draws give another gradient."


CLAIMS = (
    encoding_keeps_shapes_and_what_it_is_given,
    encoding_looks_through_the_graph,
    numbers_of_items_have_no_meaning,
    a_step_follows_from_its_draws,
)
