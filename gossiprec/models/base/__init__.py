"""The base of models: parameters by role, a formula in torch, and an optional compiled form."""

from __future__ import annotations

from gossiprec.models.base.model import Model
from gossiprec.models.base.parameter_blocks import BlockRole, Layout, ParameterBlock
from gossiprec.old_names import forward

__all__ = ["BlockRole", "Layout", "Model", "ParameterBlock"]

forward(__name__)
