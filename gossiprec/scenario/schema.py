"""The JSON Schema of a scenario, for completion, hover texts and validation in editors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from gossiprec.base.options import Options, options_class
from gossiprec.base.registry import Registry
from gossiprec.scenario.definition import (
    FIXED,
    AdversaryChoice,
    AttackerChoice,
    DatasetChoice,
    PolicyChoice,
    RegisteredChoice,
    ScenarioHeader,
)
from gossiprec.scenario.registries import Registries
from gossiprec.scenario.yaml_source import preset_names

DIALECT = "https://json-schema.org/draft/2020-12/schema"

LISTS = {"policies": "policy", "attackers": "poisoner", "adversaries": "adversary", "observers": "observer"}
"""The kind of the entries of each list in a scenario."""


def json_schema(registries: Registries | None = None) -> dict[str, Any]:
    """Return the JSON Schema of a scenario, with one alternative for each registered thing.

    Parameters
    ----------
    registries : Registries, optional
        The things a scenario can name; gossiprec's own if not given.
    """
    things = registries or Registries()
    kinds: dict[str, tuple[Registry[Any], type[RegisteredChoice]]] = {
        "split": (things.splits, RegisteredChoice),  # first: data sets refer to it
        "dataset": (things.datasets, DatasetChoice),
        "model": (things.models, RegisteredChoice),
        "recommender": (things.recommenders, RegisteredChoice),
        "protocol": (things.protocols, RegisteredChoice),
        "policy": (things.policies, PolicyChoice),
        "poisoner": (things.poisoners, AttackerChoice),
        "adversary": (things.attacks, AdversaryChoice),
        "observer": (things.attacks, RegisteredChoice),
    }
    members = {
        (kind, name): options_class(registry, name)
        for kind, (registry, _) in kinds.items()
        for name, _ in registry.members()
    }
    choices = (DatasetChoice, PolicyChoice, AttackerChoice, AdversaryChoice)
    schemas = _Schemas([*members.values(), *FIXED.values(), *choices, ScenarioHeader])
    for (kind, name), options in members.items():
        schemas.add_member(kind, name, options, kinds[kind][1])
    one_of = {kind: schemas.one_of(kind, [name for of, name in members if of == kind]) for kind in kinds}
    whole = {
        "$schema": DIALECT,
        "title": "gossiprec scenario",
        "type": "object",
        "properties": {
            **schemas.properties(ScenarioHeader),
            "preset": {"enum": preset_names(), "description": "Preset: values that this file overrides."},
            **{key: one_of[key] for key in ("dataset", "model", "protocol")},
            "recommender": {"anyOf": [one_of["recommender"], {"type": "null"}], "default": None},
            **{key: {"type": "array", "default": [], "items": one_of[kind]} for key, kind in LISTS.items()},
            **{
                key: {**schemas.ref(section), "default": section().model_dump(mode="json")}
                for key, section in FIXED.items()
            },
        },
        "required": ["name", "dataset"],
        "anyOf": [{"required": ["preset"]}, {"required": ["model", "protocol"]}],
        "additionalProperties": False,
    }
    return {**whole, "$defs": schemas.used_by(whole)}


class _Schemas:
    """Pydantic's schemas of many option sets, and the definitions composed of them."""

    def __init__(self, models: list[type[BaseModel]]) -> None:
        wanted = [(model, "validation") for model in dict.fromkeys(models)]
        refs, whole = models_json_schema(wanted)  # type: ignore[arg-type]
        self.definitions: dict[str, Any] = whole.get("$defs", {})
        self._refs = {model: ref for (model, _), ref in refs.items()}

    def ref(self, model: type[BaseModel]) -> dict[str, Any]:
        return dict(self._refs[model])

    def properties(self, model: type[BaseModel]) -> dict[str, Any]:
        return dict(self._definition(model).get("properties", {}))

    def add_member(
        self, kind: str, name: str, options: type[Options], section: type[RegisteredChoice]
    ) -> None:
        """Define a member's section: its options, the section's own keys, and the one name it has."""
        own = {key: self._own_key(section, key) for key in section.own_keys()}
        definition = self._definition(options)
        self.definitions[f"{kind}.{name}"] = {
            **definition,
            "title": f"{kind} {name}",
            "properties": {"name": {"const": name}, **own, **definition.get("properties", {})},
            "required": ["name", *(["split"] if "split" in own else []), *definition.get("required", [])],
            "additionalProperties": False,
        }

    def one_of(self, kind: str, names: list[str]) -> dict[str, Any]:
        return {"oneOf": [{"$ref": f"#/$defs/{kind}.{name}"} for name in names]} if names else {"not": {}}

    def used_by(self, schema: Any) -> dict[str, Any]:
        """Return the definitions that `schema` refers to, directly or through others."""
        used: dict[str, Any] = {}
        waiting = list(_references(schema))
        while waiting:
            name = waiting.pop()
            if name not in used:
                used[name] = self.definitions[name]
                waiting.extend(_references(used[name]))
        return dict(sorted(used.items()))

    def _own_key(self, section: type[RegisteredChoice], key: str) -> Any:
        if key == "split":
            names = [name.removeprefix("split.") for name in self.definitions if name.startswith("split.")]
            return self.one_of("split", names)
        return self.properties(section)[key]

    def _definition(self, model: type[BaseModel]) -> dict[str, Any]:
        return dict(self.definitions[self._refs[model]["$ref"].rsplit("/", 1)[-1]])


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].removeprefix("#/$defs/")
        for inner in schema.values():
            yield from _references(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _references(inner)
