"""Recognition of texts in other formats than tables, so that their refusal has a name and a next step.

These are guesses. They count only for a text that cannot be read as a table with the given options or a header that
names user and item; what a table holds in its cells must not set them off.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection

from gossiprec.data.sources import EXPORT, refusal
from gossiprec.data.text_blocks import Rows, TextSample

LINES = 50
"""Number of lines that are compared with one another."""
JSON = re.compile(r"\s*(?:\{\s*[\"'}]|\[\s*[\[{]|[\[{]\s*(?:[\r\n]|$))")
MARKUP = re.compile(r"\s*(?!<NA>)<(?:\?xml|!|[A-Za-z][\w:]*[\s/>])")
MARKUP_HEAD = re.compile(r"\s*<[?!]")
SQL = re.compile(
    r"(?:\s*--[^\n]*\n)*\s*(?:(?:INSERT\s+INTO|CREATE\s+TABLE|DROP\s+TABLE|PRAGMA)\s[^;]*;[ \t]*(?:[\r\n]|\Z)"
    r"|(?:INSERT\s+INTO|CREATE\s+TABLE)\s[^;]*\([^;]*\Z)",
    re.IGNORECASE,
)
ARFF = re.compile(
    r"(?:\s*%[^\n]*\n)*\s*@relation\s[^\n]*\n(?s:.*)^\s*@attribute\s", re.IGNORECASE | re.MULTILINE
)
MATRIX_MARKET = re.compile(r"\s*%%MatrixMarket\s")
SEPARATOR = re.compile(r"\s*\"?sep=(.)\"?[ \t]*[,;\t]*(?:[\r\n]|$)", re.IGNORECASE)
NETFLIX = re.compile(r"\s*\w+:[ \t]*[\r\n]\s*\w+[ \t]*(?:[,;\t|\r\n]|\Z)")
NETFLIX_INSIDE = re.compile(r"^\s*\d+:[ \t]*[\r\n]\s*\d+\s*,\s*\d+(?:\s*,|\s*-|\s*$)", re.MULTILINE)
SPARSE = re.compile(r"(?:[-+]?[\d.]+(?:,[\d.]+)*|\w+)((?:[ \t]+\d+:[-+.\deE]+)+)")
CLOCK = re.compile(r"\s*(?:[01]?\d|2[0-3]):[0-5]\d")
"""A blank and a time of day, which has the form of a sparse value."""
RULE = re.compile(r"[\s|:+-]*-{2}[\s|:+-]*")
KEY = re.compile(r"\s*([A-Za-z][\w/ -]*):(?:\s|$)")
BRACKETS = {"(": ")", "[": "]", "{": "}"}
PYTHON = re.compile(r"\s*\[?\s*\{\s*'")


def refuse_sure_formats(sample: TextSample) -> None:
    """Refuse a text that begins with Excel's line ``sep=;`` or with a JSON object, which no table does.

    Raises
    ------
    DataError
        With the next step.
    """
    separator = SEPARATOR.match(sample.text)
    if separator:
        raise refusal(
            sample.source,
            f"the line sep={separator[1]}, which Excel adds",
            f"remove this line and set delimiter: {separator[1]!r}",
        )
    if _is_json(sample.text):
        raise refusal(sample.source, "JSON", _json_step(sample.text))


def refuse_other_formats(sample: TextSample, tables: Collection[Rows], override: str) -> None:
    """Refuse a text that has the form of another format.

    Parameters
    ----------
    sample : TextSample
    tables : collection of tuple
        The rows of the text, split in several ways.
    override : str
        The option with which the text is read as a table nevertheless, for the message; may be empty.

    Raises
    ------
    DataError
        With the format and the next step.
    """
    text, is_table = sample.text, any(map(is_uniform, tables))
    for form, name, step in (
        (JSON, "JSON", _json_step(text)),
        (MARKUP_HEAD if is_table else MARKUP, "an XML or HTML document", EXPORT),
        (SQL, "SQL statements", EXPORT),
        (ARFF, "an ARFF file (Weka)", "remove its head, up to @data"),
        (
            MATRIX_MARKET,
            "a Matrix Market file",
            "remove the comments and the line of sizes, and set columns: [user, item, rating], or [user, item] if there"
            " are two",
        ),
    ):
        if form.match(text):
            raise refusal(sample.source, name, "; ".join(filter(None, (step, override))))
    found = _sparse(sample.lines) or (None if is_table else _blocks(sample))
    if found is not None:
        raise refusal(sample.source, found[0], "; ".join(filter(None, (found[1], override))))


def is_uniform(rows: Rows) -> bool:
    """Return whether all rows have the same number of cells, two at least."""
    widths = {len(row) for row in rows}
    return len(widths) == 1 and widths != {1}


def _json_step(text: str) -> str:
    """Return the next step for a text that begins like JSON."""
    if PYTHON.match(text):
        return "convert it to CSV; it has quotes of Python, so read each line with ast.literal_eval"
    more = ", lines=True" if _is_json(text) and text.lstrip()[0] == "{" else ""
    return (
        f"convert it to CSV, for example with pandas.read_json(path{more}).to_csv('table.csv', index=False)"
    )


def _is_json(text: str) -> bool:
    """Return whether the first line of a text is a JSON object, or a list of objects or lists."""
    try:
        found = json.loads(text.lstrip().partition("\n")[0])
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) or (isinstance(found, list) and isinstance([*found, None][0], dict | list))


def _sparse(lines: tuple[str, ...]) -> tuple[str, str] | None:
    """Return the name and the next step of lines of a label and sparse values, or None."""
    values = [match[1] for line in lines[:LINES] if (match := SPARSE.fullmatch(line.strip()))]
    if 2 * len(values) <= len(lines[:LINES]) or all(map(CLOCK.fullmatch, values)):
        return None
    return (
        "lines of 'item:value' (libsvm, LibFM)",
        "write one user, item and rating per line, below the header user,item,rating",
    )


def _blocks(sample: TextSample) -> tuple[str, str] | None:
    """Return the name and the next step of blocks of lines, or None."""
    if NETFLIX.match(sample.text) or NETFLIX_INSIDE.search(sample.text):
        return (
            "blocks as in the Netflix Prize data, with a line 'movie:' before its ratings",
            "write the movie on each line, as user,item,rating,time",
        )
    keys = [match[1] if (match := KEY.match(line)) else None for line in sample.lines[:LINES]]
    if not keys or keys[0] is None or keys[0] not in keys[1:] or 2 * keys.count(None) >= len(keys):
        return None
    end = keys.index(keys[0], 1)
    if end == 1 or not {*keys[:end]} - {None} <= {*keys[end:]}:
        return None
    return (
        f"blocks of 'key: value' such as '{keys[0]}: ...' (reviews from SNAP, BeerAdvocate)",
        "write one review per line, as user,item,rating,time",
    )


def refuse_drawn_tables(sample: TextSample, tables: Collection[Rows]) -> None:
    """Refuse a table that is drawn with lines of hyphens, or has brackets around every line.

    Raises
    ------
    DataError
        With the next step.
    """
    uniform = [rows for rows in tables if is_uniform(rows)]
    firsts = [["".join(row) for row in rows[:3]] for rows in uniform] or [[*sample.lines[:3]]]
    if any(RULE.fullmatch(line) and len(line) > 2 for lines in firsts for line in lines):
        raise refusal(sample.source, "a table drawn with lines (Markdown, or database output)", EXPORT)
    lines = [line.strip() for line in sample.lines[:LINES]]
    if len(lines) > 1 and all(map(_is_enclosed, lines)):
        raise refusal(
            sample.source, f"brackets around every line, as in {lines[0][:40]!r}", "remove the brackets"
        )


def _is_enclosed(line: str) -> bool:
    """Return whether a line begins with a bracket that is closed only at its end."""
    inner, depth = line.rstrip(",;"), 0
    closing = BRACKETS.get(line[0])
    for place, character in enumerate(inner, 1):
        depth += (character == line[0]) - (character == closing)
        if depth == 0:
            return place == len(inner) and closing is not None
    return False
