from __future__ import annotations

import csv
import json
import shlex
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from small_logs import write_small_log

from gossiprec.base.errors import LogError
from gossiprec.cli.log import log
from gossiprec.runs import reader
from gossiprec.runs.reader import read_log
from gossiprec.runs.writer import EventWriter


@pytest.fixture
def small(tmp_path):
    return write_small_log(tmp_path / "events.mplog")


def call(*arguments, code=0):
    ran = CliRunner().invoke(log, [str(a) for a in arguments], catch_exceptions=False)
    assert ran.exit_code == code, ran.output
    return ran


def rows(output):
    return [line.split("\t") for line in output.splitlines() if not line.startswith("#")]


def test_cat_prints_all_kinds_in_the_order_of_time(small, monkeypatch):
    everything = call("cat", small).stdout
    monkeypatch.setattr(reader, "BLOCK_ROWS", 2)

    assert [row[:2] for row in rows(everything)] == [
        ["wake", "0.25"],
        ["view", "0.25"],
        ["wake", "0.5"],
        ["view", "0.5"],
        ["message", "0.5"],
        ["message", "0.75"],
        ["message", "1.0"],
        ["wake", "1.5"],
        ["drop", "1.75"],
        ["message", "2.0"],
    ]
    assert "#view\ttime\tnode\tpeers_0\tpeers_1\tpeers_2\n" in everything
    assert "view\t0.5\t2\t0\t1\t-1\n" in everything
    assert "drop\t1.75\t3\t0\t1.5\treceiver_offline\n" in everything
    assert call("cat", small).stdout == everything


def test_cat_holds_a_chunk_of_each_kind_that_was_written_in_order(tmp_path, monkeypatch):
    with EventWriter(tmp_path / "events.mplog") as writer:
        for start in (0, 3, 6):
            writer.append("wake", {"time": [start, start + 1.0, start + 2.0], "node": [1, 2, 3]})
            writer.append("session", {"time": [start + 1.0], "node": [4], "online": [1]})
    expected = call("cat", tmp_path).stdout
    monkeypatch.setattr(reader.EventLog, "events", lambda *_: pytest.fail("all rows of a kind are in memory"))
    assert call("cat", tmp_path).stdout == expected
    assert [float(row[1]) for row in rows(expected)] == [0, 1, 1, 2, 3, 4, 4, 5, 6, 7, 7, 8]


def test_cat_keeps_the_logged_order_where_times_are_equal(tmp_path):
    with EventWriter(tmp_path / "events.mplog") as writer:
        writer.append("wake", {"time": [2.0, *[1.0] * 100], "node": range(101)})

    assert [int(row[2]) for row in rows(call("cat", tmp_path).stdout)] == [*range(1, 101), 0]


def test_cat_prints_one_kind_and_no_more_than_asked(small):
    assert rows(call("cat", small, "--kind", "message", "--limit", 1).stdout) == [
        ["message", "0.5", "0", "1", "0.25", "64", "0.0"]
    ]
    assert rows(call("cat", small, "--limit", 0).stdout) == []


def test_cat_takes_a_run_directory_and_an_empty_log(tmp_path):
    EventWriter(tmp_path / "events.mplog").close()

    assert rows(call("cat", tmp_path).stdout) == []


def test_cat_stops_quietly_when_its_reader_does(tmp_path):
    with EventWriter(tmp_path / "events.mplog") as writer:
        writer.append("wake", {"time": range(200_000), "node": [1] * 200_000})
    command = [sys.executable, "-c", "from gossiprec.cli.log import log; log()", "cat", str(tmp_path)]
    ran = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{shlex.join(command)} | head -n 20"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert ran.stderr == ""
    assert rows(ran.stdout)[-1][0] == "wake"


def test_cat_of_a_damaged_log_prints_what_is_readable_and_says_so(small):
    small.write_bytes(small.read_bytes()[:-1])
    ran = call("cat", small)

    assert len(rows(ran.stdout)) == 10
    assert "truncated" in ran.stderr


def test_stats_say_what_is_in_the_log(small):
    facts = json.loads(call("stats", small, "--json").stdout)
    plain = call("stats", small).stdout

    assert facts["rows"]["message"] == 4
    assert facts["times"]["message"] == [0.5, 2.0]
    assert facts["times"]["update"] is None
    assert (facts["complete"], facts["damage"]) == (True, None)
    assert facts["size_bytes"] == small.stat().st_size
    assert facts["digest"] == read_log(small).digest
    assert f"digest:     {facts['digest']}\n" in plain
    assert "message                4  0.5 to 2\n" in plain


def test_verify_leaves_with_0_for_an_intact_log(small):
    assert "complete and intact" in call("verify", small).stdout


def test_verify_leaves_with_2_for_a_damaged_log_and_says_what_remains(small):
    content = small.read_bytes()
    small.write_bytes(content[:-30])
    ran = call("verify", small, code=2)
    facts = json.loads(call("verify", small, "--json", code=2).stdout)

    assert f"damage at byte {facts['damage']['offset']}: truncated" in ran.stdout
    assert "readable:          4 message rows, up to time 2.0" in ran.stdout
    assert facts["rows"]["message"] == 4
    assert 0 < facts["damage"]["offset"] < len(content) - 30


def test_verify_leaves_with_2_for_a_log_without_an_index(tmp_path):
    EventWriter(tmp_path / "events.mplog")

    assert "without an index" in call("verify", tmp_path, code=2).stdout


def test_export_writes_a_kind_as_it_was_logged(small, tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "BLOCK_ROWS", 3)
    out = tmp_path / "m.csv"
    call("export", small, "--kind", "message", "--out", out)
    with out.open() as file:
        found = list(csv.DictReader(file))

    assert [float(row["time"]) for row in found] == [0.5, 0.75, 1.0, 2.0]
    assert [row["receiver"] for row in found] == ["1", "2", "0", "3"]


def test_export_overwrites_only_when_told(small, tmp_path):
    out = tmp_path / "m.csv"
    out.write_text("mine")
    with pytest.raises(LogError, match=r"exists; .*--overwrite"):
        call("export", small, "--kind", "wake", "--out", out)
    assert out.read_text() == "mine"
    call("export", small, "--kind", "wake", "--out", out, "--overwrite")
    assert out.read_text().splitlines()[0] == "time,node"


def test_export_of_an_unknown_kind_writes_nothing(small, tmp_path):
    with pytest.raises(LogError, match="did you mean 'wake'"):
        call("export", small, "--kind", "wakes", "--out", tmp_path / "m.csv")

    assert not (tmp_path / "m.csv").exists()
    assert len(list(tmp_path.iterdir())) == 1


def test_the_command_is_cheap_to_import():
    script = (
        "import sys, gossiprec.cli.log; print([m for m in ('numpy', 'msgpack', 'yaml') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert ran.stdout.strip() == "[]"


def test_events_are_exported_to_parquet_by_suffix(small, tmp_path):
    out = tmp_path / "m.parquet"
    call("export", small, "--kind", "message", "--out", out)
    table = pq.read_table(out)
    events = read_log(small).events("message")
    assert {name: table[name].to_pylist() for name in table.column_names} == {
        name: values.tolist() for name, values in events.items()
    }


@pytest.mark.parametrize("name", ["m.json", "m", "m.csv.gz"])
def test_no_table_is_written_under_another_name(name, small, tmp_path):
    with pytest.raises(LogError, match=r"expected \.csv or \.parquet"):
        call("export", small, "--kind", "message", "--out", tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["events.mplog"]
