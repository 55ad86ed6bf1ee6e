"""The rows of the table that one run gives to one variant."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gossiprec.attacks.naming import TableKey
from gossiprec.attacks.relevance import MEMBERS
from gossiprec.measures.names import FILTERS, MEMBERSHIP, OF_ATTACKS, Measure
from gossiprec.study.measures import BY_DEFAULT

Row = dict[str, Any]
NO_ATTACK: Row = dict.fromkeys(FILTERS)


def measured(
    summary: Mapping[str, Any],
    metrics: Sequence[str],
    keys: Sequence[TableKey] | None,
    measures: Sequence[Measure] | None,
) -> list[Row]:
    """Return measure, observer, relevance, momentum, community_size and value of each number asked for.

    Parameters
    ----------
    summary : mapping
        Of a complete run.
    metrics : sequence of str
        The variant's own metrics.
    keys : sequence of TableKey, optional
        The attacks that are the variant's own, in order; None: all of the run.
    measures : sequence of Measure, optional
        None: all metrics, and for each attack its best and last accuracy and its bounds.
    """
    wanted = measures
    if wanted is None:
        wanted = [Measure(name) for name in (*metrics, *BY_DEFAULT)]
    return [row for measure in wanted for row in _rows(summary, keys, measure)]


def missing(summary: Mapping[str, Any], keys: Sequence[TableKey] | None) -> str:
    """Return the first of the expected attacks that a summary with attacks lacks; an empty string if it has all."""
    found = {tuple(line[name] for name in FILTERS) for line in summary.get("attacks", [])}
    lacking = [key for key in keys or () if found and key not in found]
    return "{}/{}/b{:g}/k{}".format(*lacking[0]) if lacking else ""


def _rows(summary: Mapping[str, Any], keys: Sequence[TableKey] | None, measure: Measure) -> Iterator[Row]:
    if measure.name in OF_ATTACKS:
        yield from _of_attacks(summary.get("attacks", []), keys, measure, measure.name)
    elif measure.is_of_attacks:
        lines = [
            {**line, "relevance": f"{MEMBERS}{line['threshold']:g}", "community_size": None}
            for line in summary.get("membership", [])
        ]
        yield from _of_attacks(lines, _without_size(keys), measure, measure.name.removeprefix(MEMBERSHIP))
    else:
        value = summary.get("utility", {}).get(measure.name, _looked_up(summary, measure.name))
        if value is not None or measure.name in summary.get("utility", {}):
            yield {"measure": measure.name, **NO_ATTACK, "value": _number(value)}


def _of_attacks(
    lines: Sequence[Mapping[str, Any]], keys: Sequence[TableKey] | None, measure: Measure, column: str
) -> Iterator[Row]:
    found = {tuple(line[name] for name in FILTERS): line for line in lines}
    for key in found if keys is None else keys:
        if key in found and measure.takes(key):
            yield {
                "measure": measure.name,
                **dict(zip(FILTERS, key, strict=True)),
                "value": _number(found[key][column]),
            }


def _without_size(keys: Sequence[TableKey] | None) -> list[Any] | None:
    return None if keys is None else list(dict.fromkeys((*key[:3], None) for key in keys))


def _looked_up(summary: Mapping[str, Any], name: str) -> Any:
    value: Any = summary
    for key in name.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)
