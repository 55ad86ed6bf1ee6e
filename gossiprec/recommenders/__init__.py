"""What a federated recommender adds: to the loss of its clients, and to what the coordinator does between slices."""

from __future__ import annotations

from gossiprec.recommenders.base import Recommender
from gossiprec.recommenders.coordinator_side import Between, Known
from gossiprec.registry import Registry

RECOMMENDERS: Registry[type[Recommender]] = Registry("recommender", __name__, group="recommenders")

__all__ = ["RECOMMENDERS", "Between", "Known", "Recommender"]
