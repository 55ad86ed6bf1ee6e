"""Feeds: the training samples of models, one feed per file. Each model names its feed."""

from __future__ import annotations

from gossiprec.models.feeds.base import Feed
from gossiprec.models.feeds.items import PairwiseFeed, PointwiseFeed
from gossiprec.models.feeds.sequences import ListFeed, MaskedFeed, SequenceFeed, TransitionFeed

__all__ = [
    "Feed",
    "ListFeed",
    "MaskedFeed",
    "PairwiseFeed",
    "PointwiseFeed",
    "SequenceFeed",
    "TransitionFeed",
]
