"""The assembly point: a scenario becomes data, graph, nodes, observers, engine, executor and log."""

from __future__ import annotations

from gossiprec.emulation.prepare import Prepared, prepare
from gossiprec.emulation.progress import Progress, Status
from gossiprec.emulation.replay import Replay, replay
from gossiprec.emulation.resume import resume
from gossiprec.emulation.simulate import simulate

__all__ = ["Prepared", "Progress", "Replay", "Status", "prepare", "replay", "resume", "simulate"]
