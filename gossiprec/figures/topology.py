"""Drawings of graphs: nodes, links, and in vermilion colluders that observe every link.

The colluders are few, but not always the minimum (:func:`gossiprec.network.graphs.measures.find_colluder_cover`).
Nodes
are placed by springs between linked nodes, or on a circle in the order of ids; the same graph gives the same picture.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import networkx as nx
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy.spatial import KDTree

from gossiprec.base.arrays import F64, I64, Bools
from gossiprec.figures import style
from gossiprec.figures.figure_files import Cell, write_figure
from gossiprec.network.graphs.files import ordered_links
from gossiprec.network.graphs.measures import colluder_bound, find_colluder_cover

Layout = Literal["spring", "circular"]

MOST_LINKS = 20_000
"""Limit on links, above which a picture is unreadable."""
DISTANT_UP_TO = 150
"""Up to this number of nodes, positions are fitted to all distances; above it, springs pull linked nodes together."""
NODE_PT = (2.5, 13.0)
"""Least and largest width of a node in points; the largest holds a two-digit id."""
LEAST_PT, APART = 0.8, 0.7
"""Least width of a node in large graphs, and its fraction of the neighbour distance, to keep links visible."""
DEPTH, MOST_DEPTH = 0.05, 0.3
"""Bend of a link on a circle per node between its ends, as a fraction of the radius, and its limit."""
CURVE_POINTS = 17
HEADER = ("graph", "node", "x", "y", "degree", "colluder")
COLLUDER, OTHER = style.line_style(1).color, style.line_style(0).color


@dataclass(frozen=True)
class PlacedGraph:
    """A graph with the positions of its nodes and its colluders.

    Attributes
    ----------
    places : ndarray of float64, shape (n, 2)
        Positions in a square from -1 to 1.
    colluders : ndarray of bool, shape (n,)
    """

    name: str
    graph: nx.Graph
    places: F64
    colluders: Bools

    @property
    def degrees(self) -> list[int]:
        """Number of links of every node, in and out."""
        return [int(self.graph.degree(node)) for node in range(len(self.graph))]


def draw(graphs: Sequence[tuple[str, nx.Graph]], out_stem: Path, *, layout: Layout = "spring") -> list[Path]:
    """Draw graphs over nodes 0 .. n - 1 by name, a panel for each; return the files written.

    Raises
    ------
    ValueError
        If a graph has too many links to be distinguished.
    """
    for name, graph in graphs:
        if graph.number_of_edges() > MOST_LINKS:
            raise ValueError(
                f"found {graph.number_of_edges():,} links in {name}, but a figure shows up to "
                f"{MOST_LINKS:,}; draw a smaller or sparser graph"
            )
    shown = [place_nodes(name, graph, layout) for name, graph in graphs]
    return write_figure(
        out_stem, HEADER, [row for one in shown for row in _rows(one)], lambda: _figure(shown)
    )


def place_nodes(name: str, graph: nx.Graph, layout: Layout) -> PlacedGraph:
    """Return a graph with its colluders and the positions of its nodes."""
    colluders = np.zeros(len(graph), bool)
    colluders[find_colluder_cover(graph)] = True
    if layout == "circular" or is_ring(graph):
        angle = np.pi / 2 - 2 * np.pi * np.arange(len(graph)) / len(graph)  # clockwise from the top
        return PlacedGraph(name, graph, np.stack([np.cos(angle), np.sin(angle)], axis=1), colluders)
    links = graph.to_undirected()
    if len(links) <= DISTANT_UP_TO and nx.is_connected(links):
        found = nx.kamada_kawai_layout(links)
    else:
        found = nx.spring_layout(links, pos=nx.circular_layout(links), seed=0, iterations=100)
    places = np.array([found[node] for node in range(len(graph))])
    places -= (places.max(axis=0) + places.min(axis=0)) / 2
    return PlacedGraph(name, graph, places / max(np.abs(places).max(), 1e-12), colluders)


def is_ring(graph: nx.Graph) -> bool:
    """Return whether nodes are linked only to near neighbours in a circle, which springs would only distort."""
    n, links = len(graph), np.array(ordered_links(graph))
    if not len(links) or n < 4:
        return False
    around = np.abs(links[:, 0] - links[:, 1])
    hops = np.minimum(around, n - around)
    return bool(hops.max() <= max(2 * len(links) / n, 2) / 2 < n / 4)


def curved_links(places: F64, links: I64) -> F64:
    """Return the course of links of a graph with its nodes on a circle, shape (n_links, n_points, 2).

    Straight links would hide under the nodes between their ends: the further apart the ends, the further in they run.
    """
    ends = places[links]
    turn = np.abs(np.diff(np.arctan2(ends[..., 1], ends[..., 0]), axis=1)[:, 0])
    turn = np.minimum(turn, 2 * np.pi - turn)
    hops = turn * len(places) / (2 * np.pi)
    middle = ends.mean(axis=1)
    chord = np.cos(turn / 2)  # distance of a straight link's middle from the centre
    wanted = np.minimum(chord, 1.0 - np.minimum(DEPTH * hops, MOST_DEPTH))
    radius = np.linalg.norm(places, axis=1).mean()
    outward = middle / np.maximum(np.linalg.norm(middle, axis=1, keepdims=True), 1e-12)
    bend = middle + 2 * (
        outward * (wanted * radius)[:, None] - middle
    )  # control point of the curve that passes there
    bend = np.where((wanted < chord)[:, None], bend, middle)
    t = np.linspace(0.0, 1.0, CURVE_POINTS)[None, :, None]
    first, last = ends[:, :1], ends[:, 1:]
    return (1 - t) ** 2 * first + 2 * t * (1 - t) * bend[:, None] + t**2 * last


def _rows(drawn: PlacedGraph) -> list[Sequence[Cell]]:
    return [
        (drawn.name, node, float(x), float(y), degree, int(colludes))
        for node, ((x, y), degree, colludes) in enumerate(
            zip(drawn.places, drawn.degrees, drawn.colluders, strict=True)
        )
    ]


def _figure(shown: Sequence[PlacedGraph]) -> Figure:
    n_columns = 2 if len(shown) == 4 else min(len(shown), 3)
    width = style.COLUMN_IN if n_columns == 1 else style.PAGE_IN
    m = style.Margins(left=0.1, right=0.1, top=0.62, bottom=0.35, between_columns=0.2, between_rows=0.7)
    side = m.panel_width(width, n_columns)
    figure, panels = style.panel_list(len(shown), n_columns, width=width, panel_height=side, margins=m)
    widths = [node_width(one, side / style.POINT_IN) for one in shown]
    has_ids = min(widths) == NODE_PT[1]  # in all panels, or in none
    for axes, one, width_pt in zip(panels, shown, widths, strict=True):
        _panel(axes, one)
        _draw_nodes(axes, one, width_pt=width_pt, has_ids=has_ids)
    _explain(figure)
    return figure


def _explain(figure: Figure) -> None:
    look: dict[str, Any] = {"linestyle": "", "markeredgecolor": "white", "markersize": 6}
    key = [
        Line2D(
            [],
            [],
            marker="s",
            color=COLLUDER,
            label="colluders that together observe every link (always enough: in any graph of this mean degree)",
            **look,
        ),
        Line2D([], [], marker="o", color=OTHER, label="other nodes", **look),
    ]
    figure.legend(
        handles=key, loc="lower center", ncols=2, borderaxespad=0.3, handletextpad=0.2, columnspacing=1
    )


def _panel(axes: Axes, one: PlacedGraph) -> None:
    n, n_links = len(one.graph), one.graph.number_of_edges()
    axes.set_axis_off()
    axes.set_aspect("equal")
    axes.set_xlim(-1.1, 1.1)
    axes.set_ylim(-1.1, 1.1)
    bound = colluder_bound(n, 2 * one.graph.to_undirected().number_of_edges() / n)
    lines = (
        style.short_name(one.name),
        f"{n:,} nodes, {n_links:,} links",
        f"{int(one.colluders.sum()):,} colluders (always enough: {bound:,.0f})",
    )
    axes.set_title("\n".join(lines), linespacing=1.15)
    _draw_links(axes, one)


def node_width(one: PlacedGraph, side_pt: float) -> float:
    """Return the width of the nodes of a panel, in points."""
    width_pt = float(np.clip(0.5 * side_pt / math.sqrt(len(one.graph)), *NODE_PT))
    return min(width_pt, max(LEAST_PT, APART * _between(one) * side_pt / 2.2))


def _between(one: PlacedGraph) -> float:
    """Return the typical distance between nearest nodes."""
    if len(one.places) < 2:
        return 2.0
    nearest, _ = KDTree(one.places).query(one.places, k=2)
    return float(np.median(nearest[:, 1]))


def _is_round(places: F64) -> bool:
    """Return whether the nodes are on a circle."""
    radius = np.linalg.norm(places, axis=1)
    return len(places) > 3 and bool(radius.std() < 0.02 * radius.mean())


def _draw_links(axes: Axes, one: PlacedGraph) -> None:
    links = np.array(ordered_links(one.graph))
    courses = curved_links(one.places, links) if _is_round(one.places) else one.places[links]
    strength = min(0.7, max(0.08, 5 / math.sqrt(len(links))))
    axes.add_collection(
        LineCollection(courses.tolist(), colors=style.GREY, alpha=strength, linewidths=0.6, zorder=1)
    )


def _draw_nodes(axes: Axes, one: PlacedGraph, *, width_pt: float, has_ids: bool) -> None:
    look: dict[str, Any] = {"edgecolors": "white", "linewidths": min(0.4, width_pt / 8), "zorder": 2}
    others, colluders = one.places[~one.colluders], one.places[one.colluders]
    square = math.pi / 4 * width_pt**2  # as large as a disc
    axes.scatter(others[:, 0], others[:, 1], s=width_pt**2, marker="o", c=OTHER, **look)
    axes.scatter(colluders[:, 0], colluders[:, 1], s=square, marker="s", c=COLLUDER, **look)
    if has_ids:
        for node, (x, y) in enumerate(one.places):
            axes.text(x, y, str(node), ha="center", va="center_baseline", color="white", zorder=3)
