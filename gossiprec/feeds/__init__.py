"""Feeds: the training samples of models, one feed per file. Each model names its feed."""

from __future__ import annotations

from gossiprec.feeds.base import Feed
from gossiprec.feeds.lists import ListFeed
from gossiprec.feeds.masked import MaskedFeed
from gossiprec.feeds.pairwise import PairwiseFeed
from gossiprec.feeds.pointwise import PointwiseFeed
from gossiprec.feeds.sequences import SequenceFeed
from gossiprec.feeds.transitions import TransitionFeed

__all__ = [
    "Feed",
    "ListFeed",
    "MaskedFeed",
    "PairwiseFeed",
    "PointwiseFeed",
    "SequenceFeed",
    "TransitionFeed",
]
