"""The whole study or a part of it, with the paths of its data, or at its tiny scale."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from analysis.cda_paper.cells import report_cells
from analysis.cda_paper.experiments import (
    STUDY,
    dataset_name,
    experiments,
    load_paper_study,
    variant_experiments,
)
from analysis.cda_paper.figures import paper_figures
from analysis.papers import command, study_file
from analysis.papers.study_file import Scale
from gossiprec.study.load import LoadedStudy, load_study

DATA = {
    "ml-100k": ("ml-100k", "ml-100k.zip"),
    "foursquare-nyc": ("foursquare-nyc", "dataset_tsmc2014.zip"),
    "gowalla": ("gowalla", "loc-gowalla_totalCheckins.txt.gz"),
}
"""Names under which each data set may be in the folder of ``--data``."""

_TINY = {
    "name": "synthetic",
    "users": 104,
    "items": 400,
    "interactions": 3000,
    "split": {"name": "published"},
}
_TINY_PLACES = {
    "name": "synthetic-checkins", "users": 104, "items": 400, "checkins": 4000, "split": {"name": "published"},
}  # fmt: skip
"""Enough users for communities of 100, and few enough for seconds."""


MOVIELENS_TABLES = tuple(f"table{place}" for place in range(4, 11))
"""Tables that ``movielens-tables`` selects, with the table of switches."""


@cache
def selectable_names() -> dict[str, tuple[str, ...]]:
    """Return the experiments that each name of ``--only`` selects: tables, figures, data sets and experiments."""
    tables: dict[str, dict[str, None]] = {}
    for cell in report_cells():
        if cell.measure is not None:
            name = cell.printed.table.removesuffix("-bounds")
            tables.setdefault(name, {}).update(dict.fromkeys(cell.measure.experiments))
    movielens = {
        name for table in MOVIELENS_TABLES for name in tables[table] if dataset_name(name) == "ml-100k"
    } | set(variant_experiments().values())
    return {
        **{name: tuple(serving) for name, serving in tables.items()},
        "movielens-tables": tuple(name for name in experiments() if name in movielens),
        "switches": tuple(variant_experiments().values()),
        **{name: drawing.experiments for name, drawing in paper_figures().items()},
        **{data: tuple(name for name in experiments() if dataset_name(name) == data) for data in DATA},
        **{name: (name,) for name in experiments()},
    }


def select_experiments(names: Sequence[str]) -> list[str]:
    """Return the experiments that these names select; see :func:`analysis.papers.command.select_experiments`."""
    return command.select_experiments(names, selectable_names(), experiments())


def paper_study(
    names: Iterable[str], *, data: Path | None, scale: Scale, seeds: int | None = None
) -> LoadedStudy:
    """Return the study of these experiments.

    Parameters
    ----------
    names : iterable of str
        Experiments with available data.
    data : Path, optional
        The folder of the data sets; not needed at the tiny scale.
    scale : {'full', 'tiny'}
    seeds : int, optional
        Number of seeds for every experiment without its own number; at the tiny scale for every one.
    """
    values = {name: _here(name, data, scale) | {"seeds": count_seeds(name, seeds, scale)} for name in names}
    told = {**load_paper_study(), "axes": {"experiment": {"values": values}}}
    return load_study({**told, "name": told["name"] + ("-tiny" if scale == "tiny" else "")})


def count_seeds(name: str, seeds: int | None, scale: Scale = "full") -> int:
    """Return the number of seeds of an experiment: its own, else the requested one, else the study's."""
    own = None if scale == "tiny" else experiments()[name].get("seeds")
    return int(own or seeds or load_paper_study()["seeds"])


def count_runs(seeds: int | None, scale: Scale = "full") -> int:
    """Return the number of runs of the whole study."""
    return sum(count_seeds(name, seeds, scale) for name in experiments())


def missing_data(names: Iterable[str], *, data: Path | None, scale: Scale) -> dict[str, str]:
    """Return the experiments that cannot be run; see :func:`analysis.papers.study_file.missing_data`."""
    return study_file.missing_data(names, DATA, dataset_name, data=data, scale=scale)


def _here(name: str, data: Path | None, scale: Scale) -> dict[str, Any]:
    """Return the overrides of an experiment on this machine."""
    sets = experiments()[name]
    sets = {**sets, "base": str((STUDY.parent / sets["base"]).resolve())}
    if scale == "tiny":
        length = "protocol.rounds" if "fedavg" in name else "protocol.wakes"
        short = {length: 2, "evaluate.every": 1, "evaluate.also": None}
        return {**sets, "dataset": _TINY_PLACES if "prme" in name else _TINY, **short}
    place = study_file.find_dataset(data or Path(), DATA[dataset_name(name)])
    assert place is not None, "its data are there"
    return {**sets, "dataset.path": str(place.resolve())}
