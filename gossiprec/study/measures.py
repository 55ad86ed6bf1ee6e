"""Which numbers of a run a study collects: ``hr@20``, ``messages``, ``max_aac[single,standardized,0.99]``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gossiprec.attacks.naming import TableKey
from gossiprec.errors import suggestion
from gossiprec.scenario.model import Scenario
from gossiprec.scenario.problems import Problems
from gossiprec.scenario.sections import METRIC
from gossiprec.study.load import Study
from gossiprec.study.sharing import keys_of

FILTERS = ("observer", "relevance", "momentum", "community_size")
OF_ATTACKS = ("max_aac", "at_round", "last_aac", "best10_min", "best10_mean", "upper_bound", "random_bound")
BY_DEFAULT = ("max_aac", "last_aac", "upper_bound", "random_bound")
OF_MEMBERSHIP = ("accuracy", "precision", "recall")
MEMBERSHIP = "mia_"
OF_RUNS = (
    "nodes", "items", "interactions", "wakes", "messages", "node_updates", "virtual_time", "privacy.nodes",
    "privacy.delta", "privacy.epsilon_max", "privacy.epsilon_mean", "privacy.noise_multiplier_min",
    "privacy.noise_multiplier_max",
)  # fmt: skip
VARYING = (
    "wall_seconds",
    "node_updates_per_second",
    "peak_rss_mib",
    "seconds",
    "attack_seconds",
    "needed_mib",
    "threads",
)
"""Keys of a summary that differ from run to run of one scenario: no measures."""

_FORM = re.compile(r"\s*([A-Za-z0-9_@.]+)\s*(?:\[(.*)\])?\s*", re.DOTALL)


@dataclass(frozen=True)
class Measure:
    """A number of a run, or of some of its attacks.

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
        return self.name in OF_ATTACKS or self.name.removeprefix(MEMBERSHIP) in OF_MEMBERSHIP

    def takes(self, key: TableKey) -> bool:
        """Say whether an attack is meant."""
        asked = (self.observer, self.relevance, self.momentum, self.community_size)
        return all(wanted is None or wanted == found for wanted, found in zip(asked, key, strict=True))


def parse_measures(study: Study, problems: Problems) -> list[Measure] | None:
    """Return the measures of a study file; None: it names none, all are collected."""
    texts = study.file.measures
    if texts is None:
        return None
    parsed = []
    for place, text in enumerate(texts):
        found = _parsed(text)
        if isinstance(found, str):
            problems.add(("measures", place), found)
        elif found in parsed:
            problems.add(("measures", place), f"found {text!r} a second time; remove one")
        else:
            parsed.append(found)
    return parsed


def check_measures(measures: Sequence[Measure], scenarios: Iterable[Scenario], problems: Problems) -> None:
    """Refuse measures that no run will have."""
    scenarios = list(scenarios)
    metrics = {metric for scenario in scenarios for metric in scenario.evaluate.metrics}
    found = [keys_of(scenario) for scenario in scenarios]
    keys = None if any(own is None for own in found) else {key for own in found for key in own or ()}
    for place, measure in enumerate(measures):
        at = ("measures", place)
        if METRIC.fullmatch(measure.name) and measure.name not in metrics:
            known = ", ".join(sorted(metrics))
            problems.add(at, f"no run measures {measure.name!r}: evaluate.metrics has {known}; add it there")
        elif measure.is_of_attacks and keys is not None and not any(map(measure.takes, keys)):
            there = ", ".join(sorted({f"{o}/{r}/b{m:g}/k{k}" for o, r, m, k in keys})) or "none"
            problems.add(
                at, f"no run has such an attack; there are (observer/relevance/momentum/size): {there}"
            )


def all_names(metrics: Iterable[str]) -> list[str]:
    """Return the names of the measures taken where a study names none."""
    return [*metrics, *BY_DEFAULT]


def _parsed(text: str) -> Measure | str:
    """Return the measure, or what is wrong with it."""
    form = _FORM.fullmatch(text)
    if not form:
        return f"found {text!r}, must read name or name[observer,relevance,momentum,community_size]"
    name, inside = form[1], form[2]
    if name.partition(".")[0] in VARYING:
        return f"{name!r} differs from run to run of the same scenario; look it up in the runs' summary.json"
    measure = Measure(name)
    if not (METRIC.fullmatch(name) or measure.is_of_attacks or name in OF_RUNS):
        known = [*OF_ATTACKS, *(MEMBERSHIP + m for m in OF_MEMBERSHIP), *OF_RUNS]
        return f"unknown measure {name!r}{suggestion(name, known)} (metrics such as hr@20, or: {', '.join(known)})"
    if inside is None:
        return measure
    if not measure.is_of_attacks:
        return f"{name!r} is a number of the whole run; leave out [{inside}]"
    return _filtered(name, inside)


def _filtered(name: str, inside: str) -> Measure | str:
    """Return an attack's measure with its filters, which come in order or as ``momentum=0.99``."""
    chosen: dict[str, Any] = {}
    for place, part in enumerate(inside.split(",")):
        key, equals, value = part.partition("=")
        key, value = (key.strip(), value.strip()) if equals else (FILTERS[min(place, 3)], part.strip())
        if key not in FILTERS or (not equals and place >= len(FILTERS)):
            return f"found {part.strip()!r} in [{inside}]; filters are {', '.join(FILTERS)}, in this order or key=value"
        if key in chosen:
            return f"{key} is given twice in [{inside}]"
        if value in ("", "*"):
            continue
        try:
            chosen[key] = {"momentum": float, "community_size": int}.get(key, str)(value)
        except ValueError:
            return f"found {value!r} for {key} in [{inside}], must be a number"
    return Measure(name, **chosen)
