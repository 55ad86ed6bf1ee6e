"""Tiny data sets and ways to put them on disk."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import numpy as np
import pytest

from gossiprec.base.errors import DataError
from gossiprec.data import DATASETS
from gossiprec.data.split import Interactions

REAL = Path(__file__).parents[2].parent / "shared" / "data"


def real(name):
    """Return the folder of a real data set, or skip the test."""
    folder = REAL / name
    if not folder.is_dir():
        pytest.skip(f"{folder} is absent")
    return folder


def interactions(pairs, *, times=None, n_users=None, n_items=None):
    users, items = np.array(pairs, np.int64).reshape(-1, 2).T
    return Interactions(
        name="tiny",
        users=users,
        items=items,
        n_users=n_users or int(users.max()) + 1,
        n_items=n_items or int(items.max()) + 1,
        times=None if times is None else np.array(times, np.int64),
    )


def dataset(name, **options):
    kind = DATASETS[name]
    return kind(kind.Options.model_validate(options))


def load(path, **options):
    """Return what data set `file` reads."""
    return dataset("file", path=path, **options).load(0)


def refusal(path, **options):
    """Return the message with which data set `file` refuses a file."""
    with pytest.raises(DataError) as caught:
        load(path, **options)
    return str(caught.value)


def pack(path, text):
    """Write text to a plain file, a .gz, or a .zip of one member."""
    content = text.encode() if isinstance(text, str) else text
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(content, mtime=0))
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("inner.txt", content)
    else:
        path.write_bytes(content)
    return path


def sets_of(sets):
    return [sets[user].tolist() for user in range(len(sets))]
