"""The runs of which epsilon covers the messages: ways of data without noise are refused, or counted."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec import network_epsilon
from gossiprec.base.errors import ScenarioError
from gossiprec.compute.plan.tape import operations_by_slot
from gossiprec.defences import compute_epsilon
from gossiprec.emulation import prepare, simulate
from gossiprec.emulation.assembly.data_loading import load_data
from gossiprec.emulation.assembly.schedule import build_and_schedule
from gossiprec.emulation.progress import NullProgress, Stopwatch
from gossiprec.emulation.run.contact_replay import ContactTape, replay_rounds
from gossiprec.emulation.run.epsilon_coverage import NEIGHBOURS, check_covered, check_weights
from gossiprec.runs.run_files import SCENARIO
from gossiprec.scenario import load_scenario
from tests.cli.calls import invoke
from tests.emulation.tiny_runs import tiny
from tests.slow import slow_except_first

NOISE = {"name": "dp-sgd", "unit": "user", "epsilon": "inf", "noise_multiplier": 5.0, "clip_norm": 0.5}
RING = {"graph": {"family": "ring", "k": 2}}
GOSSIP = {"name": "rand-gossip", "fanout": 1, "view": RING, "merge": "mean", "wakes": 2}
FEDAVG = {"name": "fedavg", "rounds": 3, "merge": "mean"}
HEADS = {"name": "semi-decentralised", "clusters": 3, "rounds": 2, "merge": "mean"}
POISONER = {"name": "a-hum", "number": 1, "targets": [5]}


def noisy(protocol, **sections):
    quick = {"evaluate": {"every": 3, "metrics": ["hr@5"]}, "executor": {"name": "batched"}}
    return tiny(protocol=protocol, observers=[], policies=[NOISE], **{**quick, **sections})


def check(scenario):
    """Check the run of a scenario, without carrying it out."""
    loaded = load_scenario(scenario)
    components, schedule = build_and_schedule(loaded, load_data(loaded), NullProgress(), Stopwatch())
    protocol, schedule = components.protocol, check_covered("run", components, schedule)
    segments, operations = (
        [tick.segment for tick in schedule.ticks],
        operations_by_slot(protocol.role_behaviours),
    )
    samples = [[1] * 9 for _ in range(protocol.n_nodes)]
    tape = ContactTape(segments, schedule.deliveries_implied, protocol.roles.tolist(), operations, samples)
    check_weights("run", components, tape)


@pytest.mark.parametrize(
    ("protocol", "sections", "words"),
    [
        (HEADS, {}, "merged by a weight that counts the data of other users"),
        ({**HEADS, "merge": "samples", "head": "server"}, {}, "set fanout to 0"),
        ({**GOSSIP, "merge": "samples"}, {"attackers": [POISONER]}, "models of node 12 merged by a weight"),
        ({**FEDAVG, "merge": "samples"}, {"attackers": [POISONER]}, "set merge to mean"),
        (GOSSIP, {"attackers": [{**POISONER, "targets": {"least_popular": 1}}]}, "list the items in targets"),
        (GOSSIP, {"attackers": [{**POISONER, "scale": "matched"}]}, "set scale to gradient"),
        (GOSSIP, {"attackers": [{"name": "pipattack", "number": 1, "targets": [5]}]}, "knows the popularity"),
        ({**GOSSIP, "view": {"graph": {"family": "nearest-by-taste", "k": 2}}}, {}, "chooses receivers by items"),
        ({**GOSSIP, "view": {"sampling": "descriptors", "size": 3}}, {}, "chooses receivers by items"),
        (
            {**GOSSIP, "view": {"graph": {"sequence": [{"from": 0, "family": "nearest-by-taste", "k": 2}]}}}, {},
            "chooses receivers by items",
        ),
        ({**FEDAVG, "merge": {"name": "fltrust", "root": {"users": 2}}}, {}, "list the public users in root.users"),
        (
            GOSSIP, {"network": {"compute": {"time": {"law": "constant", "value": 0.1}, "per_sample": True}}},
            "remove per_sample",
        ),
        (
            GOSSIP,
            {"stop": {"measure": "val_recall@5"}, "evaluate": {"every": 1, "metrics": ["val_recall@5"]}},
            "remove stop",
        ),
    ],
)  # fmt: skip
def test_data_that_others_act_on_without_noise_are_refused(protocol, sections, words):
    with pytest.raises(ScenarioError, match=words):
        check(noisy(protocol, **sections))


@pytest.mark.parametrize(
    ("protocol", "sections"),
    slow_except_first(
        [
            ({**HEADS, "fanout": 0}, {}),
            (GOSSIP, {"attackers": [POISONER]}),
            ({**GOSSIP, "merge": "samples"}, {}),
            ({**GOSSIP, "view": {"sampling": "descriptors", "size": 3, "rank": "random"}}, {}),
        ]
    ),
)
def test_runs_without_such_ways_are_accounted_for(protocol, sections, tmp_path):
    found = network_epsilon(simulate(noisy(protocol, **sections), out=tmp_path / "run").path)
    others = ~np.isnan(found.epsilon)
    assert ((found.epsilon > 0) == np.isfinite(found.hops))[others].all()


def test_public_users_have_no_epsilon(tmp_path):
    """The coordinator trains on their data without noise, so a version shows them to each client that gets one."""
    protocol = {**FEDAVG, "participation": 0.25, "merge": {"name": "fltrust", "root": {"users": [0, 3]}}}
    run = simulate(noisy(protocol), out=tmp_path / "run")
    found, reached = network_epsilon(run.path), np.unique(run.events("message")["receiver"])
    for root in (0, 3):
        assert np.isinf(found.local[root])
        for node in set(range(12)) - {root}:
            assert found.epsilon[root, node] == (np.inf if node in reached else 0.0)
    assert np.isfinite(found.epsilon[1, [0, 2, 12]]).all()


def rounds_of(run):
    scenario = load_scenario(run.path / SCENARIO)
    components, schedule = build_and_schedule(scenario, load_data(scenario), NullProgress(), Stopwatch())
    return replay_rounds(ContactTape.of(run, components.protocol, schedule), 12)


@pytest.mark.slow
def test_a_client_that_answers_a_task_twice_is_in_no_mean_of_fresh_answers(tmp_path):
    """Both of its updates are in one round, which shows twice of what one does."""
    run = simulate(noisy(FEDAVG, network={"duplication": 0.5}), out=tmp_path / "run")
    assert rounds_of(run) is None
    assert network_epsilon(run.path).reason is None


@pytest.mark.slow
def test_a_client_that_no_longer_trains_hides_no_other(tmp_path):
    """Epsilon 1.2 is enough for one update: from the second round on the answers of six clients have no noise."""
    short = {**NOISE, "epsilon": 1.2, "nodes": [*range(6)]}
    policies = [short, {**NOISE, "nodes": [*range(6, 12)]}]
    run = simulate({**noisy(FEDAVG), "policies": policies}, out=tmp_path / "run")
    rounds, _ = rounds_of(run)
    assert [np.count_nonzero(np.array(samples) == 0) for _, samples in rounds] == [0, 6, 6]
    found = network_epsilon(run.path)
    exposure = 1 / 11 + 1 / 5  # of 11 others in the first round, and of 5 in the second
    expected = compute_epsilon(5.0 / np.sqrt(exposure), 1, 1e-6)
    assert found.epsilon[7, 8] == pytest.approx(expected, rel=1e-6)
    assert found.epsilon[7, 0] == pytest.approx(
        compute_epsilon(5.0 / np.sqrt(1 / 11 + 1 / 6), 1, 1e-6), rel=1e-6
    )


def test_the_relation_of_neighbours_is_in_the_output(tmp_path, capsys):
    run = simulate(noisy(GOSSIP), out=tmp_path / "run")
    assert network_epsilon(run.path).neighbours == NEIGHBOURS
    for words in (("--json",), ()):
        code, printed, _ = invoke(capsys, "epsilon", run.path, "-q", *words)
        assert (code, "merge weights" in printed) == (0, True)


def test_links_by_taste_are_in_the_summary():
    """A graph by taste is a choice of receivers by items, as in Pers-Gossip."""
    taste = {**GOSSIP, "view": {"graph": {"family": "nearest-by-taste", "k": 2}}}
    assert prepare(load_scenario(noisy(taste))).components.protocol.choices_follow_data
    assert not prepare(load_scenario(noisy(GOSSIP))).components.protocol.choices_follow_data
