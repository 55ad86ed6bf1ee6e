"""Recommendation models: one file, or one folder with compiled kernels, per registered name."""

from __future__ import annotations

from gossiprec.base.registry import Registry
from gossiprec.models.base import Model
from gossiprec.models.base.parameter_blocks import BlockRole, Layout, ParameterBlock

MODELS: Registry[type[Model]] = Registry("model", __name__, group="models")

__all__ = ["MODELS", "BlockRole", "Layout", "Model", "ParameterBlock"]
