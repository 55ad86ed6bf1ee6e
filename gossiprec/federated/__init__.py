"""Federated recommenders: additions to the clients' loss, and to the coordinator's work between slices."""

from __future__ import annotations

from gossiprec.base.registry import Registry
from gossiprec.federated.base import CoordinatorContext, CoordinatorHook, Recommender
from gossiprec.old_names import forward

RECOMMENDERS: Registry[type[Recommender]] = Registry("recommender", __name__, group="recommenders")

__all__ = ["RECOMMENDERS", "CoordinatorContext", "CoordinatorHook", "Recommender"]

forward(__name__)
