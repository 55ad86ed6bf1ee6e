"""Options that name a registered thing: validated as that thing's own, found again in a tree of options."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace
from typing import Annotated

import pytest
from pydantic import Field, TypeAdapter, ValidationError

from gossiprec.base.errors import PluginError, ScenarioError
from gossiprec.base.options import NoOptions, Options, RegisteredOptions, iter_registered, options_class
from gossiprec.defences import POLICIES
from gossiprec.network.graphs import FAMILIES
from gossiprec.network.overlay import SAMPLINGS
from gossiprec.network.overlay.graph_options import Graph
from gossiprec.network.protocols import PROTOCOLS
from gossiprec.rules.aggregators import AGGREGATORS
from tests.scenario.conftest import Loader, registry


class Toy(Options):
    toy: str


class Ball(Toy):
    """It bounces."""

    size: int = Field(ge=1)


class Kite(Toy):
    """It flies."""

    line: float = 10.0


TOYS = registry("toy", {"ball": Ball, "kite": Kite})


class Child(Options):
    plays: Annotated[Toy, RegisteredOptions(TOYS, "toy")]
    owns: tuple[Annotated[Toy, RegisteredOptions(TOYS, "toy")], ...] = ()


def test_the_name_decides_which_options_are_allowed():
    child = Child.model_validate({"plays": {"toy": "ball", "size": 2}, "owns": [{"toy": "kite"}]})

    assert child.plays == Ball(toy="ball", size=2)
    assert child.owns == (Kite(toy="kite"),)
    assert Child.model_validate(child.model_dump()) == child
    assert Child(plays=child.plays, owns=child.owns) == child


@pytest.mark.parametrize(
    ("raw", "where", "message"),
    [
        ({"toy": "bal"}, ("plays",), "unknown toy 'bal'; known: ball, kite; did you mean 'ball'"),
        ({"toy": 3}, ("plays",), "found toy 3, must be one of ball, kite"),
        ({}, ("plays",), "must have a key toy, one of ball, kite"),
        ("ball", ("plays",), "found 'ball', must be a mapping of keys"),
        ({"toy": "ball", "size": 0}, ("plays", "size"), "greater than or equal to 1"),
        ({"toy": "ball"}, ("plays", "size"), "Field required"),
        ({"toy": "kite", "size": 1}, ("plays", "size"), "Extra inputs are not permitted"),
    ],
)
def test_what_does_not_fit_is_told_where_it_stands(raw, where, message):
    with pytest.raises(ValidationError) as found:
        Child.model_validate({"plays": raw})

    (error,) = found.value.errors()
    assert error["loc"] == where
    assert message in error["msg"]


def test_a_wrong_key_is_answered_with_the_keys_of_what_is_named(tmp_path, registries, minimal):
    load = Loader(tmp_path, replace(registries, protocols=registry("protocol", {"child": Child})))
    text = minimal.replace("name: rand-gossip\n  wakes: 5", "name: child\n  plays: {toy: ball, sise: 2}")

    with pytest.raises(
        ScenarioError, match=r"plays\.sise: unknown key; did you mean 'size'\? \(known: size, toy\)"
    ):
        load(text)


def test_the_schema_knows_every_registered_thing():
    toys = Child.model_json_schema()["properties"]["plays"]["oneOf"]

    assert [toy["description"] for toy in toys] == ["It bounces.", "It flies."]


def test_what_is_named_is_found_at_any_depth():
    child = Child(plays=Ball(toy="ball", size=1), owns=(Kite(toy="kite"), Ball(toy="ball", size=2)))
    assert list(iter_registered(child)) == [(TOYS, "ball"), (TOYS, "kite"), (TOYS, "ball")]

    gossip = options_class(PROTOCOLS, "rand-gossip")
    rule = (AGGREGATORS, "samples")
    assert list(iter_registered(gossip())) == [rule]
    assert list(iter_registered(gossip(view={"sampling": "cyclon"}))) == [rule, (SAMPLINGS, "cyclon")]
    graphs = [
        {"from": 0, "family": "ring"},
        {"from": 1, "frozen": "karate-club"},
        {"from": 2, "family": "star"},
    ]
    view = {"graph": {"sequence": graphs}}
    assert list(iter_registered(gossip(view=view))) == [rule, (FAMILIES, "ring"), (FAMILIES, "star")]
    krum = {"name": "krum", "byzantine": 2}
    assert list(iter_registered(options_class(POLICIES, "robust-merge")(rule=krum))) == [
        (AGGREGATORS, "krum")
    ]


def test_a_thing_without_options_takes_none_and_foreign_option_sets_are_refused():
    things = registry("thing", {"bad": dict})
    things.register("plain")(type("plain", (), {}))

    assert options_class(things, "plain") is NoOptions
    with pytest.raises(PluginError, match=r"the thing 'bad' has Options <class 'dict'>; expected a class"):
        options_class(things, "bad")


def test_the_options_of_a_family_reach_another_process():
    options = [TypeAdapter(Graph).validate_python(raw) for raw in (
        {"family": "ring", "k": 4}, {"sequence": [{"from": 0, "family": "torus"}]},
    )]  # fmt: skip
    script = "import pickle, sys; print(*pickle.load(sys.stdin.buffer), sep='|')"
    ran = subprocess.run(
        [sys.executable, "-c", script], input=pickle.dumps(options), capture_output=True, check=True
    )

    assert ran.stdout.decode().strip() == "|".join(map(str, options))
