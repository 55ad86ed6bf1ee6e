"""Only regular files are read, and only up to a size: nothing hangs, and nothing fills the memory."""

from __future__ import annotations

import os
import re
import socket

import pytest

from gossiprec.base.errors import DataError, ScenarioError
from gossiprec.base.inputs import format_bytes, open_regular_file, read_regular_file
from gossiprec.emulation import prepare
from gossiprec.scenario import load_scenario
from tests.emulation.tiny_runs import tiny


def test_a_file_and_a_link_to_one_are_read(tmp_path):
    file, link = tmp_path / "a", tmp_path / "link"
    file.write_bytes(b"abc")
    link.symlink_to(file)
    assert read_regular_file(file, most_bytes=3) == b"abc"
    with open_regular_file(link) as stream:
        assert stream.read() == b"abc"


def test_a_pipe_is_refused_without_a_wait(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ScenarioError, match="pipe: found a named pipe; expected a regular file; pass one"):
        open_regular_file(tmp_path / "pipe", error=ScenarioError)


def test_folders_devices_and_sockets_are_refused_by_name(tmp_path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        for path, kind in ((tmp_path, "a folder"), ("/dev/zero", "a device"), (tmp_path / "s", "a socket")):
            with pytest.raises(DataError, match=f"found {kind}; expected a regular file"):
                open_regular_file(path)


def test_a_file_above_the_bound_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(3 << 40)
    with pytest.raises(DataError, match=r"found 3\.0 TiB or more; expected up to 1\.0 MiB; check"):
        read_regular_file(path, most_bytes=1 << 20)


def test_a_file_of_the_system_that_claims_to_be_empty_is_bounded_as_well():
    with pytest.raises(DataError, match="expected up to 16 bytes"):
        read_regular_file("/proc/self/maps", most_bytes=16)


def test_a_missing_file_is_left_to_the_caller(tmp_path):
    with pytest.raises(FileNotFoundError):
        open_regular_file(tmp_path / "none")


@pytest.mark.parametrize(("count", "text"), [(0, "0 bytes"), (1536, "1.5 KiB"), (20 << 20, "20 MiB")])
def test_sizes_are_written_with_a_unit(count, text):
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("key", "sections"),
    [
        ("network.latency.path", lambda path: {"network": {"latency": {"law": "pairs", "path": f"{path}.npy"}}}),
        ("network.latency.path", lambda path: {"network": {"latency": {"law": "trace", "path": f"{path}.csv"}}}),
        ("churn.sessions.0.trace", lambda path: {"churn": {"sessions": {"trace": f"{path}.csv"}}}),
        ("protocol.view.contacts", lambda path: {"contacts": f"{path}.csv", "unit": "wakes"}),
        ("protocol.view.graph", lambda path: {"graph": {"file": f"{path}.edges"}}),
        ("protocol.view.graph.sequence", lambda path: {"graph": {"sequence": f"{path}.json"}}),
    ],
)  # fmt: skip
def test_a_missing_file_of_any_kind_is_looked_for_in_the_folder_unless_its_path_is_absolute(
    tmp_path, monkeypatch, key, sections
):
    monkeypatch.chdir(tmp_path)

    def found(path):
        given = sections(path)
        if key.startswith("protocol"):
            given = {"protocol": {"name": "rand-gossip", "fanout": 3, "view": given, "wakes": 6}}
        with pytest.raises(ScenarioError) as caught:
            prepare(load_scenario(tiny(**given)))
        return str(caught.value)

    assert re.match(
        rf"{key}: near\.\w+: no such [\w ]+ in {tmp_path}, where this command runs; ", found("near")
    )
    far = found(f"{tmp_path}/far")
    assert re.match(rf"{key}: {tmp_path}/far\.\w+: no such [\w ]+ at this absolute path; expected ", far)
    assert far.endswith("; correct the path")
