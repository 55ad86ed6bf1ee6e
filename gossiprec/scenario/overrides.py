"""Values given on the command line: ``protocol.wakes=10``, ``observers.0.momentum=[0, 0.99]``."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from gossiprec.errors import ScenarioError
from gossiprec.scenario.problems import KeyPath, Origin, Problems, dotted, shown
from gossiprec.scenario.source import Layer, read_text


@dataclass(frozen=True)
class Override:
    """One value to set: the keys that lead to it, the value, and how the user typed it."""

    keys: tuple[str, ...]
    value: Any
    origin: Origin


def parse_overrides(texts: Iterable[str], problems: Problems) -> list[Override]:
    """Read ``key.path=value`` texts, values as YAML; the ones that make no sense go to `problems`."""
    parsed = [_parsed(text, problems) for text in texts]
    return [override for override in parsed if override is not None]


def apply_overrides(layer: Layer, overrides: Iterable[Override], problems: Problems) -> Layer:
    """Return `layer` with each override set in turn; sections that are not there yet are made on the way.

    Notes
    -----
    A key that no section knows is set all the same: validation then refuses it under the override's name.
    """
    layer = Layer(copy.deepcopy(layer.data), layer.whole, dict(layer.origins))
    for override in overrides:
        complaint = _set(layer, override)
        if complaint:
            problems.add((), complaint, origin=override.origin)
    return layer


def _parsed(text: str, problems: Problems) -> Override | None:
    origin = Origin(f"override {shown(text, limit=80)}")
    path, equals, value = text.partition("=")
    keys = tuple(path.strip().split("."))
    if not equals or not all(keys):
        problems.add((), "expected key.path=value, such as protocol.wakes=10", origin=origin)
        return None
    if not value.strip():
        return Override(keys, None, origin)
    try:
        read = read_text(value, str(origin), problems, numbered=False)
    except ScenarioError as error:
        problems.add((), str(error).removeprefix(f"{origin}: "), origin=origin)
        return None
    return Override(keys, read.data, origin)


def _set(layer: Layer, override: Override) -> str | None:
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
    """Return the key or index by which `key` leads on from `holder`; an index may be one past the end."""
    if isinstance(holder, dict):
        return key
    if not isinstance(holder, list):
        return _Refusal(f"{dotted(path)} is {shown(holder)}, not a section that can contain {key!r}")
    if key.isascii() and key.isdigit() and len(key) < 9 and int(key) <= len(holder):
        return int(key)
    held = f"{len(holder)} entries, counted from 0" if holder else "no entries yet"
    return _Refusal(
        f"{dotted(path)} is a list with {held}; {key!r} is not one of them (use {len(holder)} to append)"
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
