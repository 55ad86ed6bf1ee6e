"""Loading of a study file: its typed content, with the origin of every value."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gossiprec.base.errors import ScenarioError
from gossiprec.scenario.load import read_source
from gossiprec.scenario.overrides import parse_overrides
from gossiprec.scenario.problems import (
    KeyPath,
    Origin,
    Problems,
    add_validation_problems,
    format_path,
    format_value,
    reject_boolean_numbers,
)
from gossiprec.scenario.yaml_source import SourceLayer, read_file, read_mapping
from gossiprec.study.spec import StudyFile


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
            f"{source.whole}: is a scenario, not a study; run it with: gossiprec simulate {source.whole}"
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
        reject_boolean_numbers(_but(source.data["axes"][name], "values"), axis, ("axes", name), problems)
    for key in ("seeds", "search"):
        reject_boolean_numbers(_but(source.data.get(key), "list"), getattr(file, key), (key,), problems)
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
