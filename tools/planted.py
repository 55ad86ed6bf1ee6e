"""Planted faults: the share of known faults that the tests find.

    python -m tools.planted --check
    python -m tools.planted [--only NAME ...] [--kind KIND] [--together 8] [--results FILE] -- PYTEST ARGUMENTS

The first form says which faults of ``tests/planted_faults.yaml`` no longer apply to the files here. The second one
plants faults in a copy of HEAD and runs pytest there. It prints a JSON line for each fault, and at the end a table on
stderr. Several faults are planted together first; each is then planted alone for the tests that failed. A fault of
which the effect is undone by another one of its group would be missed; ``--together 1`` plants each alone for all
tests. Faults that are in the results file already are not planted again. The unchanged copy is tested first: the exit
status is 2 if that fails.
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FAULTS = "tests/planted_faults.yaml"
OWN_TEST = "tests/tools/test_planted.py"
"""The test of this module, which compares the faults with the code and so would find every one."""
OPTIONS = ("-p", "no:cacheprovider", "--color=no", "-rfE", f"--ignore={OWN_TEST}")
UNKNOWN_TESTS, NO_TESTS = 4, 5
"""Exit statuses of pytest if it does not find the tests that it was given, and if no tests were collected."""


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
    if done.returncode not in (0, NO_TESTS) and not failed:
        print(done.stdout[-2000:], done.stderr[-2000:], sep="\n", file=sys.stderr, flush=True)
    return done.returncode, failed


@contextmanager
def planted(tree: Path, faults: Sequence[Fault]) -> Iterator[None]:
    """Plant faults in a tree; restore its files afterwards."""
    sources = {tree / fault.file: (tree / fault.file).read_text() for fault in faults}
    try:
        for fault in faults:
            path = tree / fault.file
            path.write_text(fault.plant(path.read_text()))
        yield
    finally:
        for path, source in sources.items():
            path.write_text(source)


def try_group(tree: Path, faults: Sequence[Fault], arguments: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Plant faults together, then each alone for the tests that failed; yield a line about each.

    Raises
    ------
    RuntimeError
        If no tests are collected.
    """
    with planted(tree, faults):
        status, failed = run_tests(tree, arguments)
    if status == NO_TESTS:
        raise RuntimeError("no tests were collected; correct the arguments of pytest")
    if status == 0:
        yield from (line_about(fault, status, []) for fault in faults)
    elif len(faults) == 1:
        yield line_about(faults[0], status, failed)
    else:
        print(f"  {len(failed)} tests fail with {len(faults)} faults", file=sys.stderr, flush=True)
        complete = status == 1 and all("::" in test for test in failed)
        lines = [try_alone(tree, fault, arguments, failed, complete=complete) for fault in faults]
        yield from (line for line in lines if line is not None)
        left = [fault for fault, line in zip(faults, lines, strict=True) if line is None]
        if len(left) == len(faults):
            raise RuntimeError(
                f"none of these faults alone ends the tests: {', '.join(f.name for f in left)}"
            )
        if left:
            yield from try_group(tree, left, arguments)


def try_alone(
    tree: Path, fault: Fault, arguments: Sequence[str], failed: Sequence[str], *, complete: bool
) -> dict[str, Any] | None:
    """Plant a fault alone for tests that failed, and return the line about it.

    None if no test fails, but not all tests ran: a file could not be collected, or the process ended.
    """
    near = sorted(failed, key=lambda test: -likeness(test, fault.file))
    with planted(tree, [fault]):
        options = [text for text in arguments if not text.startswith("tests")]
        status, found = run_tests(tree, [*options, "-x", *near])
    if status in (0, NO_TESTS):
        return line_about(fault, 0, []) if complete else None
    if status == UNKNOWN_TESTS:
        raise RuntimeError(f"pytest finds none of {', '.join(near)}")
    return line_about(fault, status, found)


def likeness(test: str, file: str) -> int:
    """Return how many words the path of a test has in common with that of a source file."""
    return len({*re.findall("[a-z]+", test.partition("::")[0])} & {*re.findall("[a-z]+", file)})


def line_about(fault: Fault, status: int, failed: list[str]) -> dict[str, Any]:
    """Return the line about a fault, with pytest's status if it ended before any test failed."""
    line = {"name": fault.name, "kind": fault.kind, "found": status != 0, "tests": failed}
    return line | ({"status": status} if status != 0 and not failed else {})


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
        groups = max(1, -(-len(todo) // asked.together))
        for line in (
            line for first in range(groups) for line in try_group(tree, todo[first::groups], arguments)
        ):
            lines[line["name"]] = line
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
    parser.add_argument("--together", type=int, default=8, metavar="N", help="faults planted at once")
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
