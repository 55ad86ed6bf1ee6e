"""Item texts: the titles and kinds of items, for comparisons of items by their contents.

Texts are read with the data: all titles of MovieLens-1M take 20 milliseconds. Reading them only on request would save
nothing, and a split would have to know the files that it came from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from gossiprec.base.arrays import I64, Texts
from gossiprec.base.errors import DataError
from gossiprec.data.column_parsers import Convert, IdEncoder, TextColumn
from gossiprec.data.delimited_text import read_columns
from gossiprec.data.sources import FileSource
from gossiprec.data.split_parts import find_line_of_row
from gossiprec.data.text_blocks import TextFormat, is_utf8, require_encoding

YEAR = re.compile(r"\((?:1[89]|20)\d\d\)")
"""A year in brackets, with which MovieLens ends its titles."""


def parse_texts(cells: TextColumn) -> Texts:
    """Parse a column of texts: in lower case, without years, with one blank between words."""
    return np.array(
        [" ".join(YEAR.sub(" ", text).lower().split()) for text in cells.texts.to_pylist()], object
    )


def parse_word_lists(cells: TextColumn) -> Texts:
    """Parse a column of words separated by ``|``."""
    return np.array([text.replace("|", " ").lower().strip() for text in cells.texts.to_pylist()], object)


def flag_parser(word: str) -> Convert:
    """Return the parser of a column of 0 and 1, which gives the word for a 1."""

    def read(cells: TextColumn) -> Texts:
        found = cells.texts.to_pylist()
        for row, text in enumerate(found):
            if text not in ("0", "1"):
                raise cells.block.error(row, repr(text), f"0 or 1 as {word}")
        return np.array([word.lower() * int(text) for text in found], object)

    return read


def read_item_texts(
    source: FileSource, layout: TextFormat, names: Sequence[str], columns: Mapping[str, Convert]
) -> tuple[str, ...]:
    """Return one text per item, ``""`` if the source has none.

    Parameters
    ----------
    source : FileSource
    layout : TextFormat
        With a column ``item`` of names.
    names : sequence of str
        Names of the items in the data, by dense id; other names in the source are left out.
    columns : mapping of str to callable
        Parsers of the columns that make up a text, in order.

    Raises
    ------
    DataError
        If the source is damaged, is not of the layout's encoding, names an item twice, or names no item of the data.
    """
    codes = IdEncoder()
    if layout.keys:
        require_encoding(source, layout.encoding)
    elif is_utf8(source):  # copies of MovieLens are in Latin-1, as published, or in UTF-8
        layout = replace(layout, encoding="utf-8")
    found = read_columns(source, layout, {"item": codes.reader("item"), **columns})
    _require_once(source, layout, found["item"], tuple(codes.ids))
    parts = zip(*(found[name] for name in columns), strict=True)
    text_of = dict(zip(codes.ids, (" ".join(filter(None, some)) for some in parts), strict=True))
    if text_of.keys().isdisjoint(names):
        raise DataError(
            f"{source}: found texts of {len(text_of)} items, such as {next(iter(text_of))!r}; expected those "
            f"of the data, such as {names[0]!r}, at least one; use the file that belongs to the data"
        )
    return tuple(text_of.get(name, "") for name in names)


def _require_once(source: FileSource, layout: TextFormat, items: I64, names: tuple[str, ...]) -> None:
    """Refuse an item with two texts."""
    again = np.ones(len(items), bool)
    again[np.unique(items, return_index=True)[1]] = False
    if again.any():
        row = int(np.argmax(again))
        raise source.error(
            find_line_of_row(source, layout, row),
            f"item {names[items[row]]!r} a second time",
            "one text for each item",
        )
