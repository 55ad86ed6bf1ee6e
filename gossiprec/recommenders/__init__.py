"""Federated recommenders: additions to the clients' loss, and to the coordinator's work between slices."""

from __future__ import annotations

from gossiprec.old_names import forward
from gossiprec.recommenders.base import Recommender
from gossiprec.recommenders.coordinator_hook import CoordinatorContext, CoordinatorHook
from gossiprec.registry import Registry

RECOMMENDERS: Registry[type[Recommender]] = Registry("recommender", __name__, group="recommenders")

__all__ = ["RECOMMENDERS", "CoordinatorContext", "CoordinatorHook", "Recommender"]

forward(__name__)
