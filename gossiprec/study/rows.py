"""The rows of the table that one run gives to one variant."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gossiprec.attacks.naming import TableKey, labels_of
from gossiprec.eventlog.adversaries import attack_key
from gossiprec.eventlog.tables import as_json
from gossiprec.measures.names import FILTERS, OF_ATTACKS, Measure, other_labels
from gossiprec.study.measures import BY_DEFAULT

Row = dict[str, Any]
Line = tuple[Mapping[str, Any], Any]
"""Labels of a number of an attack, and the number."""
NO_ATTACK: Row = dict.fromkeys(FILTERS)


def measured(
    summary: Mapping[str, Any],
    metrics: Sequence[str],
    keys: Sequence[TableKey] | None,
    measures: Sequence[Measure] | None,
) -> list[Row]:
    """Return measure, labels and value of each number asked for.

    Labels are observer, relevance, momentum and community_size, and where there are others, these as text in JSON.

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
    return attack_key(**labels_of(lacking[0])) if lacking else ""


def _rows(summary: Mapping[str, Any], keys: Sequence[TableKey] | None, measure: Measure) -> Iterator[Row]:
    name, utility = measure.name, summary.get("utility", {})
    if name in OF_ATTACKS:
        lines = [({f: line[f] for f in FILTERS}, line[name]) for line in summary.get("attacks", [])]
    else:
        findings = summary.get("findings", [])
        lines = [(found["labels"], found["value"]) for found in findings if found["measure"] == name]
    for labels, value in _own(lines, keys):
        if measure.takes(labels):
            yield _row(name, labels, value)
    if not lines and (name in utility or _looked_up(summary, name) is not None):
        yield _row(name, {}, utility.get(name, _looked_up(summary, name)))


def _own(lines: Sequence[Line], keys: Sequence[TableKey] | None) -> Iterable[Line]:
    """Return the lines that agree with one of the keys in the labels that both have, in the order of the keys."""
    if keys is None:
        return lines
    places = [
        place
        for key in map(labels_of, keys)
        for place, (labels, _) in enumerate(lines)
        if all(key[label] == labels[label] for label in FILTERS if label in labels)
    ]
    return [lines[place] for place in dict.fromkeys(places)]


def _row(name: str, labels: Mapping[str, Any], value: Any) -> Row:
    others = other_labels(labels)
    return {
        "measure": name,
        **{label: labels.get(label) for label in FILTERS},
        **({"labels": as_json(others)} if others else {}),
        "value": math.nan if value is None else float(value),
    }


def _looked_up(summary: Mapping[str, Any], name: str) -> Any:
    value: Any = summary
    for key in name.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
