"""Archives of named arrays (npz) of a run, and the one of accuracies: every single adversary at an attack's best round.

Archives are written in one step, and read without running code from them.
"""

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
from gossiprec.runs import run_files
from gossiprec.runs.run_files import open_to_read, replace_file

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


Accuracies = dict[str, tuple[npt.NDArray[Any], npt.NDArray[Any]]]
"""Attack key to (node ids, accuracies), both of shape (n_adversaries,)."""

_NODES = "/nodes"


_FORMS = {"observer": "{}", "relevance": "{}", "momentum": "b{:g}", "community_size": "k{}"}


def attack_key(**labels: Any) -> str:
    """Return the key of an attack's results, built from its labels, such as ``single/ndcg/b0.99/k50``.

    Labels other than observer, relevance, momentum and community size are spelled out: ``coordinator/depth=3``.
    """
    return "/".join(_FORMS.get(name, f"{name}={{}}").format(value) for name, value in labels.items())


def write_adversaries(folder: Path, accuracies: Mapping[str, tuple[npt.ArrayLike, npt.ArrayLike]]) -> None:
    """Write, per attack key, the array ``<key>`` of accuracies (fractions) and ``<key>/nodes`` of node ids.

    Raises
    ------
    ValueError
        If the two arrays of a key differ in length.
    ResourceError
        If the file cannot be written.
    """
    arrays: dict[str, npt.NDArray[Any]] = {}
    for key, (nodes, accuracy) in accuracies.items():
        arrays[key] = np.asarray(accuracy, np.float64)
        arrays[key + _NODES] = np.asarray(nodes, np.int64)
        if arrays[key].ndim != 1 or arrays[key].shape != arrays[key + _NODES].shape:
            raise ValueError(f"{key}: {arrays[key].shape} accuracies for {arrays[key + _NODES].shape} nodes")
    write_arrays(folder / run_files.ADVERSARIES, arrays)


def read_adversaries(folder: Path) -> Accuracies:
    """Return (node ids, accuracies) by attack key; empty if the run wrote none.

    Raises
    ------
    LogError
        If the file is not such an archive.
    """
    arrays = read_arrays(folder / run_files.ADVERSARIES)
    try:
        return {key: (arrays[key + _NODES], arrays[key]) for key in arrays if not key.endswith(_NODES)}
    except KeyError as error:
        raise LogError(f"cannot read {folder / run_files.ADVERSARIES}: it has no {error}") from error
