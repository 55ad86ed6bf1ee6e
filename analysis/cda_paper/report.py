"""The report of a study: verdicts, tables, figures, findings and effects of training variants, from any runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.cda_paper import ML_FULL_BATCH, ML_RAND, PUBLISHED, STUDY, WITH_ALL, variant_experiments
from analysis.cda_paper.cells import CSV_HEADER, collect_number_results, csv_rows, select_printed_results
from analysis.cda_paper.claims import NOT_REACHED, REACHED, TargetResult, judge_claims, judge_targets
from analysis.cda_paper.figures import paper_figures, selectable_names
from analysis.cda_paper.measures import MAIN_RULE, RULES, AttackNumber, summary_number
from analysis.cda_paper.tables import (
    field_legend,
    format_measured,
    format_printed,
    overview_blocks,
    paper_tables,
)
from analysis.papers.comparison import PrintedNumber
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
from analysis.papers.verdict import (
    HELD,
    NOT_HELD,
    ClaimVerdict,
    PerSeed,
    Runs,
    Verdict,
    judge_agreement,
    mean,
)
from gossiprec.cli.progress import format_clock_time
from gossiprec.figures.figure_files import Cell

WAYS = {
    "64": "batches of 64, one epoch",
    "full": "full batches, two epochs",
    "wake": "on wake",
    "receive": "on receive",
    "clocks": "exponential clocks",
    "lock-step": "lock-step",
}
TITLES = (
    "single", "5 %", "10 %", "20 %", "5 %, all references", "10 %, all references", "20 %, all references",
    "5 %, momentum 0", "10 %, momentum 0", "20 %, momentum 0",
)  # fmt: skip
_ABOUT = (
    "Max AAC of Rand-Gossip on all 943 users of MovieLens-100k, K = 50, under `standardized`. The first two lines have "
    "500 wakes. The others have 100 wakes, with reports every 2 wakes up to 40 and then every 10; in this time single "
    "adversaries meet a quarter of their communities, so their numbers are not judged. Colluders compare with 99 other "
    "items, or with all (*all references*). All nodes start from the same item table; no option changes this."
)


@dataclass(frozen=True)
class TrainingVariant:
    """One training variant: the words for its switches, and its experiment."""

    words: str
    experiment: str
    is_short: bool


def training_variants() -> list[TrainingVariant]:
    """Return the full-length runs, then every combination of the switches."""
    whole = (("64", "wake", "clocks"), ML_RAND), (("full", "wake", "lock-step"), ML_FULL_BATCH)
    return [
        *(
            TrainingVariant(f"{_in_words(way)}, 500 wakes", experiment, is_short=False)
            for way, experiment in whole
        ),
        *(
            TrainingVariant(_in_words(way), experiment, is_short=True)
            for way, experiment in variant_experiments().items()
        ),
    ]


def variant_columns() -> list[tuple[str, PrintedNumber, str, float]]:
    """Return the columns of the table: title, printed number, observer and momentum."""
    shares = list(WITH_ALL)
    keys = [("single", "single", "with_momentum", 0.99)]
    keys += [(share, f"coalition-{share}", "with_momentum", 0.99) for share in shares]
    keys += [(share, f"coalition-{WITH_ALL[share]}", "with_momentum", 0.99) for share in shares]
    keys += [(share, f"coalition-{share}", "without_momentum", 0.0) for share in shares]
    return [
        (title, _printed(share, column), observer, beta)
        for title, (share, observer, column, beta) in zip(TITLES, keys, strict=True)
    ]


def switch_table(runs: Runs) -> Iterator[DocumentBlock]:
    """Yield the table of switches, each number judged by the printed band; nothing without runs."""
    known = [way for way in training_variants() if way.experiment in runs]
    if not any(way.is_short for way in known):
        return
    rows = [
        [GridCell("printed"), *(GridCell(format_printed(number)) for _, number, _, _ in variant_columns())]
    ]
    rows += [[GridCell(way.words), *_line(way, runs)] for way in known]
    yield Heading(2, "Switches", "switches")
    yield ParagraphBlock(_ABOUT)
    yield Grid("Switches", [GridColumn(title) for title in ("training", *TITLES)], rows)


def _line(way: TrainingVariant, runs: Runs) -> Sequence[GridCell]:
    return [
        _entry(
            number,
            AttackNumber(way.experiment, observer, beta).values_by_seed(runs),
            is_judged=i > 0 or not way.is_short,
        )
        for i, (_, number, observer, beta) in enumerate(variant_columns())
    ]


def _entry(number: PrintedNumber, values: PerSeed, *, is_judged: bool) -> GridCell:
    if not values:
        return GridCell("")
    verdict, small = judge_agreement(number.band, values), (f"n = {len(values)}",)
    text = format_measured(values, number)
    return GridCell(text, small, verdict.mark, verdict.word) if is_judged else GridCell(text, small)


def _in_words(way: tuple[str, ...]) -> str:
    return ", ".join(WAYS[one] for one in way)


def _printed(share: str, column: str) -> PrintedNumber:
    """Return the number of Table 8, or for single adversaries of Table 6."""
    of_eight = ("table8", f"{share} colluders", column)
    wanted = ("table6", "single adversary", "max_aac") if share == "single" else of_eight
    return next(
        number for number in PUBLISHED.printed_numbers if (number.table, number.row, number.column) == wanted
    )


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
