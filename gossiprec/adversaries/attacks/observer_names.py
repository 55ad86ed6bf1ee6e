"""Names of observers in a run's tables, which a study needs to know before the run."""

from __future__ import annotations

from typing import Any

import numpy as np

from gossiprec.measures.selectors import FILTERS

TableKey = tuple[str, str, float, int]
"""Observer, relevance, momentum and community size, which together identify a row of a run's attacks."""


def key_to_labels(key: TableKey) -> dict[str, Any]:
    """Return a key as labels."""
    return dict(zip(FILTERS, key, strict=True))


def observer_names(options: Any) -> list[str]:
    """Return the names of the observers that :class:`.scoring_attack.ObserverOptions` describe."""
    if options.who == "coordinator":
        return ["coordinator"]
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
