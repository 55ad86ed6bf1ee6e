"""What every model is made of: parameters by role, a formula in torch, and perhaps a compiled form."""

from __future__ import annotations

from gossiprec.models.base.blocks import Block, Layout, Role
from gossiprec.models.base.model import Model

__all__ = ["Block", "Layout", "Model", "Role"]
