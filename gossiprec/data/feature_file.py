"""Tables of attributes that a scenario names: their options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from gossiprec.base.options import Options

Kind = Literal["number", "label", "labels"]


class FeatureFile(Options):
    """A table of attributes, with a header: the name of a user or an item, then its attributes."""

    path: Path
    """Delimited text, plain, .gz or .zip; the first column has the names that the data use."""
    kinds: dict[str, Kind] = Field(default_factory=dict)
    """Kinds of columns: number; label; labels (several in a cell, separated by |); others are detected."""
    unlisted: Literal["refuse", "skip"] = "refuse"
    """How to treat lines about users or items that the data lack."""


@dataclass(frozen=True)
class FeatureFiles:
    """The tables that a scenario names; the data set's own files are read where it names none."""

    users: FeatureFile | None = None
    items: FeatureFile | None = None
