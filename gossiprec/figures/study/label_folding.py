"""Folding of attack labels that the axes of a study already explain.

A study that varies who colludes has an attack of another name at each value, such as ``coalition-5%`` and
``coalition-10%``. A label that follows from the axes is left out of the quantity, so that one quantity covers the
whole study.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from gossiprec.figures.study.quantity import Quantity

Points = TypeVar("Points", bound=Mapping[Any, Any])

_OBSERVER = re.compile(r"(?P<who>\w+?)(?P<share>-[\d.e+-]+%|-\d+-nodes)?(?P<place>-.*)?")
_PARTS = ("who", "share", "place")
_COLUMNS = ("relevance", "momentum", "community_size")


def fold_labels(
    values: Mapping[Quantity, Points], join: Callable[[list[Points]], Points]
) -> dict[Quantity, Points]:
    """Return values in which quantities that differ only by the axes are joined.

    Two quantities are joined if they have the same name, differ in some labels, and no combination of the
    axes has both: the labels are then a function of the combination. As few labels as possible are left out.

    Parameters
    ----------
    values : mapping of Quantity to mapping
        Value of each quantity at each combination.
    join : callable
        Joins several mappings without a common key.
    """
    found = dict(values)
    for name in dict.fromkeys(quantity.name for quantity in values):
        for columns in _subsets(_labels_of(quantity) for quantity in found if quantity.name == name):
            found = _without(found, name, columns, join)
    return found


def _subsets(labels: Iterator[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Yield the sets of labels in which quantities differ, small ones first."""
    seen = defaultdict(set)
    told = list(labels)
    for key in dict.fromkeys(key for each in told for key in each):
        seen[key] = {each.get(key) for each in told}
    varying = [key for key, values in seen.items() if len(values) > 1]
    for size in range(1, len(varying) + 1):
        yield from itertools.combinations(varying, size)


def _without(
    values: dict[Quantity, Points], name: str, columns: Sequence[str], join: Callable[[list[Points]], Points]
) -> dict[Quantity, Points]:
    """Return the values with the quantities of a name joined if they differ only in these labels and never coincide."""
    groups: dict[Any, list[Quantity]] = defaultdict(list)
    for quantity in values:
        rest = {key: value for key, value in _labels_of(quantity).items() if key not in columns}
        groups[(quantity.name == name and frozenset(rest.items())) or quantity].append(quantity)
    found: dict[Quantity, Points] = {}
    for group in groups.values():
        points = [point for quantity in group for point in values[quantity]]
        if len(group) > 1 and len(points) == len(set(points)):
            found[_stripped(group[0], columns)] = join([values[quantity] for quantity in group])
        else:
            found |= {quantity: values[quantity] for quantity in group}
    return found


def _labels_of(quantity: Quantity) -> dict[str, Any]:
    """Return all labels of a quantity, with the name of an observer split into parts."""
    matched = _OBSERVER.fullmatch(quantity.observer or "")
    parts = {part: matched[part] if matched else None for part in _PARTS}
    if matched is None:
        parts["who"] = quantity.observer
    return (
        {"name": quantity.name}
        | parts
        | {key: getattr(quantity, key) for key in _COLUMNS}
        | dict(quantity.others)
    )


def _stripped(quantity: Quantity, columns: Sequence[str]) -> Quantity:
    """Return a quantity without some labels."""
    labels = {key: value for key, value in _labels_of(quantity).items() if key not in columns}
    observer = "".join(labels.get(part) or "" for part in _PARTS).removeprefix("-")
    return Quantity(
        quantity.name,
        observer=observer or None,
        relevance=labels.get("relevance"),
        momentum=labels.get("momentum"),
        community_size=labels.get("community_size"),
        others=tuple((key, value) for key, value in quantity.others if key in labels),
    )
