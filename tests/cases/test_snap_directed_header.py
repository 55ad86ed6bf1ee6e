"""Files of the SNAP collection state in capitals that their links are directed."""

from __future__ import annotations

import pytest

from gossiprec.network import graphs


@pytest.mark.parametrize("name", ["votes.txt", "capital.edges", "small.edges"])
def test_the_links_are_directed(in_case, name):
    graph = graphs.read_graph(in_case("snap_directed_header") / name)
    assert graph.is_directed()
    assert sorted(graph.edges) == [(0, 1), (0, 2), (1, 2), (2, 3), (3, 0)]
