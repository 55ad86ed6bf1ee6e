"""Names of parts in the core: a module of the core that asks for the registered name of a part knows that part.

Names are read from the source: ``REGISTRY.register("name")`` and ``register_family("name")``. A module asks for a name
if it compares with it (``==``, ``in``, ``case``), has it in a table (a mapping, tuple or set) of its own, or finds a
member of a registry by it. A message may name parts, and so may the default of an option.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tools.home_contracts import ROOT

REGISTER = ("register", "register_family")


class Question(NamedTuple):
    """A module of the core, and the name of a part for which it asks."""

    module: str
    name: str


def read_modules() -> dict[str, ast.Module]:
    """Return the syntax tree of each module of the package, by its dotted name."""
    found = {}
    for file in sorted((ROOT / "gossiprec").rglob("*.py")):
        parts = file.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = ast.parse(file.read_text(encoding="utf-8"))
    return found


def find_questions(modules: Mapping[str, ast.Module], homes: Mapping[str, str]) -> set[Question]:
    """Return each question of a module of the core for a name that only parts register."""
    core = {module for module in modules if homes.get(module, "").startswith("core/")}
    by_core, by_parts = (
        {name for module in some for name in _registered_names(modules[module])}
        for some in (core, modules.keys() - core)
    )
    return {
        Question(module, name)
        for module in core
        for name in _asked_names(modules[module])
        if name in by_parts - by_core
    }


def _registered_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and _function_name(node.func) in REGISTER:
            yield from _texts(node.args[0])


def _asked_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Compare():
                for side in (node.left, *node.comparators):
                    yield from _texts(side)
            case ast.MatchValue():
                yield from _texts(node.value)
            case ast.Subscript(value=ast.Name(id=table), slice=key) if table.isupper():
                yield from _texts(key)
            case (
                ast.Subscript(value=ast.Dict() as table)
                | ast.Call(func=ast.Attribute(value=ast.Dict() as table))
            ):
                yield from _texts(table)
    for statement in tree.body:  # tables of the module
        match statement:
            case ast.Assign(value=ast.expr() as value) | ast.AnnAssign(value=ast.expr() as value):
                if not isinstance(value, ast.Constant):
                    yield from _texts(value)


def _texts(node: ast.expr | None) -> Iterator[str]:
    """Yield a text, or the texts in a tuple, list or set that is written out."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
            for element in elements:
                yield from _texts(element)
        case ast.Dict(keys=keys):
            for key in keys:
                yield from _texts(key)
        case ast.Call(func=ast.Name(id="frozenset" | "set"), args=[given]):
            yield from _texts(given)


def _function_name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
