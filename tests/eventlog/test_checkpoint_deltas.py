"""Checkpoints that hold only what has changed: they come back whole, or not at all."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_checkpoints import read, same

from gossiprec.base.errors import LogError
from gossiprec.runs import checkpoints
from gossiprec.runs.checkpoint_format import all_covered
from gossiprec.runs.checkpoint_state import PartialArray, RowWriteTimes, rows_to_extents
from gossiprec.runs.checkpoints import CheckpointFolder, CheckpointStamp, base_tick

WIDTH, N_ROWS = 5, 8


@pytest.fixture(autouse=True)
def _of_any_size(monkeypatch):
    monkeypatch.setattr(checkpoints, "MIN_DELTA_BYTES", 0)
    monkeypatch.setattr(checkpoints, "MAX_DELTA_FRACTION", 0.99)


class Rows:
    """An array that grows, some of whose rows matter, written row by row."""

    def __init__(self, seed=0):
        self.draw = np.random.default_rng(seed)
        self.array = self.draw.random((N_ROWS, WIDTH)).astype(np.float32)
        self.written = RowWriteTimes(N_ROWS)
        self.needed = np.arange(N_ROWS)
        self.tick = 0

    def write(self, rows):
        self.array[rows] = self.draw.random((len(rows), WIDTH))
        self.written.note_written(np.array(rows, np.int64))

    def grow(self, n_more):
        """Add rows that matter from now on."""
        old = len(self.array)
        self.array = np.concatenate([self.array, np.zeros((n_more, WIDTH), np.float32)])
        self.written.grow(len(self.array))
        self.write(list(range(old, old + n_more)))
        self.needed = np.append(self.needed, np.arange(old, old + n_more))

    def state(self):
        """Return the state at the next report, and what of it must come back."""
        self.tick += 1
        self.written.date_noted_rows(float(self.tick))
        needed, written = self.needed.copy(), self.written
        live = PartialArray(
            self.array.copy(),
            lambda: rows_to_extents(needed, WIDTH),
            lambda time: rows_to_extents(np.intersect1d(needed, written.rows_written_after(time)), WIDTH),
        )
        kept = np.where(np.isin(np.arange(len(self.array)), needed)[:, None], self.array, np.float32(0))
        plain = np.arange(self.tick)
        return {"rows": live, "plain": plain}, {"rows": kept, "plain": plain}

    def save(self, folder, **options):
        """Write a checkpoint after the one before; return what must come back of it."""
        state, kept = self.state()
        stamp = CheckpointStamp("", "", self.tick, float(self.tick), 0, "")
        options = {"keep": 2, "wanted": lambda: True, "after": self.tick - 1 or None, **options}
        folder.write(stamp, state, **options)
        return kept


def ticks(folder):
    return [int(path.stem) for path in folder.newest_first()]


def newest(folder):
    return folder.newest_first()[0]


STEPS = st.lists(
    st.tuples(st.lists(st.integers(0, N_ROWS - 1), max_size=4), st.integers(0, 2), st.booleans()), max_size=12
)


@pytest.mark.slow
@given(STEPS)
@pytest.mark.full
def test_whatever_was_written_in_between_all_comes_back(tmp_path_factory, steps):
    rows, folder = Rows(), CheckpointFolder(tmp_path_factory.mktemp("run"))
    assert same(dict(read_newest(folder, rows)), rows.kept)
    for written, n_more, fewer in steps:
        rows.write(written)
        if n_more:
            rows.grow(n_more)
        if fewer:
            rows.needed = rows.needed[1:]
        assert same(dict(read_newest(folder, rows)), rows.kept)
        assert sum(base_tick(path) is None for path in folder.newest_first()) <= 2


@pytest.mark.parametrize("left", [1, 6])
def test_an_array_that_has_become_shorter_comes_back(left, tmp_path):
    rows, folder = Rows(), CheckpointFolder(tmp_path)
    rows.save(folder)
    rows.array, rows.needed = rows.array[:left].copy(), np.arange(left)
    rows.written = RowWriteTimes(left)
    rows.write([0])
    kept = rows.save(folder)
    assert base_tick(newest(folder)) == (1 if left > 1 else None)
    assert same(read(newest(folder))[1], kept)


def read_newest(folder, rows):
    rows.kept = rows.save(folder)
    return read(newest(folder))[1]


def test_a_delta_holds_what_has_changed_and_no_more(tmp_path):
    rows, folder = Rows(), CheckpointFolder(tmp_path)
    rows.save(folder)
    rows.write([3])
    rows.save(folder)

    base, delta = sorted(folder.path.iterdir())
    assert (base_tick(base), base_tick(delta)) == (None, 1)
    assert base.stat().st_size - delta.stat().st_size > (N_ROWS - 2) * WIDTH * 4 - 100
    assert rows.array[3].tobytes() in delta.read_bytes()
    assert rows.array[4].tobytes() not in delta.read_bytes()


def bases(folder, rows, n, change):
    """Return which of n checkpoints are bases."""
    found = []
    for _ in range(n):
        rows.save(folder)
        found.append(base_tick(newest(folder)) is None)
        change(rows)
    return found


def test_after_some_deltas_comes_a_base(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "MAX_DELTAS", 2)
    found = bases(CheckpointFolder(tmp_path), Rows(), 7, lambda rows: rows.write([1]))
    assert found == [True, False, False, True, False, False, True]


@pytest.mark.parametrize(("name", "value"), [("MAX_DELTA_FRACTION", 0.1), ("MIN_DELTA_BYTES", 2**20)])
def test_where_a_delta_saves_little_a_base_is_written(name, value, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, name, value)
    assert all(bases(CheckpointFolder(tmp_path), Rows(), 3, lambda rows: rows.write([1, 2])))


def test_what_the_kept_ones_rest_on_is_kept_and_the_base_before(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "MAX_DELTAS", 3)
    rows, folder, seen = Rows(), CheckpointFolder(tmp_path), []
    for _ in range(10):
        rows.save(folder)
        rows.write([1])
        seen.append(ticks(folder))

    assert seen[3] == [4, 3, 2, 1]
    assert seen[4] == [5, 4, 3, 2, 1]  # 5 is a base, 4 rests on 1
    assert seen[5] == [6, 5, 1]
    assert seen[7] == [8, 7, 6, 5, 1]
    assert seen[9] == [10, 9, 5]


def test_one_alone_is_kept_with_what_it_rests_on(tmp_path):
    rows, folder = Rows(), CheckpointFolder(tmp_path)
    for _ in range(3):
        rows.save(folder, keep=1)
        rows.write([1])
    assert ticks(folder) == [3, 2, 1]


def three(tmp_path):
    """Return a folder with a base and two deltas, and what must come back of each."""
    rows, folder, kept = Rows(), CheckpointFolder(tmp_path), []
    for _ in range(3):
        kept.append(rows.save(folder))
        rows.write([1])
    assert [base_tick(path) for path in folder.newest_first()] == [2, 1, None]
    return folder.newest_first(), kept


def outcome_of(path):
    """Return the state in a checkpoint, or why it cannot be used."""
    try:
        return read(path)[1]
    except LogError as error:
        return str(error)


@pytest.mark.parametrize("which", [0, 1, 2], ids=["the delta", "the delta below", "the base"])
def test_a_flipped_bit_below_is_found_and_older_ones_are_still_whole(which, tmp_path):
    paths, kept = three(tmp_path)
    content, draw = paths[which].read_bytes(), random.Random(3)
    for place in draw.sample(range(len(content)), 60):
        damaged = bytearray(content)
        damaged[place] ^= 1 << draw.randrange(8)
        paths[which].write_bytes(damaged)
        found = outcome_of(paths[0])
        # of a file below plain arrays are not read
        assert paths[which].name in found if isinstance(found, str) else which and same(found, kept[2])
    for older in range(which + 1, 3):
        assert same(read(paths[older])[1], kept[2 - older])


def test_a_base_that_is_gone_is_named(tmp_path):
    paths, _ = three(tmp_path)
    paths[2].unlink()
    with pytest.raises(
        LogError, match=r"3\.ckpt depends on a checkpoint that cannot be used.*00000001\.ckpt: No such"
    ):
        read(paths[0])


def test_another_file_in_the_place_of_a_base_is_refused(tmp_path):
    paths, _ = three(tmp_path)
    other, folder = Rows(seed=1), CheckpointFolder(tmp_path / "other")
    folder.path.parent.mkdir()
    other.save(folder)
    newest(folder).replace(paths[2])
    with pytest.raises(LogError, match=r"is not the checkpoint that .*2\.ckpt is based on"):
        read(paths[0])


def test_a_delta_that_lacks_what_matters_is_refused(tmp_path):
    rows, folder = Rows(), CheckpointFolder(tmp_path)
    rows.needed = np.arange(4)
    rows.save(folder)
    rows.needed = np.arange(5)  # matters now, but nobody noted that it was written
    rows.save(folder)
    with pytest.raises(LogError, match="lacks required segments of an array"):
        read(newest(folder))


def test_after_a_last_one_that_cannot_be_read_comes_a_base(tmp_path):
    rows, folder = Rows(), CheckpointFolder(tmp_path)
    rows.save(folder)
    newest(folder).write_bytes(b"damaged")
    kept = rows.save(folder)
    assert base_tick(newest(folder)) is None
    assert same(read(newest(folder))[1], kept)


def test_without_room_nothing_is_written_and_the_reason_has_figures(tmp_path, monkeypatch):
    folder = CheckpointFolder(tmp_path)
    full = os.statvfs_result((4096, 4096, 1000, 0, 0, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "fstatvfs", lambda descriptor: full)
    with pytest.raises(OSError, match="the base needs 0 MiB, but only 0 MiB of the disk are free"):
        Rows().save(folder)
    assert list(folder.path.iterdir()) == []


@given(*[st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), max_size=6)] * 3)
def test_covered_is_what_lies_in_the_union(wanted, one, other):
    def extents(pairs):
        return np.array(sorted((low, low + length) for low, length in pairs), np.int64).reshape(-1, 2)

    def places(pairs):
        return {place for low, length in pairs for place in range(low, low + length)}

    found = all_covered(extents(wanted), [extents(one), extents(other)])
    assert found == (places(wanted) <= places([*one, *other]))
