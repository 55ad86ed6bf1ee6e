"""The JSON Schema tells an editor what the loader will accept."""

from __future__ import annotations

import json
import subprocess
import sys
from shlex import quote

import pytest
import yaml
from jsonschema import Draft202012Validator
from pydantic import Field
from referencing import Registry, Resource

from gossiprec.base.options import Options
from gossiprec.scenario import Scenario, json_schema
from gossiprec.scenario.bundled import KINDS, bundled_files, schema_file


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


class Walk(Options):
    pace: float = 1.0
    """Steps of a walk
    per period."""
    begin: int = Field(default=0, alias="from")
    """First step."""
    length: int = Field(default=3, description="Number of steps.")
    """A description comes first."""
    bare: int = 1


class LongWalk(Walk):
    bare: int = 2
    """Steps without shoes."""


def test_the_docstring_below_an_option_is_its_description():
    found = {key: about.get("description") for key, about in Walk.model_json_schema()["properties"].items()}
    assert found == {
        "pace": "Steps of a walk per period.", "from": "First step.", "length": "Number of steps.", "bare": None,
    }  # fmt: skip
    longer = LongWalk.model_json_schema()["properties"]
    assert [longer[key]["description"] for key in ("pace", "bare")] == [found["pace"], "Steps without shoes."]


def test_options_that_no_file_defines_have_no_docstrings():
    space = {"Options": Options, "__name__": "typed"}
    exec("class Typed(Options):\n    pace: int = 1\n    'A text.'\n", space)
    assert "description" not in space["Typed"].model_json_schema()["properties"]["pace"]


@pytest.mark.slow  # in a process of its own: tests register things
@pytest.mark.parametrize(("kind", "options"), [("scenarios", []), ("studies", ["--study", "--refer"])])
@pytest.mark.full
def test_the_file_that_editors_read_is_the_schema_of_this_version(kind, options):
    printed = [sys.executable, "-m", "gossiprec", "scenario", "schema", *options]
    renew = f"renew it: gossiprec scenario schema {' '.join(options)} --out {quote(str(schema_file(kind)))}"
    assert schema_file(kind).read_text(encoding="utf-8") == subprocess.check_output(printed, text=True), renew


@pytest.mark.parametrize(
    "one", [one for kind in KINDS for one in bundled_files(kind).values()], ids=lambda one: one.name
)
def test_bundled_files_name_the_schema_for_editors(one):
    (line,) = [line for line in one.text.splitlines() if "yaml-language-server" in line]
    path = one.path.parent / line.removeprefix("# yaml-language-server: $schema=")
    assert path.resolve() == schema_file(one.kind)
    assert f"# yaml-language-server: $schema={schema_file(one.kind)}" in one.text_to_write.splitlines()


@pytest.mark.parametrize("one", bundled_files("studies").values(), ids=lambda one: one.name)
def test_bundled_studies_fit_the_schema_that_editors_read(one):
    """A mistyped key does not, in the study and in a base written inside it."""
    schemas = [json.loads(schema_file(kind).read_text(encoding="utf-8")) for kind in KINDS]
    registry = Registry().with_resource("scenario.schema.json", Resource.from_contents(schemas[0]))
    validator = Draft202012Validator(schemas[1], registry=registry)
    study = yaml.safe_load(one.text)
    assert [error.message for error in validator.iter_errors(study)] == []
    assert list(validator.iter_errors({**study, "axis": {}}))
    assert list(validator.iter_errors({**study, "base": {"protocl": {}}}))
