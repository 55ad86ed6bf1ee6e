"""Models of the records of runs and studies: of ``manifest.json``, ``summary.json`` and ``study.json``.

They hold the keys that other code reads. All keys are optional but those without a default; other keys are allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, GetPydanticSchema, ValidationError, create_model
from pydantic_core import core_schema

from gossiprec.base.errors import LogError
from gossiprec.base.text import format_value, shorten_words
from gossiprec.runs.run_files import STATUSES


def _expected(words: str) -> GetPydanticSchema:
    """Return the annotation of a kind of value, with the words for it in messages."""
    return GetPydanticSchema(
        lambda kind, handler: core_schema.custom_error_schema(
            handler(kind), custom_error_type="kind", custom_error_message=words
        )
    )


Text = Annotated[str, _expected("text")]
Count = Annotated[int, Field(ge=0), _expected("a whole number from 0")]
Size = Annotated[float, _expected("a number")]
Number = Annotated[float | None, _expected("a number or null")]
Label = Annotated[str | bool | int | float | None, _expected("a label")]
Status = Annotated[str, Field(pattern=f"^({'|'.join(STATUSES)})$"), _expected(", ".join(STATUSES))]
Numbers: TypeAlias = dict[str, Number]
Labels: TypeAlias = dict[str, Label]
Mappings: TypeAlias = list[dict[str, Any]]


class Record(BaseModel):
    """A mapping in a record."""

    model_config = ConfigDict(strict=True, extra="allow")


class _FileDigest(Record):
    bytes: Count
    sha256: Text


def _keys(kind: Any, *names: str) -> dict[str, Any]:
    """Return optional keys with one kind of value, as fields of a model."""
    return dict.fromkeys(names, (kind, None))


Manifest: type[Record] = create_model(
    "Manifest",
    __base__=Record,
    status=(Status, ...),
    code=(Text, ...),
    plugins=(dict[str, Labels], ...),
    inputs=(dict[str, Labels], ...),
    packages=(dict[str, Text], ...),
    data=(dict[str, Any], ...),
    files=(dict[str, _FileDigest], ...),
    **_keys(Count | None, "seed"),
    **_keys(dict[str, Any] | None, "stopped", "observes"),
    **_keys(Labels | None, "writer"),
    **_keys(list[Text] | None, "notes"),
    **_keys(Mappings | None, "resumed", "changes"),
)
"""A manifest; the keys that may be left out may be null, too."""


class _AttackRow(Record):
    __pydantic_extra__: Labels = Field(init=False)
    observer: Text
    relevance: Text
    momentum: Number
    community_size: Count
    max_aac: Number


class _FindingRow(Record):
    attack: Text
    measure: Text
    labels: Labels
    value: Number


class _Network(Record):
    dropped: Numbers = {}


class _Privacy(Record):
    __pydantic_extra__: Labels = Field(init=False)
    told_rows: Numbers | None = None
    nodes: Count = 0
    delta: Number = None


class _BestReport(Record):
    value: Size
    round: Count


class _Stop(Record):
    round: Count
    patience: Count
    measure: Text
    best: _BestReport | None = None


Summary: type[Record] = create_model(
    "Summary",
    __base__=Record,
    **_keys(Text, "scenario", "status", "dataset", "executor"),
    **_keys(Count, "seed", "nodes", "items", "interactions", "poisoners", "coordinator", "threads"),
    **_keys(Count, "wakes", "messages", "node_updates"),
    **_keys(Size, "virtual_time", "wall_seconds", "peak_rss_mib"),
    **_keys(Numbers, "seconds", "needed_mib", "utility", "bytes", "checkpoints"),
    **_keys(list[_AttackRow], "attacks"),
    **_keys(list[_FindingRow], "findings"),
    **_keys(list[Text], "notes"),
    **_keys(Mappings, "membership"),
    **_keys(_Network, "network"),
    **_keys(_Privacy | None, "privacy"),
    **_keys(_Stop, "stopped"),
)
StudyMark: type[Record] = create_model(
    "StudyMark",
    __base__=Record,
    gossiprec=(Text, ...),
    study=(Text, ...),
    **_keys(Text, "status"),
    **_keys(list[Text], "axes"),
    **_keys(Labels, "baseline", "writer"),
    **_keys(dict[str, Text], "words"),
    **_keys(Count, "simulations", "finished"),
)


_KINDS = {"list_type": "a list", **dict.fromkeys(("dict_type", "model_type"), "a mapping")}
Checked = TypeVar("Checked")


def check_record(
    path: Path, found: Mapping[str, Any], validate: Callable[[Any], Checked], step: str
) -> Checked:
    """Return a record as its model has it, and refuse one of another structure.

    Parameters
    ----------
    path : Path
        The file, for the message.
    found : mapping
        Its content.
    validate : callable
        Validates the content by a model.
    step : str
        What the user can do, for the message.

    Raises
    ------
    LogError
        Naming the first key that is missing or has another kind of value.
    """
    try:
        return validate(found)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(map(str, first["loc"])) or "the record"
        expected = _KINDS.get(first["type"], first["msg"].removeprefix("Input should be "))
        fault = f"{name} is {format_value(first['input'])}; expected {expected}"
        if first["type"] == "missing":
            fault = f"{name} is missing"
        raise LogError(f"{path}: {shorten_words(fault)}; {step}") from None
