"""Section: the contact network of messages, coloured by findings about or by each node."""

from __future__ import annotations

import base64

import numpy as np

from gossiprec.base.arrays import F64, I64
from gossiprec.figures.attack_selection import AttackKey
from gossiprec.figures.node_values import count_nodes, values_by_node
from gossiprec.report.blocks import Block, NetworkGraph, Section, TextParagraphs, block_or_choice
from gossiprec.report.runs import OF_NODES, ReportRuns
from gossiprec.runs import Run
from gossiprec.runs.reader import Columns

ORDER = 60
MOST_NODES = 3000
STRONGEST = 3
"""Links drawn per node if there are too many: those with the most messages."""

FEW_LINKS, FEW_OF_A_NODE = 400, 5
"""Numbers of links up to which all are drawn: in total, or per node on average."""


def section(runs: ReportRuns) -> Section | None:
    """Return the contact network of each run in which nodes exchanged messages, or None if there is none."""
    found: dict[str, Block] = {}
    for name, messages in runs.events("message"):
        counts = _meetings(runs.named[name], messages)
        if isinstance(counts, str):
            found[name] = TextParagraphs([counts])
        elif counts is not None:
            found[name] = _graph(counts, _by_node(runs, name, counts), _finders(runs, name))
    return Section("Contact network", [block_or_choice("Run", found)]) if found else None


def _meetings(run: Run, messages: Columns) -> I64 | str | None:
    """Return the deliveries from u to v at [v, u]; None if only a coordinator sent; or text if it cannot be drawn."""
    n = count_nodes(run, messages)
    between = np.maximum(messages["sender"], messages["receiver"]) < n
    if not between.any():
        return None
    if n > MOST_NODES:
        return (
            f"The network of {n:,} nodes is too large to draw (limit: {MOST_NODES:,} nodes); see the "
            "messages in the event log."
        )
    pair = messages["receiver"][between].astype(np.int64) * n + messages["sender"][between]
    return np.bincount(pair, minlength=n * n).reshape(n, n)


def _by_node(runs: ReportRuns, name: str, counts: I64) -> dict[str, F64]:
    """Return the values of each node by measure as text: exposure, findings, and then position."""
    told = values_by_node(runs.named[name]) if len(runs.named[name].positions.get("node", ())) else {}
    order = sorted(
        told, key=lambda measure: (not measure.startswith("found["), not measure.startswith("accuracy["))
    )
    values = {m: np.array([told[m].get(node, np.nan) for node in range(len(counts))]) for m in order}
    met = {"others met": (counts > 0).sum(axis=1).astype(np.float64)}
    return {runs.measure_words(measure, name): of for measure, of in values.items()} | met


def _finders(runs: ReportRuns, name: str) -> dict[str, I64]:
    """Return the hits of each attack, as pairs of an adversary and a user one after the other."""
    return {
        runs.name_of(AttackKey.read(name, key)): pairs.ravel() for key, pairs in runs.named[name].hits.items()
    }


def _graph(counts: I64, values: dict[str, F64], finders: dict[str, I64]) -> NetworkGraph:
    links, met = _drawn(counts + counts.T), counts > 0
    drawn, there = len(links) // 2, int(np.triu(met | met.T, 1).sum())
    note = f"{len(counts):,} nodes. "
    if drawn == there:
        note += f"Showing all {there:,} links."
    else:
        note += f"Showing {drawn:,} of {there:,} links: the {STRONGEST} busiest links of each node."
    shares = [name for name in values if name.startswith(tuple(OF_NODES.values()))]
    packed = base64.b64encode(np.packbits(met, axis=1).tobytes()).decode()
    return NetworkGraph("Contact network", len(counts), links, values, shares, packed, finders, note)


def _drawn(counts: I64) -> list[int]:
    """Return both ends of each link to draw: all links, or if too many the strongest of each node."""
    upper = np.triu(counts, 1)
    if np.count_nonzero(upper) > max(FEW_LINKS, FEW_OF_A_NODE * len(counts)):
        strongest = np.argsort(-counts, axis=1, kind="stable")[:, :STRONGEST]
        kept = np.zeros(counts.shape, np.bool_)
        np.put_along_axis(kept, strongest, np.take_along_axis(counts, strongest, 1) > 0, axis=1)
        upper = np.where(np.triu(kept | kept.T, 1), upper, 0)
    return [int(end) for end in np.argwhere(upper).ravel()]
