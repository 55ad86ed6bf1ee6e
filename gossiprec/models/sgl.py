"""SGL: LightGCN that contrasts two views through graphs with removed edges.

References
----------
Wu et al., "Self-supervised graph learning for recommendation", SIGIR 2021; conventions of SELFRec: users and items
are contrasted as one set, and the removed edges are drawn once per epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from numpy.random import Generator
from pydantic import Field

from gossiprec.models import MODELS
from gossiprec.models.base.graph import Graphs, InteractionGraph
from gossiprec.models.base.parameter_blocks import TensorMap
from gossiprec.models.lightgcn import (
    ContrastiveLightGCN,
    ContrastOptions,
    mean_of_layers,
    propagate,
    stack_rows,
)

if TYPE_CHECKING:
    from torch import Tensor


class SGLOptions(ContrastOptions):
    """Options of SGL."""

    drop: float = Field(default=0.1, gt=0, lt=1)
    """fraction of the edges removed from a view"""


@MODELS.register("sgl")
class SGL(ContrastiveLightGCN):
    """LightGCN, and the InfoNCE of two views with removed edges."""

    Options = SGLOptions
    options: SGLOptions

    def draw_views(self, graph: InteractionGraph, draw: Generator) -> Graphs:
        """Return two graphs without some of the edges."""
        return [graph.drop_random_edges(self.options.drop, draw) for _ in range(2)]

    def encode_step(self, p: TensorMap, graph: InteractionGraph, views: Graphs, draw: Generator) -> TensorMap:
        """Return LightGCN's rows through the whole graph, and rows through each view."""
        rows = stack_rows(p)
        one, other = (mean_of_layers([rows, *propagate(rows, view, self.options.layers)]) for view in views)
        return {**super().encode_step(p, graph, views, draw), "one": one, "other": other}

    def contrast_groups(self, users: Tensor, items: Tensor) -> Sequence[Tensor]:
        """Return users and items as one group."""
        import torch

        return (torch.cat([users, items]),)
