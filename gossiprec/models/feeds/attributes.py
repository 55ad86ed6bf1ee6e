"""Feeds of labelled items together with the attributes of the node's own user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gossiprec.base.arrays import F32, I64, Bools
from gossiprec.base.errors import DataError
from gossiprec.base.features import FeatureTable
from gossiprec.base.ragged import Ragged
from gossiprec.data.training_data import TrainingData
from gossiprec.models.feeds.base import Columns, PointwiseFeed

if TYPE_CHECKING:
    from gossiprec.data.split import Split


class AttributedFeed(PointwiseFeed):
    """Samples of labelled items with ``attributes``, those of the node's user.

    A query of a user's own node has them, too; a query of another node, as of an attack, has none.

    Parameters
    ----------
    positives : Ragged
        Training items, one set per node.
    n_items : int
    attributes : ndarray of float32, shape (n_nodes, width)
    """

    def __init__(self, positives: Ragged, n_items: int, attributes: F32) -> None:
        super().__init__(positives, n_items)
        self.attributes = attributes

    @classmethod
    def of_columns(
        cls, split: TrainingData, columns: Sequence[str], *, option: str, allow_unknown: bool = False
    ) -> AttributedFeed:
        """Return the feed with some columns of labels: the share of each label, column by column.

        Parameters
        ----------
        split : TrainingData
        columns : sequence of str
        option : str
            The key of the scenario that names them, for messages.
        allow_unknown : bool
            Whether a user may have no label; its shares are then 0.

        Raises
        ------
        DataError
            If the data lack a column, or a user with training items has no label in it.
        """
        table = features_of(split.user_features, "users", split.name, columns, option)
        if not allow_unknown:
            require_labels(
                table, "users", columns, option, names=split.user_names, among=split.train.sizes > 0
            )
        shares = [table.labels(name).shares() for name in columns]
        return cls(split.train, split.n_items, np.concatenate(shares, axis=1))

    def samples(self, node: int, *, update: int, negatives: int, seed: int) -> Columns:
        """Return the labelled items, each with the user's attributes."""
        found = super().samples(node, update=update, negatives=negatives, seed=seed)
        return {**found, "attributes": np.repeat(self.attributes[node, None], len(found["items"]), axis=0)}

    def samples_of_all(self, *, update: int, negatives: int, seed: int) -> Columns:
        """Return the samples of all nodes, drawn at once."""
        found = super().samples_of_all(update=update, negatives=negatives, seed=seed)
        return {**found, "attributes": self.attributes[found["user"]]}

    def restricted_to(self, nodes: I64) -> AttributedFeed:
        """Return the data of some nodes; all other nodes have no items and unknown attributes."""
        kept = np.zeros_like(self.attributes)
        kept[nodes] = self.attributes[nodes]
        items = PointwiseFeed(self.positives, self.n_items).restricted_to(nodes)
        return type(self)(items.positives, self.n_items, kept)

    def for_user(self, node: int) -> AttributedFeed:
        """Return the data of one node, as the data of node 0."""
        items = Ragged.from_parts([self.positives[node]])
        return type(self)(items, self.n_items, self.attributes[node, None])

    def for_sets(self, sets: Ragged, n_items: int) -> AttributedFeed:
        """Return the training data of nodes with these sets of items and unknown attributes."""
        attributes = np.zeros((len(sets), *self.attributes.shape[1:]), self.attributes.dtype)
        return type(self)(sets, n_items, attributes)

    def histories(self, split: Split, before: str) -> Columns:
        """Return each user's attributes, for queries of the user's own node."""
        return {"attributes": self.attributes[: split.n_users]}


def features_of(
    table: FeatureTable | None, of: str, data: str, columns: Sequence[str], option: str
) -> FeatureTable:
    """Return the attributes of users or of items, which have some columns of labels.

    Parameters
    ----------
    table : FeatureTable or None
    of : str
        ``users`` or ``items``.
    data : str
        The name of the data.
    columns : sequence of str
    option : str
        The key of the scenario that names the columns.

    Raises
    ------
    DataError
        If there are no attributes, or a column is missing or has numbers.
    """
    if table is None:
        raise DataError(
            f"{option}: found {', '.join(columns)}, but {data} has no attributes of {of}; name a table with "
            f"dataset.{of[:-1]}_features: {{path: FILE}}"
        )
    for name in columns:
        table.labels(name)
    return table


def require_labels(
    table: FeatureTable,
    of: str,
    columns: Sequence[str],
    option: str,
    *,
    names: Sequence[str] | None = None,
    among: Bools | None = None,
) -> None:
    """Refuse users or items that have no label in a column.

    Parameters
    ----------
    table, of, columns, option
        As in :func:`features_of`.
    names : sequence of str, optional
        Names in the data.
    among : ndarray of bool, shape (n_rows,), optional
        The rows that count; by default all.

    Raises
    ------
    DataError
        If there are such; the message names the first.
    """
    for name in columns:
        lacking = np.flatnonzero(~table.labels(name).known & (True if among is None else among))
        if len(lacking):
            first = names[lacking[0]] if names else lacking[0]
            raise DataError(
                f"{option}: found no {name} for {len(lacking)} of the {of} in {table.source_summary}, such as {first}; "
                "expected a label for each; complete the table, or allow unknown labels (deepfm: model.unknown: zero)"
            )
