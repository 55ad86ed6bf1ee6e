"""The compiled executor: one loop per node, several nodes at a time.

Models with kernels: GMF, and PRME-G under SGD. Another model is one more file of kernels here and one more line in
``KERNELS``.
"""

from __future__ import annotations

from gossiprec.compute.executors.fused.executor import FusedExecutor

__all__ = ["FusedExecutor"]
