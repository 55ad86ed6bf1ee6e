"""Every number of every node in one table."""

from __future__ import annotations

from gossiprec.figures.by_node import values_by_node
from gossiprec.report.blocks import Block, Column, Section, Table, one_of
from gossiprec.report.runs import OF_NODES, Runs

ORDER = 85
MOST_NODES = 5000


def section(runs: Runs) -> Section | None:
    """Return a table for each run that has written what it knows of its nodes; None where none has."""
    found: dict[str, Block] = {
        name: _table(runs, name) for name, run in runs.named.items() if len(run.positions.get("node", ()))
    }
    return Section("Nodes", [one_of("Run", found)]) if found else None


def _table(runs: Runs, name: str) -> Table:
    table = values_by_node(runs.named[name])
    nodes = sorted({node for own in table.values() for node in own})
    columns = [Column("node")]
    for measure in table:
        words = runs.measure_words(measure, name)
        columns.append(Column(words, "percent" if words.startswith(tuple(OF_NODES.values())) else "number"))
    rows = [[node, *(own.get(node) for own in table.values())] for node in nodes[:MOST_NODES]]
    more = len(nodes) > MOST_NODES
    note = (
        f"The first {MOST_NODES:,} of {len(nodes):,} nodes; positions.csv in the run directory has all of them."
        if more
        else ""
    )
    return Table("Nodes", columns, rows, note)
