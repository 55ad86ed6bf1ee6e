"""XSimGCL: LightGCN with noise on every layer that contrasts its mean with one of the layers.

References
----------
Yu et al., "XSimGCL: towards extremely simple graph contrastive learning for recommendation", TKDE 2023; conventions
of SELFRec: no mean includes layer 0.
"""

from __future__ import annotations

from numpy.random import Generator
from pydantic import Field, model_validator

from gossiprec.models import MODELS
from gossiprec.models.base.contrastive import make_layer_noise
from gossiprec.models.base.graph import Graphs, InteractionGraph
from gossiprec.models.base.parameter_blocks import TensorMap
from gossiprec.models.lightgcn import ContrastiveLightGCN, ContrastOptions, propagate, stack_rows


class XSimGCLOptions(ContrastOptions):
    """Options of XSimGCL."""

    weight: float = Field(default=0.2, gt=0)
    """lambda, weight of the contrastive loss"""
    temperature: float = Field(default=0.15, gt=0)
    """tau"""
    noise: float = Field(default=0.2, gt=0)
    """epsilon, norm of the noise on a row of a layer"""
    contrasted_layer: int = Field(default=1, ge=1)
    """l*, the layer with which the mean is contrasted"""

    @model_validator(mode="after")
    def _has_that_layer(self) -> XSimGCLOptions:
        if self.contrasted_layer > self.layers:
            raise ValueError(
                f"contrasted_layer: found {self.contrasted_layer}, but there are {self.layers} layers; lower it, or "
                "raise layers"
            )
        return self


@MODELS.register("xsimgcl")
class XSimGCL(ContrastiveLightGCN):
    """LightGCN without layer 0, trained on noisy rows, plus the InfoNCE of these rows and one of their layers."""

    Options = XSimGCLOptions
    options: XSimGCLOptions
    first_layer = 1

    def encode_step(self, p: TensorMap, graph: InteractionGraph, views: Graphs, draw: Generator) -> TensorMap:
        """Return the noisy rows as one view, and the layer as the other."""
        options, rows = self.options, stack_rows(p)
        layers = [rows, *propagate(rows, graph, options.layers, make_layer_noise(options.noise, draw))]
        found = self.combine_layers(p, layers, graph)
        one, other = stack_rows(found), layers[options.contrasted_layer]
        return {**self.with_ego_rows(p, found), "one": one, "other": other}
