"""The table of a study: the measures that it collects, the rows of every run, and its Parquet and CSV files.

The same rows give the same bytes.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gossiprec.adversaries.attacks import ATTACKS
from gossiprec.adversaries.attacks.findings import TableKey, key_to_labels
from gossiprec.base.errors import did_you_mean
from gossiprec.base.options import KeyPath, registered_name
from gossiprec.figures.study.quantity import RUN_WORDS
from gossiprec.measures.selectors import (
    FILTERS,
    OF_ATTACKS,
    MeasureSelector,
    attack_key,
    is_of_group,
    read_measure,
    read_metric,
    split_baseline_name,
    unlisted_labels,
)
from gossiprec.rules import ReportsFindings
from gossiprec.rules.aggregators import AGGREGATORS
from gossiprec.rules.servers import SERVERS
from gossiprec.runs.run_files import open_replacement, replace_file
from gossiprec.runs.run_tables import labels_to_json, safe_cell, safe_rows
from gossiprec.scenario.definition import Scenario
from gossiprec.scenario.problems import Problems
from gossiprec.study.run_hash import scenario_table_keys
from gossiprec.study.spec import LoadedStudy

if TYPE_CHECKING:
    import pyarrow as pa

GROUP = "group_"
"""Prefix of results of attacks for groups of users."""
BY_DEFAULT = ("max_aac", "last_aac", "upper_bound", "random_bound")
VARYING = (
    "wall_seconds", "processor_seconds", "node_updates_per_second", "peak_rss_mib", "seconds", "attack_seconds",
    "needed_mib", "threads", "checkpoints",
)  # fmt: skip
"""Keys of a summary that vary between runs of the same scenario, and are therefore no measures."""


def parse_measures(study: LoadedStudy, problems: Problems) -> list[MeasureSelector] | None:
    """Return the measures of a study file, or None if it names none and all are collected."""
    texts = study.file.measures
    if texts is None:
        return None
    parsed: list[MeasureSelector] = []
    for place, text in enumerate(texts):
        try:
            found = _known(read_measure(text))
        except ValueError as error:
            problems.add(("measures", place), str(error))
            continue
        if found in parsed:
            problems.add(("measures", place), f"found {text!r} twice; remove one")
        parsed.append(found)
    return parsed


def search_measures(study: LoadedStudy, problems: Problems) -> dict[KeyPath, MeasureSelector]:
    """Return the objective of a search and the measures with bounds, by their key paths."""
    found: dict[KeyPath, MeasureSelector] = {}
    for path, text in study.file.search.wanted_measures().items():
        try:
            found[path] = _known(read_measure(text))
        except ValueError as error:
            problems.add(path, str(error))
    return found


def check_measures(
    measures: Mapping[KeyPath, MeasureSelector], scenarios: Iterable[Scenario], problems: Problems
) -> None:
    """Refuse measures, given by their key paths, that no run will have."""
    scenarios = list(scenarios)
    metrics = {metric for scenario in scenarios for metric in scenario.evaluate.reportable_measures()}
    attacks = {
        choice.name for scenario in scenarios for choice in (*scenario.adversaries, *scenario.observers)
    }
    parts = set[str]().union(*(_coordinator_parts(scenario) for scenario in scenarios))
    found = [scenario_table_keys(scenario) for scenario in scenarios]
    keys = None if any(own is None for own in found) else {key for own in found for key in own or ()}
    for at, measure in measures.items():
        name = measure.name
        if is_of_group(name) and _has_group(name, scenarios):
            continue
        if "@" in name and name not in metrics:
            known = ", ".join(sorted(metrics))
            problems.add(at, f"no run measures {name!r}: evaluate.metrics has {known}; add it there")
        elif reporting := {part for part, measures in _reporting_parts().items() if name in measures}:
            if not reporting & parts:
                which = ", ".join(sorted(reporting))
                problems.add(
                    at, f"no run has a coordinator that reports {name!r}; set protocol.merge to {which}"
                )
        elif name.removeprefix(GROUP) in _reported() and name.removeprefix(GROUP) not in _reported(attacks):
            problems.add(at, f"no run has an attack that reports {name!r}; add such an attack to observers")
        elif name in (*OF_ATTACKS, *_reported()) and keys is not None and not _is_of_any(measure, keys):
            there = ", ".join(sorted({attack_key(**key_to_labels(key)) for key in keys})) or "none"
            problems.add(
                at, f"no run has such an attack; expected one of (observer/relevance/momentum/size): {there}"
            )


def _has_group(name: str, scenarios: Iterable[Scenario]) -> bool:
    """Return whether a scenario has the metric of a group, and groups of this kind."""
    metric, group = split_baseline_name(name)
    by = group.partition("=")[0]
    return any(
        metric in scenario.evaluate.metrics
        and by in (choice.by for choice in scenario.evaluate.group_choices)
        for scenario in scenarios
    )


def _is_of_any(measure: MeasureSelector, keys: Iterable[TableKey]) -> bool:
    """Return whether a measure selects any of these attacks, judged by the labels in their keys."""
    filters = {name: value for name, value in measure.filters.items() if name in FILTERS}
    return any(MeasureSelector(measure.name, filters).accepts(key_to_labels(key)) for key in keys)


def _known(measure: MeasureSelector) -> MeasureSelector:
    """Return a measure if runs can have it.

    Raises
    ------
    ValueError
        If they cannot; the message names similar measures.
    """
    name = measure.name
    if name.partition(".")[0] in VARYING:
        raise ValueError(
            f"{name!r} differs between runs of the same scenario, so it cannot be collected; see the "
            "runs' summary.json"
        )
    of_attacks = (*OF_ATTACKS, *_reported(), *itertools.chain(*_reporting_parts().values()))
    if name.startswith(GROUP):
        of_attacks = (*of_attacks, *(GROUP + each for each in ("aac", "exposure", *_reported())))
    if "@" in name:
        read_metric(split_baseline_name(name)[0])
    elif name not in of_attacks and name not in RUN_WORDS:
        known = [*of_attacks, *RUN_WORDS]
        raise ValueError(
            f"unknown measure {name!r}{did_you_mean(name, known)} (metrics such as hr@20, or: {', '.join(known)})"
        )
    if measure.filters and name not in of_attacks:
        raise ValueError(f"{name!r} describes the whole run; remove the brackets")
    return measure


def _reported(attacks: Container[str] = ATTACKS) -> list[str]:
    """Return the names of the measures in findings of these attacks; broken plug-ins are left out."""
    found = (measure for name, attack in ATTACKS.members() if name in attacks for measure in attack.measures)
    return list(dict.fromkeys(found))


def _reporting_parts() -> dict[str, tuple[str, ...]]:
    """Return the measures of each registered rule and server that reports numbers, by its name."""
    parts = itertools.chain(AGGREGATORS.members(), SERVERS.members())
    return {name: part.measures for name, part in parts if issubclass(part, ReportsFindings)}


def _coordinator_parts(scenario: Scenario) -> set[str]:
    """Return the names of the rule and the server that a scenario chooses for its coordinator."""
    options = scenario.protocol.options
    chosen = (getattr(options, "merge", None), getattr(options, "server", None))
    return {registered_name(part) for part in chosen if isinstance(part, str | dict)}


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
        groups = [name for name in summary.get("utility", {}) if is_of_group(name)]
        own = [name for name in groups if split_baseline_name(name)[0] in metrics]
        wanted = [MeasureSelector(name) for name in (*metrics, *own, *BY_DEFAULT)]
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
            if found["measure"] == name
            and (observers is None or found["attack"] in observers or found["attack"] not in ATTACKS)
        ]
    ranked = [] if observers is None or name in OF_ATTACKS else summary.get("attacks", [])
    for labels, value in _own(lines, keys, ranked):
        if measure.accepts(labels):
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


PARQUET, CSV = "table.parquet", "table.csv"

_TEXT, _WHOLE, _NUMBER = "string", "int64", "float64"
_KINDS = {
    "seed": _WHOLE,
    "run": _TEXT,
    "measure": _TEXT,
    "observer": _TEXT,
    "relevance": _TEXT,
    "momentum": _NUMBER,
    "community_size": _WHOLE,
    "value": _NUMBER,
    "status": _TEXT,
    "code": _TEXT,
}


def axis_type(labels: Sequence[Any]) -> str:
    """Return the type of an axis column: whole numbers, numbers, booleans, or else text."""
    known = [label for label in labels if label is not None]
    if known and all(isinstance(label, bool) for label in known):
        return "bool"
    if any(isinstance(label, bool | str) for label in known) or not known:
        return _TEXT
    if all(isinstance(label, int) and abs(label) < 2**63 for label in known):
        return _WHOLE
    return _NUMBER


def write_study_table(folder: Path, rows: Sequence[Row], axes: dict[str, str]) -> None:
    """Write both files, each in one step.

    Parameters
    ----------
    folder : Path
    rows : sequence of Row
        Rows in the order of the table; unknown values are None.
    axes : dict of str to str
        The columns of the axes and their types.

    Notes
    -----
    Labels without a column of their own are in the last column, ``labels``, if there are any.

    Raises
    ------
    ResourceError
        If a file cannot be written; it is then unchanged.
    """
    kinds = {**axes, **_KINDS}
    if any("labels" in row for row in rows):
        kinds["labels"] = _TEXT
    columns = {name: [to_cell(row.get(name), kind) for row in rows] for name, kind in kinds.items()}
    _write_parquet(folder / PARQUET, columns, kinds)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows(safe_rows([columns]))
    writer.writerows(
        [_words(value) if isinstance(value, bool) else safe_cell(value) for value in row]
        for row in zip(*columns.values(), strict=True)
    )
    replace_file(folder / CSV, text.getvalue().encode())


def to_cell(value: Any, kind: str) -> Any:
    """Return a label or a number as a value of a column of this type; numbers that are not finite become None."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if kind == _TEXT:
        return value if isinstance(value, str) else _words(value)
    return float(value) if kind == _NUMBER else value


def _words(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def column_types(kinds: Mapping[str, str]) -> list[pa.Field]:
    """Return the fields of a Parquet file, given the types of its columns by name."""
    import pyarrow as pa

    types = {_TEXT: pa.string(), _WHOLE: pa.int64(), _NUMBER: pa.float64(), "bool": pa.bool_()}
    return [pa.field(name, types[kind]) for name, kind in kinds.items()]


def _write_parquet(path: Path, columns: dict[str, list[Any]], kinds: dict[str, str]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(column_types(kinds))
    table = pa.table(
        {name: pa.array(values, schema.field(name).type) for name, values in columns.items()}, schema
    )
    with open_replacement(path) as file:
        pq.write_table(table, file, compression="zstd")
