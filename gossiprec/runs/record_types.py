"""The types of what other code reads from ``manifest.json``, ``summary.json`` and ``study.json``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gossiprec.base.errors import LogError

TEXT, COUNT, SIZE, NUMBER, LABEL = "text", "a whole number from 0", "a number", "a number or null", "a label"
"""Kinds of single values; a label is text, a number, a boolean or null."""
NUMBERS = {"*": NUMBER}
LABELS = {"*": LABEL}

_TYPES: Mapping[str, tuple[type, ...]] = {
    TEXT: (str,), COUNT: (int,), SIZE: (int, float), NUMBER: (int, float, type(None)),
    LABEL: (str, bool, int, float, type(None)),
}  # fmt: skip

MANIFEST = {
    "status": TEXT, "code": TEXT, "seed": COUNT, "plugins": {"*": LABELS}, "packages": {"*": TEXT},
    "data": {"*": None}, "inputs": {"*": LABELS}, "files": {"*": {"bytes!": COUNT, "sha256!": TEXT}},
    "writer": LABELS, "stopped": {"*": None}, "observes": {"*": None}, "notes": [TEXT], "resumed": [{"*": None}],
    "changes": [{"*": None}],
}  # fmt: skip
SUMMARY = {
    **dict.fromkeys(("scenario", "status", "dataset", "executor"), TEXT),
    **dict.fromkeys(("seed", "nodes", "items", "interactions", "poisoners", "coordinator", "threads"), COUNT),
    **dict.fromkeys(("wakes", "messages", "node_updates"), COUNT),
    **dict.fromkeys(("virtual_time", "wall_seconds", "peak_rss_mib"), SIZE),
    **dict.fromkeys(("seconds", "needed_mib", "utility", "bytes"), NUMBERS),
    "attacks": [{
        "observer!": TEXT, "relevance!": TEXT, "momentum!": NUMBER, "community_size!": COUNT, "max_aac!": NUMBER,
        "*": LABEL,
    }],
    "findings": [{"attack!": TEXT, "measure!": TEXT, "labels!": LABELS, "value!": NUMBER, "*": None}],
    "notes": [TEXT], "membership": [{"*": None}],
    "network": {"dropped": NUMBERS, "*": None},
    "privacy?": {"told_rows?": NUMBERS, "nodes": COUNT, "delta": NUMBER, "*": LABEL},
    "stopped": {
        "round!": COUNT, "patience!": COUNT, "measure!": TEXT,
        "best?": {"value!": SIZE, "round!": COUNT, "*": None}, "*": None,
    },
}  # fmt: skip
STUDY = {
    "gossiprec!": TEXT, "study!": TEXT, "status": TEXT, "axes": [TEXT], "baseline": LABELS, "words": {"*": TEXT},
    "simulations": COUNT, "finished": COUNT, "writer": LABELS,
}  # fmt: skip


def check_record(path: Path, found: Mapping[str, Any], expected: Mapping[str, Any], step: str) -> None:
    """Refuse a record of another structure.

    Parameters
    ----------
    path : Path
        The file, for the message.
    found : mapping
        Its content.
    expected : mapping
        By key, a kind of value, a mapping, or a list with the kind of its entries. ``*`` is any other key,
        ``!`` marks a key that must exist, ``?`` one that may be null, and None is anything.
    step : str
        What the user can do, for the message.

    Raises
    ------
    LogError
    """
    if fault := _fault("", found, expected):
        raise LogError(f"{path}: {fault}; {step}")


def _fault(name: str, found: Any, expected: Any) -> str | None:
    """Return the first difference between a value and its expected kind, as text."""
    if isinstance(expected, Mapping):
        if not isinstance(found, Mapping):
            return f"{name} is {_shown(found)}; expected a mapping"
        return _mapping_fault(name, found, expected)
    if isinstance(expected, list):
        if not isinstance(found, list):
            return f"{name} is {_shown(found)}; expected a list"
        parts = (_fault(f"{name}.{place}", each, expected[0]) for place, each in enumerate(found))
        return next(filter(None, parts), None)
    if expected is None:
        return None
    is_kind = isinstance(found, _TYPES[expected]) and (expected == LABEL or not isinstance(found, bool))
    if not is_kind or (expected == COUNT and found < 0):
        return f"{name} is {_shown(found)}; expected {expected}"
    return None


def _mapping_fault(name: str, found: Mapping[str, Any], expected: Mapping[str, Any]) -> str | None:
    prefix = f"{name}." if name else ""
    for marked in expected:
        key = marked.rstrip("!?")
        if marked.endswith("!") and key not in found:
            return f"{prefix}{key} is missing"
    kinds = {marked.rstrip("!?"): kind for marked, kind in expected.items()}
    for key, value in found.items():
        if value is None and f"{key}?" in expected:
            continue
        if fault := _fault(f"{prefix}{key}", value, kinds.get(key, kinds.get("*"))):
            return fault
    return None


def _shown(found: Any) -> str:
    text = repr(found)
    return text if len(text) <= 60 else f"{text[:60]} ..."
