"""Semi-hard negatives from two sides: near the user's row, or near the mean row of the user's items.

References
----------
W. Yuan, H. Yin, F. Wu, S. Zhang, T. He, H. Wang, "Federated Unlearning for On-Device Recommendation", WSDM 2023 (arXiv
2210.10958), section 3.2: user-item mixed semi-hard negative sampling, by which FRU's clients touch, and so store, fewer
items. Items are near by Euclidean distance, as there.

Notes
-----
The paper draws N * beta negatives per client: set ``training.negatives`` to beta times the usual number. The paper
leaves open, and here: both sides always count; rows are those of the version that the client was sent; negatives are
drawn once per local update, without repetition if the pool is large enough; of equal distances the first item is taken.
"""

from __future__ import annotations

import math

import numpy as np
from pydantic import Field

from gossiprec.base.arrays import F32, I32
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import Options
from gossiprec.base.registry import registry_name
from gossiprec.federated import RECOMMENDERS, ClientContext, Recommender
from gossiprec.federated.user_vectors import item_table, vector_dim
from gossiprec.models.base import Layout
from gossiprec.models.feeds.base import Columns


class SemiHardOptions(Options):
    """Options of semi-hard negatives."""

    pool: float = Field(default=0.1, gt=0, le=1)
    """fraction of all items that each side adds to the pool from which negatives are drawn (the paper's R)"""


def semi_hard_pool(rows: F32, user: F32, positives: I32, number: int) -> I32:
    """Return the items near a user or near the mean of the user's items, ascending, without these items.

    Parameters
    ----------
    rows : ndarray of float32, shape (n_items, d)
    user : ndarray of float32, shape (d,)
    positives : ndarray of int32
        The user's items, at least one.
    number : int
        Number of items from each side.
    """
    others = np.setdiff1d(np.arange(len(rows), dtype=np.int32), positives)
    near = []
    for centre in (user.astype(np.float64), rows[positives].astype(np.float64).mean(axis=0)):
        distance = np.square(rows[others] - centre).sum(axis=1)
        near.append(others[np.argsort(distance, kind="stable")[:number]])
    return np.union1d(*near).astype(np.int32)


@RECOMMENDERS.register("semi-hard")
class SemiHard(Recommender):
    """Training without an added loss, by negatives near the user's row or near the mean row of the user's items."""

    Options = SemiHardOptions
    options: SemiHardOptions
    adds_to_loss = False

    def check(self, layout: Layout, *, full_batches: bool) -> None:
        """Refuse models of which users' and items' rows cannot be compared."""
        super().check(layout, full_batches=True)
        if layout.user_width != vector_dim(layout):
            raise ScenarioError(
                f"recommender: {registry_name(self)} compares the rows of users and items, but those of "
                f"{registry_name(self.model)} have {layout.user_width} and {vector_dim(layout)} numbers; choose "
                "gmf, mf or ncf"
            )

    def transform_samples(self, drawn: Columns, client: ClientContext, draw: np.random.Generator) -> Columns:
        """Return the client's samples with other negatives."""
        rows = item_table(client.layout, client.version)
        number = math.ceil(self.options.pool * len(rows))
        is_negative = drawn["labels"] == 0
        n_negatives = int(is_negative.sum())
        if not n_negatives or len(client.positives) in (0, len(rows)):
            return drawn
        pool = semi_hard_pool(rows, client.own, client.positives, number)
        items = drawn["items"].copy()
        items[is_negative] = draw.choice(pool, n_negatives, replace=n_negatives > len(pool))
        return {**drawn, "items": items}
