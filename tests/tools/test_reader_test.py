"""The reader's test draws functions by a seed, and shows no body, and docstrings only on request."""

import shutil
from pathlib import Path

import pytest

from tools.reader_test import PACKAGES, draw_questions, list_questions, main

ROOT = Path(__file__).parents[2]
MODULE = '''"""A module."""


@cached
def total(numbers: list[float], *, start: float = 0.0) -> float:
    """Return the sum
    of `numbers`.

    More of it.
    """
    return sum(numbers, start)


def undocumented(a):
    return a


def _hidden():
    """Return nothing."""


class Box:
    """A box."""

    def width(self) -> int:
        """Return the width in pixels."""
        return 3
'''


@pytest.fixture
def tree(tmp_path):
    for package in PACKAGES:
        (tmp_path / package).mkdir()
    (tmp_path / "gossiprec" / "one.py").write_text(MODULE)
    return tmp_path


def test_a_question_shows_the_signature_and_neither_body_nor_docstring(tree, capsys):
    main(["1", str(tree)])
    shown = capsys.readouterr().out
    assert "@cached\ndef total(numbers: list[float], *, start: float=0.0) -> float:\n    ...\n" in shown
    assert "class Box:\n    def width(self) -> int:\n" in shown
    assert shown.count("gossiprec.one\n") == 2
    for hidden in ("sum", "Return", "undocumented", "_hidden"):
        assert hidden not in shown


def test_answers_are_the_first_paragraphs_of_the_docstrings(tree, capsys):
    main(["1", str(tree), "--answers"])
    shown = capsys.readouterr().out
    assert "-> Return the sum of `numbers`.\n" in shown
    assert "-> Return the width in pixels.\n" in shown
    assert "More of it" not in shown


@pytest.fixture
def some_of_the_tree(tmp_path):
    """Two folders of this tree, in place of all of it."""
    for folder in ("gossiprec/runs", "analysis/papers"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    return tmp_path


def test_a_seed_draws_the_same_functions_of_the_tree_and_another_seed_others(some_of_the_tree):
    first, again, other = (draw_questions(some_of_the_tree, seed, 20) for seed in (1, 1, 2))
    assert len({(each.module, each.signature) for each in first}) == 20
    assert first == again != other
    assert {each.module.partition(".")[0] for each in list_questions(some_of_the_tree)} == set(PACKAGES)
