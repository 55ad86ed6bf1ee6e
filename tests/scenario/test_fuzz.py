"""Whatever a file holds, the user gets a scenario or a message, never a traceback."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gossiprec.base.errors import ScenarioError
from gossiprec.scenario import Registries, Scenario, load_scenario
from gossiprec.scenario.section_checks import check_sizes

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
network:
  latency: {law: lognormal, median: 0.1, sigma: 0.5, per: pair}
  bandwidth: {up: {law: uniform, low: 100, high: 200}, down: 1.0e+3}
  loss: 0.1
  reordering: {share: 0.1, delay: 0.3}
  partitions: [{from: 1, until: 2.5, groups: [[0, 1], [2, 3]]}, {from: 3, until: 4, parts: 2}]
  compute: {time: {law: exponential, mean: 0.1}, per: node}
churn:
  sessions:
    - {online: {law: weibull, scale: 4, shape: 0.7}, offline: {law: constant, value: 1}, nodes: {fraction: 0.5}}
    - {period: 24, offline_from: 1, offline_until: 7, jitter: 0.5, nodes: [1, 2]}
  leave: [{nodes: [3], at: {law: uniform, low: 2, high: 3}}]
  messages: held
policies: [{name: dp-sgd, nodes: {fraction: 0.3}, epsilon: 10}, {name: share-less, nodes: [1]}]
observers:
  - &o {name: cda, who: coalition, fraction: [0.05, 0.10], momentum: 0.99}
  - {<<: *o, fraction: 0.5}
evaluate: {every: 10, metrics: [hr@20, ndcg@20]}
"""
FEDAVG = b"""\
name: fuzz
dataset: {name: synthetic, split: {name: leave_last_k, test: 5}, limit_users: 9}
model: {name: gmf}
protocol:
  name: fedavg
  participation: 0.5
  ask: online
  round: {deadline: 2.0, minimum: 0.5, give_up: 6.0, at_least: 0.5, late: discard}
  aggregation: {name: synchronous, staleness: {law: polynomial, exponent: 0.5}, mixing: 0.8}
"""
BUFFERED = (
    FEDAVG[: FEDAVG.index(b"  participation")]
    + b"""\
  aggregation: {name: buffered, buffer: 2, concurrency: 4, give_up: 3, late: count}
network: {latency: {law: exponential, mean: 0.3}}
"""
)
FILES = [BASE, FEDAVG, BUFFERED]
FRAGMENTS = [
    *b"[ ] { } : , - ? | > & * ! % @ ` # ' \" ~ -1 0 1e400 .nan .inf 0x 0b 1:9 2020-99-99 null yes".split(),
    *b"<<: *m &m *o !!int !!float !!binary !!set !!str name preset full943 every law nodes".split(),
    *(b" ", b"\n", b"\n  ", b"\t", b"\r", b"\x00", b"\x07", b"\xff", b"\xc3\xa9", b"\xe2\x80\xa8"),
    *(b"---\n", b"...\n", b": ", b"{}", b"[]"),
]


@pytest.fixture(scope="module")
def registries():
    """Everything that is registered, as the command line has it."""
    return Registries()


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


def edits_of(text):
    edit = st.tuples(st.integers(0, len(text)), st.integers(0, 12), st.sampled_from(FRAGMENTS))
    return st.tuples(st.just(text), st.lists(edit, min_size=1, max_size=6))


@settings(max_examples=400, deadline=None)
@given(edited=st.one_of(*map(edits_of, FILES)))
@pytest.mark.full
def test_a_mutated_file_gives_a_scenario_or_a_scenario_error(registries, file, edited):
    text, edits = edited
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


DATA = [yaml.safe_load(text) for text in FILES]
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


def changes_of(data):
    place = st.sampled_from(sorted(places(data), key=str)[1:])
    return st.tuples(st.just(data), st.lists(st.tuples(place, values), min_size=1, max_size=4))


@pytest.mark.parametrize("data", DATA, ids=["gossip", "fedavg", "buffered"])
def test_the_files_are_right_before_they_are_changed(registries, data):
    check_sizes(load_scenario(data, (), registries), 100, 30)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(changed=st.one_of(*map(changes_of, DATA)))
@pytest.mark.full
def test_any_value_in_any_place_gives_a_scenario_or_a_scenario_error(registries, changed):
    data, changes = copy.deepcopy(changed[0]), changed[1]
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


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    path=st.lists(words, max_size=4), value=st.one_of(st.text(max_size=8), st.sampled_from(["{}", "[]", "1"]))
)
@pytest.mark.full
def test_any_override_gives_a_scenario_or_a_scenario_error(registries, path, value):
    loads_or_is_refused(DATA[0], registries, f"{'.'.join(path)}={value}")
