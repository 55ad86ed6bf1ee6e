"""The assembly point: a scenario becomes data, graph, nodes, observers, engine, executor and log."""

from __future__ import annotations

from gossiprec.emulation.assembly.prepare import Prepared, prepare
from gossiprec.emulation.run.progress import Progress, Status
from gossiprec.emulation.run.replay import Replay, replay
from gossiprec.emulation.run.resume import resume
from gossiprec.emulation.run.simulate import simulate

__all__ = ["Prepared", "Progress", "Replay", "Status", "prepare", "replay", "resume", "simulate"]
