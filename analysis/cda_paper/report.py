"""The report of a study: verdicts, tables, figures and findings, from whatever runs exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from analysis.cda_paper.acceptance_targets import NOT_REACHED, REACHED, TargetResult, judge_targets
from analysis.cda_paper.claims import judge_claims
from analysis.cda_paper.experiments import STUDY
from analysis.cda_paper.figures import draw_figures, paper_figures
from analysis.cda_paper.measures import MAIN_RULE, RULES, summary_number
from analysis.cda_paper.plan import selectable_names
from analysis.cda_paper.tables import field_legend, overview_blocks, paper_tables
from analysis.cda_paper.training_variants import switch_table
from analysis.cda_paper.verdicts import CSV_HEADER, csv_rows, number_results, printed_results
from analysis.papers.document import (
    Collapsible,
    DocumentBlock,
    Grid,
    GridCell,
    GridColumn,
    Heading,
    ImageBlock,
    ParagraphBlock,
    write_pages,
)
from analysis.papers.report import INTERVALS, claim_blocks, format_clock, missing_blocks, versions_used
from analysis.papers.study_file import Scale
from analysis.papers.verdict import HELD, NOT_HELD, ClaimVerdict, Runs, Verdict, mean
from gossiprec.figures.figure_files import csv_bytes
from gossiprec.runs.run_files import replace_file

_LOOKS = {REACHED: Verdict.WITHIN, NOT_REACHED: Verdict.OUTSIDE}


def write_report(
    folder: Path, runs: Runs, reasons: Mapping[str, str], *, planned: int, scale: Scale = "full"
) -> list[Path]:
    """Write report, findings, pictures and ``cells.csv``, each file in one step; return the paths of the texts.

    Parameters
    ----------
    folder : Path
    runs : mapping
        All finished runs of the whole study, not only the selected ones.
    reasons : mapping of str to str
        Why an experiment has no finished run.
    planned : int
        Number of runs of the whole study.
    scale : {'full', 'tiny'}
    """
    pictures = draw_figures(runs, folder / "figures")
    found, claims, aims = number_results(runs), judge_claims(runs), judge_targets(runs)
    opening = _opening(planned, runs, scale)
    pages = {
        "report": (
            "The community-detection study",
            [
                opening,
                *overview_blocks(printed_results(found), runs),
                _claims_in_short(claims, aims),
                field_legend(),
                Heading(2, "Tables"),
                *paper_tables(found, runs),
                *switch_table(runs),
                *_figures(pictures),
                *_times(runs),
                *missing_blocks(reasons),
            ],
        ),
        "findings": (
            "Findings of the community-detection study",
            [opening, ParagraphBlock(INTERVALS), *claim_blocks(claims), *_aims(aims)],
        ),
    }
    written = write_pages(folder, pages)
    replace_file(folder / "cells.csv", csv_bytes(CSV_HEADER, csv_rows(found, runs)))
    return written


def _opening(planned: int, runs: Runs, scale: Scale) -> ParagraphBlock:
    made = [run for seeds in runs.values() for run in seeds.values()]
    if scale == "tiny":
        return ParagraphBlock(
            "**Scale tiny: small synthetic data and short runs, to try the study; no number here says anything about "
            f"the paper.** {len(made)} of {planned} runs are finished."
        )
    versions = versions_used(made)
    by = f", made by gossiprec {', '.join(versions)}" if versions else ""
    first, second = RULES[1:]
    return ParagraphBlock(
        "Compared with arXiv 2306.08929v2, *On the Resilience of Collaborative Learning-based Recommender Systems "
        f"Against Community Detection Attack*. {len(made)} of {planned} runs are finished{by}. Accuracies are in "
        f"percent. Of the relevance rules `{MAIN_RULE}` is the default, which compares a model with itself, `{first}` "
        f"that of the published code, `{second}` the paper's equation 4 (docs/attacks.md). *Max AAC* is the largest "
        "mean over adversaries among the reported rounds; the *upper bound* is the share of the communities met by "
        "the end; the *random bound* is K / N."
    )


def _claims_in_short(claims: Sequence[ClaimVerdict], aims: Sequence[TargetResult]) -> ParagraphBlock:
    held, refuted = (sum(f.verdict == verdict for f in claims) for verdict in (HELD, NOT_HELD))
    met, missed = (sum(a.verdict == verdict for a in aims) for verdict in (REACHED, NOT_REACHED))
    return ParagraphBlock(
        f"**Findings** ([findings](findings.md)): of {len(claims)} orderings that the paper claims, {held} held, "
        f"{refuted} did not, {len(claims) - held - refuted} were not measured. "
        f"Of {len(aims)} figures to reach, {met} are reached, {missed} are not, "
        f"{len(aims) - met - missed} were not measured."
    )


def _figures(pictures: Mapping[str, Sequence[Path]]) -> Iterator[DocumentBlock]:
    yield Heading(2, "Figures", "figures")
    for name, drawing in paper_figures().items():
        if name in pictures:
            yield ImageBlock(f"figures/{name}.svg", drawing.caption, f"figures/{name}.csv")
        else:
            yield ParagraphBlock(f"{drawing.caption} Not drawn: none of its runs is finished.")


def _times(runs: Runs) -> Iterator[DocumentBlock]:
    """Yield the duration of each experiment, and the tables that it serves."""
    serves = {name: [subject for subject, own in selectable_names().items() if name in own] for name in runs}
    titles = ("experiment", "scenario", "serves", "runs", "time of a run", "local epochs/s", "peak MiB")
    lines, total = [], 0.0
    for name, seeds in runs.items():
        walls = summary_number(name, "wall_seconds").per_seed(runs)
        pace, peak = (
            summary_number(name, key).mean(runs) for key in ("node_updates_per_second", "peak_rss_mib")
        )
        total += sum(walls.values())
        what = [
            name,
            Path(STUDY.experiments[name]["base"]).name,
            ", ".join(
                one for one in serves[name] if one.startswith(("table", "fig", "text")) and one != name
            ),
            str(len(seeds)),
        ]
        lines.append(
            [GridCell(t) for t in (*what, format_clock(mean(walls)), f"{pace:,.0f}", f"{peak:,.0f}")]
        )
    yield Heading(2, "Times", "times")
    yield ParagraphBlock(f"All finished runs together took {format_clock(total)}.")
    if lines:
        grid = Grid("Times", [GridColumn(title) for title in titles], lines)
        yield Collapsible("Time of each experiment, and the tables that it serves", (grid,))


def _aims(aims: Sequence[TargetResult]) -> Iterator[DocumentBlock]:
    yield Heading(2, "Figures to reach")
    titles = ("figure", "wanted", "found", "verdict", "what else is known")
    rows = [
        [
            GridCell(aim.label),
            GridCell(aim.wanted),
            GridCell(aim.found),
            _verdict(aim.verdict),
            GridCell(aim.evidence),
        ]
        for aim in aims
    ]
    yield Grid("Figures to reach", [GridColumn(title) for title in titles], rows)


def _verdict(said: str) -> GridCell:
    look = _LOOKS.get(said, Verdict.NOT_RUN)
    return GridCell(said, mark=look.mark, kind=look.word)
