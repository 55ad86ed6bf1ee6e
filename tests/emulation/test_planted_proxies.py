"""Communities put into the data of runs with hidden user rows, and the two proxies: all find them by far."""

import numpy as np
import pytest

from gossiprec.base.errors import ScenarioError
from gossiprec.emulation import simulate
from tests.emulation.tiny_runs import carried_out, tiny

GROUPS, MEMBERS, TASTES = 4, 7, 20
"""Four groups of seven users; each user has 12 of the 20 items that only its group likes."""
N = GROUPS * MEMBERS
K = MEMBERS - 1
GOSSIP = {"name": "rand-gossip", "fanout": 3, "view": {"size": 3}, "wakes": 25}
FEDAVG = {"name": "fedavg", "rounds": 12}


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    draw, lines = np.random.default_rng(0), []
    for user in range(N):
        for item in draw.choice(TASTES, 12, replace=False):
            lines.append(f"{user}\t{item + TASTES * (user % GROUPS)}\n")
    path = tmp_path_factory.mktemp("planted") / "pairs.tsv"
    path.write_text("".join(lines))
    dataset = {"name": "file", "path": str(path), "columns": ["user", "item"]}
    return {**dataset, "split": {"name": "leave_last_k", "test": 1, "validation": 0}}


def keeping_rows(nodes):
    """Return a policy with which some users keep their rows, and nothing else is changed."""
    return [{"name": "share-less", "tau": 0.0, "nodes": list(nodes)}]


def scenario(planted, protocol, observers, hidden=(), **executor):
    return tiny(
        policies=keeping_rows(hidden) if hidden else [],
        dataset=planted,
        executor={"name": "fused", **executor},
        training={"batch_size": 16, "learning_rate": 0.05, "local_epochs": 2},
        protocol=protocol,
        observers=observers,
        evaluate={"every": 4, "metrics": ["hr@5"]},
    )


def best(run):
    """Return Max AAC by (observer, relevance)."""
    return {(row["observer"], row["relevance"]): row["max_aac"] for row in run.summary["attacks"]}


def test_a_coalition_finds_communities_where_a_third_hide_their_rows(planted, tmp_path):
    observer = {
        "name": "cda",
        "who": "coalition",
        "fraction": 0.25,
        "community_size": K,
        "reference_items": 9,
    }
    run = simulate(
        scenario(planted, GOSSIP, [{**observer, "momentum": 0.5}], range(0, N, 3)), out=tmp_path / "run"
    )
    assert best(run)["coalition-25%", "standardized"] > 0.5  # guessing: 6 of 28, 0.22


def test_the_coordinator_finds_communities_among_hidden_rows(planted, tmp_path):
    observer = {"name": "cda", "who": "coordinator", "community_size": K, "reference_items": "all"}
    run = simulate(scenario(planted, FEDAVG, [{**observer, "momentum": 0.5}], range(N)), out=tmp_path / "run")
    assert best(run)["coordinator", "standardized"] > 0.6


def test_membership_inference_finds_communities_and_most_guesses_are_right(planted, tmp_path):
    mia = {"name": "entropy-mia", "community_size": K, "momentum": 0.5, "threshold": [0.2, 0.4]}
    gossip = simulate(
        scenario(planted, GOSSIP, [{**mia, "who": "single"}, {**mia, "who": "coalition", "fraction": 0.25}]),
        out=tmp_path / "gossip",
    )
    federated = simulate(
        scenario(planted, FEDAVG, [{**mia, "who": "coordinator"}]), out=tmp_path / "federated"
    )
    for run in (gossip, federated):
        assert min(best(run).values()) > 0.6
        assert {row["threshold"] for row in run.summary["membership"]} == {0.2, 0.4}
        for row in run.summary["membership"]:
            # Of a pair's items the victim has 11 / 20 if it is of the community, else none: 0.13 of all pairs.
            assert row["precision"] > 0.3
            assert row["recall"] > 0.5
    assert {row["observer"] for row in gossip.summary["membership"]} == {"coalition-25%"}
    names = set(federated.metrics["metric"].tolist())
    assert {"mia_precision[coordinator,b0.5,0.2]", "mia_recall[coordinator,b0.5,0.4]"} <= names


@pytest.mark.slow
@pytest.mark.full
def test_attribute_inference_finds_communities(planted, tmp_path):
    observers = [{"name": "aia", "adversaries": 8, "community_size": K, "models": 60, "epochs": 40}]
    run = simulate(scenario(planted, FEDAVG, observers), out=tmp_path / "run")
    assert best(run)["coordinator", "aia"] > 0.4  # guessing: 0.22, with a standard error of 0.06


def test_attribute_inference_ranks_everyone_but_the_adversary(planted):
    observers = [{"name": "aia", "adversaries": [1, 5], "community_size": K, "models": 5, "epochs": 5}]
    prepared = carried_out(scenario(planted, FEDAVG, observers), upto=1)
    shown = prepared.attacks[0].rankings()[0]
    assert shown.adversaries.tolist() == [1, 5]
    met = ~np.isnan(shown.scores)
    assert met.sum(axis=1).tolist() == [N - 1] * 2
    assert not met[0, 1]
    assert not met[1, 5]


@pytest.mark.slow
@pytest.mark.full
def test_results_do_not_depend_on_threads_or_wave_size(planted, tmp_path):
    observed = {"community_size": K, "momentum": [0.9, 0]}
    cda, mia = {"name": "cda", **observed}, {"name": "entropy-mia", **observed}
    watchers = {
        "gossip": [
            {**cda, "who": "single", "reference_items": 9},
            {**cda, "who": "single", "nodes": [3, 8], "reference_items": 9, "fictive_user": "own_embedding"},
            {**cda, "who": "coalition", "fraction": 0.25, "reference_items": 9},
            {**mia, "who": "single", "fictive_user": "paper"},
            {**mia, "who": "coalition", "fraction": 0.25, "fictive_user": "own_embedding"},
        ],
        "fedavg": [
            {**cda, "who": "coordinator", "reference_items": "all", "relevance": ["ndcg", "standardized"]},
            {**mia, "who": "coordinator"},
            {"name": "aia", "adversaries": 2, "models": 4, "epochs": 3, "community_size": K},
        ],
    }
    for name, protocol in (("gossip", {**GOSSIP, "wakes": 8}), ("fedavg", {**FEDAVG, "rounds": 4})):
        contents = set()
        for threads, wave_size in ((1, "unlimited"), (2, 1), (3, "unlimited")):
            executor = {"threads": threads, "wave_size": wave_size}
            path = tmp_path / f"{name}-{threads}"
            simulate(scenario(planted, protocol, watchers[name], range(0, N, 2), **executor), out=path)
            contents.add(b"".join((path / table).read_bytes() for table in ("metrics.csv", "attacks.csv")))
        assert len(contents) == 1


def test_the_time_of_each_attack_is_in_the_summary(planted, tmp_path):
    observers = [
        {"name": "cda", "who": "coordinator", "community_size": K, "reference_items": 9},
        {"name": "entropy-mia", "who": "coordinator", "community_size": K},
        {"name": "aia", "models": 4, "epochs": 3, "community_size": K},
    ]
    run = simulate(scenario(planted, FEDAVG, observers), out=tmp_path / "run")
    spent = run.summary["attack_seconds"]
    assert set(spent) == {"cda-coordinator", "entropy-mia-coordinator", "aia-coordinator"}
    assert all(0 < seconds < run.summary["wall_seconds"] for seconds in spent.values())


def test_attribute_inference_needs_a_coordinator_and_users_that_exist(planted, tmp_path):
    aia = {"name": "aia", "community_size": K}
    for protocol, options, message in (
        (GOSSIP, {}, "aia requires a protocol with a coordinator"),
        (FEDAVG, {"adversaries": [3, 99]}, "adversaries names user 99, but the last is 27"),
        (FEDAVG, {"adversaries": 40}, "adversaries is 40, but there are only 28 users"),
        (FEDAVG, {"adversaries": 0}, "adversaries"),
        (FEDAVG, {"models": 1}, "models"),
        (FEDAVG, {"epochs": 0}, "epochs"),
        (FEDAVG, {"momentum": 0.9}, "momentum"),
    ):
        with pytest.raises(ScenarioError, match=message):
            simulate(scenario(planted, protocol, [{**aia, **options}]), out=tmp_path / "run")
