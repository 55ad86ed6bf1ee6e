"""A scenario says everything about a run, and says it again in the same words."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from gossiprec.base.errors import ScenarioError
from gossiprec.scenario import Scenario, load_scenario
from gossiprec.scenario.network import PeriodicSessions
from gossiprec.scenario.sections import EvaluateOptions

positive = st.floats(1e-12, 1e12)
below_one = st.just(0.0) | st.floats(1e-12, 1, exclude_max=True)
count = st.integers(1, 10**6)


def some(**keys: st.SearchStrategy) -> st.SearchStrategy:
    """Mappings that hold any subset of `keys`, as a user leaves out what has a default."""
    return st.fixed_dictionaries({}, optional=keys)


refresh = st.one_of(
    st.fixed_dictionaries({"every": count}),
    st.fixed_dictionaries({"law": st.just("exponential"), "mean": positive}),
)
nodes = st.one_of(
    st.just("all"),
    st.fixed_dictionaries({"fraction": st.floats(1e-6, 1)}),
    st.lists(st.integers(0, 10**6), min_size=1, max_size=4),
)
observer = st.fixed_dictionaries(
    {"name": st.just("cda"), "who": st.sampled_from(["single", "coordinator"])},
    optional={
        "nodes": nodes,
        "momentum": st.one_of(below_one, st.lists(below_one, max_size=3)),
        "community_size": st.one_of(count, st.lists(count, max_size=3)),
        "relevance": st.one_of(st.text(), st.lists(st.text(), max_size=3)),
    },
)
CHARACTERS = st.characters(exclude_categories=["Cc", "Cs"])
"""Control characters are refused in names and paths."""
gossip = st.fixed_dictionaries(
    {"name": st.just("rand-gossip")},
    optional={
        "fanout": st.integers(1, 3),
        "wake": st.fixed_dictionaries({"law": st.just("exponential"), "mean": positive}),
        "view": some(
            size=st.integers(3, 99), refresh=refresh, graph=st.one_of(st.none(), st.text(CHARACTERS))
        ),
    },
)
fedavg = st.fixed_dictionaries(
    {"name": st.just("fedavg"), "rounds": count, "participation": st.floats(0.1, 1)}
)
scenarios = st.fixed_dictionaries(
    {
        "name": st.from_regex(r"\A[A-Za-z0-9]{1,9}([._-][A-Za-z0-9]{1,9}){0,3}\Z"),
        "dataset": st.fixed_dictionaries(
            {
                "name": st.just("movielens-100k"),
                "path": st.text(CHARACTERS),
                "split": st.just({"name": "published"}),
            },
            optional={"limit_users": st.one_of(st.none(), st.integers(2, 10**6))},
        ),
        "model": st.sampled_from([{"name": "gmf", "dim": 4}, {"name": "ncf"}]),
        "protocol": st.one_of(gossip, fedavg),
    },
    optional={
        "seed": st.integers(0, 2**63 - 1),
        "plots": st.booleans(),
        "training": some(
            optimizer=st.sampled_from(["adam", "sgd"]),
            learning_rate=positive,
            batch_size=st.one_of(st.just("full"), count),
            betas=st.tuples(below_one, below_one).map(list),
        ),
        "network": some(
            loss=below_one,
            latency=st.fixed_dictionaries({"law": st.just("exponential"), "mean": st.floats(1e-12, 1e6)}),
        ),
        "policies": st.lists(
            st.fixed_dictionaries(
                {"name": st.just("dp-sgd"), "epsilon": st.floats(1e-3, 1000)}, optional={"nodes": nodes}
            ),
            max_size=2,
            unique_by=lambda policy: policy["epsilon"],
        ),
        "observers": st.lists(observer, max_size=1),
        "evaluate": some(
            every=count, metrics=st.lists(st.sampled_from(["hr@5", "full_ndcg@20", "f1@500"]), unique=True)
        ),
        "executor": some(
            threads=st.one_of(st.just("auto"), st.integers(1, 1024)), device=st.sampled_from(["cpu", "cuda"])
        ),
    },
)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(written=scenarios)
@pytest.mark.full
def test_a_resolved_scenario_loads_as_an_equal_one(registries, written):
    first = load_scenario(written, (), registries)
    text = yaml.safe_dump(first.resolved())
    again = load_scenario(yaml.safe_load(text), (), registries)
    assert again == first
    assert yaml.safe_dump(again.resolved()) == text


@settings(max_examples=50, deadline=None)
@given(written=scenarios)
def test_what_was_written_is_in_the_resolved_scenario(registries, written):
    resolved = load_scenario(written, (), registries).resolved()
    assert holds(resolved, written)


def holds(whole, part) -> bool:
    if isinstance(part, dict):
        return all(key in whole and holds(whole[key], value) for key, value in part.items())
    if isinstance(part, list):
        return len(whole) == len(part) and all(map(holds, whole, part))
    return whole == part


def test_resolving_fills_in_every_default(load, minimal):
    resolved = load(minimal).resolved()
    assert resolved["protocol"]["view"] == {
        "size": 3,
        "refresh": {"law": "exponential", "mean": 0.1},
        "graph": None,
    }
    assert resolved["training"]["betas"] == [0.9, 0.999]
    assert resolved["network"] == {
        "latency": {"law": "constant", "value": 0.0},
        "bandwidth": {"up": None, "down": None, "coordinator": None},
        "loss": 0.0,
        "duplication": 0.0,
        "reordering": {"share": 0.0, "delay": 0.0},
        "in_order": False,
        "partitions": [],
        "compute": None,
    }
    assert resolved["churn"] == {"sessions": [], "join": [], "leave": [], "messages": "lost", "model": "kept"}
    assert resolved["executor"]["wave_size"] == "unlimited"
    assert (resolved["executor"]["portable"], resolved["executor"]["shards"]) == (False, 1)
    assert resolved["seed"] == 1
    assert list(resolved) == list(Scenario.model_fields)


def test_each_options_are_those_of_the_thing_named(load, minimal):
    scenario = load(minimal)
    assert scenario.protocol.name == "rand-gossip"
    assert scenario.protocol.options.wakes == 5
    assert scenario.dataset.split.name == "published"
    assert scenario.dataset.options.users == 943


def test_where_a_value_was_written_is_kept_but_not_compared(load, minimal):
    one, two = load(minimal), load("# a comment\n" + minimal)
    assert str(one.source_map.locate(("protocol", "wakes"))) == "x.yaml:6"
    assert str(two.source_map.locate(("protocol", "wakes"))) == "x.yaml:7"
    assert one == two


def test_a_scenario_cannot_be_changed_in_place(load, minimal):
    with pytest.raises(ValidationError):
        load(minimal).seed = 2


def test_with_changes_a_copy_and_keeps_its_source(load, minimal):
    scenario = load(minimal)
    changed = scenario.with_(seed=2, evaluate=EvaluateOptions(every=3))
    assert (scenario.seed, changed.seed, changed.evaluate.every) == (1, 2, 3)
    assert changed.protocol == scenario.protocol
    assert changed.source_map is scenario.source_map


@pytest.mark.parametrize(
    ("change", "expected"),
    [({"seed": -1}, "seed: found -1"), ({"sede": 1}, "sede: unknown key; did you mean 'seed'")],
)
def test_with_refuses_what_a_file_could_not_say(load, minimal, change, expected):
    with pytest.raises(ScenarioError, match=expected):
        load(minimal).with_(**change)


@pytest.mark.parametrize(("until", "jitter"), [(3, 1.0), (21, 2.0)])
def test_nodes_shifted_by_the_jitter_cannot_leave_before_they_came(until, jitter):
    """Two hours offline, and four hours online."""
    day = {"period": 24, "offline_from": 1, "offline_until": until}
    PeriodicSessions(**day, jitter=0.99 * jitter)
    with pytest.raises(ValidationError, match="expected less than half of the time offline"):
        PeriodicSessions(**day, jitter=jitter)
