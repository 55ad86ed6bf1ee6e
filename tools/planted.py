"""Planted faults: the share of known faults that the tests find.

    python -m tools.planted --check
    python -m tools.planted [--only NAME ...] [--kind KIND] [--near] [--results FILE] -- PYTEST ARGUMENTS

The first form says which faults of ``tests/planted_faults.yaml`` no longer apply to the files here. The second one
plants one fault at a time in a copy of HEAD and runs pytest there. It prints a JSON line for each fault, and at the end
a table on stderr. Faults that are in the results file already are not planted again. The unchanged copy is tested
first: the exit status is 2 if that fails.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FAULTS = "tests/planted_faults.yaml"
OWN_TEST = "tests/tools/test_planted.py"
"""The test of this module, which compares the faults with the code and so would find every one."""
FOLDERS = {"defences": "policies", "federated": "recommenders", "runs": "eventlog"}
"""Folders of tests with another name than the package."""
OPTIONS = ("-p", "no:cacheprovider", "--color=no", "-rfE", f"--ignore={OWN_TEST}")
MOST_TESTS = 50
"""Number of failing tests that a line names."""
NO_TESTS = 5
"""The exit status of pytest if no tests were collected."""


@dataclass(frozen=True)
class Fault:
    """A text in one function of a file, and the text that replaces it."""

    name: str
    kind: str
    file: str
    function: str
    search: str
    replace: str
    why: str

    def plant(self, source: str) -> str:
        """Return the source with the fault.

        Raises
        ------
        ValueError
            If the function or the text is not found once, or the result is no Python.
        """
        bounds = [
            (node.lineno - 1, node.end_lineno) for name, node in functions(source) if name == self.function
        ]
        if len(bounds) != 1:
            raise ValueError(f"found {len(bounds)} functions {self.function}; expected one")
        lines, (first, end) = source.splitlines(keepends=True), bounds[0]
        body = "".join(lines[first:end])
        if body.count(self.search) != 1:
            raise ValueError(
                f"found the text {body.count(self.search)} times in {self.function}; expected it once"
            )
        changed = "".join([*lines[:first], body.replace(self.search, self.replace), *lines[end:]])
        try:
            ast.parse(changed)
        except SyntaxError as error:
            raise ValueError(f"the changed file is no Python: {error}") from error
        return changed


def functions(source: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield the functions and methods of a module with their qualified names."""
    waiting: list[tuple[str, ast.AST]] = [("", ast.parse(source))]
    while waiting:
        prefix, parent = waiting.pop()
        for node in ast.iter_child_nodes(parent):
            name = prefix
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{prefix}.{node.name}".lstrip(".")
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield name, node
            waiting.append((name, node))


def load_faults(root: Path) -> list[Fault]:
    """Return the faults of a tree."""
    return [Fault(**plain) for plain in yaml.safe_load((root / FAULTS).read_text())]


def problems(root: Path, faults: Sequence[Fault]) -> Iterator[str]:
    """Yield a line for each fault that does not apply."""
    for fault in faults:
        try:
            fault.plant((root / fault.file).read_text())
        except (OSError, ValueError) as error:
            yield f"{fault.name}: {fault.file}: {error}"


def near_tests(root: Path, file: str) -> str | None:
    """Return the folder or file of tests that has the name of a source file's package or module, innermost first."""
    *packages, module = Path(file).with_suffix("").parts[1:]
    named = [f"tests/{FOLDERS.get(name, name)}" for name in reversed(packages)]
    return next((path for path in [*named, f"tests/test_{module}.py"] if (root / path).exists()), None)


@contextmanager
def copied_tree(root: Path) -> Iterator[Path]:
    """Yield a copy of HEAD with the same ``../shared`` and compiled kernels; it is removed afterwards."""
    git = ["git", "-C", str(root), "worktree"]
    with tempfile.TemporaryDirectory(prefix="gossiprec-planted-") as folder:
        tree, shared, kernels = Path(folder) / "tree", root.parent / "shared", root / ".cache"
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), "HEAD"], check=True)
        if shared.exists():
            (tree.parent / "shared").symlink_to(shared)
        kernels.mkdir(exist_ok=True)
        (tree / ".cache").symlink_to(kernels)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def run_tests(tree: Path, arguments: Sequence[str]) -> tuple[int, list[str]]:
    """Return the exit status of pytest in a tree, and the tests that fail."""
    # without byte code: a fault of the same size within a second would look like the file before it
    env = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", *arguments, *OPTIONS]
    done = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True, check=False)
    failed = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.M)
    if done.returncode not in (0, 1, NO_TESTS):
        print(done.stdout[-2000:], done.stderr[-2000:], sep="\n", file=sys.stderr, flush=True)
    return done.returncode, failed


def try_fault(tree: Path, fault: Fault, arguments: Sequence[str], *, near: bool) -> dict[str, Any]:
    """Plant a fault in a tree, test it, and restore the file; return the line about it.

    Raises
    ------
    RuntimeError
        If no tests are collected, or pytest fails in the unchanged tree, too.
    """
    begin, path = time.perf_counter(), tree / fault.file
    source, first = path.read_text(), near_tests(tree, fault.file) if near else None
    status, failed = 0, list[str]()
    path.write_text(fault.plant(source))
    try:
        if first is not None:
            options = [text for text in arguments if not text.startswith("tests")]
            status, failed = run_tests(tree, [*options, "-x", first])
        by_near = status not in (0, NO_TESTS)
        if not by_near:
            status, failed = run_tests(tree, arguments)
    finally:
        path.write_text(source)
    line = {"name": fault.name, "kind": fault.kind, "found": status != 0, "tests": failed[:MOST_TESTS]}
    if status == NO_TESTS:
        raise RuntimeError(f"{fault.name}: no tests were collected; correct the arguments of pytest")
    if status not in (0, 1):
        if run_tests(tree, [*arguments, "--collect-only"])[0] != 0:
            raise RuntimeError(
                f"{fault.name}: pytest ends with status {status}, and fails without the fault, too"
            )
        line["collection"] = status > 1  # below 0 a signal ended pytest
    return line | {"near": by_near, "seconds": round(time.perf_counter() - begin, 1)}


def print_table(lines: Sequence[dict[str, Any]]) -> None:
    """Print the number of faults that were found, by kind, on stderr."""
    for kind in [*dict.fromkeys(line["kind"] for line in lines), "all"]:
        found = [line["found"] for line in lines if kind in ("all", line["kind"])]
        print(f"{kind:<12}found {sum(found):>3} of {len(found):>3}", file=sys.stderr)


def run_faults(root: Path, faults: Sequence[Fault], asked: argparse.Namespace, arguments: list[str]) -> int:
    """Test faults that have no line yet; return the exit status."""
    known = asked.results.read_text().splitlines() if asked.results and asked.results.exists() else []
    lines = {line["name"]: line for line in map(json.loads, known)}
    todo = [fault for fault in faults if fault.name not in lines]
    with copied_tree(root) as tree:
        if unfit := [*problems(tree, todo)]:
            raise RuntimeError("\n".join(["found faults that do not apply to HEAD:", *unfit]))
        status, failed = (0, []) if asked.skip_first or not todo else run_tests(tree, arguments)
        if status != 0:
            print(f"pytest ends with status {status} without a fault:", *failed, sep="\n", file=sys.stderr)
            return 2
        for fault in todo:
            line = lines[fault.name] = try_fault(tree, fault, arguments, near=asked.near)
            print(json.dumps(line), flush=True)
            if asked.results:
                with asked.results.open("a") as file:
                    file.write(json.dumps(line) + "\n")
    print_table([lines[fault.name] for fault in faults])
    return 0


def main() -> int:
    """Check the faults, or test them."""
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog="-- PYTEST ARGUMENTS")
    parser.add_argument("--check", action="store_true", help="only say which faults do not apply")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="faults to plant")
    parser.add_argument("--kind", help="kind of the faults to plant")
    parser.add_argument(
        "--near", action="store_true", help="first run the tests of the fault's package, with -x"
    )
    parser.add_argument("--skip-first", action="store_true", help="do not test the unchanged copy first")
    parser.add_argument(
        "--results", type=Path, metavar="FILE", help="append the lines, and skip faults in it"
    )
    asked = parser.parse_args(sys.argv[1:at])
    root = Path.cwd()
    faults = load_faults(root)
    if unknown := {*(asked.only or ())} - {fault.name for fault in faults}:
        parser.error(f"no fault is named {', '.join(sorted(unknown))}")
    if asked.kind is not None and asked.kind not in {fault.kind for fault in faults}:
        parser.error(f"no fault is of the kind {asked.kind}")
    faults = [f for f in faults if f.name in (asked.only or [f.name]) and f.kind == (asked.kind or f.kind)]
    if asked.check:
        found = [*problems(root, faults)]
        for line in found:
            print(line)
        return 1 if found else 0
    try:
        return run_faults(root, faults, asked, sys.argv[at + 1 :])
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
