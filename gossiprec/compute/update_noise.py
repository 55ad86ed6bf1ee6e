"""Clipping and noise of whole local updates (DP-SGD with the unit `user`), around any executor.

References
----------
H. B. McMahan, D. Ramage, K. Talwar, L. Zhang, "Learning differentially private recurrent language models", ICLR 2018
(DP-FedAvg): there the server adds the noise, here each node does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gossiprec.base.arrays import I64
from gossiprec.compute.executors.base import Executor
from gossiprec.compute.local_update import dp_noise_row
from gossiprec.compute.plan.program import Program
from gossiprec.compute.store.arena import update_keys

RunTasks = Callable[[Program, I64], None]
TINY = 1e-6
"""Added to a norm before dividing by it: no clipped norm exceeds the bound."""


def run_with_noise(executor: Executor) -> RunTasks:
    """Return the function that runs tasks: the executor's own if no node hides its whole local updates."""
    settings = executor.work.node_settings
    return NoisyUpdates(executor).run if (settings.update_clip > 0).any() else executor.run


class NoisyUpdates:
    """A runner of tasks that scales down and perturbs the local updates of some nodes.

    Merging and training are two calls of the executor, so that the model between them is known. May be called from
    several threads at once, on different tasks.

    Parameters
    ----------
    executor : Executor
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        empty = Program.empty()
        self._parts: tuple[Program, Program, Program] = (empty, empty, empty)

    def run(self, program: Program, tasks: I64) -> None:
        """Run tasks of one wave."""
        settings = self._executor.work.node_settings
        hides = (program.update[tasks] >= 0) & (settings.update_clip[program.node[tasks]] > 0)
        if not hides.all():
            self._executor.run(program, tasks[~hides])
        if hides.any():
            self._run_noisy(program, tasks[hides])

    def _run_noisy(self, program: Program, tasks: I64) -> None:
        store, work = self._executor.work.arena, self._executor.work
        merging, training = self._split(program)
        target = program.target[tasks]
        self._executor.run(merging, tasks)
        before = store.load(target)
        self._executor.run(training, tasks)
        after = store.load(target)
        size = work.layout.size
        for row, start, task in zip(after, before, tasks.tolist(), strict=True):
            node = int(program.node[task])
            clip = float(work.node_settings.update_clip[node])
            move = row[:size].astype(np.float64) - start[:size]
            move *= min(1.0, clip / (float(np.linalg.norm(move)) + TINY))
            noise = dp_noise_row(work.layout, work.seed, node, int(program.update[task]))
            deviation = clip * float(work.node_settings.update_noise[node])
            row[:size] = start[:size] + move + deviation * noise.astype(np.float64)
        keys = update_keys(program, tasks, work.seed) if store.is_half else None
        store.store(target, after, keys)

    def _split(self, program: Program) -> tuple[Program, Program]:
        """Return the program without updates, and without merges; several threads may make them twice."""
        known, merging, training = self._parts
        if known is not program:
            merging = replace(program, update=np.full_like(program.update, -1))
            training = replace(
                program, source=program.target, merge_offsets=np.zeros_like(program.merge_offsets)
            )
            self._parts = (program, merging, training)
        return merging, training
