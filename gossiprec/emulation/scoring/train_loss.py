"""The training loss of the models that a report evaluates.

References
----------
PerFedRec++ (specification, section 5), whose Fig. 3 shows the training loss by round.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gossiprec.base.arrays import I64
from gossiprec.compute.executors.base import Executor
from gossiprec.models.base.graph import GraphModel
from gossiprec.models.base.sequence_model import SequenceModel
from gossiprec.models.feeds.base import Columns

BLOCK = 512
"""Number of users whose models are read together."""


def train_loss(executor: Executor, current: I64, n_users: int) -> float:
    """Return the mean over users of the model's loss on their own training samples.

    The samples are those of each user's first local update, with the same negatives at every report. What a recommender
    adds to the loss, drift penalties and noise do not count; rows do not drop out. Users without samples are left out.

    Parameters
    ----------
    executor : Executor
    current : ndarray of int64, shape (n_nodes,)
        The row of each node's present model.
    n_users : int

    Returns
    -------
    float
        NaN if no user has a sample.
    """
    work = executor.work
    users = np.flatnonzero(work.feed.n_samples(work.training.negatives)[:n_users])
    found = [
        loss
        for low in range(0, len(users), BLOCK)
        for loss in _losses(executor, users[low : low + BLOCK], current)
    ]
    return float(np.mean(found)) if found else float("nan")


def _losses(executor: Executor, users: I64, current: I64) -> Iterator[float]:
    import torch

    from gossiprec.compute.executors.tensors import constants_to_tensors, table_views, to_tensor
    from gossiprec.numerics.torch_threads import single_torch_thread

    work, readable = executor.work, executor.store.readable(current, users)
    model, constants, layout = work.model, constants_to_tensors(work.model.constants), readable.layout
    negatives = work.training.negatives
    # with only the rows of its own items, a user's loss takes a tenth of the time
    whole = bool(constants) or (isinstance(model, SequenceModel) and model.needs_all_items)
    with torch.no_grad(), single_torch_thread():
        for place, node in enumerate(users.tolist()):
            samples = work.feed.samples(node, update=0, negatives=negatives, seed=work.seed)
            some = None if whole else _touched(samples, work.feed.item_columns)
            if some is not None:
                samples = {**samples, **_renumbered(samples, work.feed.item_columns, some)}
            batch = {name: to_tensor(column) for name, column in samples.items()}
            batch["user"] = torch.zeros(1, dtype=torch.int64)
            batch["weights"] = torch.ones(len(next(iter(samples.values()))))
            row = np.asarray(readable.rows[readable.row[place]], np.float32)  # float16 alone is copied
            tables, user = table_views(layout, torch.from_numpy(row)), int(readable.user[place])
            own = {**tables, "users": tables["users"][user : user + 1]} if "users" in tables else tables
            if some is not None:
                own = {**own, "items": own["items"][torch.from_numpy(some)]}
            p = {**layout.named(own), **constants}
            if isinstance(model, GraphModel):
                p = dict(model.encode_own(p, batch))
            yield float(model.loss(p, batch))


def _touched(samples: Columns, names: tuple[str, ...]) -> I64:
    """Return all items in some samples, ascending."""
    items = np.unique(np.concatenate([samples[name].ravel() for name in names]))
    return np.asarray(items[items >= 0], np.int64)


def _renumbered(samples: Columns, names: tuple[str, ...], items: I64) -> Columns:
    """Return the columns of items as positions among `items`; -1 means no item."""
    return {
        name: np.where(samples[name] >= 0, np.searchsorted(items, samples[name]), -1).astype(np.int32)
        for name in names
    }
