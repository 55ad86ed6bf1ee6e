"""``search.json``: the record of a search, as it is read again from the folder of its study."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from gossiprec.base.errors import LogError
from gossiprec.runs.manifest import read_json
from gossiprec.runs.record_models import check_record

SEARCH = "search.json"


class TrialRecord(TypedDict):
    """A trial; see :class:`gossiprec.study.search.Trial`."""

    number: int
    labels: dict[str, Any]
    state: Literal["complete", "pruned", "failed"]
    value: float | None
    bounded: dict[str, float]
    violation: float | None
    early: list[float]


class AxisRecord(TypedDict, total=False):
    """The range of an axis, or its labels."""

    low: float
    high: float
    log: bool
    labels: list[Any]


class SearchRecord(TypedDict):
    """A search; see :class:`gossiprec.study.search.SearchResult`."""

    objective: str
    maximize: bool
    constraints: dict[str, str]
    code: str
    trials: list[TrialRecord]
    importances: dict[str, float]
    axes: dict[str, AxisRecord]
    best: int | None


_RECORD = TypeAdapter(SearchRecord)
_NEXT = "the file is damaged: delete it, and run the same search again (finished runs are kept)"


def read_search(folder: Path) -> SearchRecord | None:
    """Return the record of the search in the folder of a study, or None if there is none.

    Raises
    ------
    LogError
        If the file is damaged.
    """
    path = folder / SEARCH
    if not path.exists():
        return None
    found = check_record(path, read_json(path), _RECORD.validate_python, _NEXT)
    for place, trial in enumerate(found["trials"]):
        if trial["number"] != place or not found["axes"].keys() <= trial["labels"].keys():
            raise _damaged(
                path, f"trials.{place}: not the trial of this place, or without a value of each axis"
            )
        if trial["state"] == "complete" and trial["value"] is None:
            raise _damaged(path, f"trials.{place}: a complete trial without a value")
        for name, axis in found["axes"].items():
            label = trial["labels"][name]
            if not (label in axis["labels"] if "labels" in axis else isinstance(label, int | float)):
                raise _damaged(path, f"trials.{place}.labels.{name}: {label!r} is not on the axis")
    if found["best"] is not None and not 0 <= found["best"] < len(found["trials"]):
        raise _damaged(path, f"best: found {found['best']}, but there are {len(found['trials'])} trials")
    return found


def _damaged(path: Path, found: str) -> LogError:
    return LogError(f"{path}: {found}; expected the record of a search; {_NEXT}")
