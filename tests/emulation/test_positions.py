"""Leakage by position: positions.csv, and colluders placed in whole runs."""

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

from gossiprec.base.errors import ScenarioError
from gossiprec.emulation import simulate
from gossiprec.emulation.progress import NullProgress
from gossiprec.emulation.scoring.positions import contact_counts, contact_measures, members_by_coalition
from gossiprec.measures.communities import jaccard_communities
from gossiprec.runs import read_log
from gossiprec.runs.run_files import log_path
from tests.emulation.tiny_runs import SINGLE, carried_out, tiny

N = 12
COALITION = {"name": "cda", "who": "coalition", "community_size": 3, "reference_items": 9}


def gossip(graph=None, **more):
    """Return a protocol section; over a fixed graph if one is named."""
    view = {"size": 3} if graph is None else {"graph": graph}
    return {"name": "rand-gossip", "fanout": 3, "view": view, "wakes": 6, **more}


RING = gossip({"family": "ring", "k": 2})
STAR = gossip({"family": "star"}, fanout=11)
VALIDATED = {**tiny()["dataset"], "split": {"name": "leave_last_k", "test": 2, "validation": 2}}
LOSSY = {"latency": {"law": "exponential", "mean": 0.4}, "loss": 0.3}


def measured(run):
    """Return {measure: {node: value}}."""
    found = {}
    columns = (run.positions[name].tolist() for name in ("node", "measure", "value"))
    for node, measure, value in zip(*columns, strict=True):
        assert node not in found.setdefault(measure, {})
        found[measure][node] = value
    return found


def values(by_node):
    assert list(by_node) == list(range(len(by_node)))
    return list(by_node.values())


def test_on_a_ring_everybody_has_two_contacts_and_is_as_central_as_anybody(tmp_path):
    run = simulate(tiny(protocol=RING), out=tmp_path / "run")
    found = measured(run)
    assert values(found["in_contacts"]) == values(found["out_contacts"]) == [2] * N
    assert values(found["sent"]) == [12] * N  # two neighbours, six wakes
    assert values(found["received"]) == [12] * N
    assert values(found["pagerank"]) == pytest.approx([1 / N] * N)
    expected = nx.betweenness_centrality(nx.cycle_graph(N))
    assert values(found["betweenness"]) == pytest.approx([expected[node] for node in range(N)])


def test_what_is_measured_is_what_the_log_says(tmp_path):
    run = simulate(tiny(network=LOSSY), out=tmp_path / "run")
    found, messages, drops = measured(run), run.events("message"), run.events("drop")
    for node in range(N):
        assert found["received"][node] == (messages["receiver"] == node).sum()
        assert found["sent"][node] == (messages["sender"] == node).sum() + (drops["sender"] == node).sum()
        assert found["in_contacts"][node] == len(
            set(messages["sender"][messages["receiver"] == node].tolist())
        )
        assert found["out_contacts"][node] == len(
            set(messages["receiver"][messages["sender"] == node].tolist())
        )
    assert sum(found["sent"].values()) > sum(found["received"].values())


def test_where_nearly_all_meet_nothing_is_said_of_paths(tmp_path):
    run = simulate(tiny(observers=[{**COALITION, "fraction": 0.25}]), out=tmp_path / "run")
    contacts = contact_counts(read_log(log_path(run.path)), N)
    assert contacts.nnz > 0.25 * N * (N - 1)
    names = set(measured(run))
    assert {"sent", "received", "in_contacts", "out_contacts"} < names
    assert not names & {"betweenness", "pagerank", "distance[coalition-25%]"}


def test_distances_are_hops_to_the_nearest_colluder(tmp_path):
    two = [
        {**COALITION, "members": [0, 5]},
        {**COALITION, "fraction": 0.25, "placement": "eclipse", "victim": 9},
    ]
    found = measured(simulate(tiny(protocol=RING, observers=two), out=tmp_path / "run"))
    assert values(found["distance[coalition-2-nodes]"]) == [0, 1, 2, 2, 1, 0, 1, 2, 3, 3, 2, 1]
    around = found["distance[coalition-25%-eclipse-9]"]
    assert [around[node] for node in (8, 9, 10)] == [0, 1, 0]


def test_distances_follow_the_way_models_go_and_are_left_out_where_there_is_none():
    chain = sparse.csr_array((np.ones(3, np.int64), ([0, 1, 2], [1, 2, 3])), shape=(5, 5))
    found = {name: values.tolist() for name, _, values in contact_measures(chain, {"c": np.array([2])})}
    assert found["distance[c]"] == pytest.approx([2, 1, 0, np.nan, np.nan], nan_ok=True)
    assert found["in_contacts"] == [0, 1, 1, 1, 0]
    assert found["out_contacts"] == [1, 1, 1, 0, 0]


def test_coalitions_that_share_a_name_but_not_their_members_have_no_distance():
    same = {**COALITION, "members": [0, 5]}
    other = {**COALITION, "members": [1, 2], "relevance": "ndcg"}
    again = {**COALITION, "members": [0, 5], "relevance": "mean_score"}
    third = {**COALITION, "members": [0, 5, 7]}
    kept = members_by_coalition(carried_out(tiny(observers=[same, other, again, third]), upto=0).attacks)
    assert {name: members.tolist() for name, members in kept.items()} == {"coalition-3-nodes": [0, 5, 7]}


def test_accuracies_are_those_of_the_best_round_and_hits_add_up_from_both_sides(tmp_path):
    """What adversaries find, added up, is what victims are found: every hit has one of each."""
    observers = [{**SINGLE, "relevance": ["ndcg", "standardized"]}, {**COALITION, "fraction": 0.5}]
    run = simulate(tiny(protocol=RING, observers=observers), out=tmp_path / "run")
    found = measured(run)
    assert len(run.adversaries) == 3
    for key, (nodes, accuracies) in run.adversaries.items():
        assert found[f"accuracy[{key}]"] == dict(zip(nodes.tolist(), accuracies.tolist(), strict=True))
        exposed = found[f"found[{key}]"]
        assert all(0 <= share <= 1 for share in exposed.values())
    train = carried_out(tiny(protocol=RING), upto=0).components.split.train
    interested = jaccard_communities(train, n_items=40, k=3).membership_matrix().sum(axis=0)
    singles = found["found[single/ndcg/b0.99/k3]"]
    hits = sum(share * interested[victim] for victim, share in singles.items())
    assert hits == pytest.approx(3 * sum(found["accuracy[single/ndcg/b0.99/k3]"].values()))
    assert hits > 0


@pytest.mark.parametrize("protocol", ["pers-gossip", "fedavg"])
def test_every_protocol_has_positions(protocol, tmp_path):
    sections = {
        "pers-gossip": {"name": "pers-gossip", "view": {"size": 3}, "wakes": 4},
        "fedavg": {"name": "fedavg", "rounds": 4},
    }
    observers = [{**SINGLE, "who": "coordinator"}] if protocol == "fedavg" else [SINGLE]
    scenario = tiny(protocol=sections[protocol], observers=observers, dataset=VALIDATED)
    run = simulate(scenario, out=tmp_path / "run")
    found = measured(run)
    assert sum(found["received"].values()) == len(run.events("message")["time"])
    if protocol == "fedavg":  # the coordinator is the last node
        assert values(found["in_contacts"]) == [1] * N + [N]
        assert found["betweenness"][N] == 1


def test_an_interrupted_run_says_where_nodes_sat_so_far(tmp_path):
    class Stopper(NullProgress):
        def tick(self, status):
            raise KeyboardInterrupt

    run = simulate(tiny(protocol=RING), out=tmp_path / "run", progress=Stopper())
    found = measured(run)
    assert run.manifest["status"] == "interrupted"
    assert 0 < sum(found["received"].values()) == len(run.events("message")["time"]) < 12 * N
    assert set(found["accuracy[single/standardized/b0.99/k3]"]) == set(range(N))


def test_a_run_in_which_nothing_happened_has_an_empty_table(tmp_path):
    silent = tiny(protocol=RING, network={"loss": 0.999999}, observers=[])
    found = measured(simulate(silent, out=tmp_path / "run"))
    assert set(found) == {"sent"}


@pytest.mark.slow
def test_the_same_scenario_gives_the_same_positions(tmp_path):
    files = [
        (simulate(tiny(protocol=RING), out=tmp_path / name).path / "positions.csv").read_bytes()
        for name in "ab"
    ]
    assert files[0] == files[1]


def bounds(run):
    """Return the last upper bound of every observer: the share of the communities met."""
    return dict(zip(run.attacks["observer"].tolist(), run.attacks["upper_bound"].tolist(), strict=True))


def test_the_hub_of_a_star_sees_everyone_and_a_leaf_the_hub_alone(tmp_path):
    placed = {**COALITION, "fraction": 0.09, "placement": ["degree", "betweenness", "greedy-cover"]}
    leaf = {**COALITION, "members": [4]}
    run = simulate(tiny(protocol=STAR, observers=[placed, leaf]), out=tmp_path / "run")
    met = bounds(run)
    for how in ("degree", "betweenness", "greedy-cover"):
        assert met[f"coalition-9%-{how}"] == 1.0
    assert met["coalition-1-nodes"] <= 1 / 3  # of a community of three


def test_an_eclipse_in_a_whole_run_surrounds_its_victim(tmp_path):
    eclipse = {**COALITION, "fraction": 0.17, "placement": "eclipse", "victim": 7}
    (attack,) = carried_out(tiny(protocol=RING, observers=[eclipse]), upto=0).attacks
    assert [members.tolist() for members in attack.pools] == [[6, 8]]


def test_contacts_before_the_run_are_those_that_the_log_has_after_it(tmp_path):
    scenario = tiny(network=LOSSY, observers=[{**COALITION, "fraction": 0.25, "placement": "degree"}])
    (attack,) = carried_out(scenario, upto=0).attacks
    run = simulate(scenario, out=tmp_path / "run")
    before, after = attack.context.contacts(), contact_counts(read_log(log_path(run.path)), N)
    assert (before.toarray() == after.toarray()).all()
    senders = measured(run)["in_contacts"]
    placed = attack.pools[0].tolist()
    assert min(senders[node] for node in placed) >= max(senders[node] for node in set(range(N)) - set(placed))


@pytest.mark.slow
def test_written_out_random_placement_changes_no_byte(tmp_path):
    files = []
    for name, more in (("plain", {}), ("written", {"placement": "random", "victim": None})):
        run = simulate(tiny(observers=[{**COALITION, "fraction": [0.2, 0.5], **more}]), out=tmp_path / name)
        files.append((run.path / "attacks.csv").read_bytes() + run.manifest["log_digest"].encode())
    assert files[0] == files[1]
    assert b"coalition-20%," in files[0]


@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        ({"name": "pers-gossip", "view": {"size": 3}, "wakes": 4}, "they depend on model performance"),
        ({"name": "fedavg", "rounds": 2}, "with a coordinator nodes receive no models"),
    ],
)
def test_placing_needs_contacts_known_before_the_run(protocol, message, tmp_path):
    placed = {**COALITION, "fraction": 0.25, "placement": "degree"}
    with pytest.raises(ScenarioError, match=message):
        simulate(tiny(protocol=protocol, observers=[placed], dataset=VALIDATED), out=tmp_path / "run")


def test_folding_messages_early_counts_the_same(tmp_path, monkeypatch):
    run = simulate(tiny(), out=tmp_path / "run")
    log = read_log(log_path(run.path))
    whole = contact_counts(log, N).toarray()
    monkeypatch.setattr("gossiprec.emulation.scoring.positions.FOLD_ROWS", 40)
    assert (contact_counts(log, N).toarray() == whole).all()
    messages = run.events("message")
    naive = np.zeros((N, N), int)
    np.add.at(naive, (messages["sender"], messages["receiver"]), 1)
    assert (whole == naive).all()
