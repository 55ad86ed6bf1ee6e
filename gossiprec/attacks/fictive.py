"""Fictive users: what an adversary puts in place of a user row that a victim keeps to itself.

References
----------
arXiv 2306.08929, Algorithm 3 (``paper``). Its code (``own_embedding``) fits nothing: it takes the attacker's own user
row and shared weights, and only the item tables of the victim.

Notes
-----
``fitted``, the default: Adam fits one user row to the adversary's targets, with item tables and shared weights frozen.
A row trained elsewhere does not fit the victims' item tables, whose axes mean something else in every training run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from gossiprec.attacks.base import F32, I64, World
from gossiprec.attacks.private import private_model
from gossiprec.attacks.targets import TargetItems
from gossiprec.compute.training import LocalData, Moves, draw_samples
from gossiprec.ragged import Ragged
from gossiprec.rng import generator, purpose_id

Kind = Literal["fitted", "own_embedding", "paper"]

STEPS, RATE, NEGATIVES = 30, 0.01, 4
"""Of a fit: Adam steps over all samples, the learning rate, and negatives per target item."""
PAPER_EPOCHS = 30
"""Local updates of the model that ``paper`` trains; the paper gives no number. As many as a fit has steps."""


class FictiveUsers:
    """One stand-in user row per adversary.

    Parameters
    ----------
    world : World
    targets : TargetItems
    kind : str
    refit_every : float
        ``fitted``: virtual time after which a reception makes a row outdated.

    Attributes
    ----------
    users : ndarray of float32, shape (n_adversaries, user_width)
        Zero until fitted.
    due : ndarray of float64, shape (n_adversaries,)
        Virtual time from which a row is outdated; ``paper``, ``own_embedding``: never.
    n_fits : ndarray of int64, shape (n_adversaries,)
    """

    def __init__(self, world: World, targets: TargetItems, kind: Kind, refit_every: float) -> None:
        self._world = world
        self._targets = targets
        self.kind = kind
        self.refit_every = refit_every
        model, layout = world.executor.work.model, world.executor.work.layout
        n = len(targets.adversaries)
        self.start = np.zeros((n, layout.user_width), np.float32)
        for a, node in enumerate(targets.adversaries.tolist()):
            self.start[a] = model.initial_user(generator(world.seed, "fictive-user", node))
        self.users = np.zeros_like(self.start)
        self.due = np.full(n, -np.inf if kind == "fitted" else np.inf)
        self.n_fits = np.zeros(n, np.int64)
        self.seed = world.seed ^ (purpose_id("fictive-samples") << 32)
        self.data = LocalData(world.targets, layout.n_items, world.moves)

    @property
    def own(self) -> bool:
        """Whether adversaries look with their own present user row and shared weights."""
        return self.kind == "own_embedding"

    def state(self) -> dict[str, Any]:
        """Return the rows and how old they are, for a checkpoint."""
        return {"users": self.users, "due": self.due, "n_fits": self.n_fits}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state` gave."""
        for name in ("users", "due", "n_fits"):
            getattr(self, name)[...] = state[name]

    def prepare(self) -> None:
        """Train what is trained once, if there is anyone to use it on."""
        if self.kind != "paper" or not self._world.hides_user.any():
            return
        model, work = self._world.executor.work.model, self._world.executor.work
        layout = replace(work.layout, n_users=1)
        for a, node in enumerate(self._targets.adversaries.tolist()):
            seed = int(generator(self._world.seed, "fictive-model", node).integers(2**62))
            start = model.initial_rows(layout, 1, seed)[0]
            trained = private_model(
                work,
                self.data.positives[node],
                start,
                updates=PAPER_EPOCHS,
                seed=seed,
                kind=type(self._world.executor),
                moves=self._own_moves(node),
            )
            self.users[a] = trained[layout.users]

    def _own_moves(self, node: int) -> Moves | None:
        """Return a user's moves as those of node 0."""
        moves = self.data.moves
        if moves is None:
            return None
        own = slice(moves.offsets[node], moves.offsets[node + 1])
        items = moves.items[own]
        return Moves(np.array([0, len(items)]), items, moves.previous[own])

    def fit(self, a: int, row: F32, now: float) -> None:
        """Fit adversary a's row to its targets with the item tables and shared weights of `row`, for any model."""
        import torch

        from gossiprec.compute.executors.reference import one_torch_thread

        work = self._world.executor.work
        layout = replace(work.layout, n_users=1)
        node = int(self._targets.adversaries[a])
        items, labels = draw_samples(
            self.data, node, update=int(self.n_fits[a]), negatives=NEGATIVES, seed=self.seed
        )
        module = work.model.module(layout)
        common = row[work.layout.items.start : work.layout.size].astype(np.float32)
        values = np.concatenate([self.start[a], common])
        parameters = list(module.parameters())
        parts = torch.split(torch.from_numpy(values), [parameter.numel() for parameter in parameters])
        for parameter, part in zip(parameters, parts, strict=True):
            parameter.data = part.view_as(parameter)
            parameter.requires_grad_(parameter is parameters[0])
        user = torch.zeros(1, dtype=torch.int64)
        asked, wanted = torch.from_numpy(items).long(), torch.from_numpy(labels)
        with one_torch_thread():
            adam = torch.optim.Adam(parameters[:1], lr=RATE, foreach=False)
            for _ in range(STEPS if len(items) else 0):
                adam.zero_grad()
                loss = work.model.batch_loss(module, user, asked, wanted, torch.ones_like(wanted))
                torch.autograd.backward(loss)
                adam.step()
        self.users[a] = values[layout.users]
        self.n_fits[a] += 1
        self.due[a] = now + self.refit_every

    def fit_due(self, rows: F32, row_of: I64, now: float) -> bool:
        """Fit every row that is outdated at time `now`, adversary a's with version ``row_of[a]``; say if any was."""
        late = np.flatnonzero(self.due <= now)
        if self._world.compiled:
            crew = self._world.crew

            def some(part: int) -> None:
                share = crew.share(len(late), part)
                self._fit_compiled(rows, row_of, late[share.start : share.stop], now)

            crew.run(some)
        else:
            for a in late.tolist():
                self.fit(a, rows[row_of[a]], now)
        return len(late) > 0

    def _fit_compiled(self, rows: F32, row_of: I64, late: I64, now: float) -> None:
        from gossiprec.attacks import fitting_kernels, moves_fitting
        from gossiprec.compute.executors.fused.prme_calls import flat

        layout = self._world.executor.work.layout
        if self.data.moves is not None:
            moves_fitting.fit_movers(
                flat(rows), layout.row_size, row_of, late, now, layout.n_users, self.kernel_state(), self.recipe(),
                (0,) * layout.user_width,
            )  # fmt: skip
            return
        fitting_kernels.fit_users(
            rows,
            row_of,
            late,
            now,
            layout.n_items,
            layout.n_users,
            self.kernel_state(),
            (0,) * layout.user_width,
        )

    def kernel_state(self) -> tuple[object, ...]:
        """Return what compiled loops need, in the order of :mod:`gossiprec.attacks.fitting_kernels`."""
        moves = self.data.moves
        positives = self.data.positives if moves is None else Ragged(moves.offsets, moves.items)
        return (
            self.own, self.users, self.start, self.due, self.n_fits, float(self.refit_every),
            self._targets.adversaries, positives.offsets, positives.values, self.data.member, np.uint64(self.seed),
        )  # fmt: skip

    def recipe(self) -> tuple[object, ...]:
        """Return what else compiled loops need of moves, in the order of :mod:`gossiprec.attacks.moves_fitting`."""
        model, moves = self._world.executor.work.model, self.data.moves
        assert moves is not None
        options = model.options
        mean = options.loss_reduction == "mean"
        return moves.previous, model.places, np.float32(options.alpha), float(options.l2), mean
