"""Logs longer than memory, and beyond the reach of 32-bit offsets."""

import mmap
import tracemalloc

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from gossiprec.cli import log as log_command
from gossiprec.figures.node_values import contact_curve
from gossiprec.report.sections import nodes, traffic
from gossiprec.report.sources import ReportRuns
from gossiprec.runs import RunDirectory, open_run, record_format
from gossiprec.runs.reader import read_log
from gossiprec.runs.record_format import DamagedError, read_record
from gossiprec.runs.verify import verify_log

CHUNK, N_NODES, FAR = 4000, 10, 2**32 + 5


def long_run(path, n_chunks):
    directory = RunDirectory.create(path, scenario={"name": "long"}, seed=1)
    node = np.arange(CHUNK) % N_NODES
    for chunk in range(n_chunks):
        time = chunk + np.arange(CHUNK) / CHUNK
        message = {"time": time, "sender": node, "receiver": node[::-1], "sent_at": time, "queued": 0 * time}
        directory.log.append("message", {**message, "size_bytes": np.full(CHUNK, 8)})
    directory.write_summary({"nodes": N_NODES})
    directory.finish("complete")
    return path


def read_all(path):
    """Verify, plot and report a run, and return the messages that were counted."""
    assert verify_log(path).complete
    run = open_run(path)
    assert contact_curve(run).mean[-1] == pytest.approx(1 / (N_NODES - 1))
    runs = ReportRuns([run])
    assert nodes.network_section(runs) is not None
    return sum(traffic.traffic_section(runs).blocks[0].series[0].y)


def test_memory_of_verifying_plotting_and_reporting_does_not_grow_with_the_log(tmp_path):
    peaks = []
    for n_chunks in (1, 20, 60):  # the first only imports
        path = long_run(tmp_path / str(n_chunks), n_chunks)
        tracemalloc.start()
        assert read_all(path) == n_chunks * CHUNK
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < 1.1 * peaks[1]


def test_pages_given_back_are_read_again(tmp_path, monkeypatch):
    path = long_run(tmp_path / "run", 2)
    whole = read_log(path / "events.mplog").events("message")
    monkeypatch.setattr("gossiprec.runs.reader.RELEASE_BYTES", 1)
    found = read_log(path / "events.mplog").events("message")
    assert all(np.array_equal(found[name], values) for name, values in whole.items())


def test_an_exported_file_of_many_row_groups_has_all_rows(tmp_path, monkeypatch):
    path, out = long_run(tmp_path / "run", 5), tmp_path / "m.parquet"
    monkeypatch.setattr(log_command, "ROW_GROUP", 2 * CHUNK)
    CliRunner().invoke(log_command.log, ["export", str(path), "--kind", "message", "--out", str(out)])
    with pq.ParquetFile(out) as file:
        assert file.num_row_groups == 3
        assert file.read()["time"].to_numpy().tolist() == open_run(path).events("message")["time"].tolist()


@pytest.fixture
def far(tmp_path):
    """Bytes of a sparse file whose records are beyond 4 GiB, and the place of the index."""
    chunk = record_format.pack_record(record_format.CHUNK, ["wake", 1, [b"12345678", b"1234"]])
    index = record_format.pack_record(record_format.INDEX, {"chunks": [["wake", FAR, 1]]})
    with (tmp_path / "far").open("w+b") as file:
        file.seek(FAR)
        file.write(chunk + index + record_format.pack_trailer(FAR + len(chunk)))
        file.flush()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data, memoryview(data) as view:
            yield view, FAR + len(chunk)


def test_records_beyond_four_gigabytes_are_read_at_their_offsets(far):
    data, at_index = far
    chunk = read_record(data, FAR)
    assert (chunk.start, chunk.end, chunk.content(data)[0]) == (FAR, at_index, "wake")
    index = read_record(data, at_index)
    assert index.content(data) == {"chunks": [["wake", FAR, 1]]}
    assert record_format.check_trailer(data, index.end, at_index)
    trailer = data[-record_format.TRAILER_BYTES :]
    assert record_format.read_index_start(trailer, index.end) == at_index
    trailer.release()


def test_a_cut_beyond_four_gigabytes_is_named_with_its_offset(far):
    data, at_index = far
    with data[: at_index - 3] as cut, pytest.raises(DamagedError, match="truncated") as found:
        read_record(cut, FAR)
    assert found.value.offset == FAR
