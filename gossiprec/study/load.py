"""From a study file to its typed content, with the line of every value."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gossiprec.errors import ScenarioError
from gossiprec.scenario.explain import explain, misread_booleans
from gossiprec.scenario.load import read_source
from gossiprec.scenario.problems import Origin, Problems, shown
from gossiprec.scenario.source import Layer, read_file
from gossiprec.study.spec import StudyFile


@dataclass(frozen=True)
class Study:
    """A study file that has been read.

    Attributes
    ----------
    path : Path
    file : StudyFile
    source : Layer
        Where each of its values was written.
    base : Layer
        The base scenario as written.
    problems : Problems
        What was found wrong with values that can still be worked with.
    """

    path: Path
    file: StudyFile
    source: Layer
    base: Layer
    problems: Problems = field(default_factory=Problems)

    @property
    def name(self) -> str:
        """The name of the study."""
        return self.file.name

    def told(self) -> dict[str, Any]:
        """Return the study as plain data that can be loaded from anywhere: with its base in it."""
        told = self.file.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return {**told, "base": self.base.data}

    def origin(self, *path: str | int) -> Origin:
        """Return where a value was written."""
        return self.source.source_map.locate(path)


def load_study(path: str | os.PathLike[str]) -> Study:
    """Read a study file and its base scenario.

    Raises
    ------
    ScenarioError
        With every problem of the study file itself, one a line; those of its runs are found by
        :func:`gossiprec.study.plan.make_plan`.
    """
    path = Path(path)
    problems = Problems()
    source = read_file(path, problems)
    if not isinstance(source.data, dict):
        raise ScenarioError(
            f"{path}: found {shown(source.data)}, must be a mapping of keys (name, base, axes, ...); "
            "see docs/studies.md"
        )
    file = _typed(source, problems)
    problems.raise_any(source.source_map)
    assert file is not None, "a study that cannot be read has problems"
    base = _base(path, file, source, problems)
    return Study(path, file, source, base, problems)


def _typed(source: Layer, problems: Problems) -> StudyFile | None:
    try:
        file = StudyFile.model_validate(source.data)
    except ValidationError as error:
        explain(error, StudyFile, source.data, (), problems)
        return None
    for name, axis in file.axes.items():
        misread_booleans(_but(source.data["axes"][name], "values"), axis, ("axes", name), problems)
    for key in ("seeds", "search"):
        misread_booleans(_but(source.data.get(key), "list"), getattr(file, key), (key,), problems)
    return file


def _but(raw: Any, key: str) -> Any:
    """Return a mapping without the key whose values may be anything."""
    return {k: v for k, v in raw.items() if k != key} if isinstance(raw, dict) else raw


def _base(path: Path, file: StudyFile, source: Layer, problems: Problems) -> Layer:
    if isinstance(file.base, str):
        try:
            return read_source(path.parent / file.base, problems)
        except ScenarioError as error:
            origin = source.source_map.locate(("base",))
            raise ScenarioError(f"{origin}: base: {error}") from None
    origins = {p[1:]: origin for p, origin in source.origins.items() if p[:1] == ("base",) and len(p) > 1}
    return Layer(file.base, source.source_map.locate(("base",)), origins)
