"""The whole study or a part of it, with the path of its data, shorter, or at its tiny scale."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from analysis.cl4fedrec.experiments import STUDY
from analysis.papers.study_file import Scale
from gossiprec.base.errors import DataError
from gossiprec.study.load import LoadedStudy

DATA = ("ml-1m", "ml-1m.zip")
"""Names under which the data may be in the folder of ``--data``."""


def paper_study(
    names: Iterable[str],
    *,
    data: Path | None,
    scale: Scale = "full",
    seeds: int | None = None,
    epochs: int | None = None,
) -> LoadedStudy:
    """Return the study of some experiments.

    Parameters
    ----------
    names : iterable of str
    data : Path, optional
        The data set; not needed at the tiny scale.
    scale : {'full', 'tiny'}
    seeds, epochs : int, optional
        Numbers to use instead of the study's own.
    """
    values = {name: _here(name, scale) for name in names}
    if scale == "tiny":
        return STUDY.part(values, base=STUDY.tiny_base(), scale=scale, seeds=seeds, epochs=epochs)
    assert data is not None, "its data are there"
    return STUDY.part(values, sets={"dataset.path": str(data.resolve())}, seeds=seeds, epochs=epochs)


def find_data(data: Path | None, scale: Scale) -> Path | None:
    """Return the path of the data set, or None at the tiny scale, which needs none.

    Raises
    ------
    DataError
        If it is missing; the message names the expected files.
    """
    if scale == "tiny":
        return None
    if data is None:
        raise DataError(
            "--data is missing; pass the folder that contains MovieLens-1M as ml-1m, or use --scale "
            "tiny, which needs no data"
        )
    found = next((data / name for name in DATA if (data / name).exists()), None)
    if found is None:
        raise DataError(f"--data: found no MovieLens-1M in {data}; expected {' or '.join(DATA)}")
    return found


def _here(name: str, scale: Scale) -> dict[str, Any]:
    """Return the overrides of an experiment; the tiny scale has two poisoners, since a fraction would give none."""
    sets = STUDY.experiments[name]
    if scale == "full" or "attackers" not in sets:
        return sets
    few = [{**{k: v for k, v in one.items() if k != "fraction"}, "number": 2} for one in sets["attackers"]]
    return {**sets, "attackers": few}
