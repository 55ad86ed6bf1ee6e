"""Archives of named arrays (npz), written in one step and read without running code from them."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gossiprec.base.errors import LogError
from gossiprec.runs.atomic_write import replace_file
from gossiprec.runs.own_files import open_to_read

Arrays = Mapping[str, npt.NDArray[Any]]


def write_arrays(path: Path, arrays: Arrays) -> None:
    """Write arrays by name.

    Raises
    ------
    ResourceError
        If the file cannot be written.
    """
    content = io.BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]  # the stub takes a key for `allow_pickle`
    replace_file(path, content.getvalue())


def read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Return arrays by name; an empty mapping if the file does not exist.

    Raises
    ------
    LogError
        If the file is not such an archive.
    """
    if not os.path.lexists(path):
        return {}
    try:
        with open_to_read(path) as file, np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise LogError(f"cannot read {path}: {error}") from error
