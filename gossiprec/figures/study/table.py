"""The table of a study as figures need it: values by quantity, by combination of the axes, and by seed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from gossiprec.errors import LogError, suggestion
from gossiprec.figures.style import MAX_NAME, short_name
from gossiprec.measures.names import FILTERS, OF_ATTACKS, read_measure

Label = Any
"""What the table says of an axis: text, a number, true or false, or None."""
Point = tuple[Label, ...]
"""A combination: one label for each axis, in their order."""
PerSeed = dict[int, float]


WORDS = {
    "max_aac": "attack accuracy, highest",
    "last_aac": "attack accuracy, last",
    "best10_min": "accuracy of the best tenth, least",
    "best10_mean": "accuracy of the best tenth, mean",
    "upper_bound": "attack accuracy, at most",
    "random_bound": "attack accuracy by guessing",
    "exposure_defended": "found of those who defend",
    "exposure_undefended": "found of those who do not",
    "node_updates": "local epochs",
    "bytes.sent": "bytes sent",
    "bytes.up": "bytes to the coordinator",
    "virtual_time": "virtual time (mean wake periods)",
    "privacy.epsilon_max": "epsilon, highest",
}
"""Of measures whose names say too little along an axis."""
LEAST = ("upper_bound", "random_bound", "last_aac")
"""Measures that stand last: they say how others are to be read."""


@dataclass(frozen=True)
class Quantity:
    """A measure, of one attack where it is one of attacks."""

    name: str
    observer: str | None = None
    relevance: str | None = None
    momentum: float | None = None
    community_size: int | None = None
    others: tuple[tuple[str, Any], ...] = ()

    @property
    def labels(self) -> dict[str, Any]:
        """All labels that it has."""
        told = {name: getattr(self, name) for name in FILTERS if getattr(self, name) is not None}
        return told | dict(self.others)

    def words(self) -> str:
        """Return what a label says of it."""
        parts = [self.observer, self.relevance]
        parts += [f"β {self.momentum:g}" if self.momentum is not None else None]
        parts += [f"K {self.community_size}" if self.community_size is not None else None]
        parts += [f"{name} {shown(value)}" for name, value in self.others]
        told = ", ".join(part for part in parts if part)
        return f"{self.name} ({told})" if told else self.name

    def text(self) -> str:
        """Return it as it is asked for: ``max_aac[single,ndcg,0.9,5]``."""
        told = [shown(self.labels.get(name, "*")) for name in FILTERS]
        while told and told[-1] == "*":
            told.pop()
        inside = ",".join([*told, *(f"{name}={shown(value)}" for name, value in self.others)])
        return f"{self.name}[{inside}]" if inside else self.name

    @property
    def is_share(self) -> bool:
        """Whether it is a fraction that pictures show in percent."""
        return (self.name in OF_ATTACKS and self.name != "at_round") or "@" in self.name

    @property
    def unit(self) -> str:
        """The label of its axis, in words."""
        words = WORDS.get(self.name, self.name.upper() if "@" in self.name else self.name.replace("_", " "))
        return f"{words} (%)" if self.is_share else words

    @property
    def factor(self) -> float:
        """What its values are multiplied by in pictures; tables keep them as they are."""
        return 100.0 if self.is_share else 1.0

    def cells(self) -> list[Any]:
        """Return it as the first cells of a csv row."""
        told = ",".join(f"{name}={shown(value)}" for name, value in self.others)
        return [
            f"{self.name}[{told}]" if told else self.name,
            *(self.labels.get(name, "") for name in FILTERS),
        ]


@dataclass(frozen=True)
class StudyTable:
    """What a study has found so far.

    Attributes
    ----------
    path : Path
    axes : tuple of str
    baseline : dict of str to Label
    values : dict
        By quantity, point and seed; NaN and missing values are left out.
    runs : dict
        Folder under ``runs/`` by point and seed, also of runs that failed.
    """

    path: Path
    axes: tuple[str, ...]
    baseline: dict[str, Label]
    values: dict[Quantity, dict[Point, PerSeed]]
    runs: dict[Point, dict[int, str]] = field(default_factory=dict)

    def quantities(self, text: str) -> list[Quantity]:
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
        found = [q for q in self.values if q.name == measure.name and measure.takes(q.labels)]
        if not found:
            names = list(dict.fromkeys(quantity.name for quantity in self.values))
            raise LogError(
                f"{self.path} has no measure {text!r}; it has "
                f"{', '.join(dict.fromkeys(q.words() for q in self.values)) or 'none yet'}"
                f"{suggestion(measure.name, names)}"
            )
        return found

    def axis(self, name: str) -> int:
        """Return the place of an axis.

        Raises
        ------
        LogError
            If there is none of that name.
        """
        if name not in self.axes:
            known = ", ".join(self.axes) or "none"
            raise LogError(
                f"{self.path} has no axis {name!r} (its axes are: {known}){suggestion(name, self.axes)}"
            )
        return self.axes.index(name)

    def labels(self, name: str) -> list[Label]:
        """Return the values of an axis: numbers ascending, others in the order of the study."""
        place = self.axis(name)
        found = list(dict.fromkeys(point[place] for points in self.values.values() for point in points))
        return sorted(found) if is_numeric(found) else found

    @cached_property
    def varying(self) -> list[str]:
        """The axes with more than one value."""
        return [name for name in self.axes if len(self.labels(name)) > 1]

    def name_of(self, point: Point) -> str:
        """Return what a label says of a combination: the values of the axes that vary, and names if there is room."""
        labels = {name: shown(point[self.axis(name)]) for name in self.varying}
        told = ", ".join(f"{name} {label}" for name, label in labels.items())
        return short_name(told if len(told) <= MAX_NAME else ", ".join(labels.values()))

    def where(self, chosen: Mapping[str, str]) -> StudyTable:
        """Return the part of the table in which axes have these values, given as text.

        Raises
        ------
        LogError
            If an axis has no such value.
        """
        places = {self.axis(name): text for name, text in chosen.items()}
        for place, text in places.items():
            there = [shown(label) for label in self.labels(self.axes[place])]
            if text not in there:
                raise LogError(
                    f"the axis {self.axes[place]} has no value {text!r}; it has {', '.join(there)}"
                )
        values: dict[Quantity, dict[Point, PerSeed]] = {}
        for quantity, points in self.values.items():
            for point, seeds in points.items():
                if all(shown(point[place]) == text for place, text in places.items()):
                    values.setdefault(quantity, {})[point] = seeds
        return replace(self, values=values)


def by_importance(table: StudyTable) -> list[Quantity]:
    """Return the quantities of a study: what attacks find first, then utility, then the rest, and bounds last."""

    def rank(quantity: Quantity) -> int:
        if quantity.name in LEAST:
            return 3
        return 0 if quantity.name == "max_aac" else 1 if "@" in quantity.name else 2

    return sorted(table.values, key=rank)


def read_study(folder: Path, *, or_empty: bool = False) -> StudyTable:
    """Read the table of a study.

    Parameters
    ----------
    folder : Path
    or_empty : bool
        Take a study of which no run is finished.

    Raises
    ------
    LogError
        If the folder is not of a study, or no run of it is finished.
    """
    for name in ("study.json", "table.parquet"):
        if not (folder / name).is_file():
            raise LogError(
                f"{folder} is not the folder of a study: it has no {name}; see `gossiprec study --help`"
            )
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        mark = json.loads((folder / "study.json").read_bytes())
        rows = pq.read_table(folder / "table.parquet").to_pylist()
        axes, baseline = tuple(mark["axes"]), dict(mark["baseline"])
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise LogError(f"cannot read the study in {folder}: {error}") from error
    values = _gathered(rows, axes)
    if not values and not or_empty:
        raise LogError(f"no run of the study in {folder} is finished: there is nothing to draw yet")
    runs: dict[Point, dict[int, str]] = {}
    for row in rows:
        runs.setdefault(tuple(row[name] for name in axes), {})[row["seed"]] = row["run"]
    return StudyTable(folder, axes, baseline, values, runs)


def shown(label: Label) -> str:
    """Return what a picture says of a label."""
    if isinstance(label, bool):
        return str(label).lower()
    return f"{label:g}" if isinstance(label, float) else str(label)


def label_cells(point: Point) -> list[str]:
    """Return the labels of a point as cells of a csv row."""
    return ["" if label is None else shown(label) for label in point]


def is_numeric(labels: Sequence[Label]) -> bool:
    """Say whether labels can be places on a scale."""
    return all(isinstance(label, int | float) and not isinstance(label, bool) for label in labels)


def _gathered(rows: Iterable[Mapping[str, Any]], axes: Sequence[str]) -> dict[Quantity, dict[Point, PerSeed]]:
    values: dict[Quantity, dict[Point, PerSeed]] = {}
    for row in rows:
        if row["value"] is None:
            continue
        others = tuple(json.loads(row.get("labels") or "{}").items())
        quantity = Quantity(row["measure"], **{name: row[name] for name in FILTERS}, others=others)
        point = tuple(row[name] for name in axes)
        values.setdefault(quantity, {}).setdefault(point, {})[row["seed"]] = row["value"]
    return values
