"""The report of a study: verdicts, tables, figures and findings, whatever part of the runs is there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from analysis.cda_paper.csv_rows import CSV_HEADER, csv_rows
from analysis.cda_paper.experiments import experiments
from analysis.cda_paper.figures import draw_figures, drawings
from analysis.cda_paper.findings import findings
from analysis.cda_paper.measures import MAIN_RULE, RULES, fact
from analysis.cda_paper.overview import legend, overview
from analysis.cda_paper.plan import subjects
from analysis.cda_paper.switches import switch_table
from analysis.cda_paper.tables import paper_tables
from analysis.cda_paper.targets import NOT_REACHED, REACHED, Reached, reached
from analysis.cda_paper.verdicts import groups, judged
from analysis.papers.claims import HELD, NOT_HELD, Finding
from analysis.papers.document import Block, Column, Entry, Fold, Grid, Heading, Picture, Text
from analysis.papers.page import write_pages
from analysis.papers.report_parts import INTERVALS, claim_list, duration, made_with, missing
from analysis.papers.seeds import Runs, mean
from analysis.papers.study_file import Scale
from analysis.papers.verdict import Verdict
from gossiprec.eventlog.atomic_write import replace_file
from gossiprec.figures.output import csv_bytes

_LOOKS = {REACHED: Verdict.WITHIN, NOT_REACHED: Verdict.OUTSIDE}


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
    found, claims, aims = groups(runs), findings(runs), reached(runs)
    opening = _opening(planned, runs, scale)
    pages = {
        "report": (
            "The community-detection study",
            [
                opening,
                *overview(judged(found), runs),
                _claims_in_short(claims, aims),
                legend(),
                Heading(2, "Tables"),
                *paper_tables(found, runs),
                *switch_table(runs),
                *_figures(pictures),
                *_times(runs),
                *missing(reasons),
            ],
        ),
        "findings": (
            "Findings of the community-detection study",
            [opening, Text(INTERVALS), *claim_list(claims), *_aims(aims)],
        ),
    }
    written = write_pages(folder, pages)
    replace_file(folder / "cells.csv", csv_bytes(CSV_HEADER, csv_rows(found, runs)))
    return written


def _opening(planned: int, runs: Runs, scale: Scale) -> Text:
    made = [run for seeds in runs.values() for run in seeds.values()]
    if scale == "tiny":
        return Text(
            "**Scale tiny: small synthetic data and short runs, to try the study; no number here says anything about "
            f"the paper.** {len(made)} of {planned} runs are finished."
        )
    versions = made_with(made)
    by = f", made by gossiprec {', '.join(versions)}" if versions else ""
    first, second = RULES[1:]
    return Text(
        "Beside arXiv 2306.08929v2, *On the Resilience of Collaborative Learning-based Recommender Systems Against "
        f"Community Detection Attack*. {len(made)} of {planned} runs are finished{by}. Accuracies are in percent. Of "
        f"the relevance rules `{MAIN_RULE}` is the default, which compares a model with itself, `{first}` that of the "
        f"published code, `{second}` the paper's equation 4 (docs/attacks.md). *Max AAC* is the largest mean over "
        "adversaries among the reported rounds; the *upper bound* is the share of the communities met by the end; the "
        "*random bound* is K / N."
    )


def _claims_in_short(claims: Sequence[Finding], aims: Sequence[Reached]) -> Text:
    held, refuted = (sum(f.verdict == verdict for f in claims) for verdict in (HELD, NOT_HELD))
    met, missed = (sum(a.verdict == verdict for a in aims) for verdict in (REACHED, NOT_REACHED))
    return Text(
        f"**Findings** ([findings](findings.md)): of {len(claims)} orderings that the paper claims, {held} held, "
        f"{refuted} did not, {len(claims) - held - refuted} were not measured. "
        f"Of {len(aims)} figures to reach, {met} are reached, {missed} are not, "
        f"{len(aims) - met - missed} were not measured."
    )


def _figures(pictures: Mapping[str, Sequence[Path]]) -> Iterator[Block]:
    yield Heading(2, "Figures", "figures")
    for name, drawing in drawings().items():
        if name in pictures:
            yield Picture(f"figures/{name}.svg", drawing.caption, f"figures/{name}.csv")
        else:
            yield Text(f"{drawing.caption} Not drawn: none of its runs is finished.")


def _times(runs: Runs) -> Iterator[Block]:
    """Yield what each experiment took, and what it serves."""
    serves = {name: [subject for subject, own in subjects().items() if name in own] for name in runs}
    titles = ("experiment", "scenario", "serves", "runs", "time of a run", "local epochs/s", "peak MiB")
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
        lines.append([Entry(t) for t in (*what, duration(mean(walls)), f"{pace:,.0f}", f"{peak:,.0f}")])
    yield Heading(2, "Times", "times")
    yield Text(f"All finished runs together took {duration(total)}.")
    if lines:
        grid = Grid("Times", [Column(title) for title in titles], lines)
        yield Fold("What each experiment took, and what it serves", (grid,))


def _aims(aims: Sequence[Reached]) -> Iterator[Block]:
    yield Heading(2, "Figures to reach")
    titles = ("figure", "wanted", "found", "verdict", "what else is known")
    rows = [
        [Entry(aim.label), Entry(aim.wanted), Entry(aim.found), _verdict(aim.verdict), Entry(aim.evidence)]
        for aim in aims
    ]
    yield Grid("Figures to reach", [Column(title) for title in titles], rows)


def _verdict(said: str) -> Entry:
    look = _LOOKS.get(said, Verdict.NOT_RUN)
    return Entry(said, mark=look.mark, kind=look.word)
