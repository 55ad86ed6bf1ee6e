"""A study file: its typed content, and loading with the origin of every value."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError, field_validator, model_validator

from gossiprec.base.errors import ScenarioError, did_you_mean
from gossiprec.base.options import KeyPath, Options
from gossiprec.base.rounding import difference
from gossiprec.base.text import format_value
from gossiprec.figures.study.quantity import format_label
from gossiprec.measures.selectors import read_measure
from gossiprec.scenario.definition import Slug
from gossiprec.scenario.load import read_source
from gossiprec.scenario.problems import (
    Origin,
    Problems,
    add_validation_problems,
    format_path,
    reject_disguised_numbers,
)
from gossiprec.scenario.schema import DIALECT, json_schema
from gossiprec.scenario.yaml_source import SourceLayer, parse_overrides, read_file, read_mapping


def _readable(text: str) -> str:
    read_measure(text)
    return text


def _all_readable(texts: list[str]) -> list[str]:
    return [_readable(text) for text in texts]


class FigureSpec(Options):
    """A figure of a study, with the options of ``gossiprec plot study``."""

    kind: Literal["lines", "heat", "front", "paired"] = "lines"
    """Kind of figure: lines, heat, front or paired."""
    x: str | None = None
    """Axis shown along x."""
    by: str | None = None
    """Axis that distinguishes lines, rows or colours; `measure`: the measures."""
    y: Annotated[list[str], AfterValidator(_all_readable)] | None = Field(
        default=None, description="Measures to draw, such as max_aac[single].  [default: max_aac]"
    )
    against: Annotated[str, AfterValidator(_readable)] | None = None
    """Utility metric of the figure `front`."""
    to: dict[str, Any] | None = None
    """Baseline of the figure `paired`, instead of the baseline of the study."""
    where: dict[str, Any] | None = None
    """Only runs with these values of axes."""

    def check(self, axes: Mapping[str, Sequence[Any] | None], measures: Sequence[str] | None) -> None:
        """Refuse a figure of anything that the study does not have.

        Parameters
        ----------
        axes : mapping of str to sequence
            The labels of each axis; None if they are drawn from a range.
        measures : sequence of str, optional
            The measures that the study collects; None for all.

        Raises
        ------
        ValueError
            If it names an axis, a value of an axis or a measure that the study lacks.
        """
        by = None if self.by == "measure" else self.by
        chosen = [*(self.to or {}).items(), *(self.where or {}).items()]
        for name in (self.x, by, *(name for name, _ in chosen)):
            if name is not None and name not in axes:
                known = ", ".join(axes) or "none"
                raise ValueError(f"found the axis {name!r}; the axes are: {known}{did_you_mean(name, axes)}")
        for name, value in chosen:
            labels = axes[name]
            if labels is not None and format_label(value) not in map(format_label, labels):
                there = ", ".join(map(format_label, labels))
                raise ValueError(f"found {name}: {format_label(value)}; the values of {name} are: {there}")
        if measures is not None:
            collected = [_name_of(text) for text in measures]
            for text in (*(self.y or ()), *([self.against] if self.against else ())):
                if _name_of(text) not in collected:
                    there = ", ".join(dict.fromkeys(collected))
                    raise ValueError(f"found the measure {text!r}; the study collects: {there}")


def _name_of(text: str) -> str:
    try:
        return read_measure(text).name
    except ValueError:
        return text  # its error is reported for the measures


AXIS_NAME = r"^[A-Za-z][A-Za-z0-9_]*([-.][A-Za-z0-9_]+)*$"
COLUMNS = (
    "seed", "run", "measure", "observer", "relevance", "momentum", "community_size", "value", "status", "code",
    "labels",
)  # fmt: skip
"""Columns of the table in addition to the axes."""

AxisName = Annotated[str, Field(pattern=AXIS_NAME, max_length=64)]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]


def _each_once(seeds: int | list[int]) -> int | list[int]:
    if isinstance(seeds, list) and len(set(seeds)) < len(seeds):
        raise ValueError("a seed is listed twice")
    return seeds


Seeds = Annotated[
    Annotated[int, Field(ge=1, le=10_000)] | Annotated[list[Seed], Field(min_length=1)],
    AfterValidator(_each_once),
]
"""A list of seeds, or their number."""
OWN_KEYS = ("base", "seeds")
"""Keys of the study that a labelled variant sets; all its other keys are keys of the scenario."""


class StudyAxis(Options):
    """One axis: a key and its values or range, or named variants that set several keys."""

    key: str | None = None
    """Key that varies, dotted as in --set, such as protocol.fanout."""
    values: list[Any] | dict[str, Any] | None = None
    """List of values of the key, or mapping from labels to values; without key: mapping from labels to mappings from
    dotted keys to values, of which base and seeds refer to the study."""
    low: float | None = None
    """Lower end of a range, for random searches."""
    high: float | None = None
    """Upper end of a range, for random searches."""
    scale: Literal["linear", "log"] = "linear"
    """Scale on which a range is sampled."""
    words: str | None = Field(
        default=None,
        max_length=80,
        description="Label of the axis in figures, with its unit, such as view lifetime (wakes).  [default: its name]",
    )
    integer: bool = False
    """Whether a range holds whole numbers only, both ends included."""

    @model_validator(mode="after")
    def _makes_sense(self) -> StudyAxis:
        if self.values is not None and not self.values:
            raise ValueError("values is empty; an axis needs at least one value")
        ends = (self.low is not None) + (self.high is not None)
        if self.values is not None and ends:
            raise ValueError("has both values and a range; remove one")
        if ends == 1:
            raise ValueError("a range needs both low and high")
        if self.key is None:
            self._check_variants()
        if ends:
            self._check_range()
        elif {"scale", "integer"} & self.model_fields_set:
            raise ValueError("scale and integer require a range (low and high)")
        return self

    def _check_variants(self) -> None:
        if not isinstance(self.values, dict):
            raise ValueError(
                "requires a key (such as protocol.fanout), or values of the form {label: {key: value}}"
            )
        for label, sets in self.values.items():
            if not isinstance(
                sets, dict
            ):  # an empty mapping changes nothing: the base itself, for comparison
                raise ValueError(
                    f"if the axis has no key, {label!r} must be a mapping from keys to values ({{}} "
                    "changes nothing)"
                )
            if not isinstance(sets.get("base", ""), str | dict):
                raise ValueError(f"the base of {label!r} must be a scenario file or a scenario")
            try:
                TypeAdapter(Seeds).validate_python(sets.get("seeds", 1), strict=True)
            except ValidationError:
                raise ValueError(
                    f"found {sets['seeds']!r} for the seeds of {label!r}, must be different seeds, or their "
                    "number"
                ) from None

    def _check_range(self) -> None:
        assert self.low is not None
        assert self.high is not None
        if not self.low < self.high:
            raise ValueError(f"the range from {self.low:g} to {self.high:g} is empty; low must be below high")
        if self.scale == "log" and self.low <= 0:
            raise ValueError(f"a range on a log scale must be above 0, found low {self.low:g}")
        if self.integer and math.floor(self.high) < math.ceil(self.low):
            raise ValueError(f"there is no whole number from {self.low:g} to {self.high:g}")

    @property
    def is_range(self) -> bool:
        """Whether the axis is a range to draw from."""
        return self.low is not None

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of a range, as whole numbers if it holds no others."""
        assert self.low is not None
        assert self.high is not None
        return (math.ceil(self.low), math.floor(self.high)) if self.integer else (self.low, self.high)

    @property
    def names_bases(self) -> bool:
        """Whether each of its values names a base."""
        return self.key is None and all("base" in sets for sets in dict(self.values or {}).values())

    @property
    def labels(self) -> list[Any] | None:
        """The label of each value in the table; None for a range or an open axis."""
        return None if self.values is None else list(self.values)


class Bound(Options):
    """Smallest and largest accepted value of a measure, as the mean over seeds."""

    at_least: float | None = None
    """Smallest accepted value."""
    at_most: float | None = None
    """Largest accepted value."""

    @model_validator(mode="after")
    def _bounds(self) -> Bound:
        if self.at_least is None and self.at_most is None:
            raise ValueError("sets no bound; expected at_least, at_most or both")
        if None not in (self.at_least, self.at_most) and self.at_least > self.at_most:  # type: ignore[operator]
            raise ValueError(f"no value is at least {self.at_least:g} and at most {self.at_most:g}")
        return self

    def violation(self, value: float) -> float:
        """Return the distance of a value from the accepted ones, as a fraction of the bound; 0 if it is accepted."""
        below = 0.0 if self.at_least is None else difference(self.at_least, value)
        above = 0.0 if self.at_most is None else difference(value, self.at_most)
        return max(0.0, below, above) / (abs(self.at_least or self.at_most or 0.0) or 1.0)

    def __str__(self) -> str:
        ends = (("at least", self.at_least), ("at most", self.at_most))
        return " and ".join(f"{words} {end:g}" for words, end in ends if end is not None)


class SearchOptions(Options):
    """The rule that chooses combinations of the axes."""

    method: Literal["grid", "list", "random", "latin-hypercube", "optuna"] = "grid"
    """grid: all combinations; list: the combinations under list; random, latin-hypercube: sampled combinations; optuna:
    combinations that are chosen by the results of earlier ones."""
    samples: int | None = Field(default=None, ge=1, le=100_000)
    """Number of sampled combinations."""
    seed: Seed = 0
    """Seed of the methods random, latin-hypercube and optuna."""
    minimize: str | None = None
    """optuna: the measure to minimise, such as max_aac."""
    maximize: str | None = None
    """optuna: the measure to maximise, such as hr@20."""
    constraints: dict[str, Bound] = Field(default_factory=dict)
    """optuna: bounds of other measures, such as {hr@20: {at_least: 0.5}}."""
    prune: bool = False
    """optuna: end a run at a report at which its objective is worse than the median of earlier combinations."""
    rows: list[dict[str, Any]] | None = Field(default=None, alias="list")
    """The combinations to run, each a mapping of every axis to a value."""

    @model_validator(mode="after")
    def _makes_sense(self) -> SearchOptions:
        drawn = self.method in ("random", "latin-hypercube", "optuna")
        if drawn and self.samples is None:
            raise ValueError(f"method {self.method} requires samples, the number of combinations")
        if not drawn and {"samples", "seed"} & self.model_fields_set:
            raise ValueError("samples and seed require method random, latin-hypercube or optuna")
        objectives = (self.minimize is not None) + (self.maximize is not None)
        if self.method == "optuna" and objectives != 1:
            found = "both" if objectives else "neither"
            raise ValueError(f"found {found} of minimize and maximize; method optuna needs exactly one")
        if (
            self.method != "optuna"
            and {"minimize", "maximize", "constraints", "prune"} & self.model_fields_set
        ):
            raise ValueError("minimize, maximize, constraints and prune require method optuna")
        if (self.method == "list") != (self.rows is not None):
            raise ValueError("method list and the key list must be given together")
        if self.rows is not None and not self.rows:
            raise ValueError("list is empty; expected at least one combination")
        return self

    @property
    def objective(self) -> str:
        """The measure to minimise or to maximise."""
        return self.minimize or self.maximize or ""

    def wanted_measures(self) -> dict[KeyPath, str]:
        """Return the objective and the measures with bounds, by their key paths."""
        direction = "minimize" if self.minimize else "maximize"
        objective: dict[KeyPath, str] = {("search", direction): self.objective} if self.objective else {}
        return objective | {("search", "constraints", name): name for name in self.constraints}


class StudyFile(Options):
    """A study: a base scenario, what varies, seeds, and what to collect."""

    name: Slug
    base: str | dict[str, Any] | None = None
    """Scenario file (path relative to this file), or a whole scenario. Not needed if each value of an axis has a
    base."""
    sets: dict[str, Any] = Field(default_factory=dict, alias="set")
    """Values for all runs, by dotted key as in --set."""
    seeds: Seeds | None = Field(
        default=None,
        description="List of seeds, or their number: 3 means 1, 2, 3.  [default: the seed of the base]",
    )
    axes: dict[AxisName, StudyAxis] = Field(default_factory=dict)
    """Axes that vary; each is a column of the table."""
    search: SearchOptions = SearchOptions()
    """How combinations of the axes are chosen."""
    measures: list[str] | None = None
    """Measures to collect, such as hr@20 or max_aac[single,standardized,0.99]."""
    baseline: dict[str, Any] | None = None
    """Values of one or several axes with which other runs are compared."""
    picture: FigureSpec | None = None
    """Figure that answers the question of the study; default of `gossiprec plot study`."""
    share: bool = True
    """Whether runs that differ only in observers share one simulation; if false, each run has its own simulation
    with its own times and memory."""

    @property
    def words(self) -> dict[str, str]:
        """Labels in pictures for axes with unclear names."""
        return {name: axis.words for name, axis in self.axes.items() if axis.words is not None}

    @property
    def first_picture(self) -> dict[str, Any]:
        """The options of the first figure, with values of axes as text; empty if there are none."""
        options = self.picture.model_dump(exclude_none=True) if self.picture else {}
        for key in ("to", "where"):
            if key in options:
                options[key] = {name: format_label(value) for name, value in options[key].items()}
        return options

    @field_validator("axes")
    @classmethod
    def _free_names(cls, axes: dict[str, StudyAxis]) -> dict[str, StudyAxis]:
        taken = [name for name in axes if name in COLUMNS]
        if taken:
            raise ValueError(
                f"{taken[0]!r} is already a column of the table; choose another name for the axis"
            )
        return axes

    @model_validator(mode="after")
    def _picture_shows_what_there_is(self) -> StudyFile:
        if self.picture:
            try:
                self.picture.check({name: axis.labels for name, axis in self.axes.items()}, self.measures)
            except ValueError as error:
                raise ValueError(f"picture: {error}") from None
        return self

    @model_validator(mode="after")
    def _has_a_base(self) -> StudyFile:
        if self.base is None and not any(axis.names_bases for axis in self.axes.values()):
            raise ValueError("base is missing; name a scenario file, or set a base in each value of an axis")
        return self


def seed_list(seeds: int | list[int] | None) -> list[int] | None:
    """Return the seeds of a list or a number of seeds; None for the base's own seed."""
    return list(range(1, seeds + 1)) if isinstance(seeds, int) else seeds


def study_schema(*, refers: bool = False) -> dict[str, Any]:
    """Return the JSON Schema of a study file, which includes the scenario's for a base written inside it.

    Parameters
    ----------
    refers : bool
        Refer to ``scenario.schema.json`` next to it instead, as the file does that editors read.
    """
    schema = StudyFile.model_json_schema(by_alias=True)
    if refers:
        schema["properties"]["base"]["anyOf"] = [{"type": "string"}, {"$ref": "scenario.schema.json"}]
        return {"$schema": DIALECT, **schema, "title": "gossiprec study"}
    scenario = json_schema()
    definitions = {**schema.get("$defs", {}), **scenario.pop("$defs")}
    scenario.pop("$schema")
    schema["properties"]["base"]["anyOf"] = [{"type": "string"}, scenario]
    return {"$schema": DIALECT, **schema, "title": "gossiprec study", "$defs": definitions}


@dataclass(frozen=True)
class LoadedStudy:
    """A study file that has been read.

    Attributes
    ----------
    file : StudyFile
    source : SourceLayer
        Origin of each of its values.
    bases : dict of key path to SourceLayer
        The base scenarios as written, by the key path in the study that names them.
    problems : Problems
        Problems of values that do not prevent loading.
    """

    file: StudyFile
    source: SourceLayer
    bases: dict[KeyPath, SourceLayer]
    problems: Problems = field(default_factory=Problems)

    @property
    def name(self) -> str:
        """The name of the study."""
        return self.file.name

    def to_plain_data(self) -> dict[str, Any]:
        """Return the study as plain data that can be loaded from anywhere, with its bases included."""
        content = self.file.model_dump(mode="json", by_alias=True, exclude_unset=True)
        for at, base in self.bases.items():
            holder: Any = content
            for key in at[:-1]:
                holder = holder[key]
            holder[at[-1]] = base.data
        return content

    def origin(self, *path: str | int) -> Origin:
        """Return the origin of a value."""
        return self.source.source_map.locate(path)


def load_study(study: str | os.PathLike[str] | Mapping[str, Any]) -> LoadedStudy:
    """Read a study file and its base scenarios.

    Parameters
    ----------
    study : path or mapping
        A YAML file, or its content as data; paths of bases are relative to the file, or to the working folder.

    Raises
    ------
    ScenarioError
        If the study file has problems; every one is listed, one per line. :func:`gossiprec.study.plan.make_plan`
        finds the problems of its runs.
    """
    problems = Problems()
    if isinstance(study, Mapping):
        source, folder = read_mapping(study, problems, "study"), Path()
    else:
        source, folder = read_file(Path(study), problems), Path(study).parent
    if not isinstance(source.data, dict):
        raise ScenarioError(
            f"{source.whole}: found {format_value(source.data)}; expected a mapping of keys (name, base, axes, "
            "...); start from the file that `gossiprec init churn` writes"
        )
    if "dataset" in source.data and "axes" not in source.data:
        raise ScenarioError(
            f"{source.whole}: is a scenario, not a study; run it with: gossiprec simulate {quote(str(source.whole))}"
        )
    file = _typed(source, problems)
    problems.raise_any(source.source_map)
    assert file is not None, "a study that cannot be read has problems"
    bases = {at: _base(base, at, folder, source, problems) for at, base in _named_bases(file)}
    return LoadedStudy(file, source, bases, problems)


def with_overrides(
    study: LoadedStudy, overrides: Iterable[str] = (), seeds: int | None = None
) -> LoadedStudy:
    """Return a study with further keys in ``set`` and other seeds, as if they were in its file.

    Parameters
    ----------
    study : LoadedStudy
    overrides : iterable of str
        ``key.path=value``.
    seeds : int, optional
        Number of seeds.

    Raises
    ------
    ScenarioError
        If a text is no override.
    """
    problems = Problems()
    given = {".".join(each.keys): each for each in parse_overrides(overrides, problems)}
    problems.raise_any(study.source.source_map)
    update: dict[str, Any] = {}
    if given:
        update["sets"] = {**study.file.sets, **{key: each.value for key, each in given.items()}}
    if seeds is not None:
        update["seeds"] = seeds
    added: dict[KeyPath, Origin] = {("set", key): each.origin for key, each in given.items()}
    source = replace(study.source, origins={**study.source.origins, **added})
    return replace(study, file=study.file.model_copy(update=update), source=source)


def _typed(source: SourceLayer, problems: Problems) -> StudyFile | None:
    try:
        file = StudyFile.model_validate(source.data)
    except ValidationError as error:
        add_validation_problems(error, StudyFile, source.data, (), problems)
        return None
    for name, axis in file.axes.items():
        reject_disguised_numbers(_but(source.data["axes"][name], "values"), axis, ("axes", name), problems)
    for key in ("seeds", "search"):
        reject_disguised_numbers(_but(source.data.get(key), "list"), getattr(file, key), (key,), problems)
    return file


def _but(raw: Any, key: str) -> Any:
    """Return a mapping without the key that may hold any values."""
    return {k: v for k, v in raw.items() if k != key} if isinstance(raw, dict) else raw


def _named_bases(file: StudyFile) -> Iterator[tuple[KeyPath, Any]]:
    """Yield the bases of a study, each with the key path that names it."""
    if file.base is not None:
        yield ("base",), file.base
    for name, axis in file.axes.items():
        if axis.key is None and isinstance(axis.values, dict):
            for label, sets in axis.values.items():
                if "base" in sets:
                    yield ("axes", name, "values", label, "base"), sets["base"]


def _base(base: Any, at: KeyPath, folder: Path, source: SourceLayer, problems: Problems) -> SourceLayer:
    whole = source.source_map.locate(at)
    if isinstance(base, str):
        try:
            return read_source(folder / base, problems)
        except ScenarioError as error:
            raise ScenarioError(f"{whole}: {format_path(at)}: {error}") from None
    inside = {p[len(at) :]: origin for p, origin in source.origins.items() if p[: len(at)] == at != p}
    return SourceLayer(base, whole, inside)
