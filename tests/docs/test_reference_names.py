"""Every name that the documentation and the examples import is in the reference."""

from __future__ import annotations

import ast
import importlib
import re
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

from gossiprec.base.registry import Registry

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"```python\n(.*?)```", re.DOTALL)
ENTRY = re.compile(r"^::: (gossiprec[\w.]*)", re.MULTILINE)
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]
SOURCES = {
    **{path.name: FENCE.findall(path.read_text()) for path in PAGES},
    **{
        str(path.relative_to(ROOT)): [path.read_text()]
        for path in sorted((ROOT / "examples").rglob("*.py"))
        if "build" not in path.parts
    },
}


def imported(code):
    """Return (module, name) of each import from gossiprec."""
    return {
        (node.module, alias.name)
        for node in ast.walk(ast.parse(textwrap.dedent(code)))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "gossiprec"
        for alias in node.names
    }


def look_up(path):
    """Return the object of a dotted path."""
    module, rest = path, []
    while True:
        try:
            found = importlib.import_module(module)
            break
        except ModuleNotFoundError:
            module, _, name = module.rpartition(".")
            rest.insert(0, name)
    for name in rest:
        found = getattr(found, name)
    return found


ENTRIES = [
    e for page in sorted((ROOT / "docs" / "reference").glob("*.md")) for e in ENTRY.findall(page.read_text())
]


@pytest.fixture(scope="module")
def described():
    """The objects of the reference, and the modules that it describes as a whole."""
    found = [look_up(entry) for entry in ENTRIES]
    return [*found, *(getattr(module, name) for module in found for name in getattr(module, "__all__", ()))]


def is_described(path, objects):
    """Return whether the reference has an object, its module, the class of a registry, or a part of a module."""
    found, module = look_up(path), importlib.import_module(path.rpartition(".")[0])
    if isinstance(found, Registry):
        found = Registry
    part = isinstance(found, ModuleType) and any(entry.startswith(f"{found.__name__}.") for entry in ENTRIES)
    return part or any(found is one or module is one for one in objects)


@pytest.mark.parametrize("source", [name for name, codes in SOURCES.items() if any(map(imported, codes))])
def test_every_name_that_is_imported_is_described(source, described):
    paths = {f"{module}.{name}" for code in SOURCES[source] for module, name in imported(code)}
    assert not sorted(path for path in paths if not is_described(path, described))


def test_no_module_sends_its_readers_to_itself():
    """As a reference does to a module that was merged into the one that names it."""
    own = []
    for folder in ("gossiprec", "analysis"):
        for path in (ROOT / folder).rglob("*.py"):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            if re.search(rf":mod:`~?{re.escape(name)}`", path.read_text()):
                own.append(name)
    assert own == []
