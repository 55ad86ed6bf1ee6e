"""What was studied: the axes, how far it has come, and what failed."""

from __future__ import annotations

from gossiprec.figures.study.quantity import shown
from gossiprec.report.blocks import Block, Column, Section, Table, Text, Tile, Tiles
from gossiprec.report.study import Study, status_of, unfinished

ORDER = 10


def section(study: Study) -> Section:
    """Return a paragraph, counts, the axes, and the runs that failed."""
    mark, table = study.mark, study.table
    seeds = sorted({seed for own in table.runs.values() for seed in own})
    told = f"The study {mark.get('study', table.path.name)} varies {', '.join(table.axes) or 'only seeds'}"
    told += f" over the seeds {', '.join(map(str, seeds))}." if seeds else "."
    if table.baseline:
        told += (
            f" Baseline of differences: {', '.join(f'{n} {shown(v)}' for n, v in table.baseline.items())}."
        )
    status = status_of(table.path)
    if status != "complete":
        told += f" Status: {status}; results so far are shown."
    blocks: list[Block] = [Text([told])]
    counts = {
        "combinations and seeds": mark.get("variants"),
        "runs": mark.get("simulations"),
        "finished": mark.get("finished"),
        "failed": len(mark.get("failed", [])) or None,
    }
    blocks.append(Tiles([Tile(name, f"{count:,}") for name, count in counts.items() if count is not None]))
    if table.values and table.axes:
        axes = [[name, ", ".join(shown(label) for label in table.labels(name))] for name in table.axes]
        blocks.append(Table("What varies", [Column("axis", "text"), Column("values", "text")], axes))
    failed = [
        ["; ".join(one.get("variants", [])), one.get("problem"), study.link(one["run"])]
        for one in mark.get("failed", [])
    ]
    if failed:
        blocks.append(
            Table(
                "Failed runs",
                [Column("variant", "text"), Column("problem", "text"), Column("run", "link")],
                failed,
            )
        )
    begun = [[study.link(run), standing] for run, standing in unfinished(table.path).items()]
    if begun:
        columns = [Column("run", "link"), Column("status", "text")]
        blocks.append(Table("Unfinished runs", columns, begun))
    return Section(f"Study {mark.get('study', table.path.name)}", blocks)
