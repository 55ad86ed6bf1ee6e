"""Data as far as sizes go: without drawing what would take long to draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gossiprec.data import DATASETS, load_split
from gossiprec.data.loading import validate_dataset_options
from gossiprec.data.split import Split
from gossiprec.options import Options

MOST_DRAWN = 40_000
"""Interactions that are drawn to say what a user has: a fifth of a second."""
LEAST_USERS = 50
BYTES_TO_DRAW = 160
"""Memory that drawing an interaction takes, at its peak."""


@dataclass(frozen=True)
class DataSizes:
    """Sizes of data, and what their users have.

    Attributes
    ----------
    split : Split
        The data; or, if they were not drawn, a smaller set in their likeness.
    n_users, n_interactions : int
        Of the data themselves; interactions that were not drawn are estimated.
    whole : bool
        Whether `split` is all of the data.
    bytes_to_draw : int
        Memory that drawing them takes; 0 for data that are here.
    """

    split: Split
    n_users: int
    n_interactions: int
    whole: bool
    bytes_to_draw: int = 0

    @classmethod
    def of(cls, split: Split) -> DataSizes:
        """Return that of data that are here."""
        return cls(split, split.n_users, split.n_interactions, whole=True)


def estimate_sizes(
    dataset_name: str,
    dataset_options: Mapping[str, Any] | Options,
    split_name: str,
    split_options: Mapping[str, Any] | Options,
    seed: int,
    limit_users: int | None = None,
) -> DataSizes | None:
    """Return what :func:`~gossiprec.data.load_split` would give, as far as sizes go, where drawing it would take long.

    None where the data are read, or drawn at once.

    Raises
    ------
    ScenarioError, DataError
        As of :func:`~gossiprec.data.load_split`.
    """
    kind = DATASETS[dataset_name]
    options = validate_dataset_options(kind.Options, dataset_options, f"dataset {dataset_name}")
    drawn = kind(options).drawn
    if drawn is None or drawn.n_interactions <= MOST_DRAWN or (limit_users or 0) > drawn.n_users:
        return None
    share = MOST_DRAWN / drawn.n_interactions
    few = drawn.like(min(drawn.n_users, max(LEAST_USERS, round(share * drawn.n_users))))
    split = load_split(dataset_name, few, split_name, split_options, seed)
    n_users = min(drawn.n_users, limit_users or drawn.n_users)
    each = split.n_interactions / split.n_users
    to_draw = BYTES_TO_DRAW * drawn.n_interactions
    return DataSizes(split, n_users, round(each * n_users), whole=False, bytes_to_draw=to_draw)
