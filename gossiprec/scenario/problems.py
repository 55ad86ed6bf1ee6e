"""Origins of a scenario's values, and the list of all its problems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from gossiprec.base.errors import ScenarioError

KeyPath: TypeAlias = tuple[str | int, ...]

MOST_SHOWN = 50


@dataclass(frozen=True, order=True)
class Origin:
    """The origin of a value: a line of a file, an override, or a mapping.

    Attributes
    ----------
    source : str
        File name, or words such as ``override 'seed=2'``.
    line : int
        Line counted from 1; 0 if the source has no lines.
    """

    source: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.source}:{self.line}" if self.line else self.source


@dataclass(frozen=True)
class SourceMap:
    """The origin of every value of a scenario.

    Attributes
    ----------
    whole : Origin
        Origin of the scenario as a whole.
    origins : mapping of key path to Origin

    Notes
    -----
    Neither field is compared: scenarios with the same values are equal whatever their origins.
    """

    whole: Origin = field(default=Origin("scenario"), compare=False)
    origins: Mapping[KeyPath, Origin] = field(default_factory=dict, compare=False)

    def locate(self, path: KeyPath) -> Origin:
        """Return the origin of `path`, or of the nearest section around it."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.origins:
                return self.origins[path[:length]]
        return self.whole


class Problems:
    """All problems found so far, raised together as one :class:`ScenarioError`."""

    def __init__(self) -> None:
        self._found: list[tuple[KeyPath, str, Origin | None]] = []

    def __len__(self) -> int:
        return len(self._found)

    def add(self, path: KeyPath, message: str, *, origin: Origin | None = None) -> None:
        """Note a problem at `path`; `origin` is looked up in the source map unless given."""
        self._found.append((path, message, origin))

    def located(self, source_map: SourceMap) -> list[tuple[KeyPath, str, Origin]]:
        """Return key path, message and origin of each problem."""
        return [(path, text, origin or source_map.locate(path)) for path, text, origin in self._found]

    def absorb(self, others: Problems, source_map: SourceMap) -> None:
        """Add the problems of another collection, with their origins resolved."""
        self._found += others.located(source_map)

    def raise_any(self, source_map: SourceMap) -> None:
        """Raise the problems, one per line in the order of the file; do nothing if there are none.

        Raises
        ------
        ScenarioError
        """
        located = sorted(self.located(source_map), key=lambda problem: problem[2])
        lines = [
            f"{origin}: {format_path(path)}{': ' if path else ''}{text}" for path, text, origin in located
        ]
        shortened = list(dict.fromkeys(lines))
        if len(shortened) > MOST_SHOWN:
            shortened[MOST_SHOWN:] = [f"... and {len(shortened) - MOST_SHOWN} more problems"]
        if shortened:
            raise ScenarioError("\n".join(shortened))


def format_path(path: KeyPath) -> str:
    """Return `path` as it is typed in an override: ``observers.0.momentum``."""
    return ".".join(map(str, path))


def format_value(value: Any, *, limit: int = 60) -> str:
    """Return `value` in the notation of YAML, on one short line."""
    words = {True: "true", False: "false", None: "null"}
    text = words[value] if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
