"""The hash that identifies a run: it covers every scenario key that can change a result, and no other."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from gossiprec.base.options import Options
from gossiprec.scenario.definition import RegisteredChoice, Scenario
from gossiprec.scenario.plugins import scenario_plugins

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
    told: dict[str, Any] = {"seed": scenario.seed}
    for key in type(scenario).model_fields:
        value = getattr(scenario, key)
        if key in NO_MATTER or key == "seed":
            continue
        if isinstance(value, Options):
            told[key] = {
                k: v for k, v in non_default_options(value).items() if k not in NO_MATTER_IN.get(key, ())
            }
        elif isinstance(value, tuple):
            told[key] = [_plain(item) for item in value]
        else:
            told[key] = value
    told["observers"] = sorted(told["observers"], key=canonical_json)
    told["plugins"] = {name: about["version"] for name, about in scenario_plugins(scenario).items()}
    return {key: value for key, value in told.items() if value not in ({}, [], None)}


def hash_plain_data(told: Any) -> str:
    """Return the hash of plain data, the same in every process and version."""
    return hashlib.sha256(canonical_json(told).encode()).hexdigest()[:LENGTH]


def run_hash(scenario: Scenario) -> str:
    """Return the hash by which a finished run of this scenario is recognised."""
    return hash_plain_data(result_identity(scenario))


def canonical_json(told: Any) -> str:
    """Return plain data as JSON text with sorted keys."""
    return json.dumps(told, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


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
        own = {
            key: _plain(v)
            for key in options.own_keys()
            if (v := getattr(options, key)) != _default(options, key)
        }
        return {"name": options.name, **own, **non_default_options(options.options)}
    dumped = options.model_dump(mode="json", by_alias=True)
    told = {}
    for name, info in type(options).model_fields.items():
        value, alias = getattr(options, name), info.alias or name
        if _is_tag(info) or value != _default(options, name):
            told[alias] = _plain(value) if _holds_options(value) else dumped[alias]
    return told


def _default(options: Options, name: str) -> Any:
    return type(options).model_fields[name].get_default(call_default_factory=True)


def _is_tag(info: FieldInfo) -> bool:
    """Return whether a field has one possible value: it is the tag of a kind, and two kinds may have equal options."""
    return get_origin(info.annotation) is Literal and len(get_args(info.annotation)) == 1


def _holds_options(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_holds_options(item) for item in value.values())
    return isinstance(value, Options) or (isinstance(value, tuple) and any(_holds_options(v) for v in value))
