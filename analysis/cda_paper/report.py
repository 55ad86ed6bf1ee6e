"""The report of a study: verdicts, tables, figures, findings and effects of training variants, from any runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from analysis.cda_paper import PUBLISHED, STUDY, measures, tables
from analysis.cda_paper.figures import paper_figures, selectable_names
from analysis.cda_paper.measures import (
    RULES,
    AttackNumber,
    FunctionNumber,
    RunNumber,
    combine_by_seed,
    format_mean_number,
    read_number,
    single_attack,
    summary_number,
    utility_number,
)
from analysis.papers import claims
from analysis.papers.claims import HELD, NOT_HELD, NOT_MEASURED, ClaimVerdict
from analysis.papers.comparison import PrintedNumber
from analysis.papers.document import (
    Collapsible,
    DocumentBlock,
    GridCell,
    GridRow,
    Heading,
    ImageBlock,
    ParagraphBlock,
    make_grid,
)
from analysis.papers.figures import draw_figures
from analysis.papers.report import INTERVALS, Pages, ReportInput, StudyReport, missing_blocks
from analysis.papers.verdict import PerSeed, Runs, Verdict, judge_agreement, mean
from gossiprec.base.rounding import difference
from gossiprec.cli.progress import format_clock_time
from gossiprec.figures.figure_files import Cell
from gossiprec.runs import Run


def switch_table(runs: Runs) -> Iterator[DocumentBlock]:
    """Yield the table of switches, each number judged by the printed band; nothing without short runs."""
    plan = STUDY.read("switches")
    columns, rows = plan["columns"], {**plan["whole"], **plan["short"]}
    printed = {(one.table, one.row, one.column): one for one in PUBLISHED.printed_numbers}
    numbers = [printed[tuple(column["printed"])] for column in columns]
    if not any(name in runs for name in plan["short"]):
        return
    lines: list[GridRow] = [["printed", *map(tables.format_printed, numbers)]]
    for name in (name for name in rows if name in runs):
        line: GridRow = [rows[name]]
        for column, number in zip(columns, numbers, strict=True):
            attack = AttackNumber(name, column["observer"], column["momentum"])
            is_judged = column is not columns[0] or name in plan["whole"]
            line.append(_switch_field(number, attack.values_by_seed(runs), is_judged=is_judged))
        lines.append(line)
    yield Heading(2, "Switches", "switches")
    yield ParagraphBlock(plan["about"])
    yield make_grid("Switches", ("training", *(column["title"] for column in columns)), lines)


def _switch_field(number: PrintedNumber, values: PerSeed, *, is_judged: bool) -> GridCell:
    if not values:
        return GridCell("")
    verdict, small = judge_agreement(number.band, values), (f"n = {len(values)}",)
    text = tables.format_measured(values, number)
    return GridCell(text, small, verdict.mark, verdict.word) if is_judged else GridCell(text, small)


REACHED, NOT_REACHED = "reached", "not reached"
_LOOKS = {REACHED: Verdict.WITHIN, NOT_REACHED: Verdict.OUTSIDE}


class CommunityReport(StudyReport):
    """The report of the community-detection study."""

    csv_header = measures.CSV_HEADER

    def make_pages(self, study: ReportInput, figures: Path) -> Pages:
        """Return the report and the findings."""
        runs = study.runs
        pictures = draw_figures(paper_figures(), runs, figures)
        found, verdicts, targets = (
            measures.collect_number_results(runs),
            judge_claims(runs),
            judge_targets(runs),
        )
        printed = [group for group in found if group.printed in PUBLISHED.printed_numbers]
        opening, title = study.opening_paragraph(_OPENING), "community-detection study"
        report = [
            opening,
            *tables.overview_blocks(printed, runs),
            _findings_in_short(verdicts, targets),
            tables.field_legend(),
            Heading(2, "Tables"),
            *tables.paper_tables(found, runs),
            *switch_table(runs),
            *_figures(pictures),
            *_times(runs),
            *missing_blocks(study.reasons),
        ]
        findings = [
            opening,
            ParagraphBlock(INTERVALS),
            *claims.claim_blocks(verdicts),
            *_target_blocks(targets),
        ]
        return {"report": (f"The {title}", report), "findings": (f"Findings of the {title}", findings)}

    def csv_rows(self, study: ReportInput) -> Iterator[Sequence[Cell]]:
        """Yield every number of the tables, under each relevance rule."""
        return measures.csv_rows(measures.collect_number_results(study.runs), study.runs)


REPORT = CommunityReport()


_OPENING = (
    "Compared with arXiv 2306.08929v2, *On the Resilience of Collaborative Learning-based Recommender Systems "
    "Against Community Detection Attack*. {progress} Accuracies are in percent. The relevance rule `standardized` "
    "is the default, which compares a model with itself; `ndcg` is the rule of the published code, `mean_score` "
    "is the paper's equation 4 (docs/attacks.md). *Max AAC* is the largest mean over adversaries over the reported "
    "rounds; the *upper bound* is the share of the communities met by the end; the *random bound* is K / N."
)


def _findings_in_short(found: Sequence[ClaimVerdict], targets: Sequence[TargetResult]) -> ParagraphBlock:
    held, refuted = (sum(claim.verdict == verdict for claim in found) for verdict in (HELD, NOT_HELD))
    met, missed = (sum(target.verdict == verdict for target in targets) for verdict in (REACHED, NOT_REACHED))
    return ParagraphBlock(
        f"**Findings** ([findings](findings.md)): of {len(found)} orderings that the paper claims, {held} held, "
        f"{refuted} did not, {len(found) - held - refuted} were not measured. "
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
    lines, total = [], 0.0
    for name, seeds in runs.items():
        walls, paces, peaks = (
            summary_number(name, key).values_by_seed(runs)
            for key in ("wall_seconds", "node_updates_per_second", "peak_rss_mib")
        )
        serves = (
            subject
            for subject, own in selectable_names().items()
            if name in own and subject.startswith(("table", "fig", "text")) and subject != name
        )
        about = (name, Path(STUDY.experiments[name]["base"]).name, ", ".join(serves), str(len(seeds)))
        numbers = (format_clock_time(mean(walls)), f"{mean(paces):,.0f}", f"{mean(peaks):,.0f}")
        lines.append((*about, *numbers))
        total += sum(walls.values())
    yield Heading(2, "Times", "times")
    yield ParagraphBlock(f"All finished runs together took {format_clock_time(total)}.")
    if lines:
        titles = ("experiment", "scenario", "serves", "runs", "time of a run", "local epochs/s", "peak MiB")
        grid = make_grid("Times", titles, lines)
        yield Collapsible("Time of each experiment, and the tables that it serves", (grid,))


def _target_blocks(targets: Sequence[TargetResult]) -> Iterator[DocumentBlock]:
    yield Heading(2, "Targets")
    titles = ("quantity", "target", "found", "verdict", "evidence")
    rows: list[GridRow] = []
    for target in targets:
        look = _LOOKS.get(target.verdict, Verdict.NOT_RUN)
        verdict = GridCell(target.verdict, mark=look.mark, kind=look.word)
        rows.append([target.label, target.wanted, target.found, verdict, target.evidence])
    yield make_grid("Targets", titles, rows)


_MARGINS: dict[str, Callable[[float, float], float]] = {
    "larger": difference,
    "smaller": lambda first, second: difference(second, first),
    "half": lambda first, second: difference(0.5 * abs(second), abs(first)),
}
"""Margin of a claim from both numbers of a seed; negative if the claim does not hold."""


def judge_claims(runs: Runs) -> list[ClaimVerdict]:
    """Return the verdict on each claim."""
    return [
        _privacy(one, runs) if "dp" in one else claims.judge_claim(one["claim"], _evidence(one, runs))
        for one in STUDY.read("claims")
    ]


def _evidence(claim: Mapping[str, Any], runs: Runs) -> claims.Evidence:
    """Yield the comparisons of a claim; of several second numbers the largest is compared."""
    for entry in claim["comparisons"]:
        first = read_number(entry["first"])
        seconds = [read_number(spec) for spec in entry.get("best_second", [entry.get("second")])]
        second = max(seconds, key=lambda number: np.nan_to_num(number.mean_over_seeds(runs), nan=-1.0))
        margin = _MARGINS[claim.get("margin", "larger")]
        margins = combine_by_seed(first, second, margin).values_by_seed(runs)
        both = {"first": format_mean_number(first, runs), "second": format_mean_number(second, runs)}
        label = entry["label"]
        yield f"{label}: {claim['words'].format(**both)}" if margins else label, margins


def _privacy(claim: Mapping[str, Any], runs: Runs) -> ClaimVerdict:
    """Return the verdict on the utility of DP-SGD, interpolated in leakage, against Share less."""
    points = [name for name in claim["dp"] if name in runs]
    plain, less = claim["full_models"], claim["share_less"]
    if len(points) < 2 or less not in runs:
        reason = f"needs Share less and two points of DP-SGD; has {len(points)}"
        return ClaimVerdict(claim["claim"], NOT_MEASURED, (reason,))
    kept_more = FunctionNumber(lambda own, rule: _kept_more(own, rule, less, points), (less, *points))
    margins = kept_more.values_by_seed(runs)
    known = sorted(
        (single_attack(point).mean_over_seeds(runs), utility_number(point).mean_over_seeds(runs))
        for point in points
    )
    leak, kept = single_attack(less).mean_over_seeds(runs), utility_number(less).mean_over_seeds(runs)
    outside = not known[0][0] <= leak <= known[-1][0]
    evidence = (
        f"Share less: Max AAC {leak:.1f} %, HR@20 {kept:.1f} % (full models without DP: "
        f"{format_mean_number(single_attack(plain), runs)} %, {format_mean_number(utility_number(plain), runs)} %)",
        f"DP-SGD: HR@20 {float(np.interp(leak, *np.array(known).T)):.1f} % at the same leakage"
        + (" or the nearest that was measured" if outside else "")
        + f", between points of Max AAC {', '.join(f'{a:.1f}' for a, _ in known)} %; {claims.describe_margin(margins)}",
    )
    return ClaimVerdict(claim["claim"], claims.judge_margins(margins), evidence)


def _kept_more(own: Mapping[str, Run], rule: str, less: str, points: Sequence[str]) -> float | None:
    """Return the utility that Share less keeps beyond DP-SGD at equal leakage, in the runs of one seed."""
    sides = [
        (single_attack(name).value_of_runs(own, rule), utility_number(name).value_of_runs(own, rule))
        for name in (less, *points)
    ]
    known = [(leak, kept) for leak, kept in sides if leak is not None and kept is not None]
    if len(known) < len(sides):
        return None
    (leak, kept), *others = known
    return difference(kept, float(np.interp(leak, *np.array(sorted(others)).T)))


@dataclass(frozen=True)
class TargetResult:
    """The result of a target: the target range, the number found, the verdict and the evidence."""

    label: str
    wanted: str
    found: str
    verdict: str
    evidence: str = ""


def judge_targets(runs: Runs) -> list[TargetResult]:
    """Return the result of each target."""
    plan = STUDY.read("targets")
    return [
        *(_judged_target(one, runs) for one in plan["targets"]),
        *(_time_of_tables(one, runs) if "select" in one else _total(one, runs) for one in plan["totals"]),
    ]


def _judged_target(target: Mapping[str, Any], runs: Runs) -> TargetResult:
    """Return the result of a range for one number of the runs."""
    label, number, (low, high) = target["label"], read_number(target["number"]), target["range"]
    unit = f" {target['unit']}" if "unit" in target else ""
    if np.isinf(low):
        wanted = f"up to {high:.3g}{unit}"
    elif np.isinf(high):
        wanted = f"at least {low:.2g}{unit}"
    else:
        wanted = f"{low:.1f} to {high:.1f}{unit}"
    value = number.mean_over_seeds(runs)
    if not np.isfinite(value):
        return TargetResult(label, wanted, "", NOT_MEASURED)
    found = format_mean_number(number, runs, digits=1 if unit else 2) + unit
    if difference(low, value) <= 0 <= difference(high, value):
        return TargetResult(label, wanted, found, REACHED)
    return TargetResult(label, wanted, found, NOT_REACHED, _further_results(number, runs))


def _further_results(measure: RunNumber, runs: Runs) -> str:
    """Return further results of an attack that misses its target."""
    if not isinstance(measure, AttackNumber) or measure.quantity != "max_aac":
        return ""
    others = {rule: measure.mean_over_seeds(runs, rule) for rule in RULES[1:]}
    parts = [f"{value:.1f} % under {rule}" for rule, value in others.items() if np.isfinite(value)]
    best_round, last, bound = (
        measure.with_quantity(name).mean_over_seeds(runs) for name in ("at_round", "last_aac", "upper_bound")
    )
    parts.append(f"best at round {best_round / 100:.0f}")  # a round, not a percentage
    return "; ".join([*parts, f"{last:.1f} % at the end", f"upper bound {bound:.1f} %"])


def _time_of_tables(target: Mapping[str, Any], runs: Runs) -> TargetResult:
    """Judge the time on two cores of all selected experiments, from the thread time of each run."""
    minutes, missing = 0.0, []
    for name in selectable_names()[target["select"]]:
        n_seeds = STUDY.experiments[name].get("seeds", 1)
        threads = combine_by_seed(
            summary_number(name, "wall_seconds"), summary_number(name, "threads"), lambda wall, n: wall * n
        )
        known = [value for seed, value in threads.values_by_seed(runs).items() if seed <= n_seeds]
        minutes += sum(known) / 120
        if len(known) < n_seeds:
            missing.append(name)
    return _within_limit(target, minutes or None, missing, "without all runs of")


def _total(target: Mapping[str, Any], runs: Runs) -> TargetResult:
    """Judge the total time, or the largest memory, of the first seeds of some experiments."""
    key, per = ("wall_seconds", 60.0) if target["unit"] == "min" else ("peak_rss_mib", 1024.0)
    found = {name: summary_number(name, key).values_by_seed(runs).get(1) for name in target["experiments"]}
    known = [value / per for value in found.values() if value is not None]
    value = (sum if target["unit"] == "min" else max)(known) if known else None
    return _within_limit(target, value, [name for name, one in found.items() if one is None], "without")


def _within_limit(
    target: Mapping[str, Any], value: float | None, missing: Iterable[str], words: str
) -> TargetResult:
    """Return the result of an upper limit; without some runs it can be missed but not reached."""
    unit, missing = target["unit"], list(missing)
    wanted = f"up to {target['most']:g} {unit}"
    if value is None:
        return TargetResult(target["label"], wanted, "", NOT_MEASURED)
    verdict = NOT_REACHED if difference(value, target["most"]) > 0 else NOT_MEASURED if missing else REACHED
    evidence = f"{words} {', '.join(missing)}" if missing else ""
    return TargetResult(target["label"], wanted, f"{value:.1f} {unit}", verdict, evidence)
