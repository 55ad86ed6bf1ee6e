"""The check that trained models are finite: a local update that gives NaN or infinity ends the run."""

from __future__ import annotations

import numpy as np

from gossiprec.base.arrays import F64, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.compute.executors.base import Executor
from gossiprec.compute.plan.program import Program
from gossiprec.compute.plan.tape import Behaviour, Op, TapeEvent, TapeSegment


class NotFiniteError(ScenarioError):
    """A local update gave a model with NaN or infinite values.

    Parameters
    ----------
    node, update : int
        The node, and the number of the update among the node's, from 0.
    epochs : int
        Passes of a local update over the node's samples.
    time : float, optional
        Virtual time of the update.
    """

    def __init__(self, node: int, update: int, epochs: int, time: float | None = None) -> None:
        at = "" if time is None else f" at time {time:.6g}"
        super().__init__(
            f"node {node}: local update {update}{at} produced a model with NaN or infinite values after "
            f"epoch {(update + 1) * epochs}; lower training.learning_rate or the noise of a policy"
        )
        self.node, self.update, self.epochs, self.time = node, update, epochs, time

    def __reduce__(self) -> tuple[type[NotFiniteError], tuple[int, int, int, float | None]]:
        """Return the class and the arguments by which another process rebuilds the error."""
        return type(self), (self.node, self.update, self.epochs, self.time)

    def at(self, time: float) -> NotFiniteError:
        """Return the same error with the virtual time of the update."""
        return NotFiniteError(self.node, self.update, self.epochs, time)


class FiniteCheck:
    """The check of every model once, right after a local update has written it.

    Averages of finite models are finite, and the output of policies, poisoners and servers is checked on its own.

    Parameters
    ----------
    executor : Executor
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._found: list[I64] = []

    def note(self, program: Program, tasks: I64) -> None:
        """Check the models that some tasks have trained. May be called from several threads at once."""
        trained = tasks[program.update[tasks] >= 0]
        if len(trained):
            finite = self._executor.are_finite(
                program.target[trained].astype(np.int64), program.node[trained]
            )
            if not finite.all():
                self._found.append(trained[~finite])

    def refuse(self, program: Program) -> None:
        """Raise an error if a checked model is not finite, for the first such task of the program.

        Raises
        ------
        NotFiniteError
        """
        if self._found:
            task = int(np.concatenate(self._found).min())
            epochs = self._executor.work.training.local_epochs
            raise NotFiniteError(int(program.node[task]), int(program.update[task]), epochs)


def update_times(segment: TapeSegment, node: int, behaviour: Behaviour, *, inline: bool) -> F64:
    """Return the virtual times at which a node may have trained in a segment of tape, ascending.

    Parameters
    ----------
    segment : TapeSegment
    node : int
    behaviour : Behaviour
        The behaviour of the node.
    inline : bool
        Whether a message arrives the moment it is sent, and has no event of its own.
    """
    own, parts = segment.node == node, [np.zeros(0)]
    if Op.TRAIN in behaviour.on_wake:
        parts.append(segment.time[own & (segment.kind == TapeEvent.WAKE)])
    if Op.TRAIN in behaviour.on_receive:
        received = segment.time[own & (segment.kind == TapeEvent.DELIVER)]
        parts.append(segment.sent_at[segment.receiver == node] if inline else received)
    return np.sort(np.concatenate(parts))
