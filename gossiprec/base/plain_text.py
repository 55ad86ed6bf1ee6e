"""JSON and YAML that gossiprec wrote, as read again: plain data of bounded size and depth.

A file from an untrusted source can hold numbers that no float holds, text that no terminal prints, or a few lines of
YAML aliases that stand for more values than the memory holds. None of these comes from gossiprec.
"""

from __future__ import annotations

import json
import math
import re
from contextlib import suppress
from typing import Any

import yaml

MAX_DEPTH = 40
MAX_VALUES = 1_000_000
JSON_GROWTH, YAML_GROWTH = 40, 400
"""Bytes of memory that a byte of text takes at most while it is parsed, as in ``[[],[],[]]``."""
MAX_INTEGER = 2**64
"""Magnitude of the largest whole number: one bit more than a signed column holds, for seeds."""
C_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
C_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The classes of libyaml, if PyYAML has them. They read odd texts differently, and have other messages."""
_SIMPLE = re.compile(r"(?:[\w:./+ \n,-]|(?<=\w)@|'[\w:./+ ,-]+'|\[\]|\{\})*", re.ASCII)
"""Texts that libyaml writes and reads as PyYAML does, in a fifth of the time."""
_SIMPLE_WIDTH = 80
"""Longest line of such texts, which bounds their depth, too."""


def parse_json(raw: bytes) -> Any:
    """Return the value of a JSON text.

    Raises
    ------
    ValueError
        If it is not JSON, or holds what gossiprec does not write.
    """
    try:
        found = json.loads(raw, parse_float=_finite, parse_constant=_finite)
    except RecursionError:
        raise ValueError(_too_deep()) from None
    _check(found, 0)
    return found


def parse_yaml(raw: bytes | str) -> Any:
    """Return the value of a YAML text, without merge keys (``<<``).

    Raises
    ------
    ValueError
        If it is not YAML, or holds what gossiprec does not write.
    """
    try:
        try:
            found = _load(raw, C_LOADER if _is_simple(raw) else yaml.SafeLoader)
        except yaml.YAMLError:  # its messages differ
            found = _load(raw, yaml.SafeLoader)
    except RecursionError:
        raise ValueError(_too_deep()) from None
    except (yaml.YAMLError, ValueError, LookupError, AttributeError) as error:  # `!!int ""`, `!!timestamp x`
        raise ValueError(" ".join(str(error).split())) from None
    _check(found, 0)
    return found


def _load(raw: bytes | str, kind: Any) -> Any:
    loader = kind(raw)
    try:
        node = loader.get_single_node()
        _count(node, {}, 0)
        return None if node is None else loader.construct_document(node)
    finally:
        loader.dispose()


def dump_yaml(value: Any) -> str:
    """Return plain data as YAML, in the order of keys: the text that :func:`yaml.safe_dump` gives."""
    with suppress(UnicodeError):  # half of a surrogate pair
        text: str = yaml.dump(value, Dumper=C_DUMPER, sort_keys=False, allow_unicode=True)
        if _is_simple(text):
            return text
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True)


def _is_simple(text: bytes | str) -> bool:
    if isinstance(text, bytes):
        text = text.decode("latin-1")
    return _SIMPLE.fullmatch(text) is not None and max(map(len, text.split("\n"))) <= _SIMPLE_WIDTH


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"found the number {text}; expected finite numbers; the file is damaged")
    return number


def _check(value: Any, depth: int) -> None:
    """Refuse data that is too deep, whole numbers too large to calculate with, and text that is no Unicode."""
    if depth > MAX_DEPTH:
        raise ValueError(_too_deep())
    if isinstance(value, dict):
        for name, item in value.items():
            _check(name, depth + 1)
            _check(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _check(item, depth + 1)
    elif isinstance(value, str):
        value.encode()  # half of a surrogate pair: a UnicodeEncodeError, which is a ValueError
    elif isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise ValueError("found a whole number above 2**64; the file is damaged")


def _count(node: yaml.Node | None, known: dict[int, int], depth: int) -> int:
    """Return the number of values of a YAML node, with every use of an alias; each node is visited once."""
    if depth > MAX_DEPTH:
        raise ValueError(_too_deep())
    if id(node) not in known:
        parts: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            parts = [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            parts = node.value
        if any(part.tag.endswith(":merge") for part in parts):
            raise ValueError("found a merge key (<<), which gossiprec does not write; the file is damaged")
        known[id(node)] = 0 if node is None else MAX_VALUES  # an alias to what contains it has no end
        known[id(node)] = 1 + sum(_count(part, known, depth + 1) for part in parts)
    if known[id(node)] > MAX_VALUES:
        raise ValueError(
            f"found more than {MAX_VALUES} values, with each use of an alias; the file is damaged"
        )
    return known[id(node)]


def _too_deep() -> str:
    return f"found more than {MAX_DEPTH} levels; the file is damaged"
