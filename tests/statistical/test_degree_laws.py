"""The laws of drawn graphs: degrees, links within and between blocks, rewiring.

Seeds are fixed, so a test passes always or never. Levels are 0.001; other tolerances are derived where they stand.
"""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
from scipy import stats

from gossiprec.network import graphs

LEVEL = 0.001


def degrees(graph):
    return np.array([graph.degree(node) for node in range(len(graph))])


def test_degrees_of_a_random_graph_are_binomial():
    """Chi-square on 20 graphs of 200 nodes, p = 0.1; being connected excludes next to nothing (n p = 20)."""
    found = np.concatenate([degrees(graphs.erdos_renyi(200, 0.1, seed)) for seed in range(20)])
    law = stats.binom(199, 0.1)
    edges = [0, *range(13, 29), 200]
    expected = len(found) * np.diff([law.cdf(edge - 1) for edge in edges])

    assert (
        stats.chisquare(np.histogram(found, edges)[0], expected * len(found) / expected.sum()).pvalue > LEVEL
    )


@pytest.mark.slow
@pytest.mark.full
def test_degrees_of_preferential_attachment_follow_the_power_law_of_the_literature():
    """In the limit P(k) = 2 m (m + 1) / (k (k + 1) (k + 2)), the tail P(>= k) = m (m + 1) / (k (k + 1)).

    20 graphs of 2,000 nodes, m = 3: 40,000 degrees. The tail beyond k = 5, 10, 20 and 40 has probability 0.4, 0.109,
    0.0286 and 0.0073; counts vary by less than sqrt(P / 40000) = 0.003, 0.0017, 0.0008, 0.0004 and the limit is
    missed by terms of order m / n, a hundredth of that. The tolerance is five deviations, and 2 % of the value.

    References
    ----------
    B. Bollobas, O. Riordan, J. Spencer, G. Tusnady, "The degree sequence of a scale-free random graph process", 2001.
    """
    found = np.concatenate([degrees(graphs.barabasi_albert(2000, 3, seed)) for seed in range(20)])

    assert found.mean() == 2 * 3 * (2000 - 3) / 2000
    for k in (5, 10, 20, 40):
        tail = 3 * 4 / (k * (k + 1))
        assert (found >= k).mean() == pytest.approx(tail, abs=5 * math.sqrt(tail / 40_000) + 0.02 * tail)


def test_hubs_are_larger_than_in_a_random_graph_of_the_same_size():
    hubs = graphs.barabasi_albert(500, 3, 1)
    even = graphs.erdos_renyi(500, 2 * hubs.number_of_edges() / (500 * 499) + 0.004, 1)

    assert degrees(hubs).max() > 2 * degrees(even).max()


def test_blocks_are_linked_as_often_as_stated():
    """20 graphs of 4 blocks of 25: 24,000 pairs inside at 0.3, 75,000 between at 0.05.

    Deviations are sqrt(0.3 * 0.7 / 24000) = 0.0030 and sqrt(0.05 * 0.95 / 75000) = 0.0008; five of each.
    """
    inside = between = 0
    for seed in range(20):
        graph = graphs.stochastic_block(100, seed, blocks=4, within=0.3, between=0.05)
        same = [a // 25 == b // 25 for a, b in graph.edges]
        inside, between = inside + sum(same), between + len(same) - sum(same)

    assert inside / (20 * 4 * 300) == pytest.approx(0.3, abs=0.015)
    assert between / (20 * 6 * 625) == pytest.approx(0.05, abs=0.004)


def test_each_link_of_the_lattice_is_rewired_with_the_stated_probability():
    """20 graphs of 200 nodes, k = 6: 12,000 links. One stays with probability 1 - p, or is drawn again to where it was.

    A rewired link lands on a place of the lattice with probability below 6 / 193: 0.03 of p. The deviation is at most
    sqrt(0.25 / 12000) = 0.0046; the tolerance is five of them plus 0.03 p.
    """
    lattice = {frozenset(edge) for edge in graphs.ring(200, 6).edges}
    for p in (0.05, 0.3, 0.8):
        kept = [
            len(lattice & {frozenset(edge) for edge in graphs.watts_strogatz(200, 6, p, seed).edges}) / 600
            for seed in range(20)
        ]
        assert np.mean(kept) == pytest.approx(1 - p, abs=0.023 + 0.03 * p)


@pytest.mark.full
def test_a_little_rewiring_shortens_paths_and_leaves_clustering():
    """Watts and Strogatz (1998), Figure 2: at p = 0.01, n = 1000, k = 10 paths are a fifth, clustering nine tenths."""
    ring, world = graphs.ring(1000, 10), graphs.watts_strogatz(1000, 10, 0.01, 1)

    assert nx.average_shortest_path_length(world) < 0.3 * nx.average_shortest_path_length(ring)
    assert nx.average_clustering(world) > 0.9 * nx.average_clustering(ring)


@pytest.mark.full
def test_neighbours_in_random_regular_graphs_are_uniform():
    """Chi-square on 2,000 graphs of 8 nodes of degree 3: each of 28 links is expected 2000 * 12 / 28 = 857 times.

    The links of one graph exclude one another, which makes counts less variable than the law has it: both tails.
    """
    counts = np.zeros((8, 8))
    for seed in range(2000):
        for a, b in graphs.random_regular(8, 3, seed).edges:
            counts[min(a, b), max(a, b)] += 1
    found = stats.chisquare(counts[np.triu_indices(8, 1)])

    assert LEVEL < found.pvalue < 1 - LEVEL
