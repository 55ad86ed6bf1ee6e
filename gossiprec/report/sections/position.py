"""Section: accuracy and exposure of nodes against their position in the contact graph."""

from __future__ import annotations

import numpy as np

from gossiprec.base.arrays import F64
from gossiprec.figures.attack_selection import AttackKey
from gossiprec.figures.node_values import ByNode, group_by_position, values_by_node
from gossiprec.report.blocks import Block, Chart, ChartAxis, ChartSeries, Section, block_or_choice
from gossiprec.report.runs import OF_NODES, ReportRuns, thin_indices

ORDER = 50
MOST_DOTS = 1000
FIRST = ("betweenness", "in_contacts", "out_contacts", "received", "sent", "pagerank")
NOTE = (
    "Each dot is a node at the attack's best report; the line connects means of groups of nodes with "
    "similar positions, with intervals of 1.96 standard errors. They describe a single run, whose nodes are "
    "not independent, so they are not a significance test."
)


def section(runs: ReportRuns) -> Section | None:
    """Return charts by attack and measure of position, or None if no run wrote positions or findings."""
    found: dict[str, Block] = {}
    for name, run in runs.named.items():
        if not len(run.positions.get("node", ())):
            continue
        table = values_by_node(run)
        for label in (measure[len("found[") : -1] for measure in table if measure.startswith("found[")):
            words = runs.name_of(AttackKey.read(name, label))
            charts = {m.replace("_", " "): _chart(table, label, m, words) for m in _measures(table, label)}
            if charts:
                found[words] = block_or_choice("Measure of position", charts)
    return Section("Leakage by graph position", [block_or_choice("Attack", found)]) if found else None


def _measures(table: dict[str, ByNode], label: str) -> list[str]:
    """Return the measures of position in which the findable nodes differ, the most informative first."""
    users = table[f"found[{label}]"].keys()
    known = (*FIRST, f"distance[{label.split('/')[0]}]")
    return [m for m in known if len({value for node, value in table.get(m, {}).items() if node in users}) > 1]


def _chart(table: dict[str, ByNode], label: str, measure: str, words: str) -> Chart:
    """Return dots and means of both quantities against a measure."""
    series: list[ChartSeries] = []
    for colour, (quantity, what) in enumerate(OF_NODES.items()):
        value = table.get(f"{quantity}[{label}]", {})
        nodes = sorted(table[measure].keys() & value.keys())
        if len(nodes) < 2:
            continue
        at, found = (np.array([of[node] for node in nodes]) for of in (table[measure], value))
        kept = thin_indices(len(nodes), MOST_DOTS)
        texts = [f"node {nodes[place]}" for place in kept]
        series.append(ChartSeries(what, [at[kept]], found[kept], texts=texts, colour=colour))
        series.append(_means(what, at, found, colour))
    title = f"{words}: leakage against {measure.replace('_', ' ')}"
    axes = [ChartAxis(measure.replace("_", " "))], ChartAxis("of the community (%)", percent=True, zero=True)
    n_nodes = len(table[measure])
    note = (
        f"{NOTE} Of {n_nodes:,} nodes {MOST_DOTS:,} have a dot; means cover all nodes."
        if n_nodes > MOST_DOTS
        else NOTE
    )
    return Chart(title, *axes, series, "dot", note)


def _means(what: str, position: F64, value: F64, colour: int) -> ChartSeries:
    found = group_by_position(position, value)
    texts = [f"{group.nodes} nodes" for group in found]
    x, y = [group.position for group in found], [group.mean for group in found]
    low, high = [group.low for group in found], [group.high for group in found]
    return ChartSeries(f"mean, {what}", [x], y, low, high, texts=texts, mark="line", colour=colour)
