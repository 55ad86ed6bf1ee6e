r"""Text for people: values and names of any origin, made short and harmless for messages and terminals.

A file from another person can hold text that moves the cursor, changes the title of a window or reverses the order of
letters. Such characters are shown as escapes, as ``\u001b``.
"""

from __future__ import annotations

import re
from typing import Any

LONGEST_NAME = 80
"""Characters of the longest name that is printed in full."""
LONGEST_NUMBER = 60
"""Digits of the largest whole number that is printed in full."""
_HARMFUL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, except line feed and tab
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # the order of letters
    r"\u2028\u2029\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"  # lines, marks, halves of pairs, tags
)
_LINES = re.compile(r"[\n\t]")
_LONG_WORD = re.compile(rf"[^\s,;:|&=\"'`()\[\]{{}}<>]{{{LONGEST_NAME + 1},}}")


def printable(text: object) -> str:
    """Return text with control characters as escapes; line feeds and tabs stay."""
    return _HARMFUL.sub(_escape, str(text))


def short_name(name: object) -> str:
    """Return a name for people on one line, of at most :data:`LONGEST_NAME` characters; a longer one is cut."""
    text = one_line(name)
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"


def one_line(text: object) -> str:
    """Return text of :func:`printable` with line feeds and tabs as escapes."""
    return _LINES.sub(_escape, printable(text))


def shorten_words(text: object) -> str:
    """Return text of :func:`printable` in which words longer than :data:`LONGEST_NAME` are cut, except paths."""
    return _LONG_WORD.sub(lambda word: word[0] if "/" in word[0] else short_name(word[0]), printable(text))


def format_value(value: Any, *, limit: int = LONGEST_NUMBER) -> str:
    """Return a value in the notation of YAML, on one short line."""
    if value is None or isinstance(value, bool):
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int) and abs(value) >= 10**LONGEST_NUMBER:
        return f"a number of more than {LONGEST_NUMBER} digits"
    try:
        text = printable(repr(value))
    except ValueError:  # Python prints no number of more than 4,300 digits, which may be in a list
        return f"a {type(value).__name__} with a number of more than {LONGEST_NUMBER} digits"
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _escape(found: re.Match[str]) -> str:
    """Return a character as an escape that is also one of JSON, if it has four digits."""
    code = ord(found[0])
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
