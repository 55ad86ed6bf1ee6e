"""Whatever a file holds, the user gets a scenario or a message, never a traceback."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gossiprec.errors import ScenarioError
from gossiprec.scenario import Scenario, check_sizes, load_scenario

BASE = b"""\
name: fuzz
seed: 1
dataset: {name: synthetic, split: {name: leave_last_k, test: 5}, limit_users: 9}
model: &m {name: gmf, dim: 8}
training: {batch_size: full, betas: [0.5, 0.5]}
protocol:
  name: rand-gossip
  wake: {law: exponential, mean: 1.0, redraw: true}
  view: {size: 3, refresh: {every: 10}}
network: {latency: {law: constant, value: 0.0}}
policies: [{name: dp-sgd, nodes: {fraction: 0.3}, epsilon: 10}, {name: share-less, nodes: [1]}]
observers:
  - &o {name: cda, who: coalition, fraction: [0.05, 0.10], momentum: 0.99}
  - {<<: *o, fraction: 0.5}
evaluate: {every: 10, metrics: [hr@20, ndcg@20]}
"""
FRAGMENTS = [
    *b"[ ] { } : , - ? | > & * ! % @ ` # ' \" ~ -1 0 1e400 .nan .inf 0x 0b 1:9 2020-99-99 null yes".split(),
    *b"<<: *m &m *o !!int !!float !!binary !!set !!str name preset full943 every law nodes".split(),
    *(b" ", b"\n", b"\n  ", b"\t", b"\r", b"\x00", b"\x07", b"\xff", b"\xc3\xa9", b"\xe2\x80\xa8"),
    *(b"---\n", b"...\n", b": ", b"{}", b"[]"),
]


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "x.yaml"


def loads_or_is_refused(source, registries, *overrides: str) -> None:
    try:
        scenario = load_scenario(source, overrides, registries)
        check_sizes(scenario, 7, 9)
    except ScenarioError:
        return  # anything else is the traceback that must not be
    assert isinstance(scenario, Scenario)


edits = st.lists(
    st.tuples(st.integers(0, len(BASE)), st.integers(0, 12), st.sampled_from(FRAGMENTS)),
    min_size=1,
    max_size=6,
)


@settings(max_examples=400, deadline=None)
@given(edits=edits)
def test_a_mutated_file_gives_a_scenario_or_a_scenario_error(registries, file, edits):
    text = BASE
    for start, length, fragment in edits:
        text = text[:start] + fragment + text[start + length :]
    file.write_bytes(text)
    loads_or_is_refused(file, registries)


@settings(max_examples=100, deadline=None)
@given(text=st.binary(max_size=200))
def test_arbitrary_bytes_give_a_scenario_error(registries, file, text):
    file.write_bytes(text)
    with pytest.raises(ScenarioError):
        load_scenario(file, (), registries)


def places(value, at=()):
    yield at
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in inner:
        yield from places(child, (*at, key))


DATA = yaml.safe_load(BASE)
PLACES = sorted(places(DATA), key=str)[1:]
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["name", "law", "every", "fraction", "size", "x"]), inner, max_size=3
        ),
    ),
    max_leaves=5,
)


@settings(max_examples=400, deadline=None)
@given(changes=st.lists(st.tuples(st.sampled_from(PLACES), values), min_size=1, max_size=4))
def test_any_value_in_any_place_gives_a_scenario_or_a_scenario_error(registries, changes):
    data = copy.deepcopy(DATA)
    for path, value in changes:
        holder = data
        try:
            for key in path[:-1]:
                holder = holder[key]
            holder[path[-1]] = value
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took the place away
    loads_or_is_refused(data, registries)


words = st.sampled_from(
    ["protocol", "view", "observers", "policies", "0", "1", "7", "name", "x", "preset", "nodes"]
)


@settings(max_examples=200, deadline=None)
@given(
    path=st.lists(words, max_size=4), value=st.one_of(st.text(max_size=8), st.sampled_from(["{}", "[]", "1"]))
)
def test_any_override_gives_a_scenario_or_a_scenario_error(registries, path, value):
    loads_or_is_refused(DATA, registries, f"{'.'.join(path)}={value}")
