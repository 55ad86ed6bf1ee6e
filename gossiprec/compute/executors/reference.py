"""The oracle: one torch module and one optimizer per node, one task at a time, nothing clever."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from gossiprec.arrays import F32, I32, I64
from gossiprec.compute.executors import EXECUTORS
from gossiprec.compute.executors.base import Executor, Workload
from gossiprec.compute.plan.program import Program
from gossiprec.compute.store.keys import merge_keys, update_keys
from gossiprec.compute.train.local_update import draw_order, draw_samples
from gossiprec.compute.train.noise import noise_row
from gossiprec.models.base import Layout


@EXECUTORS.register("reference")
class ReferenceExecutor(Executor):
    """One ``torch.nn.Module`` and one ``torch.optim`` optimizer per node, made when the node first trains.

    Parameters
    ----------
    work : Workload
    device : str
        Ignored: the reference computes on the CPU.
    """

    name = "reference"

    def __init__(self, work: Workload, device: str = "auto") -> None:
        super().__init__(work, device)
        self._learners: dict[int, _Learner] = {}

    def run(self, program: Program, tasks: I64) -> None:
        """Run `tasks` of one wave, one after the other."""
        arena, seed = self.work.arena, self.work.seed
        self.appraise(program, tasks)
        with one_torch_thread():
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

    def scores(
        self,
        layout: Layout,
        rows: F32,
        row: I64,
        user: I64,
        offsets: I64,
        items: I32,
        contexts: I32 | None = None,
        places: F32 | None = None,
    ) -> F32:
        """Return predicted scores, one query at a time (see the base class)."""
        out = np.empty(len(items), np.float32)
        model = self.work.model if places is None else self.work.model.with_places(places)
        module = model.module(layout)
        with torch.no_grad(), one_torch_thread():
            for query in range(len(row)):
                asked = slice(offsets[query], offsets[query + 1])
                _load(module, rows[row[query]].astype(np.float32))
                known = [contexts] if contexts is not None and model.trains_on_moves else []
                where = [torch.from_numpy(part[asked]).long() for part in (items, *known)]
                logits = module(torch.tensor([user[query]]), *where)
                out[asked] = logits.numpy()
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
    """A node's module and optimizer; the optimizer's moments are views of the arena's rows."""

    def __init__(self, work: Workload, node: int) -> None:
        self._work = work
        self._node = node
        self._module = work.model.module(work.layout)
        self._parameters = list(self._module.parameters())
        self._tables = [
            p for p, own in zip(self._parameters, hold_items(self._module, work.layout), strict=True) if own
        ]
        self._user = torch.from_numpy(work.layout.user_index(np.array([node])))
        self._optimizer = self._make_optimizer()
        node_settings = work.node_settings
        self._drift_penalty = float(node_settings.drift_penalty[node])
        self._clip_norm = float(node_settings.clip_norm[node])
        self._noise_multiplier = float(node_settings.noise_multiplier[node])

    def train(self, row: F32, update: int) -> None:
        """Run one local update on `row`, in place."""
        _load(self._module, row)
        start = [table.detach().clone() for table in self._tables] if self._drift_penalty else []
        for items, labels in local_batches(self._work, self._node, update):
            self._step(torch.from_numpy(items).long(), torch.from_numpy(labels), start)

    def _step(self, items: torch.Tensor, labels: torch.Tensor, start: list[torch.Tensor]) -> None:
        self._optimizer.zero_grad()
        if self._clip_norm:
            self._noisy_gradient(items, labels)
            touched = torch.arange(self._work.layout.n_items)
        else:
            torch.autograd.backward(self._loss(items, labels))
            touched = items[items >= 0].flatten()  # -1: no item
            touched = torch.from_numpy(np.unique(touched.numpy()))
        for table, before in zip(self._tables, start, strict=False):
            drift = (table[touched] - before[touched]).square().sum()
            torch.autograd.backward(self._drift_penalty * drift)
        self._optimizer.step()
        self._work.arena.steps[self._node] += 1

    def _loss(self, items: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self._work.model.batch_loss(self._module, self._user, items, labels, torch.ones_like(labels))

    def _noisy_gradient(self, items: torch.Tensor, labels: torch.Tensor) -> None:
        """Set the gradient of DP-SGD: one sample after the other, clipped; then noise; then the mean."""
        work, parameters = self._work, self._parameters
        total = torch.zeros(work.layout.size)
        for sample in range(len(items)):
            alone = slice(sample, sample + 1)
            parts = torch.autograd.grad(self._loss(items[alone], labels[alone]), parameters)
            gradient = torch.cat([part.flatten() for part in parts])
            total += gradient * min(1.0, self._clip_norm / (float(gradient.norm()) + 1e-6))
        if self._noise_multiplier:
            noise = noise_row(work.layout, work.seed, self._node, int(work.arena.steps[self._node]))
            total += self._noise_multiplier * self._clip_norm * torch.from_numpy(noise)
        total /= len(items)
        sizes = [parameter.numel() for parameter in parameters]
        for parameter, part in zip(parameters, torch.split(total, sizes), strict=True):
            parameter.grad = part.view_as(parameter).clone()

    def _make_optimizer(self) -> torch.optim.Optimizer:
        training, arena = self._work.training, self._work.arena
        if training.optimizer == "sgd":
            return torch.optim.SGD(self._module.parameters(), lr=training.learning_rate, foreach=False)
        adam = torch.optim.Adam(
            self._module.parameters(),
            lr=training.learning_rate,
            betas=(training.beta1, training.beta2),
            eps=training.epsilon,
            foreach=False,
        )
        moments = zip(
            self._module.parameters(),
            _views(self._module, arena.first[self._node]),
            _views(self._module, arena.second[self._node]),
            strict=True,
        )
        for parameter, first, second in moments:
            step = torch.tensor(float(arena.steps[self._node]))
            adam.state[parameter] = {"step": step, "exp_avg": first, "exp_avg_sq": second}
        return adam


def local_batches(work: Workload, node: int, update: int) -> Iterator[tuple[I32, F32]]:
    """Yield the items and labels of each optimizer step of one local update.

    Negatives are drawn once per update, the order once per epoch; a full batch is not shuffled. A node
    without positives takes no step.
    """
    training = work.training
    items, labels = draw_samples(work.data, node, update=update, negatives=training.negatives, seed=work.seed)
    size = training.batch_size or max(len(items), 1)
    for epoch in range(update * training.local_epochs, (update + 1) * training.local_epochs):
        order = np.arange(len(items))
        if training.batch_size is not None:
            order = draw_order(len(items), node, epoch=epoch, seed=work.seed)
        for start in range(0, len(items), size):
            batch = order[start : start + size]
            yield items[batch], labels[batch]


def hold_items(module: torch.nn.Module, layout: Layout) -> list[bool]:
    """Say of each parameter of a model's module whether it is an item table."""
    sizes = [parameter.numel() for parameter in module.parameters()]
    begins = np.cumsum([0, *sizes[:-1]])
    return [layout.items.start <= begin < layout.items.stop for begin in begins.tolist()]


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Let torch use one thread: how it divides a sum or a scatter among threads may show in the last bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _load(module: torch.nn.Module, row: F32) -> None:
    """Make the module's parameters views of `row`, so that training the module changes the row."""
    for parameter, view in zip(module.parameters(), _views(module, row), strict=True):
        parameter.data = view


def _views(module: torch.nn.Module, row: F32) -> list[torch.Tensor]:
    """Return the parts of a flat row in the shapes of the module's parameters."""
    parameters = list(module.parameters())
    sizes = [parameter.numel() for parameter in parameters]
    parts = torch.split(torch.from_numpy(row[: sum(sizes)]), sizes)
    return [part.view_as(parameter) for part, parameter in zip(parts, parameters, strict=True)]
