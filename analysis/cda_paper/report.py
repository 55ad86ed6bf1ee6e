"""The report of a study: verdicts, tables, figures, findings and effects of training variants, from any runs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from analysis.cda_paper import PROTOCOLS, PUBLISHED, STUDY, measures
from analysis.cda_paper.figures import paper_figures, selectable_names
from analysis.cda_paper.measures import (
    COLUMNS,
    RULES,
    AttackNumber,
    CellResult,
    FunctionNumber,
    NumberResults,
    RunNumber,
    combine_by_seed,
    count_verdicts,
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
    Grid,
    GridCell,
    GridColumn,
    GridRow,
    Heading,
    ImageBlock,
    ParagraphBlock,
    make_grid,
)
from analysis.papers.figures import draw_figures
from analysis.papers.report import DASH, INTERVALS, Pages, ReportInput, StudyReport, missing_blocks
from analysis.papers.verdict import PerSeed, Runs, Verdict, format_mean_text, judge_agreement, mean
from gossiprec.base.rounding import difference
from gossiprec.cli.progress import format_clock_time
from gossiprec.figures.figure_files import Cell
from gossiprec.runs import Run

NAMES = {"movielens-100k": "MovieLens-100k", "foursquare-nyc": "Foursquare-NYC", "gowalla": "Gowalla"}
NO_GOWALLA_TABLE = "the published paper has no table for this data set"
_WORDS = {**PROTOCOLS, "gmf": "GMF", "prme-g": "PRME-G", "mia": "MIA", "cda": "CDA", "aia": "AIA"}


def table_title(table: str) -> str:
    """Return the label of a table."""
    return "Text" if table == "text" else table.replace("table", "Table ").replace("-bounds", ", bounds")


def dataset_title(dataset: str) -> str:
    """Return the label of a data set."""
    return NAMES.get(dataset, dataset)


def row_title(row: str) -> str:
    """Return the label of a row; empty if the data set identifies it."""
    if row == "statistics":
        return ""
    named = " ".join(_WORDS.get(word, word) for word in row.split())
    return named.replace("%", " %").replace("K=", "K = ")


def printed_field(number: PrintedNumber) -> GridCell:
    """Return the field of a printed number, with its band below."""
    if number.value == "":
        return GridCell(DASH)
    band = format_band(number)
    return GridCell(format_printed(number), (band,) if band else (), kind="printed")


def format_printed(number: PrintedNumber) -> str:
    """Return a printed number as text."""
    return number.value if isinstance(number.value, str) else f"{number.value:,}"


def format_band(number: PrintedNumber) -> str:
    """Return the band of a printed number; empty if there is none, or it must be met exactly."""
    if number.band is None or number.band[0] == number.band[1]:
        return ""
    return "–".join(f"{end:.4g}" for end in number.band)


def measured_field(result: CellResult, *small: str, has_verdict: bool = True) -> GridCell:
    """Return the field of a measured number: mark, mean, half of the 95 % interval; below it the seeds and remarks."""
    if not result.values:
        return GridCell(DASH, small, kind=Verdict.NOT_RUN.word)
    is_judged = has_verdict and result.cell.printed.value != ""
    verdict = result.verdict
    return GridCell(
        format_measured(result.values, result.cell.printed),
        (f"n = {len(result.values)}", *small),
        mark=verdict.mark if is_judged else "",
        kind=verdict.word if is_judged else "",
    )


def format_measured(values: PerSeed, number: PrintedNumber) -> str:
    """Return the mean over seeds, with ± half of its 95 % interval if the seeds differ."""
    size = abs(mean(values))
    is_count = number.band is not None and number.band[0] == number.band[1]
    is_fraction = number.column in ("accuracy", "precision", "recall")
    digits = 0 if is_count or size >= 1000 else 2 if is_fraction or size < 1 else 1
    return format_mean_text(values, digits, separator=",")


PRINTED_RANDOM = {"movielens-100k": 5.3, "foursquare-nyc": 3.6}
"""Random bounds of Tables 4 and 5 in percent."""


def row_heads(own: Sequence[NumberResults]) -> list[str]:
    """Return the headings of a row's labels: the data set, the setting of the paper, or both."""
    datasets, rows = ({getattr(group.printed, key) for group in own} for key in ("dataset", "row"))
    return [*(["data"] if len(datasets) > 1 else []), *(["row"] if len(rows) > 1 else [])]


def row_names(dataset: str, row: str, heads: Sequence[str]) -> list[str]:
    """Return the labels of a row under these headings."""
    return [dataset_title(dataset) if head == "data" else row_title(row) for head in heads]


def relevance_rule_table(title: str, own: Sequence[NumberResults], runs: Runs) -> Grid:
    """Return the values under each relevance rule, the bounds, and the factor over guessing as published and here."""
    heads = row_heads(own)
    bounds = ("random bound", "upper bound", "printed / random", "ours / random")
    columns = [*heads, "quantity", "printed", *RULES, *bounds, "setting"]
    rows = []
    for group in own:
        number, cell, values = group.printed, group.first_with_run.cell, group.first_with_run.values
        attack = cell.attack
        if attack is None or not attack.uses_relevance_rule or not values:
            continue
        random, upper = (
            attack.with_quantity(bound).mean_over_seeds(runs) for bound in ("random_bound", "upper_bound")
        )
        by_rule = [attack.values_by_seed(runs, rule) for rule in RULES]
        texts = [
            COLUMNS.get(number.column, number.column),
            format_printed(number) or DASH,
            *(format_measured(found, number) if found else DASH for found in by_rule),
            f"{random:.1f}",
            f"{upper:.1f}",
            _ratio(number.number, _printed_random(group)),
            _ratio(mean(values), random),
            cell.variant,
        ]
        rows.append([*row_names(number.dataset, number.row, heads), *texts])
    return make_grid(f"{title}: relevance rules", columns, rows, len(heads))


def _printed_random(group: NumberResults) -> float:
    """Return the published value of guessing: per K in Table 9, per data set elsewhere."""
    number = group.printed
    if number.table != "table9":
        return PRINTED_RANDOM.get(number.dataset, float("nan"))
    others = (
        other for other in PUBLISHED.printed_numbers if other.table == "table9" and other.column == "random"
    )
    return next(float(other.value) for other in others if other.row == number.row)


def _ratio(value: float | None, bound: float) -> str:
    return f"{value / bound:.1f}" if value is not None and np.isfinite(bound) and bound else DASH


Picked = Sequence[tuple[NumberResults, CellResult]]
"""Numbers of a table, each with the result to show."""


def table_blocks(found: Sequence[NumberResults], runs: Runs) -> list[DocumentBlock]:
    """Return every table: a heading, the setting compared first, and the others in collapsible parts."""
    blocks: list[DocumentBlock] = []
    for name, title in PUBLISHED.titles.items():
        own = [group for group in found if group.printed.table == name]
        if not own:
            continue
        blocks.append(Heading(3, f"{table_title(name)}: {title}{_one_dataset(own)}", name))
        if name == "text":
            every = [(group, result) for group in own for result in group.results]
            blocks += [_text(own), *_remarks(name, own, every)]
            continue
        first = [(group, group.first_with_run) for group in own]
        blocks += [_grid(table_title(name), own, first, hints=True), *_remarks(name, own, first)]
        blocks += _folds(table_title(name), own, runs)
    return blocks


def _one_dataset(own: Sequence[NumberResults]) -> str:
    """Return the name of the data set if a table has only one."""
    datasets = {group.printed.dataset for group in own}
    return f" ({dataset_title(datasets.pop())})" if len(datasets) == 1 else ""


def _folds(title: str, own: Sequence[NumberResults], runs: Runs) -> Iterator[Collapsible]:
    """Yield a collapsible part per further setting that was run, with its own remarks, and one for the rules."""
    further: dict[str, list[tuple[NumberResults, CellResult]]] = {}
    for group in own:
        for result in group.results:
            if result is not group.first_with_run:
                further.setdefault(result.setting, []).append((group, result))
    for setting, picked in further.items():
        if any(result.values for _, result in picked):
            blocks: list[DocumentBlock] = [_grid(f"{title}: {setting}", own, picked)]
            notes = dict.fromkeys(
                note
                for group, result in picked
                for note in result.cell.note.splitlines()
                if note not in group.first_with_run.cell.note.splitlines()
            )
            if notes:
                blocks.append(ParagraphBlock("\n".join(f"- {note}" for note in notes)))
            yield Collapsible(f"Further setting: {setting}: {_tally(picked)}", blocks)
    by_rule = relevance_rule_table(title, own, runs)
    if by_rule.rows:
        yield Collapsible("Under each relevance rule, and compared with guessing", (by_rule,))


def _tally(picked: Picked) -> str:
    """Return the number of printed numbers per verdict, with its mark."""
    found = count_verdicts(result for group, result in picked if group.printed in PUBLISHED.printed_numbers)
    counts = (f"{verdict.mark} {count}" for verdict, count in zip(Verdict, found, strict=True) if count)
    return " ".join(counts) or "no printed number"


def _grid(label: str, own: Sequence[NumberResults], picked: Picked, *, hints: bool = False) -> Grid:
    """Return a grid with the paper's rows and columns and one result in each field.

    Parameters
    ----------
    label : str
    own : sequence of NumberResults
        All numbers of the table, which determine its columns.
    picked : sequence of (NumberResults, CellResult)
    hints : bool
        Whether a field names another setting that is nearer.
    """
    columns = dict.fromkeys(group.printed.column for group in own)
    is_printed = {group.printed.column for group in own if group.printed in PUBLISHED.printed_numbers}
    rows: dict[tuple[str, str], dict[str, tuple[NumberResults, CellResult]]] = {}
    for group, result in picked:
        place = (group.printed.dataset, group.printed.row)
        rows.setdefault(place, {})[group.printed.column] = (group, result)
    heads, has_settings = row_heads(own), any(result.setting for _, result in picked)
    lines = []
    for place, fields in rows.items():
        setting = next((r.setting for _, r in fields.values() if r.setting), "")
        line: GridRow = [*row_names(*place, heads)]
        for column in columns:
            line += _field(fields.get(column), setting, is_printed=column in is_printed, hints=hints)
        lines.append([*line, *([setting] if has_settings else [])])
    titles = [
        GridColumn(COLUMNS.get(column, column), ("printed", "ours") if column in is_printed else ("ours",))
        for column in columns
    ]
    last = ["setting; rule"] if has_settings else []
    return make_grid(label, (*heads, *titles, *last), lines, len(heads))


def _field(
    picked: tuple[NumberResults, CellResult] | None, setting: str, *, is_printed: bool, hints: bool
) -> list[GridCell]:
    if picked is None:
        return [GridCell(DASH)] * (1 + is_printed)
    group, result = picked
    small = [result.setting] if result.setting not in ("", setting) else []
    if hints and is_printed and group.nearest.verdict < result.verdict:
        small.append(f"{group.nearest.verdict.mark} with {group.nearest.setting}")
    ours = measured_field(result, *small, has_verdict=is_printed)
    return [printed_field(group.printed), ours] if is_printed else [ours]


def _text(own: Sequence[NumberResults]) -> Grid:
    """Return a table with a line per reading of a number in the text."""
    rows: list[GridRow] = []
    for group in own:
        number = group.printed
        quantity = GridCell(number.column, (number.note,) if number.note else ())
        about: GridRow = [number.dataset, quantity, printed_field(number)]
        for result in group.results:
            rows.append([*about, measured_field(result), result.cell.why_not or result.setting])
            about = ["", "", ""]
    return make_grid(table_title("text"), ("section", "quantity", "printed", "ours", "reading; rule"), rows)


def _remarks(name: str, own: Sequence[NumberResults], picked: Picked) -> list[ParagraphBlock]:
    """Return the remarks on the printed and the shown numbers: each remark once, with its rows."""
    of_row: dict[str, dict[str, None]] = {}
    for group, result in picked:
        for note in result.cell.note.splitlines():
            of_row.setdefault(note, {})[_row(group, own)] = None
    every = {_row(group, own) for group in own}
    lines = [f"- As published: {PUBLISHED.notes[name]}"] if name in PUBLISHED.notes else []
    for note, rows in of_row.items():
        lines.append(f"- {note}" if rows.keys() == every else f"- {', '.join(rows)}: {note}")
    lines += [
        f"- {dataset_title(dataset)}: {NO_GOWALLA_TABLE}"
        for dataset in dict.fromkeys(group.printed.dataset for group in own if group.printed.value == "")
    ]
    return [ParagraphBlock("\n".join(lines))] if lines else []


def _row(group: NumberResults, own: Sequence[NumberResults]) -> str:
    number = group.printed
    if number.table == "text":
        return number.dataset
    return " ".join(row_names(number.dataset, number.row, row_heads(own)))


_LISTED = (Verdict.OUTSIDE, Verdict.NEAR, Verdict.WITHIN, Verdict.NOT_RUN, Verdict.UNJUDGED)


def overview_blocks(found: Sequence[NumberResults], runs: Runs) -> list[DocumentBlock]:
    """Return a sentence, the counts by table, and a collapsible list of numbers per verdict.

    Parameters
    ----------
    found : sequence of NumberResults
        Every printed number once.
    runs : mapping
        Finished runs.
    """
    best, first = (
        dict(zip(Verdict, count_verdicts(results), strict=True))
        for results in ((group.nearest for group in found), (group.first for group in found))
    )
    judged = sum(best[verdict] for verdict in (Verdict.WITHIN, Verdict.NEAR, Verdict.OUTSIDE))
    summary = (
        f"**Of {len(found)} printed numbers, {judged} are judged: {best[Verdict.WITHIN]} within their band under a "
        f"named setting ({first[Verdict.WITHIN]} under the one compared first), {best[Verdict.NEAR]} near it, "
        f"{best[Verdict.OUTSIDE]} outside.** "
        f"Without a finished run: {best[Verdict.NOT_RUN]}; not judged: {best[Verdict.UNJUDGED]}."
    )
    lists = [
        Collapsible(f"{verdict.mark} {verdict.word}: {len(own)}", (_list(verdict, own, runs),))
        for verdict in _LISTED
        if (own := [group for group in found if group.nearest.verdict is verdict])
    ]
    return [ParagraphBlock(summary), _counts(found), ParagraphBlock("Each number, by its verdict:"), *lists]


def field_legend() -> ParagraphBlock:
    """Return the legend of a field."""
    marks = "; ".join(f"{verdict.mark} *{verdict.word}*: {verdict.meaning}" for verdict in Verdict)
    return ParagraphBlock(
        f"{marks}. Next to a printed number: its band, set in `published.yaml` by a rule for all tables. ± is half of "
        "the 95 % interval over n seeds (Student's t). A field shows the setting compared first. If another setting is "
        "nearer, the field names it, and a collapsed part below the table shows it.\n\n"
        + "\n".join(f"- *{name}*: {words}" for name, words in STUDY.plan["settings"].items())
    )


def _counts(found: Sequence[NumberResults]) -> Grid:
    rows: list[GridRow] = [
        ["all, nearest setting", *_count_fields([group.nearest for group in found])],
        ["all, setting compared first", *_count_fields([group.first for group in found])],
    ]
    for table in dict.fromkeys(group.printed.table for group in found):
        own = [group for group in found if group.printed.table == table]
        rows.append(
            [GridCell(table_title(table), link=table), *_count_fields([group.nearest for group in own])]
        )
    titles = ["table", "printed", *(f"{verdict.mark} {verdict.word}" for verdict in Verdict)]
    return make_grid("Verdicts by table", titles, rows)


def _count_fields(results: Sequence[CellResult]) -> GridRow:
    found = zip(Verdict, count_verdicts(results), strict=True)
    counts = (GridCell(str(count), kind=verdict.word) if count else "" for verdict, count in found)
    return [str(len(results)), *counts]


def _list(verdict: Verdict, own: Sequence[NumberResults], runs: Runs) -> Grid:
    columns = ("table", "quantity", "printed", "ours", "setting; rule", "remark")
    rows: list[GridRow] = []
    for group in own:
        number = group.printed
        table = GridCell(table_title(number.table), link=number.table)
        both = printed_field(number), measured_field(group.nearest)
        rows.append([table, _quantity(group), *both, group.nearest.setting, _number_remark(group, runs)])
    return make_grid(f"Numbers: {verdict.word}", columns, rows)


def _quantity(group: NumberResults) -> str:
    number = group.printed
    if number.table == "text":
        return f"{number.dataset}: {number.column}"
    column = COLUMNS.get(number.column, number.column)
    return ", ".join(filter(None, (dataset_title(number.dataset), row_title(number.row), column)))


def _number_remark(group: NumberResults, runs: Runs) -> str:
    """Return the remark on a verdict: a choice among settings, a band that proves little, or a reason."""
    best, first = group.nearest, group.first
    parts = [*best.cell.note.splitlines(), best.cell.why_not, group.printed.note]
    if best.verdict is Verdict.UNJUDGED and not best.cell.why_not:
        parts.append(group.printed.unjudged)
    if best is not first:
        ours = format_measured(first.values, group.printed) if first.values else Verdict.NOT_RUN.word
        tried = sum(bool(result.values) for result in group.results)
        parts.append(
            f"nearest of {tried} settings; compared first ({first.setting}): {first.verdict.mark} {ours}"
        )
    attack, band = best.cell.attack, group.printed.band
    if attack is not None and attack.quantity == "max_aac" and band is not None:
        random = attack.with_quantity("random_bound").mean_over_seeds(runs)
        if best.verdict in (Verdict.WITHIN, Verdict.NEAR) and random >= band[0]:
            parts.append(f"guessing gives {random:.1f}")
    return "; ".join(part for part in parts if part)


def switch_table(runs: Runs) -> Iterator[DocumentBlock]:
    """Yield the table of switches, each number judged by the printed band; nothing without short runs."""
    plan = STUDY.read("switches")
    columns, rows = plan["columns"], {**plan["whole"], **plan["short"]}
    printed = {(one.table, one.row, one.column): one for one in PUBLISHED.printed_numbers}
    numbers = [printed[tuple(column["printed"])] for column in columns]
    if not any(name in runs for name in plan["short"]):
        return
    lines: list[GridRow] = [["printed", *map(format_printed, numbers)]]
    for name in (name for name in rows if name in runs):
        line: GridRow = [rows[name]]
        for column, number in zip(columns, numbers, strict=True):
            attack = AttackNumber(name, column["observer"], column["momentum"])
            is_judged = column is not columns[0] or name in plan["whole"]
            values = attack.values_by_seed(runs)
            verdict = judge_agreement(number.band, values)
            marks = (verdict.mark, verdict.word) if is_judged else ()
            seeds = (f"n = {len(values)}",)
            line.append(GridCell(format_measured(values, number), seeds, *marks) if values else "")
        lines.append(line)
    yield Heading(2, "Switches", "switches")
    yield ParagraphBlock(plan["about"])
    yield make_grid("Switches", ("training", *(column["title"] for column in columns)), lines)


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
        opening, title = study.opening_paragraph(STUDY.plan["opening"]), "community-detection study"
        report = [
            opening,
            *overview_blocks(printed, runs),
            _findings_in_short(verdicts, targets),
            field_legend(),
            Heading(2, "Tables"),
            *table_blocks(found, runs),
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
        [number.value_of_runs(own, rule) for number in (single_attack(name), utility_number(name))]
        for name in (less, *points)
    ]
    (leak, kept), *others = np.array(sides, np.float64).tolist()  # None becomes NaN
    if not np.isfinite([leak, kept, *itertools.chain(*others)]).all():
        return None
    return float(difference(kept, np.interp(leak, *np.array(sorted(others)).T)))


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
