"""Where colluders sit."""

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from gossiprec.network import graphs
from gossiprec.network.graphs.centrality import PLACEMENTS, count_senders_reached, place_colluders
from gossiprec.network.graphs.measures import adjacency

UNTARGETED = [how for how in PLACEMENTS if how != "eclipse"]


def drawn_contacts(seed, n=12):
    rng = np.random.default_rng(seed)
    counts = rng.poisson(0.6, (n, n))
    np.fill_diagonal(counts, 0)
    return sparse.csr_array(counts)


def contacts_of(links, n):
    """Return contacts from {(sender, receiver): deliveries}."""
    senders, receivers = zip(*links, strict=True)
    return sparse.csr_array((list(links.values()), (senders, receivers)), shape=(n, n))


def chosen(contacts, size, how, **more):
    return place_colluders(contacts, size, how, **more).tolist()


@pytest.mark.parametrize("how", PLACEMENTS)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 10))
@settings(max_examples=25, deadline=None)
def test_groups_have_their_size_and_the_larger_contains_the_smaller(how, seed, size):
    contacts = drawn_contacts(seed)
    more = {"victim": 5} if how == "eclipse" else {"seed": seed}
    small, large = (chosen(contacts, k, how, **more) for k in (size, size + 1))
    assert small == sorted(set(small))
    assert len(small) == size
    assert set(small) < set(large)
    assert set(large) <= set(range(12))
    assert how != "eclipse" or 5 not in large


def test_degree_takes_those_who_hear_from_most_then_most_often_then_the_lower_id():
    links = {
        (0, 4): 1,
        (1, 4): 1,
        (2, 4): 1,
        (0, 3): 9,
        (1, 3): 1,
        (4, 2): 1,
        (0, 2): 1,
        (1, 0): 5,
        (0, 1): 5,
    }
    contacts = contacts_of(links, 6)
    assert [chosen(contacts, size, "degree") for size in (1, 2, 3, 4)] == [
        [4],
        [3, 4],
        [2, 3, 4],
        [0, 2, 3, 4],
    ]


def test_betweenness_takes_the_bridge_before_the_hubs():
    barbell = nx.barbell_graph(4, 1)  # two cliques of four, and node 4 between nodes 3 and 5
    assert chosen(adjacency(barbell), 1, "betweenness") == [4]
    assert chosen(adjacency(barbell), 3, "betweenness") == [3, 4, 5]
    assert chosen(adjacency(barbell), 2, "degree") == [3, 5]


@given(seed=st.integers(0, 10**6), size=st.integers(1, 30))
@settings(max_examples=40, deadline=None)
def test_a_cluster_hangs_together_and_is_a_ball(seed, size):
    graph = graphs.watts_strogatz(30, 4, 0.1, 7)
    members = chosen(adjacency(graph), size, "clustered", seed=seed)
    assert nx.is_connected(graph.subgraph(members))
    centre = chosen(adjacency(graph), 1, "clustered", seed=seed)[0]
    hops = nx.single_source_shortest_path_length(graph, centre)
    outside = [hops[node] for node in graph if node not in members]
    assert max(hops[node] for node in members) <= min(outside, default=30)


def test_of_equally_near_nodes_a_cluster_takes_those_its_centre_meets_most():
    centre = chosen(adjacency(graphs.complete(5)), 1, "clustered", seed=8)[0]
    others = [node for node in range(5) if node != centre]
    links = {(centre, other): count for other, count in zip(others, (1, 4, 2, 3), strict=True)}
    links[others[2], centre] = 9
    assert set(chosen(contacts_of(links, 5), 3, "clustered", seed=8)) == {centre, others[2], others[1]}


def test_centres_depend_on_the_seed():
    ring = adjacency(graphs.ring(20, 2))
    assert len({tuple(chosen(ring, 3, "clustered", seed=seed)) for seed in range(10)}) > 4


def most_reached(contacts, size):
    nodes = range(contacts.shape[0])
    return max(
        count_senders_reached(contacts, np.array(some)) for some in itertools.combinations(nodes, size)
    )


@given(seed=st.integers(0, 10**6), size=st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_a_greedy_cover_reaches_what_greed_guarantees(seed, size):
    """Nemhauser et al.: at least 1 - (1 - 1/m)^m of the best m nodes."""
    contacts = drawn_contacts(seed, n=9)
    reached = count_senders_reached(contacts, place_colluders(contacts, size, "greedy-cover"))
    assert reached >= (1 - (1 - 1 / size) ** size) * most_reached(contacts, size) - 1e-9


@pytest.mark.parametrize("graph", [graphs.ring(60, 2), nx.barabasi_albert_graph(60, 2, seed=1)])
@pytest.mark.parametrize("size", [3, 6, 12])
@pytest.mark.cases(1)
@pytest.mark.slow
def test_a_greedy_cover_reaches_more_than_any_other_placement(graph, size):
    contacts = adjacency(graph)
    greedy = count_senders_reached(contacts, place_colluders(contacts, size, "greedy-cover"))
    for how, seed in itertools.product(UNTARGETED, range(20)):
        assert count_senders_reached(contacts, place_colluders(contacts, size, how, seed=seed)) <= greedy


def test_each_of_a_greedy_cover_adds_most_and_the_cover_begins_anew_when_all_are_reached():
    # 3 hears from 0, 1, 2; 4 from 2, 5; 0 from 3, 4; 2 from 0 only; 1 and 5 from nobody
    links = {(0, 3): 1, (1, 3): 1, (2, 3): 1, (2, 4): 9, (5, 4): 9, (3, 0): 1, (4, 0): 1, (0, 2): 9}
    contacts = contacts_of(links, 6)
    assert [chosen(contacts, size, "greedy-cover") for size in (1, 2, 3)] == [[3], [0, 3], [0, 3, 4]]
    assert count_senders_reached(contacts, np.array([0, 3, 4])) == 6
    assert chosen(contacts, 4, "greedy-cover") == [0, 2, 3, 4]  # anew: node 2 adds a sender, 1 and 5 none


def test_an_eclipse_takes_those_the_victim_tells_most_then_those_who_tell_it_most_then_the_nearest():
    links = {(5, 1): 7, (5, 2): 3, (1, 5): 9, (3, 5): 8, (4, 5): 9, (0, 3): 1}
    contacts = contacts_of(links, 7)
    order = [set(chosen(contacts, size, "eclipse", victim=5)) for size in range(1, 7)]
    assert order == [{1}, {1, 2}, {1, 2, 4}, {1, 2, 3, 4}, {0, 1, 2, 3, 4}, {0, 1, 2, 3, 4, 6}]


@given(seed=st.integers(0, 10**6), victim=st.integers(0, 29))
@settings(max_examples=30, deadline=None)
def test_an_eclipse_of_as_many_as_the_victim_has_neighbours_surrounds_it(seed, victim):
    graph = graphs.watts_strogatz(30, 4, 0.5, seed)
    members = chosen(adjacency(graph), graph.degree[victim], "eclipse", victim=victim)
    assert members == sorted(graph[victim])


def test_the_hub_of_a_star_alone_reaches_everyone_else():
    star = adjacency(graphs.star(9))
    for how in ("degree", "betweenness", "greedy-cover"):
        assert chosen(star, 1, how) == [0]
    assert count_senders_reached(star, np.array([0])) == 8
    assert count_senders_reached(star, np.array([1, 2, 3])) == 1


@pytest.mark.parametrize("how", UNTARGETED)
def test_a_choice_does_not_depend_on_the_order_in_which_contacts_are_stored(how):
    contacts = drawn_contacts(3)
    shuffled = contacts.tocoo()
    order = np.random.default_rng(0).permutation(shuffled.nnz)
    rows, columns = shuffled.coords
    turned = sparse.coo_array((shuffled.data[order], (rows[order], columns[order])), shape=shuffled.shape)
    assert chosen(contacts, 4, how, seed=2) == chosen(turned, 4, how, seed=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, "nearest", None), "found placement 'nearest', must be one of random, degree"),
        ((3, "eclipse", None), "found victim None with placement eclipse; only eclipse uses a victim"),
        ((3, "degree", 2), "found victim 2 with placement degree"),
        ((3, "eclipse", 12), "found victim 12, must be from 0 to 11"),
        ((12, "eclipse", 1), "found 12 colluders, must be from 1 to 11"),
        ((13, "degree", None), "found 13 colluders, must be from 1 to 12"),
        ((0, "degree", None), "found 0 colluders"),
    ],
)
def test_impossible_placements_are_refused(arguments, message):
    size, how, victim = arguments
    with pytest.raises(ValueError, match=message):
        place_colluders(drawn_contacts(1), size, how, victim=victim)
