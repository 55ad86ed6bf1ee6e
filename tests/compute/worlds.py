"""Tiny random worlds: a workload and a program of merges and local updates over three rounds."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import torch
from hypothesis import strategies as st

from gossiprec.base.ragged import Ragged
from gossiprec.compute.executors import EXECUTORS, Executor, ExecutorContext
from gossiprec.compute.local_update import NodeSettings, TrainingSettings
from gossiprec.compute.plan.program import Program
from gossiprec.compute.store.arena import Arena
from gossiprec.compute.store.device_arena import DeviceArena
from gossiprec.data.split import CheckIns, Split
from gossiprec.data.training_data import Transitions
from gossiprec.defences.share_less import DRIFT
from gossiprec.models import MODELS
from gossiprec.models.base.terms import ItemTerm

ON_DEVICE = "batched-on-device"
"""The batched executor as on CUDA, on a device that is the CPU: a row that was not copied is another."""
ON_CUDA = ("batched-on-cuda", "batched-on-cuda-from-host") if torch.cuda.is_available() else ()
"""The batched executor on CUDA, with models that stay there and with models that stay on the host."""
EVERY = [*EXECUTORS, ON_DEVICE, *ON_CUDA]
TOLERANCE_ON_CUDA = 1e-4
"""Of the Frobenius norm, where other executors promise bytes: the order of a sum may vary."""
ROUNDS = 3
SGD_MOVES = TrainingSettings(optimizer="sgd", learning_rate=0.005, batch_size=128, negatives=1)


@dataclass(frozen=True)
class Waves:
    """A program and the tasks of each wave: ``starts[w]:starts[w + 1]``."""

    program: Program
    starts: list[int]


def sum_of_magnitudes(items, start):
    """Return the L1 norm of the items' rows."""
    return items.abs().sum()


def add_signs(slopes, item, start, strength):
    """Add the gradient of the L1 norm of a row, times `strength`."""
    for k in range(len(item)):
        slopes[k] += strength * np.sign(item[k])


LASSO = ItemTerm(sum_of_magnitudes, add_signs)


@dataclass(frozen=True)
class World:
    """What decides a world; everything else follows from `seed`."""

    n_nodes: int = 5
    n_items: int = 12
    user_table: bool = False
    model: str = "gmf"
    training: TrainingSettings | None = None
    seed: int = 0
    drift: tuple[float, ...] = ()
    lasso: tuple[float, ...] = ()
    clip_norm: tuple[float, ...] = ()
    noise_multiplier: tuple[float, ...] = ()
    storage: str = "float32"

    @property
    def settings(self) -> TrainingSettings:
        """The training, or what the model is usually trained with."""
        return self.training or (SGD_MOVES if learns_moves(self.model) else TrainingSettings())

    def positives(self) -> Ragged:
        """Draw each node's positives: at least one, fewer than 60, and never every item."""
        rng = np.random.default_rng(self.seed)
        sizes = rng.integers(1, min(self.n_items, 60), self.n_nodes)
        items = [rng.choice(self.n_items, size, replace=False) for size in sizes]
        return Ragged.sets_from_pairs(
            np.repeat(np.arange(self.n_nodes), sizes), np.concatenate(items), self.n_nodes
        )

    def split(self) -> Split:
        """Return the positives as training data, and moves to each and to some again, on a globe.

        Two moves in three come from another positive or the same.
        """
        rng, positives = np.random.default_rng([self.seed, 4]), self.positives()
        own = [positives[node] for node in range(self.n_nodes)]
        items = [np.append(some, rng.choice(some, rng.integers(0, 9))) for some in own]
        previous = [np.where(rng.random(len(to)) < 2 / 3, rng.choice(to, len(to)), -1) for to in items]
        degrees = np.random.default_rng([self.seed, 3]).uniform([-90, -180], [90, 180], (self.n_items, 2))
        return split_of(positives, self.n_items, degrees, items, previous)

    def workload(self) -> ExecutorContext:
        """Return the workload at the start of the run; rows ``n_nodes:`` of the arena are free.

        Every parameter starts from noise of its own: models differ, and gradients stand well above rounding.
        """
        split = self.split()
        model = make_model(self.model).bind_to_data(split)
        layout = model.layout(self.n_items, self.n_nodes if self.user_table else 1)
        arena = Arena(
            layout,
            n_nodes=self.n_nodes,
            capacity=2 * self.n_nodes,
            moments=self.settings.optimizer == "adam",
            storage=self.storage,
        )
        model.fill_rows(arena.rows[: self.n_nodes], layout, self.seed)
        noise = np.random.default_rng([self.seed, 2]).normal(0.0, 0.3, (self.n_nodes, layout.size))
        arena.rows[: self.n_nodes, : layout.size] += noise.astype(np.float32)
        feed = model.make_feed(split)
        return ExecutorContext(model, layout, self.settings, feed, arena, self.seed, self.node_settings())

    def node_settings(self) -> NodeSettings:
        """Return the treatment: what the world says of a policy is dealt out to the nodes in turn."""
        node_settings = NodeSettings.without_policies(self.n_nodes)
        for values, array in [
            (self.clip_norm, node_settings.clip_norm),
            (self.noise_multiplier, node_settings.noise_multiplier),
        ]:
            if values:
                array[:] = np.resize(values, self.n_nodes)
        node_settings.noise_multiplier[node_settings.clip_norm == 0] = 0.0
        for term, values in ((DRIFT, self.drift), (LASSO, self.lasso)):
            if values:
                node_settings.add_term(term, slice(None), np.resize(np.float32(values), self.n_nodes))
        return node_settings

    def waves(self) -> Waves:
        """Return three waves in which random nodes merge up to three versions, train, or both."""
        rng = np.random.default_rng([self.seed, 1])
        builder = WavesBuilder(self.n_nodes)
        for _ in range(ROUNDS):
            awake = rng.permutation(self.n_nodes)[: rng.integers(1, self.n_nodes + 1)]
            moves = rng.random(self.n_nodes) < 0.5
            targets = [builder.free[n] if moves[n] else builder.held[n] for n in awake]
            readable = np.setdiff1d(np.concatenate([builder.held, builder.old]), targets)
            for n, target in zip(awake, targets, strict=True):
                merges = rng.choice(readable, rng.integers(0, 4)) if len(readable) else []
                keep = np.where(rng.random(len(merges)) < 0.2, 0.0, rng.random(len(merges)))
                builder.add(n, target, merges, keep, trains=rng.random() < 0.8)
            builder.end_wave()
        return builder.waves()


class WavesBuilder:
    """Collects tasks; a node's version lies at row `node` or at row ``n_nodes + node``."""

    def __init__(self, n_nodes: int) -> None:
        self.held = np.arange(n_nodes)
        self.free = np.arange(n_nodes, 2 * n_nodes)
        self.old = np.arange(0)
        self._updates = np.zeros(n_nodes, np.int64)
        self._tasks: list[tuple[int, int, int, int]] = []
        self._merges: list[tuple[int, float]] = []
        self._offsets, self._starts = [0], [0]

    def add(self, node, target, merges=(), keep=(), *, trains=True) -> None:
        """Add a task of this wave."""
        update = self._updates[node] if trains else -1
        self._tasks.append((node, self.held[node], target, update))
        self._merges.extend(zip(merges, keep, strict=True))
        self._offsets.append(len(self._merges))
        self._updates[node] += trains

    def end_wave(self) -> None:
        """Close the wave: tasks added later see its results."""
        for node, source, target, _ in self._tasks[self._starts[-1] :]:
            if source != target:
                self.held[node], self.free[node] = target, source
        self._starts.append(len(self._tasks))
        self.old = np.setdiff1d([source for _, source, _, _ in self._tasks], self.held)

    def waves(self) -> Waves:
        """Return all waves as one program."""
        node, source, target, update = np.array(self._tasks, np.int32).reshape(-1, 4).T.copy()
        row = np.array([row for row, _ in self._merges], np.int32)
        program = Program(
            node=node,
            source=source,
            target=target,
            update=update,
            merge_offsets=np.array(self._offsets, np.int64),
            merge_row=row,
            merge_keep=np.array([keep for _, keep in self._merges], np.float32),
            merge_message=np.arange(len(row), dtype=np.int32),
        )
        return Waves(program, self._starts)


def make_model(name, **options):
    """Return a registered model with its default options unless told otherwise."""
    return MODELS[name](MODELS[name].Options(**options))


def learns_moves(name):
    """Return whether a registered model learns where users came from; such are usually trained with SGD."""
    return bool(make_model(name).feed.context_columns)


def split_of(train, n_items, degrees, items, previous) -> Split:
    """Return a split without test items in which users moved to `items` from `previous`, one list for each user.

    Sequences are the training items, the last one first.
    """
    went = Ragged.from_parts([np.asarray(to, np.int32) for to in items])
    came = np.concatenate(previous).astype(np.int32)
    moves = Transitions(went, came, np.zeros(len(came), np.float32))
    none = Ragged(np.zeros(len(train) + 1, np.int64), np.zeros(0, np.int32))
    still = Transitions(none, none.values, np.zeros(0, np.float32))
    sequences = Ragged.from_parts([train[user][::-1] for user in range(len(train))])
    parts = (train, none, none)
    return Split("drawn", len(train), n_items, *parts, CheckIns(degrees, moves, still), sequences=sequences)


def make_executor(name: str, work: ExecutorContext) -> Executor:
    """Return a registered executor on the CPU, or one of those on a device."""
    if name == ON_DEVICE:
        return EXECUTORS["batched"](replace(work, arena=on_device(work.arena)), "cpu")
    if name in ON_CUDA:
        stays = name == ON_CUDA[0]
        arena = on_device(work.arena, torch.device("cuda")) if stays else work.arena
        return EXECUTORS["batched"](replace(work, arena=arena), "cuda")
    return EXECUTORS[name](work, "cpu")


def same(name: str, found: list[bytes] | bytes, expected: list[bytes] | bytes) -> bool:
    """Return whether an executor's float32 arrays are the same bytes; on CUDA, whether they are the same numbers."""
    if name not in ON_CUDA:
        return found == expected
    pairs = zip(*([part] if isinstance(part, bytes) else part for part in (found, expected)), strict=True)
    return all(
        one == other or distance(*map(floats, (one, other))) < TOLERANCE_ON_CUDA for one, other in pairs
    )


def floats(array: bytes) -> np.ndarray:
    """Return the numbers of a float32 array."""
    return np.frombuffer(array, np.float32)


def distance(found: np.ndarray, expected: np.ndarray) -> float:
    """Return the relative Frobenius distance."""
    return np.linalg.norm(found.astype(np.float64) - expected) / max(np.linalg.norm(expected), 1e-30)


def on_device(arena: Arena, device: torch.device | None = None) -> DeviceArena:
    """Return the same models and moments in an arena on a device, by default on the CPU."""
    if isinstance(arena, DeviceArena):
        return arena
    sizes = {"n_nodes": arena.n_nodes, "capacity": len(arena.rows), "moments": len(arena.first) > 0}
    found = DeviceArena(arena.layout, **sizes, device=device or torch.device("cpu"))
    for name in ("rows", "first", "second", "steps"):
        getattr(found, name)[...] = getattr(arena, name)
    return found


def up_to_date(arena: Arena) -> Arena:
    """Return an arena of which everything may be read on the host."""
    arena.host_rows(np.arange(len(arena.rows)))
    arena.host_moments(np.arange(len(arena.first)))
    return arena


def run_waves(executor: Executor, waves: Waves, wave_size: int | None = None) -> Arena:
    """Run every wave, in pieces of `wave_size` tasks if given, and return the arena."""
    for start, stop in itertools.pairwise(waves.starts):
        size = wave_size or stop - start
        for low in range(start, stop, size):
            executor.run(waves.program, np.arange(low, min(low + size, stop)))
    return up_to_date(executor.work.arena)


@st.composite
def worlds(draw, model):
    """Draw a world of 3-6 nodes and 10-20 items with any treatments, and an Adam in which rounding stays small.

    Adam divides a gradient by its own size. Where samples cancel to a gradient of rounding noise, some 1e-8,
    the step at the default epsilon of 1e-8 is a learning rate of random sign; at 1e-3 it is 1e-5 of one.
    """
    training = TrainingSettings(
        optimizer="sgd" if learns_moves(model) else draw(st.sampled_from(["adam", "sgd"])),
        learning_rate=0.01,
        epsilon=1e-3,
        batch_size=draw(st.sampled_from([None, 7, 32, 64])),
        local_epochs=draw(st.integers(1, 2)),
        negatives=draw(st.integers(1, 5)),
        negatives_drawn=draw(st.sampled_from(["each_update", "once"])),
    )
    return World(
        n_nodes=draw(st.integers(3, 6)),
        n_items=draw(st.integers(10, 20)),
        user_table=draw(st.booleans()),
        model=model,
        training=training,
        seed=draw(st.integers(0, 2**32 - 1)),
        **draw(treatments()),
    )


@st.composite
def treatments(draw):
    """Draw any mix of nodes with and without terms, clipping and noise; or of terms alone, or none."""
    options = {
        "drift": [0.0, 0.5, 2.0],
        "lasso": [0.0, 0.01],
        "clip_norm": [0.0, 0.05, 2.0],
        "noise_multiplier": [0.0, 0.3, 20.0],
    }
    some = [*options][: draw(st.sampled_from([0, 1, 2, 4]))]
    return {
        name: tuple(draw(st.lists(st.sampled_from(options[name]), min_size=1, max_size=5))) for name in some
    }
