"""Files of real formats as their public descriptions have them, small and made up, with ten mutations of each."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import zipfile
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
from pyarrow import parquet

ROWS, START = 24, 1_370_000_000
Row = tuple[str, str, float | None, float | None]


@dataclass(frozen=True)
class Format:
    """A file of a format.

    Attributes
    ----------
    lines : list of str, or None
        Its lines below the header, one per interaction unless `lists`; None if it has none.
    rows : list of tuple, or None
        User, item, rating and time of each interaction; None: it must be refused.
    """

    lines: list[str] | None
    rows: list[Row] | None
    head: str = ""
    delimiter: str = ","
    options: dict = field(default_factory=dict)
    encoding: str = "utf-8"
    suffix: str = ".csv"
    raw: bytes = b""

    @property
    def content(self) -> bytes:
        return self.raw if self.lines is None else self.text.encode(self.encoding)

    @property
    def text(self) -> str:
        return "".join(line + "\n" for line in ([self.head] if self.head else []) + (self.lines or []))


def drawn(seed: int, words: bool = False):
    """Return interactions: user, item, rating from 1 to 5 in halves, and time in seconds."""
    draw = np.random.default_rng([33, seed])
    rows = []
    for n in range(ROWS):
        user, item = int(draw.integers(2, 9)), int(draw.integers(100, 140))
        names = (f"AB{user}XQ", f"B00{item}K") if words else (str(user), str(item))
        rows.append((*names, float(draw.integers(2, 11)) / 2, START + 977 * n + int(draw.integers(900))))
    return rows


def table(rows, form, *, keep=("rating", "time"), called="{}", **more):
    """Return the format whose lines `form` writes; it calls items as `called` says."""
    truth = [
        (u, called.format(i), r if "rating" in keep else None, t if "time" in keep else None)
        for u, i, r, t in rows
    ]
    return Format([form(*row) for row in rows], truth, **more)


def iso(time, end="", between="T"):
    return datetime.fromtimestamp(time, UTC).strftime(f"%Y-%m-%d{between}%H:%M:%S") + end


def lists(rows, form, **more):
    """Return the format of one user per line; times are places."""
    held: dict[str, list[str]] = {}
    for user, item, _, _ in rows:
        held.setdefault(user, []).append(item)
    truth = [(u, i, None, n) for u, items in held.items() for n, i in enumerate(items)]
    more.setdefault("options", {"form": "lists"})
    return Format([form(u, items) for u, items in held.items()], truth, delimiter=" ", suffix=".txt", **more)


def blob(raw, suffix, rows=None, **options):
    return Format(None, rows, raw=raw, suffix=suffix, options=options)


def columnar(rows, columns):
    sink = io.BytesIO()
    parquet.write_table(pa.table(columns), sink)
    return blob(sink.getvalue(), ".parquet", rows)


def zipped(members):
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return sink.getvalue()


def _json(rows, keys):
    lines = (json.dumps(dict(zip(keys, row, strict=False))) for row in rows)
    return "".join(f"{line}\n" for line in lines).encode()


def formats() -> dict[str, Format]:
    """Return the formats by name."""
    n, w = drawn(1), drawn(2, words=True)
    fraction = [(u, i, r, t + k % 4 / 4) for k, (u, i, r, t) in enumerate(w)]
    netflix = "".join(f"{i}:\n{u},{r:.0f},{iso(t)[:10]}\n" for u, i, r, t in n).encode()
    beer = "".join(
        f"beer/name: x\nbeer/beerId: {i}\nreview/profileName: {u}\nreview/overall: {r}\n\n"
        for u, i, r, _ in n
    )
    days = [(u, i, r, t - t % 86400) for u, i, r, t in n]
    halves = [float(row[2]) for row in w]
    stamps = pa.array([int(t * 10**6) for *_, t in fraction], pa.int64())
    return {
        "MovieLens u.data": table(n, lambda u, i, r, t: f"{u}\t{i}\t{r:g}\t{t}", delimiter="\t", suffix=".data"),
        "MovieLens ratings.dat": table(n, lambda u, i, r, t: f"{u}::{i}::{r:g}::{t}", delimiter="::", suffix=".dat"),
        "MovieLens ratings.csv": table(n, "{},{},{},{}".format, head="userId,movieId,rating,timestamp"),
        "MovieTweetings": table(w, lambda u, i, r, t: f"{u}::{i}::{r:g}::{t}", delimiter="::", suffix=".dat"),
        "Netflix blocks": blob(netflix, ".txt"),
        "Netflix blocks as lists": blob(netflix, ".txt", form="lists"),
        "Netflix as CSV": table(
            days, lambda u, i, r, t: f"{i},{u},{r:g},{iso(t)[:10]}", head="movie,customer,rating,date"
        ),
        "CiteULike counts": replace(lists(n, lambda u, items: f"{len(items)} {' '.join(items)}"), rows=None),
        "CiteULike pairs": table(n, lambda u, i, r, t: f"{u} {i}", keep=(), delimiter=" ", suffix=".txt"),
        "Last.fm 360K": table(
            w, lambda u, i, r, t: f"{u}\t{i}\tsome band\t{r * 2:g}", keep=(), delimiter="\t",
            options={"columns": ["user", "item", "-", "-"]}),
        "Last.fm 1K": table(
            w, lambda u, i, r, t: f"{u}\t{iso(t, 'Z')}\tm\tband\tk\t{i}", keep=("time",), delimiter="\t",
            options={"columns": ["user", "time", "-", "-", "-", "item"]}),
        "HetRec Last.fm": table(
            n, lambda u, i, r, t: f"{u}\t{i}\t{r * 2:g}", keep=(), delimiter="\t", head="userID\tartistID\tweight"),
        "HetRec tags": table(
            n, lambda u, i, r, t: f"{u}\t{i}\t7\t{t}000", keep=("time",), delimiter="\t",
            head="userID\tartistID\ttagID\ttimestamp", options={"time_unit": "ms"}),
        "RecBole .inter": table(
            n, lambda u, i, r, t: f"{u}\t{i}\t{r}\t{t}", delimiter="\t", suffix=".inter",
            head="user_id:token\titem_id:token\trating:float\ttimestamp:float"),
        "RecBole labels": replace(table(
            n, lambda u, i, r, t: f"{u}\t{i}\t{int(r > 3)}", delimiter="\t", suffix=".inter",
            head="user_id:token\titem_id:token\tlabel:float"), rows=None),
        "RecBole sequences": replace(table(
            n, lambda u, i, r, t: f"{u}\t5 6 7\t{i}", delimiter="\t", suffix=".inter",
            head="user_id:token\titem_id_list:token_seq\titem_id:token"), rows=None),
        "Amazon JSON": blob(_json(w, ("reviewerID", "asin", "overall", "unixReviewTime")), ".json"),
        "Amazon ratings": table(w, lambda u, i, r, t: f"{u},{i},{r},{t}"),
        "Amazon 2023": table(
            fraction, lambda u, i, r, t: f"{u},{i},{r},{t * 1000:.0f}", head="user_id,parent_asin,rating,timestamp",
            options={"time_unit": "ms"}),
        "Yelp JSON": blob(_json(w, ("user_id", "business_id", "stars")), ".json"),
        "Yelp CSV": table(
            w, lambda u, i, r, t: f"x,{u},{i},{r},{iso(t, between=' ')}", head="x,user_id,business_id,stars,date"),
        "Gowalla": table(
            n, lambda u, i, r, t: f"{u}\t{iso(t, 'Z')}\t30.2\t-97.7\t{i}", keep=("time",), delimiter="\t",
            options={"columns": ["user", "time", "-", "-", "item"]}),
        "Foursquare": table(
            w, lambda u, i, r, t: f"{u}\t{i}\tc\tCafé\t40.7\t-74.0\t-240\tx", keep=(), delimiter="\t",
            encoding="latin-1",
            options={"columns": ["user", "item", *"------"], "encoding": "latin-1"}),
        "Book-Crossing": table(
            n, lambda u, i, r, t: f'"{u}";"{i}X";"{r * 2:.0f}"', keep=(), delimiter=";",
            called="{}X", head='"User-ID";"ISBN";"Book-Rating"'),
        "Jester matrix": replace(table(n, lambda u, i, r, t: f"{u},99,-7.82,{r},99,8.79"), rows=None),
        "Jester triples": table(
            n, lambda u, i, r, t: f"{u}\t\t{i}\t\t{r}", keep=("rating",), delimiter="\t\t",
            options={"columns": ["user", "item", "rating"], "delimiter": " "}),
        "Steam 200K": table(
            n, lambda u, i, r, t: f'{u},"Half, Life {i}",play,{r},0', keep=(), called="Half, Life {}",
            options={"columns": ["user", "item", "-", "-", "-"]}),
        "Steam dicts": blob("".join(f"{{'user_id': '{u}', 'item': '{i}'}}\n" for u, i, *_ in w).encode(), ".json"),
        "BeerAdvocate blocks": blob(beer.encode(), ".txt"),
        "BeerAdvocate CSV": table(
            w, lambda u, i, r, t: f"1,{t},{r},{u},{i}", head="brewery_id,review_time,review_overall,profile,beerid",
            options={"columns": {
                "user": "profile", "item": "beerid", "rating": "review_overall", "time": "review_time"}}),
        "Retailrocket": table(
            fraction, lambda u, i, r, t: f"{t * 1000:.0f},{u},view,{i},", keep=("time",),
            head="timestamp,visitorid,event,itemid,transactionid", options={"time_unit": "ms"}),
        "Yoochoose": table(
            fraction, lambda u, i, r, t: f"{u},{iso(int(t))}.{int(t % 1 * 1000):03}Z,{i},0", keep=("time",),
            options={"columns": ["user", "time", "item", "-"]}),
        "Yoochoose, nothing said": replace(
            table(n, lambda u, i, r, t: f"{u},{iso(t)}.125Z,{i},0"), rows=None),
        "Diginetica": table(
            days, lambda u, i, r, t: f"{u};NA;{i};526309;{iso(t)[:10]}", keep=("time",), delimiter=";",
            head="sessionId;userId;itemId;timeframe;eventdate",
            options={"columns": {"user": "sessionId", "item": "itemId", "time": "eventdate"}}),
        "TSV with a mark": table(
            w, lambda u, i, r, t: f"{u}\t{i}\t{r}", keep=("rating",), delimiter="\t", head="user\titem\trating",
            encoding="utf-8-sig"),
        "UTF-16": table(
            w, lambda u, i, r, t: f"{u}\t{i}é\t{r}", keep=("rating",), delimiter="\t", head="user\titem\trating",
            encoding="utf-16", called="{}é"),
        "Excel sep=": replace(
            table(n, lambda u, i, r, t: f"{u};{i}", delimiter=";", head="sep=;\nuser;item"), rows=None),
        "decimal commas": replace(table(
            n, lambda u, i, r, t: f"{u};{i};{r:.1f};{t}".replace(".", ","), delimiter=";"), rows=None),
        "Epinions": table(
            n, lambda u, i, r, t: f"{u} {i} {r:g}", keep=("rating",), delimiter=" ", suffix=".txt",
            options={"columns": ["user", "item", "rating"]}),
        "pandas with numbers as header": replace(
            table(n, lambda u, i, r, t: f"{u},{i},{r},{t}", head="0,1,2,3"), rows=None),
        "pandas with an index": table(w, lambda u, i, r, t: f"{t},{u},{i}", keep=(), head=",user,item"),
        "LightGCN lists": lists(n, lambda u, items: f"{u} {' '.join(items)}"),
        "lists with a colon": lists(n, lambda u, items: f"{u}: {' '.join(items)}"),
        "libsvm": replace(lists(n, lambda u, items: f"{u} {' '.join(f'{i}:1' for i in items)}"), rows=None),
        "Matrix Market": blob(b"%%MatrixMarket matrix coordinate real general\n9 140 2\n1 2 5\n1 3 4\n", ".mtx"),
        "SQL dump": blob("".join(f"INSERT INTO r VALUES ({u},{i});\n" for u, i, *_ in n).encode(), ".sql"),
        "Markdown": blob(
            ("| user | item |\n|---|---|\n" + "".join(f"| {u} | {i} |\n" for u, i, *_ in w)).encode(), ".md"),
        "Excel workbook": blob(zipped({"[Content_Types].xml": "<x/>", "xl/workbook.xml": "<x/>"}), ".xlsx"),
        "picture": blob(b"\x89PNG\r\n\x1a\n" + bytes(range(256)), ".png"),
        "Parquet": columnar(
            [(u, i, r, t) for u, i, r, t in fraction],
            {"user_id": [r[0] for r in w], "item_id": [r[1] for r in w], "rating": halves,
             "timestamp": stamps.cast(pa.timestamp("us", "UTC"))}),
        "Parquet of numbers": columnar(
            [(u, i, None, t) for u, i, _, t in n],
            {"user": [int(r[0]) for r in n], "item": [int(r[1]) for r in n], "time": [r[3] for r in n]}),
    }  # fmt: skip


def _lines(made, change, harmless=False):
    """Return the format with other lines, or None if it has none."""
    if made.lines is None:
        return None
    return replace(made, lines=change([*made.lines]), rows=made.rows if harmless else None)


def as_it_is(made, draw):
    return made


def windows_line_ends(made, draw):
    return None if made.lines is None else _raw(made, made.text.replace("\n", "\r\n").encode(made.encoding))


def blank_lines(made, draw):
    return _lines(made, lambda lines: [*lines[:3], "", "  ", *lines[3:], ""], harmless=True)


def byte_order_mark(made, draw):
    return _raw(made, made.text.encode("utf-8-sig")) if made.lines and made.encoding == "utf-8" else None


def utf16(made, draw):
    return _raw(made, made.text.encode("utf-16")) if made.lines and made.encoding == "utf-8" else None


def utf16_without_mark(made, draw):
    return (
        _raw(made, made.text.encode("utf-16-le"), None) if made.lines and made.encoding == "utf-8" else None
    )


def packed(made, draw):
    way = int(draw.integers(2))
    content = zipped({"inner" + made.suffix: made.content}) if way else gzip.compress(made.content, mtime=0)
    rows = None if made.suffix == ".parquet" else made.rows
    return replace(_raw(made, content, rows), suffix=".zip" if way else made.suffix + ".gz")


def packed_otherwise(made, draw):
    pack = (bz2.compress, lzma.compress, gzip.compress, lambda data: zipped({"a.csv": data}))[
        draw.integers(4)
    ]
    return _raw(made, pack(made.content), None)


def cut(made, draw):
    return _raw(made, made.content[: int(draw.integers(20, len(made.content) - 1))], made.rows)


def zero_byte(made, draw):
    content = bytearray(made.content)
    content[int(draw.integers(len(content) // 2, len(content) - 2))] = 0
    return _raw(made, bytes(content), None) if made.lines and made.encoding != "utf-16" else None


def no_utf8(made, draw):
    return (
        _raw(made, made.content.replace(b"1", b"\xe9", 1), None)
        if made.encoding == "utf-8" and made.lines
        else None
    )


def missing_name(made, draw):
    word = str(draw.choice(["nan", "NULL", "None", "NaN", "<NA>"]))
    return _first_row(made, lambda line, row: line.replace(row[0], word, 1))


def number_in_two_ways(made, draw):
    if made.rows is None or "form" in made.options or not made.rows[0][0].isdigit():
        return None
    if sum(row[0] == made.rows[0][0] for row in made.rows) < 2:
        return None
    form = str(draw.choice(["0{}", "{}.0"]))
    return _first_row(made, lambda line, row: line.replace(row[0], form.format(row[0]), 1))


def one_cell_more(made, draw):
    return (
        None if "form" in made.options else _first_row(made, lambda line, row: line + made.delimiter + "77")
    )


def one_cell_less(made, draw):
    return (
        None
        if "form" in made.options
        else _first_row(made, lambda line, row: line.rpartition(made.delimiter)[0])
    )


def header_again(made, draw):
    return _lines(made, lambda lines: [*lines[:5], made.head, *lines[5:]]) if made.head else None


def open_quote(made, draw):
    if len(made.delimiter) > 1 or made.delimiter == " ":
        return None
    return _first_row(made, lambda line, row: '"' + line.replace('"', ""))


def _first_row(made, change):
    if made.rows is None or made.lines is None or "Diginetica" in str(made.options.get("columns")):
        return None
    place = next((n for n, line in enumerate(made.lines) if made.rows[0][0] in line), 0)

    def spoilt(lines):
        lines[place] = change(lines[place], made.rows[0])
        return lines

    made_so = _lines(made, spoilt)
    return None if made_so.lines == made.lines else made_so


def _raw(made, content, rows=()):
    return replace(made, lines=None, raw=content, rows=made.rows if rows == () else rows)


MUTATIONS = (
    as_it_is, windows_line_ends, blank_lines, byte_order_mark, utf16, utf16_without_mark, packed, packed_otherwise, cut,
    zero_byte, no_utf8, missing_name, number_in_two_ways, one_cell_more, one_cell_less, header_again, open_quote,
)  # fmt: skip
EACH = 10


def mutated(name: str, made: Format):
    """Yield ten mutations of a format, the same ones every time: their name and the file."""
    draw = np.random.default_rng([7, *name.encode()])
    ways = [
        way for way in (MUTATIONS[k] for k in draw.permutation(len(MUTATIONS))) if way(made, draw) is not None
    ]
    for number in range(EACH):
        way = ways[number % len(ways)]
        yield way.__name__, way(made, draw)
