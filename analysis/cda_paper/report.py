"""The report of a study: verdicts, tables, figures and findings, from whatever runs exist."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from analysis.cda_paper import STUDY
from analysis.cda_paper.cells import CSV_HEADER, collect_number_results, csv_rows, select_printed_results
from analysis.cda_paper.claims import NOT_REACHED, REACHED, TargetResult, judge_claims, judge_targets
from analysis.cda_paper.figures import paper_figures, selectable_names
from analysis.cda_paper.measures import MAIN_RULE, RULES, summary_number
from analysis.cda_paper.tables import field_legend, overview_blocks, paper_tables
from analysis.cda_paper.training_variants import switch_table
from analysis.papers.document import (
    Collapsible,
    DocumentBlock,
    Grid,
    GridCell,
    GridColumn,
    Heading,
    ImageBlock,
    ParagraphBlock,
)
from analysis.papers.figures import draw_figures
from analysis.papers.report import (
    INTERVALS,
    Pages,
    ReportInput,
    StudyReport,
    claim_blocks,
    missing_blocks,
)
from analysis.papers.verdict import HELD, NOT_HELD, ClaimVerdict, Runs, Verdict, mean
from gossiprec.cli.study_display import format_clock_time
from gossiprec.figures.figure_files import Cell

_LOOKS = {REACHED: Verdict.WITHIN, NOT_REACHED: Verdict.OUTSIDE}


class CommunityReport(StudyReport):
    """The report of the community-detection study."""

    def make_pages(self, study: ReportInput, figures: Path) -> Pages:
        """Return the report and the findings."""
        runs = study.runs
        pictures = draw_figures(paper_figures(), runs, figures)
        found, claims, targets = collect_number_results(runs), judge_claims(runs), judge_targets(runs)
        opening = study.opening_paragraph(_opening)
        report = [
            opening,
            *overview_blocks(select_printed_results(found), runs),
            _findings_in_short(claims, targets),
            field_legend(),
            Heading(2, "Tables"),
            *paper_tables(found, runs),
            *switch_table(runs),
            *_figures(pictures),
            *_times(runs),
            *missing_blocks(study.reasons),
        ]
        findings = [opening, ParagraphBlock(INTERVALS), *claim_blocks(claims), *_target_blocks(targets)]
        title = "community-detection study"
        return {"report": (f"The {title}", report), "findings": (f"Findings of the {title}", findings)}

    def csv_table(self, study: ReportInput) -> tuple[Sequence[str], Iterable[Sequence[Cell]]]:
        """Return every number of the tables, under each relevance rule."""
        return CSV_HEADER, csv_rows(collect_number_results(study.runs), study.runs)


REPORT = CommunityReport()


def _opening(progress: str) -> str:
    first, second = RULES[1:]
    return (
        "Compared with arXiv 2306.08929v2, *On the Resilience of Collaborative Learning-based Recommender Systems "
        f"Against Community Detection Attack*. {progress} Accuracies are in percent. The relevance rule `{MAIN_RULE}` "
        f"is the default, which compares a model with itself; `{first}` is the rule of the published code, `{second}` "
        "is the paper's equation 4 (docs/attacks.md). *Max AAC* is the largest mean over adversaries over the reported "
        "rounds; the *upper bound* is the share of the communities met by the end; the *random bound* is K / N."
    )


def _findings_in_short(claims: Sequence[ClaimVerdict], targets: Sequence[TargetResult]) -> ParagraphBlock:
    held, refuted = (sum(claim.verdict == verdict for claim in claims) for verdict in (HELD, NOT_HELD))
    met, missed = (sum(target.verdict == verdict for target in targets) for verdict in (REACHED, NOT_REACHED))
    return ParagraphBlock(
        f"**Findings** ([findings](findings.md)): of {len(claims)} orderings that the paper claims, {held} held, "
        f"{refuted} did not, {len(claims) - held - refuted} were not measured. "
        f"Of {len(targets)} targets, {met} are reached, {missed} are not, "
        f"{len(targets) - met - missed} were not measured."
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
        walls = summary_number(name, "wall_seconds").values_by_seed(runs)
        pace, peak = (
            summary_number(name, key).mean_over_seeds(runs)
            for key in ("node_updates_per_second", "peak_rss_mib")
        )
        total += sum(walls.values())
        texts = [
            name,
            Path(STUDY.experiments[name]["base"]).name,
            ", ".join(
                one for one in serves[name] if one.startswith(("table", "fig", "text")) and one != name
            ),
            str(len(seeds)),
        ]
        lines.append(
            [GridCell(t) for t in (*texts, format_clock_time(mean(walls)), f"{pace:,.0f}", f"{peak:,.0f}")]
        )
    yield Heading(2, "Times", "times")
    yield ParagraphBlock(f"All finished runs together took {format_clock_time(total)}.")
    if lines:
        grid = Grid("Times", [GridColumn(title) for title in titles], lines)
        yield Collapsible("Time of each experiment, and the tables that it serves", (grid,))


def _target_blocks(targets: Sequence[TargetResult]) -> Iterator[DocumentBlock]:
    yield Heading(2, "Targets")
    titles = ("quantity", "target", "found", "verdict", "evidence")
    rows = [
        [
            GridCell(target.label),
            GridCell(target.wanted),
            GridCell(target.found),
            _verdict(target.verdict),
            GridCell(target.evidence),
        ]
        for target in targets
    ]
    yield Grid("Targets", [GridColumn(title) for title in titles], rows)


def _verdict(verdict: str) -> GridCell:
    look = _LOOKS.get(verdict, Verdict.NOT_RUN)
    return GridCell(verdict, mark=look.mark, kind=look.word)
