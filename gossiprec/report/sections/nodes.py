"""Sections on single nodes: leakage by graph position, the contact network, and a table of all values."""

from __future__ import annotations

import base64

import numpy as np

from gossiprec.base.arrays import F64, I64
from gossiprec.figures.attack_selection import AttackKey
from gossiprec.figures.node_values import ByNode, count_data_nodes, group_by_position, values_by_node
from gossiprec.report import (
    Block,
    Chart,
    ChartAxis,
    ChartSeries,
    NetworkGraph,
    Section,
    TableBlock,
    TableColumn,
    TextParagraphs,
    block_or_choice,
    percent_axis,
)
from gossiprec.report.sections import run_section
from gossiprec.report.sources import OF_NODES, ReportRuns, thin_indices
from gossiprec.runs import Run

MOST_DOTS = 1000
POSITIONS = ("betweenness", "in_contacts", "out_contacts", "received", "sent", "pagerank")
POSITION_NOTE = (
    "Each dot is a node at the attack's best report; the line connects means of groups of nodes with "
    "similar positions, with intervals of 1.96 standard errors. They describe a single run; its nodes are "
    "not independent, so they are not a significance test."
)


@run_section(50)
def position_section(runs: ReportRuns) -> Section | None:
    """Return charts by attack and measure of position, or None if no run wrote positions or findings."""
    found: dict[str, Block] = {}
    for name, run in runs.runs_by_name.items():
        if not len(run.positions.get("node", ())):
            continue
        table = values_by_node(run)
        for label in (measure[len("found[") : -1] for measure in table if measure.startswith("found[")):
            words = runs.attack_text(AttackKey.from_label(name, label))
            charts = {
                m.replace("_", " "): _position_chart(table, label, m, words) for m in _measures(table, label)
            }
            if charts:
                found[words] = block_or_choice("Measure of position", charts)
    return Section("Leakage by graph position", [block_or_choice("Attack", found)]) if found else None


def _measures(table: dict[str, ByNode], label: str) -> list[str]:
    """Return the measures of position in which the findable nodes differ, the most informative first."""
    users = table[f"found[{label}]"].keys()
    known = (*POSITIONS, f"distance[{label.split('/')[0]}]")
    return [m for m in known if len({value for node, value in table.get(m, {}).items() if node in users}) > 1]


def _position_chart(table: dict[str, ByNode], label: str, measure: str, words: str) -> Chart:
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
        series.append(_mean_series(what, at, found, colour))
    title = f"{words}: leakage against {measure.replace('_', ' ')}"
    axes = [ChartAxis(measure.replace("_", " "))], percent_axis("of the community (%)")
    note, n_nodes = POSITION_NOTE, len(table[measure])
    if n_nodes > MOST_DOTS:
        note += f" Of {n_nodes:,} nodes {MOST_DOTS:,} have a dot; means cover all nodes."
    return Chart(title, *axes, series, "dot", note)


def _mean_series(what: str, position: F64, value: F64, colour: int) -> ChartSeries:
    found = group_by_position(position, value)
    texts = [f"{group.nodes} nodes" for group in found]
    x, y = [group.position for group in found], [group.mean for group in found]
    low, high = [group.low for group in found], [group.high for group in found]
    return ChartSeries(f"mean, {what}", [x], y, low, high, texts=texts, mark="line", colour=colour)


MOST_DRAWN = 3000
STRONGEST = 3
"""Links drawn per node if there are too many: those with the most messages."""

FEW_LINKS, FEW_OF_A_NODE = 400, 5
"""Numbers of links up to which all are drawn: in total, or per node on average."""


@run_section(60)
def network_section(runs: ReportRuns) -> Section | None:
    """Return the contact network of each run in which nodes exchanged messages, or None if there is none."""
    found: dict[str, Block] = {}
    for name, run in runs.runs_by_name.items():
        counts = _delivery_counts(run) if run.log.rows.get("message") else None
        if isinstance(counts, str):
            found[name] = TextParagraphs([counts])
        elif counts is not None:
            found[name] = _network_graph(counts, _node_values(runs, name, counts), _finders(runs, name))
    return Section("Contact network", [block_or_choice("Run", found)]) if found else None


def _delivery_counts(run: Run) -> I64 | str | None:
    """Return the deliveries from u to v at [v, u]; None if only a coordinator sent; or text if it cannot be drawn."""
    parts = run.log.iter_event_blocks("message")
    ids = (int(part[end].max(initial=-1)) for part in parts for end in ("sender", "receiver"))
    n = count_data_nodes(run, 1 + max(ids))
    counts, links = np.zeros(n * n if n <= MOST_DRAWN else 0, np.int64), False
    for part in run.log.iter_event_blocks("message"):
        between = np.maximum(part["sender"], part["receiver"]) < n
        links |= bool(between.any())
        if n <= MOST_DRAWN:
            pair = part["receiver"][between].astype(np.int64) * n + part["sender"][between]
            np.add.at(counts, pair, 1)
        elif links:
            return (
                f"The network of {n:,} nodes is too large to draw (limit: {MOST_DRAWN:,} nodes); see the "
                "messages in the event log."
            )
    return counts.reshape(n, n) if links else None


def _node_values(runs: ReportRuns, name: str, counts: I64) -> dict[str, F64]:
    """Return the values of each node by measure as text: exposure, findings, and then position."""
    run = runs.runs_by_name[name]
    by_measure = values_by_node(run) if len(run.positions.get("node", ())) else {}
    order = sorted(by_measure, key=lambda m: (not m.startswith("found["), not m.startswith("accuracy[")))
    values = {m: np.array([by_measure[m].get(node, np.nan) for node in range(len(counts))]) for m in order}
    met = {"others met": (counts > 0).sum(axis=1).astype(np.float64)}
    return {runs.measure_text(measure, name): of for measure, of in values.items()} | met


def _finders(runs: ReportRuns, name: str) -> dict[str, I64]:
    """Return the hits of each attack, as pairs of an adversary and a user one after the other."""
    return {
        runs.attack_text(AttackKey.from_label(name, key)): pairs.ravel()
        for key, pairs in runs.runs_by_name[name].hits.items()
    }


def _network_graph(counts: I64, values: dict[str, F64], finders: dict[str, I64]) -> NetworkGraph:
    links, met = _links(counts + counts.T), counts > 0
    drawn, there = len(links) // 2, int(np.triu(met | met.T, 1).sum())
    note = f"{len(counts):,} nodes. "
    if drawn == there:
        note += f"Showing all {there:,} links."
    else:
        note += f"Showing {drawn:,} of {there:,} links: the {STRONGEST} busiest links of each node."
    shares = [name for name in values if name.startswith(tuple(OF_NODES.values()))]
    packed = base64.b64encode(np.packbits(met, axis=1).tobytes()).decode()
    return NetworkGraph("Contact network", len(counts), links, values, shares, packed, finders, note)


def _links(counts: I64) -> list[int]:
    """Return both ends of each link to draw: all links, or if too many the strongest of each node."""
    upper = np.triu(counts, 1)
    if np.count_nonzero(upper) > max(FEW_LINKS, FEW_OF_A_NODE * len(counts)):
        strongest = np.argsort(-counts, axis=1, kind="stable")[:, :STRONGEST]
        kept = np.zeros(counts.shape, np.bool_)
        np.put_along_axis(kept, strongest, np.take_along_axis(counts, strongest, 1) > 0, axis=1)
        upper = np.where(np.triu(kept | kept.T, 1), upper, 0)
    return [int(end) for end in np.argwhere(upper).ravel()]


MOST_NODES = 5000


@run_section(85)
def node_table_section(runs: ReportRuns) -> Section | None:
    """Return a table for each run that has written values of its nodes, or None if none has."""
    found: dict[str, Block] = {
        name: _node_table(runs, name)
        for name, run in runs.runs_by_name.items()
        if len(run.positions.get("node", ()))
    }
    return Section("Nodes", [block_or_choice("Run", found)]) if found else None


def _node_table(runs: ReportRuns, name: str) -> TableBlock:
    table = values_by_node(runs.runs_by_name[name])
    nodes = sorted({node for own in table.values() for node in own})
    columns = [TableColumn("node")]
    for measure in table:
        words = runs.measure_text(measure, name)
        is_share = words.startswith(tuple(OF_NODES.values()))
        columns.append(TableColumn(words, "percent" if is_share else "number"))
    rows = [[node, *(own.get(node) for own in table.values())] for node in nodes[:MOST_NODES]]
    note = f"The first {MOST_NODES:,} of {len(nodes):,} nodes; positions.csv in the run directory has all of them."
    return TableBlock("Nodes", columns, rows, note if len(nodes) > MOST_NODES else "")
