"""``gossiprec data check``: what is understood of a file, and a section that reads it so."""

from __future__ import annotations

import json
import shlex

import pyarrow as pa
import pytest
import yaml
from click.testing import CliRunner
from mutated_files import own_file
from pyarrow import parquet
from small_data import dataset, pack

from gossiprec.base.errors import DataError
from gossiprec.cli.data import data
from gossiprec.scenario import load_scenario

ROWS = "".join(f"ann{n % 3},x{n},{n % 5},2010-10-1{n % 9}\n" for n in range(30))


def call(*arguments):
    ran = CliRunner().invoke(data, ["check", *map(str, arguments)], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return ran.output


def test_all_that_was_understood_is_told(tmp_path):
    path = pack(tmp_path / "a.csv", f"\ufeffuser,item,stars,date\n{ROWS}ann0,x0,1,-1")
    told = dict(line.split(maxsplit=1) for line in call(path).splitlines()[:12] if line[0] != " ")
    told = {key: value for key, value in told.items() if key not in ("first", "repeated")}
    assert told == {
        "file": str(path),
        "encoding": "utf-8 with a byte order mark",
        "delimiter": "a comma",
        "header": "user, item, stars, date",
        "columns": "user = user, item = item, rating = stars, time = date",
        "users": "3",
        "items": "30",
        "interactions": "31",
        "ratings": "0 to 4",
        "times": "2010-10-10 00:00:00 to 2010-10-18 00:00:00, 1 unknown",
    }
    found = json.loads(call(path, "--json"))
    assert found["repeated_pairs"] == 1
    assert found["first_rows"][1] == {
        "user": "ann1",
        "item": "x1",
        "rating": 1.0,
        "time": "2010-10-11 00:00:00",
    }
    assert found["notes"] == ["the last line has no line break; the file may be truncated"]


@pytest.mark.parametrize("number", range(0, 99))
def test_the_section_reads_what_was_checked(number, tmp_path):
    file = own_file(number)
    path = tmp_path / f"own{file.suffix}"
    path.write_bytes(file.content)
    made = dataset("file", path=path, **file.options)
    try:
        before = made.load(0)
    except DataError:
        return
    stated = [f"{key}={_written(value)}" for key, value in file.options.items()]
    options = [argument for pair in stated for argument in ("-o", pair)]
    section = json.loads(call(path, "--json", *options))["dataset"]
    assert section["split"] == {"name": "last", "test": 0.2}
    again = dataset(
        "file", **{key: value for key, value in section.items() if key not in ("name", "split")}
    ).load(0)
    for field in ("user_names", "item_names"):
        assert getattr(again, field) == getattr(before, field)
    assert (again.users.tolist(), again.items.tolist()) == (before.users.tolist(), before.items.tolist())


def _written(value):
    if isinstance(value, list):
        return f"[{','.join(value)}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{name}" for key, name in value.items()) + "}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_the_section_and_the_option_can_be_pasted(tmp_path):
    path = pack(tmp_path / "it's mine.csv", f"user,item,stars,date\n{ROWS}")
    out = call(path)
    pasted = yaml.safe_load(out.partition("Scenario section:\n")[2].partition("\nOr pass")[0])
    option = shlex.split(out.partition("Or pass it to any scenario:  ")[2])[1]
    base = {"name": "own", "model": {"name": "gmf"}, "protocol": {"name": "rand-gossip", "wakes": 2}}
    one = load_scenario({**base, **pasted})
    other = load_scenario({**base, "dataset": {"name": "synthetic"}}, [option])
    assert one.dataset.to_plain_data() == other.dataset.to_plain_data()


def test_lists_and_parquet_are_told_as_such(tmp_path):
    found = json.loads(call(pack(tmp_path / "a.txt", "bob 1 2\nann 7\n"), "-o", "form=lists", "--json"))
    assert found["columns"] == {
        "user": "the first name of a line",
        "items": "the other names, in order of time",
    }
    assert (found["dataset"]["form"], found["dataset"]["delimiter"], "times" in found) == (
        "lists",
        " ",
        False,
    )
    parquet.write_table(pa.table({"user_id": [1, 2], "asin": ["a", "b"]}), tmp_path / "a.parquet")
    found = json.loads(call(tmp_path / "a.parquet", "--json"))
    assert (found["format"], found["dataset"]["columns"]) == ("Parquet", {"user": "user_id", "item": "asin"})


def test_what_options_leave_out_is_counted(tmp_path):
    path = pack(tmp_path / "a.csv", f"user,item,stars,date\n{ROWS}bob,x0,1,-1\n")
    found = json.loads(call(path, "-o", "min_items=2", "--json"))
    assert (found["left_out_by_options"], found["interactions"], found["dataset"]["min_items"]) == (1, 30, 2)


def test_a_file_that_no_run_could_use_is_told_why(tmp_path):
    (note,) = json.loads(call(pack(tmp_path / "a.csv", "user,item\nann,x\nann,y\n"), "--json"))["notes"]
    assert note.startswith("a run with this file would fail: a: user 'ann'")
