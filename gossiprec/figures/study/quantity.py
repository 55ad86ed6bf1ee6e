"""A quantity of a study: a measure and, if it belongs to an attack, the attack's labels."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any

from gossiprec.figures.study.labels import is_share, measure_label, observer_label, rule_label
from gossiprec.measures.selectors import FILTERS

Label = Any
"""A value of an axis in the table: text, a number, true or false, or None."""


@dataclass(frozen=True)
class Quantity:
    """A measure, with the labels of an attack if it belongs to one."""

    name: str
    observer: str | None = None
    relevance: str | None = None
    momentum: float | None = None
    community_size: int | None = None
    others: tuple[tuple[str, Any], ...] = ()

    @property
    def labels(self) -> dict[str, Any]:
        """All labels of the quantity."""
        told = {name: getattr(self, name) for name in FILTERS if getattr(self, name) is not None}
        return told | dict(self.others)

    def words(self) -> str:
        """Return the name with its labels, for error messages and tables."""
        parts = [self.observer, self.relevance]
        parts += [f"β {self.momentum:g}" if self.momentum is not None else None]
        parts += [f"K {self.community_size}" if self.community_size is not None else None]
        parts += [f"{name} {format_label(value)}" for name, value in self.others]
        told = ", ".join(part for part in parts if part)
        return f"{self.name} ({told})" if told else self.name

    def about(self, *, without: Container[str] = ()) -> str:
        """Return the labels as text, except for some."""
        said = {"observer": observer_label, "relevance": rule_label}
        signs = {"community_size": "K"}
        return ", ".join(
            said[name](value) if name in said else f"{signs.get(name, name)} {format_label(value)}"
            for name, value in self.labels.items()
            if name not in without
        )

    def text(self) -> str:
        """Return the form in which it is requested: ``max_aac[single,ndcg,0.9,5]``."""
        told = [format_label(self.labels.get(name, "*")) for name in FILTERS]
        while told and told[-1] == "*":
            told.pop()
        inside = ",".join([*told, *(f"{name}={format_label(value)}" for name, value in self.others)])
        return f"{self.name}[{inside}]" if inside else self.name

    @property
    def is_share(self) -> bool:
        """Whether the measure is a fraction that pictures show in percent."""
        return is_share(self.name)

    @property
    def unit(self) -> str:
        """The label of its axis."""
        words = measure_label(self.name)
        return f"{words} (%)" if self.is_share else words

    @property
    def factor(self) -> float:
        """The factor from table values to picture values."""
        return 100.0 if self.is_share else 1.0

    def cells(self) -> list[Any]:
        """Return the quantity as the first cells of a csv row."""
        told = ",".join(f"{name}={format_label(value)}" for name, value in self.others)
        return [
            f"{self.name}[{told}]" if told else self.name,
            *(self.labels.get(name, "") for name in FILTERS),
        ]


def format_label(label: Label) -> str:
    """Return the text of a label in pictures."""
    if isinstance(label, bool):
        return str(label).lower()
    return f"{label:g}" if isinstance(label, float) else str(label)
