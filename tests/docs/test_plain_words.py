"""Prose avoids words that have a plainer replacement: the documentation, and the sentences in gossiprec's modules."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted((ROOT / "gossiprec").rglob("*.py"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
REPLACEMENTS = {
    "alike": "similar, equal",
    "and no more": "only",
    "anew": "again",
    "appraised?": "score",
    "a run that (?:is|stands)": "a ... run",
    "a stretch": "a segment, a range",
    "as far as": "if, up to",
    "asked for|is asked": "requested",
    "at hand": "available",
    "besides?": "next to, compared with",
    "crew|machinery": "threads; executor, planner",
    "drop what|let \\w+ go": "free, discard",
    "foresee|foreseen|foretell": "estimate",
    "for good": "permanently",
    "give away|leak of": "reveal, leakage",
    "go on|goes on|gone on": "continues",
    "hand (?:out|over)": "pass",
    "in print|the print": "the paper, as published",
    "in vain": "missed, without effect",
    "is said|told|tells": "given, reported",
    "lies|stands": "is, is stored",
    "likeness": "similarity",
    "likewise": "also",
    "meetings": "deliveries, contacts",
    "mends?|repair that": "fix",
    "must read": "must be",
    "nobody|somebody|anybody|everybody": "no node, no client, all users",
    "none of their own|of one's own": "its own, your own",
    "of equals": "on ties",
    "outlook": "estimate",
    "reckon(?:ed)?": "estimate",
    "rehears(?:e|al)s?": "set up, schedule",
    "return what|yield what": "the noun",
    "say whether": "return whether",
    "side by side": "stacked, in parallel",
    "sightings?": "pool delivery",
    "so many": "the number, n",
    "that of|those of": "the noun",
    "to the (?:bit|byte)": "bit-identical, byte-identical",
    "under way": "running",
    "what becomes of|what is made of": "the result of",
    "whose": "of which, its",
    "wish(?:es|ed)?": "option, requested",
    "(?<!small-)(?<!small )worlds?": "run, data set, network",
    "written out": "analytic",
}
AT_THE_START = {"that of", "those of"}
"""Words that are plain within a sentence."""
FEW = {"where": "if, of conditions", "laws?": "distribution"}
"""Words with a plain meaning, too: of a place, and the scenario key."""
MOST = 30
"""All hits are fewer than this; each of them is intended."""

INTENDED = ("updates side by side", "arena.tells: ")
"""Keys of files that contain such a word: they begin the sentences that may."""


def prose(text):
    """Return the text of a page without code and without the targets of links."""
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`]*`|\]\([^)]*\)", "", text)


ANY = re.compile("|".join(rf"\b(?:{word})\b" for word in (*REPLACEMENTS, *FEW)), re.IGNORECASE)
"""What a text with a word of the tables contains; looked for first, because few texts have one."""


def strings(code):
    """Yield the line and the text of every string with a space: docstrings and messages."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def comments(code):
    """Yield the line and the text of every comment."""
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def sentences(code):
    """Yield the line and the text of strings with a space, and of comments if a line with ``#`` has such a word."""
    yield from strings(code)
    if any("#" in line and ANY.search(line) for line in code.splitlines()):
        yield from comments(code)


def replaced_words(text, table=REPLACEMENTS):
    """Return each word of the table in a text, with its replacement."""
    text = prose(text)
    return [
        f"{match[0]!r}: write {better}"
        for word, better in (table.items() if ANY.search(text) else ())
        for match in re.finditer(rf"\b(?:{word})\b", text, re.IGNORECASE)
        if match[0].lower() not in AT_THE_START or text[: match.start()].rstrip("# ")[-1:] in ("", ".")
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_prose_uses_plain_words(page):
    assert replaced_words(page.read_text()) == []


@pytest.mark.full
def test_sentences_of_the_code_use_plain_words():
    found = [
        f"{path.relative_to(ROOT)}:{line}: {word}"
        for path in MODULES
        for line, text in sentences(path.read_text())
        if not text.startswith(INTENDED)
        for word in replaced_words(text)
    ]
    assert found == []


@pytest.mark.full
def test_words_that_may_be_meant_are_few():
    texts = [page.read_text() for page in PAGES]
    texts += [text for path in MODULES for _, text in sentences(path.read_text())]
    found = [word for text in texts for word in replaced_words(text, {**REPLACEMENTS, **FEW})]
    assert len(found) < MOST, found


def test_a_word_is_found_in_prose_and_not_in_code():
    assert prose("Nobody `nobody`\n```sh\nanew\n```\n[x](told.md)") == "Nobody \n\n[x"


def test_sentences_are_docstrings_comments_and_messages_but_no_keys():
    code = '"""A module."""\n\nx = {"told": f"found {1} node"}  # anew\n'
    assert {text for _, text in sentences(code)} == {"A module.", "found ", " node", "# anew"}
    assert [text for _, text in comments(code.replace("anew", "a note"))] == ["# a note"]
