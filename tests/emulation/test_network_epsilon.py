"""Epsilon of a victim towards an observer: from a run's log, against closed forms and a recomputation by hand."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from gossiprec import network_epsilon
from gossiprec.base.errors import DataError, LogError, ScenarioError
from gossiprec.compute.executors.reference import _Learner
from gossiprec.defences import compute_epsilon
from gossiprec.emulation import simulate
from gossiprec.emulation.assembly.data_loading import load_data
from gossiprec.emulation.assembly.schedule import build_and_schedule
from gossiprec.emulation.progress import NullProgress, Stopwatch
from gossiprec.emulation.run.contact_replay import ContactTape, LinearReplay, replay_linear
from gossiprec.emulation.run.network_epsilon import observer_view, update_exposures
from gossiprec.figures import epsilon as figure
from gossiprec.network.graphs.files import frozen_graph
from gossiprec.runs import open_run
from gossiprec.runs.run_files import SCENARIO
from gossiprec.scenario import load_scenario
from tests.cli.calls import invoke
from tests.emulation import exposure_formulas as closed
from tests.emulation.tiny_runs import tiny
from tests.slow import slow_except_first

NOISE = {"name": "dp-sgd", "epsilon": 5.0, "delta": 1e-5}
SGD = {"optimizer": "sgd", "batch_size": "full"}
ROUNDS = 5


def synchronous(graph, n, **sections):
    """Return a scenario in which all nodes train once and then average with all neighbours in rounds."""
    protocol = {
        "name": "rand-gossip", "fanout": n - 1, "merge": "mean", "average": "all", "wakes": ROUNDS,
        "wake": {"law": "constant"}, "view": {"graph": graph},
    }  # fmt: skip
    return tiny(
        dataset={**tiny()["dataset"], "users": n, "interactions": 12 * n},
        training=SGD, protocol=protocol, network={"latency": {"law": "constant", "value": 0.5}}, observers=[],
        policies=[{"name": "share-less"}, {**NOISE, "steps": 1}], evaluate={"every": ROUNDS, "metrics": ["hr@5"]},
        **sections,
    )  # fmt: skip


GRAPHS = {
    "ring": ({"family": "ring", "k": 2}, 12, closed.ring_mixing(12)),
    "complete": ({"family": "complete"}, 12, np.full((12, 12), 1 / 12)),
    "karate-club": ({"frozen": "karate-club"}, 34, None),
}


def mixing_of(name):
    if GRAPHS[name][2] is not None:
        return GRAPHS[name][2]
    graph = frozen_graph(name)
    near = np.eye(34)
    for a, b in graph.edges:
        near[a, b] = near[b, a] = 1
    return near / near.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module", params=slow_except_first(GRAPHS))
def averaged(request, tmp_path_factory):
    graph, n, _ = GRAPHS[request.param]
    run = simulate(synchronous(graph, n), out=tmp_path_factory.mktemp("runs") / "run")
    return request.param, run


def replay_of(run):
    """Return the linear replay of a run."""
    scenario = load_scenario(run.path / SCENARIO)
    components, schedule = build_and_schedule(scenario, load_data(scenario), NullProgress(), Stopwatch())
    return replay_linear(ContactTape.of(run, components.protocol, schedule), components.merge_weights)


def by_hand(view):
    """Return the diagonal of V' (V V')^+ V, by a pseudo-inverse (arXiv 2505.19969)."""
    return np.diag(view.T @ np.linalg.pinv(view @ view.T, rcond=1e-13, hermitian=True) @ view)


def test_matrix_of_a_run_is_the_closed_form(averaged):
    """The run's log gives the powers of the mixing matrix, and epsilon the pseudo-inverse of what is seen."""
    name, run = averaged
    mixing, sigma = mixing_of(name), run.summary["privacy"]["noise_multiplier_min"]
    n = len(mixing_of(name))
    groups = [[node] for node in range(0, n, 5)] + [[1, 2, 7], [0, 3, 4, 9]]
    found = network_epsilon(run.path, observers=groups)
    assert found.reason is None
    assert found.observers.tolist() == [*range(0, n, 5), -1, -2]
    replay = replay_of(run)
    for column, members in enumerate(groups):
        seen = mixing[members].any(axis=0) & ~np.isin(np.arange(n), members[:1])
        view = closed.averaging_view(mixing, seen, ROUNDS)
        order = np.argsort(replay.owner)
        if len(members) == 1:
            heard = replay.pushes[replay.deliveries[members[0]]][:, order]
            np.testing.assert_allclose(
                closed.message_exposures(heard), closed.message_exposures(view), rtol=0, atol=1e-6
            )
        view = view / replay.samples[order]  # noise of a gradient is divided by the batch size
        view[:, members] = 0.0  # the observer knows its own noise
        expected = [
            compute_epsilon(sigma / np.sqrt(min(share, 1.0)), 1, 1e-5) if share > 1e-12 else 0.0
            for share in by_hand(view).tolist()
        ]
        others = ~np.isin(np.arange(n), members)
        np.testing.assert_allclose(
            found.epsilon[others, column], np.array(expected)[others], rtol=0, atol=1e-6
        )
        assert np.isnan(found.epsilon[members, column]).all()


def test_muffliato_has_closed_forms_by_eigenvalues():
    n, near = 12, np.arange(12)
    for rounds in (1, 2, 6):
        ring = closed.message_exposures(closed.averaging_view(closed.ring_mixing(n), near % 10 == 1, rounds))
        assert ring[4] == pytest.approx(closed.ring_muffliato_exposure(n, 4, rounds), abs=1e-9)
        view = closed.averaging_view(np.full((n, n), 1 / n), near != 0, rounds)
        assert closed.message_exposures(view)[3] == pytest.approx(
            closed.complete_muffliato_exposure(n, rounds), abs=1e-9
        )


def test_a_random_walk_is_hidden_by_the_noise_of_all_its_steps():
    gaps = np.array([1, 3, 4])
    view = np.zeros((3, 8))
    for row, end in zip(view, np.cumsum(gaps), strict=True):
        row[end - gaps[np.searchsorted(np.cumsum(gaps), end)] : end] = 1.0
    np.testing.assert_allclose(
        update_exposures(view, np.arange(8))[[0, 1, 4]], closed.walk_exposures(gaps), atol=1e-9
    )


def symmetric_walk(name):
    """Return the walk on a graph in which each link is as likely in both directions."""
    near = mixing_of(name) > 0
    degrees = near.sum(axis=1)
    walk = np.where(near, 1 / np.maximum(degrees[:, None], degrees), 0.0)
    np.fill_diagonal(walk, 0.0)
    return walk + np.diag(1 - walk.sum(axis=1))


@pytest.mark.parametrize("name", GRAPHS)
def test_the_expected_exposure_by_a_walk_has_a_closed_form(name):
    """It is the sum of the powers of W over steps, and no less than the expectation over first visits."""
    walk = symmetric_walk(name)
    n, power = len(walk), np.eye(len(walk))
    total, unseen, first = np.zeros((n, n)), np.tile(np.eye(n), (n, 1, 1)), np.zeros((n, n))
    steps = 3000
    for step in range(1, steps + 1):
        power = power @ walk
        total += power / step
        arrived = unseen @ walk  # walks that have not met the observer, from each start, for each observer
        first += np.einsum("vuv->uv", arrived) / step
        unseen = arrived * (1 - np.eye(n))[:, None, :]
    found = closed.expected_walk_exposures(walk, steps)
    np.testing.assert_allclose(found, total, rtol=0, atol=1e-6)
    assert (found >= first - 1e-12).all()
    assert unseen.max() < 0.01
    for wrong, words in ((walk * 0.5, "rows of sum 1"), (np.eye(3), "cannot reach one another")):
        with pytest.raises(ValueError, match=words):
            closed.expected_walk_exposures(wrong, steps)


@pytest.mark.full
def test_the_expectation_over_first_visits_is_that_of_all_walks():
    """All walks of seven steps on a ring of five, each judged by the projection on what the observer sees."""
    n, steps, observer, walk = 5, 7, 2, closed.ring_mixing(5)
    found = np.zeros(n)
    for moves in itertools.product((-1, 0, 1), repeat=steps):
        for start in range(n):
            nodes = (start + np.cumsum([0, *moves])) % n
            visits = np.flatnonzero(nodes[1:] == observer) + 1
            view = np.array([(np.arange(steps + 1) < visit) for visit in visits], np.float64)
            view = view.reshape(-1, steps + 1) * (nodes != observer)  # it knows its own noise
            found[start] += update_exposures(view, np.arange(steps + 1))[0] / 3**steps
    arrived, expected = np.eye(n), np.zeros(n)
    for step in range(1, steps + 1):
        arrived = arrived @ walk
        expected += arrived[:, observer] / step
        arrived[:, observer] = 0.0
    others = np.arange(n) != observer
    np.testing.assert_allclose(found[others], expected[others], atol=1e-9)


@pytest.mark.parametrize(
    ("protocol", "network"),
    [
        ({"name": "rand-gossip", "fanout": 2, "view": {"size": 3}, "wakes": 3}, {"loss": 0.3}),
        ({"name": "rand-gossip", "fanout": 2, "view": {"size": 2}, "wakes": 3, "average": "all"},
         {"latency": {"law": "exponential", "mean": 0.4}}),
        ({"name": "fedavg", "rounds": 3, "participation": 0.5}, {"loss": 0.2}),
    ],
    ids=["pairwise", "all", "fedavg"],
)  # fmt: skip
def test_a_replay_gives_the_models_of_the_run(protocol, network, tmp_path, monkeypatch):
    """Before every local update a model is its start plus the weighted local updates in it."""
    seen, train = {}, _Learner.train

    def recorded(learner, row, update):
        before = row[8:].astype(np.float64)
        train(learner, row, update)
        seen[learner._node, update] = before, row[8:] - before

    monkeypatch.setattr(_Learner, "train", recorded)
    protocol = {**protocol, "merge": "samples"}
    scenario = tiny(
        protocol=protocol, network=network, training=SGD, observers=[], executor={"name": "reference"}
    )
    run = simulate(scenario, out=tmp_path / "run")
    replay = replay_of(run)
    assert len(replay.owner) == len(seen)
    keys = list(zip(replay.owner.tolist(), replay.order.tolist(), strict=True))
    moves = np.array([seen[key][1] for key in keys])
    start = seen[keys[0]][0]
    for row, key in zip(replay.before, keys, strict=True):
        np.testing.assert_allclose(start + row @ moves, seen[key][0], atol=1e-5)
    assert np.count_nonzero(replay.before) > 10


def test_an_update_shows_the_model_before_it():
    """Node 1 trains on what node 0 sent, so its gradient can undo noise: node 2 is as good as told the message."""
    before, pushes = np.array([[0.0, 0.0], [0.5, 0.0]]), np.array([[1.0, 0.0], [0.5, 1.0]])
    one = np.array([0, 1])
    replay = LinearReplay(one, 0 * one, 1 + one, before, pushes, one, one + 1, [[], [0], [1]])
    view, seen = observer_view(replay, np.array([2]))
    assert seen.all()
    np.testing.assert_allclose(update_exposures(view, one), 1.0)
    np.testing.assert_allclose(update_exposures(pushes[1:], one)[0], 0.2)


def reach_by_hand(run, n):
    """Return how many updates of each node can have come to each, by following every chain of messages."""
    updates, messages = run.events("update"), run.events("message")
    links = sorted(
        zip(*(messages[k].tolist() for k in ("sent_at", "time", "sender", "receiver")), strict=True)
    )
    found = np.zeros((n, n), int)
    for victim in range(n):
        times = updates["time"][updates["node"] == victim]
        for count, begin in enumerate(times.tolist(), 1):
            reached = {victim: begin}
            for sent_at, time, sender, receiver in links:
                if reached.get(sender, np.inf) <= sent_at:
                    reached[receiver] = min(reached.get(receiver, np.inf), time)
            found[victim, list(reached)] = count
    return found


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a run by Adam on batches, with half of the nodes defended: only the reach covers it."""
    protocol = {"name": "rand-gossip", "fanout": 1, "view": {"size": 2}, "wakes": 3}
    latency = {"latency": {"law": "exponential", "mean": 0.5}}
    scenario = tiny(
        protocol=protocol, observers=[], policies=[{**NOISE, "nodes": [*range(6)]}], network=latency,
        evaluate={"every": 3, "metrics": ["hr@5"]},
    )  # fmt: skip
    return simulate(scenario, out=tmp_path_factory.mktemp("runs") / "run")


def test_reach_counts_the_updates_that_can_have_come(trained):
    found, counts = network_epsilon(trained.path), reach_by_hand(trained, 12)
    assert "more than one step" in found.reason
    sigma, total = found_noise(trained), np.bincount(trained.events("update")["node"])
    for victim in range(12):
        for observer in set(range(12)) - {victim}:
            count = counts[victim, observer]
            assert np.isfinite(found.hops[victim, observer]) == (count > 0)
            spent = compute_epsilon(float(sigma[victim]), int(count), 1e-5) if victim < 6 else np.inf
            expected = spent if count else 0.0
            assert found.epsilon[victim, observer] == pytest.approx(expected, rel=1e-6)
        if victim < 6:
            assert found.local[victim] == pytest.approx(
                compute_epsilon(float(sigma[victim]), int(total[victim]), 1e-5), rel=1e-6
            )
    assert 0 < counts.min(where=counts > 0, initial=9) < counts.max() == 3
    together, own = network_epsilon(trained.path, observers=[[2, 8, 9]]), [2, 8, 9]
    others = ~np.isin(np.arange(12), own)
    np.testing.assert_array_equal(together.epsilon[others, 0], found.epsilon[others][:, own].max(axis=1))
    np.testing.assert_array_equal(together.hops[others, 0], found.hops[others][:, own].min(axis=1))


def found_noise(run):
    """Return the multiplier with which the updates of each defended node spend epsilon 5."""
    from gossiprec.defences import min_noise_multiplier

    return np.resize(min_noise_multiplier(5.0, 1e-5) * np.sqrt(np.bincount(run.events("update")["node"])), 12)


@pytest.mark.full
def test_command_and_figure_show_the_matrix(averaged, capsys, tmp_path):
    _, run = averaged
    code, printed, _ = invoke(capsys, "epsilon", run.path, "-q", "--json", "--observer", 3, "--victim", 1)
    rows = json.loads(printed)["by_hops"]
    assert (code, [row["pairs"] for row in rows]) == (0, [1])
    assert invoke(capsys, "epsilon", run.path, "-q")[0] == 0
    files = figure.draw([open_run(run.path)], tmp_path / "epsilon")
    lines = files[0].read_text().splitlines()
    code, printed, _ = invoke(
        capsys, "epsilon", run.path, "-q", "--json", "--coalition", "3, 8", "--victim", 1
    )
    assert (code, [row["pairs"] for row in json.loads(printed)["by_hops"]]) == (0, [1])
    assert ",1,-1," in figure.draw([open_run(run.path)], tmp_path / "coalition")[0].read_text()
    code, _, error = invoke(capsys, "epsilon", run.path, "--coalition", "3,ann")
    assert (code, "found '3,ann'; expected node ids with commas" in error) == (2, True)
    n = len(network_epsilon(run.path).victims)
    assert lines[0] == "run,victim,observer,hops,epsilon,reach,linear,sampled,local"
    assert len(lines) == 1 + n * (n - 1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"victims": ["ann"]}, "no user named 'ann'"),
        ({"victims": [12]}, "found user 12"),
        ({"observers": [13]}, "found observer 13; expected a node id from 0 to 11"),
        ({"observers": [[1, 13]]}, "found observer 13; expected a node id from 0 to 11"),
        ({"observers": [[]]}, "found a coalition of no nodes; expected at least one"),
    ],
)
def test_unknown_nodes_are_refused(trained, options, words):
    with pytest.raises(DataError, match=words):
        network_epsilon(trained.path, **options)


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({}, "found no dp-sgd; expected a run with noise"),
        ({"protocol": {"name": "pers-gossip", "wakes": 2}, "policies": [NOISE]}, "chooses receivers"),
    ],
)  # fmt: skip
def test_runs_that_no_epsilon_covers_are_refused(sections, words, tmp_path):
    protocol = {"name": "rand-gossip", "wakes": 1}
    sections = {"protocol": protocol, "observers": [], **sections}
    dataset = {**tiny()["dataset"], "split": {"name": "leave_last_k", "test": 1, "validation": 2}}
    run = simulate(tiny(**sections, dataset=dataset), out=tmp_path / "run")
    with pytest.raises(ScenarioError, match=words):
        network_epsilon(run.path)
    with pytest.raises(LogError, match="gossiprec epsilon"):
        figure.draw([run], tmp_path / "epsilon")
