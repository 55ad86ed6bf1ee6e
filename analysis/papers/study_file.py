"""The study file of a paper: its experiments, their data, and the study of some, full, shorter or tiny."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import yaml

from gossiprec.base.errors import DataError
from gossiprec.study.load import LoadedStudy, load_study

Scale = Literal["full", "tiny"]
TINY_EPOCHS = 2


@dataclass(frozen=True)
class PaperStudyFile:
    """A study of federated runs with one axis, ``experiment``.

    Attributes
    ----------
    path : Path
    rounds : callable, optional
        Maps the overrides of an experiment and the scale to the rounds of an epoch, if that is not 1.
    """

    path: Path
    rounds: Callable[[Mapping[str, Any], Scale], int] | None = None

    @cached_property
    def told(self) -> dict[str, Any]:
        """The study as written."""
        found: dict[str, Any] = yaml.safe_load(self.path.read_text(encoding="utf-8"))
        return found

    @property
    def experiments(self) -> dict[str, dict[str, Any]]:
        """The overrides of each experiment, in the order in which they are run: important ones first."""
        found: dict[str, dict[str, Any]] = self.told["axes"]["experiment"]["values"]
        return found

    def part(
        self,
        values: Mapping[str, Mapping[str, Any]],
        *,
        base: Mapping[str, Any] | None = None,
        sets: Mapping[str, Any] | None = None,
        scale: Scale = "full",
        seeds: int | None = None,
        epochs: int | None = None,
    ) -> LoadedStudy:
        """Return the study of some experiments.

        Parameters
        ----------
        values : mapping
            Overrides of each experiment on this machine.
        base, sets : mapping, optional
            The scenario instead of the study's own, and overrides of all experiments.
        scale : {'full', 'tiny'}
        seeds, epochs : int, optional
            Numbers to use instead of the study's own.
        """
        told = self.told
        return load_study(
            {
                **told,
                "name": told["name"] + ("-tiny" if scale == "tiny" else ""),
                "base": told["base"] if base is None else base,
                "set": {**told["set"], **(sets or {})},
                "seeds": seeds or told["seeds"],
                "axes": {
                    "experiment": {
                        "values": {
                            name: {**own, **self._length(own, scale, epochs)} for name, own in values.items()
                        }
                    }
                },
            }
        )

    def epochs_of(self, scale: Scale, epochs: int | None) -> int:
        """Return the number of epochs of a run."""
        if epochs is not None:
            return epochs
        base = self.told["base"]
        return TINY_EPOCHS if scale == "tiny" else base["protocol"]["rounds"] // self._rounds(base, "full")

    def lengths_in_words(self) -> str:
        """Return the numbers of epochs as text: of federated runs, and of centralised runs if they differ."""
        own = self.epochs_of("full", None)
        protocols = [sets["protocol"] for sets in self.experiments.values() if "protocol" in sets]
        central = {one["epochs"] for one in protocols if one["name"] == "central"} - {own}
        if not central:
            return f"{own}"
        low, high = min(central), max(central)
        return f"{own}; centralised {low}" + (f" to {high}" if low < high else "")

    def count_runs(self, seeds: int | None) -> int:
        """Return the number of runs of the whole study."""
        return len(self.experiments) * (seeds or int(self.told["seeds"]))

    def _length(self, sets: Mapping[str, Any], scale: Scale, epochs: int | None) -> dict[str, Any]:
        """Return the overrides for the length of an experiment's runs, if it differs from the study's."""
        if scale == "full" and epochs is None:
            return {}
        length = self.epochs_of(scale, epochs)
        if sets.get("protocol", {}).get("name") == "central":
            return {"protocol.epochs": length}
        return {"protocol.rounds": length * self._rounds(sets, scale)}

    def _rounds(self, sets: Mapping[str, Any], scale: Scale) -> int:
        """Return the number of rounds of an epoch."""
        return 1 if self.rounds is None else self.rounds(sets, scale)

    def tiny_base(self, n_users: int = 60) -> dict[str, Any]:
        """Return the scenario on small synthetic data."""
        base = self.told["base"]
        return {**base, "dataset": tiny_data(n_users), "protocol": {**base["protocol"], "slice": 20}}


def tiny_data(n_users: int) -> dict[str, Any]:
    """Return synthetic data for a trial run."""
    split = {"name": "last", "test": 0.2, "validation": 0.1}
    return {"name": "synthetic", "users": n_users, "items": 400, "interactions": 1500, "split": split}


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
