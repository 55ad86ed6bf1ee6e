"""The study in whole or in part, with the data where they are, shorter, or at its tiny scale."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from analysis.cl4fedrec.experiments import experiments, study
from gossiprec.errors import DataError
from gossiprec.study.load import Study, load_study

Scale = Literal["full", "tiny"]
DATA = ("ml-1m", "ml-1m.zip")
"""Under which names the data may lie in the folder of ``--data``."""
TINY_EPOCHS = 2


def paper_study(
    names: Iterable[str],
    *,
    data: Path | None,
    scale: Scale = "full",
    seeds: int | None = None,
    epochs: int | None = None,
) -> Study:
    """Return the study of some experiments.

    Parameters
    ----------
    names : iterable of str
    data : Path, optional
        The data set; not needed at the tiny scale.
    scale : {'full', 'tiny'}
    seeds, epochs : int, optional
        In place of the study's own.
    """
    told = study()
    values = {name: _here(name, scale) for name in names}
    sets = {**told["set"], **_length(scale, epochs)}
    if scale == "full":
        assert data is not None, "its data are there"
        sets["dataset.path"] = str(data.resolve())
    base = _tiny(told["base"]) if scale == "tiny" else told["base"]
    return load_study(
        {
            **told,
            "name": told["name"] + ("-tiny" if scale == "tiny" else ""),
            "base": base,
            "set": sets,
            "seeds": seeds or told["seeds"],
            "axes": {"experiment": {"values": values}},
        }
    )


def place_of_data(data: Path | None, scale: Scale) -> Path | None:
    """Return where the data set lies; None at the tiny scale, which needs none.

    Raises
    ------
    DataError
        If it is not there; the message names what is looked for.
    """
    if scale == "tiny":
        return None
    if data is None:
        raise DataError(
            "--data is missing: the folder that holds MovieLens-1M as ml-1m; or try --scale tiny, which needs none"
        )
    found = next((data / name for name in DATA if (data / name).exists()), None)
    if found is None:
        raise DataError(f"--data: found no MovieLens-1M in {data}; it must hold {' or '.join(DATA)}")
    return found


def epochs_of(scale: Scale, epochs: int | None) -> int:
    """Return how many epochs a run has."""
    return epochs or (TINY_EPOCHS if scale == "tiny" else int(study()["base"]["protocol"]["rounds"]))


def count_runs(seeds: int | None) -> int:
    """Return how many runs the whole study has."""
    return len(experiments()) * (seeds or int(study()["seeds"]))


def _length(scale: Scale, epochs: int | None) -> dict[str, Any]:
    """Return what says how long runs are, where it is not what the study says."""
    return {} if scale == "full" and epochs is None else {"protocol.rounds": epochs_of(scale, epochs)}


def _tiny(base: dict[str, Any]) -> dict[str, Any]:
    """Return the base on little synthetic data."""
    split = {"name": "last", "test": 0.2, "validation": 0.1}
    data = {"name": "synthetic", "users": 60, "items": 400, "interactions": 1500, "split": split}
    return {**base, "dataset": data, "protocol": {**base["protocol"], "slice": 20}}


def _here(name: str, scale: Scale) -> dict[str, Any]:
    """Return what an experiment sets; at the tiny scale two poisoners, where a thousandth of the users is none."""
    sets = experiments()[name]
    if scale == "full" or "attackers" not in sets:
        return sets
    few = [{**{k: v for k, v in one.items() if k != "fraction"}, "number": 2} for one in sets["attackers"]]
    return {**sets, "attackers": few}
