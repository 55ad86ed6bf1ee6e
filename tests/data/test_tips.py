"""Each next step that `gossiprec data check` names can be followed: the next try succeeds."""

from __future__ import annotations

import ast
import bz2
import csv
import gzip
import io
import zipfile

import pandas
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet

from gossiprec.base.errors import GossipRecError
from gossiprec.cli.data import data

PAIRS = "user,item\nann,x\nbob,y\n"
ROWS = "".join(f"u{k % 3}Q,i{k % 5}K,{k % 5 + 1},13700000{k:02}\n" for k in range(15))
TIMED = "user,item,when\nann,x,{}\nbob,y,{}\n"
WHEN = "columns={user: user, item: item, time: when}"


def zipped(members):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return content.getvalue()


def columnar(**columns):
    content = io.BytesIO()
    parquet.write_table(pa.table(columns), content)
    return content.getvalue()


def without_lines(start):
    return lambda text: "".join(line for line in text.splitlines(True) if not line.startswith(start))


def replaced(old, new):
    return lambda text: text.replace(old, new)


OPTIONS = {
    # name: (text, options of the first try, a part of the message, options of the next try)
    "delimiter": ("a b,c\nd e,f\n", "", "set it with the option delimiter", "delimiter=,"),
    "other delimiter": ("user^item\n1^2\n2^3\n", "", "set delimiter", "delimiter=^"),
    "by name": ("kunde,artikel,note\nann,x,1\nbob,y,2\n", "", "such as columns: {user: kunde, item: artikel}; if",
                "columns={user: kunde, item: artikel}"),
    "five names": ("a,kunde,b,artikel,c\nq,ann,w,x,r\n", "", "a header of 'a', 'kunde'",
                   "columns={user: kunde, item: artikel}"),
    "five words": ("a,kunde,b,artikel,c\nq,ann,w,x,r\n", "", "set header: false and columns: [user, item, -, -, -]",
                   "header=false|columns=[user, item, -, -, -]"),
    "five numbers": ("1,2,3,4,5\n2,3,4,5,6\n", "", "such as columns: [user, item, -, -, -]",
                     "columns=[user, item, -, -, -]"),
    "lists": ("1 5 9 7\n2 8 3 24\n", "", "set form: lists", "form=lists"),
    "header or row": ("kunde,artikel\nA1,B2\nA3,B4\n", "", "if it is a row, set header: false", "header=false"),
    "header or names": ("kunde,artikel\nA1,B2\nA3,B4\n", "", "such as columns: {user: kunde, item: artikel};",
                        "columns={user: kunde, item: artikel}"),
    "header at places": ("kunde,artikel\nA1,B2\nA3,B4\n", "columns=[user, item]", "set header: true or header: false",
                         "columns=[user, item]|header=true"),
    "row at places": ("kunde,artikel\nA1,B2\nA3,B4\n", "columns=[user, item]", "set header: true or header: false",
                      "columns=[user, item]|header=false"),
    "numbers as names": ("0,1\n5,7\n6,8\n", "", "such as columns: {user: '0', item: '1'}",
                         "columns={user: '0', item: '1'}"),
    "numbers as row": ("0,1\n5,7\n6,8\n", "", "if it is a row, set header: false", "header=false"),
    "swapped names": ("item_id,user_id\nx,ann\ny,bob\n", "columns=[user, item]", "by name, such as {user: ..., item:",
                      "columns={user: user_id, item: item_id}"),
    "denied header": (PAIRS, "columns=[user, item]|header=false", "header: true", "columns=[user, item]|header=true"),
    "too few columns": ("user,item,time\nann,x,5\n", "columns=[user, item]|header=true", "name each, with '-'",
                        "columns=[user, item, -]|header=true"),
    "misspelt": (PAIRS, "columns={user: usr, item: item}", "did you mean 'user'?", "columns={user: user, item: item}"),
    "quotes in names": (PAIRS, "", "", "columns={user: 'user', item: \"item\"}"),
    "label": ("user,item,label:float\na,x,1\nb,y,0\nc,y,1\n", "",
              "set columns: {user: user, item: item, rating: 'label:float'} and min_rating: 1",
              "columns={user: user, item: item, rating: 'label:float'}|min_rating=1"),
    "two words": ("user,item,x\na,x,like\nb,y,dislike\nc,y,like\n", "", "to keep all lines, set columns: {user: user, "
                  "item: item}", "columns={user: user, item: item}"),
    "ones": ("user,item,rating\na,x,yes\nb,y,no\nc,y,\n", "", "set min_rating: 1 to keep the ones", "min_rating=1"),
    "all": ("user,item,rating\na,x,1\nb,y,-1\nc,y,1\n", "", "min_rating: -1 to keep all", "min_rating=-1"),
    "high rating": ("user,item,rating\na,x,3\nb,y,4\n", "min_rating=5", "expected up to 4", "min_rating=4"),
    "few items": (PAIRS, "min_items=2", "lower min_items", "min_items=1"),
    "small core": (PAIRS, "min_interactions=2", "lower min_interactions", "min_interactions=1"),
    "sequence": ("user_id:token\ttags:token_seq\titem_id:token\n1\ta b\t2\n2\tc\t3\n", "",
                 "such as columns: {user: 'user_id:token', item: 'item_id:token'}",
                 "columns={user: 'user_id:token', item: 'item_id:token'}"),
    "atomic": ("head_id:token\ttail_id:token\na\tb\n", "", "such as columns: {user: 'head_id:token', item: 'tail_id",
               "columns={user: 'head_id:token', item: 'tail_id:token'}"),
    "doubtful name": ("user,item\nann,x\nnan,y\n", "", "set doubtful_names: keep", "doubtful_names=keep"),
    "two spellings": ("user,item\n1,x\n01,y\n", "", "set doubtful_names: keep", "doubtful_names=keep"),
    "swapped numbers": ("1,2,978300760,5\n3,4,978300761,4\n", "", "such as columns: [user, item, time, rating]",
                        "columns=[user, item, time, rating]"),
    "early times": ("1,2,3,4\n2,3,4,5\n", "", "such as columns: [user, item, -, -]", "columns=[user, item, -, -]"),
    "dates as users": ("2024-01-01,5\n2024-01-02,6\n", "", "such as columns: [user, item]", "columns=[user, item]"),
    "milliseconds": ("user,item,time\n1,2,1287532527000\n", "", "set time_unit: ms", "time_unit=ms"),
    "open quote": ('user,item\nann,"x\nbob,y\n', "", "set quote: none", "quote=none"),
    "Latin-1": ("user,item\nann,é\n".encode("latin-1"), "", "set encoding to the right one, such as latin-1",
                "encoding=latin-1"),
    "UTF-16": ("user,item\n1,5\n".encode("utf-16-le"), "", "set encoding: utf-16-le or utf-16-be",
               "encoding=utf-16-le"),
    "UTF-8": ("user,item\nann,é\n", "encoding=latin-1", "remove encoding", ""),
    "lists with columns": ("1 2 3\n2 3\n", "form=lists|columns=[user, item]", "remove the others", "form=lists"),
    "user delimiter": ("1:2 3\n2:3\n", "user_delimiter=:", "it requires form: lists", "form=lists|user_delimiter=:"),
    "one cell of items": ("1:2 3\n2:3 4\n", "form=lists|delimiter=:", "set delimiter: ' ' and user_delimiter: ':'",
                          "form=lists|delimiter= |user_delimiter=:"),
    "lists of words": ("user_id movies\nbob 1 2\n", "form=lists", "set header: true or header: false",
                       "form=lists|header=true"),
    "quoted words": ("1 'til (a\n2 'twas b)\n", "form=lists", "set doubtful_names: keep",
                     "form=lists|doubtful_names=keep"),
    "verses": ("ann 3:1\nbob 4:1 5:1\n", "form=lists", "if each line is a user and its items, set delimiter",
               "form=lists|delimiter= "),
    "counts of lists": ("1 5\n2 5 7\n3 5 7 9\n", "form=lists", "if each line is a user and its items, set delimiter",
                        "form=lists|delimiter= "),
    "table like JSON": ('{"a,x\n{"b,y\n', "", "if it is a table, name its columns", "columns=[user, item]|quote=none"),
}  # fmt: skip

EDITS = {
    # name: (content, options, a part of the message, the change of the text, options of the next try)
    "comment": ("# made today\n" + PAIRS, "", "remove the comments above the table", without_lines("#"), ""),
    "comment before rows": ("# a\n# b, c\n1,2\n2,3\n", "", "remove the comments above", without_lines("#"), ""),
    "Excel": ("sep=;\nuser;item\na;x\n", "", "remove this line and set delimiter: ';'", without_lines("sep"),
              "delimiter=;"),
    "ARFF": ("@relation r\n@attribute user numeric\n@data\n1,2\n2,3\n", "", "remove its head, up to @data",
             without_lines("@"), ""),
    "Matrix Market": ("%%MatrixMarket matrix coordinate real general\n9 140 2\n1 2 5\n1 3 4\n", "",
                      "remove the comments and the line of sizes, and set columns: [user, item, rating]",
                      lambda text: "".join(text.splitlines(True)[2:]), "columns=[user, item, rating]"),
    "Netflix": ("1:\n30878,4,2005-12-26\n26471,5,2005-12-27\n", "", "as user,item,rating,time",
                lambda text: "30878,1,4,2005-12-26\n26471,1,5,2005-12-27\n", ""),
    "libsvm": ("1 3:1 5:0.5\n2 3:2\n", "", "below the header user,item,rating",
               lambda text: "user,item,rating\n1,3,1\n1,5,0.5\n2,3,2\n", ""),
    "brackets": ("(1,5)\n(2,6)\n", "", "remove the brackets", lambda text: text.translate({40: "", 41: ""}), ""),
    "Markdown": ("| user | item |\n|---|---|\n| a | x |\n", "", "export the table as CSV",
                 lambda text: "user,item\na,x\n", ""),
    "counts": ("3 5 7 8\n2 5 9\n1 7\n", "", "replace the count by the number of the line, and set form: lists",
               lambda text: "1 5 7 8\n2 5 9\n3 7\n", "form=lists"),
    "decimal commas": ("user;item;rating\n1;5;4,5\n", "", "use decimal points", replaced(",", "."), ""),
    "header again": (PAIRS + "user,item\ncem,z\n", "", "one header, before all rows",
                     lambda text: PAIRS + "cem,z\n", ""),
    "zone name": (TIMED.format(*["2024-03-01 08:30:00 UTC"] * 2), WHEN, "23:55:27+00:00 for UTC, instead of 'UTC'",
                  replaced(" UTC", "+00:00"), WHEN),
    "zone after a blank": (TIMED.format(*["2024-03-01 08:30 +01:00"] * 2), WHEN, "remove the blank before '+01:00'",
                           replaced(" +", "+"), WHEN),
    "half days": (TIMED.format(*["2024-03-01 08:30 PM"] * 2), WHEN, "count 24 hours instead of 'PM'",
                  replaced("08:30 PM", "20:30"), WHEN),
    "no hyphens": (TIMED.format("20240301", "20240302"), WHEN, "which are dates without hyphens|such as 2010-10-19",
                   replaced("202403", "2024-03-"), WHEN),
    "other dates": (TIMED.format("03/01/2024 08:30", "x"), WHEN, "leave them out by naming the other columns", str,
                    "columns={user: user, item: item}"),
    "list in quotes": ('1 "2 3"\n2 "4 5"\n', "form=lists", "remove the quotes", replaced('"', ""), "form=lists"),
    "one user twice": ("1 2 3\n1 4 5\n", "form=lists", "one line for each user", lambda text: "1 2 3 4 5\n",
                       "form=lists"),
}  # fmt: skip


def check(path, options):
    """Return the exit status and the printed text of `gossiprec data check`."""
    chosen = [word for option in options.split("|") if option for word in ("-o", option)]
    result = CliRunner().invoke(data, ["check", str(path), *chosen])
    error = result.exception
    if isinstance(error, GossipRecError):
        return error.exit_code, str(error)
    return result.exit_code, f"{result.output}{error or ''}"


def put(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refuse(path, options, words):
    status, text = check(path, options)
    assert status == 2, text
    assert any(part in text for part in words.split("|")), text
    return text


def accept(path, options):
    status, text = check(path, options)
    assert status == 0, text


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_that_a_message_names_helps(name, tmp_path):
    content, options, words, following = OPTIONS[name]
    path = put(tmp_path / "a.csv", content)
    if words:
        refuse(path, options, words)
    accept(path, following)


@pytest.mark.parametrize("name", EDITS)
def test_a_change_that_a_message_names_helps(name, tmp_path):
    content, options, words, change, following = EDITS[name]
    path = put(tmp_path / "a.txt", content)
    refuse(path, options, words)
    accept(put(path, change(content)), following)


@pytest.mark.parametrize(
    "text",
    [
        '{"user": 1, "item": 5}\n{"user": 2, "item": 6}\n',
        '[{"user": 1, "item": 5}, {"user": 2, "item": 6}]',
        '[\n {"user": 1, "item": 5},\n {"user": 2, "item": 6}\n]\n',
        '{"user": {"0": 1, "1": 2}, "item": {"0": 5, "1": 6}}',
    ],
)
def test_the_call_that_converts_json_works(text, tmp_path, monkeypatch):
    path = put(tmp_path / "a.json", text)
    call = refuse(path, "", "for example with pandas.read_json(path").partition("for example with ")[2]
    monkeypatch.chdir(tmp_path)
    eval(call.partition("; ")[0], {"pandas": pandas, "path": str(path)})
    accept(tmp_path / "table.csv", "")


def test_literals_of_python_can_be_converted(tmp_path):
    path = put(tmp_path / "a.json", "{'user_id': 'u1', 'item_id': 'x'}\n{'user_id': 'u2', 'item_id': 'y'}\n")
    refuse(path, "", "read each line with ast.literal_eval")
    rows = [ast.literal_eval(line) for line in path.read_text().splitlines()]
    with (tmp_path / "table.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    accept(tmp_path / "table.csv", "")


@pytest.mark.parametrize(
    ("content", "words", "name", "unpacked"),
    [
        (gzip.compress(PAIRS.encode(), mtime=0), "rename it to .gz", "a.csv.gz", None),
        (zipped({"a.csv": PAIRS}), "rename it to .zip", "a.zip", None),
        (bz2.compress(PAIRS.encode() * 20), "unpack the file", "b.csv", PAIRS),
        (
            columnar(user=[1, 2], item=[3, 4])[:-3],
            "download it again",
            "b.parquet",
            columnar(user=[1, 2], item=[3, 4]),
        ),
    ],
)
def test_a_file_with_another_name_or_in_an_archive_is_read_afterwards(
    content, words, name, unpacked, tmp_path
):
    refuse(put(tmp_path / "a.csv", content), "", words)
    accept(put(tmp_path / name, unpacked or content), "")


def test_the_file_that_is_needed_is_unpacked(tmp_path):
    refuse(
        put(tmp_path / "a.zip", zipped({"a.csv": PAIRS, "b.csv": PAIRS})), "", "unpack the file that you need"
    )
    accept(put(tmp_path / "a.csv", PAIRS), "")


def test_options_of_text_are_removed_for_parquet(tmp_path):
    path = put(tmp_path / "a.parquet", columnar(user=["a", "b"], item=["x", "y"], x=[True, False]))
    refuse(path, "delimiter=,", "these options are for text; remove them")
    accept(path, "")
