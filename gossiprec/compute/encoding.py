"""Rewriting what leaves, push by push: transforms write rows of their own, and executors know nothing of it."""

from __future__ import annotations

import numpy as np

from gossiprec.arrays import F32, I64
from gossiprec.compute.executors.base import Workload
from gossiprec.compute.messages import Outgoing, Payload, Push
from gossiprec.compute.plan.program import Program
from gossiprec.compute.store.keys import push_keys
from gossiprec.errors import ScenarioError
from gossiprec.models.base import Role


class Encoding:
    """Carries out the tasks that rewrite a version for a push.

    Such a task has nothing to merge or train: what its transforms make of the source is written to the target, which
    then is the source, too. Blocks that do not leave are zero there.

    Parameters
    ----------
    outgoing : Outgoing
    work : Workload
    """

    def __init__(self, outgoing: Outgoing, work: Workload) -> None:
        self._outgoing = outgoing
        self._work = work
        self._hides_user = outgoing.hides(Role.USER)

    def prepare(self, program: Program, tasks: I64) -> None:
        """Rewrite for the pushes among some tasks of one wave."""
        arena, seed = self._work.arena, self._work.seed
        for task in tasks[program.push[tasks] >= 0].tolist():
            only = np.array([task])
            row = self._encoded(program, task)
            arena.store(
                program.target[only], row[None], push_keys(program, only, seed) if arena.is_half else None
            )
            program.source[task] = program.target[task]

    def _encoded(self, program: Program, task: int) -> F32:
        node, base_row = int(program.node[task]), int(program.base[task])
        payload = self._leaving(program.source[task], node)
        push = Push(self._work.seed, node, int(program.push[task]), self._work.feed.positives[node])
        for name, transform in self._outgoing.rewriting(node):
            base = self._leaving(base_row, node) if base_row >= 0 else None
            shapes = [part.shape for part in payload.parts]
            payload = transform.encode(payload, base, push)
            _check(payload, shapes, name, push)
        row = np.zeros(self._work.layout.row_size, np.float32)
        begin = self._work.layout.items.start if payload.users is None else 0
        row[begin : self._work.layout.shared.stop] = np.concatenate([part.ravel() for part in payload.parts])
        return row

    def _leaving(self, row: int, node: int) -> Payload:
        values = self._work.arena.load(np.array([row]))[0]
        return Payload.of(values, self._work.layout, hides_user=bool(self._hides_user[node]))


def _check(payload: Payload, shapes: list[tuple[int, ...]], name: str, push: Push) -> None:
    """Refuse what is no payload of the node's model.

    Raises
    ------
    ScenarioError
        Naming the policy, the node and the push.
    """
    which = f"policies: {name}: push {push.number} of node {push.node}"
    found = [np.shape(part) for part in payload.parts]
    if found != shapes:
        raise ScenarioError(
            f"{which} was encoded in shapes {found}, must be {shapes}; a transform returns as many numbers as it is "
            "given, and says by `hides` what does not leave"
        )
    if not all(np.isfinite(part).all() for part in payload.parts):
        raise ScenarioError(
            f"{which} has numbers that are not finite; lower training.learning_rate if the model has diverged, else "
            "mend the policy's transform"
        )
