"""Data files are bounded before they are read: no archive, line, pipe or Parquet file fills the memory or hangs."""

from __future__ import annotations

import gzip
import os
import zipfile

import pyarrow as pa
import pytest
from pyarrow import parquet
from small_data import dataset, load, refusal

from gossiprec.base.errors import DataError, ResourceError
from gossiprec.data import delimited_text, sources, text_blocks


def test_a_pipe_a_device_and_a_folder_are_refused_without_a_wait(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "linked.csv").symlink_to(tmp_path / "pipe.csv")
    for name in ("pipe.csv", "linked.csv"):
        assert "found a named pipe; expected a regular file" in refusal(tmp_path / name)
    assert "found a folder; expected a regular file" in refusal(tmp_path)
    assert "found a device; expected a regular file" in refusal("/dev/zero")
    for name in ("movielens-1m", "gowalla"):
        with pytest.raises(DataError, match=r"contains none of|found a named pipe"):
            dataset(name, path=tmp_path / "pipe.csv").load(1)


@pytest.mark.parametrize("suffix", [".zip", ".gz"])
def test_an_archive_that_grows_a_hundredfold_is_refused(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(sources, "MIN_UNPACKED", 1 << 16)
    path, content = tmp_path / f"a.csv{suffix}", b"1,2\n" * (1 << 20)
    if suffix == ".gz":
        path.write_bytes(gzip.compress(content))
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a.csv", content)
    assert "in an archive that is over 100 times smaller; expected an archive of a table" in refusal(path)


def test_a_line_without_an_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(text_blocks, "BLOCK", 1 << 10)
    monkeypatch.setattr(text_blocks, "MAX_LENGTH", 1 << 12)
    (tmp_path / "a.txt").write_text("1 2\n3 " + "7" * (1 << 14))
    assert "line 2: found a line of more than 4,096 characters" in refusal(
        tmp_path / "a.txt", form="lists", delimiter=" "
    )


def test_rows_that_do_not_fit_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited_text, "MIN_CHECKED", 10)
    monkeypatch.setattr(delimited_text, "available_bytes", lambda: 20)
    (tmp_path / "a.csv").write_text("user,item\nann,x\nbob,y\n")
    parquet.write_table(pa.table({"user": [1, 2], "item": [3, 4]}), tmp_path / "a.parquet")
    for name in ("a.csv", "a.parquet"):
        with pytest.raises(ResourceError, match="of rows; expected up to 20 bytes"):
            load(tmp_path / name)
