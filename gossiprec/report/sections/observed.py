"""Section: results of observers and measures that saw a run after its end."""

from __future__ import annotations

from gossiprec.report import Block, Section, TableBlock, TableColumn
from gossiprec.report.sections import run_section
from gossiprec.report.sources import ReportRuns

COLUMNS = {
    "max_aac": "max AAC",
    "last_aac": "last AAC",
    "upper_bound": "upper bound",
    "random_bound": "random bound",
}
NOTE = (
    "A replay of the run with other observers (gossiprec observe). Its log and metrics are those of the run."
)


@run_section(25)
def observed_section(runs: ReportRuns) -> Section | None:
    """Return a table per kind of results: attacks, findings and metrics; None if no run was observed later."""
    attacks, findings, metrics = [], [], []
    for name, run in runs.runs_by_name.items():
        own = (run.summary or {}).get("utility", {})
        for later, found in run.observed.items():
            summary, by = found.summary or {}, runs.label_with_run(name, later)
            for row in summary.get("attacks", ()):
                labels = f"{row['observer']}, {row['relevance']}, beta {row['momentum']:g}, K {row['community_size']}"
                attacks.append([by, labels, *(_number(row[key]) for key in COLUMNS)])
            for row in summary.get("findings", ()):
                labels = ", ".join(f"{key} {value}" for key, value in row["labels"].items())
                findings.append([by, f"{row['attack']}: {labels}", row["measure"], _number(row["value"])])
            new = {key: value for key, value in summary.get("utility", {}).items() if key not in own}
            metrics += [[by, metric, _number(value)] for metric, value in new.items()]
    who, attack = TableColumn("observed as", "text"), TableColumn("attack", "text")
    percents = [TableColumn(words, "percent") for words in COLUMNS.values()]
    measure = TableColumn("measure", "text")
    tables: list[Block] = [
        TableBlock(title, columns, rows, note=NOTE)
        for title, columns, rows in (
            ("Attacks", [who, attack, *percents], attacks),
            ("Findings", [who, attack, measure, TableColumn("value")], findings),
            ("Metrics", [who, measure, TableColumn("value", "percent")], metrics),
        )
        if rows
    ]
    return Section("Observed after the run", tables) if tables else None


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)
