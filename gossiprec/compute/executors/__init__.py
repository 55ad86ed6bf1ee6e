"""Executors: the same operations, the same results, at different speeds. One file each."""

from __future__ import annotations

from gossiprec.compute.executors.base import Executor, ExecutorContext
from gossiprec.registry import Registry

EXECUTORS: Registry[type[Executor]] = Registry("executor", __name__)

__all__ = ["EXECUTORS", "Executor", "ExecutorContext"]
