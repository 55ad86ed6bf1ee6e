"""The kinds of things that a scenario, or ``--track``, can name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from gossiprec.base.errors import ScenarioError, suggestion
from gossiprec.base.registry import Registry

KINDS = {
    "datasets": "gossiprec.data:DATASETS",
    "splits": "gossiprec.data:SPLITS",
    "models": "gossiprec.models:MODELS",
    "recommenders": "gossiprec.federated:RECOMMENDERS",
    "similarities": "gossiprec.rules.similarities:SIMILARITIES",
    "protocols": "gossiprec.network.protocols:PROTOCOLS",
    "samplings": "gossiprec.network.overlay:SAMPLINGS",
    "topologies": "gossiprec.network.graphs:FAMILIES",
    "aggregators": "gossiprec.rules.aggregators:AGGREGATORS",
    "servers": "gossiprec.rules.servers:SERVERS",
    "policies": "gossiprec.defences:POLICIES",
    "attacks": "gossiprec.adversaries.attacks:ATTACKS",
    "poisoners": "gossiprec.adversaries.poisoners:POISONERS",
    "measures": "gossiprec.measures:MEASURES",
    "trackers": "gossiprec.trackers:TRACKERS",
}
"""Location of the registry of each kind; a kind is named after its registry's group."""


def get_registry(kind: str) -> Registry[Any]:
    """Return the registry of a kind, imported on first use.

    Raises
    ------
    ScenarioError
        If there is no such kind; the message names the nearest name.
    """
    if kind not in KINDS:
        known = [*KINDS, "scenarios", "studies"]  # these are files: gossiprec.scenario.bundled
        raise ScenarioError(f"unknown kind {kind!r}; known: {', '.join(known)}{suggestion(kind, known)}")
    module, _, name = KINDS[kind].partition(":")
    return cast("Registry[Any]", getattr(importlib.import_module(module), name))


def _installed(kind: str) -> Callable[[], Registry[Any]]:
    return lambda: get_registry(kind)


@dataclass(frozen=True)
class Registries:
    """One registry for each kind that has a section: gossiprec's own, unless a test replaces them."""

    datasets: Registry[Any] = field(default_factory=_installed("datasets"))
    splits: Registry[Any] = field(default_factory=_installed("splits"))
    models: Registry[Any] = field(default_factory=_installed("models"))
    recommenders: Registry[Any] = field(default_factory=_installed("recommenders"))
    protocols: Registry[Any] = field(default_factory=_installed("protocols"))
    attacks: Registry[Any] = field(default_factory=_installed("attacks"))
    policies: Registry[Any] = field(default_factory=_installed("policies"))
    poisoners: Registry[Any] = field(default_factory=_installed("poisoners"))
