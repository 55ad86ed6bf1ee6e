"""Reader of YAML text that keeps the line of every key, and of values given on the command line.

It refuses misleading or excessive input. The text is composed into nodes with :class:`yaml.SafeLoader` and read from
there, because finished data no longer has lines or repeated keys. Only text, numbers, booleans, null, lists and
mappings are allowed.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from gossiprec.base.errors import ScenarioError, did_you_mean
from gossiprec.base.inputs import read_regular_file
from gossiprec.base.options import KeyPath
from gossiprec.base.plain_text import C_DUMPER, C_LOADER, DUMPER, LOADER
from gossiprec.base.text import format_value
from gossiprec.scenario.bundled import STUDIES, bundled_dir, bundled_files
from gossiprec.scenario.problems import Origin, Problems, SourceMap, format_path

STDIN = "-"
"""The path of standard input."""
MAX_BYTES = 512 * 1024
MAX_VALUES = 100_000
MAX_DEPTH = 40

_TAG = "tag:yaml.org,2002:"
_NUMBERS_AND_WORDS = frozenset(_TAG + kind for kind in ("int", "float", "bool", "null"))
_TEXT = frozenset(_TAG + kind for kind in ("str", "timestamp"))  # a date is text here: no option needs one


@dataclass
class SourceLayer:
    """Plain data and the origin of each of its values; layers are merged over one another."""

    data: Any
    whole: Origin
    origins: dict[KeyPath, Origin] = field(default_factory=dict)

    @property
    def source_map(self) -> SourceMap:
        """The origins, to be kept by a scenario."""
        return SourceMap(self.whole, self.origins)

    def forget(self, path: KeyPath) -> None:
        """Remove the origins at and below `path`, since its value is about to be replaced."""
        for known in [known for known in self.origins if known[: len(path)] == path]:
            del self.origins[known]


def read_file(path: Path, problems: Problems) -> SourceLayer:
    """Read a scenario file, or stdin if the path is ``-``.

    Raises
    ------
    ScenarioError
        If the file cannot be opened, or is not text, or not YAML.
    """
    if str(path) == STDIN:
        return _read_stdin(problems)
    try:
        raw = read_regular_file(path, most_bytes=MAX_BYTES, error=ScenarioError)
    except FileNotFoundError:
        raise ScenarioError(f"{path}: no such file{_near(path)}") from None
    except (OSError, ValueError) as error:
        raise ScenarioError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return _read_bytes(raw, str(path), problems)


def _read_stdin(problems: Problems) -> SourceLayer:
    """Read the YAML that another program writes: ``generate | gossiprec simulate -``."""
    raw = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise ScenarioError(f"standard input: more than {MAX_BYTES} bytes; expected a scenario or a study")
    return _read_bytes(raw, "standard input", problems)


def _read_bytes(raw: bytes, source: str, problems: Problems) -> SourceLayer:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise ScenarioError(f"{source}: not a text file; expected YAML in UTF-8")
    return read_yaml_text(text, source, problems)


def read_yaml_text(
    text: str, source: str, problems: Problems, *, numbered: bool = True, at: KeyPath = ()
) -> SourceLayer:
    """Read YAML `text`, naming `source` in messages.

    Parameters
    ----------
    text : str
        One YAML document.
    source : str
        File name, or another name of the text.
    problems : Problems
        Receives repeated keys, foreign tags and similar faults; reading continues.
    numbered : bool
        Whether line numbers of `text` are useful to the user.
    at : key path
        Key path of the value in the scenario.

    Raises
    ------
    ScenarioError
        If the text is not YAML, or empty, or too large or too deep.
    """
    try:
        node = yaml.compose(text, Loader=LOADER)
    except yaml.MarkedYAMLError as error:
        raise ScenarioError(_syntax_error(error, source, numbered)) from None
    except yaml.YAMLError as error:
        raise ScenarioError(f"{source}: not valid YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise ScenarioError(f"{source}: is nested too deeply") from None
    return _read_node(node, source, problems, numbered=numbered, at=at)


def _read_node(
    node: Any, source: str, problems: Problems, *, numbered: bool, at: KeyPath = ()
) -> SourceLayer:
    reader = _Reader(source, problems, numbered)
    data = None if node is None else reader.value(node, at)
    return SourceLayer(data, Origin(source), reader.origins)


def read_mapping(mapping: Mapping[str, Any], problems: Problems, source: str = "scenario") -> SourceLayer:
    """Return the layer of a mapping in memory, read under the same rules as a file; `source` names it."""
    try:
        text = yaml.dump(dict(mapping), Dumper=C_DUMPER, sort_keys=False)
        node = yaml.compose(text, Loader=C_LOADER)
    except UnicodeError:  # half of a surrogate pair, which only the slow ones escape
        text = yaml.dump(dict(mapping), Dumper=DUMPER, sort_keys=False)
        return read_yaml_text(text, source, problems, numbered=False)
    except (yaml.YAMLError, ValueError) as error:  # Python prints no number of more than 4,300 digits
        raise ScenarioError(f"{source}: contains a value that YAML cannot represent: {error}") from None
    except RecursionError:
        raise ScenarioError(f"{source}: is nested too deeply") from None
    return _read_node(node, source, problems, numbered=False)


def _syntax_error(error: yaml.MarkedYAMLError, source: str, numbered: bool) -> str:
    mark, start = error.problem_mark or error.context_mark, error.context_mark
    origin = Origin(source, mark.line + 1 if mark and numbered else 0)
    begun = f" ({error.context} from line {start.line + 1})" if error.context and start and numbered else ""
    return f"{origin}: not valid YAML: {error.problem or error.context}{begun}"


def _near(path: Path) -> str:
    """Return the next step if a file is missing: its path, folder, a similar name, or the command to write it."""
    bundled = bundled_files("scenarios") | bundled_files(STUDIES)
    if path.stem in bundled:
        present = path.parent / bundled[path.stem].path.relative_to(bundled_dir())
        if present.is_file():
            return f"; use its present path {present}"
        return f"; run gossiprec init {path.stem} to write it"
    if not path.parent.is_dir():
        return f" (and no folder {path.parent})"
    there = sorted(p.name for p in path.parent.iterdir() if p.suffix in (".yaml", ".yml"))
    return did_you_mean(path.name, there) or (f"; there are: {', '.join(there[:10])}" if there else "")


class _Reader:
    """One pass over a node tree. Aliases are followed, so the number of values visited is bounded."""

    def __init__(self, source: str, problems: Problems, numbered: bool) -> None:
        self.origins: dict[KeyPath, Origin] = {}
        self._source = source
        self._problems = problems
        self._numbered = numbered
        self._visited = 0
        self._scalars = LOADER("")

    def value(self, node: yaml.Node, path: KeyPath) -> Any:
        self._visited += 1
        if self._visited > MAX_VALUES or len(path) > MAX_DEPTH:
            most = f"{MAX_VALUES} values" if self._visited > MAX_VALUES else f"{MAX_DEPTH} levels"
            raise ScenarioError(
                f"{self._origin(node)}: contains more than {most}, counting each use of an alias (*)"
            )
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            return [self._child(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _origin(self, node: yaml.Node) -> Origin:
        return Origin(self._source, node.start_mark.line + 1 if self._numbered else 0)

    def _child(self, node: yaml.Node, path: KeyPath) -> Any:
        self.origins[path] = self._origin(node)
        return self.value(node, path)

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        found: dict[str, Any] = {}
        lines: dict[str, Origin] = {}
        merged: list[yaml.Node] = []
        for key_node, value_node in node.value:
            origin = self._origin(key_node)
            if key_node.tag == _TAG + "merge":
                merged.append(value_node)
            elif not isinstance(key_node, yaml.ScalarNode) or key_node.tag not in _TEXT:
                self._problems.add(
                    path, f"the key {format_value(key_node.value)} must be text", origin=origin
                )
            elif key_node.value in found:
                first = lines[key_node.value]
                self._problems.add((*path, key_node.value), f"found twice (first in {first})", origin=origin)
            else:
                lines[key_node.value] = self.origins[(*path, key_node.value)] = origin
                found[key_node.value] = self.value(value_node, (*path, key_node.value))
        for value_node in merged:
            self._merge_key(value_node, path, found)
        return found

    def _merge_key(self, node: yaml.Node, path: KeyPath, found: dict[str, Any]) -> None:
        """Merge the mappings of ``<<`` under the mapping's own keys; the first of several takes precedence."""
        for part in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if not isinstance(part, yaml.MappingNode):
                self._problems.add(path, "`<<` must refer to a mapping", origin=self._origin(part))
                continue
            inner = _Reader(self._source, self._problems, self._numbered)
            inner._visited = self._visited
            merged = inner.value(part, path)
            new = merged.keys() - found.keys()
            found.update((key, value) for key, value in merged.items() if key in new)
            self.origins.update((p, o) for p, o in inner.origins.items() if p[len(path)] in new)
            self._visited = inner._visited

    def _scalar(self, node: yaml.Node, path: KeyPath) -> Any:
        complaint = f"the tag {format_value(node.tag)} is not allowed"
        if node.tag in _TEXT:
            if "\0" not in node.value:
                return node.value
            complaint = f"found {format_value(node.value)}, must be text without the character \\0"
        elif isinstance(node, yaml.ScalarNode) and node.tag in _NUMBERS_AND_WORDS:
            try:
                return self._scalars.construct_object(node)
            except ValueError as error:  # `!!int x`, 1:30, or too many digits
                complaint = str(error)
            except (KeyError, IndexError):  # `!!bool x`
                complaint = f"found {format_value(node.value)}, must be a {node.tag.removeprefix(_TAG)}"
        self._problems.add(path, complaint, origin=self._origin(node))
        return None


@dataclass(frozen=True)
class Override:
    """One value to set: its key path, the value, and the text that the user typed."""

    keys: tuple[str, ...]
    value: Any
    origin: Origin


def parse_overrides(texts: Iterable[str], problems: Problems) -> list[Override]:
    """Return the parsed ``key.path=value`` texts, with values as YAML; invalid ones go to `problems`."""
    parsed = [_parsed(text, problems) for text in texts]
    return [override for override in parsed if override is not None]


def apply_overrides(layer: SourceLayer, overrides: Iterable[Override], problems: Problems) -> SourceLayer:
    """Return `layer` with each override set in turn; missing sections are created.

    Notes
    -----
    An unknown key is set too: validation then refuses it under the override's name.
    """
    layer = SourceLayer(copy.deepcopy(layer.data), layer.whole, dict(layer.origins))
    for override in overrides:
        try:
            _set(layer, override)
        except ScenarioError as error:
            problems.add((), str(error), origin=override.origin)
    return layer


def _parsed(text: str, problems: Problems) -> Override | None:
    origin = Origin(f"override {format_value(text, limit=80)}")
    path, equals, value = text.partition("=")
    keys = tuple(path.strip().split("."))
    if not equals or not all(keys):
        problems.add((), "expected key.path=value, such as protocol.wakes=10", origin=origin)
        return None
    if not value.strip():
        return Override(keys, None, origin)
    try:
        read = read_yaml_text(value, str(origin), problems, numbered=False, at=keys)
    except ScenarioError as error:
        problems.add((), str(error).removeprefix(f"{origin}: "), origin=origin)
        return None
    return Override(keys, read.data, origin)


def _set(layer: SourceLayer, override: Override) -> None:
    """Set the value.

    Raises
    ------
    ScenarioError
        If there is no place for it.
    """
    holder: Any = layer.data
    path: KeyPath = ()
    for key, following in pairwise(override.keys):
        step = _step(holder, key, path)
        path = (*path, step)
        if _absent(holder, step):
            layer.origins[path] = override.origin
            _put(holder, step, [] if following == "0" else {})
        holder = holder[step]
    step = _step(holder, override.keys[-1], path)
    layer.forget((*path, step))
    layer.origins[(*path, step)] = override.origin
    _put(holder, step, copy.deepcopy(override.value))


def _step(holder: Any, key: str, path: KeyPath) -> str | int:
    """Return the key or index that `key` denotes in `holder`; an index may be one past the end."""
    if isinstance(holder, dict):
        return key
    if not isinstance(holder, list):
        raise ScenarioError(
            f"{format_path(path)} is {format_value(holder)}, not a section that can contain {key!r}"
        )
    if key.isascii() and key.isdigit() and len(key) < 9 and int(key) <= len(holder):
        return int(key)
    held = f"{len(holder)} entries, counted from 0" if holder else "no entries yet"
    raise ScenarioError(
        f"{format_path(path)} is a list with {held}; {key!r} is not one of them (use {len(holder)} to append)"
    )


def _absent(holder: Any, step: str | int) -> bool:
    if isinstance(holder, list):
        return step == len(holder) or holder[int(step)] is None
    return holder.get(step) is None


def _put(holder: Any, step: str | int, value: Any) -> None:
    if isinstance(holder, list) and step == len(holder):
        holder.append(value)
    else:
        holder[step] = value


def merge_layers(under: SourceLayer, over: SourceLayer) -> SourceLayer:
    """Return `over` with its gaps filled from `under`: mappings merge key by key, everything else replaces.

    Notes
    -----
    A mapping that names another thing or distribution, or
    has a count (``every``) instead of a clock, replaces the lower one as a whole, because their options differ.
    """
    below = SourceLayer(under.data, under.whole, dict(under.origins))
    data = _merged(below, under.data, over.data, ())
    return SourceLayer(data, over.whole, {**below.origins, **over.origins})


def apply_preset(layer: SourceLayer, chosen: Any, problems: Problems) -> SourceLayer:
    """Return `layer` (without its key ``preset``) over the preset called `chosen`.

    Parameters
    ----------
    layer : SourceLayer
        The user's own values, a mapping.
    chosen : object
        The preset's name as the user wrote it, or ``None`` for no preset.
    problems : Problems
        Receives an unknown name; the layer is then returned unchanged.
    """
    own = SourceLayer({k: v for k, v in layer.data.items() if k != "preset"}, layer.whole, layer.origins)
    if chosen is None:
        return own
    known = preset_names()
    if chosen not in known:
        near = did_you_mean(str(chosen), known)
        problems.add(("preset",), f"found {format_value(chosen)}, must be one of {', '.join(known)}{near}")
        return own
    file = resources.files("gossiprec.scenario") / "presets" / f"{chosen}.yaml"
    return merge_layers(read_yaml_text(file.read_text(encoding="utf-8"), f"preset {chosen}", problems), own)


def preset_names() -> list[str]:
    """Return the names of the presets that are bundled with gossiprec."""
    folder = resources.files("gossiprec.scenario") / "presets"
    return sorted(file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml"))


def _merged(below: SourceLayer, under: Any, over: Any, path: KeyPath) -> Any:
    if not (isinstance(under, dict) and isinstance(over, dict)) or _names_another(under, over):
        below.forget(path)
        return over
    both = {key: _merged(below, under[key], over[key], (*path, key)) for key in under if key in over}
    return {**under, **over, **both}


def _names_another(under: dict[str, Any], over: dict[str, Any]) -> bool:
    renamed = any(key in over and key in under and over[key] != under[key] for key in ("name", "law"))
    return renamed or ("every" in over and "law" in under) or ("law" in over and "every" in under)
