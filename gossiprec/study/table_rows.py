"""The table rows that one run contributes to one variant."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from gossiprec.adversaries.attacks.observer_names import TableKey, key_to_labels
from gossiprec.measures.selectors import FILTERS, OF_ATTACKS, MeasureSelector, unlisted_labels
from gossiprec.runs.adversaries import attack_key
from gossiprec.runs.run_tables import labels_to_json
from gossiprec.study.measures import BY_DEFAULT

Row = dict[str, Any]
Line = tuple[Mapping[str, Any], Any]
"""Labels of an attack's number, and the number."""
NO_ATTACK: Row = dict.fromkeys(FILTERS)


def extract_rows(
    summary: Mapping[str, Any],
    metrics: Sequence[str],
    keys: Sequence[TableKey] | None,
    measures: Sequence[MeasureSelector] | None,
    observers: Container[str] | None = None,
) -> list[Row]:
    """Return the rows of the requested numbers: measure, labels and value.

    Labels are observer, relevance, momentum and community_size, and any others as JSON text.

    Parameters
    ----------
    summary : mapping
        Summary of a complete run.
    metrics : sequence of str
        The variant's own metrics.
    keys : sequence of TableKey, optional
        The variant's own attacks, in order, or None for all of the run.
    measures : sequence of MeasureSelector, optional
        The measures to extract. By default all metrics, and for each attack its best and last accuracy and its
        bounds.
    observers : container of str, optional
        The names of the variant's own attacks, or None for all of the run.
    """
    wanted = measures
    if wanted is None:
        wanted = [MeasureSelector(name) for name in (*metrics, *BY_DEFAULT)]
    return [row for measure in wanted for row in _rows(summary, keys, measure, observers)]


def first_missing_attack(summary: Mapping[str, Any], keys: Sequence[TableKey] | None) -> str:
    """Return the first of the expected attacks that a summary with attacks lacks; an empty string if it has all."""
    found = {tuple(line[name] for name in FILTERS) for line in summary.get("attacks", [])}
    lacking = [key for key in keys or () if found and key not in found]
    return attack_key(**key_to_labels(lacking[0])) if lacking else ""


def _rows(
    summary: Mapping[str, Any],
    keys: Sequence[TableKey] | None,
    measure: MeasureSelector,
    observers: Container[str] | None,
) -> Iterator[Row]:
    name, utility = measure.name, summary.get("utility", {})
    if name in OF_ATTACKS:
        lines = [({f: line[f] for f in FILTERS}, line.get(name)) for line in summary.get("attacks", [])]
    else:
        lines = [
            (found["labels"], found["value"])
            for found in summary.get("findings", [])
            if found["measure"] == name and (observers is None or found["attack"] in observers)
        ]
    ranked = [] if observers is None or name in OF_ATTACKS else summary.get("attacks", [])
    for labels, value in _own(lines, keys, ranked):
        if measure.takes(labels):
            yield _row(name, labels, value)
    if not lines and (name in utility or _looked_up(summary, name) is not None):
        yield _row(name, {}, utility.get(name, _looked_up(summary, name)))


def _own(
    lines: Sequence[Line], keys: Sequence[TableKey] | None, ranked: Sequence[Mapping[str, Any]]
) -> Iterable[Line]:
    """Return the lines that agree with one of the keys in their common labels, in the order of the keys.

    Lines that agree with none of the `ranked` rows of the run follow, since no key identifies their attack.
    """
    if keys is None:
        return lines
    own = [
        place for key in keys for place, (labels, _) in enumerate(lines) if _agree(key_to_labels(key), labels)
    ]
    others = [
        place
        for place, (labels, _) in enumerate(lines)
        if ranked and not any(_agree(row, labels) for row in ranked)
    ]
    return [lines[place] for place in dict.fromkeys([*own, *others])]


def _agree(row: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    return all(row[label] == labels[label] for label in FILTERS if label in labels)


def _row(name: str, labels: Mapping[str, Any], value: Any) -> Row:
    others = unlisted_labels(labels)
    return {
        "measure": name,
        **{label: labels.get(label) for label in FILTERS},
        **({"labels": labels_to_json(others)} if others else {}),
        "value": math.nan if value is None else float(value),
    }


def _looked_up(summary: Mapping[str, Any], name: str) -> Any:
    value: Any = summary
    for key in name.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
