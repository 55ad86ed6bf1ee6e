"""Names that documentation, code and examples use exist: imports are in the reference, pages are in the repository."""

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
FOLDERS = (
    "gossiprec",
    "analysis",
    "benchmarks",
    "docs",
    "examples",
    "scenarios",
    "tests",
    "tools",
    "topologies",
)
TEXTS = sorted(
    path
    for place in (ROOT.glob("*"), *((ROOT / folder).rglob("*") for folder in FOLDERS))
    for path in place
    if path.suffix in (".cfg", ".ipynb", ".md", ".py", ".toml", ".yaml", ".yml")
)
"""Files of which the texts (prose, comments, docstrings, messages, links) may name pages."""
IN_DOCS = re.compile(r"(?<![\w/.:-])docs/[\w./-]*\w")
MARKDOWN = re.compile(r"(?<![\w/.:*{}-])(?!docs/)[\w./-]+\.md\b")
NO_PAGES = {"report.md", "findings.md", "x.md", "docs/record/decisions/NNNN-title.md"}
"""Pages that studies write, and examples of names."""


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


def missing_pages(path, text, pages):
    """Return the pages and paths below docs/ that a file names and that do not exist; a bare name may be anywhere."""
    named = {*IN_DOCS.findall(text), *MARKDOWN.findall(text)} - NO_PAGES
    places = (ROOT, path.parent, ROOT / "docs")
    return sorted(
        name
        for name in named
        if not any((place / name).exists() for place in places)
        and ("/" in name or (name.lower() not in pages and "tests" not in path.parts))
    )


@pytest.mark.slow
def test_every_page_that_is_named_exists():
    pages = {path.name.lower() for path in TEXTS if path.suffix == ".md"}
    missing = {str(path.relative_to(ROOT)): missing_pages(path, path.read_text(), pages) for path in TEXTS}
    assert {name: found for name, found in missing.items() if found} == {}


def test_a_page_that_does_not_exist_is_found():
    text = "See docs/" + "nowhere.md, [this](../" + "gone.md#top), none" + ".md, docs/index.md and index.md."
    assert missing_pages(ROOT / "docs" / "a.md", text, {"index.md"}) == [
        "../" + "gone.md", "docs/" + "nowhere.md", "none" + ".md",
    ]  # fmt: skip
