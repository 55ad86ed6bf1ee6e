"""Checkpoint files: what comes back, and that nothing damaged does."""

from __future__ import annotations

import io
import os
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gossiprec.base.errors import LogError, ResourceError
from gossiprec.runs.checkpoint_format import GRAIN, CheckpointStamp
from gossiprec.runs.checkpoint_state import PartialArray
from gossiprec.runs.checkpoints import CheckpointFolder, read_checkpoint, read_stamp, write_checkpoint

STAMP = CheckpointStamp("c0de", "5ce7a210", 3, 30.5, 1000, "d16e57", {"metrics.csv": [10, 12345]})
STATE = {
    "rows": np.arange(24, dtype=np.float32).reshape(4, 6),
    "flags": np.array([True, False]),
    "nothing": None,
    "parts": [{"half": np.array([1.5, -2], np.float16)}, {"half": np.zeros((0, 3), np.float16)}],
    "best": {"aac": 0.1 + 0.2, "round": 7, "nan": float("nan")},
}


def written(path, state, stamp=STAMP):
    with path.open("wb", buffering=0) as file:
        write_checkpoint(file, stamp, state)
    return path


def read(path):
    return read_checkpoint(path, limit_bytes=2**30)


def same(one, other):
    """Return whether two states are alike, bit for bit."""
    if isinstance(one, np.ndarray):
        return (
            isinstance(other, np.ndarray)
            and (one.dtype, one.shape) == (other.dtype, other.shape)
            and one.tobytes() == other.tobytes()
        )
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    return type(one) is type(other) and repr(one) == repr(other)


DTYPES = st.sampled_from(["<f4", "<f8", "<f2", "<i4", "<i8", "|b1", "|u1"])
ARRAYS = DTYPES.flatmap(lambda kind: hnp.arrays(kind, hnp.array_shapes(min_dims=1, max_dims=3, min_side=0)))
PLAIN = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(max_size=5)
TREES = st.recursive(
    ARRAYS | PLAIN, lambda some: st.lists(some, max_size=3) | st.dictionaries(st.text(), some)
)


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=5), TREES, max_size=4))
@pytest.mark.full
def test_what_was_written_comes_back(tmp_path_factory, state):
    path = written(tmp_path_factory.mktemp("checkpoints") / "a.ckpt", state)

    stamp, found = read(path)

    assert stamp == read_stamp(path) == STAMP
    assert same(found, state)


def test_arrays_that_come_back_can_be_written_to(tmp_path):
    found = read(written(tmp_path / "a.ckpt", STATE))[1]
    found["rows"][0, 0] = 5.0

    assert found["rows"][0, 0] == 5.0


def test_any_flipped_bit_is_found(tmp_path):
    path = written(tmp_path / "a.ckpt", STATE)
    content, draw = path.read_bytes(), random.Random(3)
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(LogError):
            read(path)


def test_any_cut_and_any_byte_more_is_found(tmp_path):
    path = written(tmp_path / "a.ckpt", STATE)
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(LogError):
            read(path)
    path.write_bytes(content + b"x")
    with pytest.raises(LogError, match="trailer"):
        read(path)


def test_pages_of_zeros_take_no_room(tmp_path):
    large = np.zeros(2**22, np.float32)
    large[[5, 3_000_000, 2**22 - 1]] = [1.0, 2.0, 3.0]
    path = written(tmp_path / "a.ckpt", {"large": large})

    assert path.stat().st_size < 4 * GRAIN
    assert same(read(path)[1], {"large": large})


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 30)), max_size=8))
def test_of_live_arrays_only_the_live_stretches_come_back(tmp_path_factory, drawn):
    ends, last = [], 0
    for start, length in sorted(drawn):
        low = max(start, last)
        last = min(low + length, 100)
        ends.append([min(low, 100), last])
    array, extents = (
        np.arange(1, 101, dtype=np.int32).reshape(10, 10),
        np.array(ends, np.int64).reshape(-1, 2),
    )
    state = {"memory": PartialArray(array, lambda: extents)}

    found = read(written(tmp_path_factory.mktemp("checkpoints") / "a.ckpt", state))[1]["memory"].ravel()

    live = np.zeros(100, bool)
    for low, high in ends:
        live[low:high] = True
    assert found.tolist() == np.where(live, array.ravel(), 0).tolist()


@pytest.mark.parametrize(
    "value", [{1, 2}, object(), np.array(["a"]), np.array([object()]), 1j, np.array([1], ">i4")]
)
def test_what_is_neither_plain_nor_numbers_is_refused(value):
    with pytest.raises(TypeError):
        write_checkpoint(io.BytesIO(), STAMP, {"value": value})


def test_arrays_beyond_the_memory_are_refused_before_they_are_made(tmp_path):
    path = written(tmp_path / "a.ckpt", {"large": np.zeros(2**20)})

    with pytest.raises(ResourceError, match="holds 8 MiB, but 1 MiB of memory are available"):
        read_checkpoint(path, limit_bytes=2**20)


def test_what_is_no_checkpoint_is_refused(tmp_path):
    (tmp_path / "text").write_text("time,node\n")
    for name, reason in (
        ("text", "does not start with the magic bytes of a checkpoint"),
        ("none", "No such file"),
    ):
        with pytest.raises(LogError, match=reason):
            read(tmp_path / name)


def test_a_folder_keeps_the_last_and_drops_what_was_never_finished(tmp_path):
    folder = CheckpointFolder(tmp_path)
    for tick in (9, 10, 11):
        folder.write(CheckpointStamp("", "", tick, 0.0, 0, ""), {}, keep=2, wanted=lambda: True)
    folder.write(CheckpointStamp("", "", 12, 0.0, 0, ""), {}, keep=2, wanted=lambda: False)
    (folder.path / ".00000012.ckpt.77.writing").write_bytes(b"half")
    (folder.path / "notes.txt").write_text("mine")

    assert [path.name for path in folder.newest_first()] == ["00000011.ckpt", "00000010.ckpt"]
    folder.drop_after(10)
    assert sorted(path.name for path in folder.path.iterdir()) == ["00000010.ckpt", "notes.txt"]
    folder.clear()
    assert [path.name for path in folder.path.iterdir()] == ["notes.txt"]


def test_without_room_nothing_is_written_and_the_reason_has_figures(tmp_path, monkeypatch):
    folder = CheckpointFolder(tmp_path)
    full = os.statvfs_result((4096, 4096, 1000, 0, 0, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "fstatvfs", lambda descriptor: full)
    with pytest.raises(OSError, match="it needs 0 MiB, but only 0 MiB of the disk are free"):
        folder.write(STAMP, STATE, keep=2, wanted=lambda: True)
    assert list(folder.path.iterdir()) == []


def test_a_checkpoint_that_does_not_fit_leaves_nothing(tmp_path):
    folder = CheckpointFolder(tmp_path)
    with pytest.raises(TypeError):
        folder.write(STAMP, {"no": object()}, keep=2, wanted=lambda: True)

    assert list(folder.path.iterdir()) == []
