"""Groups of users: by an attribute, by activity, or by popularity of items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gossiprec.base.arrays import F64, I64, Bools
from gossiprec.base.errors import ScenarioError
from gossiprec.base.features import LabelColumn
from gossiprec.base.ragged import Ragged
from gossiprec.data.split import Split, display_name
from gossiprec.measures import MeasureData
from gossiprec.measures.ranking import user_means
from gossiprec.measures.selectors import FILTERS, baseline_metric_name, read_metric
from gossiprec.scenario import Scenario
from gossiprec.scenario.sections import ACTIVITY, POPULARITY, UserGroups

UNKNOWN = "unknown"
"""Name of the group of users without a value."""
FORBIDDEN = "[],"
"""Characters that names of groups may not have, because studies choose measures by ``recall@20[gender=F]``."""


@dataclass(frozen=True)
class UserGroup:
    """A group of users.

    Attributes
    ----------
    by, name : str
        What the groups differ in, and the value of this one, or its number.
    users : ndarray of int64
        Ascending.
    bounds : tuple of float or None
        The lowest and the highest number of a user, for groups by numbers.
    """

    by: str
    name: str
    users: I64
    bounds: tuple[float, float] | None = None

    def metric_name(self, metric: str) -> str:
        """Return the name of a metric of this group."""
        return baseline_metric_name(metric, f"{self.by}={self.name}")

    def summary(self, split: Split) -> dict[str, Any]:
        """Return its size, for the summary of a run."""
        low, high = self.bounds or (None, None)
        tested = int(np.count_nonzero(split.test.sizes[self.users]))
        bounds = {} if low is None else {"low": low, "high": high}
        return {"by": self.by, "group": self.name, "users": len(self.users), "tested": tested, **bounds}


def make_groups(scenario: Scenario, split: Split) -> list[UserGroup]:
    """Return the groups of users of a scenario.

    Raises
    ------
    ScenarioError
        If there is no such attribute, a user has no value of it, or a group is too small.
    DataError
        If there is no such column.
    """
    found = [group for choice in scenario.evaluate.group_choices for group in _groups(choice, split)]
    for choice in scenario.evaluate.group_choices:
        for group in found:
            if group.by == choice.by and len(group.users) < choice.least:
                names = ", ".join(display_name(split.user_names, user) for user in group.users[:3].tolist())
                raise ScenarioError(
                    f"evaluate.groups: {_source(choice, split)}: found {len(group.users)} user ({names}) in the group "
                    f"{group.by}={group.name}; expected at least {choice.least}, because a mean over so few says "
                    f"little and exposes a person; group by another column, or set least: {len(group.users)}"
                )
    return found


def _source(choice: UserGroups, split: Split) -> str:
    table = None if choice.by in (ACTIVITY, POPULARITY) else split.user_features
    return split.name if table is None else table.source_summary


def _groups(choice: UserGroups, split: Split) -> Iterator[UserGroup]:
    if choice.by == ACTIVITY:
        yield from _by_number(choice, split.train.sizes.astype(np.float64))
        return
    if choice.by == POPULARITY:
        popularity = MeasureData.of(split).popularity
        values = popularity[split.train.values].astype(np.float64)
        yield from _by_number(choice, user_means(values, split.train.offsets))
        return
    if split.user_features is None:
        raise ScenarioError(
            f"evaluate.groups: found by: {choice.by}, but the data set {split.name} has no attributes of users; "
            f"expected {ACTIVITY} or {POPULARITY}; name a table with dataset.user_features: {{path: FILE}}"
        )
    column = split.user_features[choice.by]
    _require_sayable(choice, split)
    _require_known(choice, split, column.known)
    if isinstance(column, LabelColumn):
        yield from _by_label(choice, column)
    else:
        yield from _by_number(choice, column.values)
    unknown = np.flatnonzero(~column.known)
    if len(unknown):
        yield UserGroup(choice.by, UNKNOWN, unknown)


def _require_sayable(choice: UserGroups, split: Split) -> None:
    """Refuse a column of which no study could name the groups."""
    column = split.user_features and split.user_features[choice.by]
    labels = column.labels if isinstance(column, LabelColumn) else ()
    wrong = [label for label in labels if set(label) & set(FORBIDDEN) or not label.isprintable()]
    if choice.by in FILTERS or not choice.by.isidentifier():
        wrong = [choice.by]
    if wrong:
        raise ScenarioError(
            f"evaluate.groups: {_source(choice, split)}: found {wrong[0]!r} in column {choice.by}; expected a column "
            "named by letters, digits and _, other than labels of attacks, and values without [ ] and commas; rename it"
        )


def _require_known(choice: UserGroups, split: Split, known: Bools) -> None:
    unknown = np.flatnonzero(~known)
    if len(unknown) and choice.unknown == "refuse":
        name = display_name(split.user_names, int(unknown[0]))
        raise ScenarioError(
            f"evaluate.groups: {_source(choice, split)}: found no {choice.by} of {len(unknown)} users, the first is "
            f"user {name}; expected a line with one for every user; add them, or set unknown: group"
        )


def _by_label(choice: UserGroups, column: LabelColumn) -> Iterator[UserGroup]:
    members = Ragged.sets_from_pairs(column.codes.values, column.codes.row_of_each_value, len(column.labels))
    for code, label in enumerate(column.labels):
        if len(members[code]):
            yield UserGroup(choice.by, label, members[code].astype(np.int64))


def _by_number(choice: UserGroups, values: F64) -> Iterator[UserGroup]:
    """Yield a group per value if there are few, or else groups of equal size, from the lowest on."""
    users = np.flatnonzero(~np.isnan(values))
    different = np.unique(values[users])
    if choice.by not in (ACTIVITY, POPULARITY) and len(different) <= choice.parts:
        for value in different.tolist():
            yield UserGroup(choice.by, f"{value:g}", np.flatnonzero(values == value), (value, value))
        return
    if len(users) < choice.parts:
        raise ScenarioError(
            f"evaluate.groups: found parts: {choice.parts} by {choice.by}, but only {len(users)} users; lower parts"
        )
    for number, places in enumerate(split_into_groups(values[users], choice.parts), 1):
        own = np.sort(users[places])
        yield UserGroup(choice.by, str(number), own, (float(values[own].min()), float(values[own].max())))


def split_into_groups(sizes: I64 | F64, n_groups: int) -> list[I64]:
    """Divide users by a number of each into groups of equal size; earlier groups may have one more.

    Parameters
    ----------
    sizes : ndarray, shape (n_users,)
        Users in the order of their ids.
    n_groups : int
        Not above ``n_users``.

    Returns
    -------
    list of ndarray of int64
        Positions in `sizes`: groups ascend by size, and so do users within a group; lower ids come first on ties.
    """
    return np.array_split(np.argsort(sizes, kind="stable"), n_groups)


def check_evaluation(scenario: Scenario, split: Split) -> None:
    """Check that the measures and groups of a scenario can be made for its data.

    Raises
    ------
    ScenarioError, DataError
        If they cannot.
    """
    data = MeasureData.of(split)
    for metric in scenario.evaluate.metrics:
        read_metric(metric).measure(data)
    make_groups(scenario, split)
