"""Programs in strings import names that exist: tests run them in processes of their own, pages show them."""

import ast
import importlib
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
IMPORT = re.compile(r"\bfrom (gossiprec[\w.]*) import ([\w, ]+)")
ABOUT_MISSING_NAMES = {"tests/test_programs_in_strings.py", "tests/tools/test_code_figures.py"}
"""Files that import names on purpose that are missing, or of a tree made for a test."""


def imports_in(path: Path) -> set[tuple[str, str]]:
    """Return the modules and names that the strings of a Python file, or a page, import from gossiprec."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        constants = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)]
        text = "\n".join(value for value in constants if isinstance(value, str))
    found = {
        (module, name.split(" as ")[0].strip())
        for module, names in IMPORT.findall(text)
        for name in names.split(",")
    }
    return {(module, name) for module, name in found if name}


def is_there(module: str, name: str) -> bool:
    """Return whether a module exists and has a name, or a module of that name."""
    try:
        if importlib.util.find_spec(module) is None:
            return False
    except ModuleNotFoundError:  # a package above it is missing
        return False
    present = importlib.import_module(module)
    if name in vars(present) or name in getattr(present, "__all__", ()):
        return True
    return hasattr(present, "__path__") and importlib.util.find_spec(f"{module}.{name}") is not None


def files_of(folder: str) -> list[str]:
    """Return the Python files and pages of a folder, without those that are about missing names."""
    files = [*(ROOT / folder).rglob("*.py"), *(ROOT / folder).rglob("*.md")]
    return sorted({file.relative_to(ROOT).as_posix() for file in files} - ABOUT_MISSING_NAMES)


def missing_in(names: list[str]) -> list[tuple[str, str, str]]:
    """Return the imports of names that do not exist: file, module, name."""
    found = [(name, *each) for name in names for each in sorted(imports_in(ROOT / name))]
    return [each for each in found if not is_there(*each[1:])]


@pytest.mark.parametrize("folder", ["tests", "benchmarks", "tools", "examples", "docs"])
@pytest.mark.cases(2)
def test_imported_names_exist(folder):
    assert missing_in(files_of(folder)) == []


def test_imported_names_of_the_readme_exist():
    assert missing_in(["README.md"]) == []


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("from gossiprec.overlay.exchange import Exchange", [("gossiprec.overlay.exchange", "Exchange")]),
        ("from gossiprec.numerics import optimizers", [("gossiprec.numerics", "optimizers")]),
        (
            "from gossiprec.data.split import partition",
            [("gossiprec.data.split", "partition")],
        ),
        ("from gossiprec.models import MODELS, Model; from gossiprec import simulate", []),
    ],
)
def test_missing_modules_and_names_are_found(tmp_path, text, missing):
    page = tmp_path / "page.md"
    page.write_text(text)
    assert [found for found in sorted(imports_in(page)) if not is_there(*found)] == missing
