"""What every registered family of graphs keeps to; and that the contract catches those that do not."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from gossiprec.network.graphs import FAMILIES, GraphFamily
from gossiprec.network.graphs.families import FamilyOption
from gossiprec.testing import check_topology
from tests.contracts.broken import told

OPTIONS = {
    "ring": {"k": 4},
    "watts-strogatz": {"p": 0.3},
    "erdos-renyi": {"p": 0.3},
    "barabasi-albert": {"m": 2},
    "stochastic-block": {"blocks": 2, "within": 0.8, "between": 0.2},
    "blocks-by-taste": {"nearest": 3, "within": 0.9, "between": 0.3},
    "nearest-by-taste": {"k": 4},
    "nearest-by-place": {"k": 4},
}
"""Options with which a family is checked; one that is not here is checked with its defaults."""


@pytest.mark.parametrize("name", list(FAMILIES))
def test_a_family_keeps_its_contract(name):
    check_topology(FAMILIES[name], OPTIONS.get(name))


def any_tree(n, seed):
    """Return a tree."""
    return nx.random_labeled_tree(n, seed=seed)


def mute(n, seed):
    return any_tree(n, seed)


def numbered_from_one(n, seed):
    """Return a tree."""
    return nx.relabel_nodes(any_tree(n, seed), {node: node + 1 for node in range(n)})


def self_centred(n, seed):
    """Return a tree with a loop."""
    return nx.Graph([*any_tree(n, seed).edges, (0, 0)])


def one_way(n, seed):
    """Return a tree."""
    return nx.DiGraph(any_tree(n, seed).edges)


def falls_apart(n, seed):
    """Return a tree less a link."""
    graph = any_tree(n, seed)
    graph.remove_edge(*next(iter(graph.edges)))
    return graph


def drawn_anew(n, seed):
    """Return any tree."""
    return any_tree(n, int(np.random.default_rng().integers(2**31)))


def deaf(n, seed):
    """Return the same tree."""
    return any_tree(n, 1)


def fails(n, seed):
    """Return a tree, if it can."""
    if n < 2:
        raise IndexError("no nodes")
    return any_tree(n, seed)


BROKEN = {
    mute: "Have a docstring that names the returned graph.* It begins with ''",
    numbered_from_one: r"Have the nodes 0 to n - 1.* Found \[1, 2,",
    self_centred: r"no link from a node to itself. Nodes \[0\] are linked",
    one_way: "Be undirected and connected.* The links are directed",
    falls_apart: "Be undirected and connected.* Found 2 parts with seed 0",
    drawn_anew: "Return the same graph for the same arguments",
    deaf: "Return another graph for another seed.* Ten seeds gave 1 different",
    fails: "Refuse sizes without a graph by a ValueError.* IndexError: no nodes",
}


def made(draw, **options):
    return GraphFamily(draw.__name__, draw, options, frozenset({"n", "seed"}))


def test_a_family_need_not_be_registered():
    check_topology(made(any_tree), n_nodes=9)


@pytest.mark.parametrize("draw", BROKEN, ids=lambda draw: draw.__name__)
def test_a_family_that_breaks_the_contract_is_told_which_claim(draw):
    with told(draw, BROKEN[draw], kind="family"):
        check_topology(made(draw))


def test_an_option_that_nothing_is_said_of_is_told():
    def spread(n, seed, width):
        """Return a tree."""
        return any_tree(n, seed)

    with told(spread, "a meaning of each option. Found no meaning of width", kind="family"):
        check_topology(made(spread, width=FamilyOption(int, "", 1)))
