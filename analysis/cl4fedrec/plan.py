"""The plan of the study: settings, rows, methods, data, and the study of some experiments."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from analysis.papers.comparison import Comparison, PublishedTables, parts_by_setting
from analysis.papers.study_file import PaperStudyFile, Scale
from gossiprec.base.errors import DataError
from gossiprec.study.load import LoadedStudy

STUDY = PaperStudyFile(Path(__file__).with_name("study.yaml"))

SPLITS = {
    "file": "test is the last fifth of each user's lines of ratings.dat, as the public files of A-ra and A-hum divide "
    "MovieLens-1M, which have the paper's number of interactions",
    "random": "test is a random fifth of each user's items, as the paper's text says",
}
LOOPS = {
    "adam5": "clients take 5 full-batch passes of Adam 0.001; each item moves by the mean change over the clients of a "
    "slice of 256 that touched it",
    "sum1": "each client uploads one gradient; the coordinator takes a step of SGD 0.001 on their sum over the slice",
}
SETTINGS = ("file-adam5", "file-sum1", "random-adam5", "random-sum1")
"""Settings in which the tables are compared, in this order."""

RULES = {"krum": "Krum", "median": "Median", "trimmed-mean": "Trimmed Mean", "hics": "HiCS"}
TABLE_ROWS = {
    "table2": {
        "Original": "original",
        "SimGCL": "simgcl",
        "UNION": "union",
        "CL4FedRec": "cl4fedrec",
        "rCL4FedRec": "rcl4fedrec",
    },
    "table3": {
        "CL4FedRec": "cl4fedrec",
        **{f"CL4FedRec+{words}": f"cl4fedrec-{rule}" for rule, words in RULES.items()},
        "CL4FedRec+Regularizer": "rcl4fedrec",
    },
    "table4": {
        "rCL4FedRec": "rcl4fedrec",
        "-regularizer": "cl4fedrec",
        "-user contrastive learning": "rcl4fedrec-no-user",
        "-item contrastive learning": "rcl4fedrec-no-item",
    },
    "table5": {
        "rCL4FedRec": "rcl4fedrec",
        "random synthetic users": "rcl4fedrec-uniform",
        "random synthetic users, never fitted": "rcl4fedrec-unfitted",
        "SimGCL-based item views": "rcl4fedrec-noisy-items",
    },
}
"""The method behind each row; unprinted rows are further readings of printed ones."""
ATTACKS = {"a-hum": "A-hum", "psmu": "PSMU (a reconstruction)"}
DEFENCES = {"original": "Original", "none": "CL4FedRec", **RULES, "regulariser": "Regularizer"}
SYNTHETIC_USERS: dict[float, str] = {
    10: "rcl4fedrec-users-10",
    30: "rcl4fedrec-users-30",
    60: "rcl4fedrec",
    120: "rcl4fedrec-users-120",
}
STEPS: dict[float, str] = {1: "rcl4fedrec", 5: "rcl4fedrec-steps-5", 20: "rcl4fedrec-steps-20"}
STEPS_ATTACKED: dict[float, str] = {1: "a-hum-regulariser", 5: "a-hum-steps-5", 20: "a-hum-steps-20"}


@dataclass(frozen=True)
class ExperimentName:
    """The parts of an experiment's name.

    Attributes
    ----------
    setting : str
        Split and loop, such as ``file-adam5``.
    method : str
    """

    setting: str
    method: str

    @property
    def split(self) -> str:
        """The split, such as ``file``."""
        return self.setting.partition("-")[0]

    @property
    def loop(self) -> str:
        """The loop, such as ``adam5``."""
        return self.setting.partition("-")[2]

    @staticmethod
    def read(name: str) -> ExperimentName:
        """Return the parts of a name."""
        split, loop, method = name.split("-", 2)
        return ExperimentName(f"{split}-{loop}", method)


def experiments() -> dict[str, dict[str, Any]]:
    """Return the overrides of each experiment, in the order in which they are run: important ones first."""
    return STUDY.experiments


def defence_methods(attack: str) -> dict[str, str]:
    """Return the methods that combine an attack with each defence, by the defence's label."""
    return {words: f"{attack}-{defence}" for defence, words in DEFENCES.items()}


def _in_words(setting: str) -> str:
    split, loop = setting.split("-")
    return f"{SPLITS[split]}; {LOOPS[loop]}"


PAPER = Comparison(
    title="CL4FedRec",
    settings={setting: _in_words(setting) for setting in SETTINGS},
    rows=TABLE_ROWS,
    main="table2",
    reference="Original",
    published=PublishedTables(Path(__file__).with_name("published.yaml")),
    page="docs/cl4fedrec_study.md",
)


@cache
def selectable_names() -> dict[str, tuple[str, ...]]:
    """Return the experiments of each name for ``--only``: tables, figures, settings, and pairs joined by ``-``."""
    parts: dict[str, tuple[str, ...]] = {table: tuple(rows.values()) for table, rows in TABLE_ROWS.items()}
    parts |= {f"exposure-{attack}": tuple(defence_methods(attack).values()) for attack in ATTACKS}
    parts["sensitivity"] = (*SYNTHETIC_USERS.values(), *STEPS.values(), *STEPS_ATTACKED.values())
    parts["uniformity"] = tuple(TABLE_ROWS["table2"].values())
    there = {name: ExperimentName.read(name) for name in experiments()}
    found = parts_by_setting(dict.fromkeys(SETTINGS, parts), there)
    for key in ("split", "loop", "setting"):
        for value in dict.fromkeys(getattr(own, key) for own in there.values()):
            found[value] = tuple(name for name, own in there.items() if getattr(own, key) == value)
    return {**found, **{name: (name,) for name in there}}


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
