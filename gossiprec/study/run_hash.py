"""The identity of runs: the hash of a scenario, and simulations that several variants share.

A hash covers every scenario key that can change a result, and no other. Variants that differ only in observers, which
do not affect a run, share a simulation.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args, get_origin

from pydantic.fields import FieldInfo

from gossiprec.adversaries.attacks import ATTACKS
from gossiprec.adversaries.attacks.findings import TableKey, key_to_labels
from gossiprec.base.options import Options
from gossiprec.measures.selectors import attack_key
from gossiprec.scenario.definition import RegisteredChoice, Scenario
from gossiprec.scenario.registries import scenario_plugins

NO_MATTER = ("name", "plots", "checkpoint")
"""Keys of a scenario that change no result."""
NO_MATTER_IN = {"executor": ("threads", "wave_size", "shards", "address")}
LENGTH = 16
"""Hexadecimal digits of a hash: among a million runs, two collide with probability 3e-8."""


def result_identity(scenario: Scenario) -> dict[str, Any]:
    """Return the part of a scenario that affects results, as plain data.

    Notes ----- Values equal to their defaults are left out: a new key with a default leaves the hashes of old
    scenarios unchanged. A changed default is not seen here, but changes the code version. Observers are sorted,
    because their order has no effect. A plug-in is included with its distribution and version.
    """
    plain: dict[str, Any] = {"seed": scenario.seed}
    for key in type(scenario).model_fields:
        value = getattr(scenario, key)
        if key in NO_MATTER or key == "seed":
            continue
        if isinstance(value, Options):
            plain[key] = {
                k: v for k, v in non_default_options(value).items() if k not in NO_MATTER_IN.get(key, ())
            }
        elif isinstance(value, tuple):
            plain[key] = [_plain(item) for item in value]
        else:
            plain[key] = value
    plain["observers"] = sorted(plain["observers"], key=canonical_json)
    plain["plugins"] = {name: about["version"] for name, about in scenario_plugins(scenario).items()}
    return {key: value for key, value in plain.items() if value not in ({}, [], None)}


def hash_plain_data(plain: Any) -> str:
    """Return the hash of plain data, the same in every process and version."""
    return hashlib.sha256(canonical_json(plain).encode()).hexdigest()[:LENGTH]


def run_hash(scenario: Scenario) -> str:
    """Return the hash by which a finished run of this scenario is recognised."""
    return hash_plain_data(result_identity(scenario))


def canonical_json(plain: Any) -> str:
    """Return plain data as JSON text with sorted keys."""
    return json.dumps(plain, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if isinstance(value, Options):
        return non_default_options(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return value


def non_default_options(options: Options) -> dict[str, Any]:
    """Return the options that differ from their defaults, and the tag that distinguishes kinds."""
    if isinstance(options, RegisteredChoice):
        defaults = {field.name: field.default for field in _known_fields(type(options))}
        own = {key: _plain(v) for key in options.own_keys() if (v := getattr(options, key)) != defaults[key]}
        return {"name": options.name, **own, **non_default_options(options.options)}
    values = [(field, getattr(options, field.name)) for field in _known_fields(type(options))]
    changed = [(field, value) for field, value in values if field.is_tag or value != field.default]
    dumped = options.model_dump(mode="json", by_alias=True, include={field.name for field, _ in changed})
    return {
        field.alias: _plain(value) if _holds_options(value) else dumped[field.alias]
        for field, value in changed
    }


class _Field(NamedTuple):
    name: str
    alias: str
    default: Any
    is_tag: bool


@functools.cache
def _known_fields(kind: type[Options]) -> tuple[_Field, ...]:
    """Return the fields of a kind of options; pydantic takes long to return their defaults."""
    return tuple(
        _Field(name, info.alias or name, info.get_default(call_default_factory=True), _is_tag(info))
        for name, info in kind.model_fields.items()
    )


def _is_tag(info: FieldInfo) -> bool:
    """Return whether a field has one possible value: it is the tag of a kind, and two kinds may have equal options."""
    return get_origin(info.annotation) is Literal and len(get_args(info.annotation)) == 1


def _holds_options(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_holds_options(item) for item in value.values())
    return isinstance(value, Options) or (isinstance(value, tuple) and any(_holds_options(v) for v in value))


OPTIONS_IN_KEY = (
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

    def split_by_variant(self, scenarios: Mapping[str, Scenario]) -> list[SharedSimulation]:
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
        if any(observer_table_keys(choice) is None for choice in scenario.adversaries):
            return False
        for choice in scenario.observers:
            keys = observer_table_keys(choice)
            if keys is None:
                return False
            same = _options_beyond_key(choice)
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
            return SharedSimulation(self.serves[0], self.scenario, tuple(self.serves))
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
    observers = {canonical_json(_plain(scenario.observers)) for scenario in scenarios.values()}
    if not merge or len(observers) < 2:
        return [SharedSimulation(hash_, scenario, (hash_,)) for hash_, scenario in scenarios.items()]
    groups: dict[str, list[_Shared]] = {}
    order: list[_Shared] = []
    for hash_, scenario in scenarios.items():
        plain = result_identity(scenario)
        plain.pop("observers", None)
        group = groups.setdefault(hash_plain_data(plain), [])
        if not any(shared.takes(hash_, scenario) for shared in group):
            shared = _Shared(scenario)
            if not shared.takes(hash_, scenario):
                shared.serves.append(
                    hash_
                )  # its attacks' names are not known before the run: it runs by itself
            else:
                group.append(shared)
            order.append(shared)
    return [shared.simulation() for shared in order]


def observer_table_keys(choice: RegisteredChoice) -> frozenset[TableKey] | None:
    """Return the keys of the rows of an observer; None if they are unknown before the run, or if it ranks no user.

    No key distinguishes findings of an attack without ranking from other findings, so its runs serve no other
    variant.
    """
    return ATTACKS[choice.name].table_keys(choice.options) or None


def scenario_table_keys(scenario: Scenario) -> list[TableKey] | None:
    """Return the table keys of the rows of all attacks, in order, or None if they are unknown before the run."""
    keys: list[TableKey] = []
    for choice in (*scenario.observers, *scenario.adversaries):
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


def _options_beyond_key(choice: RegisteredChoice) -> str:
    """Return the options that an observer's table key does not hold, as text that equal observers share."""
    return canonical_json(
        {key: value for key, value in non_default_options(choice).items() if key not in OPTIONS_IN_KEY}
    )
