"""The reference executor, a plain oracle: one set of tensors and one optimizer per node, task by task."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gossiprec.base.arrays import F32, I64
from gossiprec.compute.executors import EXECUTORS
from gossiprec.compute.executors.base import Executor, ExecutorContext
from gossiprec.compute.executors.tensors import (
    Tensors,
    batch_items,
    constants_to_tensors,
    loss_of_terms,
    make_optimizer,
    table_views,
    to_tensor,
)
from gossiprec.compute.local_update import TrainingSettings, dp_noise_row
from gossiprec.compute.plan.program import Program
from gossiprec.compute.store.arena import merge_keys, update_keys
from gossiprec.models.base.kernel_interface import ScoreQuery
from gossiprec.models.base.parameter_blocks import BlockRole
from gossiprec.numerics.torch_setup import single_torch_thread


@EXECUTORS.register("reference")
class ReferenceExecutor(Executor):
    """The executor with one ``torch.optim`` optimizer per node, made when the node first trains.

    Parameters
    ----------
    work : ExecutorContext
    device : str
        Ignored: the reference computes on the CPU.
    """

    name = "reference"

    def __init__(self, work: ExecutorContext, device: str = "auto") -> None:
        super().__init__(work, device)
        self._learners: dict[int, _Learner] = {}

    def run(self, program: Program, tasks: I64) -> None:
        """Run `tasks` of one wave, one after the other."""
        arena, seed = self.work.arena, self.work.seed
        self.resolve_performance_weights(program, tasks)
        with single_torch_thread():
            for task in tasks.tolist():
                only = np.array([task])
                target = program.target[only]
                row = arena.load(program.source[only])
                self._merge(row[0], program, task)
                arena.store(target, row, merge_keys(program, only, seed) if arena.is_half else None)
                if program.update[task] >= 0 and not program.refused[task]:
                    row = arena.load(target)
                    self._learner(int(program.node[task])).train(row[0], int(program.update[task]))
                    arena.store(target, row, update_keys(program, only, seed) if arena.is_half else None)

    def use_training(self, training: TrainingSettings) -> None:
        """Train with other numbers; optimizers are made again, and their moments are in the arena."""
        super().use_training(training)
        self._learners.clear()

    def score(self, query: ScoreQuery) -> F32:
        """Return predicted scores, query by query."""
        out = np.empty(len(query.items), np.float32)
        layout, known = query.layout, constants_to_tensors(self.constants_of(query))
        query_columns = {"items": query.items, **query.contexts}
        with torch.no_grad(), single_torch_thread():
            for q, (row, user) in enumerate(zip(query.row, query.user, strict=True)):
                some = slice(query.offsets[q], query.offsets[q + 1])
                own = torch.from_numpy(query.rows[row].astype(np.float32))
                wanted = {name: to_tensor(column[some]) for name, column in query_columns.items()}
                wanted["user"] = torch.tensor([user])
                wanted |= {name: to_tensor(column[q]) for name, column in query.histories.items()}
                out[some] = self.work.model.score(
                    layout.blocks_by_name(table_views(layout, own)) | known, wanted
                ).numpy()
        return out

    def _merge(self, row: F32, program: Program, task: int) -> None:
        own = row[self.work.layout.merged]
        for entry in range(program.merge_offsets[task], program.merge_offsets[task + 1]):
            received = self.work.arena.rows[program.merge_row[entry], self.work.layout.merged].astype(
                np.float32
            )
            keep = program.merge_keep[entry]
            own[:] = received if keep == 0 else keep * own + (1 - keep) * received

    def _learner(self, node: int) -> _Learner:
        if node not in self._learners:
            self._learners[node] = _Learner(self.work, node)
        return self._learners[node]


class _Learner:
    """A node's tensors and optimizer; the optimizer's moments are views of the arena's rows."""

    def __init__(self, work: ExecutorContext, node: int) -> None:
        self._work = work
        self._node = node
        self._tables = {
            name: torch.nn.Parameter(torch.zeros(shape)) for name, shape in work.layout.tables.items()
        }
        self._constants = constants_to_tensors(work.model.constants)
        self._extras = constants_to_tensors(work.extras)
        self._drawn: Tensors = {}
        self._user = torch.from_numpy(work.layout.user_index(np.array([node])))
        arena = work.arena
        own = {"users", *(block.name for block in work.layout.blocks_of_role(BlockRole.PRIVATE))}
        steps = {
            name: 0.0 if arena.fresh_moments and name not in own else arena.steps[node]
            for name in self._tables
        }
        owned = int(arena.moment_rows(np.array([node]))[0])
        self._optimizer = make_optimizer(work, self._tables, owned, steps, foreach=False)
        node_settings = work.node_settings
        self._terms = node_settings.terms_of(node)
        self._clip_norm = float(node_settings.clip_norm[node])
        self._noise_multiplier = float(node_settings.noise_multiplier[node])

    def train(self, row: F32, update: int) -> None:
        """Run one local update on `row`, in place."""
        for name, view in table_views(self._work.layout, torch.from_numpy(row)).items():
            self._tables[name].data = view
        start = self._tables["items"].detach().clone() if self._terms else None
        work = self._work
        for samples, drawn in work.iter_step_inputs(self._node, update):
            self._drawn = {name: to_tensor(one) for name, one in drawn.items()}
            self._step({name: to_tensor(column) for name, column in samples.items()}, start)

    def _step(self, batch: Tensors, start: Tensor | None) -> None:
        self._optimizer.zero_grad()
        if self._clip_norm:
            self._noisy_gradient(batch)
        else:
            torch.autograd.backward(self._loss(batch))
        if start is not None:
            touched = self._touched(batch)
            torch.autograd.backward(loss_of_terms(self._terms, self._tables["items"], start, touched))
        self._optimizer.step()
        self._work.arena.steps[self._node] += 1

    def _touched(self, batch: Tensors) -> Tensor:
        """Return the items that a step moves: the items of the batch, or all items with noise."""
        if self._clip_norm:
            return torch.arange(self._work.layout.n_items)
        return batch_items(self._work.feed, batch)

    def _loss(self, batch: Tensors) -> Tensor:
        weights = torch.ones(len(next(iter(batch.values()))))
        batch = {**batch, "user": self._user, "weights": weights}
        p = self._work.encoded_model(self._work.layout.blocks_by_name(self._tables) | self._constants, batch)
        if self._work.recommender is None:
            return self._work.model.loss(p, batch)
        return self._work.recommender.loss(p, {**batch, **self._drawn}, self._extras)

    def _noisy_gradient(self, batch: Tensors) -> None:
        """Set the gradient of DP-SGD: clip sample by sample, add noise, and take the mean."""
        work, parameters = self._work, list(self._tables.values())
        total, n_samples = torch.zeros(work.layout.size), len(next(iter(batch.values())))
        for sample in range(n_samples):
            single = {name: column[sample : sample + 1] for name, column in batch.items()}
            parts = torch.autograd.grad(self._loss(single), parameters)
            gradient = torch.cat([part.flatten() for part in parts])
            total += gradient * min(1.0, self._clip_norm / (float(gradient.norm()) + 1e-6))
        if self._noise_multiplier:
            noise = dp_noise_row(work.layout, work.seed, self._node, int(work.arena.steps[self._node]))
            total += self._noise_multiplier * self._clip_norm * torch.from_numpy(noise)
        total /= n_samples
        for name, part in table_views(work.layout, total).items():
            self._tables[name].grad = part.clone()
