"""Files of one's own as they come: a table written in many ways, and spoilt in many more, with what it means."""

from __future__ import annotations

import csv
import gzip
import io
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import numpy as np

HEADERS = {
    "user": ("user", "user_id", "userId", "customer", "reviewerID", "user_id:token"),
    "item": ("item", "item_id", "movieId", "product", "asin", "item_id:token"),
    "rating": ("rating", "score", "stars", "overall", "rating:float"),
    "time": ("time", "timestamp", "ts", "unixReviewTime", "timestamp:float"),
}
FOREIGN = {"user": "kunde", "item": "artikel", "rating": "note", "time": "zeit"}
DELIMITERS = ("\t", ",", ";", "|", "::", " ")
START = 1_200_000_000


@dataclass(frozen=True)
class OwnFile:
    """A file, how it is asked for, and what should come of it.

    Attributes
    ----------
    rows : list of tuple, or None
        User, item, rating and time of each line as meant; None: it must be refused.
    cut : bool
        Whether it ends anywhere: then its last row may be half of one, if that is said.
    """

    what: str
    content: bytes
    suffix: str = ".csv"
    options: dict = field(default_factory=dict)
    rows: list | None = None
    cut: bool = False


@dataclass
class Draft:
    """A table about to be written."""

    meanings: tuple[str, ...]
    names: tuple[str, ...] | None
    cells: list[list[str]]
    rows: list[tuple]
    delimiter: str
    quoting: int = csv.QUOTE_MINIMAL
    end: str = "\n"

    def lines(self):
        rows = self.cells if self.names is None else [list(self.names), *self.cells]
        return [self.line(row) for row in rows]

    def line(self, row):
        if self.delimiter in ("::", " "):
            return self.delimiter.join(row)
        text = io.StringIO()
        csv.writer(text, delimiter=self.delimiter, quoting=self.quoting, lineterminator="").writerow(row)
        return text.getvalue()

    def text(self):
        return "".join(line + self.end for line in self.lines())

    def stated(self, rng):
        """Return options that say what the columns are, in a way that fits."""
        ways = [{"columns": list(self.meanings)}]
        if self.names is not None:
            ways.append(
                {"columns": {m: n for m, n in zip(self.meanings, self.names, strict=True) if m != "-"}}
            )
        return ways[rng.integers(len(ways))]


def draft(rng):
    """Draw a table: its columns, names, delimiter, and how users and items are called."""
    meanings = [("user", "item"), ("user", "item", "time"), ("user", "item", "rating", "time"),
                ("user", "item", "-", "time"), ("user", "item", "rating")][rng.integers(5)]  # fmt: skip
    if rng.random() < 0.3:
        meanings = tuple(rng.permutation(meanings).tolist())
    delimiter = DELIMITERS[rng.integers(len(DELIMITERS))]
    named = rng.random() < 0.6
    names = None
    if named:
        names = tuple("title" if m == "-" else str(rng.choice(HEADERS[m])) for m in meanings)
    words = rng.random() < 0.5
    rows, cells = [], []
    for n in range(int(rng.integers(5, 15))):
        user, item = int(rng.integers(1, 6)), n + 10
        who, what = (f"ann{user}", f"B00{item}X") if words else (str(user), str(item))
        if words and delimiter in (",", ";", "|", "\t") and rng.random() < 0.2:
            what = f'{what}{delimiter}"x"'
        rating, time = float(rng.integers(2, 11)) / 2, START + int(rng.integers(10**6))
        told = {"user": who, "item": what, "rating": f"{rating:g}", "time": str(time), "-": f"t{n}"}
        cells.append([told[m] for m in meanings])
        rows.append(
            (who, what, rating if "rating" in meanings else None, time if "time" in meanings else None)
        )
    return Draft(meanings, names, cells, rows, delimiter)


def _whole(made, rng, what, **more):
    return OwnFile(what, made.text().encode(), options=made.stated(rng), rows=made.rows, **more)


def as_it_is(made, rng):
    return _whole(made, rng, "nothing is spoilt")


def nothing_said(made, rng):
    sure = made.names is not None
    by_place = made.meanings in (("user", "item"), ("user", "item", "rating", "time"))
    rows = made.rows if sure or by_place else None
    if not sure and len(made.meanings) in (2, 4) and rows is None:
        return as_it_is(made, rng)  # the order of columns without names is for the user to say
    return OwnFile("nothing is said", made.text().encode(), rows=rows)


def encoded(made, rng):
    made = replace(made, cells=[[*row] for row in made.cells])
    place = made.meanings.index("item")
    made.cells[-1][place] += "é"
    who, what, *more = made.rows[-1]
    made.rows = [*made.rows[:-1], (who, what + "é", *more)]
    encoding = ("utf-8-sig", "latin-1", "utf-16", "cp1252", "utf-16-le")[rng.integers(5)]
    said = bool(rng.random() < 0.5)
    options = made.stated(rng) | ({"encoding": encoding} if said else {})
    right = said or encoding in ("utf-8-sig", "utf-16")  # which have a byte order mark
    return OwnFile(
        f"{encoding}, said {said}",
        made.text().encode(encoding),
        options=options,
        rows=made.rows if right else None,
    )


def mark_and_latin(made, rng):
    options = made.stated(rng) | {"encoding": "latin-1"}
    return OwnFile("UTF-8 with a mark, Latin-1 said", made.text().encode("utf-8-sig"), options=options)


def other_delimiter_said(made, rng):
    wrong = [
        d
        for d in DELIMITERS
        if d != made.delimiter and d not in made.text() and {d, made.delimiter} != {" ", "\t"}
    ]
    options = made.stated(rng) | {"delimiter": str(rng.choice(wrong))}
    return OwnFile("another delimiter is said", made.text().encode(), options=options)


def mixed_delimiters(made, rng):
    text = made.text().splitlines(keepends=True)
    place = int(rng.integers(1, len(text)))
    text[place] = text[place].replace(made.delimiter, "#")
    return OwnFile("one line has another delimiter", "".join(text).encode(), options=made.stated(rng))


def swapped_header(made, rng):
    names = [*(made.names or tuple(HEADERS.get(m, ("title",))[0] for m in made.meanings))]
    u, i = made.meanings.index("user"), made.meanings.index("item")
    names[u], names[i] = names[i], names[u]
    made = replace(made, names=tuple(names))
    said = {} if rng.random() < 0.5 else {"header": True}
    options = {"columns": list(made.meanings)} | said
    return OwnFile("the header has user and item the other way round", made.text().encode(), options=options)


def foreign_header(made, rng):
    made = replace(made, names=tuple(FOREIGN.get(m, "titel") for m in made.meanings))
    said = int(rng.integers(3))
    by_name = {m: FOREIGN[m] for m in made.meanings if m != "-"}
    options = ({"columns": list(made.meanings), "header": True}, {"columns": by_name}, {})[said]
    return OwnFile(
        "a header in another language",
        made.text().encode(),
        options=options,
        rows=made.rows if said < 2 else None,
    )


def header_denied(made, rng):
    names = made.names or tuple(HEADERS.get(m, ("title",))[0] for m in made.meanings)
    made = replace(made, names=names)
    options = {"columns": list(made.meanings), "header": False}
    return OwnFile("a header, and header: false", made.text().encode(), options=options)


def header_missed(made, rng):
    made = replace(made, names=None)
    options = {"columns": {m: HEADERS[m][0] for m in made.meanings if m != "-"}}
    return OwnFile("columns by name without a header", made.text().encode(), options=options)


def header_twice(made, rng):
    names = made.names or tuple(HEADERS.get(m, ("title",))[0] for m in made.meanings)
    made = replace(made, names=names)
    place = int(rng.integers(1, len(made.cells)))
    made = replace(made, cells=[*made.cells[:place], list(names), *made.cells[place:]])
    return OwnFile("two files pasted together", made.text().encode(), options=made.stated(rng))


def misspelt_column(made, rng):
    names = made.names or tuple(HEADERS.get(m, ("title",))[0] for m in made.meanings)
    made = replace(made, names=names)
    options = {"columns": {m: n + "x" for m, n in zip(made.meanings, names, strict=True) if m != "-"}}
    return OwnFile("a misspelt column", made.text().encode(), options=options)


def _spoilt_cell(made, rng, meaning, values, what):
    if meaning not in made.meanings:
        return as_it_is(made, rng)
    cells = [[*row] for row in made.cells]
    cells[int(rng.integers(1, len(cells)))][made.meanings.index(meaning)] = str(rng.choice(values))
    made = replace(made, cells=cells)
    return OwnFile(what, made.text().encode(), options=made.stated(rng))


def bad_time(made, rng):
    values = ["noon", "19.10.2010", "2010-02-30", "-5", "1969-01-01", "nan", "1e300", "1287532527000"]
    return _spoilt_cell(made, rng, "time", values, "a time that is none")


def bad_rating(made, rng):
    return _spoilt_cell(made, rng, "rating", ["good", "nan", "inf", "3_5", "--"], "a rating that is none")


def no_name(made, rng):
    if made.delimiter == " ":
        return as_it_is(made, rng)
    return _spoilt_cell(made, rng, str(rng.choice(["user", "item"])), [""], "a cell without a name")


def missing_number(made, rng):
    if not made.rows[0][0].isdigit():
        return as_it_is(made, rng)
    return _spoilt_cell(
        made, rng, str(rng.choice(["user", "item"])), ["NaN", "NULL", "None", "<NA>"], "a missing number"
    )


def _retimed(made, change):
    place = made.meanings.index("time")
    cells = [[change(cell) if n == place else cell for n, cell in enumerate(row)] for row in made.cells]
    return replace(made, cells=cells)


def iso_times(made, rng):
    if "time" not in made.meanings or made.delimiter == " ":
        return as_it_is(made, rng)
    form = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S.250+00:00")[rng.integers(3)]
    made = _retimed(made, lambda time: datetime.fromtimestamp(int(time), UTC).strftime(form))
    return _whole(made, rng, "ISO times")


def fractions(made, rng):
    if "time" not in made.meanings:
        return as_it_is(made, rng)
    made = _retimed(made, lambda time: f"{time}.{int(rng.integers(1, 10**6))}")
    return _whole(made, rng, "parts of a second")


def milliseconds(made, rng):
    if "time" not in made.meanings:
        return as_it_is(made, rng)
    made, said = _retimed(made, lambda time: f"{time}123"), bool(rng.random() < 0.5)
    options = made.stated(rng) | ({"time_unit": "ms"} if said else {})
    return OwnFile(
        f"milliseconds, said {said}", made.text().encode(), options=options, rows=made.rows if said else None
    )


def decimal_comma(made, rng):
    if "rating" not in made.meanings:
        return as_it_is(made, rng)
    place = made.meanings.index("rating")
    cells = [[*row] for row in made.cells]
    for row in cells:
        row[place] = row[place].replace(".", ",")
    spoilt = any("," in row[place] for row in cells)
    made = replace(made, cells=cells, quoting=csv.QUOTE_MINIMAL)
    return OwnFile(
        "decimal commas", made.text().encode(), options=made.stated(rng), rows=None if spoilt else made.rows
    )


def swapped_numbers(made, rng):
    if not {"rating", "time"} <= {*made.meanings}:
        return as_it_is(made, rng)
    columns = [{"rating": "time", "time": "rating"}.get(m, m) for m in made.meanings]
    made = replace(made, names=None)
    return OwnFile(
        "ratings and times the wrong way round", made.text().encode(), options={"columns": columns}
    )


def all_quoted(made, rng):
    return _whole(replace(made, quoting=csv.QUOTE_ALL), rng, "everything is quoted")


def open_quote(made, rng):
    if made.delimiter in ("::", " "):
        return as_it_is(made, rng)
    lines = [line + "\n" for line in made.lines()]
    place = int(rng.integers(1, len(lines)))
    lines[place] = '"' + lines[place].replace('"', "")
    return OwnFile("a quote that is not closed", "".join(lines).encode(), options=made.stated(rng))


def cut_anywhere(made, rng):
    content = made.text().encode()
    end = int(rng.integers(len(content) // 2, len(content)))
    return OwnFile("cut", content[:end], options=made.stated(rng), rows=made.rows, cut=True)


def cut_archive(made, rng):
    content = gzip.compress(made.text().encode(), mtime=0)
    end = int(rng.integers(1, len(content)))
    return OwnFile("a cut archive", content[:end], suffix=".csv.gz", options=made.stated(rng))


def archive(made, rng):
    packed = gzip.compress(made.text().encode(), mtime=0)
    return OwnFile("an archive", packed, suffix=".csv.gz", options=made.stated(rng), rows=made.rows)


def archive_without_its_name(made, rng):
    return OwnFile(
        "an archive called .csv", gzip.compress(made.text().encode(), mtime=0), options=made.stated(rng)
    )


def other_line_ends(made, rng):
    return _whole(replace(made, end="\r\n"), rng, "line ends of Windows")


def blank_lines(made, rng):
    lines = [line + "\n" for line in made.lines()]
    for _ in range(3):
        lines.insert(int(rng.integers(len(lines) + 1)), str(rng.choice(["\n", "  \n"])))
    return OwnFile("blank lines", "".join(lines).encode(), options=made.stated(rng), rows=made.rows)


def one_more_cell(made, rng):
    lines = made.lines()
    place = int(rng.integers(1, len(lines)))
    lines[place] += made.delimiter + "x"
    return OwnFile("one line has a cell too many", "\n".join([*lines, ""]).encode(), options=made.stated(rng))


def one_less_cell(made, rng):
    cells = [[*row] for row in made.cells]
    cells[int(rng.integers(1, len(cells)))].pop()
    return OwnFile(
        "one line lacks a cell", replace(made, cells=cells).text().encode(), options=made.stated(rng)
    )


def comment_first(made, rng):
    text = f"# written by a program{made.delimiter}today\n" + made.text()
    return OwnFile("a comment before all", text.encode(), options=made.stated(rng))


def zero_byte(made, rng):
    content = bytearray(made.text().encode())
    content[int(rng.integers(len(content) // 2, len(content) - 1))] = 0
    return OwnFile("a zero byte", bytes(content), options=made.stated(rng))


MUTATIONS = (
    as_it_is, nothing_said, encoded, mark_and_latin, other_delimiter_said, mixed_delimiters, swapped_header,
    foreign_header, header_denied, header_missed, header_twice, misspelt_column, bad_time, bad_rating, no_name,
    missing_number, iso_times, fractions, milliseconds, decimal_comma, swapped_numbers, all_quoted, open_quote,
    cut_anywhere, cut_archive, archive, archive_without_its_name, other_line_ends, blank_lines, one_more_cell,
    one_less_cell, comment_first, zero_byte,
)  # fmt: skip


def own_file(number):
    """Return a file, the same for the same number."""
    rng = np.random.default_rng([7, number])
    return MUTATIONS[number % len(MUTATIONS)](draft(rng), rng)
