"""Values given on the command line: ``protocol.wakes=10``, ``observers.0.momentum=[0, 0.99]``."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from itertools import pairwise
from typing import Any

from gossiprec.base.errors import ScenarioError, did_you_mean
from gossiprec.scenario.problems import KeyPath, Origin, Problems, format_path, format_value
from gossiprec.scenario.yaml_source import SourceLayer, read_yaml_text


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
        complaint = _set(layer, override)
        if complaint:
            problems.add((), complaint, origin=override.origin)
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
        read = read_yaml_text(value, str(origin), problems, numbered=False)
    except ScenarioError as error:
        problems.add((), str(error).removeprefix(f"{origin}: "), origin=origin)
        return None
    return Override(keys, read.data, origin)


def _set(layer: SourceLayer, override: Override) -> str | None:
    """Set the value, or return why it cannot be set."""
    holder: Any = layer.data
    path: KeyPath = ()
    for key, following in pairwise(override.keys):
        step = _step(holder, key, path)
        if isinstance(step, _Refusal):
            return step.message
        path = (*path, step)
        if _absent(holder, step):
            layer.origins[path] = override.origin
            _put(holder, step, [] if following == "0" else {})
        holder = holder[step]
    step = _step(holder, override.keys[-1], path)
    if isinstance(step, _Refusal):
        return step.message
    layer.forget((*path, step))
    layer.origins[(*path, step)] = override.origin
    _put(holder, step, copy.deepcopy(override.value))
    return None


@dataclass(frozen=True)
class _Refusal:
    message: str


def _step(holder: Any, key: str, path: KeyPath) -> str | int | _Refusal:
    """Return the key or index that `key` denotes in `holder`; an index may be one past the end."""
    if isinstance(holder, dict):
        return key
    if not isinstance(holder, list):
        return _Refusal(
            f"{format_path(path)} is {format_value(holder)}, not a section that can contain {key!r}"
        )
    if key.isascii() and key.isdigit() and len(key) < 9 and int(key) <= len(holder):
        return int(key)
    held = f"{len(holder)} entries, counted from 0" if holder else "no entries yet"
    return _Refusal(
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
