"""Claims about a model's analytic gradient of pairs, if it has one: on random numbers, and on a node's pairs."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.func import grad

from gossiprec.base.arrays import F32
from gossiprec.compute.executors.tensors import Tensors
from gossiprec.models.base.analytic_gradients import PairGradient, has_own_pair_gradient
from gossiprec.models.base.graph import GraphModel
from gossiprec.testing.model_formula import SEED, ModelCase

N_ITEMS = 9


def its_written_out_gradient_of_pairs_is_that_of_the_loss(case: ModelCase) -> None:
    """Have an analytic gradient of pairs, if any, equal to autograd's: some pairs repeated, some reversed."""
    gradient, layout = case.model.pair_gradient(), case.layout
    if gradient is None or layout.n_users > 1 or not has_own_pair_gradient(case.model):
        return
    draw = np.random.default_rng(SEED)
    for n_pairs in (1, 2, 30):
        used, pairs = np.unique(draw.integers(N_ITEMS, size=(n_pairs, 2)), return_inverse=True)
        liked, others = np.ascontiguousarray(pairs.reshape(-1, 2).T).astype(np.int32)
        row = 0.5 * case.row.numpy().astype(np.float32)
        found = _written_out(case, gradient, row, used, liked, others)
        batch = {"items": torch.from_numpy(used[liked]), "negatives": torch.from_numpy(used[others])}
        expected = grad(lambda values, batch=batch: _loss(case, values, batch))(torch.from_numpy(row))
        rounding = 1e-5 * float(expected.abs().max())
        torch.testing.assert_close(torch.from_numpy(found), expected, rtol=1e-4, atol=rounding)


def _written_out(
    case: ModelCase, gradient: PairGradient, row: F32, used: np.typing.NDArray[np.int64],
    liked: np.typing.NDArray[np.int32], others: np.typing.NDArray[np.int32],
) -> F32:  # fmt: skip
    """Return the gradient of some pairs of the items in use, in the layout of a whole version."""
    layout, found = case.layout, np.zeros_like(row)
    core = np.concatenate([row[layout.users], row[layout.shared]])
    items = row[layout.items].reshape(layout.n_items, -1)[used]
    slopes, item_slopes = np.full_like(core, np.nan), np.full_like(items, np.nan)
    for _ in range(2):
        gradient.fill(core, items, slopes, item_slopes, liked, others, gradient.numbers)
    found[layout.users], found[layout.shared] = np.split(slopes, [layout.user_width])
    found[layout.items].reshape(layout.n_items, -1)[used] = item_slopes
    return found


def _loss(case: ModelCase, row: Tensor, batch: Tensors) -> Tensor:
    """Return the loss of pairs at a client."""
    batch = {**batch, "user": case.user, "weights": torch.ones(len(batch["items"]))}
    p = case.p(row)
    return case.model.loss(
        case.model.encode_own(p, batch) if isinstance(case.model, GraphModel) else p, batch
    )


CLAIMS = (its_written_out_gradient_of_pairs_is_that_of_the_loss,)
