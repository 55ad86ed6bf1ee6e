"""The whole study or a part of it, with the paths of its data, shorter, or at its tiny scale."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from analysis.fedcl.experiments import PAPER, STUDY, TINY_ROUNDS
from analysis.papers.data_locations import find_dataset
from analysis.papers.study_file import Scale, tiny_data
from gossiprec.study.load import LoadedStudy

DATA = {
    "beauty": ("amazon/Beauty.txt.gz", "amazon/Beauty.txt"),
    "movielens-1m": ("ml-1m", "ml-1m.zip"),
}
"""Names under which each data set may be in the folder of ``--data``."""
LONG = ("dataset", "protocol.participation", "protocol.rounds", "evaluate.every")
"""Keys that experiments set according to the size of their data."""


def dataset_name(name: str) -> str:
    """Return the data set of an experiment."""
    return "beauty" if PAPER.setting_of(name) == "beauty" else "movielens-1m"


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
    if scale == "tiny":
        return STUDY.part({name: _small(name) for name in names}, base=_tiny(), scale=scale, **length)
    return STUDY.part({name: _here(name, data or Path()) for name in names}, scale=scale, **length)


def _here(name: str, data: Path) -> dict[str, Any]:
    """Return the overrides of an experiment on this machine."""
    place = find_dataset(data, DATA[dataset_name(name)])
    assert place is not None, "its data are there"
    return {**STUDY.experiments[name], "dataset.path": str(place.resolve())}


def _tiny() -> dict[str, Any]:
    """Return the scenario on small synthetic data, with clusters from the second round on."""
    base = STUDY.told["base"]
    return {
        **base,
        "dataset": _data(60),
        "recommender": {**base["recommender"], "clusters": 5, "leaks": 10},
        "protocol": {**base["protocol"], "participation": 1 / TINY_ROUNDS},
        "evaluate": {**base["evaluate"], "every": TINY_ROUNDS},
    }


def _small(name: str) -> dict[str, Any]:
    """Return the overrides of an experiment at the tiny scale: other data, and a fifth of the clusters."""
    sets = {key: value for key, value in STUDY.experiments[name].items() if key not in LONG}
    sets |= {"evaluate.every": 1} if name in _CENTRAL else {}
    sets |= {"dataset": _data(50)} if PAPER.setting_of(name) == "ml-1m" else {}
    if "recommender.clusters" in sets:
        sets["recommender.clusters"] //= 5
    if "model" in sets:
        sets["model"] = {**sets["model"], "dim": 8}
    if "training" in sets:
        sets["training"] = {**sets["training"], "batch_size": 16}
    return sets


def _data(n_users: int) -> dict[str, Any]:
    return {**tiny_data(n_users), "split": {"name": "leave_last_k", "test": 1, "validation": 1}}


_CENTRAL = frozenset(name for name in STUDY.experiments if PAPER.is_apart(name))
