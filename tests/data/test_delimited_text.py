"""Quotes, encodings, delimiters and dates: what any delimited text may hold, and the line that a complaint names."""

from __future__ import annotations

import csv
import io
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from small_data import dataset, load, pack, refusal

from gossiprec.base.errors import DataError
from gossiprec.data import text_blocks
from gossiprec.data.delimited_text import read_first_row
from gossiprec.data.sources import FileSource
from gossiprec.data.text_blocks import TextBlock, TextFormat

USER_ITEM = ("user", "item")
TIMED = ("user", "item", "time")

names = st.text(st.characters(codec="utf-8", exclude_characters="\0\1"), min_size=1, max_size=8).filter(
    lambda name: name.strip() and "\ufeff" not in name
)


def csv_of(rows, **style):
    text = io.StringIO()
    csv.writer(text, **style).writerows(rows)
    return text.getvalue()


@given(rows=st.lists(st.tuples(names, names), min_size=1, max_size=20), everything=st.booleans())
@pytest.mark.slow
def test_quoted_names_may_hold_anything(rows, everything, tmp_path_factory):
    style = {"quoting": csv.QUOTE_ALL if everything else csv.QUOTE_MINIMAL}
    path = pack(tmp_path_factory.mktemp("quoted") / "a.csv", csv_of(rows, **style))
    found = load(path, columns=USER_ITEM, delimiter=",", header=False, doubtful_names="keep")
    for ids, count, column in ((found.users, found.n_users, 0), (found.items, found.n_items, 1)):
        told = {row[column].strip(): int(i) for row, i in zip(rows, ids, strict=True)}
        assert [told[row[column].strip()] for row in rows] == ids.tolist()
        assert sorted(set(told.values())) == list(range(count))


@given(
    pieces=st.lists(
        st.sampled_from(
            ["a", "b", " ", '"', '""', ",", ",", "\n", "\r\n", '"a,b"', '"x\ny"', "a,b\n", 'a,"b"\n']
        ),
        min_size=1,
        max_size=14,
    ),
    quote=st.sampled_from(['"', None]),
)
def test_cells_and_their_lines_are_those_of_the_strict_csv_reader_of_python(pieces, quote):
    block = TextBlock(
        FileSource("any"), TextFormat(USER_ITEM, ",", quote=quote), 1, "".join(["a,b\n", *pieces])
    )
    quoting = csv.QUOTE_NONE if quote is None else csv.QUOTE_MINIMAL
    reader = csv.reader(io.StringIO(block.text, newline=""), quoting=quoting, strict=True)
    lines = [*block.text.split("\n"), ""]
    expected, begin = [], 1
    try:
        for cells in reader:
            if lines[begin - 1].strip():
                expected.append((begin, cells))
            begin = reader.line_num + 1
    except csv.Error:
        expected = None
    try:
        columns = block.table().columns
    except DataError:
        assert expected is None or any(len(cells) != 2 for _, cells in expected)
    else:
        rows = zip(*[column.to_pylist() for column in columns], strict=True)
        assert [(block.line_of(place), list(cells)) for place, cells in enumerate(rows)] == expected


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('1,"2\n3,4\n', 1),
        ('\ufeff"1,2\n3,4\n', 1),
        ('1,2\n3,"4\n', 2),
        ('1,2\n"3" and more,4\n', 2),
        ('"1\n0",2\n3,""4"\n', 3),
        ('"', 1),
    ],
)
def test_a_quote_that_is_not_closed_swallows_nothing(tmp_path, text, line):
    message = refusal(pack(tmp_path / "a.csv", text), columns=USER_ITEM, delimiter=",")
    assert f"line {line}: found a quote that is not closed at the end of its cell" in message
    assert "set quote: none" in message


def test_quotes_inside_a_cell_and_without_a_meaning_are_ordinary_text(tmp_path):
    path = pack(tmp_path / "a.csv", '5" disk,a\n"b,"c\n')
    found = load(path, columns=USER_ITEM, delimiter=",", quote="none")
    assert found.users.tolist() == [1, 0]
    assert load(pack(tmp_path / "b.csv", '5" disk,a\n'), columns=USER_ITEM, delimiter=",").n_users == 1


def test_another_quote_can_be_named(tmp_path):
    path = pack(tmp_path / "a.csv", "'a,b',c\n\"d,e\n")
    assert load(path, columns=USER_ITEM, delimiter=",", quote="'").n_users == 2


def test_a_bad_cell_below_a_cell_of_several_lines_is_named(tmp_path):
    text = '\n"a\r\nb\nc",i,1\n  \nd,i,noon\n'
    assert "line 6: found 'noon'" in refusal(pack(tmp_path / "a.csv", text), columns=TIMED, delimiter=",")
    assert "line 6: found 2 columns" in refusal(
        pack(tmp_path / "a.csv", text.replace(",noon", "")), columns=TIMED, delimiter=","
    )


@pytest.mark.parametrize("block", [1, 2, 3, 7, 64])
def test_blocks_cut_no_row_and_no_character(tmp_path, monkeypatch, block):
    rows = [(f"ü{n % 3}", f"a,\n{n}", n) for n in range(9)]
    path = pack(tmp_path / "a.csv", "\n\n" + csv_of(rows, lineterminator="\n"))
    monkeypatch.setattr(text_blocks, "BLOCK", block)
    found = load(path, columns=TIMED, delimiter=",")
    assert (found.n_users, found.n_items, found.times.tolist()) == (3, 9, list(range(9)))
    bad = pack(tmp_path / "b.csv", path.read_text() + "u,i,soon\n")
    assert "line 21: found 'soon'" in refusal(bad, columns=TIMED, delimiter=",")


def test_a_quote_that_is_open_for_long_is_refused_before_the_whole_file_is_held(tmp_path, monkeypatch):
    monkeypatch.setattr(text_blocks, "BLOCK", 16)
    monkeypatch.setattr(text_blocks, "MAX_LENGTH", 64)
    path = pack(tmp_path / "a.csv", b'a,b\n"c,d\n' + b"e,f\n" * 50 + b"\xff\n")
    assert "line 2: found a quote" in refusal(path, columns=USER_ITEM, delimiter=",")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16", "utf-16-le"])
def test_encodings_give_the_same_names(tmp_path, encoding):
    text = "é,ö\nz,é\n"
    found = load(
        pack(tmp_path / "a.csv", text.encode(encoding)), columns=USER_ITEM, delimiter=",", encoding=encoding
    )
    assert (found.users.tolist(), found.items.tolist()) == ([1, 0], [1, 0])


def test_text_in_another_encoding_is_refused_with_its_line(tmp_path):
    path = pack(tmp_path / "a.csv", "a,b\nc,d\né,f\n".encode("latin-1"))
    message = refusal(path, columns=USER_ITEM, delimiter=",", header=False)
    assert "set encoding to the right one, such as latin-1" in message
    assert "line 3: found bytes that are not UTF-8 text; expected UTF-8 text" in message
    assert "line 1: found bytes that are not UTF-16 text" in refusal(
        pack(tmp_path / "b.csv", b"\xff\xfea"), columns=USER_ITEM, encoding="utf-16"
    )


def test_half_a_character_is_refused(tmp_path):
    message = refusal(
        pack(tmp_path / "a.csv", "a,b\n\\ud800,c\n"),
        columns=USER_ITEM,
        delimiter=",",
        encoding="unicode_escape",
    )
    assert "from line 1 on: " in message
    assert "invalid UTF8" in message


@pytest.mark.parametrize("encoding", ["latin-99", "hex"])
def test_an_encoding_that_is_none_is_refused(encoding):
    with pytest.raises(ValidationError, match=f"{encoding}.*; expected an encoding that Python knows"):
        dataset("file", path="a", encoding=encoding)


@pytest.mark.parametrize("delimiter", ['"', "\n", "\0", "::\1", 'a"'])
def test_a_delimiter_that_could_not_be_told_from_other_text_is_refused(delimiter):
    with pytest.raises(ValidationError, match="delimiter\n  String should match pattern"):
        dataset("file", path="a", delimiter=delimiter)


@pytest.mark.parametrize("delimiter", ["::", "§", "\t", "|", ".", "^", "--"])
def test_any_delimiter_will_do(tmp_path, delimiter):
    rows = [("a:b", '"x', "7"), ("c", "y z", "8")]
    path = pack(tmp_path / "a.txt", "".join(delimiter.join(row) + "\n" for row in rows))
    found = load(path, columns=TIMED, delimiter=delimiter, quote="none")
    assert (found.n_users, found.n_items, found.times.tolist()) == (2, 2, [7, 8])


def test_a_byte_that_stands_in_for_a_delimiter_is_refused_as_data(tmp_path):
    assert "line 2: found a byte of value 1" in refusal(
        pack(tmp_path / "a.txt", "1::2\n1\1::3\n"), columns=USER_ITEM, delimiter="::"
    )


@pytest.mark.parametrize(
    ("cell", "seconds"),
    [
        ("1287532527", 1_287_532_527),
        (" 1.287532527e9 ", 1_287_532_527),
        ("-1", -1),
        ("1287532527.999", 1_287_532_527),
        ("0.5", 0),
        ("2010-10-19T23:55:27Z", 1_287_532_527),
        ("2010-10-19 23:55:27", 1_287_532_527),
        (" 2010-10-20T01:55:27+02:00 ", 1_287_532_527),
        ("2010-10-19T18:55:27-0500", 1_287_532_527),
        ("2010-10-19T23:55:27.999Z", 1_287_532_527),
        ("2010-10-19 23:55:27.123456", 1_287_532_527),
        ("2010-10-19T23:55", 1_287_532_500),
        ("2010-10-19", 1_287_446_400),
        ("1970-01-01", 0),
    ],
)
def test_times_are_unix_seconds_or_iso_dates_each_for_itself(tmp_path, cell, seconds):
    path = pack(tmp_path / "a.tsv", f"u\ti\t5\nu\tj\t{cell}\nu\tk\t2000-01-01\nu\tl\t2000-01-01T00:00Z\n")
    assert load(path, columns=TIMED).times.tolist() == [5, seconds, 946_684_800, 946_684_800]


@pytest.mark.parametrize(
    "cell",
    ["2010-13-19", "2010-02-30T00:00:00Z", "2010-10-19T25:00:00", "19.10.2010", "1969-12-31T23:59:59Z", "1969-12-31",
     "2010-10-19T23:55:27 Z", "2010", "yesterday", "", "1e300", "-0.5", "1287532527000", "inf"],
)  # fmt: skip
def test_what_is_no_time_is_refused(tmp_path, cell):
    path = pack(tmp_path / "a.tsv", f"u\ti\t5\nu\tj\t2010-10-19\nu\tk\t{cell}\nu\tl\tnever\n")
    if cell == "2010":
        path.write_text(path.read_text().replace("never", "2011"))
        assert load(path, columns=TIMED).times.tolist() == [5, 1_287_446_400, 2010, 2011]
    else:
        message = refusal(path, columns=TIMED)
        assert f"line 3: found {cell!r}; expected seconds as time" in message
        assert "or an ISO 8601 date" in message


def test_the_first_cells_are_those_of_a_header(tmp_path):
    path = pack(tmp_path / "a.csv", '\n \n"who, me" ,7,7\n1,2\n')
    assert read_first_row(FileSource(path), TextFormat((), ",", quote='"')) == ("who, me", "7", "7")
    assert read_first_row(FileSource(pack(tmp_path / "b.csv", "\n\n")), TextFormat((), ",")) == ()


def test_numbers_are_read_to_the_last_bit(tmp_path):
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.random(500), rng.standard_normal(500) * 10.0 ** rng.integers(-30, 29, 500)])
    path = pack(
        tmp_path / "a.tsv", "".join(f"u\ti{n}\t{value!r}\n" for n, value in enumerate(values.tolist()))
    )
    found = load(path, columns=("user", "item", "rating"))
    assert found.ratings.tobytes() == values.astype(np.float32).tobytes()


def test_text_is_read_without_importing_pandas(tmp_path):
    """Which pyarrow does where it is installed, in half a second, to turn columns into arrays by `to_numpy`."""
    path = pack(tmp_path / "a.tsv", "u\ti\t4\t2010-10-19\nu\tj\t3.5\t-1\n")
    script = (
        "import sys; from pathlib import Path; from gossiprec.data.delimited_text import read_interactions;"
        "from gossiprec.data.sources import FileSource; from gossiprec.data.text_blocks import TextFormat;"
        "layout = TextFormat(('user', 'item', 'rating', 'time'));"
        f"read_interactions(FileSource(Path({str(path)!r})), layout);"
        "sys.exit('pandas' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
