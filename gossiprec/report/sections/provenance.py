"""Section: provenance of the numbers: versions, machine, time spent, and the scenario that reproduces them."""

from __future__ import annotations

import yaml

from gossiprec.report.blocks import Block, Section, TableBlock, TableColumn, TextParagraphs
from gossiprec.report.runs import ReportRuns

ORDER = 90
KEYS = (
    "gossiprec", "git_commit", "code", "log_digest", "started", "finished", "platform", "processor", "target", "cpus",
    "python",
)  # fmt: skip


def section(runs: ReportRuns) -> Section:
    """Return a table of the manifests, the seconds per part of the program, and the resolved scenarios."""
    of = [TableColumn(name, "text") for name in runs.named]
    known = [key for key in KEYS if any(run.manifest.get(key) for run in runs.runs)]
    rows = [[key, *(run.manifest.get(key) and str(run.manifest[key]) for run in runs.runs)] for key in known]
    rows.append(["folder", *(str(run.path.resolve()) for run in runs.runs)])
    blocks: list[Block] = [TableBlock("Versions and machine", [TableColumn("of", "text"), *of], rows)]
    seconds = [(run.summary or {}).get("seconds", {}) for run in runs.runs]
    parts = dict.fromkeys(part for own in seconds for part in own)
    if parts:
        blocks.append(
            TableBlock(
                "Seconds spent",
                [TableColumn("part", "text"), *map(TableColumn, runs.named)],
                [[part, *(own.get(part) for own in seconds)] for part in parts],
            )
        )
    for name, run in runs.named.items():
        text = yaml.safe_dump(run.scenario, sort_keys=False, allow_unicode=True)
        blocks.append(
            TextParagraphs([text], title=runs.called(name, "the scenario with all defaults"), fixed=True)
        )
    return Section("Provenance", blocks)
