"""The fast suite (``pytest --suite fast``) has a test of every package."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.slow import slow_except_first

ROOT = Path(__file__).resolve().parents[1]
SLOW = re.compile(r"pytest\.mark\.(slow|full)\b")
IMPORT = re.compile(r"^\s*from ((?:gossiprec|analysis)[\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)


def has_quick_test(source: str) -> bool:
    """Return whether a test file has a test, or a parameter of one, that the fast suite runs."""
    if not SLOW.search(source):
        return "def test_" in source
    statements = ast.parse(source).body
    if any(
        isinstance(statement, ast.Assign)
        and ast.unparse(statement.targets[0]) == "pytestmark"
        and SLOW.search(ast.unparse(statement.value))
        for statement in statements
    ):
        return False
    return any(
        isinstance(statement, ast.FunctionDef)
        and statement.name.startswith("test_")
        and not any(SLOW.fullmatch(ast.unparse(decorator)) for decorator in statement.decorator_list)
        for statement in statements
    )


def imported(source: str) -> set[str]:
    """Return the modules that a test file imports from, and the names that may be modules, with dots."""
    return {
        f"{module}.{name}" for module, names in IMPORT.findall(source) for name in re.findall(r"\w+", names)
    }


def untested(packages: set[str], sources: list[str]) -> list[str]:
    """Return the packages from which no file with a quick test imports."""
    names = {name for source in sources if has_quick_test(source) for name in imported(source)}
    return sorted(
        package for package in packages if not any(f"{name}.".startswith(f"{package}.") for name in names)
    )


def packages_of(root: Path) -> set[str]:
    """Return the packages; plug-ins belong to the package of their registry, whose tests run over all of them."""
    folders = [
        file.parent for name in ("gossiprec", "analysis") for file in (root / name).rglob("__init__.py")
    ]
    return {
        ".".join((folder.parent if registers(folder) else folder).relative_to(root).parts)
        for folder in folders
    }


def registers(folder: Path) -> bool:
    return any(
        re.search(r"^@(\w+\.register|register_\w+)\(", file.read_text(), re.MULTILINE)
        for file in folder.glob("*.py")
    )


def test_every_package_has_a_quick_test():
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    assert untested(packages_of(ROOT), [file.read_text(encoding="utf-8") for file in files]) == []


IMPORTS = "from gossiprec.models import MODELS\n"
QUICK = "def test_it():\n    pass\n"
SLOW_TEST = f"@pytest.mark.slow\n{QUICK}"


@pytest.mark.parametrize(
    ("source", "missing"),
    [
        (IMPORTS + QUICK, []),
        (IMPORTS + SLOW_TEST, ["gossiprec.models"]),
        (IMPORTS + SLOW_TEST + QUICK, []),
        (f"{IMPORTS}pytestmark = pytest.mark.slow\n{QUICK}", ["gossiprec.models"]),
        (f"{IMPORTS}@pytest.mark.full\n{QUICK}", ["gossiprec.models"]),
        (IMPORTS, ["gossiprec.models"]),
        ("from gossiprec.modes import MODES\n" + QUICK, ["gossiprec.models"]),
        ("from gossiprec import models\n" + QUICK, []),
    ],
)
def test_a_package_with_slow_tests_only_is_found(source, missing):
    assert untested({"gossiprec.models"}, [source]) == missing


def test_the_first_parameter_stands_for_the_slow_ones():
    marked = slow_except_first({"a": 1, "b": 2})
    assert marked[0] == "a"
    assert [mark.name for mark in marked[1].marks] == ["slow"]

    old = pytest.param(3, marks=pytest.mark.realdata, id="three")
    first, pair, param = slow_except_first([(0, 0), (1, 2), old])
    assert first == (0, 0)
    assert pair.values == (1, 2)
    assert (param.id, [mark.name for mark in param.marks]) == ("three", ["realdata", "slow"])
