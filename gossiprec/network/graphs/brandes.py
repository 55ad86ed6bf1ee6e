"""Brandes' search from several nodes in turn. Plain Python on plain arrays, so that numba can compile it."""

from __future__ import annotations

import numpy as np

from gossiprec.base.arrays import F64, I32, I64


def add_dependencies(
    out_offsets: I32, successors: I32, in_offsets: I32, predecessors: I32, first: I64, total: F64
) -> None:
    """Add to `total`, shape (n,), each node's shares of the shortest paths from some first nodes.

    Parameters
    ----------
    out_offsets, successors : ndarray of int32, shapes (n + 1,) and (n_links,)
        Node v's links lead to ``successors[out_offsets[v]:out_offsets[v + 1]]``.
    in_offsets, predecessors : ndarray of int32
        Sources of the links into each node, in the same form.
    first : ndarray of int64
    total : ndarray of float64, shape (n,)

    Notes
    -----
    Nodes of a level are in the reverse of the order in which they were found, like the rows of scipy's products. Sums
    are then taken in the same order as in :func:`gossiprec.network.graphs.centrality.betweenness`'s other form, so that
    the results are bit-identical.
    """
    n = len(out_offsets) - 1
    depth = np.empty(n, np.int32)
    paths, through = np.empty(n), np.empty(n)
    order, level_of = np.empty(n, np.int32), np.zeros(n + 2, np.int32)
    for root in first:
        depth[:] = -1
        depth[root], paths[root], through[root], order[0] = 0, 1.0, 0.0, root
        level_of[1] = 1
        level, end = 0, 1
        while level_of[level] < end:
            level += 1
            begin = end
            for place in range(level_of[level - 1], begin):
                node = order[place]
                for link in range(out_offsets[node], out_offsets[node + 1]):
                    reached = successors[link]
                    if depth[reached] < 0:
                        depth[reached], paths[reached], through[reached] = level, paths[node], 0.0
                        order[end] = reached
                        end += 1
                    elif depth[reached] == level:
                        paths[reached] += paths[node]
            low, high = begin, end - 1
            while low < high:
                order[low], order[high] = order[high], order[low]
                low, high = low + 1, high - 1
            level_of[level + 1] = end
        for back in range(level - 1, 0, -1):
            for place in range(level_of[back], level_of[back + 1]):
                node = order[place]
                share = (1.0 + through[node]) / paths[node]
                for link in range(in_offsets[node], in_offsets[node + 1]):
                    before = predecessors[link]
                    if depth[before] == back - 1:
                        through[before] += share
            for place in range(level_of[back - 1], level_of[back]):
                through[order[place]] *= paths[order[place]]
        for place in range(1, end):
            total[order[place]] += through[order[place]]
