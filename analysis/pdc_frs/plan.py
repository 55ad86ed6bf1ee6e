"""The whole study or a part of it, with the paths of its data, shorter, or at its tiny scale."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from analysis.papers.comparison import belongs_to
from analysis.papers.data_locations import find_dataset
from analysis.papers.study_file import Scale, tiny_data
from analysis.pdc_frs.experiments import STUDY
from gossiprec.study.load import LoadedStudy

DATA = {"movielens-1m": ("ml-1m", "ml-1m.zip"), "office": ("amazon/Office_Products.txt",)}
"""Names under which each data set may be in the folder of ``--data``."""


def dataset_name(name: str) -> str:
    """Return the data set of an experiment."""
    return "office" if belongs_to(name, "office") else "movielens-1m"


def paper_study(
    names: Iterable[str], *, data: Path | None, scale: Scale = "full", **length: Any
) -> LoadedStudy:
    """Return the study of some experiments.

    Parameters
    ----------
    names : iterable of str
        Experiments with available data.
    data : Path, optional
        The folder of the data sets; not needed at the tiny scale.
    scale : {'full', 'tiny'}
    **length
        ``seeds`` and ``epochs`` of :meth:`analysis.papers.study_file.PaperStudyFile.part`.
    """
    values = {name: _here(name, data, scale) for name in names}
    return STUDY.part(values, base=_tiny() if scale == "tiny" else None, scale=scale, **length)


def _tiny() -> dict[str, Any]:
    """Return the scenario on synthetic data without titles, so half of the users are public."""
    base = STUDY.tiny_base()
    public = {"name": "co-occurrence", "public_users": 0.5}
    return {**base, "recommender": {**base["recommender"], "similarity": public, "leaks": 10}}


def _here(name: str, data: Path | None, scale: Scale) -> dict[str, Any]:
    """Return the overrides of an experiment on this machine."""
    sets, whose = STUDY.experiments[name], dataset_name(name)
    if scale == "tiny":
        return {**sets, "dataset": tiny_data(50)} if whose == "office" else sets
    place = find_dataset(data or Path(), DATA[whose])
    assert place is not None, "its data are there"
    path = str(place.resolve())
    if whose == "office":
        return {**sets, "dataset": {**sets["dataset"], "train": path, "test": path}}
    return {**sets, "dataset.path": path}
