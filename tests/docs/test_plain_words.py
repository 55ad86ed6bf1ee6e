"""The prose of the documentation avoids words that have a plainer replacement; code in it may use any name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
REPLACEMENTS = {
    "anew": "again",
    "appraised?": "score",
    "beside": "next to, compared with",
    "foresee|foreseen|foretell": "estimate",
    "for good": "permanently",
    "goes on|gone on": "continues",
    "in vain": "missed, without effect",
    "is said|told|tells": "given, reported",
    "likeness": "similarity",
    "likewise": "also",
    "must read": "must be",
    "nobody|somebody|anybody|everybody": "no node, no client, all users",
    "of equals": "on ties",
    "reckon(?:ed)?": "estimate",
    "return what|yield what": "the noun",
    "say whether": "return whether",
    "side by side": "stacked, in parallel",
    "so many (?:nodes|users|rounds|wakes)": "the number",
    "to the (?:bit|byte)": "bit-identical, byte-identical",
    "under way": "running",
    "whose": "of which, its",
}


def prose(text):
    """Return the text of a page without code and without the targets of links."""
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`]*`|\]\([^)]*\)", "", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_prose_uses_plain_words(page):
    found = [
        f"{match[0]!r}: write {better}"
        for word, better in REPLACEMENTS.items()
        for match in re.finditer(rf"\b(?:{word})\b", prose(page.read_text()), re.IGNORECASE)
    ]
    assert found == []


def test_a_word_is_found_in_prose_and_not_in_code():
    assert prose("Nobody `nobody`\n```sh\nanew\n```\n[x](told.md)") == "Nobody \n\n[x"
