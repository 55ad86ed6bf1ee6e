"""The plan of a study: every combination and seed resolved and checked before anything runs.

The combinations of axis values are all, listed ones, or drawn ones.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import yaml

from gossiprec.base.arrays import F64
from gossiprec.base.errors import did_you_mean
from gossiprec.base.options import KeyPath
from gossiprec.base.plain_text import DUMPER
from gossiprec.base.rng import generator
from gossiprec.base.text import format_value
from gossiprec.measures.selectors import MeasureSelector
from gossiprec.scenario.definition import Scenario
from gossiprec.scenario.load import build_scenario
from gossiprec.scenario.problems import Origin, Problems, SourceMap
from gossiprec.scenario.section_checks import size_problems
from gossiprec.scenario.yaml_source import Override, SourceLayer
from gossiprec.study.run_hash import (
    SharedSimulation,
    canonical_json,
    deduplicate,
    duplicate_observers,
    run_hash,
)
from gossiprec.study.spec import OWN_KEYS, LoadedStudy, StudyAxis, seed_list
from gossiprec.study.study_table import check_measures, parse_measures, search_measures

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
    settings = {name: axis_settings(study, name, axis) for name, axis in axes.items()}
    if search.method != "grid":
        _refuse_open(study, problems)
        if search.method == "optuna" and not axes:
            problems.add(("axes",), "is empty, but a search needs something to vary; add an axis")
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
            f"make {n_points:,} combinations, but only {MOST_POINTS:,} can be run; sample some of them",
        )
    if problems:
        return []
    return [dict(zip(settings, chosen, strict=True)) for chosen in itertools.product(*settings.values())]


def value_label(value: Any) -> Label:
    """Return the label of a value in the table: the value itself, or its YAML on one line."""
    if isinstance(value, str | int | float) or value is None:
        return value
    text = yaml.dump(
        value, Dumper=DUMPER, default_flow_style=True, width=10_000, sort_keys=False, allow_unicode=True
    )
    return str(text).strip()


def find_axis_value(study: LoadedStudy, name: str, value: Any) -> AxisValue | None:
    """Return the axis value that a row of ``list`` or the baseline refers to, or None if there is none."""
    wanted = value_label(value)
    found = [
        setting
        for setting in axis_settings(study, name, study.file.axes[name])
        if setting.label == wanted and isinstance(setting.label, bool) == isinstance(wanted, bool)
    ]  # True is not the number 1 here
    return min(found, key=lambda setting: type(setting.label) is not type(wanted), default=None)


def axis_settings(study: LoadedStudy, name: str, axis: StudyAxis) -> list[AxisValue]:
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
                near = did_you_mean(name, axes)
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
    if method == "optuna":  # the corners, to check a study of which the points are searched
        return np.array([[0.0] * dim, [1 - 1e-9] * dim])
    if not dim:
        return np.zeros((samples, 0))
    if method == "random":
        return generator(seed, "study").random((samples, dim))
    from scipy.stats import qmc

    return qmc.LatinHypercube(dim, rng=seed).random(samples)


def _at(study: LoadedStudy, name: str, axis: StudyAxis, u: float) -> AxisValue:
    """Return the axis value at a position of a range, 0 <= u < 1."""
    low, high = axis.ends
    high += axis.integer
    if axis.scale == "log":
        value = math.exp(math.log(low) + u * (math.log(high) - math.log(low)))
    else:
        value = low + u * (high - low)
    return of_range(study, name, value)


def of_range(study: LoadedStudy, name: str, value: float) -> AxisValue:
    """Return the axis value of a number in a range, rounded to :data:`DIGITS` digits."""
    axis = study.file.axes[name]
    low, high = axis.ends
    rounded = math.floor(value) if axis.integer else float(f"{value:.{DIGITS}g}")
    number = min(max(rounded, low), high)  # rounding must not leave the range
    return AxisValue(number, (_override(study, axis.key, number, "axes", name),))


class ProblemCollector:
    """Problems of variants."""

    def __init__(self, study: LoadedStudy) -> None:
        self._study = study
        self._found: dict[tuple[KeyPath, str], tuple[Origin, list[str]]] = {}

    def add(self, found: Problems, source_map: SourceMap, labels: Mapping[str, Label]) -> None:
        """Note the problems of one variant."""
        for path, text, origin in found.with_origins(source_map):
            _, variants = self._found.setdefault((path, text), (origin, []))
            variants.append(", ".join(f"{name}={value}" for name, value in labels.items()))

    def report_to(self, problems: Problems, n_variants: int) -> None:
        """Add the collected problems to `problems`.

        A problem of all variants is a problem of the base. A problem of a value in the study is reported at the line
        of that value; any other is reported with a variant that has it.
        """
        for (path, text), (origin, variants) in self._found.items():
            if len(variants) < n_variants and origin.source != self._study.source.whole.source:
                more = f" and {len(variants) - 1} more" if len(variants) > 1 else ""
                text = f"{text} (with {variants[0]}{more})"
            problems.add(path, text, origin=origin)


@dataclass(frozen=True)
class Variant:
    """One combination of the axes with one seed.

    Attributes
    ----------
    labels : dict of str to Label
        Label of each axis in the table.
    scenario : Scenario
    hash : str
        Hash of its own scenario, before observers are merged.
    """

    labels: dict[str, Label]
    scenario: Scenario
    hash: str

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.scenario.seed


@dataclass(frozen=True)
class StudyPlan:
    """A study that could start now.

    Attributes
    ----------
    study : LoadedStudy
    variants : list of Variant
        In the order of the table.
    simulations : list of SharedSimulation
        Simulations to run; each serves one or more variants.
    measures : list of MeasureSelector or None
        Measures to collect, or None for all.
    baseline : dict of str to Label
    """

    study: LoadedStudy
    variants: list[Variant]
    simulations: list[SharedSimulation]
    measures: list[MeasureSelector] | None
    baseline: dict[str, Label]

    @property
    def n_repeated(self) -> int:
        """Number of variants that are equal to an earlier one."""
        return len(self.variants) - len({variant.hash for variant in self.variants})

    @property
    def simulation_of(self) -> dict[str, SharedSimulation]:
        """The simulation that serves each variant, by the variant's hash."""
        return {served: simulation for simulation in self.simulations for served in simulation.serves}


def make_plan(
    study: LoadedStudy,
    *,
    check_data: bool = True,
    limit: int | None = None,
    points: list[Point] | None = None,
) -> StudyPlan:
    """Resolve and check all runs of a study; of a search, the runs at both ends of all axes.

    Parameters
    ----------
    study : LoadedStudy
    limit : int, optional
        Plan only the first `limit` combinations.
    points : list of Point, optional
        The combinations to plan, in place of those of the study.
    check_data : bool
        Whether the data are read to check their size; not needed to look up existing runs.

    Raises
    ------
    ScenarioError
        If there are problems. Each is listed once: its origin, its key path, and the value found.
    DataError
        If a data set cannot be read.
    """
    problems = Problems()
    problems.absorb(study.problems, study.source.source_map)
    points = make_points(study, problems)[:limit] if points is None else points
    _check_seed_keys(study, problems)
    variants = [] if problems else _variants(study, points, problems)
    measures, searched = parse_measures(study, problems), search_measures(study, problems)
    baseline = _baseline(study, problems)
    problems.raise_any(study.source.source_map)
    _check_observers(study, variants, problems)
    if check_data:
        _check_against_data(study, variants, problems)
    of_table: dict[KeyPath, MeasureSelector] = {("measures", n): m for n, m in enumerate(measures or ())}
    check_measures({**of_table, **searched}, [variant.scenario for variant in variants], problems)
    problems.raise_any(study.source.source_map)
    simulations = deduplicate({v.hash: v.scenario for v in variants}, merge=study.file.share)
    return StudyPlan(study, variants, simulations, measures, baseline)


def _check_seed_keys(study: LoadedStudy, problems: Problems) -> None:
    """Refuse any other setting of the seed, since the table identifies runs by their seed."""
    paths: list[KeyPath] = [("set", "seed")] if "seed" in study.file.sets else []
    for name, axis in study.file.axes.items():
        if axis.key is None and isinstance(axis.values, dict):
            paths += [
                ("axes", name, "values", label) for label in axis.values if "seed" in axis.values[label]
            ]
        elif axis.key == "seed":
            paths.append(("axes", name))
    for path in paths:
        problems.add(
            path,
            "seed is set here; write seeds: [1, 2, 3] instead, at the top of the study or next to a base",
        )


def _variants(study: LoadedStudy, points: Sequence[Point], problems: Problems) -> list[Variant]:
    common = list(_common(study))
    variants = []
    gathered = ProblemCollector(study)
    for point in points:
        chosen = [override for setting in point.values() for override in setting.overrides]
        labels = {name: setting.label for name, setting in point.items()}
        for given in _seeds(study, point):
            found = Problems()
            scenario, source_map = build_scenario(_base(study, point), [*common, *chosen, *given], found)
            gathered.add(found, source_map, labels)
            if scenario is not None and not found:
                variants.append(Variant(labels, scenario.with_source_map(source_map), run_hash(scenario)))
            if found:
                break  # other seeds have the same problems
    gathered.report_to(problems, len(points))
    return variants


def _base(study: LoadedStudy, point: Point) -> SourceLayer:
    """Return the base of a combination: from the last axis that has one, or from the study."""
    own = [setting.base for setting in point.values() if setting.base is not None]
    return own[-1] if own else study.bases[("base",)]


def _seeds(study: LoadedStudy, point: Point) -> list[list[Override]]:
    """Return the overrides that set each seed of a combination; no override if the base's seed is used."""
    own = [setting.seeds for setting in point.values() if setting.seeds is not None]
    seeds = own[-1] if own else seed_list(study.file.seeds)
    return [[]] if seeds is None else [[Override(("seed",), seed, study.origin("seeds"))] for seed in seeds]


def _common(study: LoadedStudy) -> Iterator[Override]:
    for key, value in study.file.sets.items():
        yield Override(tuple(key.split(".")), value, study.origin("set", key))


def _baseline(study: LoadedStudy, problems: Problems) -> dict[str, Label]:
    chosen: dict[str, Label] = {}
    for name, value in (study.file.baseline or {}).items():
        axis = study.file.axes.get(name)
        if axis is None:
            known = ", ".join(study.file.axes) or "none"
            problems.add(("baseline", name), f"is not an axis; axes are: {known}")
        elif axis.values is None:
            problems.add(("baseline", name), "is a range, but a baseline must be a value of an axis")
        elif (setting := find_axis_value(study, name, value)) is None:
            known = ", ".join(map(str, axis.values))
            problems.add(("baseline", name), f"found {value!r}, must be one of {known}")
        else:
            chosen[name] = setting.label
    return chosen


def _check_against_data(study: LoadedStudy, variants: Sequence[Variant], problems: Problems) -> None:
    """Check every distinct scenario against the size of its data; a data set is read once, whatever the seeds.

    Data that take long to generate are not loaded: their sizes are known.
    """
    from gossiprec.emulation.assembly.data_loading import data_sizes

    sizes: dict[str, tuple[int, int]] = {}
    checked: set[str] = set()
    gathered = ProblemCollector(study)
    for variant in variants:
        scenario = variant.scenario
        content = canonical_json({**scenario.resolved(), "seed": None})
        if content in checked:
            continue
        checked.add(content)
        data = canonical_json(scenario.dataset.to_plain_data())
        if data not in sizes:
            outline = data_sizes(scenario)
            sizes[data] = (outline.n_users, outline.split.n_items)
        found = Problems()
        found.add_all(size_problems(scenario, *sizes[data]))
        gathered.add(found, scenario.source_map, variant.labels)
    gathered.report_to(problems, len(checked))


def _check_observers(study: LoadedStudy, variants: Sequence[Variant], problems: Problems) -> None:
    """Refuse observers of one run that its tables could not distinguish."""
    gathered = ProblemCollector(study)
    for variant in variants:
        found, scenario = Problems(), variant.scenario
        for index, name in duplicate_observers(scenario):
            found.add(
                ("observers", index),
                f"an earlier observer has the same key {name}; change the fraction, momentum, relevance or "
                "community_size of one of them",
            )
        gathered.add(found, scenario.source_map, variant.labels)
    gathered.report_to(problems, len(variants))
