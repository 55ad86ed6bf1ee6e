"""What a number of a study is: a measure, and of which attack."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any

from gossiprec.figures.study.labels import is_share, measure_label, observer_label, rule_label
from gossiprec.measures.selectors import FILTERS

Label = Any
"""What the table says of an axis: text, a number, true or false, or None."""


@dataclass(frozen=True)
class Quantity:
    """A measure, of one attack where it is one of attacks."""

    name: str
    observer: str | None = None
    relevance: str | None = None
    momentum: float | None = None
    community_size: int | None = None
    others: tuple[tuple[str, Any], ...] = ()

    @property
    def labels(self) -> dict[str, Any]:
        """All labels that it has."""
        told = {name: getattr(self, name) for name in FILTERS if getattr(self, name) is not None}
        return told | dict(self.others)

    def words(self) -> str:
        """Return its name with its labels, as error messages and tables say it."""
        parts = [self.observer, self.relevance]
        parts += [f"β {self.momentum:g}" if self.momentum is not None else None]
        parts += [f"K {self.community_size}" if self.community_size is not None else None]
        parts += [f"{name} {format_label(value)}" for name, value in self.others]
        told = ", ".join(part for part in parts if part)
        return f"{self.name} ({told})" if told else self.name

    def about(self, *, without: Container[str] = ()) -> str:
        """Return its labels in words, but for some."""
        said = {"observer": observer_label, "relevance": rule_label}
        signs = {"community_size": "K"}
        return ", ".join(
            said[name](value) if name in said else f"{signs.get(name, name)} {format_label(value)}"
            for name, value in self.labels.items()
            if name not in without
        )

    def text(self) -> str:
        """Return it as it is asked for: ``max_aac[single,ndcg,0.9,5]``."""
        told = [format_label(self.labels.get(name, "*")) for name in FILTERS]
        while told and told[-1] == "*":
            told.pop()
        inside = ",".join([*told, *(f"{name}={format_label(value)}" for name, value in self.others)])
        return f"{self.name}[{inside}]" if inside else self.name

    @property
    def is_share(self) -> bool:
        """Whether it is a fraction that pictures show in percent."""
        return is_share(self.name)

    @property
    def unit(self) -> str:
        """The label of its axis, in words."""
        words = measure_label(self.name)
        return f"{words} (%)" if self.is_share else words

    @property
    def factor(self) -> float:
        """What its values are multiplied by in pictures; tables keep them as they are."""
        return 100.0 if self.is_share else 1.0

    def cells(self) -> list[Any]:
        """Return it as the first cells of a csv row."""
        told = ",".join(f"{name}={format_label(value)}" for name, value in self.others)
        return [
            f"{self.name}[{told}]" if told else self.name,
            *(self.labels.get(name, "") for name in FILTERS),
        ]


def format_label(label: Label) -> str:
    """Return what a picture says of a label."""
    if isinstance(label, bool):
        return str(label).lower()
    return f"{label:g}" if isinstance(label, float) else str(label)
