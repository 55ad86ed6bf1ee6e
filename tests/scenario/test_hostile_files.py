"""Scenario files, and files that scenarios name, which would hang a reader or take its memory."""

import os
import signal
from contextlib import contextmanager

import numpy as np
import pytest
import yaml

from gossiprec.base.errors import ScenarioError
from gossiprec.emulation.assembly.data_loading import read_column, read_csv_records, read_matrix
from gossiprec.network.graphs.files import read_graph
from gossiprec.network.overlay.graph_options import _snapshots
from gossiprec.scenario import load_scenario
from gossiprec.study.spec import load_study

MINIMAL = {
    "name": "x",
    "dataset": {"name": "synthetic", "split": {"name": "published"}},
    "model": {"name": "gmf"},
    "protocol": {"name": "rand-gossip"},
}


@contextmanager
def no_longer_than(seconds):
    """Fail if the body waits or works for minutes, where it should take a blink."""

    def give_up(number, frame):
        raise AssertionError(f"still at work after {seconds} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


READERS = {
    "scenario": (load_scenario, ".yaml"),
    "study": (load_study, ".yaml"),
    "graph": (read_graph, ".edges"),
    "graph over time": (_snapshots, ".json"),
    "rates": (lambda path: read_column(str(path), "key"), ".txt"),
    "trace": (lambda path: read_csv_records(str(path), "key", [("node", "time", "online")]), ".csv"),
    "latencies": (lambda path: read_matrix(str(path), "key", 3), ".npy"),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(("kind", "called"), [("pipe", "a named pipe"), ("device", "a device")])
def test_what_is_no_file_is_refused_and_not_waited_for(reader, kind, called, tmp_path):
    read, suffix = READERS[reader]
    path = tmp_path / f"it{suffix}"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with (
        no_longer_than(60),
        pytest.raises((ScenarioError, ValueError), match=f"found {called}; expected a regular"),
    ):
        read(path)


@pytest.mark.parametrize("reader", READERS)
def test_a_file_that_is_too_large_is_refused_before_it_is_read(reader, tmp_path):
    read, suffix = READERS[reader]
    with (tmp_path / f"it{suffix}").open("wb") as file:
        file.truncate(2**31)  # takes no room on disk
    with (
        no_longer_than(60),
        pytest.raises((ScenarioError, ValueError), match=r"found 2.0 GiB or more; expected up to"),
    ):
        read(tmp_path / f"it{suffix}")


def test_a_matrix_takes_no_more_memory_than_its_file_has(tmp_path):
    path = tmp_path / "it.npy"
    with path.open("wb") as file:
        claim = {"descr": "<f8", "fortran_order": False, "shape": (2**20, 2**20)}
        np.lib.format.write_array_header_1_0(file, claim)
    with pytest.raises(ScenarioError, match="cannot read"):
        read_matrix(str(path), "key", 3)


@pytest.mark.slow
@pytest.mark.full
def test_a_merge_of_many_keys_is_read_in_linear_time(tmp_path):
    many = "".join(f"  key{number}: 1\n" for number in range(30_000))  # minutes, were it quadratic
    path = tmp_path / "x.yaml"
    path.write_text(f"shared: &shared\n{many}<<: *shared\n{yaml.safe_dump(MINIMAL)}")
    with no_longer_than(120), pytest.raises(ScenarioError, match="unknown key"):
        load_scenario(path)


def test_what_a_merge_brings_is_located_where_it_was_written(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(
        yaml.safe_dump(MINIMAL) + "training: {<<: {learning_rate: no, batch_size: 3}, batch_size: 4}\n"
    )
    with pytest.raises(ScenarioError, match=r"x.yaml:\d+: training.learning_rate: found false"):
        load_scenario(path)


def test_aliases_of_aliases_are_refused(tmp_path):
    lines = ["a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [
        f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]"
        for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    path = tmp_path / "x.yaml"
    path.write_text("\n".join(lines))
    with (
        no_longer_than(120),
        pytest.raises(ScenarioError, match=r"more than 100000 values, counting each use of an alias"),
    ):
        load_scenario(path)
