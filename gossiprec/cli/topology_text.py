"""Text and tables for the facts of graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gossiprec.cli.summary_text import format_percent

Facts = Mapping[str, Any]
LABEL_WIDTH = 22
ROUNDING = 1e-12


def format_number(value: float | None) -> str:
    """Return a count in full and any other number with three digits, or ``-`` if there is none."""
    if value is None:
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{0.0 if abs(value) < ROUNDING else value:.3g}"


def _links(facts: Facts) -> str:
    return f"{format_number(facts['links'])} {'directed' if facts['directed'] else 'undirected'}"


def _degree(facts: Facts) -> str:
    low, mean, high = (format_number(facts[f"degree_{which}"]) for which in ("min", "mean", "max"))
    return low if low == mean == high else f"{low} to {high}, mean {mean}"


def _in_degree(facts: Facts) -> str:
    deviation = format_number(facts["in_degree_deviation"])
    return f"{facts['in_degree_min']} to {facts['in_degree_max']}, deviation {deviation}"


def _parts(facts: Facts) -> str:
    parts: int = facts["parts"]
    return "1" if parts == 1 else f"{parts}, not connected to one another"


def _gap(facts: Facts) -> str:
    return f"{format_number(facts['spectral_gap'])} (lazy walk {format_number(facts['lazy_spectral_gap'])})"


def _can_meet(facts: Facts) -> str:
    return (
        "depends on model performance"
        if facts["can_meet"] is None
        else f"{format_percent(facts['can_meet'])} % of the other nodes"
    )


def _wakes(facts: Facts) -> str:
    share = f"{100 * facts['fraction']:g} % of the other nodes"
    wakes = facts["wakes_to_meet"]
    return (
        f"{share}: never"
        if wakes is None
        else f"{share}: {format_number(wakes)} (sending to {facts['fanout']} peers per wake)"
    )


def _colluders(facts: Facts) -> str:
    return f"{facts['n_colluders']} suffice: {', '.join(map(str, facts['colluders'][:12]))}" + (
        ", ..." if facts["n_colluders"] > 12 else ""
    )


ROWS: tuple[tuple[str, str, Callable[[Facts], str]], ...] = (
    ("nodes", "nodes", lambda facts: format_number(facts["nodes"])),
    ("links", "links", _links),
    ("degree", "degree_mean", _degree),
    ("in-degree", "in_degree_min", _in_degree),
    ("connected parts", "parts", _parts),
    ("diameter", "diameter", lambda facts: format_number(facts["diameter"])),
    ("average distance", "average_distance", lambda facts: format_number(facts["average_distance"])),
    ("clustering", "clustering", lambda facts: format_number(facts["clustering"])),
    ("spectral gap", "spectral_gap", _gap),
    ("can be met", "can_meet", _can_meet),
    ("wakes to meet", "wakes_to_meet", _wakes),
    (
        "bound nP/(P+1)",
        "cover_bound",
        lambda facts: f"{format_number(facts['cover_bound'])} colluders observe every link",
    ),
    ("colluders found", "n_colluders", _colluders),
)
"""Label, required fact, and format of each line."""


def describe_graph(facts: Facts) -> str:
    """Return the description of one graph, a line per measure."""
    lines = [f"  {label:{LABEL_WIDTH}}{put(facts)}" for label, key, put in ROWS if key in facts]
    return "\n".join([f"{facts['name']}", *lines])


COLUMNS = {
    "nodes": "nodes", "links": "links", "degree": "degree_mean", "max": "degree_max", "diam": "diameter",
    "dist": "average_distance", "clust": "clustering", "gap": "spectral_gap", "lazy": "lazy_spectral_gap",
    "met %": "can_meet", "wakes": "wakes_to_meet", "bound": "cover_bound", "cover": "n_colluders",
}  # fmt: skip
"""Heading of each column, and its fact."""


def format_graph_table(measured: Sequence[Facts]) -> str:
    """Return a table with a heading and one line per graph, and the explanation of its columns."""
    rows = [["", *COLUMNS]]
    rows += [[str(facts["name"]), *(_cell(facts, key) for key in COLUMNS.values())] for facts in measured]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]
    return "\n".join(
        [*(line.rstrip() for line in lines), "", _note(measured[0]["fraction"]), *_never(measured)]
    )


def _never(measured: Sequence[Facts]) -> list[str]:
    """Return the fraction to use instead, if none of the graphs has enough links for the one given."""
    if any(facts["wakes_to_meet"] is not None for facts in measured):
        return []
    least = 0.9 * min(facts["can_meet"] or 0.0 for facts in measured)
    return (
        [f"No node has that many neighbours in any of these graphs; try --fraction {least:.2g}."]
        if least > 0
        else []
    )


def _cell(facts: Facts, key: str) -> str:
    return format_percent(facts.get(key)) if key == "can_meet" else format_number(facts.get(key))


def _note(fraction: float) -> str:
    return (
        "diam, dist: largest and mean distance in hops; gap: 1 - |second eigenvalue| of the random walk (lazy: of\n"
        "the lazy random walk); met: fraction of the other nodes that a node can ever receive from; wakes: mean\n"
        f"number of wakes until that fraction is {100 * fraction:g} %; bound: nP/(P+1) colluders observe every link,\n"
        "where P is the mean degree; cover: number of colluders found to suffice; -: not defined."
    )
