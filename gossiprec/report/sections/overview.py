"""Sections on the runs themselves: a paragraph and figures for each, and the provenance of the numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from gossiprec.report import (
    Block,
    Section,
    TableBlock,
    TableColumn,
    TextParagraphs,
    Tile,
    Tiles,
    text_columns,
)
from gossiprec.report.sections import run_section
from gossiprec.report.sources import ReportRuns, logged_until
from gossiprec.runs import Run
from gossiprec.runs.lock import UNKNOWN
from gossiprec.runs.run import describe_stop

ENDED = {
    "running": "The run is still in progress.",
    "failed": "The run failed; results up to that point are shown.",
    "interrupted": "The run was interrupted; results up to that point are shown.",
    "killed": "The run was killed; results written before that are shown.",
    UNKNOWN: "It is unknown whether the run is still in progress, because it is running on another machine.",
}


@run_section(10)
def overview_section(runs: ReportRuns) -> Section:
    """Return the paragraphs, and figures as tiles for one run or a table for several."""
    texts = [runs.label_with_run(name, describe_run(run)) for name, run in runs.runs_by_name.items()]
    blocks: list[Block] = [TextParagraphs(texts)]
    facts = {name: size_figures(run) for name, run in runs.runs_by_name.items()}
    if runs.is_single_run:
        (own,) = facts.values()
        blocks.append(Tiles([Tile(name, format_headline_number(value)) for name, value in own.items()]))
    else:
        heads = list(dict.fromkeys(name for own in facts.values() for name in own))
        rows = [
            [name, run.status, *(facts[name].get(head) for head in heads)]
            for name, run in runs.runs_by_name.items()
        ]
        columns = [*text_columns("run", "status"), *map(TableColumn, heads)]
        blocks.append(TableBlock("Run statistics", columns, rows))
    notes = [
        runs.label_with_run(name, note)
        for name, run in runs.runs_by_name.items()
        for note in (run.summary or {}).get("notes", [])
    ]
    if notes:
        blocks.append(TextParagraphs(notes, title="Notes"))
    return Section("Runs", blocks)


def describe_run(run: Run) -> str:
    """Return one paragraph on a run, from its scenario and status."""
    scenario, summary = run.scenario, run.summary or {}
    parts = [_data_and_model(scenario, summary), _protocol(scenario), _others(scenario)]
    seconds = summary.get("wall_seconds")
    if seconds is not None:
        parts.append(
            f"It took {seconds:,.1f} s ({summary['executor']} executor, threads: {summary['threads']})."
        )
    if summary.get("stopped"):
        parts.append(f"Its rule ended it {describe_stop(summary['stopped'])}.")
    parts.append(f"Seed {run.manifest['seed']}.")
    status = run.status
    if status != "complete":
        parts.append(
            f"{ENDED.get(status, f'Status: {status}.')} It has reached virtual time {logged_until(run):,.1f}."
        )
    return " ".join(filter(None, parts))


def size_figures(run: Run) -> dict[str, float]:
    """Return the size of a run, from its summary or from the log so far."""
    summary = run.summary or {}
    rows = run.log.rows
    found = {
        "nodes": summary.get("nodes"),
        "poisoners": summary.get("poisoners"),
        "items": summary.get("items"),
        "interactions": summary.get("interactions"),
        "wakes": summary.get("wakes", rows.get("wake")),
        "messages": summary.get("messages", rows.get("message")),
        "messages lost": sum(summary.get("network", {}).get("dropped", {}).values()) or rows.get("drop"),
        "MB sent": summary["bytes"]["sent"] / 1e6 if "bytes" in summary else None,
        "local epochs": summary.get("node_updates", rows.get("update")),
        "virtual time": summary.get("virtual_time", logged_until(run)),
        "seconds": summary.get("wall_seconds"),
        "peak MiB": summary.get("peak_rss_mib"),
    }
    return {name: value for name, value in found.items() if value}


def format_headline_number(value: float) -> str:
    """Return a number for a headline."""
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:,.3g}"


def _data_and_model(scenario: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    name, data = scenario.get("name", "a scenario"), scenario.get("dataset", {}).get("name")
    model = scenario.get("model", {})
    learnt = f"a {model['name']} model" if "name" in model else "a model"
    learnt += f" with {model['dim']} values per row" if "dim" in model else ""
    if not summary.get("nodes"):
        return f"{name}: {learnt} learned from the data set {data}." if data else f"{name}."
    size = ", ".join(f"{summary[part]:,} {part}" for part in ("items", "interactions") if part in summary)
    users = f"{summary['nodes']:,} users"
    return f"{name}: {users} learn {learnt} from the data set {summary.get('dataset', data)} ({size})."


def _protocol(scenario: Mapping[str, Any]) -> str:
    protocol = scenario.get("protocol", {})
    if "name" not in protocol:
        return ""
    each = {
        "wakes": "{} wakes of each node",
        "rounds": "{} rounds",
        "epochs": "{} epochs",
        "fanout": "{} peers per wake",
    }
    parts = [words.format(protocol[key]) for key, words in each.items() if protocol.get(key) is not None]
    recommender = (scenario.get("recommender") or {}).get("name")
    by = f" with the recommender {recommender}" if recommender else ""
    return f"Protocol {protocol['name']}{by}" + (f": {', '.join(parts)}." if parts else ".")


def _others(scenario: Mapping[str, Any]) -> str:
    """Return sentences on attackers, defences and the network."""
    parts = []
    sections = {
        "observers": "Attacks",
        "attackers": "Poisoners",
        "adversaries": "Adversaries",
        "policies": "Defences",
    }
    for key, words in sections.items():
        names = dict.fromkeys(
            " ".join(str(entry[part]) for part in ("name", "who") if entry.get(part))
            for entry in scenario.get(key) or ()
        )
        if names:
            parts.append(f"{words}: {', '.join(names)}.")
    churn = scenario.get("churn") or {}
    if any(churn.get(key) for key in ("sessions", "join", "leave")):
        parts.append("Nodes go offline and come back.")
    return " ".join(parts)


MANIFEST_KEYS = (
    "gossiprec", "git_commit", "code", "log_digest", "started", "finished", "platform", "processor", "target", "cpus",
    "python",
)  # fmt: skip


@run_section(90)
def provenance_section(runs: ReportRuns) -> Section:
    """Return a table of the manifests, the seconds per part of the program, and the resolved scenarios."""
    known = [key for key in MANIFEST_KEYS if any(run.manifest.get(key) for run in runs.runs)]
    rows = [[key, *(run.manifest.get(key) and str(run.manifest[key]) for run in runs.runs)] for key in known]
    rows.append(["folder", *(str(run.path.resolve()) for run in runs.runs)])
    blocks: list[Block] = [TableBlock("Versions and machine", text_columns("of", *runs.runs_by_name), rows)]
    seconds = [(run.summary or {}).get("seconds", {}) for run in runs.runs]
    parts = dict.fromkeys(part for own in seconds for part in own)
    if parts:
        columns = [*text_columns("part"), *map(TableColumn, runs.runs_by_name)]
        rows = [[part, *(own.get(part) for own in seconds)] for part in parts]
        blocks.append(TableBlock("Seconds spent", columns, rows))
    for name, run in runs.runs_by_name.items():
        text = yaml.safe_dump(run.scenario, sort_keys=False, allow_unicode=True)
        title = runs.label_with_run(name, "the scenario with all defaults")
        blocks.append(TextParagraphs([text], title=title, fixed=True))
    return Section("Provenance", blocks)
