"""The figures of the code: each count on a tree made for it."""

from pathlib import Path

import pytest

from tools.code_figures import CodeFigures, code_lines, count_homes, count_walks, count_words, measure_tree

ROOT = Path(__file__).resolve().parents[2]

MODULE = '''"""Docstring
of two lines."""

# a comment
import os  # counts


def work(a, b):
    """Do it."""
    return (
        a
        + b
    )
'''


def test_comments_blank_lines_and_docstrings_are_no_code():
    assert code_lines(MODULE) == 6


@pytest.fixture
def tree(tmp_path):
    package = tmp_path / "gossiprec"
    package.mkdir()
    (tmp_path / "analysis").mkdir()
    names = ", ".join(f"p{n}" for n in range(9))
    body = "\n".join(f"    x{n} = {n}" for n in range(61))
    same = "class Same:\n    pass\n"
    (package / "__init__.py").write_text("")
    (package / "one.py").write_text(f"from gossiprec import two\n{same}def many({names}):\n    pass\n")
    (package / "two.py").write_text(f"{same}def long():\n    from gossiprec.one import many\n{body}\n")
    (package / "three.py").write_text(
        "from typing import TYPE_CHECKING\nfrom gossiprec.one import many\nmany(1, 2, 3, 4, 5, 6, 7)  # fmt: skip\n"
        "if TYPE_CHECKING:\n    from gossiprec.four import Four\n"
    )
    (package / "four.py").write_text("from gossiprec.three import many\nclass Four:\n    pass\n")
    return tmp_path


def test_each_figure_finds_what_it_counts(tree):
    figures = measure_tree(tree)
    assert figures.long_functions == ["gossiprec.two.long"]
    assert figures.many_parameters == ["gossiprec.one.many (9)"]
    assert figures.repeated_classes == {"Same": ["gossiprec.one", "gossiprec.two"]}
    assert figures.cycles == [["gossiprec.one", "gossiprec.two"]]  # not through what type checks alone import
    assert figures.positional_calls == ["gossiprec.three:3"]
    assert figures.skipped_formats == ["gossiprec.three"]
    assert figures.counts()["modules"] == 5
    assert figures.counts()["small_modules"] == 4


def test_each_package_and_its_parts_have_a_line():
    modules = {"one": 1, "one.runs": 2, "one.runs.read": 4, "one.version": 8, "other": 16}
    rows = {row["package"]: (row["lines"], row["modules"]) for row in CodeFigures(modules=modules).packages()}
    assert rows == {"one.*": (9, 2), "one.runs": (6, 2), "one": (15, 4), "other.*": (16, 1), "other": (16, 1)}
    assert list(rows) == ["one.*", "one.runs", "one", "other.*", "other"]


def test_each_home_has_its_lines_modules_and_exceptions():
    figures = CodeFigures(modules={"one": 1, "two": 2, "three": 4})
    homes = {"one": "core/run", "two": "core/run", "three": "parts/rules"}
    rows = [tuple(row.values()) for row in count_homes(figures, homes, ["one", "two", "one"])]
    assert rows == [("core/run", 3, 2, 3), ("parts/rules", 4, 1, 0)]


def test_words_are_counted_by_their_readers(tmp_path):
    docs = tmp_path / "docs"
    (docs / "record" / "old").mkdir(parents=True)
    (docs / "reference").mkdir()
    (tmp_path / "README.md").write_text("two words")
    (docs / "page.md").write_text("three words here")
    (docs / "record" / "notes.md").write_text("four")
    (docs / "record" / "old" / "notes.txt").write_text("five more")
    (docs / "reference" / "runs.md").write_text("generated")
    (docs / "table.csv").write_text("no words")
    counts = count_words(tmp_path)
    assert counts == {"words_of_records": 3, "words_of_user_pages": 3, "words_of_readme": 2}


@pytest.mark.slow
@pytest.mark.full
def test_the_house_keeps_to_its_limits():
    found = measure_tree(Path(__file__).resolve().parents[2])
    assert found.long_functions == found.cycles == []
    assert found.repeated_classes == {}
    assert len(found.many_parameters) <= 5, found.many_parameters


def test_walks_count_the_lines_of_the_names_in_their_tables(tree):
    (tree / "docs").mkdir()
    (tree / "gossiprec" / "walk.py").write_text(
        'LIMIT = (\n    1\n)\n\n\n@staticmethod\ndef work():\n    """Do it."""\n    # a comment\n\n    return 1\n\n\n'
        'class Shape:\n    """A shape."""\n\n    side: int\n\n    def area(self):\n        return self.side**2\n'
    )
    page = (
        "## Walks\n\n### Walk: a thing\n\nText.\n\n| file | names | lines |\n|---|---|---|\n"
        "| `walk.py` | `LIMIT`, `work`, `Shape`{} | 12 |\n\n## Layers\n\n| `no_walk.py` | `none` | 3 |\n"
    )
    (tree / "docs" / "architecture.md").write_text(page.format(""))
    assert list(count_walks(tree)) == [{"walk": "a thing", "lines": 3 + 4 + 3, "files": 1}]
    (tree / "docs" / "architecture.md").write_text(page.format(", `.area`"))
    assert list(count_walks(tree)) == [{"walk": "a thing", "lines": 3 + 4 + 3 + 2, "files": 1}]
    (tree / "docs" / "architecture.md").write_text(page.format(", `.perimeter`"))
    with pytest.raises(KeyError, match="has no perimeter"):
        list(count_walks(tree))


def test_the_walks_of_the_page_name_what_exists():
    assert [walk["walk"] for walk in count_walks(ROOT)] == ["a message", "an observation", "a scenario key"]
