"""Files that a run reads: noted with a digest, whatever opens them."""

from __future__ import annotations

import gzip
import hashlib
import zipfile

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gossiprec.base.errors import DataError
from gossiprec.base.inputs import (
    changed_files,
    changed_inputs,
    note_inputs,
    open_input,
    read_input,
    record_inputs,
)
from gossiprec.data.parquet import is_parquet
from gossiprec.data.sources import FileSource
from gossiprec.emulation.assembly.data_loading import read_column, read_matrix
from gossiprec.network.graphs.files import read_graph, write_graph


def text(path):
    path.write_text("1.5\n2\n")
    return path


def packed(path):
    path.write_bytes(gzip.compress(b"1\n"))
    return path


def archive(path):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a.txt", "1\n")
    return path


def matrix(path):
    np.save(path, np.ones((2, 2)))
    return path


def table(path):
    pq.write_table(pa.table({"user": [1]}), path)
    return path


def graph(path):
    write_graph(nx.path_graph(3), path)
    return path


READERS = {
    "open_input": (lambda folder: text(folder / "a"), lambda path: open_input(path).close()),
    "read_input": (lambda folder: text(folder / "a"), read_input),
    "column": (lambda folder: text(folder / "a.txt"), lambda path: read_column(str(path), "key")),
    "matrix": (lambda folder: matrix(folder / "a.npy"), lambda path: read_matrix(str(path), "key", 2)),
    "gzip": (lambda folder: packed(folder / "a.gz"), lambda path: FileSource(path).sha256()),
    "zip": (lambda folder: archive(folder / "a.zip"), lambda path: FileSource(path, "a.txt").sha256()),
    "parquet": (lambda folder: table(folder / "a.parquet"), is_parquet),
    "graph": (lambda folder: graph(folder / "a.edges"), read_graph),
}


@pytest.mark.parametrize("name", READERS)
def test_every_reader_notes_its_file(tmp_path, name):
    make, read = READERS[name]
    path = make(tmp_path)
    with record_inputs() as inputs:
        read(path)
    content = path.read_bytes()
    assert inputs == {str(path): {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}}


def test_nothing_is_noted_outside_of_a_run_and_all_records_are_told(tmp_path):
    path = text(tmp_path / "a")
    read_input(path)
    with record_inputs() as outer, record_inputs() as inner:
        read_input(path)
        note_inputs({"b": {"bytes": 1, "sha256": "0"}})
    assert outer == inner
    assert set(outer) == {str(path), "b"}


def test_what_is_no_file_is_an_error_of_the_caller(tmp_path):
    with record_inputs() as inputs, pytest.raises(DataError, match="found a folder"):
        read_input(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_input(tmp_path / "none")
    assert inputs == {}


def test_moved_files_are_no_change_and_others_are_named():
    one, other = {"bytes": 1, "sha256": "a"}, {"bytes": 1, "sha256": "b"}
    assert changed_inputs({"x": one}, {"y": one}) == []
    assert changed_inputs({"x": one}, {"x": other}) == ["x has changed"]
    assert changed_inputs({"x": one, "y": other}, {"x": other, "y": one}) == []
    assert changed_inputs({"x": one}, {}) == ["x is no longer read"]
    assert changed_inputs({}, {"x": one}) == ["x was not read before"]


def test_changed_files_are_found_and_missing_ones_contradict_nothing(tmp_path):
    path, gone = text(tmp_path / "a"), text(tmp_path / "b")
    with record_inputs() as inputs:
        read_input(path)
        read_input(gone)
    gone.unlink()
    assert changed_files(inputs) == []
    path.write_text("1.5\n3\n")
    assert changed_files(inputs) == [str(path)]
