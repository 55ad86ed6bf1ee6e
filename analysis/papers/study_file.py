"""The study of a paper as data: experiments in ``study.yaml``; their data, tiny form and command in ``plan.yaml``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml

from gossiprec.base.errors import DataError
from gossiprec.study.spec import LoadedStudy, load_study

Scale = Literal["full", "tiny"]
TINY_EPOCHS = 2
Overrides = Mapping[str, Any]


@dataclass(frozen=True)
class PaperStudyFile:
    """A study with one axis, ``experiment``, and its plan in the same folder.

    Keys of the plan:

    - ``data``: the data sets by name, the default one first. Each has ``files``, the names that it may have in the
      folder of ``--data``; ``paths``, the scenario keys that it sets, relative to the file found; ``set``, other keys;
      ``experiments``, the patterns of the names of its experiments (by default all); and ``rules`` as below.
    - ``tiny``: the tiny form. ``base`` has overrides of the study's scenario; each of ``rules`` applies to the
      experiments that fit its patterns (``experiments``) and have a key (``when``): it removes the overrides in
      ``drop`` and adds those in ``set``.
    - ``epoch: participation``: an epoch is as many rounds as select every client once; by default it is one round.
    - ``command``: texts of the command.
    - ``comparison`` and ``rows``: settings and methods (:class:`analysis.papers.comparison.Comparison`);
      ``claims``: :func:`analysis.papers.claims.declared_claims`; ``leakage``:
      :class:`analysis.papers.comparison.SummaryColumns`; ``report``: :class:`analysis.papers.report.PaperReport`;
      ``arms``: methods by the names of options.

    Attributes
    ----------
    path : Path
    """

    path: Path

    @property
    def content(self) -> dict[str, Any]:
        """The study as written."""
        found: dict[str, Any] = _read(self.path)
        return found

    @property
    def plan(self) -> dict[str, Any]:
        """The plan as written."""
        found: dict[str, Any] = self.read("plan")
        return found

    def read(self, name: str) -> Any:
        """Return the content of another YAML file in the study's folder, read once."""
        return _read(self.path.with_name(f"{name}.yaml"))

    @property
    def experiments(self) -> dict[str, dict[str, Any]]:
        """The overrides of each experiment, in the order in which they are run: important ones first."""
        values: dict[str, dict[str, Any]] = self.content["axes"]["experiment"]["values"]
        return values

    def make_study(
        self,
        names: Iterable[str],
        *,
        data: Path | None,
        scale: Scale = "full",
        seeds: int | None = None,
        epochs: int | None = None,
        dataset: str | None = None,
    ) -> LoadedStudy:
        """Return the study of some experiments.

        Parameters
        ----------
        names : iterable of str
            Experiments with available data.
        data : Path, optional
            The folder of the data sets; not needed at the tiny scale.
        scale : {'full', 'tiny'}
        seeds, epochs : int, optional
            Numbers to use instead of the study's own; an experiment's own number of seeds stays at full size.
        dataset : str, optional
            Data set of all experiments, if it is not each one's own.
        """
        content, is_tiny = self.content, scale == "tiny"
        is_other = dataset is not None and dataset != next(iter(self.plan["data"]))
        tiny_base = self.plan["tiny"].get("base", {}) if is_tiny else {}
        values = {name: self._here(name, data, scale, epochs, dataset) for name in names}
        return load_study(
            {
                **content,
                "name": content["name"] + ("-tiny" if is_tiny else f"-{dataset}" if is_other else ""),
                "set": {**content["set"], **tiny_base},
                "seeds": seeds or content["seeds"],
                "axes": {"experiment": {"values": values}},
            }
        )

    def find_missing_data(
        self, names: Iterable[str], *, data: Path | None, scale: Scale, dataset: str | None = None
    ) -> dict[str, str]:
        """Return the experiments that lack their data, and the missing files.

        Parameters
        ----------
        names : iterable of str
        data : Path, optional
            The folder of the data sets.
        scale : {'full', 'tiny'}
            The latter needs no data.
        dataset : str, optional
            Data set of all experiments.

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
        sets = {dataset: self.plan["data"][dataset]} if dataset else self.plan["data"]
        if not any(find_dataset(data, own["files"]) for own in sets.values()):
            wanted = ", ".join(" or ".join(own["files"]) for own in sets.values())
            raise DataError(
                f"--data: found none of the data sets in {data}; expected at least one of {wanted}"
            )
        files = {name: sets[dataset or self.dataset_name(name)]["files"] for name in names}
        return {
            name: f"data missing: no {' or '.join(own)} in {data}"
            for name, own in files.items()
            if find_dataset(data, own) is None
        }

    def dataset_name(self, experiment: str) -> str:
        """Return the data set of an experiment."""
        data: dict[str, Any] = self.plan["data"]
        return next(name for name, own in data.items() if _fits(experiment, own.get("experiments", ["*"])))

    def count_epochs(self, scale: Scale, epochs: int | None) -> int:
        """Return the number of epochs of a run."""
        if epochs is not None:
            return epochs
        if scale == "tiny":
            return TINY_EPOCHS
        return int(self.content["base"]["protocol"]["rounds"]) // self._rounds({}, "full")

    def describe_epochs(self) -> str:
        """Return the numbers of epochs as text: of federated runs, and of centralised runs if they differ."""
        own = self.count_epochs("full", None)
        protocols = [sets["protocol"] for sets in self.experiments.values() if "protocol" in sets]
        central = {one["epochs"] for one in protocols if one["name"] == "central"} - {own}
        if not central:
            return f"{own}"
        low, high = min(central), max(central)
        return f"{own}; centralised {low}" + (f" to {high}" if low < high else "")

    def count_seeds(self, name: str, seeds: int | None, scale: Scale = "full") -> int:
        """Return the number of seeds of an experiment: its own, else the requested one, else the study's."""
        own = None if scale == "tiny" else self.experiments[name].get("seeds")
        return int(own or seeds or self.content["seeds"])

    def count_runs(self, seeds: int | None, scale: Scale = "full") -> int:
        """Return the number of runs of the whole study."""
        return sum(self.count_seeds(name, seeds, scale) for name in self.experiments)

    def _here(
        self, name: str, data: Path | None, scale: Scale, epochs: int | None, dataset: str | None
    ) -> dict[str, Any]:
        """Return the overrides of an experiment on this machine."""
        sets = dict(self.experiments[name])
        if "base" in sets:
            sets["base"] = str((self.path.parent / sets["base"]).resolve())
        if scale == "tiny":
            sets.pop("seeds", None)
            form = self.plan["tiny"]
        else:
            form = self.plan["data"][dataset or self.dataset_name(name)]
            sets |= self._data(data or Path(), form)
        for rule in form.get("rules", ()):
            if _fits(name, rule.get("experiments", ["*"])) and (
                "when" not in rule or _has(sets, rule["when"])
            ):
                sets = {key: value for key, value in sets.items() if key not in rule.get("drop", ())}
                sets |= rule.get("set", {})
        return {**sets, **self._length(sets, scale, epochs)}

    def _data(self, folder: Path, own: Overrides) -> dict[str, Any]:
        """Return the overrides that name a data set of the plan in the folder."""
        place = find_dataset(folder, own["files"])
        assert place is not None, "its data are there"
        return {
            **own.get("set", {}),
            **{key: str((place / file).resolve()) for key, file in own["paths"].items()},
        }

    def _length(self, sets: Overrides, scale: Scale, epochs: int | None) -> dict[str, Any]:
        """Return the overrides for the length of an experiment's runs, if it differs from the study's."""
        if "base" not in self.content or (scale == "full" and epochs is None):
            return {}
        protocol, length = sets.get("protocol", {}), self.count_epochs(scale, epochs)
        if protocol.get("name") == "central":
            return {"protocol.epochs": length}
        if "wakes" in protocol:
            return {"protocol.wakes": length}
        return {"protocol.rounds": length * self._rounds(sets, scale)}

    def _rounds(self, sets: Overrides, scale: Scale) -> int:
        """Return the number of rounds of an epoch."""
        if self.plan.get("epoch") != "participation":
            return 1
        key = "protocol.participation"
        own = self.content["base"]["protocol"]["participation"]
        tiny_base = self.plan["tiny"]["base"] if scale == "tiny" else {}
        return round(1 / float(sets.get(key, tiny_base.get(key, own))))


def find_dataset(data: Path, files: Iterable[str]) -> Path | None:
    """Return the path of a data set, or None if it is missing."""
    return next((data / file for file in files if (data / file).exists()), None)


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def _has(sets: Overrides, dotted: str) -> bool:
    """Return whether overrides set a key, by itself or within the value of a section."""
    if dotted in sets:
        return True
    value: Any = sets
    for part in dotted.split("."):
        if isinstance(value, list):
            value = value[int(part)] if int(part) < len(value) else None
        elif isinstance(value, Mapping) and part in value:
            value = value[part]
        else:
            return False
    return value is not None


@cache
def _read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))
