"""Uploads that protect users: perturbed vectors by a version of a sequence model, and pairs with pseudo items.

A vector is the state after a user's whole history. Perturbing it clips its L1 norm and adds Laplace noise.

References
----------
The FedCL paper (specification, section 6). C. Dwork, A. Roth, "The algorithmic foundations of differential privacy",
2014, theorems 3.6 (the Laplace mechanism) and 3.16 (composition): two vectors of L1 norm up to `bound` are
up to ``2 bound`` apart, so that noise of scale ``2 bound / epsilon`` on each number spends epsilon each time.

With pseudo items, a share of a client's pairs uses items that it has never taken, so that an upload proves nothing.
The PerFedRec++ paper (specification, section 5), as in its published code: pairs are replaced, so that some taken
items may be masked as well. That code draws a pseudo item and its negative among all items, so that either
may be one that the user has taken, and both may be the same (`among` all); otherwise neither is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F32, F64, I32, I64
from gossiprec.base.ragged import Ragged
from gossiprec.models.base import BlockRole, Layout
from gossiprec.models.base.kernel_interface import CompiledGradient, has_compiled_states
from gossiprec.models.base.sequence_model import SequenceModel
from gossiprec.models.feeds.base import Columns
from gossiprec.models.feeds.sequences import pad_row
from gossiprec.numerics.torch_setup import single_torch_thread
from gossiprec.rules.servers import CALLING_THREAD, ThreadPoolLike

AT_ONCE = 16
"""Number of users per block, always the same: the last user is repeated in the last block."""


def compute_user_vectors(
    model: SequenceModel, layout: Layout, version: F32, histories: Sequence[I32], users: F32,
    threads: ThreadPoolLike = CALLING_THREAD,
) -> F32:  # fmt: skip
    """Return the vector of each user, shape (n, d); its bytes do not depend on the other users.

    Parameters
    ----------
    model : SequenceModel
    layout : Layout
        Of whole models.
    version : ndarray of float32, shape (n_columns,)
        ``[items | shared]``.
    histories : sequence of ndarray of int32
        The items that each user has taken, in the order of time.
    users : ndarray of float32, shape (n, user_width)
        Rows of users, for models that have such rows.
    threads : ThreadPoolLike
        Threads for compiled code; other models run on one thread.
    """
    gradient = model.gradient() if has_compiled_states(model) else None
    if gradient is not None and gradient.read_state is not None:
        return _read(gradient, layout, version, histories, threads)
    return _looked_at(model, layout, version, histories, users)


def _read(
    gradient: CompiledGradient,
    layout: Layout,
    version: F32,
    histories: Sequence[I32],
    threads: ThreadPoolLike,
) -> F32:
    """Return the vectors by compiled code, for models without rows of users."""
    found = np.empty((len(histories), vector_dim(layout)), np.float32)
    table, weights = item_table(layout, version), version[len(version) - layout.n_shared :]

    def read(part: int) -> None:
        for state, history in zip(found[part :: threads.size], histories[part :: threads.size], strict=True):
            gradient.read_state(weights, table, np.asarray(history, np.int32), gradient.shape, state)

    threads.run(read)
    return found


def _looked_at(
    model: SequenceModel, layout: Layout, version: F32, histories: Sequence[I32], users: F32
) -> F32:
    """Return the vectors by tensors, several users together."""
    import torch

    tables = layout.version_tables(torch.from_numpy(np.require(version, requirements=["C", "W"])))
    rows = [pad_row(history) for history in histories]
    widths = np.array([row.shape[1] for row in rows])
    parts = [
        some[low : low + AT_ONCE]
        for some in (np.flatnonzero(widths == width) for width in np.unique(widths).tolist())
        for low in range(0, len(some), AT_ONCE)
    ]
    found = np.empty((len(rows), vector_dim(layout)), np.float32)
    with torch.no_grad(), single_torch_thread():
        for part in parts:
            each = part[np.minimum(np.arange(AT_ONCE), len(part) - 1)]
            own = {"users": torch.from_numpy(users[each])} if layout.user_width else {}
            history = torch.from_numpy(np.concatenate([rows[k] for k in each]).astype(np.int64))
            states = model.state_after(
                layout.blocks_by_name({**own, **tables}), history, torch.arange(AT_ONCE)
            )
            found[part] = states.numpy()[: len(part)]
    return found


def item_table(layout: Layout, version: F32) -> F32:
    """Return the item rows that states are multiplied with, a view of the version, shape (n_items, d)."""
    table, at = layout.version_tables(version)["items"], 0  # a table of all blocks of items
    for block in layout.blocks_of_role(BlockRole.ITEM):
        if block.name == "items":
            break
        at += block.width
    return table[:, at : at + vector_dim(layout)]


def vector_dim(layout: Layout) -> int:
    """Return the width of users' vectors, which is the width of items' rows."""
    return next(block.width for block in layout.blocks if block.name == "items")


def set_mean_matrix(sets: Ragged, n_items: int) -> Any:
    """Return the matrix that turns values of items into the mean over each set, sparse, shape (n_sets, n_items)."""
    from scipy import sparse

    share = np.repeat(1.0 / np.maximum(sets.sizes, 1), sets.sizes).astype(np.float32)
    return sparse.csr_array((share, sets.values, sets.offsets), shape=(len(sets), n_items))


_SHORT = np.finfo(np.float32)
LARGEST_SCALE = float(_SHORT.max) / 1e3
"""Largest scale of noise: draws never reach a thousand times as much."""
SMALLEST_SCALE = float(_SHORT.tiny)


def laplace_scale(bound: float, epsilon: float) -> float:
    """Return the scale of the noise that spends a budget of epsilon.

    Parameters
    ----------
    bound : float
        L1 norm that no vector exceeds.
    epsilon : float

    Raises
    ------
    ValueError
        If the noise would be infinite or zero in numbers of 32 bits.
    """
    scale = 2.0 * bound / epsilon if epsilon > 0 else np.inf
    if not SMALLEST_SCALE <= scale <= LARGEST_SCALE:
        kind = "none" if scale < SMALLEST_SCALE else "infinite"
        raise ValueError(
            f"found epsilon {epsilon:g} with clip {bound:g}, for which noise of scale {scale:g} would be "
            f"{kind}; set an epsilon such as 4, or null for no noise"
        )
    return scale


def clip_l1(vectors: F32, bound: float) -> F64:
    """Return the vectors, shape (n, d), scaled down to the L1 norm `bound` if their norm is larger."""
    exact = vectors.astype(np.float64)
    norms = np.abs(exact).sum(axis=-1, keepdims=True)
    return np.asarray(exact * np.minimum(1.0, bound / np.maximum(norms, bound)))


def add_laplace_noise(vectors: F64, scale: float, draws: list[np.random.Generator]) -> F32:
    """Return vectors with Laplace noise, each from its own draws, shape (n, d)."""
    noise = [draw.laplace(0.0, scale, vectors.shape[1]) for draw in draws]
    return (vectors + np.array(noise).reshape(vectors.shape)).astype(np.float32)


def add_pseudo_items(
    samples: Columns,
    *,
    n_items: int,
    share: float,
    draw: np.random.Generator,
    positives: I32,
    among: Literal["others", "all"] = "others",
) -> Columns:
    """Replace a share of pairs by a pseudo item with a random negative.

    A pseudo item is uniform over the items that the user has not taken, its negative over the same items without the
    pseudo item; all are independent. Replaced pairs are uniform: of a positive with several negatives some may stay.

    Parameters
    ----------
    samples : mapping of str to ndarray, shape (n_pairs,)
        ``items`` and ``negatives``, int32, and possibly more columns, which stay as they are.
    n_items : int
    share : float
        From 0, for none, to 1: ``max(1, floor(share * n_pairs))`` pairs are replaced.
    draw : Generator
    positives : ndarray of int32, shape (n_positives,)
        The user's items, ascending, each once.
    among : {'others', 'all'}
        Others: see above. All: a pseudo item and its negative are independent and uniform over all items.

    Returns
    -------
    mapping of str to ndarray, shape (n_pairs,)
        New arrays of the same types. Nothing is replaced for users of a single item, who would lose their only pair,
        and for users with less than two items not taken: one as pseudo item, one as its negative.
    """
    found = {name: column.copy() for name, column in samples.items()}
    n_pairs, n_others = len(samples["items"]), n_items - len(positives)
    if not share or not n_pairs or len(positives) < 2 or (among == "others" and n_others < 2):
        return found
    number = max(1, int(share * n_pairs))
    replaced = draw.choice(n_pairs, number, replace=False)
    if among == "all":
        found["items"][replaced] = draw.integers(n_items, size=number)
        found["negatives"][replaced] = draw.integers(n_items, size=number)
        return found
    pseudo = draw.integers(n_others, size=number)
    negative = draw.integers(n_others - 1, size=number)
    negative += negative >= pseudo
    found["items"][replaced] = complement_by_rank(positives, pseudo)
    found["negatives"][replaced] = complement_by_rank(positives, negative)
    return found


def complement_by_rank(taken: npt.NDArray[np.integer], ranks: I64) -> I64:
    """Return nonnegative numbers that are not in `taken`, by their rank among such numbers.

    Parameters
    ----------
    taken : ndarray of int, shape (n,)
        Ascending, each once, from 0 on.
    ranks : ndarray of int64, any shape
        From 0 on: 0 is the least number that is not in `taken`.

    Returns
    -------
    ndarray of int64, of the shape of `ranks`
    """
    lower = taken.astype(np.int64) - np.arange(len(taken))  # numbers below each that are not taken
    return np.asarray(ranks + np.searchsorted(lower, ranks, side="right"), np.int64)
