"""Section: the axes of the study, its progress, and its failed runs."""

from __future__ import annotations

from gossiprec.figures.study.quantity import format_label
from gossiprec.report.blocks import Block, Section, TableBlock, TableColumn, TextParagraphs, Tile, Tiles
from gossiprec.report.study import ReportStudy, study_status, unfinished_runs

ORDER = 10


def section(study: ReportStudy) -> Section:
    """Return a paragraph, counts, the axes, and the runs that failed."""
    mark, table = study.mark, study.table
    seeds = sorted({seed for own in table.runs.values() for seed in own})
    told = f"The study {mark.get('study', table.path.name)} varies {', '.join(table.axes) or 'only seeds'}"
    told += f" over the seeds {', '.join(map(str, seeds))}." if seeds else "."
    if table.baseline:
        told += f" Baseline of differences: {', '.join(f'{n} {format_label(v)}' for n, v in table.baseline.items())}."
    status = study_status(table.path)
    if status != "complete":
        told += f" Status: {status}; results so far are shown."
    blocks: list[Block] = [TextParagraphs([told])]
    counts = {
        "combinations and seeds": mark.get("variants"),
        "runs": mark.get("simulations"),
        "finished": mark.get("finished"),
        "failed": len(mark.get("failed", [])) or None,
    }
    blocks.append(Tiles([Tile(name, f"{count:,}") for name, count in counts.items() if count is not None]))
    if table.values and table.axes:
        axes = [[name, ", ".join(format_label(label) for label in table.labels(name))] for name in table.axes]
        blocks.append(
            TableBlock("What varies", [TableColumn("axis", "text"), TableColumn("values", "text")], axes)
        )
    failed = [
        ["; ".join(one.get("variants", [])), one.get("problem"), study.link(one["run"])]
        for one in mark.get("failed", [])
    ]
    if failed:
        blocks.append(
            TableBlock(
                "Failed runs",
                [TableColumn("variant", "text"), TableColumn("problem", "text"), TableColumn("run", "link")],
                failed,
            )
        )
    begun = [[study.link(run), standing] for run, standing in unfinished_runs(table.path).items()]
    if begun:
        columns = [TableColumn("run", "link"), TableColumn("status", "text")]
        blocks.append(TableBlock("Unfinished runs", columns, begun))
    return Section(f"Study {mark.get('study', table.path.name)}", blocks)
