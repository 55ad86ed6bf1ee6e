"""Pairs and lists of users and items that are read by line: the parts of a split, and files of lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pyarrow as pa

from gossiprec.base.arrays import I64, in_sorted
from gossiprec.base.errors import DataError
from gossiprec.base.ragged import Ragged
from gossiprec.data.column_parsers import IdEncoder
from gossiprec.data.delimited_text import InteractionTable, read_columns
from gossiprec.data.format_detection import (
    DELIMITER_NAMES,
    DELIMITERS,
    UNAMBIGUOUS,
    DetectedFormat,
    FormatHints,
    column_role,
    refuse_counts,
)
from gossiprec.data.other_formats import (
    BRACKETS,
    refuse_drawn_tables,
    refuse_other_formats,
    refuse_sure_formats,
)
from gossiprec.data.sources import FileSource
from gossiprec.data.split import Interactions, Split, display_name
from gossiprec.data.text_blocks import (
    PLACEHOLDER,
    Rows,
    TextFormat,
    TextSample,
    find_line_of_row,
    read_blocks,
    read_sample,
)

PARTS = ("train", "validation", "test")


@dataclass(frozen=True)
class SplitPart:
    """The contents of one file of a split.

    Attributes
    ----------
    source : FileSource
    users, items : ndarray of int64, shape (n_pairs,)
        Codes of names, or ids of the data.
    line_of : callable
        Function from the place of a pair to the number of its line.
    """

    source: FileSource
    users: I64
    items: I64
    line_of: Callable[[int], int]

    def error(self, place: int, found: str, allowed: str) -> DataError:
        """Return (not raise) the error for a bad pair."""
        return self.source.error(self.line_of(place), found, allowed)

    def with_ids(
        self,
        users: Mapping[str, int],
        items: Mapping[str, int],
        codes: tuple[IdEncoder, IdEncoder],
        owner: str,
    ) -> SplitPart:
        """Return the pairs with the ids of their names.

        Raises
        ------
        DataError
            If a name has no id; the message names its line.
        """
        found = []
        for kind, known, code, column in (
            ("user", users, codes[0], self.users),
            ("item", items, codes[1], self.items),
        ):
            names = list(code.ids)
            ids = np.array([known.get(name, -1) for name in names], np.int64)[column]
            if (ids < 0).any():
                place = int(np.argmax(ids < 0))
                raise self.error(place, f"{kind} {names[column[place]]!r}", f"{kind}s of {owner}")
            found.append(ids)
        return replace(self, users=found[0], items=found[1])


def read_pairs(
    source: FileSource,
    layout: TextFormat,
    codes: tuple[IdEncoder, IdEncoder],
    watch: Callable[[pa.Table], None] | None = None,
) -> SplitPart:
    """Read a table of one user and one item per line; see :func:`read_columns` for `watch`.

    Raises
    ------
    DataError
        On the conditions of :func:`~gossiprec.data.delimited_text.read_columns`.
    """
    readers = {"user": codes[0].make_parser("user"), "item": codes[1].make_parser("item")}
    found = read_columns(source, layout, readers, watch=watch)
    return SplitPart(
        source, found["user"], found["item"], lambda place: find_line_of_row(source, layout, place)
    )


def read_lists(
    source: FileSource, layout: TextFormat, codes: tuple[IdEncoder, IdEncoder], *, once: bool = False
) -> SplitPart:
    """Read one line per user, with the user's items; a user without items is skipped.

    Parameters
    ----------
    source : FileSource
    layout : TextFormat
    codes : tuple of IdEncoder
        Encoders of users and of items; names of the file are added.
    once : bool
        Whether a user that already has a code is refused.

    Raises
    ------
    DataError
        If the source is damaged, or no line has an item.
    """
    users, items, sizes, lines = list[int](), list[int | None](), list[int](), list[int]()
    known = codes[1].ids
    for line, cells in _lines(source, layout):
        if "" in cells:
            raise source.error(line, "no name between two delimiters", "a user, then its items")
        if len(cells) > 1:
            if once and cells[0] in codes[0].ids:
                raise source.error(line, f"user {cells[0]!r} again", "one line for each user")
            users.append(codes[0].ids.setdefault(cells[0], len(codes[0].ids)))
            found = [*map(known.get, cells[1:])]
            items += [known.setdefault(cell, len(known)) for cell in cells[1:]] if None in found else found
            sizes.append(len(cells) - 1)
            lines.append(line)
    if not items:
        raise DataError(f"{source}: found no line with an item; expected a user and its items on each line")
    line_of = np.repeat(lines, sizes)
    return SplitPart(
        source, np.repeat(users, sizes), np.array(items, np.int64), lambda place: int(line_of[place])
    )


def _lines(source: FileSource, layout: TextFormat) -> Iterator[tuple[int, list[str]]]:
    for block in read_blocks(source, layout):
        for line, text in enumerate(block.text.split("\n"), block.line):
            if text.strip(PLACEHOLDER + " \r"):
                yield line, _cells(source, layout, line, text)


def _cells(source: FileSource, layout: TextFormat, line: int, text: str) -> list[str]:
    """Return the user of a line and the user's items."""
    cells = text.split(layout.pyarrow_delimiter)
    if layout.delimiter != " ":  # else any white space was a delimiter
        cells = [cell.strip() for cell in cells]
    if layout.user_delimiter is None:
        return cells
    user, found, item = cells[0].partition(layout.user_delimiter)
    if not found:
        raise source.error(line, f"{cells[0]!r}", f"a user, then {layout.user_delimiter!r}, then its items")
    return [user.strip(), *([item.strip()] if item.strip() else []), *(cell for cell in cells[1:] if cell)]


def build_split(data: Interactions, parts: Mapping[str, SplitPart]) -> Split:
    """Return the split that files define; a pair that a file repeats counts once.

    Parameters
    ----------
    data : Interactions
        All of the data; the parts use its ids.
    parts : mapping of str to SplitPart
        Some of :data:`PARTS`, including ``train``.

    Raises
    ------
    DataError
        If a pair is not in the data, or is in two parts; the message names the file and the line.
    """
    wide = max(data.n_items, *(int(part.items.max(initial=0)) + 1 for part in parts.values()))
    known = np.sort(data.users * wide + data.items)
    keys = {name: part.users * wide + part.items for name, part in parts.items()}
    ascending = {name: np.sort(of_part) for name, of_part in keys.items()}
    for name, part in parts.items():
        strange = ~in_sorted(keys[name], known)
        if strange.any():
            place = int(np.argmax(strange))
            raise part.error(place, _pair(data, part, place), f"pairs of {data.name}")
    for one, other in combinations(sorted(parts, key=PARTS.index), 2):
        twice = in_sorted(keys[other], ascending[one])
        if twice.any():
            place = int(np.argmax(twice))
            before = int(np.argmax(keys[one] == keys[other][place]))
            earlier = f"{parts[one].source}, line {parts[one].line_of(before)}"
            raise parts[other].error(
                place, _pair(data, parts[other], place), f"each pair in one part, but {earlier} also has it"
            )

    def sets(name: str) -> Ragged:
        none = np.empty(0, np.int64)
        part = parts.get(name)
        return Ragged.sets_from_pairs(
            *((none, none) if part is None else (part.users, part.items)), data.n_users
        )

    train, validation, test = map(sets, PARTS)
    return Split(data.name, data.n_users, data.n_items, train, validation, test)


def _pair(data: Interactions, part: SplitPart, place: int) -> str:
    user, item = int(part.users[place]), int(part.items[place])
    return f"user {display_name(data.user_names, user)} with item {display_name(data.item_names, item)}"


def count_repeated_pairs(part: SplitPart) -> int:
    """Return the number of pairs of a file that repeat an earlier one."""
    keys = part.users * (int(part.items.max(initial=0)) + 1) + part.items
    return int(np.count_nonzero(np.diff(np.sort(keys)) == 0))


LIST_OVERRIDE = "a user and its items, set delimiter"
KEYS = ("header", "delimiter", "encoding", "user_delimiter")
"""Options of the format of lists."""


def detect_list_format(source: FileSource, hints: FormatHints) -> DetectedFormat:
    """Detect the delimiter between the names of lists, and whether the first line is a header.

    Raises
    ------
    DataError
        If lines can be split in two ways.
    """
    sample = read_sample(source, hints.encoding)
    refuse_sure_formats(sample)
    delimiter = hints.delimiter
    if delimiter is None:
        refuse_guessed_lists(sample)
    tables = {mark: sample.rows(mark) for mark in DELIMITERS}
    if delimiter is None:
        delimiter, *more = [mark for mark in DELIMITERS if mark != "\t" and _splits(tables[mark])] or [" "]
        if not more and delimiter == " " and _splits(tables["\t"], all_of=tables[" "]):
            more = ["\t"] if tables["\t"] != tables[" "] else []
        if more:
            marks = " and ".join(DELIMITER_NAMES[mark] for mark in (delimiter, *more))
            raise sample.error(
                f"lines that {marks} would split", "a single delimiter; set it with the option delimiter"
            )
    rows = sample.rows(delimiter)
    parted = tuple((*row[0].split(":"), *row[1:]) for row in rows) if has_colons(rows) else rows
    if hints.delimiter is None:
        refuse_counts(sample, parted, (0, 1), f"; if each line is {LIST_OVERRIDE}")
    _refuse_two_delimiters(sample, delimiter, rows)
    if not hints.keep_names:
        refuse_enclosed(sample, rows)
    header = hints.header
    if header is None:
        header = _has_header(sample, rows)
    user_delimiter = hints.user_delimiter
    if user_delimiter is None and hints.delimiter is None and has_colons(rows[1:] if header else rows):
        user_delimiter = ":"
    layout = TextFormat(
        ("user", "items"), delimiter, header, sample.encoding, keys=KEYS, user_delimiter=user_delimiter
    )
    return DetectedFormat(
        layout, rows[0] if header and rows else (), rows[1:] if header else rows, sample.marked
    )


def refuse_guessed_lists(sample: TextSample) -> None:
    """Refuse lists that have another format.

    Raises
    ------
    DataError
        With the format and the next step.
    """
    refuse_other_formats(sample, (), f"if each line is {LIST_OVERRIDE}")
    refuse_drawn_tables(sample, ())


def _has_header(sample: TextSample, rows: Rows) -> bool:
    """Return whether the first list holds the names of columns.

    Raises
    ------
    DataError
        If it cannot be decided.
    """
    first: tuple[str, ...] = rows[0] if rows else ("",)
    roles = [column_role(cell) for cell in first[:2]]
    if roles == ["user", "item"]:
        return True
    numbered = first == (*map(str, range(len(first))),) and len({len(row) for row in rows}) == 1 < len(rows)
    if roles[0] == "user" or numbered or first[0].startswith(("#", "%")):
        raise sample.error(
            f"{', '.join(map(repr, first[:6]))}, which may be a header, a comment, or neither", UNAMBIGUOUS
        )
    return False


def refuse_enclosed(sample: TextSample, rows: Rows) -> None:
    """Refuse lists in quotes or brackets, which would become part of the names.

    Raises
    ------
    DataError
        If most lines have such names.
    """
    enclosed = [
        cell
        for row in rows
        for cell in [next((cell for cell in row if cell[0:1] in OPENING or cell[-1:] in CLOSING), None)]
        if cell is not None and (cell[0] in "\"'" or any(map(_is_unbalanced, row)))
    ]
    if 2 * len(enclosed) > len(rows):
        raise sample.error(
            f"{enclosed[0]!r}, a name with a part of quotes or brackets, as most lines have",
            "names only; remove the quotes or brackets around names or lists; if they belong to the names, set "
            "doubtful_names: keep",
        )


OPENING, CLOSING = ("'", '"', "[", "(", "{"), ("'", '"', "]", ")", "}", ",", ";")


def _is_unbalanced(cell: str) -> bool:
    return cell[-1:] in (",", ";") or any(cell.count(one) != cell.count(BRACKETS[one]) for one in BRACKETS)


def has_colons(rows: Rows) -> bool:
    """Return whether each line begins with ``user:item`` or ``user:`` and has no other colon."""
    return bool(rows) and all(
        row[0].count(":") == 1 and row[0][0] != ":" and not any(":" in cell for cell in row[1:])
        for row in rows
    )


def _refuse_two_delimiters(sample: TextSample, delimiter: str, rows: Rows) -> None:
    """Refuse lines of a user and one cell that other delimiters would split."""
    pairs = [row for row in rows if len(row) == 2]
    others = [
        mark for mark in DELIMITERS if mark != delimiter and pairs and all(mark in row[1] for row in pairs)
    ]
    if delimiter not in DELIMITERS and others and len(pairs) == len(rows):
        raise sample.error(
            f"one item per line, such as {pairs[0][1]!r}, that {DELIMITER_NAMES[others[0]]} would split",
            f"the delimiter between items; set delimiter: {others[0]!r} and user_delimiter: {delimiter!r}",
        )


def _splits(rows: Rows, all_of: Rows | None = None) -> bool:
    """Return whether a delimiter splits half of the lines, or all lines that another one splits."""
    split = sum(len(row) > 1 for row in rows)
    return split > 0 and (
        2 * split >= len(rows) if all_of is None else split == sum(len(row) > 1 for row in all_of)
    )


def read_item_lists(source: FileSource, layout: TextFormat) -> tuple[InteractionTable, Callable[[int], int]]:
    """Read one line per user, with items in order of time: places in the line are the times.

    Returns
    -------
    table : InteractionTable
    line_of : callable
        Function from the place of an interaction to the number of its line.

    Raises
    ------
    DataError
        On the conditions of :func:`~gossiprec.data.split_parts.read_lists`, or if a user has two lines.
    """
    codes = IdEncoder(), IdEncoder()
    part = read_lists(source, layout, codes, once=True)
    places = np.arange(len(part.users)) - np.searchsorted(part.users, part.users)
    table = InteractionTable(tuple(codes[0].ids), tuple(codes[1].ids), part.users, part.items, None, places)
    return table, part.line_of
