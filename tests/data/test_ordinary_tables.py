"""No ordinary table is refused for the contents of its cells, or read otherwise than by pandas."""

from __future__ import annotations

import csv
import io

import numpy as np
import pandas
import pytest
from small_data import load, pack, refusal

from gossiprec.data.parquet import is_parquet

TABLES = 80
TITLES = (
    "Star Wars: A New Hope", "Star Wars: Andor", "Alien: Covenant", "[REC] 2", "(500) Days", "#Alive", "|Pipes|",
    "Face/Off (1997)", "{Proof}", "<Untitled>", "12:08 East", "@relation", "% of us", "-- dashes --", "Drop table",
    "PRAGMA", "BMänner", "ID3 tags", "PAR1", "Ocean's 11", "sep=;", "3:10 to Yuma", "1:1", "[[x]]", "(a) b (c)",
)  # fmt: skip
NOTES = (
    "08:30", "at 9:15", "see #12", "a|b|c", "key: value", "[x]", "(y)", "two\nlines", "12:\n3, 4\n5", "top\n-----\nend",
    "a, b; c", 'said "no"', "a::b", "5:1", "2024-03-01 08:30", "a\tb", "# x", "%", "{1: 2}", "user, item",
)  # fmt: skip
TIMES = ("%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d", "%s")
FOREIGN = {"user": "kunde", "item": "artikel", "rating": "wertung", "time": "zeit"}


def drawn(number):
    """Return the text of a table, the options that describe it, and its delimiter and names for pandas."""
    rng = np.random.default_rng([54, number])
    way = ("header", "by name", "by place", "numbers")[number % 4]
    meanings = ["user", "item", "rating", "time"]
    if way != "numbers":
        kept = ["user", "item", *(one for one in ("rating", "time", "title", "note") if rng.random() < 0.6)]
        meanings = rng.permutation(kept).tolist()
    form, titles = TIMES[rng.integers(len(TIMES))], rng.random() < 0.5
    places = np.cumsum(rng.integers(1, 4, 12))
    rows = []
    for place in places.tolist():
        moment = pandas.Timestamp(1_709_280_000 + 67_260 * place, unit="s")
        time = str(int(moment.timestamp())) if form == "%s" else moment.strftime(form)
        title, note = TITLES[place % len(TITLES)], NOTES[place * 7 % len(NOTES)]
        user = str(place) if way == "numbers" or rng.random() < 0.5 else f"u {place}: x"
        cells = {"user": user, "item": title if titles else f"i{place}", "rating": f"{1 + place % 9 / 2:g}"}
        rows.append([{**cells, "time": time, "title": title, "note": note}[one] for one in meanings])
    delimiter = (",", "\t", ";", "|")[rng.integers(4)]
    names = {one: FOREIGN.get(one, one) if way == "by name" else f"{one}_id" if rng.random() < 0.5 else one
             for one in meanings}  # fmt: skip
    names |= {one: one for one in names if way != "by name" and one not in ("user", "item")}
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator=("\n", "\r\n")[rng.integers(2)])
    writer.writerows([[*names.values()], *rows] if way in ("header", "by name") else rows)
    known = {one: name for one, name in names.items() if one in FOREIGN}
    places = [one if one in FOREIGN else "-" for one in meanings]
    options = {
        "header": {},
        "by name": {"columns": known},
        "by place": {"columns": places, "header": False, "delimiter": delimiter},
        "numbers": {},
    }[way]
    return text.getvalue(), options, delimiter, names, way in ("header", "by name")


@pytest.mark.parametrize("number", range(TABLES))
def test_an_ordinary_table_is_read_as_pandas_reads_it(number, tmp_path):
    text, options, delimiter, names, header = drawn(number)
    data = load(pack(tmp_path / "a.csv", text), **options)
    table = pandas.read_csv(
        io.StringIO(text, newline=""), sep=delimiter, dtype=str, keep_default_na=False,
        header=0 if header else None, names=None if header else [*names.values()],
    )  # fmt: skip
    assert [data.user_names[user] for user in data.users] == table[names["user"]].tolist()
    assert [data.item_names[item] for item in data.items] == table[names["item"]].str.strip().tolist()
    if "rating" in names:
        assert data.ratings.tolist() == table[names["rating"]].astype("float32").tolist()
    if "time" in names:
        cells = table[names["time"]]
        digits = cells.str.fullmatch(r"\d+").all()
        times = pandas.to_datetime(
            cells.astype(int) if digits else cells, unit="s" if digits else None, utc=True
        )
        assert data.times.tolist() == [int(time.timestamp()) for time in times]


CLOCKS = "".join(f"u{k % 3},i{k % 4},0{k % 9 + 1}/01/2024 0{k}:30\n" for k in range(10))


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("user_id,item_id,time\n" + CLOCKS, {"columns": {"user": "user_id", "item": "item_id"}}),
        (CLOCKS, {"columns": ["user", "item", "-"], "header": False}),
        ("".join(f"{k % 3},i{k},5,2024-03-01 0{k}:30\n" for k in range(9)), {}),
        ("".join(f"{k},08:3{k}\n" for k in range(9)), {}),
        ("".join(f'"Star Wars: {k}",{k}\n' for k in range(9)), {"columns": ["item", "user"], "header": False}),
        ("Alien: x,1\nStar Wars: y,2\nAlien: z,3\nStar Wars: a,4\n", {"header": False}),
        ("".join(f"[{k}] pen,[ann]\n" for k in range(9)), {"header": False, "delimiter": ","}),
        ("(1,2)\n(3,4)\n", {"columns": ["user", "item"], "header": False}),
        ("user,item\n1,5\n1,7\n1,9\n1,8\n", {}),
        ("1,5\n1,7\n1,9\n1,8\n", {}),
        ("3,5,4,978300760\n3,6,4,978300761\n3,7,2,978300762\n", {}),
        ("BMänner,1\nx,2\n", {"columns": ["item", "user"], "header": False}),
        ("PAR1,1\nx,2\n", {"columns": ["item", "user"], "header": False}),
        ("ORC,1\nx,2\n", {"columns": ["item", "user"], "header": False}),
        ("userftypx,item\na,b\n", {"columns": ["item", "user"], "header": False}),
        ('user,item,note\n1,5,"12:\n3, 4"\n2,6,"x\n-----\ny"\n3,7,z\n', {}),
        ("@relation,1\nb,2\nc,3\n", {"columns": ["user", "item"], "header": False}),
        ("Drop table,1\nb,2\nc,3\n", {"columns": ["user", "item"], "header": False}),
        ("<Untitled>,1\nb,2\nc,3\n", {"header": False}),
        ('{"a": 1},1\nb,2\nc,3\n', {"columns": ["user", "item"], "header": False, "quote": "none"}),
        ("ann 3:16\nbob 4:12 5:14\n", {"form": "lists", "delimiter": " "}),
        ("1 5\n2 5 7\n3 5 7 9\n", {"form": "lists", "delimiter": " "}),
    ],
)  # fmt: skip
def test_a_guess_overrules_neither_options_nor_a_table(text, options, tmp_path):
    assert len(load(pack(tmp_path / "a.csv", text), **options).users) > 1


@pytest.mark.parametrize("line", ['{"user": 1, "item": 5}', '[{"user": 1, "item": 5}]', "[[1, 5]]"])
def test_lines_of_json_are_refused_whatever_the_options(line, tmp_path):
    path = pack(tmp_path / "a.json", f"{line}\n" * 3)
    for options in ({}, {"columns": ["user", "item"], "delimiter": ","}, {"form": "lists", "delimiter": ","}):
        assert "found JSON" in refusal(path, **options)


def test_many_brackets_are_refused_without_a_traceback(tmp_path):
    assert "found JSON" in refusal(pack(tmp_path / "a.csv", "[" * 100_000))


def test_a_text_that_begins_like_parquet_is_text(tmp_path):
    assert not is_parquet(pack(tmp_path / "a.csv", "PAR1,x\nann,y\n"))


def test_long_tables_with_line_ends_in_cells_are_read(tmp_path):
    rows = "".join(f'{k},{k % 97},"a\nb:\n1, {k}"\n' for k in range(3500))
    assert len(load(pack(tmp_path / "a.csv", "user,item,note\n" + rows)).users) == 3500
    assert load(tmp_path / "a.csv", columns=["user", "item", "-"], header=True).n_items == 97


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 3:1 5:0.5\n-1 2:1\n", "libsvm"),
        ("1,2 3:1 5:2\n4,2 3:1 6:2\n", "libsvm"),
        ("(user,item)\n(1,5)\n(2,6)\n", "brackets around every line"),
        ("| user | item |\n|---|---|\n| ann | x |\n", "a table drawn with lines"),
        (" user | item\n------+------\n ann | x\n", "a table drawn with lines"),
        ("userId: 1\nproductId: 2\n\nuserId: 2\nproductId: 3\n", "blocks of 'key: value'"),
        ("{'user': 1, 'item': 2}\n{'user': 2, 'item': 2}\n", "ast.literal_eval"),
        ("PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n", "SQL statements"),
        ("@RELATION r\n\n@ATTRIBUTE user numeric\n@DATA\n1,2\n", "an ARFF file"),
        ("<r u='1' i='2'/>\n<r u='1' i='3'/>\n", "an XML or HTML document"),
    ],
)
def test_other_formats_are_still_known_by_name(text, words, tmp_path):
    assert words in refusal(pack(tmp_path / "a.txt", text))
