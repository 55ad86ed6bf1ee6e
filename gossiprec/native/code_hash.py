"""The hash of a function's machine code: of its own code, and of everything that it calls or freezes."""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

_FIXED = sys.stdlib_module_names | {"numba", "numpy", "llvmlite"}
"""Packages that do not change: the first two are part of numba's own key, the others of an installation."""


def hash_function(function: FunctionType) -> str:
    """Return a hash of a function's code and of what it reaches by name: functions, constants, classes, closures.

    Functions count with the files that they are in, because decorators decide how they are compiled. An unknown object
    makes the hash unique, so that the function is compiled again.
    """
    total = hashlib.sha256()
    for part in _told(function, set()):
        total.update(part.encode())
        total.update(b"\n")
    return total.hexdigest()


def _told(value: Any, seen: set[int]) -> Iterator[str]:
    value = next((found for name in ("py_func", "_defn") if (found := getattr(value, name, None))), value)
    about = value if isinstance(value, FunctionType | type) else type(value)
    if isinstance(value, ModuleType):
        yield value.__name__
    elif isinstance(value, tuple | list):
        for part in (type(value).__name__, *value):
            yield from _told(part, seen)
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype}{value.shape}{hashlib.sha256(value.tobytes()).hexdigest()}"
    elif _is_fixed(about.__module__):
        yield f"{about.__module__}.{about.__qualname__}" if about is value else _constant(value)
    elif id(value) not in seen:
        seen.add(id(value))
        yield f"{about.__module__}.{about.__qualname__}"
        yield _file(getattr(sys.modules.get(about.__module__), "__file__", None))
        if isinstance(value, FunctionType):
            yield from _code(value.__code__)
            for part in (value.__defaults__, *_reached(value)):
                yield from _told(part, seen)
        elif about is not value:
            yield repr(value) if isinstance(value, Enum) else _unknown()


def _reached(function: FunctionType) -> Iterator[Any]:
    """Yield the objects that a function's code names, including the attributes it reads of modules that change."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    known = {**function.__globals__, **{name: cell.cell_contents for name, cell in cells}}
    names = list(_names(function.__code__))
    for name in names:
        if name in known:
            yield (name, known[name])
    modules = [known[name] for name in names if isinstance(known.get(name), ModuleType)]
    while modules:
        module = modules.pop()
        if not _is_fixed(module.__name__):
            for name in names:
                found = vars(module).get(name)
                yield (name, found)
                if isinstance(found, ModuleType):
                    modules.append(found)


def _names(code: CodeType) -> Iterator[str]:
    yield from (*code.co_names, *code.co_freevars)
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _names(part)


def _code(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    for part in code.co_consts:
        yield from _code(part) if isinstance(part, CodeType) else [_constant(part)]


def _constant(value: Any) -> str:
    text = repr(sorted(map(repr, value)) if isinstance(value, set | frozenset) else value)
    return _unknown() if " at 0x" in text else text


def _unknown() -> str:
    return os.urandom(16).hex()


def _is_fixed(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _FIXED


@functools.cache
def _file(path: str | None) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest() if path and Path(path).is_file() else ""
