"""The combinations of axis values that a study runs: all, listed ones, or drawn ones."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import yaml

from gossiprec.base.arrays import F64
from gossiprec.base.errors import suggestion
from gossiprec.base.rng import generator
from gossiprec.scenario.overrides import Override
from gossiprec.scenario.problems import Problems, format_value
from gossiprec.scenario.yaml_source import SourceLayer
from gossiprec.study.load import LoadedStudy
from gossiprec.study.spec import OWN_KEYS, StudyAxis, seed_list

DIGITS = 6
"""Significant digits of a number drawn from a range, so that it can be read and typed again."""
MOST_POINTS = 100_000

Label = str | int | float | bool | None


@dataclass(frozen=True)
class AxisValue:
    """One value of an axis: its label in the table, its overrides, and its own base and seeds, if any."""

    label: Label
    overrides: tuple[Override, ...]
    base: SourceLayer | None = None
    seeds: list[int] | None = None


Point = dict[str, AxisValue]
"""A value for each axis."""


def make_points(study: LoadedStudy, problems: Problems) -> list[Point]:
    """Return the combinations to run, in order; faults go to `problems`."""
    axes, search = study.file.axes, study.file.search
    if search.method == "list":
        return _listed(study, problems)
    settings = {name: _settings(study, name, axis) for name, axis in axes.items()}
    if search.method != "grid":
        _refuse_open(study, problems)
        return [] if problems else _drawn(study, settings)
    for name, axis in axes.items():
        if axis.values is None:
            what = "a range" if axis.is_range else "no values"
            problems.add(
                ("axes", name),
                f"has {what}, but a grid needs values; set values, or search: {{method: random, samples: N}}",
                origin=study.origin("axes", name),
            )
    n_points = math.prod(len(known) for known in settings.values())
    if n_points > MOST_POINTS:
        problems.add(
            ("axes",),
            f"make {n_points:,} combinations, but at most {MOST_POINTS:,} can be run; sample some of them",
        )
    if problems:
        return []
    return [dict(zip(settings, chosen, strict=True)) for chosen in itertools.product(*settings.values())]


def value_label(value: Any) -> Label:
    """Return the label of a value in the table: the value itself, or its YAML on one line."""
    if isinstance(value, str | int | float) or value is None:
        return value
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False, allow_unicode=True)
    return str(text).strip()


def find_axis_value(study: LoadedStudy, name: str, value: Any) -> AxisValue | None:
    """Return the axis value that a row of ``list`` or the baseline refers to, or None if there is none."""
    wanted = value_label(value)
    alike = (s for s in _settings(study, name, study.file.axes[name]) if s.label == wanted)
    found = [
        s for s in alike if isinstance(s.label, bool) == isinstance(wanted, bool)
    ]  # True is not the number 1 here
    return min(found, key=lambda setting: type(setting.label) is not type(wanted), default=None)


def _settings(study: LoadedStudy, name: str, axis: StudyAxis) -> list[AxisValue]:
    """Return the values of an axis; none for a range."""
    if isinstance(axis.values, dict):
        return [_labelled(study, name, axis, label, value) for label, value in axis.values.items()]
    return [
        AxisValue(value_label(value), (_override(study, axis.key, value, "axes", name, "values", place),))
        for place, value in enumerate(axis.values or ())
    ]


def _labelled(study: LoadedStudy, name: str, axis: StudyAxis, label: str, value: Any) -> AxisValue:
    at = ("axes", name, "values", label)
    if axis.key is not None:
        return AxisValue(label, (_override(study, axis.key, value, *at),))
    sets = [_override(study, key, inner, *at, key) for key, inner in value.items() if key not in OWN_KEYS]
    return AxisValue(label, tuple(sets), study.bases.get((*at, "base")), seed_list(value.get("seeds")))


def _override(study: LoadedStudy, key: str | None, value: Any, *at: str | int) -> Override:
    return Override(tuple(str(key).split(".")), value, study.origin(*at))


def _listed(study: LoadedStudy, problems: Problems) -> list[Point]:
    axes, points = study.file.axes, []
    for place, row in enumerate(study.file.search.rows or ()):
        at = ("search", "list", place)
        for name in row:
            if name not in axes:
                near = suggestion(name, axes)
                problems.add((*at, name), f"is not an axis; axes are: {', '.join(axes) or 'none'}{near}")
        for name in axes:
            if name not in row:
                problems.add(at, f"lacks the axis {name}; each combination must set all axes")
        if not problems:
            points.append({name: _of_row(study, name, row[name], (*at, name), problems) for name in axes})
    return points


def _of_row(
    study: LoadedStudy, name: str, value: Any, at: tuple[str | int, ...], problems: Problems
) -> AxisValue:
    axis = study.file.axes[name]
    if axis.values is None:
        inside = not axis.is_range or (isinstance(value, int | float) and axis.low <= value <= axis.high)  # type: ignore[operator]
        if not inside:
            problems.add(
                at, f"found {format_value(value)}, but the axis ranges from {axis.low:g} to {axis.high:g}"
            )
        return AxisValue(value_label(value), (_override(study, axis.key, value, *at),))
    found = find_axis_value(study, name, value)
    if found is None:
        problems.add(at, f"found {format_value(value)}, must be one of {_labels(axis)}")
        return AxisValue(None, ())
    return found


def _labels(axis: StudyAxis) -> str:
    return ", ".join(str(value_label(label)) for label in axis.labels or ())


def _refuse_open(study: LoadedStudy, problems: Problems) -> None:
    for name, axis in study.file.axes.items():
        if axis.values is None and not axis.is_range:
            problems.add(("axes", name), "requires values, or low and high")


def _drawn(study: LoadedStudy, settings: dict[str, list[AxisValue]]) -> list[Point]:
    axes, search = study.file.axes, study.file.search
    assert search.samples is not None

    def setting(name: str, u: float) -> AxisValue:
        known = settings[name]
        return known[min(int(u * len(known)), len(known) - 1)] if known else _at(study, name, axes[name], u)

    drawn = _unit_cube(search.method, search.samples, len(axes), search.seed)
    return [{name: setting(name, u) for name, u in zip(axes, row, strict=True)} for row in drawn.tolist()]


def _unit_cube(method: str, samples: int, dim: int, seed: int) -> F64:
    """Return points of the unit cube, shape (samples, dim)."""
    if not dim:
        return np.zeros((samples, 0))
    if method == "random":
        return generator(seed, "study").random((samples, dim))
    from scipy.stats import qmc

    cube: F64 = qmc.LatinHypercube(dim, rng=seed).random(samples)
    return cube


def _at(study: LoadedStudy, name: str, axis: StudyAxis, u: float) -> AxisValue:
    """Return the axis value at a position of a range, 0 <= u < 1."""
    assert axis.low is not None
    assert axis.high is not None
    low, high = axis.low, axis.high
    if axis.integer:
        low, high = math.ceil(low), math.floor(high) + 1
    if axis.scale == "log":
        value = math.exp(math.log(low) + u * (math.log(high) - math.log(low)))
    else:
        value = low + u * (high - low)
    # rounding must not leave the range
    number = min(max(float(f"{value:.{DIGITS}g}"), axis.low), axis.high)
    if axis.integer:
        number = min(max(math.floor(value), math.ceil(axis.low)), math.floor(axis.high))
    return AxisValue(number, (_override(study, axis.key, number, "axes", name),))
