"""Agreement of the study with the paper: counts of verdicts, and each printed number with its verdict."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.cda_paper.cells import COLUMNS
from analysis.cda_paper.experiments import SETTINGS
from analysis.cda_paper.formatting import (
    dataset_title,
    format_measured,
    measured_field,
    printed_field,
    row_title,
    table_title,
)
from analysis.cda_paper.verdicts import CellResult, NumberResults, count_verdicts
from analysis.papers.document import Collapsible, DocumentBlock, Grid, GridCell, GridColumn, ParagraphBlock
from analysis.papers.seed_statistics import Runs
from analysis.papers.verdict import Verdict

_LISTED = (Verdict.OUTSIDE, Verdict.NEAR, Verdict.WITHIN, Verdict.NOT_RUN, Verdict.UNJUDGED)
_COLUMNS = ("where", "what", "print", "ours", "setting; rule", "remark")


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
        for results in ((group.best for group in found), (group.first for group in found))
    )
    judged = sum(best[verdict] for verdict in (Verdict.WITHIN, Verdict.NEAR, Verdict.OUTSIDE))
    said = (
        f"**Of {len(found)} printed numbers, {judged} are judged: {best[Verdict.WITHIN]} within their band under a "
        f"named setting ({first[Verdict.WITHIN]} under the one compared first), {best[Verdict.NEAR]} near it, "
        f"{best[Verdict.OUTSIDE]} outside.** "
        f"Without a finished run: {best[Verdict.NOT_RUN]}; not to be judged: {best[Verdict.UNJUDGED]}."
    )
    lists = [
        Collapsible(f"{verdict.mark} {verdict.word}: {len(own)}", (_list(verdict, own, runs),))
        for verdict in _LISTED
        if (own := [group for group in found if group.best.verdict is verdict])
    ]
    return [ParagraphBlock(said), _counts(found), ParagraphBlock("Each number, by its verdict:"), *lists]


def field_legend() -> ParagraphBlock:
    """Return the legend of a field."""
    marks = "; ".join(f"{verdict.mark} *{verdict.word}*: {verdict.meaning}" for verdict in Verdict)
    return ParagraphBlock(
        f"{marks}. Small, beside the print: its band, fixed in `published.yaml` by a rule for all tables. ± is half of "
        "the 95 % interval over n seeds (Student's t). A field shows the setting compared first; where another comes "
        "nearer, the field names it, and a fold below the table shows it.\n\n"
        + "\n".join(f"- *{name}*: {words}" for name, words in SETTINGS.items())
    )


def _counts(found: Sequence[NumberResults]) -> Grid:
    rows = [
        [GridCell("all, nearest setting"), *_line([group.best for group in found])],
        [GridCell("all, setting compared first"), *_line([group.first for group in found])],
    ]
    for table in dict.fromkeys(group.printed.table for group in found):
        own = [group for group in found if group.printed.table == table]
        rows.append([GridCell(table_title(table), link=table), *_line([group.best for group in own])])
    titles = ["table", "printed", *(f"{verdict.mark} {verdict.word}" for verdict in Verdict)]
    return Grid("Verdicts by table", [GridColumn(title) for title in titles], rows)


def _line(results: Sequence[CellResult]) -> list[GridCell]:
    found = zip(Verdict, count_verdicts(results), strict=True)
    return [
        GridCell(str(len(results))),
        *(
            GridCell(str(count) if count else "", kind=verdict.word if count else "")
            for verdict, count in found
        ),
    ]


def _list(verdict: Verdict, own: Sequence[NumberResults], runs: Runs) -> Grid:
    rows = []
    for group in own:
        number = group.printed
        where = GridCell(table_title(number.table), link=number.table)
        fields = [printed_field(number), measured_field(group.best), GridCell(group.best.setting)]
        rows.append([where, GridCell(_what(group)), *fields, GridCell(_remark(group, runs))])
    return Grid(f"Numbers: {verdict.word}", [GridColumn(title) for title in _COLUMNS], rows)


def _what(group: NumberResults) -> str:
    number = group.printed
    if number.table == "text":
        return f"{number.dataset}: {number.column}"
    column = COLUMNS.get(number.column, number.column)
    return ", ".join(filter(None, (dataset_title(number.dataset), row_title(number.row), column)))


def _remark(group: NumberResults, runs: Runs) -> str:
    """Return the remark on a verdict: a choice among settings, a band that proves little, or a reason."""
    best, first = group.best, group.first
    parts = [*best.cell.note.splitlines(), best.cell.why_not, group.printed.note]
    if best.verdict is Verdict.UNJUDGED and not best.cell.why_not:
        parts.append(group.printed.unjudged)
    if best is not first:
        ours = format_measured(first.values, group.printed) if first.values else Verdict.NOT_RUN.word
        tried = sum(bool(result.values) for result in group.results)
        parts.append(f"nearest of {tried} run; compared first ({first.setting}): {first.verdict.mark} {ours}")
    attack, band = best.cell.attack, group.printed.band
    if attack is not None and attack.quantity == "max_aac" and band is not None:
        random = attack.of("random_bound").mean(runs)
        if best.verdict in (Verdict.WITHIN, Verdict.NEAR) and random >= band[0]:
            parts.append(f"guessing alone gives {random:.1f}")
    return "; ".join(part for part in parts if part)
