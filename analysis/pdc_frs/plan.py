"""The plan of the study: settings, rows, methods, data, and the study of some experiments."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from analysis.papers.comparison import Comparison, PublishedTables, belongs_to, parts_by_setting
from analysis.papers.study_file import PaperStudyFile, Scale, find_dataset, tiny_data
from gossiprec.study.load import LoadedStudy

STUDY = PaperStudyFile(Path(__file__).with_name("study.yaml"))

SETTINGS = {
    "file": "MovieLens-1M; test is the last fifth of each user's lines of ratings.dat, where FedNCF comes near to its "
    "print (docs/cl4fedrec_study.md)",
    "random": "MovieLens-1M; test is a random fifth of each user's items, as the paper's text says",
    "office": "Amazon Office; a random fifth of each user's items; similarity is co-occurrence, for the file has no "
    "titles",
}
ROWS = {
    "FCF": "mf",
    "FedMF": "mf",
    "FCF and FedMF, gradients summed": "mf-summed",
    "FedNCF": "fedncf",
    "FedNCF+Aug": "fedncf-aug",
    "FedNCF+CL": "fedncf-cl",
    "PDC-FRS": "pdc-frs",
    "PDC-FRS, lambda = beta = 0.5": "paper-default",
}
TABLE_ROWS = {"table1": ROWS, "office": ROWS}
"""The method behind each row of Table 1, of which MovieLens-1M and Amazon Office are two parts.

Unprinted rows are further readings of printed ones.

FedMF is FCF under encryption, and has its numbers (docs/recommenders.md): one method is both rows.
"""
EPSILON: dict[str, dict[float, str]] = {
    "titles": {1: "epsilon-1", 5: "pdc-frs", 10: "epsilon-10", 20: "epsilon-20", 30: "epsilon-30"},
    "co-occurrence": {
        1: "co-occurrence-1",
        5: "co-occurrence",
        10: "co-occurrence-10",
        20: "co-occurrence-20",
        30: "co-occurrence-30",
    },
}
"""Method by similarity and budget of an item, for MovieLens-1M."""
WEIGHTS: dict[str, dict[float, str]] = {
    "alpha": {0: "fedncf-cl", 10: "alpha-10", 30: "pdc-frs", 50: "alpha-50", 100: "alpha-100"},
    "lambda": {
        0: "lambda-0",
        0.01: "lambda-0.01",
        0.05: "pdc-frs",
        0.1: "lambda-0.1",
        0.5: "lambda-0.5",
    },
    "beta": {0: "beta-0", 0.01: "beta-0.01", 0.05: "pdc-frs", 0.1: "beta-0.1", 0.5: "beta-0.5"},
}
"""Method by the paper's letter of an option and its value."""
PAPER = Comparison(
    title="PDC-FRS",
    settings=SETTINGS,
    rows=TABLE_ROWS,
    main="table1",
    reference="FedNCF",
    published=PublishedTables(Path(__file__).with_name("published.yaml")),
    page="docs/pdc_frs_study.md",
    tables={"file": ("table1",), "random": ("table1",), "office": ("office",)},
    data={"MovieLens-1M": "file"},
)


def experiments() -> dict[str, dict[str, Any]]:
    """Return the overrides of each experiment, in the order in which they are run: important ones first."""
    return STUDY.experiments


def methods_by_epsilon(setting: str) -> dict[str, dict[float, str]]:
    """Return the methods of a setting by similarity and budget of an item."""
    if setting == "office":
        return {"co-occurrence": {**EPSILON["co-occurrence"], 5: "pdc-frs"}}
    return EPSILON


@cache
def selectable_names() -> dict[str, tuple[str, ...]]:
    """Return the experiments of each name for ``--only``: tables, figures, settings, and pairs joined by ``-``."""
    parts = {
        setting: {
            "table1": tuple(ROWS.values()),
            "epsilon": tuple(
                method for own in methods_by_epsilon(setting).values() for method in own.values()
            ),
            **{letter: tuple(own.values()) for letter, own in WEIGHTS.items()},
        }
        for setting in SETTINGS
    }
    there = experiments()
    found = parts_by_setting(parts, there)
    found |= {setting: tuple(name for name in there if belongs_to(name, setting)) for setting in SETTINGS}
    return {**found, **{name: (name,) for name in there}}


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
