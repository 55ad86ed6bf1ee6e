"""The plan of the study: rows, experiments, data, and the study of some experiments, full or tiny."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from analysis.papers.study_file import PaperStudyFile, Scale, find_dataset, tiny_data
from gossiprec.study.load import LoadedStudy, load_study

STUDY = PaperStudyFile(Path(__file__).with_name("study.yaml"))
WATCHED, ATTACKED = "-watched", "-attacked"


@dataclass(frozen=True)
class PaperRow:
    """A row of the table, as in ``rows.yaml``.

    Attributes
    ----------
    row : str
        Label of the row.
    paper : str
        The paper of the method, or a paper that compares with it.
    runs : str
        The experiment that its own numbers come from.
    sees : str
        What the adversary is shown.
    unwatched, no_guesses, unattacked : str
        Why there is no observer, no guess of memberships, no poisoner; empty if there is one.
    """

    row: str
    paper: str
    runs: str
    sees: str
    unwatched: str = ""
    no_guesses: str = ""
    unattacked: str = ""

    @property
    def experiments(self) -> tuple[str, ...]:
        """Its existing experiments: plain, observed, attacked."""
        ends = ("", "" if self.unwatched else WATCHED, "" if self.unattacked else ATTACKED)
        return tuple(dict.fromkeys(f"{self.runs}{end}" for end in ends))


@cache
def paper_rows() -> dict[str, PaperRow]:
    """Return the rows in the order of the table."""
    told = yaml.safe_load(Path(__file__).with_name("rows.yaml").read_text(encoding="utf-8"))
    return {name: PaperRow(**{"runs": name, **own}) for name, own in told.items()}


def experiments() -> dict[str, dict[str, Any]]:
    """Return the overrides of each experiment, in the order in which they are run."""
    return STUDY.experiments


@cache
def selectable_names() -> dict[str, tuple[str, ...]]:
    """Return the experiments that each name of ``--only`` selects: plain, observed and attacked runs, papers, rows."""
    there = tuple(experiments())
    ends = {"watched": WATCHED, "attacked": ATTACKED}
    found = {name: tuple(one for one in there if one.endswith(end)) for name, end in ends.items()}
    plain = tuple(one for one in there if not one.endswith((WATCHED, ATTACKED)))
    own = {f"row-{name}": row.experiments for name, row in paper_rows().items()}
    return {"plain": plain, **found, **own, **{name: (name,) for name in there}}


DATA = {"movielens-100k": ("ml-100k",), "movielens-1m": ("ml-1m",)}
"""Names under which each data set may be in the folder of ``--data``."""
_TINY_SLICE = 20


def make_study(
    names: Iterable[str],
    *,
    data: Path | None,
    dataset: str = "movielens-100k",
    scale: Scale = "full",
    seeds: int | None = None,
) -> LoadedStudy:
    """Return the study of some experiments.

    Parameters
    ----------
    names : iterable of str
        Experiments that can be run.
    data : Path, optional
        The folder of the data sets; not needed at the tiny scale.
    dataset : str
        One of :data:`DATA`.
    scale : {'full', 'tiny'}
    seeds : int, optional
        Number of seeds, instead of the study's own.
    """
    told, is_tiny = STUDY.told, scale == "tiny"
    values = {name: STUDY.experiments[name] for name in names}
    if is_tiny:
        values = {name: {**own, **_shorter(own)} for name, own in values.items()}
    end = "-tiny" if is_tiny else "" if dataset == "movielens-100k" else f"-{dataset}"
    return load_study(
        {
            **told,
            "name": told["name"] + end,
            "base": _tiny() if is_tiny else _on(dataset, data or Path()),
            "seeds": seeds or told["seeds"],
            "axes": {"experiment": {"values": values}},
        }
    )


def _on(dataset: str, data: Path) -> dict[str, Any]:
    """Return the scenario on a data set of the folder."""
    base = STUDY.told["base"]
    place = find_dataset(data, DATA[dataset])
    assert place is not None, "its data are there"
    return {**base, "dataset": {**base["dataset"], "name": dataset, "path": str(place.resolve())}}


def _tiny() -> dict[str, Any]:
    """Return the scenario on little synthetic data with times."""
    base = STUDY.told["base"]
    data = {**tiny_data(60), "split": base["dataset"]["split"]}
    return {**base, "dataset": data, "protocol": {**base["protocol"], "rounds": 2, "slice": _TINY_SLICE}}


def _shorter(sets: dict[str, Any]) -> dict[str, Any]:
    """Return the overrides that fit an experiment to few users and a short run."""
    protocol, recommender = sets.get("protocol", {}), sets.get("recommender") or {}
    lengths = {"rounds", "wakes", "epochs"} & protocol.keys()
    found: dict[str, Any] = {f"protocol.{length}": 2 for length in lengths} | {"evaluate.every": 1}
    if "epochs" in protocol:
        found["training.batch_size"] = "full"
    if "slice" in protocol:
        found["protocol.slice"] = _TINY_SLICE
    for place, observer in enumerate(sets.get("observers", ())):
        found[f"observers.{place}.community_size"] = 5
        if "nodes" in observer and observer["nodes"] != "all":
            found[f"observers.{place}.nodes"] = {"fraction": 0.2}
    if "attackers" in sets:
        found["attackers.0.fraction"] = 0.05
    if "clusters" in recommender:
        found["recommender.clusters"] = {"number": 5, "first": 1, "every": 1}
    if "leaks" in recommender:
        found["recommender.leaks"] = 5
    if recommender.get("name") == "pdc-frs":  # generated items have no titles
        found["recommender.similarity"] = {"name": "co-occurrence", "public_users": 0.2}
    return found
