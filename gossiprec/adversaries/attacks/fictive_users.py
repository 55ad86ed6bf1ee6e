"""Fictive users: the rows that an adversary uses in place of user rows that victims hide.

References
----------
arXiv 2306.08929, Algorithm 3 (``paper``). Its code (``own_embedding``) fits nothing: it combines the attacker's own
user row and shared weights with the item tables of the victim.

Notes
-----
``fitted``, the default: Adam fits one user row to the adversary's targets, with item tables and shared weights frozen.
A row trained elsewhere does not fit the victims' item tables, because the axes differ between training runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from gossiprec.adversaries.attacks import AttackContext
from gossiprec.adversaries.attacks.targets import TargetItems
from gossiprec.base.arrays import F32, I64
from gossiprec.base.rng import generator, purpose_id
from gossiprec.models.base.kernel_interface import (
    FIT_NEGATIVES,
    FIT_RATE,
    FIT_STEPS,
    FictiveState,
    Samples,
    flat_view,
)
from gossiprec.models.feeds.base import Columns
from gossiprec.numerics.torch_setup import single_torch_thread

Kind = Literal["fitted", "own_embedding", "paper"]

PAPER_EPOCHS = 30
"""Local updates of the model that ``paper`` trains, equal to the steps of a fit; the paper gives no number."""


class FictiveUsers:
    """One fictive user row per adversary.

    Parameters
    ----------
    context : AttackContext
    targets : TargetItems
    kind : str
    refit_every : float
        For ``fitted``: virtual time after which a delivery makes a row outdated.

    Attributes
    ----------
    users : ndarray of float32, shape (n_adversaries, user_width)
        Zero until fitted.
    due : ndarray of float64, shape (n_adversaries,)
        Virtual time from which a row is outdated; infinite for ``paper`` and ``own_embedding``.
    n_fits : ndarray of int64, shape (n_adversaries,)
    """

    def __init__(self, context: AttackContext, targets: TargetItems, kind: Kind, refit_every: float) -> None:
        self._scorer, self._threads = context.scorer, context.threads
        self._targets = targets
        self.kind = kind
        self.refit_every = refit_every
        self._n_items = context.scorer.layout.n_items
        self.start = np.zeros((len(targets.adversaries), context.scorer.layout.user_width), np.float32)
        for a, node in enumerate(targets.adversaries.tolist()):
            self.start[a] = context.scorer.layout.initial_user(generator(context.seed, "fictive-user", node))
        self.users = np.zeros_like(self.start)
        self.due = np.full(len(self.start), -np.inf if kind == "fitted" else np.inf)
        self.n_fits = np.zeros(len(self.start), np.int64)
        self._run_seed = context.seed
        self.seed = context.seed ^ (purpose_id("fictive-samples") << 32)
        self.feed = context.feed_of_nodes(targets.adversaries)

    @property
    def own(self) -> bool:
        """Whether adversaries score with their own present user row and shared weights."""
        return self.kind == "own_embedding"

    @property
    def compiled(self) -> bool:
        """Whether compiled code fits the rows."""
        return self._scorer.kernels is not None

    def state(self) -> dict[str, Any]:
        """Return the rows, their due times and their numbers of fits, for a checkpoint."""
        return {"users": self.users, "due": self.due, "n_fits": self.n_fits}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the state that :meth:`state` returned."""
        for name in ("users", "due", "n_fits"):
            getattr(self, name)[...] = state[name]

    def prepare(self) -> None:
        """Train the rows or models that are trained only once."""
        if self.kind != "paper":
            return
        layout = replace(self._scorer.layout, n_users=1)
        for a, node in enumerate(self._targets.adversaries.tolist()):
            seed = int(generator(self._run_seed, "fictive-model", node).integers(2**62))
            start = self._scorer.model.initial_rows(layout, 1, seed)[0]
            trained = self._scorer.train_like_node(
                self.feed.for_user(node), start, updates=PAPER_EPOCHS, seed=seed
            )
            self.users[a] = trained[layout.users]

    def fit(self, a: int, row: F32, now: float) -> None:
        """Fit adversary a's row to its targets with the item tables and shared weights of `row`, for any model."""
        import torch

        from gossiprec.compute.executors.tensors import constants_to_tensors, table_views, to_tensor
        from gossiprec.numerics.torch_setup import make_adam

        scorer, samples = self._scorer, self._samples(a, int(self.n_fits[a]))
        layout = replace(scorer.layout, n_users=1)
        n_samples = len(next(iter(samples.values())))
        values = np.zeros(layout.size, np.float32)
        values[layout.users] = self.start[a]
        values[layout.items.start : layout.shared.stop] = row[
            scorer.layout.items.start : scorer.layout.shared.stop
        ]
        tables = table_views(layout, torch.from_numpy(values))
        user = tables["users"] = tables["users"].requires_grad_()
        batch = {name: to_tensor(column) for name, column in samples.items()}
        batch |= {"user": torch.zeros(1, dtype=torch.int64), "weights": torch.ones(n_samples)}
        constants = constants_to_tensors(scorer.model.constants)
        with single_torch_thread():
            adam = make_adam([user], lr=FIT_RATE, foreach=False)
            for _ in range(FIT_STEPS if n_samples else 0):
                adam.zero_grad()
                torch.autograd.backward(scorer.model.loss(layout.blocks_by_name(tables) | constants, batch))
                adam.step()
        self.users[a] = values[layout.users]
        self.begin(np.array([a]), now)

    def begin(self, which: I64, now: Any) -> I64:
        """Count one more fit, at time `now`, of each of some adversaries' rows; return the counts before."""
        numbers = self.n_fits[which]
        self.n_fits[which] += 1
        self.due[which] = now + self.refit_every
        return numbers

    def fitted(self, which: I64, numbers: I64, frozen: Callable[[I64], F32]) -> F32:
        """Return the started fits stacked, as :meth:`fit` finds them one by one; for models without kernels.

        Parameters
        ----------
        which, numbers : ndarray of int64, shape (n,)
        frozen : callable
            Indices below n -> item tables and shared weights that each is fitted to, shape (n_asked, n_columns).
        """
        from gossiprec.compute.executors.user_row_fitting import fit_user_rows

        samples = [
            self._samples(a, number) for a, number in zip(which.tolist(), numbers.tolist(), strict=True)
        ]
        return fit_user_rows(
            self._scorer.model, replace(self._scorer.layout, n_users=1), self.start[which], samples, frozen,
            steps=FIT_STEPS, rate=FIT_RATE,
        )  # fmt: skip

    def _samples(self, a: int, number: int) -> Columns:
        node = int(self._targets.adversaries[a])
        return self.feed.samples(node, update=number, negatives=FIT_NEGATIVES, seed=self.seed)

    def fit_all(self, models: F32, row_of: I64) -> None:
        """Fit every row, as if for the first time: the result depends on the models only.

        Parameters
        ----------
        models : ndarray of float32 or float16, shape (n_models, row_size)
        row_of : ndarray of int64, shape (n_adversaries,)
            The model that each row is fitted to.
        """
        everyone, now = np.arange(len(self.users)), -np.inf
        self.n_fits[:] = 0
        if self.compiled:
            threads = self._threads
            threads.run(
                lambda part: self._fit_compiled(
                    models, row_of, everyone, threads.part_range(len(everyone), part), now
                )
            )
        elif not self._scorer.is_plain:
            frozen = models[:, self._scorer.layout.items.start : self._scorer.layout.shared.stop]
            self.users[:] = self.fitted(
                everyone, self.begin(everyone, now), lambda some: frozen[row_of[some]]
            )
        else:
            for a, row in zip(everyone.tolist(), row_of, strict=True):
                self.fit(a, models[row].astype(np.float32), now)

    def warm_up(self, rows: F32) -> None:
        """Compile the fit, if it is compiled."""
        if self.compiled:
            none = np.zeros(0, np.int64)
            self._fit_compiled(rows[:1], none, none, range(0), 0.0)

    def _fit_compiled(self, models: F32, row_of: I64, late: I64, share: range, now: float) -> None:
        from gossiprec.adversaries.attacks.individual_kernels import specialise_kernels

        kernels, some = self._scorer.kernels, slice(share.start, share.stop)
        assert kernels is not None
        specialise_kernels(type(kernels)).fit_users(
            flat_view(models),
            row_of[some],
            late[some],
            now,
            self.kernel_state(),
            self.recipe(),
            kernels.sizes,
        )

    def kernel_state(self) -> FictiveState:
        """Return the state for compiled fits."""
        learnt = getattr(self.feed, "moves", self.feed.positives)
        samples = Samples(learnt.offsets, learnt.values, self.feed.member, np.uint64(self.seed))
        return FictiveState(
            self.own, self.users, self.start, self.due, self.n_fits, float(self.refit_every),
            self._targets.adversaries, samples,
        )  # fmt: skip

    def recipe(self) -> tuple[object, ...]:
        """Return the model's further arguments for compiled fits."""
        return () if self._scorer.kernels is None else self._scorer.kernels.fit_recipe(self.feed)
