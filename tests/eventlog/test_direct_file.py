"""Files past the cache hold what was written, whatever the sizes, the file system, and how the disk refuses."""

from __future__ import annotations

import errno
import os
import random

import pytest

from gossiprec.runs import direct_file
from gossiprec.runs.direct_file import BLOCK, DirectFile

SIZES = [1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 10 * BLOCK + 7]


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(direct_file, "ROOM", 4 * BLOCK)


def pieces(seed, total=30):
    draw = random.Random(seed)
    return [draw.randbytes(draw.choice([0, 1, 5, *SIZES])) for _ in range(total)]


def written(path, content):
    with DirectFile(path) as file:
        for piece in content:
            assert file.write(piece) == len(piece)
        file.flush()
        assert path.read_bytes() == b"".join(content)
    return path.read_bytes()


@pytest.mark.parametrize("size", SIZES)
def test_a_single_piece(tmp_path, size):
    content = os.urandom(size)
    assert written(tmp_path / "file", [content]) == content


@pytest.mark.parametrize("seed", range(8))
def test_pieces_of_any_size_come_one_after_the_other(tmp_path, seed):
    content = pieces(seed)
    assert written(tmp_path / "file", content) == b"".join(content)


def test_what_is_not_flushed_is_there_once_it_is_closed(tmp_path):
    with DirectFile(tmp_path / "file") as file:
        file.write(b"some")
        file.flush()
        file.write(memoryview(b"thing else"))
    assert (tmp_path / "file").read_bytes() == b"something else"


def test_nothing_is_written_of_nothing(tmp_path):
    assert written(tmp_path / "file", []) == b""


def test_a_file_system_that_cannot_gets_ordinary_writes(tmp_path, monkeypatch):
    def refused(file, command, *flags):
        if flags:
            raise OSError(errno.EINVAL, "no")
        return 0

    monkeypatch.setattr("fcntl.fcntl", refused)
    content = pieces(1)
    assert written(tmp_path / "file", content) == b"".join(content)


def test_a_system_without_it_gets_ordinary_writes(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "O_DIRECT", raising=False)
    content = pieces(2)
    assert written(tmp_path / "file", content) == b"".join(content)


class Disk:
    """Stands in for ``os.write``."""

    def __init__(self, monkeypatch, answer):
        self.calls, self._answer, self._write = 0, answer, os.write
        monkeypatch.setattr(os, "write", self.write)

    def write(self, file, content):
        self.calls += 1
        return self._write(file, self._answer(self, content))


def test_a_disk_that_takes_a_bit_at_a_time_gets_it_all(tmp_path, monkeypatch):
    Disk(monkeypatch, lambda disk, content: content[: max(1, len(content) // 3)])
    content = pieces(3)
    assert written(tmp_path / "file", content) == b"".join(content)


def test_a_disk_that_wants_larger_blocks_gets_them_through_the_cache(tmp_path, monkeypatch):
    def answer(disk, content):
        if disk.calls == 2:
            raise OSError(errno.EINVAL, "no")
        return content

    disk = Disk(monkeypatch, answer)
    content = [os.urandom(20 * BLOCK)]
    assert written(tmp_path / "file", content) == content[0]
    assert disk.calls == 6, "one more for what was refused"


def test_a_full_disk_is_an_error_and_is_not_asked_again(tmp_path, monkeypatch):
    def answer(disk, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    disk = Disk(monkeypatch, answer)
    with pytest.raises(OSError, match="No space"), DirectFile(tmp_path / "file") as file:
        file.write(bytes(9 * BLOCK))
    assert disk.calls == 1
