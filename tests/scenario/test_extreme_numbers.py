"""Every numeric key of the scenario schema, with extreme values: a dry run ends in an estimate or in one message.

A few of those that are accepted are run: they end as complete, or in one message.
"""

from __future__ import annotations

import itertools
import math
import random
import signal
import traceback

import pytest
import yaml

from gossiprec.base.errors import GossipRecError
from gossiprec.cli.main import exit_code
from gossiprec.emulation import estimate_run
from gossiprec.network.protocols import PROTOCOLS
from gossiprec.scenario import load_scenario
from gossiprec.scenario.schema import json_schema

SCHEMA = json_schema()
ALLOWED = (0, 1e-100, 1e30, 2**31 - 1)
"""The ends of what options take: these are estimated, too."""
BEYOND = (1e308, 2**63, math.nan)
"""Numbers that most keys refuse."""
LONGEST_S = 60
"""Seconds after which a dry run hangs, on a busy machine."""

GOSSIP = {
    "name": "extreme",
    "dataset": {
        "name": "synthetic", "users": 12, "items": 60, "interactions": 300,
        "split": {"name": "leave_last_k", "test": 1, "validation": 1},
    },
    "model": {"name": "gmf", "dim": 4},
    "protocol": {"name": "rand-gossip", "wakes": 2, "view": {"size": 3}},
    "evaluate": {"metrics": ["hr@5"]},
    "executor": {"name": "reference", "threads": 1},
}  # fmt: skip
STAR = {"name": "fedavg", "rounds": 2}
FEDAVG = {**GOSSIP, "protocol": STAR}
CLIENTS = {**GOSSIP, "protocol": {**STAR, "client_model": "none"}, "training": {"batch_size": "full"}}
SEQUENCES = {**CLIENTS, "model": {"name": "gru4rec", "dim": 4}, "evaluate": {"metrics": ["recall@5"]}}
GRAPHS = {
    **CLIENTS,
    "model": {"name": "lightgcn", "dim": 4},
    "training": {"batch_size": "full", "negatives": 1},
}
CENTRAL = {**GOSSIP, "protocol": {"name": "central", "epochs": 2}, "executor": {}}
BASES = {
    "dataset": (GOSSIP,),
    "model": (GOSSIP, CLIENTS),
    "protocol": (GOSSIP, CLIENTS),
    "recommender": (CLIENTS, SEQUENCES, GRAPHS),
    "policies": (GOSSIP, FEDAVG),
    "attackers": (GOSSIP, CLIENTS),
    "observers": (GOSSIP, FEDAVG),
    "training": (GOSSIP, CLIENTS, CENTRAL),
    "network": (GOSSIP, FEDAVG),
}
LENGTHS = ("wakes", "rounds", "epochs")
LEFT_OUT = ("$schema", "preset", "plots", "name")


def resolved(schema):
    while "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    return schema


def branches(schema):
    """Yield the alternatives of a schema, each without further alternatives."""
    schema = resolved(schema)
    inner = schema.get("anyOf", schema.get("oneOf"))
    if inner is None or "properties" in schema:
        yield schema
    else:
        for each in inner:
            yield from branches(each)


def plain(schema):
    """Return a small value that a schema allows."""
    if "default" in schema:
        return schema["default"]
    schema = next(branches(schema))
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    kind = schema.get("type")
    if kind == "object":
        return {key: plain(schema["properties"][key]) for key in schema.get("required", ())}
    if kind == "array":
        inner = schema.get("prefixItems") or [schema["items"]] * schema.get("minItems", 1)
        return [plain(each) for each in inner]
    least = schema.get("minimum", schema.get("exclusiveMinimum", 0))
    return {"integer": max(1, int(least)), "number": max(0.5, least), "boolean": True, "null": None}.get(
        kind, "x"
    )


def leaves(schema, path=()):
    """Yield each numeric key below a schema: its path, and what puts a number there into a value of the schema."""
    for branch in branches(schema):
        kind = branch.get("type")
        if kind in ("integer", "number"):
            yield path, lambda number: number
        elif kind == "object":
            properties = branch.get("properties", {})
            named = properties.get("name", {}).get("const")
            for key, inner in properties.items():
                for below, put in leaves(inner, (*path, *([named] if named else []), key)):
                    yield below, _in_object(branch, key, put)
        elif kind == "array":
            for place, inner in enumerate(branch.get("prefixItems") or [branch["items"]]):
                for below, put in leaves(inner, (*path, place)):
                    yield below, _in_array(branch, place, put)


def _in_object(branch, key, put):
    return lambda number: {**plain({k: v for k, v in branch.items() if k != "default"}), key: put(number)}


def _in_array(branch, place, put):
    def made(number):
        values = plain({k: v for k, v in branch.items() if k != "default"})
        return [*values[:place], put(number), *values[place + 1 :]]

    return made


def scenario(base, section, value):
    """Return a base with a section, whose keys lie over those of the base if both are of the same thing."""
    own = base.get(section)
    if isinstance(own, dict) and isinstance(value, dict) and own.get("name") == value.get("name"):
        value = {**own, **value}
    elif section == "protocol":  # as short as those of the bases
        value = {
            **{key: 2 for key in LENGTHS if key in PROTOCOLS[value["name"]].Options.model_fields},
            **value,
        }
    return {**base, section: value}


def fault(data, *, estimated):
    """Return what is wrong with how a dry run of some data ends, or the reading of them alone; None if nothing is."""

    def give_up(number, frame):
        raise TimeoutError(f"no end within {LONGEST_S} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(LONGEST_S)
    try:
        scenario = load_scenario(data)
        if estimated:
            estimate_run(scenario).check_fits()
    except GossipRecError as error:
        return None if str(error) else "an error without a message"
    except Exception:
        return traceback.format_exc(limit=-4)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return None


def accepted(number):
    """Yield scenarios that accept a number, in a seeded order: the key, and the scenario."""
    found = [
        (".".join(map(str, path)), scenario(base, section, put(number)))
        for section in SECTIONS
        for path, put in leaves(SCHEMA["properties"][section], (section,))
        for base in BASES.get(section, (GOSSIP,))
    ]
    random.Random(33).shuffle(found)
    for name, data in found:
        try:
            estimate_run(load_scenario(data)).check_fits()
        except GossipRecError:
            continue
        yield name, data


SECTIONS = [key for key in SCHEMA["properties"] if key not in LEFT_OUT]


def test_the_schema_is_walked_whole():
    """Sections without a numeric key would mean that the walk has missed them."""
    assert all(list(leaves(SCHEMA["properties"][section])) for section in SECTIONS)
    found = {path for section in SECTIONS for path, _ in leaves(SCHEMA["properties"][section], (section,))}
    assert {
        ("protocol", "rand-gossip", "wake", "mean"), ("training", "learning_rate"), ("training", "betas", 1),
        ("policies", 0, "dp-sgd", "epsilon"), ("recommender", "fedcl", "epsilon"), ("seed",),
    } <= found  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.full
def test_no_number_ends_in_a_traceback(section):
    bases, numbers = BASES.get(section, (GOSSIP,)), (*ALLOWED, *BEYOND)
    cases = itertools.product(leaves(SCHEMA["properties"][section], (section,)), numbers)
    faults = [
        f"{'.'.join(map(str, path))} = {number!r}: {found}"
        for place, ((path, put), number) in enumerate(cases)
        for data in (scenario(bases[place % len(bases)], section, put(number)),)
        if (found := fault(data, estimated=number in ALLOWED))
    ]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("number", ALLOWED)
@pytest.mark.cases(1)
@pytest.mark.slow
def test_what_is_accepted_runs_to_its_end_or_to_one_message(number, tmp_path, capfd):
    ends, faults = [], []
    for name, data in itertools.islice(accepted(number), 12):
        if len(ends) > 2 and 0 in ends:  # three at least, and one that runs to its end
            break
        file, out = tmp_path / f"{name}.yaml", tmp_path / name
        file.write_text(yaml.safe_dump({**data, "plots": False}))
        capfd.readouterr()
        signal.alarm(LONGEST_S)  # kills the tests: it has no handler
        ends.append(exit_code(["simulate", str(file), "--out", str(out), "--quiet"]))
        signal.alarm(0)
        said = capfd.readouterr().err
        messages = sum(line.startswith("error: ") for line in said.splitlines())
        if (ends[-1], messages) not in ((0, 0), (2, 1)) or "Traceback" in said or "Warning" in said:
            faults.append(f"{name} = {number!r}: status {ends[-1]}: {said}")
    assert not faults, "\n".join(faults)
    assert 0 in ends
