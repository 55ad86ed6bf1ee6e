"""The kinds of things a scenario can name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from gossiprec.registry import Registry


def _installed(module: str, name: str) -> Callable[[], Registry[Any]]:
    """Return a function that imports a registry when it is first wanted."""
    return lambda: cast("Registry[Any]", getattr(importlib.import_module(module), name))


@dataclass(frozen=True)
class Registries:
    """One registry for each kind; those of gossiprec unless a test brings its own."""

    datasets: Registry[Any] = field(default_factory=_installed("gossiprec.data", "DATASETS"))
    splits: Registry[Any] = field(default_factory=_installed("gossiprec.data", "SPLITS"))
    models: Registry[Any] = field(default_factory=_installed("gossiprec.models", "MODELS"))
    protocols: Registry[Any] = field(default_factory=_installed("gossiprec.protocols", "PROTOCOLS"))
    attacks: Registry[Any] = field(default_factory=_installed("gossiprec.attacks", "ATTACKS"))
    policies: Registry[Any] = field(default_factory=_installed("gossiprec.policies", "POLICIES"))
