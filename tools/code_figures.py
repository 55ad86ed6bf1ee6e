"""Figures of the code and the docs: lines, modules, long functions, repeated names, import cycles, and words.

    python -m tools.code_figures [--list] [--loaded] [ROOT]

prints JSON lines: lines and modules of each package, and of each home that a module will have (``tools/homes.tsv``)
with its imports that do not fit (``tools/home_exceptions.tsv``), the lines and files of each walk of
``docs/architecture.md`` (:func:`count_walks`), the words of the docs, and all figures of `gossiprec` and `analysis`
together. ``--list`` also prints the functions, names and cycles that are counted, ``--loaded`` what a
fresh process has loaded after each of the runs of ``tools/loaded/``. A line of code has a token other than a comment;
docstrings do not count. Words are those of Markdown and text files, without the generated reference of Python.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import networkx as nx

from tools.home_contracts import EXCEPTIONS, read_homes, read_rows

PACKAGES = ("gossiprec", "analysis")
RECORD, REFERENCE = Path("docs/record"), Path("docs/reference")
"""Folders of the docs that no user must read, and of those that are generated."""
LONG, MANY, SMALL, POSITIONAL = 60, 8, 28, 6
"""Upper limits: lines of a function that is not long, parameters that are few, lines of code of a small module, and
arguments of a call without their names."""
WALKS = Path("docs/architecture.md")
"""The page with the walks."""
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass
class CodeFigures:
    """Figures of a tree of Python modules."""

    lines: int = 0
    modules: dict[str, int] = field(default_factory=dict)
    long_functions: list[str] = field(default_factory=list)
    many_parameters: list[str] = field(default_factory=list)
    repeated_classes: dict[str, list[str]] = field(default_factory=dict)
    cycles: list[list[str]] = field(default_factory=list)
    positional_calls: list[str] = field(default_factory=list)
    skipped_formats: list[str] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """Return the figures as numbers."""
        return {
            "lines": self.lines,
            "modules": len(self.modules),
            "small_modules": sum(lines <= SMALL for lines in self.modules.values()),
            f"functions_over_{LONG}_lines": len(self.long_functions),
            f"functions_over_{MANY}_parameters": len(self.many_parameters),
            "repeated_public_classes": len(self.repeated_classes),
            "import_cycles": len(self.cycles),
            f"calls_with_over_{POSITIONAL}_positional_arguments": len(self.positional_calls),
            "formats_skipped": len(self.skipped_formats),
        }

    def packages(self) -> Iterator[dict[str, str | int]]:
        """Yield lines and modules of each package, and of its parts first; single modules count as ``*``."""
        parts: defaultdict[str, list[int]] = defaultdict(list)
        within = {".".join(name.split(".")[:2]) for name in self.modules if name.count(".") > 1}
        for name, lines in self.modules.items():
            top, part = name.split(".")[0], ".".join(name.split(".")[:2])
            parts[part if part in within else f"{top}.*"].append(lines)
            parts[f"{top}.~"].append(lines)  # after its parts
        for name, of_modules in sorted(parts.items()):
            yield {
                "package": name.removesuffix(".~"),
                "lines": sum(of_modules),
                "modules": len(of_modules),
            }


def count_homes(
    figures: CodeFigures, homes: Mapping[str, str], importers: Iterable[str]
) -> Iterator[dict[str, str | int]]:
    """Yield lines, modules, and imports that do not fit, of each home, given the importer of each such import."""
    exceptions = Counter(homes[importer] for importer in importers)
    for home in sorted(set(homes.values())):
        of_modules = [figures.modules.get(name, 0) for name, own in homes.items() if own == home]
        yield {
            "home": home,
            "lines": sum(of_modules),
            "modules": len(of_modules),
            "exceptions": exceptions[home],
        }


def count_loaded(figures: CodeFigures, scenario: Path) -> dict[str, str | int]:
    """Return the lines and the number of modules of gossiprec that a fresh process has loaded after a run."""
    program = (
        "import sys, tempfile, gossiprec\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    gossiprec.simulate(sys.argv[1], out=f'{folder}/run')\n"
        "print(*(name for name in sys.modules if name.split('.')[0] == 'gossiprec'))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, scenario], check=True, capture_output=True, text=True
    )
    names = ran.stdout.split()
    return {
        "loaded_by": scenario.stem,
        "lines": sum(figures.modules.get(name, 0) for name in names),
        "modules": len(names),
    }


def count_walks(root: Path) -> Iterator[dict[str, str | int]]:
    """Yield the lines and files of each walk: of the functions, classes and constants in the tables below its title.

    Lines with code or a docstring count. A class counts without its methods, which are listed if they must be read; a
    name that begins with a point is a member of the class before it.

    Raises
    ------
    KeyError
        If a file has no such name.
    """
    _, *walks = re.split(r"^### Walk: ", (root / WALKS).read_text(encoding="utf-8"), flags=re.MULTILINE)
    for walk in walks:
        title, _, text = walk.partition("\n")
        rows = re.findall(
            r"^\| `([\w/]+\.py)` \| (.*?) \|", re.split(r"^##", text, flags=re.MULTILINE)[0], re.M
        )
        lines = [
            len(_lines_of(root / PACKAGES[0] / file, re.findall("`(.*?)`", names))) for file, names in rows
        ]
        yield {"walk": title, "lines": sum(lines), "files": len(rows)}


def _lines_of(path: Path, names: Iterable[str]) -> set[int]:
    """Return the lines of some names of a module that are neither blank nor a comment."""
    text, found, holder = path.read_text(encoding="utf-8"), set[int](), ""
    body = ast.parse(text).body
    for name in names:
        holder, _, member = (holder + name if name.startswith(".") else name).partition(".")
        node = _named(body, holder, path)
        if member:
            assert isinstance(node, ast.ClassDef)
            node = _named(node.body, member, path)
        methods = [each for each in getattr(node, "body", ()) if isinstance(each, _FUNCTIONS)]
        found |= _range_of(node) - {
            line for each in methods if isinstance(node, ast.ClassDef) for line in _range_of(each)
        }
    comments = {
        n for n, line in enumerate(text.splitlines(), 1) if not line.strip() or line.strip()[0] == "#"
    }
    return found - comments


def _named(body: Iterable[ast.stmt], name: str, path: Path) -> ast.stmt:
    """Return the statement that defines a name."""
    for node in body:
        if getattr(node, "name", None) == name:
            return node
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        if any(isinstance(each, ast.Name) and each.id == name for t in targets if t for each in ast.walk(t)):
            return node
    raise KeyError(f"{path} has no {name}")


def _range_of(node: ast.stmt) -> set[int]:
    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
    return set(range(first, (node.end_lineno or node.lineno) + 1))


def count_words(root: Path) -> dict[str, int]:
    """Return the words of records, pages for users and README below a folder."""
    words: Counter[str] = Counter()
    for path in (root / "docs").rglob("*"):
        if path.suffix in (".md", ".txt"):
            below = path.relative_to(root).parents
            kind = "record" if RECORD in below else "reference" if REFERENCE in below else "pages"
            words[kind] += len(path.read_text(encoding="utf-8").split())
    return {
        "words_of_records": words["record"],
        "words_of_user_pages": words["pages"],
        "words_of_readme": len((root / "README.md").read_text(encoding="utf-8").split()),
    }


def code_lines(text: str) -> int:
    """Return the number of lines of code in a module: no blank lines, comments or docstrings."""
    docstrings = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in _NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(lines - docstrings)


def measure_tree(root: Path, packages: tuple[str, ...] = PACKAGES) -> CodeFigures:
    """Return the figures of the packages below a folder."""
    figures, classes = CodeFigures(), defaultdict(list)
    trees = {}
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            name, text = _module_name(path.relative_to(root)), path.read_text(encoding="utf-8")
            trees[name] = ast.parse(text)
            figures.modules[name] = code_lines(text)
            if package == PACKAGES[0]:
                figures.skipped_formats += [name] * text.count("# fmt: skip")
    figures.lines = sum(figures.modules.values())
    for name, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].append(name)
        for node in ast.walk(tree):
            if isinstance(node, _FUNCTIONS):
                _measure_function(figures, f"{name}.{node.name}", node)
            elif isinstance(node, ast.Call) and len(node.args) > POSITIONAL:
                figures.positional_calls.append(f"{name}:{node.lineno}")
    figures.repeated_classes = {name: where for name, where in sorted(classes.items()) if len(where) > 1}
    graph = nx.DiGraph(
        (name, other) for name, tree in trees.items() for other in _imported(name, tree, trees)
    )
    figures.cycles = [sorted(group) for group in nx.strongly_connected_components(graph) if len(group) > 1]
    return figures


def _measure_function(
    figures: CodeFigures, name: str, function: ast.FunctionDef | ast.AsyncFunctionDef
) -> None:
    arguments = function.args
    count = len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs)
    if (function.end_lineno or function.lineno) - function.lineno + 1 > LONG:
        figures.long_functions.append(name)
    if count > MANY:
        figures.many_parameters.append(f"{name} ({count})")


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(name: str, tree: ast.Module, known: dict[str, ast.Module]) -> Iterator[str]:
    """Yield the modules that a module imports when it runs, in functions too; not those for type checks only."""
    checked = {id(node) for test in ast.walk(tree) if _is_type_check(test) for node in ast.walk(test)}
    for node in ast.walk(tree):
        if id(node) in checked:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                other = f"{node.module}.{alias.name}"
                target = other if other in known else node.module
                if target in known and target != name:
                    yield target


def _is_type_check(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parents[1])
    parser.add_argument("--loaded", action="store_true", help="make three runs and print what they load, too")
    parser.add_argument("--list", action="store_true", help="print what is counted, too")
    options = parser.parse_args()
    figures = measure_tree(options.root)
    if options.list:
        for name in ("long_functions", "many_parameters", "repeated_classes", "cycles", "positional_calls"):
            print(name, json.dumps(getattr(figures, name), indent=1), file=sys.stderr)
    importers = (importer for importer, *_ in read_rows(EXCEPTIONS))
    homes = count_homes(figures, read_homes(), importers)
    scenarios = sorted((options.root / "tools" / "loaded").glob("*.yaml")) if options.loaded else ()
    loaded = (count_loaded(figures, scenario) for scenario in scenarios)
    walks, words = count_walks(options.root), count_words(options.root)
    for row in (*figures.packages(), *homes, *loaded, *walks, words, figures.counts()):
        print(json.dumps(row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
