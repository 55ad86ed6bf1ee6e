"""The classes of users by one of their attributes."""

from __future__ import annotations

import numpy as np

from gossiprec.base.arrays import I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.features import LabelColumn, NumberColumn
from gossiprec.data.split import Split


def user_classes(split: Split, name: str, bins: tuple[float, ...]) -> tuple[tuple[str, ...], I64]:
    """Return the classes of a column of users, and the class of each user, -1 if unknown.

    Parameters
    ----------
    split : Split
    name : str
    bins : tuple of float
        Borders of the classes of a column of numbers.

    Raises
    ------
    ScenarioError
        If the data have no attributes, a user has several labels, numbers have no borders, or there is one class only.
    DataError
        If there is no such column.
    """
    where = f"observers: attribute {name}"
    if split.user_features is None:
        raise ScenarioError(
            f"{where}: found no attributes of users in the data set {split.name}; expected a column {name}; name a "
            "table with dataset.user_features: {path: FILE}"
        )
    column = split.user_features[name]
    names, codes = (
        _label_classes(where, column)
        if isinstance(column, LabelColumn)
        else _number_classes(where, column, bins)
    )
    present = np.unique(codes[codes >= 0])
    if len(present) < 2:
        found = f"the class {names[present[0]]} only" if len(present) else "no value of any user"
        raise ScenarioError(
            f"{where}: found {found} in {split.user_features.source_summary}; expected at least two classes; choose "
            "another attribute, or other bins"
        )
    return tuple(names[code] for code in present.tolist()), np.where(
        codes < 0, -1, np.searchsorted(present, codes)
    )


def _label_classes(where: str, column: LabelColumn) -> tuple[tuple[str, ...], I64]:
    several = np.flatnonzero(column.codes.sizes > 1)
    if len(several):
        raise ScenarioError(
            f"{where}: found {column.codes.sizes[several[0]]} labels of user {several[0]}; expected at most one; "
            "choose another attribute"
        )
    codes = np.full(len(column.codes), -1, np.int64)
    codes[column.known] = column.codes.values
    return column.labels, codes


def _number_classes(where: str, column: NumberColumn, bins: tuple[float, ...]) -> tuple[tuple[str, ...], I64]:
    if not bins:
        raise ScenarioError(
            f"{where}: found numbers; expected borders of classes; set bins: [25, 45], for example"
        )
    lows, highs = [f"{low:g}" for low in bins], [f"{high:g}" for high in bins[1:]]
    names = (
        f"below {lows[0]}",
        *(f"{a} to {b}" for a, b in zip(lows, highs, strict=False)),
        f"{lows[-1]} or more",
    )
    codes = np.where(column.known, np.searchsorted(np.array(bins), column.values, side="right"), -1)
    return names, codes
