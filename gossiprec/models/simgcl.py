"""SimGCL: LightGCN that contrasts two views with noise on every layer.

References
----------
Yu et al., "Are graph augmentations necessary? Simple graph contrastive learning for recommendation", SIGIR 2022;
conventions of SELFRec: no mean includes layer 0. For clients without a graph there is a recommender of this name.
"""

from __future__ import annotations

from numpy.random import Generator
from pydantic import Field

from gossiprec.models import MODELS
from gossiprec.models.base.contrastive import make_layer_noise
from gossiprec.models.base.graph import Graphs, InteractionGraph
from gossiprec.models.base.parameter_blocks import TensorMap
from gossiprec.models.lightgcn import (
    ContrastiveLightGCN,
    ContrastOptions,
    mean_of_layers,
    propagate_from,
    stack_rows,
)


class SimGCLOptions(ContrastOptions):
    """Options of SimGCL."""

    weight: float = Field(default=0.5, gt=0)
    """lambda, weight of the contrastive loss"""
    noise: float = Field(default=0.1, gt=0)
    """epsilon, norm of the noise on a row of a layer"""


@MODELS.register("simgcl")
class SimGCL(ContrastiveLightGCN):
    """LightGCN without layer 0, and the InfoNCE of two noisy views."""

    Options = SimGCLOptions
    options: SimGCLOptions
    first_layer = 1

    def encode_step(self, p: TensorMap, graph: InteractionGraph, views: Graphs, draw: Generator) -> TensorMap:
        """Return the rows without noise, and two noisy views; their first layers share one product."""
        options, rows = self.options, stack_rows(p)
        first = graph.propagate(rows)
        plain = self.combine_layers(p, [rows, *propagate_from(first, graph, options.layers)], graph)
        change = make_layer_noise(options.noise, draw)
        one, other = (mean_of_layers(propagate_from(first, graph, options.layers, change)) for _ in range(2))
        return {**self.with_ego_rows(p, plain), "one": one, "other": other}
