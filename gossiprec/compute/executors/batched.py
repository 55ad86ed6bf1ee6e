"""The executor that trains many nodes in one tensor operation, for any model, on CPU or CUDA.

It applies ``torch.func`` to stacked parameters. A node's bytes must not depend on the other nodes of a stack. Hence

- the shape in which a node is computed depends only on its own samples: batches are padded with samples of
  weight 0, and only batches of equal width are stacked;
- widths are multiples of 32, so that no sample falls into the tail of a vector loop, in which torch's scalar
  ``sigmoid`` differs from its vector ``sigmoid`` in the last bit;
- a stack has at least four nodes: matrix products of fewer use other kernels on some processors;
- torch uses one thread.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.func import vmap
from torch.optim.adam import adam

from gossiprec.base.arrays import F32, I64
from gossiprec.base.errors import ResourceError
from gossiprec.base.machine import ThreadPool
from gossiprec.compute.executors import EXECUTORS
from gossiprec.compute.executors.base import STACK_BYTES, Executor, ExecutorContext
from gossiprec.compute.executors.tensors import (
    LEAST_STACK,
    HostRows,
    Tensors,
    UpdateStack,
    batch_shape_keys,
    chunked,
    constants_to_tensors,
    group_by_width,
    padded_batch_size,
    padded_width,
    table_views,
    to_tensor,
)
from gossiprec.compute.local_update import TrainingMode, dp_noise_row
from gossiprec.compute.plan.program import Program
from gossiprec.compute.store import ScoringView
from gossiprec.compute.store.arena import Arena, Storage, update_keys
from gossiprec.compute.store.device_arena import DeviceArena
from gossiprec.models.base import Model
from gossiprec.models.base.kernel_interface import ScoreQuery
from gossiprec.models.base.parameter_blocks import Layout
from gossiprec.models.base.sequence_model import SequenceModel
from gossiprec.numerics.torch_setup import single_torch_thread

AT_ONCE = 64
"""Number of histories scored together; a short last block repeats its last user."""


@dataclass(frozen=True)
class AllItemScorer:
    """A scorer of all items for many users, by the formula of a model.

    Attributes
    ----------
    model : Model
    constants : dict of str to Tensor
    put : callable
        Function that moves an array to the device of torch.
    """

    model: Model
    constants: Tensors
    put: Callable[[Any], Tensor]

    def score_each_user(self, models: ScoringView, threads: ThreadPool) -> F32 | None:
        """Return scores of shape (n_models, n_items), or None if the model cannot score all items of a user."""
        rows = np.zeros(len(models.row), np.int64) if models.together else models.row
        with torch.no_grad(), single_torch_thread():
            first = self.model.score_all_items(self._p(models, rows[0])) if len(rows) else None
        if first is None:
            return None
        found = np.empty((len(rows), models.layout.n_items), np.float32)

        def score_some(part: int) -> None:
            some = sorted(threads.part_range(len(found), part), key=rows.__getitem__)
            with torch.no_grad(), single_torch_thread():
                for row, places in itertools.groupby(some, rows.__getitem__):
                    score = first if row == rows[0] else self.model.score_all_items(self._p(models, row))
                    assert score is not None  # the model could for the first row
                    for place in places:
                        found[place] = score(self.put(models.user[place : place + 1])).cpu().numpy()

        threads.run(score_some)
        return found

    def score_after_histories(self, models: ScoringView, threads: ThreadPool) -> F32:
        """Return the scores by one version for users with histories, shape (n_models, n_items)."""
        model, found = self.model, np.empty((len(models.row), models.layout.n_items), np.float32)
        assert isinstance(model, SequenceModel)  # no other feed has histories
        history, p = models.histories["history"], self._p(models, 0)

        def score_some(part: int) -> None:
            with torch.no_grad(), single_torch_thread():
                for block in threads.part_range(-(-len(found) // AT_ONCE), part):
                    places = block * AT_ONCE + np.arange(AT_ONCE)
                    known = np.minimum(places, len(found) - 1)
                    scores = model.scores_after(p, self.put(history[known]), self.put(models.user[known]))
                    some = places[places < len(found)]
                    found[some] = scores.cpu().numpy()[: len(some)]

        threads.run(score_some)
        return found

    def _p(self, models: ScoringView, row: int) -> Tensors:
        """Return the blocks of one version, and the constants."""
        version = models.rows[row, : models.layout.size].astype(np.float32, copy=False)
        tables = table_views(models.layout, self.put(version))
        return models.layout.blocks_by_name(tables) | self.constants


@EXECUTORS.register("batched")
class BatchedExecutor(Executor):
    """The executor that stacks the tasks of a wave.

    On CUDA models and moments stay on the device (:class:`~gossiprec.compute.store.device_arena.DeviceArena`). In
    float16, in a run with several shards, and for clients without a model, they stay on the host:
    merges then run there, and a stack is copied to the device for its training, and back.

    Parameters
    ----------
    work : ExecutorContext
    device : str
        ``auto``, ``cpu`` or ``cuda``.

    Raises
    ------
    ResourceError
        If CUDA is requested and torch sees none.

    Notes
    -----
    The model's formula must work under ``torch.func.vmap``: no ``.item()``, no branch on values.
    On CUDA the bytes of a run may depend on its waves: torch guarantees them neither for scatters nor for sums.
    """

    name = "batched"

    def __init__(self, work: ExecutorContext, device: str = "auto") -> None:
        super().__init__(work, device)
        self._device = choose_device(device)
        self._constants = self._known(work.model.constants)
        self._extras = self._known(work.extras)
        self._whole_lists = AllItemScorer(work.model, self._constants, self._put)
        self._kinds = work.node_settings.training_modes
        self._stack_rows = max(1, STACK_BYTES[self._device.type] // (4 * work.layout.row_size))

    @classmethod
    def make_arena(
        cls, layout: Layout, *, n_nodes: int, moments: bool, storage: Storage, divided: bool, device: str
    ) -> Arena:
        """Return an arena on the device, unless rows are rounded or divided."""
        chosen, stays = choose_device(device), storage == "float32" and not divided
        if chosen.type != "cpu" and stays:
            return DeviceArena(layout, n_nodes=n_nodes, capacity=n_nodes, moments=moments, device=chosen)
        return super().make_arena(
            layout, n_nodes=n_nodes, moments=moments, storage=storage, divided=divided, device=device
        )

    def run(self, program: Program, tasks: I64) -> None:
        """Run `tasks` of one wave: first all merges, then all local updates."""
        self.resolve_performance_weights(program, tasks)
        for some in chunked(tasks, self._stack_rows):
            self.work.arena.merge(program, some, self.work.seed)
        with single_torch_thread():
            for stack in self._stacks(program, tasks[(program.update[tasks] >= 0) & ~program.refused[tasks]]):
                self._train(stack)

    def score(self, query: ScoreQuery) -> F32:
        """Return predicted scores."""
        layout, rows, row, offsets = query.layout, query.rows, query.row, query.offsets
        out = np.empty(len(query.items), np.float32)
        query_columns = {"items": query.items, **query.contexts}
        own, of_run, lengths = self.constants_of(query), self.work.model.constants, np.diff(offsets)
        each = {name for name, values in own.items() if values.ndim > of_run[name].ndim}
        shared = self._constants if own is of_run else self._known(own)
        size = layout.item_width * int(lengths.max(initial=1)) if query.together else layout.row_size
        rows_at_once = max(1, STACK_BYTES[self._device.type] // (4 * size))

        def predict(tables: Tensors, wanted: Tensors, known: Tensors) -> Tensor:
            return self.work.model.score(layout.blocks_by_name(tables) | shared | known, wanted)

        with torch.no_grad(), single_torch_thread():
            for width, queries in group_by_width(padded_width(lengths), rows_at_once):
                place = np.arange(width)
                real = place < lengths[queries, None]
                at = offsets[queries, None] + np.where(real, place, 0)
                wanted = {name: self._put(column[at]) for name, column in query_columns.items()}
                wanted["user"] = self._put(query.user[queries, None])
                wanted |= {name: self._put(column[queries]) for name, column in query.histories.items()}
                used = 0 if query.together else row[queries]
                chosen = self._put(rows[used, : layout.size].astype(np.float32, copy=False))
                known = {name: self._put(own[name][row[queries]]) for name in each}
                of_all = vmap(predict, in_dims=(None if query.together else 0, 0, 0))
                logits = of_all(table_views(layout, chosen), wanted, known)
                out[at[real]] = logits.cpu().numpy()[real]
        return out

    def score_all(self, models: ScoringView, threads: ThreadPool) -> F32:
        """Return the scores of all items, user by user if the model can: no shape depends on other users."""
        if "history" in models.histories and models.together:
            return self._whole_lists.score_after_histories(models, threads)
        plain = not (models.contexts or models.histories)
        found = self._whole_lists.score_each_user(models, threads) if plain else None
        return super().score_all(models, threads) if found is None else found

    @property
    def _stored(self) -> HostRows | DeviceArena:
        arena = self.work.arena
        return arena if isinstance(arena, DeviceArena) else HostRows(arena, self._device)

    def _stacks(self, program: Program, tasks: I64) -> Iterator[UpdateStack]:
        """Draw all batches, and yield stacks of updates of equal width, those with most batches first."""
        work = self.work
        steps_by_task = [
            (task, list(work.iter_step_inputs(int(node), int(update))))
            for task, node, update in zip(
                tasks.tolist(), program.node[tasks], program.update[tasks], strict=True
            )
        ]
        steps_by_task.sort(key=lambda one: -len(one[1]))
        firsts = [steps[0][0] if steps else {} for _, steps in steps_by_task]
        padded = np.array([padded_batch_size(columns) for columns in firsts], np.int64)
        kinds = self._kinds[program.node[np.array([task for task, _ in steps_by_task], np.int64)]]
        forms = batch_shape_keys(firsts)
        for kind, form in sorted(set(zip(kinds.tolist(), forms.tolist(), strict=True))):
            of_kind = np.where((kinds == kind) & (forms == form), padded, 0)
            samples = (
                int(of_kind.max()) if kind == TrainingMode.PRIVATE else 1
            )  # each sample has its own gradient
            for width, chosen in group_by_width(of_kind, max(1, self._stack_rows // max(samples, 1))):
                some = np.array([steps_by_task[c][0] for c in chosen])
                batches = [steps_by_task[c][1] for c in chosen]
                keys = update_keys(program, some, self.work.seed) if self.work.arena.is_half else None
                yield UpdateStack.pad(
                    program.node[some], program.target[some], keys, batches, width, TrainingMode(kind)
                )

    def _train(self, stack: UpdateStack) -> None:
        """Train a stack and store the result; nodes drop out as their batches run out."""
        stored, has_moments = self._stored, self.work.training.optimizer == "adam"
        rows = stored.take(stack.target)
        parameters = rows[:, : self.work.layout.size]
        moments = stored.take_moments(stack.node) if has_moments else []
        counts = self._step_counts(stack.node)
        user = self._put(self.work.layout.user_index(stack.node)[:, None])
        columns = {name: self._put(part) for name, part in {**stack.columns, **stack.drawn}.items()}
        gradient = torch.empty_like(parameters)
        start = parameters.clone() if stack.kind != TrainingMode.PLAIN else parameters
        for k in range(int(stack.n_steps[0])):
            n = int(np.count_nonzero(stack.n_steps > k))
            some = slice(max(n, LEAST_STACK))
            batch = {name: part[some, k] for name, part in columns.items()} | {"user": user[some]}
            if stack.kind == TrainingMode.PRIVATE:
                clip = self._put(self.work.node_settings.clip_norm[stack.node[some]])
                parts = self._clipped_sums(table_views(self.work.layout, parameters[some]), batch, clip)
            else:
                tables = table_views(self.work.layout, parameters[some])
                leaves = {name: table.detach().requires_grad_() for name, table in tables.items()}
                parts = _slopes(vmap(self._loss), leaves, batch)
            torch.cat([part.flatten(1) for part in parts.values()], dim=1, out=gradient[some])
            if stack.kind == TrainingMode.PRIVATE:
                self._make_private(gradient[some], stack.node[some], k, batch["weights"])
            if stack.kind != TrainingMode.PLAIN:
                self._add_terms(gradient[some], parameters[some], start[some], stack, some, batch)
            self._descend(parameters[:n], gradient[:n], [m[:n] for m in moments], counts)
        stored.put(stack.target, rows, stack.keys)
        if has_moments:
            stored.put_moments(stack.node, moments)
        self.work.arena.steps[stack.node] += stack.n_steps

    def _step_counts(self, nodes: I64) -> list[tuple[slice, Tensor]]:
        """Return each node's number of steps taken, by range of columns."""
        layout, taken = self.work.layout, self.work.arena.steps[nodes].astype(np.float32)
        if not self.work.arena.fresh_moments:
            return [(slice(0, layout.size), self._put(taken))]
        both = [(layout.users, taken), (layout.merged, 0 * taken), (layout.private, taken.copy())]
        return [(columns, self._put(steps)) for columns, steps in both if columns.stop > columns.start]

    def _descend(
        self, parameters: Tensor, gradient: Tensor, moments: list[Tensor], counts: list[tuple[slice, Tensor]]
    ) -> None:
        """Take one optimizer step; fused Adam treats each row as a tensor with its own step count."""
        training = self.work.training
        if training.optimizer == "sgd":
            parameters.sub_(gradient * training.learning_rate)
            return
        for columns, steps in counts:
            own, slopes, first, second = (
                list(part[:, columns].unbind()) for part in (parameters, gradient, *moments)
            )
            adam(
                own, slopes, first, second, [], list(steps[: len(own)].unbind()), lr=training.learning_rate,
                beta1=training.beta1, beta2=training.beta2, eps=training.epsilon, weight_decay=0.0, amsgrad=False,
                maximize=False, fused=True,
            )  # fmt: skip

    def _clipped_sums(self, tables: Tensors, batch: Tensors, clip: Tensor) -> Tensors:
        """Return each node's sum of clipped sample gradients; padding has weight 0."""
        weights = batch["weights"]
        single = {name: column[:, :, None] for name, column in batch.items() if name != "user"}
        single["weights"] = torch.ones_like(single["weights"])
        leaves = {
            name: table.detach()[:, None].expand(-1, weights.shape[1], *table.shape[1:]).requires_grad_()
            for name, table in tables.items()
        }

        def of_sample(tables: Tensors, sample: Tensors, user: Tensor) -> Tensor:
            return self._loss(tables, {**sample, "user": user})

        parts = _slopes(vmap(vmap(of_sample, in_dims=(0, 0, None))), leaves, single, batch["user"])
        norm = torch.stack([part.flatten(2).square().sum(2) for part in parts.values()]).sum(0).sqrt()
        factor = weights * (clip[:, None] / (norm + 1e-6)).clamp(max=1.0)
        return {
            name: (factor.view(*factor.shape, *[1] * (part.dim() - 2)) * part).sum(1)
            for name, part in parts.items()
        }

    def _make_private(self, gradient: Tensor, nodes: I64, step: int, weights: Tensor) -> None:
        """Add noise to sums of clipped gradients and divide them by the batch sizes, in place."""
        work, node_settings = self.work, self.work.node_settings
        scale = node_settings.noise_multiplier[nodes] * node_settings.clip_norm[nodes]
        taken = work.arena.steps[nodes] + step
        for place in np.flatnonzero(scale).tolist():
            noise = dp_noise_row(work.layout, work.seed, int(nodes[place]), int(taken[place]))
            gradient[place] += self._put(scale[place] * noise)
        # a node that only fills the stack may have no batch left
        gradient /= weights.sum(1, keepdim=True).clamp(min=1.0)

    def _add_terms(
        self, gradient: Tensor, now: Tensor, start: Tensor, stack: UpdateStack, some: slice, batch: Tensors
    ) -> None:
        """Add the gradients of the terms, in place: by the batch's items, or under DP-SGD by all items."""
        layout, terms = self.work.layout, self.work.node_settings.terms
        if not terms:
            return
        shape = (len(now), layout.n_items, layout.item_width)
        leaf = now[:, layout.items].reshape(shape).detach().requires_grad_()
        before = start[:, layout.items].reshape(shape)
        with torch.enable_grad():
            parts = [
                self._put(factors[stack.node[some]]) * vmap(term.loss)(leaf, before)
                for term, factors in terms.items()
            ]
            slopes = torch.autograd.grad(torch.stack(parts).sum(), leaf)[0].flatten(1)
        touched = torch.ones(len(now), layout.n_items, dtype=torch.bool, device=now.device)
        if stack.kind == TrainingMode.WITH_TERMS:
            counts = torch.zeros(len(now), layout.n_items, device=now.device)
            for name in self.work.feed.item_columns:
                items, weights = batch[name].flatten(1), batch["weights"]
                weights = weights.repeat_interleave(items.shape[1] // weights.shape[1], dim=1)
                counts.scatter_add_(1, items.clamp(min=0), weights * (items >= 0))  # -1: no item
            touched = counts > 0
        wanted = touched.repeat_interleave(layout.item_width, dim=1)
        gradient[:, layout.items] += torch.where(wanted, slopes, 0.0)

    def _loss(self, tables: Tensors, batch: Tensors) -> Tensor:
        p = self.work.encoded_model(self.work.layout.blocks_by_name(tables) | self._constants, batch)
        if self.work.recommender is None:
            return self.work.model.loss(p, batch)
        return self.work.recommender.loss(p, batch, self._extras)

    def _known(self, constants: Mapping[str, F32]) -> Tensors:
        return {name: part.to(self._device) for name, part in constants_to_tensors(constants).items()}

    def _put(self, array: npt.NDArray[np.generic]) -> Tensor:
        """Move an array to the device."""
        return to_tensor(array).to(self._device)


def _slopes(losses: Callable[..., Tensor], leaves: Tensors, *others: Any) -> Tensors:
    """Return the gradients of many losses, each of which depends on its own part of the leaves: that of their sum."""
    with torch.enable_grad():
        total = losses(leaves, *others).sum()
    parts = torch.autograd.grad(total, list(leaves.values()), materialize_grads=True)
    return dict(zip(leaves, parts, strict=True))


def choose_device(name: str) -> torch.device:
    """Return the device of a name: ``auto`` is CUDA if torch sees one, and else the CPU.

    Raises
    ------
    ResourceError
        If CUDA is requested and torch sees none.
    """
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise ResourceError(
            "executor.device: found 'cuda', but torch finds no CUDA device; use 'cpu' or 'auto', or install "
            "a CUDA build of torch and check that nvidia-smi lists a device"
        )
    return torch.device("cuda" if name == "cuda" or (name == "auto" and available) else "cpu")
