"""Variants that differ only in who observes share one simulation: observers only look."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gossiprec.attacks import ATTACKS
from gossiprec.attacks.naming import TableKey, labels_of
from gossiprec.eventlog.adversaries import attack_key
from gossiprec.scenario.model import Choice, Scenario
from gossiprec.study.identity import canonical, hash_of, identity, run_hash, said

TOLD_BY_KEY = (
    "momentum", "community_size", "relevance", "threshold", "fraction", "placement", "victim", "placement_until",
)  # fmt: skip
"""Options of an observer whose values its table key tells; all others must agree for two observers to be the same."""


@dataclass(frozen=True)
class Simulation:
    """One simulation and the variants it serves.

    Attributes
    ----------
    hash : str
        Of its scenario; names its folder.
    scenario : Scenario
        With the observers of all variants.
    serves : tuple of str
        Hashes of the variants.
    """

    hash: str
    scenario: Scenario
    serves: tuple[str, ...]

    def apart(self, scenarios: Mapping[str, Scenario]) -> list[Simulation]:
        """Return a simulation for each variant served, given the variants' scenarios by hash."""
        return [Simulation(hash_, scenarios[hash_], (hash_,)) for hash_ in self.serves]


@dataclass
class _Shared:
    """Observers gathered for one simulation."""

    scenario: Scenario
    serves: list[str] = field(default_factory=list)
    observers: list[Choice] = field(default_factory=list)
    known: dict[TableKey, str] = field(default_factory=dict)

    def takes(self, hash_: str, scenario: Scenario) -> bool:
        """Add a variant's observers if none of them would be mistaken for another; say whether that was done."""
        known, more = dict(self.known), []
        for choice in scenario.observers:
            keys = table_keys(choice)
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

    def simulation(self) -> Simulation:
        if len(self.serves) == 1:
            return Simulation(run_hash(self.scenario), self.scenario, tuple(self.serves))
        merged = self.scenario.with_(observers=tuple(self.observers))
        return Simulation(run_hash(merged), merged, tuple(self.serves))


def share(scenarios: Mapping[str, Scenario], *, merge: bool = True) -> list[Simulation]:
    """Return as few simulations as serve all variants.

    Parameters
    ----------
    scenarios : mapping of str to Scenario
        By hash.
    merge : bool
        Whether one may serve variants with different observers.
    """
    if not merge:
        return [Simulation(hash_, scenario, (hash_,)) for hash_, scenario in scenarios.items()]
    groups: dict[str, list[_Shared]] = {}
    order: list[_Shared] = []
    for hash_, scenario in scenarios.items():
        told = identity(scenario)
        told.pop("observers", None)
        alike = groups.setdefault(hash_of(told), [])
        if not any(shared.takes(hash_, scenario) for shared in alike):
            shared = _Shared(scenario)
            if not shared.takes(hash_, scenario):
                shared.serves.append(hash_)  # its observers' names are not known ahead: it runs by itself
            else:
                alike.append(shared)
            order.append(shared)
    return [shared.simulation() for shared in order]


def table_keys(choice: Choice) -> frozenset[TableKey] | None:
    """Return the keys of the rows of an observer; None if they are not known before the run, or if it ranks nobody.

    No key tells findings of an attack that ranks nobody from those of others, so its runs serve no other variant.
    """
    return ATTACKS[choice.name].table_keys(choice.options) or None


def keys_of(scenario: Scenario) -> list[TableKey] | None:
    """Return what the rows of all observers will be called, in order; None: not known before the run."""
    keys: list[TableKey] = []
    for choice in scenario.observers:
        own = table_keys(choice)
        if own is None:
            return None
        keys += sorted(own)
    return keys


def clashes(scenario: Scenario) -> Iterator[tuple[int, str]]:
    """Yield the place and name of observers that are called like an earlier one of the same scenario."""
    seen: set[TableKey] = set()
    for index, choice in enumerate(scenario.observers):
        keys = table_keys(choice) or frozenset()
        double = sorted(keys & seen)
        if double:
            yield index, attack_key(**labels_of(double[0]))
        seen |= keys


def _beside_key(choice: Choice) -> str:
    """Return what an observer's table key does not tell, as text that equal observers share."""
    return canonical({key: value for key, value in said(choice).items() if key not in TOLD_BY_KEY})
