"""Sizes of data sets: the data themselves, or a small sample of data that take long to draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gossiprec.base.features import FeatureFiles
from gossiprec.base.options import Options
from gossiprec.data import DATASETS, load_split
from gossiprec.data.loading import validate_dataset_options
from gossiprec.data.split import Split

MAX_SAMPLE = 40_000
"""Interactions that are drawn to estimate the items per user, which takes 0.2 s."""
MIN_USERS = 50
BYTES_TO_DRAW = 160
"""Peak memory in bytes that drawing an interaction takes."""


@dataclass(frozen=True)
class DataSizes:
    """Sizes of data, and a split that shows the items per user.

    Attributes
    ----------
    split : Split
        The data or, if they were not drawn, a smaller similar set.
    n_users, n_interactions : int
        Sizes of the data themselves; the number of interactions is an estimate if they were not sizes.
    whole : bool
        Whether `split` is all of the data.
    bytes_to_draw : int
        Peak memory of drawing the data; 0 if they are loaded already.
    """

    split: Split
    n_users: int
    n_interactions: int
    whole: bool
    bytes_to_draw: int = 0

    @classmethod
    def of(cls, split: Split) -> DataSizes:
        """Return the sizes of loaded data."""
        return cls(split, split.n_users, split.n_interactions, whole=True)


def estimate_sizes(
    dataset_name: str,
    dataset_options: Mapping[str, Any] | Options,
    split_name: str,
    split_options: Mapping[str, Any] | Options,
    seed: int,
    limit_users: int | None = None,
    features: FeatureFiles | None = None,
) -> DataSizes | None:
    """Return the sizes of the data of :func:`~gossiprec.data.load_split` if drawing them takes long.

    The result is None if the data are read from a file, are small enough to be drawn at once, or have attributes.

    Raises
    ------
    ScenarioError, DataError
        On the conditions of :func:`~gossiprec.data.load_split`.
    """
    kind = DATASETS[dataset_name]
    options = validate_dataset_options(kind.Options, dataset_options, f"dataset {dataset_name}")
    sizes = kind(options).synthetic_sizes
    if (
        features is not None
        or sizes is None
        or sizes.n_interactions <= MAX_SAMPLE
        or (limit_users or 0) > sizes.n_users
    ):
        return None
    share = MAX_SAMPLE / sizes.n_interactions
    few = sizes.like(min(sizes.n_users, max(MIN_USERS, round(share * sizes.n_users))))
    split = load_split(dataset_name, few, split_name, split_options, seed)
    n_users = min(sizes.n_users, limit_users or sizes.n_users)
    each = split.n_interactions / split.n_users
    to_draw = BYTES_TO_DRAW * sizes.n_interactions
    return DataSizes(split, n_users, round(each * n_users), whole=False, bytes_to_draw=to_draw)
