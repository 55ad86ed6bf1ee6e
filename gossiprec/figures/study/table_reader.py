"""The table of a study for figures: values by quantity, combination of the axes, and seed."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from gossiprec.base.errors import LogError, did_you_mean
from gossiprec.figures.study.quantity import Label, Quantity, format_label, join_labels, measure_label
from gossiprec.measures.selectors import FILTERS, read_measure
from gossiprec.runs.manifest import read_study_mark
from gossiprec.runs.run_files import open_to_read, read_parquet

Point = tuple[Label, ...]
"""A combination: one label per axis, in the order of the axes."""
PerSeed = dict[int, float]
Values = dict[Quantity, dict[Point, PerSeed]]

ROW_BYTES = 2_000
"""Memory of a row of the table, as a mapping."""
LEAST = ("upper_bound", "random_bound")
ACCURACIES = ("last_aac", "max_aac")
"""Measures that come last, because they only help to interpret others."""


class PointNames(NamedTuple):
    """Names of combinations in a picture, and the axes of their values if the names leave those out."""

    of: dict[Point, str]
    axes: str


@dataclass(frozen=True)
class StudyTable:
    """The results of a study so far.

    Attributes
    ----------
    path : Path
    axes : tuple of str
    baseline : dict of str to Label
    values : dict
        Values by quantity, point and seed, without NaN and missing values. Quantities that differ only by the axes
        are joined (:mod:`~gossiprec.figures.study.quantity`).
    apart : dict
        The values with the attacks as named in the runs.
    runs : dict
        Folder under ``runs/`` by point and seed, also of runs that failed.
    words : dict of str to str
        Labels in pictures for axes with unclear names.
    picture : dict of str
        Figure that the study file names; empty if it names none.
    """

    path: Path
    axes: tuple[str, ...]
    baseline: dict[str, Label]
    values: Values
    apart: Values = field(default_factory=dict)
    runs: dict[Point, dict[int, str]] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    picture: dict[str, Any] = field(default_factory=dict)

    def find_quantities(self, text: str) -> list[Quantity]:
        """Return the quantities that a measure such as ``max_aac[single]`` names.

        Raises
        ------
        LogError
            If the table has none.
        """
        try:
            measure = read_measure(text)
        except ValueError as error:
            raise LogError(str(error)) from None
        found = [q for q in self.values if q.name == measure.name and measure.accepts(q.labels)]
        if not found and any(q.name == measure.name and measure.accepts(q.labels) for q in self.apart):
            raise LogError(
                f"{text!r} differs along the axes of {self.path} ({', '.join(self.varying)}); select with "
                "--where AXIS=VALUE, or choose one of "
                f"{', '.join(q.request_text() for q in self.values if q.name == measure.name)}"
            )
        if not found:
            names = list(dict.fromkeys(quantity.name for quantity in self.values))
            raise LogError(
                f"{self.path} has no measure {text!r}; it has "
                f"{', '.join(dict.fromkeys(q.name_with_labels() for q in self.values)) or 'none yet'}"
                f"{did_you_mean(measure.name, names)}"
            )
        return found

    def axis_index(self, name: str) -> int:
        """Return the index of an axis.

        Raises
        ------
        LogError
            If there is no axis of that name.
        """
        if name not in self.axes:
            known = ", ".join(self.axes) or "none"
            raise LogError(
                f"{self.path} has no axis {name!r} (its axes are: {known}){did_you_mean(name, self.axes)}"
            )
        return self.axes.index(name)

    def axis_values(self, axis: str) -> list[Label]:
        """Return the values of an axis: numbers ascending, others in the order of the study."""
        place = self.axis_index(axis)
        found = list(dict.fromkeys(point[place] for points in self.values.values() for point in points))
        return sorted(found, key=float) if is_numeric(found) else found

    def find_axis_value(self, axis: str, text: str) -> Label:
        """Return the value of an axis that has this text.

        Raises
        ------
        LogError
            If it has no such value.
        """
        labels = {format_label(label): label for label in self.axis_values(axis)}
        if text not in labels:
            raise LogError(f"the axis {axis} has no value {text!r}; it has {', '.join(labels)}")
        return labels[text]

    @cached_property
    def varying(self) -> list[str]:
        """The axes with more than one value."""
        return [name for name in self.axes if len(self.axis_values(name)) > 1]

    def varying_among(self, points: Iterable[Point]) -> list[str]:
        """Return the axes with more than one value among some combinations."""
        values = [set(labels) for labels in zip(*points, strict=True)]
        return [name for name, found in zip(self.axes, values, strict=False) if len(found) > 1]

    @cached_property
    def _shared_labels(self) -> set[str]:
        """The labels that are equal for all attacks, and therefore distinguish none."""
        attacks = [quantity.labels for quantity in self.values if quantity.observer is not None]
        found = {name: {attack[name] for attack in attacks if name in attack} for name in FILTERS}
        return {name for name, labels in found.items() if len(labels) == 1}

    def label_text(self, quantity: Quantity) -> str:
        """Return the labels of a quantity as text, without those that all attacks of the study share.

        The observer is named if there is nothing else to name.
        """
        return quantity.label_text(excluded=self._shared_labels) or quantity.label_text(
            excluded={*FILTERS[1:]}
        )

    def title(self, quantity: Quantity) -> str:
        """Return the title of a panel, used if its axes do not name the measure."""
        about = self.label_text(quantity)
        return f"{measure_label(quantity.name)}, {about}" if about else measure_label(quantity.name)

    def axis_label(self, axis: str) -> str:
        """Return the label of an axis in pictures."""
        return self.words.get(axis, axis)

    def name_points(self, points: Iterable[Point]) -> PointNames:
        """Return names for some combinations, made of the values of the axes that vary among them.

        The names include the axes if there is room for them in all names.
        """
        from gossiprec.figures.style import MAX_NAME, short_name  # loads matplotlib

        drawn = list(points)
        axes = self.varying_among(drawn) or self.varying
        values = {point: [format_label(point[self.axis_index(name)]) for name in axes] for point in drawn}
        in_full = {
            p: ", ".join(f"{name} {v}" for name, v in zip(axes, values[p], strict=True)) for p in drawn
        }
        if max(map(len, in_full.values()), default=0) <= MAX_NAME:
            return PointNames(in_full, "")
        return PointNames({p: short_name(", ".join(values[p])) for p in drawn}, ", ".join(axes))

    def restrict_to(self, chosen: Mapping[str, str]) -> StudyTable:
        """Return the part of the table in which axes have these values, given as text.

        Raises
        ------
        LogError
            If an axis has no such value.
        """
        places = {
            self.axis_index(name): format_label(self.find_axis_value(name, text))
            for name, text in chosen.items()
        }
        apart: Values = {}
        for quantity, points in self.apart.items():
            for point, seeds in points.items():
                if all(format_label(point[place]) == text for place, text in places.items()):
                    apart.setdefault(quantity, {})[point] = seeds
        return replace(self, values=merge_quantities(apart, self.runs), apart=apart)


def order_quantities(table: StudyTable) -> list[Quantity]:
    """Return the quantities of a study: attack accuracy first, then utility, then others, and bounds last."""

    def rank(quantity: Quantity) -> int:
        if quantity.name in LEAST:
            return 3
        return 0 if quantity.name in ACCURACIES else 1 if "@" in quantity.name else 2

    return sorted(table.values, key=rank)


def read_study(folder: Path, *, or_empty: bool = False) -> StudyTable:
    """Read the table of a study.

    Parameters
    ----------
    folder : Path
    or_empty : bool
        Also accept a study without finished runs.

    Raises
    ------
    LogError
        If the folder holds no study, or none of its runs is finished.
    """
    for name in ("study.json", "table.parquet"):
        if not (folder / name).is_file():
            raise LogError(f"{folder} is not a study folder: it has no {name}; see `gossiprec study --help`")
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        mark = read_study_mark(folder)
        with open_to_read(folder / "table.parquet") as file:
            rows = read_parquet(folder / "table.parquet", pq.ParquetFile(file), ROW_BYTES).to_pylist()
        axes, baseline = tuple(mark["axes"]), dict(mark["baseline"])
        words, picture = dict(mark.get("words", {})), dict(mark.get("picture") or {})
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise LogError(f"cannot read the study in {folder}: {error}") from error
    apart = _gathered(rows, axes)
    if not apart and not or_empty:
        raise LogError(f"no run of the study in {folder} is finished, so there is nothing to draw yet")
    runs: dict[Point, dict[int, str]] = {}
    for row in rows:
        runs.setdefault(tuple(row[name] for name in axes), {})[row["seed"]] = row["run"]
    return StudyTable(folder, axes, baseline, merge_quantities(apart, runs), apart, runs, words, picture)


def label_cells(point: Point) -> list[str]:
    """Return the labels of a point as cells of a csv row."""
    return ["" if label is None else format_label(label) for label in point]


def is_numeric(labels: Sequence[Label]) -> bool:
    """Return whether labels can be positions on a scale: numbers, or numeric labels of settings."""
    return all(map(_is_number, labels))


def _is_number(label: Label) -> bool:
    if isinstance(label, str):
        try:
            return math.isfinite(float(label))
        except ValueError:
            return False
    return isinstance(label, int | float) and not isinstance(label, bool)


def merge_quantities(apart: Values, points: Iterable[Point]) -> Values:
    """Return the values with quantities that differ only by the axes joined, over points in this order."""
    order = {point: place for place, point in enumerate(points)}

    def join(parts: list[dict[Point, PerSeed]]) -> dict[Point, PerSeed]:
        both = {point: seeds for points in parts for point, seeds in points.items()}
        return dict(sorted(both.items(), key=lambda item: order[item[0]]))

    return join_labels(apart, join)


def _gathered(rows: Iterable[Mapping[str, Any]], axes: Sequence[str]) -> Values:
    values: Values = {}
    for row in rows:
        if row["value"] is None:
            continue
        others = tuple(json.loads(row.get("labels") or "{}").items())
        quantity = Quantity(row["measure"], **{name: row[name] for name in FILTERS}, others=others)
        point = tuple(row[name] for name in axes)
        values.setdefault(quantity, {}).setdefault(point, {})[row["seed"]] = row["value"]
    return values
