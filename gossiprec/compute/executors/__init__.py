"""Executors, one per file: they run the same operations with the same results at different speeds."""

from __future__ import annotations

from gossiprec.base.registry import Registry
from gossiprec.compute.executors.base import Executor, ExecutorContext

EXECUTORS: Registry[type[Executor]] = Registry("executor", __name__)

__all__ = ["EXECUTORS", "Executor", "ExecutorContext"]
