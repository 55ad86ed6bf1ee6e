"""Paths of a study's data sets in the folder of ``--data``, and the experiments that lack data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from analysis.papers.study_file import Scale
from gossiprec.base.errors import DataError

Places = Mapping[str, tuple[str, ...]]
"""Names under which each data set may be in the folder."""


def find_dataset(data: Path, files: tuple[str, ...]) -> Path | None:
    """Return the path of a data set, or None if it is missing."""
    return next((data / file for file in files if (data / file).exists()), None)


def missing_data(
    names: Iterable[str], places: Places, data_of: Callable[[str], str], *, data: Path | None, scale: Scale
) -> dict[str, str]:
    """Return the experiments that lack their data, and the missing files.

    Parameters
    ----------
    names : iterable of str
        Experiments.
    places : mapping
    data_of : callable
        Maps an experiment to its data set.
    data : Path, optional
        The folder.
    scale : {'full', 'tiny'}
        The latter needs no data.

    Raises
    ------
    DataError
        If all data sets are missing; the message names the expected files.
    """
    if scale == "tiny":
        return {}
    if data is None:
        raise DataError(
            "--data is missing; pass the folder that contains the data sets, or use --scale tiny, "
            "which needs no data"
        )
    if not any(find_dataset(data, files) for files in places.values()):
        wanted = ", ".join(" or ".join(files) for files in places.values())
        raise DataError(f"--data: found none of the data sets in {data}; expected at least one of {wanted}")
    return {
        name: f"data missing: no {' or '.join(places[data_of(name)])} in {data}"
        for name in names
        if find_dataset(data, places[data_of(name)]) is None
    }
