"""The interface of an executor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from gossiprec.compute.appraisal import Candidates, performance, weight_kept
from gossiprec.compute.arena import Arena
from gossiprec.compute.program import Program
from gossiprec.compute.training import LocalData, TrainingSettings
from gossiprec.compute.treatment import Treatment
from gossiprec.models.base import Layout, Model

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Workload:
    """What every executor works on; constant for a run."""

    model: Model
    layout: Layout
    training: TrainingSettings
    data: LocalData
    arena: Arena
    seed: int
    treatment: Treatment
    candidates: Candidates | None = None
    """For merging by performance; None: the protocol never asks for it."""


class Executor(ABC):
    """Runs independent tasks on the arena, and scores items.

    Parameters
    ----------
    work : Workload
    device : str
        Where torch computes: ``auto`` (CUDA if torch sees one), ``cpu`` or ``cuda``. Compiled kernels use the CPU.
    """

    name: ClassVar[str]
    """The name it is registered under."""

    parallel: ClassVar[bool] = False
    """Whether several threads may call :meth:`run` at once, on different tasks of one wave."""

    def __init__(self, work: Workload, device: str = "auto") -> None:
        self.work = work
        self.device = device

    @classmethod
    def supports(cls, model: Model, treatment: Treatment | None = None) -> bool:
        """Return whether the executor can run this model, on nodes treated like that."""
        return True

    def warm_up(self) -> None:  # noqa: B027 (most executors have nothing to warm up)
        """Do once what takes long before the first task; a compiled executor compiles."""

    @abstractmethod
    def run(self, program: Program, tasks: I64) -> None:
        """Run `tasks` (indices into the program) of one wave, in the given order."""

    def appraised(self, program: Program, task: int, entry: int) -> np.float32:
        """Return the weight that the own version keeps in a merge by performance, and note what was found."""
        work, node = self.work, int(program.node[task])
        assert work.candidates is not None
        lists = work.candidates.of(node)
        if not len(lists):
            return np.float32(0.5)
        versions = work.arena.rows[[program.target[task], program.merge_row[entry]]]
        if work.layout.n_users == 1:
            versions[1, work.layout.users] = versions[0, work.layout.users]
        user = work.layout.user_index(np.array([node, node]))
        offsets, items = np.array([0, lists.size, 2 * lists.size]), np.tile(lists.ravel(), 2)
        scores = self.scores(work.layout, versions, np.arange(2), user, offsets, items)
        own, received = (performance(part) for part in scores.reshape(2, *lists.shape))
        program.found[entry] = received
        program.refused[task] = own + received == 0
        return weight_kept(own, received)

    @abstractmethod
    def scores(self, layout: Layout, rows: F32, row: I64, user: I64, offsets: I64, items: I32) -> F32:
        """Return predicted scores as logits (GMF: the argument of its sigmoid): they rank alike and do not saturate.

        Parameters
        ----------
        layout : Layout
            Of `rows`; it may hold fewer items than the run's, as the models that observers keep do.
        rows : ndarray of float32, shape (n_rows, row_size)
            Model versions.
        row, user : ndarray of int64, shape (n_queries,)
            Query q uses version ``rows[row[q]]`` and row ``user[q]`` of its user table.
        offsets : ndarray of int64, shape (n_queries + 1,)
        items : ndarray of int32, shape (offsets[-1],)
            Query q scores ``items[offsets[q]:offsets[q + 1]]``.

        Returns
        -------
        ndarray of float32, shape (offsets[-1],)
        """
