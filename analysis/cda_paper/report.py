"""The report of a study: tables, figures and findings, as Markdown and HTML, whatever part of the runs is there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from markdown_it import MarkdownIt

from analysis.cda_paper.figures import draw_figures
from analysis.cda_paper.findings import HELD, NOT_HELD, Finding, findings
from analysis.cda_paper.folder import StudyFolder
from analysis.cda_paper.measures import MAIN_RULE, RULES, Fact, Runs, mean
from analysis.cda_paper.plan import Job, Scale, subjects
from analysis.cda_paper.runs import Outcome, duration
from analysis.cda_paper.tables import CSV_HEADER, Table, csv_rows, tables
from analysis.cda_paper.targets import NOT_REACHED, REACHED, Reached, reached
from gossiprec.eventlog.atomic_write import replace_file
from gossiprec.figures.output import csv_bytes
from gossiprec.figures.series import Run

CAPTIONS = {
    "fig2": "Figure 2. Accuracy over the adversaries at the round of the largest AAC, full models.",
    "fig3": "Figure 3. The same under Share less; Foursquare: the first 146 users, K = 5.",
    "fig4": "Figure 4. What Share less does to leakage; Foursquare: the first 146 users, K = 5.",
    "fig5": "Figure 5. Leakage against utility: from full models (filled) to Share less (open).",
    "fig6": "Figure 6. DP-SGD: leakage and utility over the privacy budget, MovieLens-100k, GMF.",
    "fig7": "Figure 7. Momentum: average attack accuracy over rounds, MovieLens-100k, GMF.",
}
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
    planned: Sequence[Job], folder: StudyFolder, outcome: Outcome, *, scale: Scale = "full"
) -> list[Path]:
    """Write report, findings, pictures and ``cells.csv``, each file in one step; return their paths.

    Parameters
    ----------
    planned : sequence of Job
        All jobs of the whole study, not only those that were asked for now.
    folder : StudyFolder
    outcome : Outcome
        Of this time's runs: says why some are missing.
    scale : {'full', 'tiny'}
    """
    runs = folder.finished_runs(planned)
    pictures = draw_figures(runs, folder.path / "figures")
    reasons = _reasons(planned, runs, outcome)
    judged, aims = findings(runs), reached(runs)
    summary = _summary(judged, aims)
    opening = _opening(planned, runs, scale)
    texts = {
        "report": "\n\n".join(
            [
                "# The community-detection study",
                opening,
                summary,
                _tables(tables(runs, reasons)),
                _figures(pictures),
                _times(planned, runs),
                _missing(reasons),
            ]
        ),
        "findings": "\n\n".join(["# Findings", opening, _claims(judged), _aims(aims)]),
    }
    written = []
    for name, text in texts.items():
        for suffix, content in ((".md", text + "\n"), (".html", _html(text))):
            path = folder.path / f"{name}{suffix}"
            replace_file(path, content.encode())
            written.append(path)
    replace_file(folder.path / "cells.csv", csv_bytes(CSV_HEADER, csv_rows(runs)))
    return written


def _reasons(planned: Sequence[Job], runs: Runs, outcome: Outcome) -> dict[str, str]:
    """Return why an experiment has no finished run."""
    reasons = {}
    for job in planned:
        name = job.experiment.name
        if name not in runs and name not in reasons:
            problem = job.problem or outcome.failed.get(job.name, "")
            reason = problem if job.is_missing_data else f"failed: {problem}" if problem else "not run yet"
            reasons[name] = " ".join(reason.split())[:400]
    return reasons


def _opening(planned: Sequence[Job], runs: Runs, scale: Scale) -> str:
    made = [run for seeds in runs.values() for run in seeds.values()]
    versions = sorted({f"{run.manifest.get('gossiprec')} ({_commit(run)})" for run in made})
    others = " and ".join(f"`{rule}`" for rule in RULES[1:])
    if scale == "tiny":
        return (
            f"**Scale tiny: small synthetic data and short runs, to try the study; no number here says anything about "
            f"the paper.** {len(made)} of {len(planned)} runs are finished. Measured under `{MAIN_RULE}`."
        )
    by = f", made by gossiprec {', '.join(versions)}" if versions else ""
    return (
        "Beside arXiv 2306.08929v2, *On the Resilience of Collaborative Learning-based Recommender Systems Against "
        f"Community Detection Attack*. {len(made)} of {len(planned)} runs are finished{by}. Accuracies are in percent; "
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


def _figures(pictures: dict[str, list[Path]]) -> str:
    parts = ["## Figures"]
    for name, caption in CAPTIONS.items():
        if name in pictures:
            parts.append(f"![{caption}](figures/{name}.svg)\n\n{caption} ([numbers](figures/{name}.csv))")
        else:
            parts.append(f"{caption} Not drawn: none of its runs is finished.")
    return "\n\n".join(parts)


def _times(planned: Sequence[Job], runs: Runs) -> str:
    """Return what each experiment took, and how many cells it serves."""
    experiments = {job.experiment.name: job.experiment for job in planned}
    serves: dict[str, list[str]] = {}
    for subject, serving in subjects().items():
        if subject.startswith(("table", "fig", "text")):
            for experiment in serving:
                serves.setdefault(experiment.name, []).append(subject)
    header = ["experiment", "scenario", "serves", "runs", "time of a run", "local epochs/s", "peak MiB"]
    lines, total = [], 0.0
    for name, seeds in runs.items():
        facts = {key: Fact(experiments[name], (key,)).per_seed(runs) for key in _FACTS}
        wall, pace, peak = (mean(facts[key]) for key in _FACTS)
        total += sum(facts["wall_seconds"].values())
        what = [
            name,
            experiments[name].file,
            ", ".join(subject for subject in serves[name] if subject != name),
            str(len(seeds)),
        ]
        lines.append([*what, duration(wall), f"{pace:,.0f}", f"{peak:,.0f}"])
    table = Table("times", "Times", header, lines)
    return f"## Times\n\nAll finished runs together took {duration(total)}.\n\n{table.markdown()}"


_FACTS = ("wall_seconds", "node_updates_per_second", "peak_rss_mib")


def _missing(reasons: dict[str, str]) -> str:
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
    return f"## Figures to reach\n\n{Table('aims', '', header, lines).markdown()}"


def _html(text: str) -> str:
    body = MarkdownIt("commonmark").enable("table").render(text)
    title = text.partition("\n")[0].removeprefix("# ")
    head = f'<meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}</body></html>\n'
