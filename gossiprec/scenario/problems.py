"""The list of all problems of a scenario, by file, line and key path.

Pydantic's errors are translated to the words and key paths of the scenario file.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError

from gossiprec.base.errors import REMOVED, ScenarioError, did_you_mean
from gossiprec.base.options import KeyPath, Problem, RegisteredOptions
from gossiprec.base.text import format_value

MOST_SHOWN = 50
_NULL = "found null, "


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

    def add_all(self, found: Iterable[Problem]) -> None:
        """Note several problems."""
        for path, message in found:
            self.add(path, message)

    def with_origins(self, source_map: SourceMap) -> list[tuple[KeyPath, str, Origin]]:
        """Return key path, message and origin of each problem."""
        return [(path, text, origin or source_map.locate(path)) for path, text, origin in self._found]

    def absorb(self, others: Problems, source_map: SourceMap) -> None:
        """Add the problems of another collection, with their origins resolved."""
        self._found += others.with_origins(source_map)

    def raise_any(self, source_map: SourceMap) -> None:
        """Raise the problems, one per line in the order of the file; do nothing if there are none.

        Raises
        ------
        ScenarioError
        """
        located = sorted(self.with_origins(source_map), key=lambda problem: problem[2])
        lines = [(f"{at}: {format_path(path)}{': ' if path else ''}", text) for path, text, at in located]
        # what is unreadable became null
        nulls = {(place, text) for place, text in lines if text.startswith(_NULL)}
        explained = {place for place, text in lines if (place, text) not in nulls}
        lines = [line for line in lines if line[0] not in explained or line not in nulls]
        shortened = list(dict.fromkeys(place + text for place, text in lines))
        if len(shortened) > MOST_SHOWN:
            shortened[MOST_SHOWN:] = [f"... and {len(shortened) - MOST_SHOWN} more problems"]
        if shortened:
            raise ScenarioError("\n".join(shortened))


def format_path(path: KeyPath) -> str:
    """Return `path` as it is typed in an override: ``observers.0.momentum``."""
    return ".".join(map(str, path))


Model = TypeVar("Model", bound=BaseModel)

_KIND = {
    "int": "a whole number",
    "float": "a number",
    "finite_number": "a finite number",
    "string": "text",
    "bool": "true or false",
    **dict.fromkeys(("list", "tuple", "set"), "a list"),
    **dict.fromkeys(("dict", "mapping", "model", "model_attributes"), "a mapping of keys"),
    "path": "a path",
}
_SUFFIX = re.compile(r"_(type|parsing|parsing_size|from_float)$")


def add_validation_problems(
    error: ValidationError,
    options: type[BaseModel],
    raw: Any,
    at: KeyPath,
    problems: Problems,
    *,
    also_allowed: Iterable[str] = (),
) -> None:
    """Add the problems in `error` about `raw` to `problems`.

    Parameters
    ----------
    error : ValidationError
        The error of validating `raw` as `options`.
    options : type of BaseModel
        Defines the allowed keys.
    raw : object
        Plain data as written.
    at : key path
        Key path of `raw` in the scenario.
    problems : Problems
    also_allowed : iterable of str
        Keys of the section in addition to the keys of `options`.
    """
    entries = _likeliest_branches(error.errors(include_url=False), raw)
    by_path: dict[KeyPath, list[Any]] = defaultdict(list)
    for entry in entries:
        by_path[_key_path(entry, raw)].append(entry)
    for path, here in by_path.items():
        demands = [text for text in map(_demand, here) if text]
        for entry in here:
            if (key := format_path((*at, *path))) in REMOVED:
                problems.add((*at, *path), REMOVED[key])
            elif entry["type"] == "extra_forbidden":
                more = also_allowed if len(path) == 1 else ()
                allowed = [*_keys_at(options, entry["loc"][:-1], raw), *more]
                other = _keys_at(options, path[:-1], raw, narrow=False)  # of all branches of a union
                problems.add((*at, *path), unknown_key_message(str(path[-1]), allowed, other))
            elif not _demand(entry):
                problems.add((*at, *path), _statement(entry))
        if demands:
            near = _near_word(here) or _near_key(options, path, raw, demands, here[0]["input"])
            removed = REMOVED.get(f"{format_path((*at, *path))}: {here[0]['input']}")
            hint = f"; it {removed}" if removed else near or _some_keys(options, path, raw, demands)
            wanted = " or ".join(dict.fromkeys(demands))
            problems.add((*at, *path), f"found {format_value(here[0]['input'])}, must be {wanted}{hint}")


def validate_options(allowed: type[Model], given: Mapping[str, Any], what: str) -> Model:
    """Return the typed options in a mapping.

    Parameters
    ----------
    allowed : type of BaseModel
    given : mapping
    what : str
        Name of the thing in messages (``"dataset file"``).

    Raises
    ------
    ScenarioError
        If an option does not fit; the message names each of them.
    """
    raw, problems = dict(given), Problems()
    try:
        found = allowed.model_validate(raw)
    except ValidationError as error:
        add_validation_problems(error, allowed, raw, (), problems)
        problems.raise_any(SourceMap(Origin(what)))
        raise AssertionError("a scenario that fails validation must report at least one problem") from None
    reject_disguised_numbers(raw, found, (), problems)
    problems.raise_any(SourceMap(Origin(what)))
    return found


def unknown_key_message(
    key: str, allowed: Iterable[str], other: Iterable[str] = (), elsewhere: Iterable[str] = ()
) -> str:
    """Return the message for a key that a section does not have.

    Keys of `other` branches, and paths of the same key `elsewhere`, are suggested, but not listed.
    """
    known, paths = sorted(set(allowed)), " or ".join(map(repr, elsewhere))
    near = did_you_mean(key, known) or did_you_mean(key, {*other} - {key})
    near = f"; did you mean {paths}?" if paths else near
    return f"unknown key{near} (known: {', '.join(known) or 'none'})"


def reject_disguised_numbers(raw: Any, valid: Any, at: KeyPath, problems: Problems) -> None:
    """Refuse a `true`, `yes` or `on` that became the number 1 between `raw` and `valid`, and a text such as 1_000."""
    is_bool = isinstance(valid, bool)
    is_number = isinstance(valid, int | float) and not is_bool
    if (isinstance(raw, bool) and not is_bool) or (is_number and isinstance(raw, str) and "_" in raw):
        kind = _KIND.get(type(valid).__name__, "something else")
        problems.add(at, f"found {format_value(raw)}, must be {kind}")
    elif isinstance(raw, dict):
        for key, value in raw.items():
            inner = valid.get(key) if isinstance(valid, Mapping) else getattr(valid, key, value)
            reject_disguised_numbers(value, inner, (*at, key), problems)
    elif isinstance(raw, list) and isinstance(valid, (list, tuple)):
        for index, (value, inner) in enumerate(zip(raw, valid, strict=False)):
            reject_disguised_numbers(value, inner, (*at, index), problems)


def _key_path(entry: Any, raw: Any) -> KeyPath:
    """Return the keys in an error's location, without pydantic's names for the branches of unions."""
    loc = entry["loc"]
    own = (place for place in range(len(loc)) if _is_key(loc, place, raw) or _names_missing(entry, place))
    return tuple(loc[place] for place in own)


def _names_missing(entry: Any, place: int) -> bool:
    return entry["type"] == "missing" and place == len(entry["loc"]) - 1


def _is_key(loc: KeyPath, place: int, raw: Any) -> bool:
    for part in loc[:place]:
        raw = raw[part] if _holds(raw, part) else raw
    return _holds(raw, loc[place])


def _holds(raw: Any, part: str | int) -> bool:
    if isinstance(raw, dict):
        return part in raw
    return isinstance(raw, (list, tuple)) and isinstance(part, int) and part < len(raw)


def _likeliest_branches(entries: list[Any], raw: Any) -> list[Any]:
    """Return the errors of those branches of each union that the user may have meant, outermost unions first."""
    for depth in range(max(len(entry["loc"]) for entry in entries)):
        unions: dict[KeyPath, dict[Any, list[Any]]] = defaultdict(lambda: defaultdict(list))
        for entry in entries:
            loc = entry["loc"]
            if len(loc) > depth and not _is_key(loc, depth, raw) and not _names_missing(entry, depth):
                unions[loc[:depth]][loc[depth]].append(entry)
        branches = (list(of_union.values()) for of_union in unions.values())
        dropped = [entry for several in branches for entry in _unlikely(several, depth + 1)]
        entries = [entry for entry in entries if not any(entry is d for d in dropped)]
    return entries


def _unlikely(branches: list[list[Any]], depth: int) -> list[Any]:
    """Return the errors of unlikely branches: those that refused the type of the value, then those with more errors."""
    inside = [branch for branch in branches if all(len(entry["loc"]) > depth for entry in branch)]
    if inside:
        kept = [min(inside, key=len)]
    else:
        kept = [branch for branch in branches if not all(_about_kind(entry) for entry in branch)] or branches
    return [entry for branch in branches if not any(branch is k for k in kept) for entry in branch]


def _about_kind(entry: Any) -> bool:
    return bool(_SUFFIX.search(entry["type"])) or entry["type"] == "literal_error"


def _demand(entry: Any) -> str:
    """Return the expected value as text, or an empty text if the error has another form."""
    kind = _KIND.get(_SUFFIX.sub("", entry["type"]))
    if kind:
        return kind
    message: str = entry["msg"]
    if entry["type"] == "string_pattern_mismatch":
        return f"text of the form {entry['ctx']['pattern']}"
    return message.removeprefix("Input should be ") if message.startswith("Input should be ") else ""


def _statement(entry: Any) -> str:
    kind, ctx = entry["type"], entry.get("ctx", {})
    if kind == "missing":
        return "is missing"
    if kind == "value_error":
        return str(entry["msg"]).removeprefix("Value error, ")
    if kind == "union_tag_not_found":
        return f"must have a key {ctx['discriminator']}"
    if kind == "union_tag_invalid":
        tags = re.findall(r"'([^']*)'", ctx["expected_tags"])
        near = did_you_mean(str(ctx["tag"]), tags)
        key = ctx["discriminator"].strip("'")
        return f"found {key} {ctx['tag']!r}, must be one of {', '.join(tags)}{near}"
    if kind == "too_short":
        return f"found {format_value(entry['input'])}; expected {ctx['min_length']} or more entries; add one"
    message = str(entry["msg"])
    return f"found {format_value(entry['input'])}: {message[:1].lower()}{message[1:]}"


def _near_word(entries: list[Any]) -> str:
    words = [w for e in entries if e["type"] == "literal_error" for w in re.findall(r"'([^']*)'", e["msg"])]
    return did_you_mean(entries[0]["input"], words) if isinstance(entries[0]["input"], str) else ""


def _near_key(options: type[BaseModel], path: KeyPath, raw: Any, demands: list[str], given: Any) -> str:
    """Return the suggestion of a key that is not a section, if a section is given a plain value: wakes for wake: 3."""
    if not path or _KIND["dict"] not in demands or given is None:
        return ""
    return did_you_mean(str(path[-1]), {*_keys_at(options, path[:-1], raw)} - {str(path[-1])})


def _some_keys(options: type[BaseModel], path: KeyPath, raw: Any, demands: list[str]) -> str:
    """Return the first keys of a section that is given a plain value: `` (every, metrics, ...)``."""
    keys = _keys_at(options, path, raw, narrow=False) if demands[-1] == _KIND["dict"] else []
    return f" ({', '.join(keys[:3])}{', ...' if len(keys) > 3 else ''})" if keys else ""


def _keys_at(options: type[BaseModel], loc: KeyPath, raw: Any, *, narrow: bool = True) -> list[str]:
    """Return the keys allowed at a location inside `options`, over all models it can lead to.

    Without `narrow`, the keys of all branches of a union are included.
    """
    kinds: list[Any] = [options]
    for part in loc:
        models = [model for kind in kinds for model in _models_in(kind, raw)]
        fields = [_fields(model)[part] for model in models if part in _fields(model)]
        # otherwise it is a list index, or pydantic's name for a branch
        kinds = fields or [model for model in models if _is_branch(model, part)] or kinds
        raw = raw[part] if _holds(raw, part) else raw
    return [key for kind in kinds for model in _models_in(kind, raw) for key in _fields(model)]


def _fields(model: type[BaseModel]) -> dict[Any, Any]:
    return {info.alias or name: info.rebuild_annotation() for name, info in model.model_fields.items()}


def _is_branch(model: type[BaseModel], part: str | int) -> bool:
    literals = [get_args(a) for a in _fields(model).values() if get_origin(a) is Literal]
    is_called_so = any(base.__name__ == part for base in model.__mro__)
    return is_called_so or any(part in words for words in literals)


def _models_in(annotation: Any, raw: Any) -> list[type[BaseModel]]:
    """Return the models to which an annotation leads, given the data to be validated."""
    if isinstance(annotation, type) and get_origin(annotation) is None:
        return [annotation] if issubclass(annotation, BaseModel) else []
    inner = get_args(annotation)
    meant = [one.options_class_for(raw) for one in inner if isinstance(one, RegisteredOptions)]
    return [m for m in meant if m] or [model for part in inner for model in _models_in(part, raw)]
