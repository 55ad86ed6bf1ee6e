"""Feeds: the training samples of models, one feed per file. Each model names its feed."""

from __future__ import annotations

from gossiprec.models.feeds.attributes import AttributedFeed, features_of, require_labels
from gossiprec.models.feeds.base import Feed, PairwiseFeed, PointwiseFeed
from gossiprec.models.feeds.sequences import ListFeed, MaskedFeed, SequenceFeed, SetFeed, TransitionFeed

__all__ = [
    "AttributedFeed",
    "Feed",
    "ListFeed",
    "MaskedFeed",
    "PairwiseFeed",
    "PointwiseFeed",
    "SequenceFeed",
    "SetFeed",
    "TransitionFeed",
    "features_of",
    "require_labels",
]
