from __future__ import annotations

import random
import zlib

import pytest
from small_logs import MESSAGES, part, same, write_small_log

from gossiprec.base.errors import LogError
from gossiprec.runs import record_format
from gossiprec.runs.reader import read_log
from gossiprec.runs.run import open_run
from gossiprec.runs.run_directory import RunDirectory
from gossiprec.runs.verify import verify_log


@pytest.fixture
def small(tmp_path):
    return write_small_log(tmp_path / "events.mplog")


def record_starts(content):
    """Return the first byte of every record, and of the trailer."""
    starts, data = [len(record_format.MAGIC)], memoryview(content)
    while data[starts[-1] : starts[-1] + 8] != b"GRLOGEND":
        starts.append(record_format.read_record(data, starts[-1]).end)
    return starts


def test_an_intact_log_verifies(small):
    found = verify_log(small)

    assert (found.complete, found.damage) == (True, None)
    assert found.rows == {
        "wake": 3,
        "view": 2,
        "message": 4,
        "drop": 1,
        "update": 0,
        "miss": 0,
        "session": 0,
        "round": 0,
        "evaluate": 0,
        "stop": 0,
        "change": 0,
        "privacy": 0,
    }
    assert found.last_times == {"wake": 1.5, "view": 0.5, "message": 2.0, "drop": 1.75}
    assert str(found) == f"{small}: complete and intact"


@pytest.mark.slow
@pytest.mark.full
def test_a_flipped_bit_in_any_byte_is_found_in_its_record(small):
    content, draw = small.read_bytes(), random.Random(5)
    starts = record_starts(content)
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << draw.randrange(8)
        small.write_bytes(damaged)
        found = verify_log(small)
        assert not found.complete, place
        assert found.damage is not None, place
        assert found.damage.offset == max((s for s in starts if s <= place), default=0), place
        with pytest.raises(LogError):
            read_log(small, strict=True)


@pytest.mark.slow
@pytest.mark.full
def test_every_cut_is_found_and_all_before_it_is_readable(small):
    content = small.read_bytes()
    starts = record_starts(content)
    for length in range(len(content)):
        small.write_bytes(content[:length])
        found = verify_log(small)
        assert not found.complete, length
        assert (found.damage is None) == (length in starts[1:]), length
        if length >= starts[1]:
            message_ends = [starts[3], starts[5]]
            rows = sum(n for n, end in zip((3, 1), message_ends, strict=True) if end <= length)
            assert same(read_log(small).events("message"), part(MESSAGES, 0, rows)), length


def test_before_the_damage_everything_is_readable_and_after_it_nothing(small):
    content = bytearray(small.read_bytes())
    second_messages = record_starts(content)[4]
    content[second_messages + 20] ^= 1
    small.write_bytes(content)
    log = read_log(small)

    assert same(log.events("message"), part(MESSAGES, 0, 3))
    assert (log.rows["view"], log.rows["drop"]) == (2, 0)
    assert str(log.damage).startswith(f"damage at byte {second_messages}: the CRC")
    with pytest.raises(LogError, match=f"not complete: damage at byte {second_messages}"):
        read_log(small, strict=True)


def test_bytes_after_the_trailer_are_damage(small):
    length = small.stat().st_size
    small.write_bytes(small.read_bytes() + b"x")

    assert verify_log(small).damage.offset == length


def test_a_chunk_cut_out_cleanly_is_missed_by_the_index(small):
    content = small.read_bytes()
    starts = record_starts(content)
    small.write_bytes(content[: starts[5]] + content[starts[6] :])

    assert "does not list" in verify_log(small).damage.reason


def test_a_chunk_changed_with_a_new_crc_is_missed_by_the_digest(small):
    content = bytearray(small.read_bytes())
    start, end = record_starts(content)[1:3]
    content[end - 5] ^= 1
    content[end - 4 : end] = zlib.crc32(content[start : end - 4]).to_bytes(4, "little")
    small.write_bytes(content)

    assert read_log(small).complete
    assert not verify_log(small).complete
    assert "digest" in verify_log(small).damage.reason


@pytest.mark.parametrize(
    "content", [["wake", 2, [b"", b""]], ["nap", 0, []], ["wake", -1, []], 7, [[], 1, []], ["wake", 1, None]]
)
def test_a_record_that_is_no_chunk_is_damage(small, content):
    whole = small.read_bytes()
    start = record_starts(whole)[1]
    small.write_bytes(whole[:start] + record_format.pack_record(record_format.CHUNK, content))

    assert read_log(small).damage.offset == start


@pytest.mark.parametrize(
    "content", [None, [], {"kinds": []}, {"format": 1, "writer": "", "schema": 1, "kinds": 3}]
)
def test_a_header_that_describes_nothing_is_damage(small, content):
    small.write_bytes(record_format.MAGIC + record_format.pack_record(record_format.HEADER, content))

    assert verify_log(small).damage.offset == len(record_format.MAGIC)
    with pytest.raises(LogError, match="the header does not describe"):
        read_log(small)


def test_a_header_with_python_objects_is_refused(small):
    column = {"name": "time", "dtype": "|O", "meaning": "", "size": None, "codes": []}
    kinds = [{"name": "wake", "meaning": "", "columns": [column]}]
    header = {"format": 1, "writer": "", "schema": 1, "kinds": kinds}
    small.write_bytes(record_format.MAGIC + record_format.pack_record(record_format.HEADER, header))

    with pytest.raises(LogError, match="not a fixed little-endian number type"):
        read_log(small)


def test_a_later_format_is_refused_by_name(small):
    header = {"format": 2, "writer": "gossiprec 9.0"}
    small.write_bytes(record_format.MAGIC + record_format.pack_record(record_format.HEADER, header))

    with pytest.raises(LogError, match=r"has format 2.*gossiprec 9\.0"):
        read_log(small)


def test_what_is_not_a_log_is_refused(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "text").write_text("time,node\n")
    for name in ("empty", "text"):
        with pytest.raises(LogError, match="does not start with the magic bytes of an event log"):
            read_log(tmp_path / name)
    with pytest.raises(LogError, match=r"none: No such file.*pass a run directory"):
        read_log(tmp_path / "none")
    with pytest.raises(LogError, match="Is a directory"):
        read_log(tmp_path)


def test_whole_chunks_beyond_the_damage_are_counted_and_the_lost_named(small):
    content = bytearray(small.read_bytes())
    content[record_starts(content)[2] + 20] ^= 1  # the first messages
    small.write_bytes(content)
    found = verify_log(small)

    assert found.rows["message"] == 0
    assert found.rows_after == {**dict.fromkeys(found.rows, 0), "message": 1, "view": 2, "drop": 1}
    assert found.rows_lost == {**dict.fromkeys(found.rows, 0), "message": 3}


def test_chunks_swapped_or_written_twice_are_found_by_the_index(small):
    content = small.read_bytes()
    starts = record_starts(content)
    first, second = content[starts[2] : starts[3]], content[starts[3] : starts[4]]
    for changed in (
        content[: starts[2]] + second + first + content[starts[4] :],
        content[: starts[3]] + first + content[starts[3] :],
    ):
        small.write_bytes(changed)
        assert "does not list" in verify_log(small).damage.reason


def test_rows_beyond_the_index_are_unknown_where_it_is_damaged(small):
    content = bytearray(small.read_bytes())
    starts = record_starts(content)
    content[starts[2] + 20] ^= 1
    content[-30] ^= 1  # the index
    small.write_bytes(content)

    assert verify_log(small).rows_lost is None


@pytest.fixture
def run(tmp_path):
    directory = RunDirectory.create(
        tmp_path / "run", scenario={"name": "tiny"}, seed=1, sizes={"view_size": 3}
    )
    directory.log.append("wake", {"time": [1.0, 2.0], "node": [0, 1]})
    directory.finish("complete")
    return directory.path


def test_a_run_whose_log_is_what_its_manifest_says_is_intact(run):
    assert verify_log(run).complete


def test_a_log_put_in_place_of_a_runs_own_is_found(run, small):
    (run / "events.mplog").write_bytes(small.read_bytes())
    found = verify_log(run)

    assert verify_log(run / "events.mplog").complete
    assert not found.complete
    assert "manifest.json records" in str(found)


def test_a_complete_run_whose_log_was_cut_between_records_is_found(run):
    log = run / "events.mplog"
    content = log.read_bytes()
    log.write_bytes(content[: record_starts(content)[2]])
    manifest = run / "manifest.json"
    assert verify_log(run).damage is None
    assert "without an index, but" in str(verify_log(run))
    manifest.write_text("{}")
    assert "is not a manifest" in str(verify_log(run))
    manifest.unlink()
    assert "intact so far, but ends at byte" in str(verify_log(run))


def test_a_log_that_is_being_written_is_not_called_ended(tmp_path):
    directory = RunDirectory.create(tmp_path / "run", scenario={"name": "tiny"}, seed=1)
    assert verify_log(directory.path).is_growing
    assert "is being written at byte" in str(verify_log(directory.path))
    assert open_run(directory.path).status == "running"
    directory.finish("failed")
    assert not verify_log(directory.path).is_growing
