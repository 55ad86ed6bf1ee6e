"""The reader's test: can a reader say what a function does, from its name and signature only?

    python -m tools.reader_test SEED [--number 20] [--answers] [ROOT]

draws public functions and methods of `gossiprec` and `analysis` and prints each with its module and its signature,
without body and docstring. Write one sentence per function, then compare with ``--answers``, which prints the first
sentence of each docstring. The same seed and tree give the same functions.
"""

from __future__ import annotations

import argparse
import ast
import copy
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGES = ("gossiprec", "analysis")


@dataclass(frozen=True)
class Question:
    """A function of the test.

    Attributes
    ----------
    module : str
        Dotted name of its module.
    signature : str
        Its decorators and its line ``def``, below the line ``class`` for a method.
    answer : str
        The first paragraph of its docstring.
    """

    module: str
    signature: str
    answer: str


def list_questions(root: Path) -> list[Question]:
    """Return the public functions and methods with a docstring, in the order of their modules."""
    return [
        question
        for package in PACKAGES
        for path in sorted((root / package).rglob("*.py"))
        for question in _functions(
            ast.parse(path.read_text(encoding="utf-8")),
            ".".join(path.relative_to(root).with_suffix("").parts),
        )
    ]


def draw_questions(root: Path, seed: int, number: int) -> list[Question]:
    """Return `number` different functions of the tree at `root`, drawn by `seed`."""
    questions = list_questions(root)
    return random.Random(seed).sample(questions, min(number, len(questions)))


def _functions(holder: ast.Module | ast.ClassDef, module: str) -> Iterator[Question]:
    for node in holder.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _functions(node, module)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            answer = ast.get_docstring(node)
            if answer:
                inside = holder.name if isinstance(holder, ast.ClassDef) else None
                yield Question(module, _signature(node, inside), " ".join(answer.split("\n\n")[0].split()))


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef, inside: str | None) -> str:
    bare = copy.copy(node)
    bare.body = [ast.Expr(ast.Constant(...))]
    text = ast.unparse(bare)
    return (
        text
        if inside is None
        else f"class {inside}:\n" + "\n".join(f"    {line}" for line in text.split("\n"))
    )


def main(arguments: list[str]) -> None:
    """Print the functions, or their docstrings, each below its number."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("seed", type=int, help="seed of the draw")
    parser.add_argument("root", type=Path, nargs="?", default=Path(), help="the checkout  [default: .]")
    parser.add_argument("--number", type=int, default=20, help="how many functions to draw  [default: 20]")
    parser.add_argument("--answers", action="store_true", help="also print the docstrings")
    options = parser.parse_args(arguments)
    for number, question in enumerate(draw_questions(options.root, options.seed, options.number), 1):
        print(f"{number}. {question.module}\n{question.signature}")
        print(f"-> {question.answer}\n" if options.answers else "")


if __name__ == "__main__":
    main(sys.argv[1:])
