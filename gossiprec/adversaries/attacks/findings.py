"""Findings: the numbers that an attack reports in tidy form, with labels.

Rankings and guesses (:mod:`.attacks.base`) are the two richer kinds: they are joined with the ground truth,
which no attack sees. A finding is a number that the attack computes by itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gossiprec.base.arrays import F64, I64

Label = str | int | float | bool

RATES = ("mia_accuracy", "mia_precision", "mia_recall")
"""Measures of membership guesses, computed by joining them with the ground truth."""

_MEASURE = re.compile(r"[A-Za-z0-9_.]+", re.ASCII)
_UNSPEAKABLE = re.compile(r"[\[\],]")
"""Characters that are not allowed in ``measure[label=value,...]``, with which studies and figures choose findings."""


@dataclass(frozen=True)
class Finding:
    """A number at one moment of a run.

    Attributes
    ----------
    measure : str
        Its name: letters, digits, ``_`` and ``.``.
    labels : mapping of str to str, int, float or bool
        Labels that distinguish it from others of its measure and attack, such as observer, relevance, momentum.
    value : float
        NaN if it is not known.
    per_node : (nodes, values), optional
        Node ids, shape (n,), and one value per node: the parts of the number, for ``positions.csv``.

    Raises
    ------
    ValueError
        If measure or labels cannot be written, or chosen by a study.
    """

    measure: str
    labels: Mapping[str, Label]
    value: float
    per_node: tuple[I64, F64] | None = None

    def __post_init__(self) -> None:
        if not _MEASURE.fullmatch(self.measure):
            raise ValueError(f"a finding is named {self.measure!r}; use letters, digits, '_' and '.'")
        plain = {key: v.item() if isinstance(v, np.generic) else v for key, v in self.labels.items()}
        for key, value in plain.items():
            if not key.isidentifier() or not _is_label(value):
                raise ValueError(
                    f"{self.measure} has the label {key!r}: {value!r}; use a name of letters, digits and '_', and text "
                    "without ',', '[' and ']', a finite number, or true or false"
                )
        if self.per_node is not None and len(self.per_node[0]) != len(self.per_node[1]):
            raise ValueError(
                f"{self.measure} has {len(self.per_node[1])} values for {len(self.per_node[0])} "
                "nodes; report one value per node"
            )
        object.__setattr__(self, "labels", plain)


def _is_label(value: object) -> bool:
    if isinstance(value, str):
        return value.isprintable() and value == value.strip() != "" and not _UNSPEAKABLE.search(value)
    return isinstance(value, int | float) and math.isfinite(value)
