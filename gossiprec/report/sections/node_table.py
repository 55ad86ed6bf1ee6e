"""Section: every value of every node in one table."""

from __future__ import annotations

from gossiprec.figures.node_values import values_by_node
from gossiprec.report.blocks import Block, Section, TableBlock, TableColumn, block_or_choice
from gossiprec.report.runs import OF_NODES, ReportRuns

ORDER = 85
MOST_NODES = 5000


def section(runs: ReportRuns) -> Section | None:
    """Return a table for each run that has written values of its nodes, or None if none has."""
    found: dict[str, Block] = {
        name: _table(runs, name) for name, run in runs.named.items() if len(run.positions.get("node", ()))
    }
    return Section("Nodes", [block_or_choice("Run", found)]) if found else None


def _table(runs: ReportRuns, name: str) -> TableBlock:
    table = values_by_node(runs.named[name])
    nodes = sorted({node for own in table.values() for node in own})
    columns = [TableColumn("node")]
    for measure in table:
        words = runs.measure_words(measure, name)
        columns.append(
            TableColumn(words, "percent" if words.startswith(tuple(OF_NODES.values())) else "number")
        )
    rows = [[node, *(own.get(node) for own in table.values())] for node in nodes[:MOST_NODES]]
    more = len(nodes) > MOST_NODES
    note = (
        f"The first {MOST_NODES:,} of {len(nodes):,} nodes; positions.csv in the run directory has all of them."
        if more
        else ""
    )
    return TableBlock("Nodes", columns, rows, note)
