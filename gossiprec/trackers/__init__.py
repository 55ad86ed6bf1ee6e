"""Trackers: programs that show the curves of a run in progress, one file each."""

from __future__ import annotations

from gossiprec.base.registry import Registry
from gossiprec.trackers.base import Tracker

TRACKERS: Registry[type[Tracker]] = Registry("tracker", __name__, group="trackers")

__all__ = ["TRACKERS", "Tracker"]
