"""The JSON Schema tells an editor what the loader will accept."""

from __future__ import annotations

import json

import pytest

from gossiprec.scenario import Scenario, json_schema


@pytest.fixture(scope="module")
def schema(registries):
    return json_schema(registries)


def alternatives(schema, section):
    return [schema["$defs"][ref["$ref"].removeprefix("#/$defs/")] for ref in section["oneOf"]]


def references(schema):
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield schema["$ref"]
        for inner in schema.values():
            yield from references(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from references(inner)


def test_every_section_of_a_scenario_is_described(schema):
    assert set(schema["properties"]) == {*Scenario.model_fields, "preset"}
    assert schema["additionalProperties"] is False


def test_each_registered_thing_is_one_alternative_under_its_name(schema, registries):
    names = [
        member["properties"]["name"] for member in alternatives(schema, schema["properties"]["protocol"])
    ]
    assert names == [{"const": name} for name in registries.protocols]
    observers = alternatives(schema, schema["properties"]["observers"]["items"])
    assert [member["properties"]["name"] for member in observers] == [{"const": "cda"}]


def test_an_alternative_knows_its_options_their_defaults_and_nothing_else(schema):
    synthetic = next(
        member
        for member in alternatives(schema, schema["properties"]["dataset"])
        if member["properties"]["name"]["const"] == "synthetic"
    )
    assert list(synthetic["properties"])[:3] == ["name", "split", "limit_users"]
    assert synthetic["properties"]["users"]["default"] == 943
    assert synthetic["properties"]["users"]["description"] == "Number of users."
    assert synthetic["required"] == ["name", "split"]
    assert synthetic["additionalProperties"] is False


def test_the_split_of_a_data_set_is_one_of_the_registered(schema, registries):
    split = schema["$defs"]["dataset.synthetic"]["properties"]["split"]
    assert [member["properties"]["name"]["const"] for member in alternatives(schema, split)] == list(
        registries.splits
    )


def test_every_reference_leads_somewhere_and_every_definition_is_used(schema):
    assert {ref.removeprefix("#/$defs/") for ref in references(schema)} == set(schema["$defs"])


def test_the_schema_is_plain_json(schema):
    assert json.loads(json.dumps(schema)) == schema


@pytest.mark.parametrize("section", ["training", "network", "evaluate", "executor"])
def test_fixed_sections_state_their_defaults(schema, section):
    definition = schema["$defs"][schema["properties"][section]["$ref"].removeprefix("#/$defs/")]
    assert set(schema["properties"][section]["default"]) == set(definition["properties"])
    assert all("default" in prop for prop in definition["properties"].values())
