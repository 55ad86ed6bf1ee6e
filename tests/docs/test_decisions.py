"""Decision records: complete, in the list with those that are gone, and true to the paths of the tree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "record" / "decisions"
RECORDS = sorted(FOLDER.glob("[0-9]*.md"))
SECTIONS = ["Context", "Decision", "Rejected", "Consequences"]
"""In this order; each record has the first two."""
PATH = re.compile(r"(?<![\w./-])(?:gossiprec|analysis|benchmarks|tests|docs|scenarios)/(?:[\w./-]*[\w/])?")


def title(record):
    """Return the title of a record, with its number."""
    return record.read_text().splitlines()[0].removeprefix("# ")


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.stem)
def test_a_record_has_its_sections(record):
    assert title(record).startswith(f"{record.name[:4]}. ")
    _, *parts = re.split(r"^## ", record.read_text(), flags=re.MULTILINE)
    names = [part.splitlines()[0] for part in parts]
    assert names[:2] == SECTIONS[:2]
    assert names == [name for name in SECTIONS if name in names]
    assert all(len(part.splitlines()) > 2 for part in parts)


def test_the_list_has_a_line_for_each_record_and_for_each_that_is_gone():
    page = (FOLDER / "index.md").read_text()
    kept = re.findall(r"^- \[(.+)\]\((.+)\)$", page, re.MULTILINE)
    assert kept == [(title(record), record.name) for record in RECORDS]
    numbers = [record.name[:4] for record in RECORDS]
    gone = re.findall(r"^- (\d{4}): (?:deleted: .+|merged into (\d{4}))$", page, re.MULTILINE)
    assert {survivor for _, survivor in gone if survivor} <= {*numbers}
    numbers = sorted([*numbers, *(number for number, _ in gone)])
    assert numbers == [f"{n:04}" for n in range(1, len(numbers) + 1)]


@pytest.mark.parametrize(
    "page",
    [ROOT / "docs" / "architecture.md", *RECORDS],
    ids=lambda page: page.stem,
)
def test_paths_of_records_and_of_the_architecture_exist(page):
    missing = [path for path in PATH.findall(page.read_text()) if not (ROOT / path).exists()]
    assert not missing


def test_contributing_begins_with_the_architecture():
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "CONTRIBUTING.md").read_text())
    assert links[0] == "docs/architecture.md"
