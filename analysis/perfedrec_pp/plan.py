"""The whole study or a part of it, with the path of its data, shorter, or at its tiny scale."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from analysis.papers.data_locations import find_dataset
from analysis.papers.study_file import Scale, tiny_data
from analysis.perfedrec_pp.experiments import STUDY
from gossiprec.study.load import LoadedStudy

DATA = {"yelp": ("yelp",)}
"""Names under which the data set may be in the folder of ``--data``."""
FILES = {"train": "train.txt", "validation": "valid.txt", "test": "test.txt"}


def dataset_name(_name: str) -> str:
    """Return the data set of an experiment."""
    return "yelp"


def paper_study(
    names: Iterable[str], *, data: Path | None, scale: Scale = "full", **length: Any
) -> LoadedStudy:
    """Return the study of some experiments.

    Parameters
    ----------
    names : iterable of str
        Experiments with available data.
    data : Path, optional
        The folder of the data set; not needed at the tiny scale.
    scale : {'full', 'tiny'}
    **length
        ``seeds`` and ``epochs`` of :meth:`analysis.papers.study_file.PaperStudyFile.part`.
    """
    values = {name: STUDY.experiments[name] for name in names}
    if scale == "tiny":
        return STUDY.part(values, base=_tiny(), sets={"model.dim": 8}, scale=scale, **length)
    place = find_dataset(data or Path(), DATA["yelp"])
    assert place is not None, "its data are there"
    here = {f"dataset.{key}": str((place / file).resolve()) for key, file in FILES.items()}
    return STUDY.part(values, sets=here, scale=scale, **length)


def _tiny() -> dict[str, Any]:
    """Return the scenario on small synthetic data, with clusters from the first round on."""
    base = STUDY.told["base"]
    split = {"name": "leave_last_k", "test": 1, "validation": 1}
    return {
        **base,
        "dataset": {**tiny_data(60), "split": split},
        "protocol": {**base["protocol"], "participation": 0.5},
        "recommender": {**base["recommender"], "clusters": {"number": 5, "first": 1, "every": 1}},
        "evaluate": {**base["evaluate"], "every": 1},
    }
