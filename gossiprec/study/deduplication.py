"""Sharing of simulations by variants that differ only in observers, which do not affect a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gossiprec.adversaries.attacks import ATTACKS
from gossiprec.adversaries.attacks.observer_names import TableKey, key_to_labels
from gossiprec.runs.adversaries import attack_key
from gossiprec.scenario.definition import RegisteredChoice, Scenario
from gossiprec.study.run_hash import (
    canonical_json,
    hash_plain_data,
    non_default_options,
    result_identity,
    run_hash,
)

TOLD_BY_KEY = (
    "momentum", "community_size", "relevance", "threshold", "fraction", "placement", "victim", "placement_until",
)  # fmt: skip
"""Observer options that the table key holds; two observers are the same only if all other options agree."""


@dataclass(frozen=True)
class SharedSimulation:
    """One simulation and the variants it serves.

    Attributes
    ----------
    hash : str
        Hash of its scenario, which is the name of its folder.
    scenario : Scenario
        Scenario with the observers of all variants.
    serves : tuple of str
        Hashes of the variants.
    """

    hash: str
    scenario: Scenario
    serves: tuple[str, ...]

    def apart(self, scenarios: Mapping[str, Scenario]) -> list[SharedSimulation]:
        """Return one simulation per variant served, given the variants' scenarios by hash."""
        return [SharedSimulation(hash_, scenarios[hash_], (hash_,)) for hash_ in self.serves]


@dataclass
class _Shared:
    """Observers gathered for one simulation."""

    scenario: Scenario
    serves: list[str] = field(default_factory=list)
    observers: list[RegisteredChoice] = field(default_factory=list)
    known: dict[TableKey, str] = field(default_factory=dict)

    def takes(self, hash_: str, scenario: Scenario) -> bool:
        """Add a variant's observers if all remain distinguishable; return whether they were added."""
        known, more = dict(self.known), []
        for choice in scenario.observers:
            keys = observer_table_keys(choice)
            if keys is None:
                return False
            same = _beside_key(choice)
            if all(known.get(key) == same for key in keys):
                continue
            if any(key in known for key in keys):
                return False
            known.update(dict.fromkeys(keys, same))
            more.append(choice)
        self.known = known
        self.observers += more
        self.serves.append(hash_)
        return True

    def simulation(self) -> SharedSimulation:
        if len(self.serves) == 1:
            return SharedSimulation(run_hash(self.scenario), self.scenario, tuple(self.serves))
        merged = self.scenario.with_(observers=tuple(self.observers))
        return SharedSimulation(run_hash(merged), merged, tuple(self.serves))


def deduplicate(scenarios: Mapping[str, Scenario], *, merge: bool = True) -> list[SharedSimulation]:
    """Return the fewest simulations that serve all variants.

    Parameters
    ----------
    scenarios : mapping of str to Scenario
        Scenarios of the variants, by hash.
    merge : bool
        Whether one simulation may serve variants with different observers.
    """
    if not merge:
        return [SharedSimulation(hash_, scenario, (hash_,)) for hash_, scenario in scenarios.items()]
    groups: dict[str, list[_Shared]] = {}
    order: list[_Shared] = []
    for hash_, scenario in scenarios.items():
        told = result_identity(scenario)
        told.pop("observers", None)
        alike = groups.setdefault(hash_plain_data(told), [])
        if not any(shared.takes(hash_, scenario) for shared in alike):
            shared = _Shared(scenario)
            if not shared.takes(hash_, scenario):
                shared.serves.append(
                    hash_
                )  # its observers' names are not known before the run: it runs by itself
            else:
                alike.append(shared)
            order.append(shared)
    return [shared.simulation() for shared in order]


def observer_table_keys(choice: RegisteredChoice) -> frozenset[TableKey] | None:
    """Return the keys of the rows of an observer; None if they are unknown before the run, or if it ranks no user.

    No key distinguishes findings of an attack without ranking from other findings, so its runs serve no other
    variant.
    """
    return ATTACKS[choice.name].table_keys(choice.options) or None


def scenario_table_keys(scenario: Scenario) -> list[TableKey] | None:
    """Return the table keys of the rows of all observers, in order, or None if they are unknown before the run."""
    keys: list[TableKey] = []
    for choice in scenario.observers:
        own = observer_table_keys(choice)
        if own is None:
            return None
        keys += sorted(own)
    return keys


def duplicate_observers(scenario: Scenario) -> Iterator[tuple[int, str]]:
    """Yield index and name of observers with the same name as an earlier one of the scenario."""
    seen: set[TableKey] = set()
    for index, choice in enumerate(scenario.observers):
        keys = observer_table_keys(choice) or frozenset()
        double = sorted(keys & seen)
        if double:
            yield index, attack_key(**key_to_labels(double[0]))
        seen |= keys


def _beside_key(choice: RegisteredChoice) -> str:
    """Return the options that an observer's table key does not hold, as text that equal observers share."""
    return canonical_json(
        {key: value for key, value in non_default_options(choice).items() if key not in TOLD_BY_KEY}
    )
