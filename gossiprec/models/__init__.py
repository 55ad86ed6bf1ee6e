"""Recommendation models: one file each, registered under the name that scenarios use."""

from __future__ import annotations

from gossiprec.models.base import Layout, Model
from gossiprec.registry import Registry

MODELS: Registry[type[Model]] = Registry("model", __name__, group="models")

__all__ = ["MODELS", "Layout", "Model"]
