from __future__ import annotations

import hashlib
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from small_logs import DROPS, MESSAGES, SIZES, VIEWS, WAKES, file_size_limit, part, same, write_small_log

from gossiprec.base.errors import LogError, ResourceError
from gossiprec.runs import writer
from gossiprec.runs.reader import read_log
from gossiprec.runs.schema import SCHEMA
from gossiprec.runs.writer import EventWriter

KINDS = SCHEMA.with_sizes(SIZES).kinds


@st.composite
def chunk(draw):
    """Draw a kind and columns of 0 to 6 rows with any values its types hold, infinities and NaN included."""
    kind = draw(st.sampled_from(KINDS))
    rows = draw(st.integers(0, 6))
    return kind.name, {c.name: draw(hnp.arrays(np.dtype(c.dtype), c.shape(rows))) for c in kind.columns}


def written(path, chunks):
    with EventWriter(path, sizes=SIZES) as log:
        for kind, columns in chunks:
            log.append(kind, columns)
    return log


@pytest.mark.slow
@given(chunks=st.lists(chunk(), max_size=8))
@pytest.mark.full
def test_what_was_appended_is_what_is_read(tmp_path_factory, chunks):
    path = tmp_path_factory.mktemp("log") / "events.mplog"
    digest = written(path, chunks).digest
    log = read_log(path, strict=True)

    assert log.digest == log.recorded_digest == digest
    for kind in KINDS:
        parts = [columns for name, columns in chunks if name == kind.name]
        expected = {
            c.name: np.concatenate([np.empty(c.shape(0), c.dtype), *(p[c.name] for p in parts)])
            for c in kind.columns
        }
        assert same(log.events(kind.name), expected)
        assert log.rows[kind.name] == len(expected["time"])


@pytest.mark.slow
@given(chunks=st.lists(chunk(), max_size=6), cuts=st.lists(st.integers(1, 3), min_size=1))
@pytest.mark.full
def test_the_digest_does_not_depend_on_the_chunks(tmp_path_factory, chunks, cuts):
    folder = tmp_path_factory.mktemp("log")
    pieces = []
    for number, (kind, columns) in enumerate(chunks):
        step = cuts[number % len(cuts)]
        pieces += [
            (kind, part(columns, at, at + step)) for at in range(0, max(len(columns["time"]), 1), step)
        ]

    assert written(folder / "a", chunks).digest == written(folder / "b", pieces).digest


def test_the_digest_does_not_depend_on_how_kinds_interleave(tmp_path):
    a = written(tmp_path / "a", [("wake", WAKES), ("drop", DROPS)])
    b = written(tmp_path / "b", [("drop", DROPS), ("wake", WAKES)])

    assert a.digest == b.digest


@pytest.mark.parametrize(
    "other",
    [
        [("wake", {**WAKES, "node": [0, 2, 2]})],
        [("wake", part(WAKES, 0, 2))],
        [("round", {"time": WAKES["time"], "round": WAKES["node"]})],
        [("wake", {name: values[::-1] for name, values in WAKES.items()})],
        [],
    ],
)
def test_the_digest_tells_other_contents_apart(tmp_path, other):
    assert written(tmp_path / "a", [("wake", WAKES)]).digest != written(tmp_path / "b", other).digest


def test_the_digest_is_what_the_manual_says(tmp_path):
    columns = [
        ("view", "time", "<f8", "-"),
        ("view", "node", "<i4", "-"),
        ("view", "peers", "<i4", "3"),
        ("wake", "time", "<f8", "-"),
        ("wake", "node", "<i4", "-"),
    ]
    total = hashlib.sha256()
    for kind, name, dtype, size in columns:
        values = np.asarray((VIEWS if kind == "view" else WAKES)[name], dtype)
        digest = hashlib.sha256(values.tobytes()).hexdigest()
        total.update(f"{kind} {name} {dtype} {size} {len(values)} {digest}\n".encode())

    assert written(tmp_path / "a", [("wake", WAKES), ("view", VIEWS)]).digest == total.hexdigest()


def test_a_log_is_readable_while_it_is_written(tmp_path):
    path = tmp_path / "events.mplog"
    log = EventWriter(path, sizes=SIZES)
    assert read_log(path).rows["message"] == 0
    log.append("message", part(MESSAGES, 0, 3))
    early = read_log(path)
    log.append("message", part(MESSAGES, 3, 4))
    late = read_log(path)

    assert same(early.events("message"), part(MESSAGES, 0, 3))
    assert same(late.events("message"), MESSAGES)
    assert (early.complete, early.damage) == (late.complete, late.damage) == (False, None)
    assert late.digest == log.digest
    log.close()
    assert read_log(path).complete


def test_a_log_of_a_dead_writer_is_readable_but_not_strictly(tmp_path):
    path = tmp_path / "events.mplog"
    script = (
        "import os, sys; from gossiprec.runs.writer import EventWriter\n"
        "log = EventWriter(sys.argv[1]); log.append('wake', {'time': [1.0], 'node': [4]}); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", script, str(path)], check=False).returncode == 9

    assert read_log(path).events("wake")["node"].tolist() == [4]
    with pytest.raises(LogError, match="its run did not finish"):
        read_log(path, strict=True)


def test_a_reader_obeys_the_schema_in_the_file(tmp_path):
    kind = SCHEMA["wake"]
    later = type(SCHEMA)(99, (type(kind)("wake", "of another version", (*kind.columns[:1],)),))
    with EventWriter(tmp_path / "a", schema=later) as log:
        log.append("wake", {"time": [3.0]})
    found = read_log(tmp_path / "a", strict=True)

    assert (found.schema.version, found.kinds) == (99, ("wake",))
    assert {name: values.tolist() for name, values in found.events("wake").items()} == {"time": [3.0]}


def test_the_same_events_give_the_same_bytes(tmp_path):
    first, second = write_small_log(tmp_path / "a"), write_small_log(tmp_path / "b")

    assert first.read_bytes() == second.read_bytes()


def test_events_are_copies_that_may_be_changed(tmp_path):
    log = read_log(write_small_log(tmp_path / "a"))
    log.events("view")["peers"][:] = 9

    assert same(log.events("view"), VIEWS)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"time": [1.0]}, "has columns"),
        ({"time": [1.0], "node": [1], "more": [1]}, "has columns"),
        ({"time": [1.0, 2.0], "node": [1]}, "must have shape"),
        ({"time": [[1.0]], "node": [1]}, "must have shape"),
        ({"time": [1.0], "node": [2**40]}, "cannot hold"),
    ],
)
def test_columns_that_do_not_fit_are_refused_and_leave_the_log_whole(tmp_path, columns, message):
    log = EventWriter(tmp_path / "a")
    with pytest.raises(ValueError, match=message):
        log.append("wake", columns)
    log.append("wake", WAKES)
    log.close()

    assert same(read_log(tmp_path / "a", strict=True).events("wake"), WAKES)


def test_a_view_must_have_the_width_of_the_log(tmp_path):
    with (
        EventWriter(tmp_path / "a", sizes={"view_size": 2}) as log,
        pytest.raises(ValueError, match=r"\(2, 2\)"),
    ):
        log.append("view", VIEWS)


def test_a_full_disk_is_a_resource_error_that_names_the_file():
    with pytest.raises(ResourceError, match=r"cannot write /dev/full: No space left"):
        EventWriter("/dev/full")


def test_a_folder_that_is_not_there_is_a_resource_error(tmp_path):
    with pytest.raises(ResourceError, match="No such file"):
        EventWriter(tmp_path / "none" / "events.mplog")


def test_a_disk_that_fills_up_leaves_every_whole_chunk_and_nothing_follows(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "CHUNK_ROWS", 100)
    path = tmp_path / "events.mplog"
    log = EventWriter(path)
    rows = {"time": np.arange(1000.0), "node": np.arange(1000)}
    with file_size_limit(6000), pytest.raises(ResourceError, match=rf"cannot write {path}: File too large"):
        log.append("wake", rows)
    with pytest.raises(ResourceError, match="an earlier write failed"):
        log.append("wake", rows)
    log.close()
    found = read_log(path)

    assert 100 <= found.rows["wake"] < 1000
    assert same(found.events("wake"), part(rows, 0, found.rows["wake"]))
    assert (found.complete, found.damage, log.complete) == (False, None, False)
    assert found.digest == log.digest


def test_very_many_rows_become_several_chunks(tmp_path, monkeypatch):
    whole = write_small_log(tmp_path / "a")
    monkeypatch.setattr(writer, "CHUNK_ROWS", 2)
    split = write_small_log(tmp_path / "b")

    assert split.stat().st_size > whole.stat().st_size
    assert read_log(split, strict=True).digest == read_log(whole).digest
    assert same(read_log(split).events("view"), VIEWS)
    assert same(read_log(split).events("message"), MESSAGES)


def test_a_closed_writer_takes_no_more(tmp_path):
    log = EventWriter(tmp_path / "a")
    log.close()
    log.close()
    with pytest.raises(ValueError, match="closed"):
        log.append("wake", WAKES)
    assert read_log(tmp_path / "a").complete


def test_a_log_of_schema_2_is_read_as_it_was_written(tmp_path):
    """Written before messages had a column `queued`, and before `miss` and `session`."""
    kinds = [kind for kind in SCHEMA.kinds if kind.name not in ("miss", "session")]
    place = [kind.name for kind in kinds].index("message")
    kinds[place] = type(kinds[place])("message", "", kinds[place].columns[:-1])
    older = {name: values for name, values in MESSAGES.items() if name != "queued"}
    with EventWriter(tmp_path / "a", schema=type(SCHEMA)(2, tuple(kinds)), sizes=SIZES) as log:
        log.append("message", older)

    found = read_log(tmp_path / "a", strict=True)
    assert same(found.events("message"), older)
    assert "miss" not in found.kinds
