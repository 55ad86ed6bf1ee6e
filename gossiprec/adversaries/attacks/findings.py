"""Findings: the numbers that an attack reports in tidy form, with labels; and the names of observers among the labels.

Rankings and guesses (:mod:`gossiprec.adversaries.attacks`) are the two richer kinds: they are joined with the ground
truth, which no attack sees. A finding is a number that the attack computes by itself. A study needs to know the names
of observers, and the keys of table rows, before the run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gossiprec.base.arrays import F64, I64
from gossiprec.measures.selectors import FILTERS

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
        if self.per_node is not None and len(np.unique(self.per_node[0])) < len(self.per_node[0]):
            raise ValueError(f"{self.measure} has two values for a node; report one value per node")
        object.__setattr__(self, "labels", plain)


def _is_label(value: object) -> bool:
    if isinstance(value, str):
        return value.isprintable() and value == value.strip() != "" and not _UNSPEAKABLE.search(value)
    return isinstance(value, int | float) and math.isfinite(value)


TableKey = tuple[str, str, float, int]
"""Observer, relevance, momentum and community size, which together identify a row of a run's attacks."""


def key_to_labels(key: TableKey) -> dict[str, Any]:
    """Return a key as labels."""
    return dict(zip(FILTERS, key, strict=True))


def observer_names(options: Any) -> list[str]:
    """Return the names of the observers that :class:`.scoring_attack.ObserverOptions` describe."""
    if options.who in ("coordinator", "heads"):
        return [options.who]
    if options.who == "single":
        if options.nodes == "all":
            return ["single"]
        if isinstance(options.nodes, tuple):
            return [f"single-{len(set(options.nodes))}-nodes"]
        return [f"single-{100 * options.nodes.fraction:g}%"]
    if options.members is not None:
        return [f"coalition-{len(set(options.members))}-nodes"]
    return [
        f"coalition-{100 * fraction:g}%{_placed(how, victim, options.placement_until)}"
        for fraction in as_unique_list(options.fraction)
        for how, victim in placement_specs(options)
    ]


def placement_specs(options: Any) -> list[tuple[str, int | None]]:
    """Return each placement of colluders, an eclipse once for each victim."""
    victims = [] if options.victim is None else as_unique_list(options.victim)
    return [
        (how, victim)
        for how in as_unique_list(options.placement)
        for victim in (victims if how == "eclipse" else (None,))
    ]


def _placed(how: str, victim: int | None, until: float | None) -> str:
    if how == "random":
        return ""
    around = "" if victim is None else f"-{victim}"
    return f"-{how}{around}" + ("" if until is None else f"-until-{until:g}")


def as_unique_list(value: Any) -> list[Any]:
    """Return the distinct values of an option that holds one or several."""
    return list(dict.fromkeys(value if isinstance(value, tuple) else (value,)))


def shortest_decimal(value: np.float32) -> float:
    """Return a float32 as the shortest decimal number that rounds to it."""
    return float(np.format_float_positional(value))
