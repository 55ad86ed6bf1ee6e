"""The report of a study: tables, figures and findings, as Markdown and HTML, whatever part of the runs is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from markdown_it import MarkdownIt

from analysis.cda_paper.experiments import experiments
from analysis.cda_paper.figures import draw_figures, drawings
from analysis.cda_paper.findings import HELD, NOT_HELD, Finding, findings
from analysis.cda_paper.measures import MAIN_RULE, RULES, Runs, fact, mean
from analysis.cda_paper.plan import Scale, subjects
from analysis.cda_paper.tables import CSV_HEADER, Table, csv_rows, tables
from analysis.cda_paper.targets import NOT_REACHED, REACHED, Reached, reached
from gossiprec.eventlog import Run
from gossiprec.eventlog.atomic_write import replace_file
from gossiprec.figures.output import csv_bytes

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 78rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; font-size: 13px; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid #ddd; padding: 0.25rem 0.6rem; text-align: left; vertical-align: top; }
th { border-bottom: 2px solid #888; }
tr:hover td { background: #f6f6f6; }
img { max-width: 100%; }
code { background: #f3f3f3; padding: 0 0.2em; }
"""


def write_report(
    folder: Path, runs: Runs, reasons: Mapping[str, str], *, planned: int, scale: Scale = "full"
) -> list[Path]:
    """Write report, findings, pictures and ``cells.csv``, each file in one step; return the paths of the texts.

    Parameters
    ----------
    folder : Path
    runs : mapping
        All finished runs of the whole study, not only those that were asked for now.
    reasons : mapping of str to str
        Experiment to why it has no finished run.
    planned : int
        How many runs the whole study has.
    scale : {'full', 'tiny'}
    """
    pictures = draw_figures(runs, folder / "figures")
    short = {name: " ".join(reason.split())[:400] for name, reason in reasons.items()}
    judged, aims = findings(runs), reached(runs)
    opening = _opening(planned, runs, scale)
    texts = {
        "report": [
            "# The community-detection study",
            opening,
            _summary(judged, aims),
            _tables(tables(runs, short)),
            _figures(pictures),
            _times(runs),
            _missing(short),
        ],
        "findings": ["# Findings", opening, _claims(judged), _aims(aims)],
    }
    written = []
    for name, parts in texts.items():
        text = "\n\n".join(parts)
        for suffix, content in ((".md", text + "\n"), (".html", _html(text))):
            written.append(folder / f"{name}{suffix}")
            replace_file(written[-1], content.encode())
    replace_file(folder / "cells.csv", csv_bytes(CSV_HEADER, csv_rows(runs)))
    return written


def _opening(planned: int, runs: Runs, scale: Scale) -> str:
    made = [run for seeds in runs.values() for run in seeds.values()]
    versions = sorted({f"{run.manifest.get('gossiprec')} ({_commit(run)})" for run in made})
    others = " and ".join(f"`{rule}`" for rule in RULES[1:])
    if scale == "tiny":
        return (
            f"**Scale tiny: small synthetic data and short runs, to try the study; no number here says anything about "
            f"the paper.** {len(made)} of {planned} runs are finished. Measured under `{MAIN_RULE}`."
        )
    by = f", made by gossiprec {', '.join(versions)}" if versions else ""
    return (
        "Beside arXiv 2306.08929v2, *On the Resilience of Collaborative Learning-based Recommender Systems Against "
        f"Community Detection Attack*. {len(made)} of {planned} runs are finished{by}. Accuracies are in percent; "
        f"*measured* is under the relevance rule `{MAIN_RULE}`, the default, which compares a model with itself "
        f"(docs/attacks.md), with {others} beside it: the first is the rule of the published code, the second the "
        "paper's equation 4. A value with ± is a mean over seeds, with their standard deviation and number. *Max AAC* "
        "is the largest mean over adversaries among the reported rounds; the *upper bound* is the share of the "
        "communities met by the end; the *random bound* is K / N."
    )


def _commit(run: Run) -> str:
    commit = str(run.manifest.get("git_commit") or "no commit")
    return f"{commit[:10]}-dirty" if commit.endswith("-dirty") else commit[:10]


def _summary(judged: Sequence[Finding], aims: Sequence[Reached]) -> str:
    held, refuted = (sum(f.verdict == verdict for f in judged) for verdict in (HELD, NOT_HELD))
    met, missed = (sum(a.verdict == verdict for a in aims) for verdict in (REACHED, NOT_REACHED))
    return (
        f"**Findings** (findings.md): of {len(judged)} orderings that the paper claims, {held} held, "
        f"{refuted} did not, {len(judged) - held - refuted} were not measured. "
        f"Of {len(aims)} figures to reach, {met} are reached, {missed} are not, "
        f"{len(aims) - met - missed} were not measured."
    )


def _tables(found: Sequence[Table]) -> str:
    parts = ["## Tables"]
    for table in found:
        parts += [f"### {table.title}", table.markdown()]
        if table.note:
            parts.append(f"The print: {table.note}.")
    return "\n\n".join(parts)


def _figures(pictures: Mapping[str, Sequence[Path]]) -> str:
    parts = ["## Figures"]
    for name, drawing in drawings().items():
        caption = drawing.caption
        if name in pictures:
            parts.append(f"![{caption}](figures/{name}.svg)\n\n{caption} ([numbers](figures/{name}.csv))")
        else:
            parts.append(f"{caption} Not drawn: none of its runs is finished.")
    return "\n\n".join(parts)


def _times(runs: Runs) -> str:
    """Return what each experiment took, and what it serves."""
    serves = {name: [subject for subject, own in subjects().items() if name in own] for name in runs}
    header = ["experiment", "scenario", "serves", "runs", "time of a run", "local epochs/s", "peak MiB"]
    lines, total = [], 0.0
    for name, seeds in runs.items():
        walls = fact(name, "wall_seconds").per_seed(runs)
        pace, peak = (fact(name, key).mean(runs) for key in ("node_updates_per_second", "peak_rss_mib"))
        total += sum(walls.values())
        what = [
            name,
            Path(experiments()[name]["base"]).name,
            ", ".join(
                one for one in serves[name] if one.startswith(("table", "fig", "text")) and one != name
            ),
            str(len(seeds)),
        ]
        lines.append([*what, duration(mean(walls)), f"{pace:,.0f}", f"{peak:,.0f}"])
    table = Table("Times", header, lines)
    return f"## Times\n\nAll finished runs together took {duration(total)}.\n\n{table.markdown()}"


def duration(seconds: float) -> str:
    """Return a time as ``h:mm:ss`` or ``m:ss``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _missing(reasons: Mapping[str, str]) -> str:
    if not reasons:
        return "## Missing\n\nNothing: every experiment has a finished run."
    lines = [f"- `{name}`: {reason}" for name, reason in reasons.items()]
    return "## Missing\n\n" + "\n".join(lines)


def _claims(judged: Sequence[Finding]) -> str:
    parts = ["## What the paper claims"]
    for finding in judged:
        evidence = "\n".join(f"- {line}" for line in finding.evidence)
        parts.append(f"**{finding.claim}: {finding.verdict}.**\n\n{evidence}")
    return "\n\n".join(parts)


def _aims(aims: Sequence[Reached]) -> str:
    header = ["figure", "wanted", "found", "verdict", "what else is known"]
    lines = [[aim.label, aim.wanted, aim.found, aim.verdict, aim.evidence] for aim in aims]
    return f"## Figures to reach\n\n{Table('', header, lines).markdown()}"


def _html(text: str) -> str:
    body = MarkdownIt("commonmark").enable("table").render(text)
    title = text.partition("\n")[0].removeprefix("# ")
    head = f'<meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}</body></html>\n'
