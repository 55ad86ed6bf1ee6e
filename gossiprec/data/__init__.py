"""Data sets and split rules: interactions, and their division into training, validation and test.

Importing this package is cheap: numpy and the members are imported when a data set is first used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gossiprec.base.registry import Registry

if TYPE_CHECKING:
    from gossiprec.base.features import FeatureFiles
    from gossiprec.base.options import Options
    from gossiprec.data.base import Dataset, SplitRule
    from gossiprec.data.split import Split

DATASETS: Registry[type[Dataset]] = Registry("dataset", __name__, group="datasets")
SPLITS: Registry[type[SplitRule]] = Registry("split", __name__, group="splits")


def load_split(
    dataset_name: str,
    dataset_options: Mapping[str, Any] | Options,
    split_name: str,
    split_options: Mapping[str, Any] | Options,
    seed: int,
    limit_users: int | None = None,
    features: FeatureFiles | None = None,
    without: Sequence[int | str] = (),
) -> Split:
    """Read or draw a data set and cut it into training, validation and test items.

    Parameters
    ----------
    dataset_name, split_name : str
        Registered names.
    dataset_options, split_options : mapping or Options
        The checked options, or the mapping of a scenario.
    seed : int
        Seed of the run; it decides only synthetic data and random splits.
    limit_users : int, optional
        Keep only the first `limit_users` users, after the split.
    features : FeatureFiles, optional
        The tables of attributes; without it, no attributes are read.
    without : sequence of int or str
        Users without data, by node id or name, after the split.

    Raises
    ------
    ScenarioError
        If a name or an option is unknown.
    DataError
        If the data are missing, damaged, or too few for the split.
    """
    from gossiprec.data import loading

    kind, rule = DATASETS[dataset_name], SPLITS[split_name]
    checked = loading.validate_dataset_options
    dataset = kind(checked(kind.Options, dataset_options, f"dataset {dataset_name}"))
    divide = rule(checked(rule.Options, split_options, f"split {split_name}"))
    _, split = loading.load_and_split(dataset, divide, seed)
    if features is not None:
        split = loading.with_features(split, dataset, features)
    split = split if limit_users is None else loading.keep_first_users(split, limit_users)
    return loading.remove_users(split, without) if without else split
