"""JSON and YAML that gossiprec wrote, as read again: plain data of bounded size and depth.

A file from an untrusted source can hold numbers that no float holds, text that no terminal prints, or a few lines of
YAML aliases that stand for more values than the memory holds. None of these comes from gossiprec.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import yaml

from gossiprec.base.text import format_value

MAX_DEPTH = 40
MAX_VALUES = 1_000_000
JSON_GROWTH, YAML_GROWTH = 40, 400
"""Bytes of memory that a byte of text takes at most while it is parsed, as in ``[[],[],[]]``."""
MAX_INTEGER = 2**64
"""Magnitude of the largest whole number: one bit more than a signed column holds, for seeds."""
_TAG = "tag:yaml.org,2002:"
_MOST_DIGITS = 30
_DECIMAL, _HEXADECIMAL = re.compile(r"[-+]?[0-9]+"), re.compile(r"[-+]?0x[0-9a-fA-F]+")
_WHOLE = re.compile(r"[-+]?(?:[0-9]+|0o[0-7_]+)$")
"""Whole numbers that PyYAML, which follows YAML 1.1, takes for text, as ``008`` and ``0o17``."""


def whole_number(text: str) -> int:
    """Return a whole number in decimal digits, with any zeros before it, or in hexadecimal ones after ``0x``.

    Raises
    ------
    ValueError
        If it is written otherwise: in base 60 (``1:30``), octal, binary or with ``_``; or if it is above 1e30.
    """
    base = 10 if _DECIMAL.fullmatch(text) else 16 if _HEXADECIMAL.fullmatch(text) else 0
    if not base:
        raise ValueError(
            f"found {format_value(text)}, must be a whole number in decimal digits, such as 10; put text in quotes"
        )
    if len(text.lstrip("+-0x")) > _MOST_DIGITS:
        raise ValueError(
            f"found a number of more than {_MOST_DIGITS} digits, must be less than 1e{_MOST_DIGITS}"
        )
    return int(text, base)


def _dialect(kind: Any) -> Any:
    """Return a class of PyYAML that reads and writes whole numbers as YAML 1.2 does.

    What it writes, PyYAML's own classes read as the same values, and it reads what they write.
    """
    found: Any = type(f"Gossiprec{kind.__name__}", (kind,), {})
    found.add_implicit_resolver(f"{_TAG}int", _WHOLE, list("-+0123456789"))
    if hasattr(found, "add_constructor"):
        found.add_constructor(f"{_TAG}int", lambda loader, node: whole_number(loader.construct_scalar(node)))
        found.add_constructor(f"{_TAG}float", _construct_float)
    return found


def _construct_float(loader: Any, node: Any) -> float:
    text = loader.construct_scalar(node)
    try:
        if ":" in text or "_" in text:  # 1:30.5, in base 60
            raise ValueError
        return float(loader.construct_yaml_float(node))
    except ValueError:
        raise ValueError(
            f"found {format_value(text)}, must be a number in decimal digits, such as 1.5; put text in quotes"
        ) from None


DUMPER, LOADER = _dialect(yaml.SafeDumper), _dialect(yaml.SafeLoader)
C_DUMPER = _dialect(getattr(yaml, "CSafeDumper", yaml.SafeDumper))
C_LOADER = _dialect(getattr(yaml, "CSafeLoader", yaml.SafeLoader))
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
    _check((found,), 0)
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
            found = _load(raw, C_LOADER if _is_simple(raw) else LOADER)
        except yaml.YAMLError:  # its messages differ
            found = _load(raw, LOADER)
    except RecursionError:
        raise ValueError(_too_deep()) from None
    except (yaml.YAMLError, ValueError, LookupError, AttributeError) as error:  # `!!int ""`, `!!timestamp x`
        raise ValueError(" ".join(str(error).split())) from None
    _check((found,), 0)
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
    """Return plain data as YAML, in the order of keys: the text that PyYAML gives, with texts such as 008 in quotes."""
    with suppress(UnicodeError):  # half of a surrogate pair
        text: str = yaml.dump(value, Dumper=C_DUMPER, sort_keys=False, allow_unicode=True)
        if _is_simple(text):
            return text
    return str(yaml.dump(value, Dumper=DUMPER, sort_keys=False, allow_unicode=True))


def _is_simple(text: bytes | str) -> bool:
    if isinstance(text, bytes):
        text = text.decode("latin-1")
    return _SIMPLE.fullmatch(text) is not None and max(map(len, text.split("\n"))) <= _SIMPLE_WIDTH


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"found the number {text}; expected finite numbers; the file is damaged")
    return number


def _check(values: Collection[Any], depth: int) -> None:
    """Refuse data that is too deep, whole numbers too large to calculate with, and text that is no Unicode."""
    if values and depth > MAX_DEPTH:
        raise ValueError(_too_deep())
    for value in values:
        kind = value.__class__
        if kind is str:
            if not value.isascii():
                value.encode()  # half of a surrogate pair: a UnicodeEncodeError, which is a ValueError
        elif kind is dict:
            _check(value, depth + 1)
            _check([*value.values()], depth + 1)
        elif kind is list:
            _check(value, depth + 1)
        elif kind is int and abs(value) > MAX_INTEGER:
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


def flat_items(content: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values in nested mappings and lists with their paths, such as ``observers.0.momentum``."""
    inner: Iterable[tuple[Any, Any]] = ()
    if isinstance(content, Mapping):
        inner = content.items()
    elif isinstance(content, list):
        inner = enumerate(content)
    if not content or not isinstance(content, Mapping | list):
        yield prefix, content
    for key, value in inner:
        yield from flat_items(value, f"{prefix}.{key}" if prefix else str(key))
