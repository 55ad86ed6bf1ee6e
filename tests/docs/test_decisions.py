"""Decision records: numbered, complete, in the index, and true to the paths of the tree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "decisions"
RECORDS = sorted(FOLDER.glob("[0-9]*.md"))
SECTIONS = ["Context", "Decision", "Rejected", "Consequences"]
PATH = re.compile(r"(?<![\w./-])(?:gossiprec|analysis|benchmarks|tests|docs|scenarios)/(?:[\w./-]*[\w/])?")


def status(record):
    """Return the status of a record."""
    return record.read_text().splitlines()[2].removeprefix("Status: ")


def title(record):
    """Return the title of a record, with its number."""
    return record.read_text().splitlines()[0].removeprefix("# ")


def test_records_are_numbered_without_a_gap():
    assert [record.name[:4] for record in RECORDS] == [f"{n:04}" for n in range(1, len(RECORDS) + 1)]
    assert len(RECORDS) > 1


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.stem)
def test_a_record_has_a_status_and_four_sections(record):
    assert title(record).startswith(f"{record.name[:4]}. ")
    assert re.fullmatch(r"accepted|proposed|superseded by \d{4}", status(record))
    _, *parts = re.split(r"^## ", record.read_text(), flags=re.MULTILINE)
    assert [part.splitlines()[0] for part in parts] == SECTIONS
    assert all(len(part.splitlines()) > 2 for part in parts)


def test_the_index_has_a_line_for_each_record():
    lines = re.findall(r"^\| \[(.+)\]\((.+)\) \| (.+) \|$", (FOLDER / "index.md").read_text(), re.MULTILINE)
    assert lines == [(title(record), record.name, status(record)) for record in RECORDS]


@pytest.mark.parametrize(
    "page",
    [ROOT / "docs" / "architecture.md", *(record for record in RECORDS if status(record) == "accepted")],
    ids=lambda page: page.stem,
)
def test_paths_of_accepted_records_and_of_the_architecture_exist(page):
    missing = [path for path in PATH.findall(page.read_text()) if not (ROOT / path).exists()]
    assert not missing


def test_contributing_begins_with_the_architecture():
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "CONTRIBUTING.md").read_text())
    assert links[0] == "docs/architecture.md"
