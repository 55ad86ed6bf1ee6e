"""How a number of a run is called: ``hr@20``, ``messages``, ``max_aac[single,standardized,0.99]``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

FILTERS = ("observer", "relevance", "momentum", "community_size")
"""What tells the attacks of a run apart, in the order in which filters come."""
OF_ATTACKS = (
    "max_aac", "at_round", "last_aac", "best10_min", "best10_mean", "upper_bound", "random_bound",
    "exposure_defended", "exposure_undefended",
)  # fmt: skip
MEMBERSHIP = "mia_"
OF_MEMBERSHIP = tuple(MEMBERSHIP + rate for rate in ("accuracy", "precision", "recall"))

_FORM = re.compile(r"\s*([A-Za-z0-9_@.]+)\s*(?:\[(.*)\])?\s*", re.DOTALL)
_KINDS: dict[str, type] = {"momentum": float, "community_size": int}


@dataclass(frozen=True)
class Measure:
    """A number of a run, or of those of its attacks that pass the filters.

    Attributes
    ----------
    name : str
    observer, relevance : str or None
        None: any.
    momentum : float or None
    community_size : int or None
    """

    name: str
    observer: str | None = None
    relevance: str | None = None
    momentum: float | None = None
    community_size: int | None = None

    @property
    def is_of_attacks(self) -> bool:
        """Whether it is a number of each attack."""
        return self.name in OF_ATTACKS or self.name in OF_MEMBERSHIP

    @property
    def is_filtered(self) -> bool:
        """Whether some attacks do not pass."""
        return any(getattr(self, name) is not None for name in FILTERS)

    def takes(self, key: Sequence[Any]) -> bool:
        """Say whether an attack passes, given observer, relevance, momentum and community size."""
        asked = (getattr(self, name) for name in FILTERS)
        return all(wanted is None or wanted == found for wanted, found in zip(asked, key, strict=True))


def read_measure(text: str) -> Measure:
    """Return the measure that `text` names; filters come in order (``*``: any) or as ``momentum=0.99``.

    Raises
    ------
    ValueError
        If it has another form; the message says which.
    """
    form = _FORM.fullmatch(text)
    if not form:
        raise ValueError(
            f"found {text!r}, must read name or name[observer,relevance,momentum,community_size]"
        )
    name, inside = form[1], form[2]
    chosen: dict[str, Any] = {}
    for place, part in enumerate([] if inside is None else inside.split(",")):
        key, value = _filter(part, place, inside)
        if key in chosen:
            raise ValueError(f"{key} is given twice in [{inside}]")
        chosen[key] = _value(key, value, inside)
    return Measure(name, **chosen)


def _filter(part: str, place: int, inside: str) -> tuple[str, str]:
    key, equals, value = (text.strip() for text in part.partition("="))
    if not equals and place < len(FILTERS):
        return FILTERS[place], part.strip()
    if key not in FILTERS:
        allowed = ", ".join(FILTERS)
        raise ValueError(
            f"found {part.strip()!r} in [{inside}]; filters are {allowed}, in this order or key=value"
        )
    return key, value


def _value(key: str, value: str, inside: str) -> Any:
    if value in ("", "*"):
        return None
    try:
        return _KINDS.get(key, str)(value)
    except ValueError:
        raise ValueError(f"found {value!r} for {key} in [{inside}], must be a number") from None
