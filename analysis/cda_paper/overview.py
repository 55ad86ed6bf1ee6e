"""How far the study agrees with the print: verdicts counted, and each printed number with its own."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.cda_paper.cells import COLUMNS
from analysis.cda_paper.experiments import SETTINGS
from analysis.cda_paper.verdicts import Group, Result, counts
from analysis.cda_paper.wording import (
    dataset_in_words,
    measured_entry,
    measured_in_words,
    printed_entry,
    row_in_words,
    table_in_words,
)
from analysis.papers.document import Block, Column, Entry, Fold, Grid, Text
from analysis.papers.seeds import Runs
from analysis.papers.verdict import Verdict

_LISTED = (Verdict.OUTSIDE, Verdict.NEAR, Verdict.WITHIN, Verdict.NOT_RUN, Verdict.UNJUDGED)
_COLUMNS = ("where", "what", "print", "ours", "setting; rule", "remark")


def overview(found: Sequence[Group], runs: Runs) -> list[Block]:
    """Return a sentence, the counts by table, and the list of numbers in a fold for each verdict.

    Parameters
    ----------
    found : sequence of Group
        Every printed number once.
    runs : mapping
        Finished runs.
    """
    best, first = (
        dict(zip(Verdict, counts(results), strict=True))
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
        Fold(f"{verdict.mark} {verdict.word}: {len(own)}", (_list(verdict, own, runs),))
        for verdict in _LISTED
        if (own := [group for group in found if group.best.verdict is verdict])
    ]
    return [Text(said), _counts(found), Text("Each number, by its verdict:"), *lists]


def legend() -> Text:
    """Return how to read a field."""
    marks = "; ".join(f"{verdict.mark} *{verdict.word}*: {verdict.meaning}" for verdict in Verdict)
    return Text(
        f"{marks}. Small, beside the print: its band, fixed in `published.yaml` by a rule for all tables. ± is half of "
        "the 95 % interval over n seeds (Student's t). A field shows the setting compared first; where another comes "
        "nearer, the field names it, and a fold below the table shows it.\n\n"
        + "\n".join(f"- *{name}*: {words}" for name, words in SETTINGS.items())
    )


def _counts(found: Sequence[Group]) -> Grid:
    rows = [
        [Entry("all, nearest setting"), *_line([group.best for group in found])],
        [Entry("all, setting compared first"), *_line([group.first for group in found])],
    ]
    for table in dict.fromkeys(group.printed.table for group in found):
        own = [group for group in found if group.printed.table == table]
        rows.append([Entry(table_in_words(table), link=table), *_line([group.best for group in own])])
    titles = ["table", "printed", *(f"{verdict.mark} {verdict.word}" for verdict in Verdict)]
    return Grid("Verdicts by table", [Column(title) for title in titles], rows)


def _line(results: Sequence[Result]) -> list[Entry]:
    found = zip(Verdict, counts(results), strict=True)
    return [
        Entry(str(len(results))),
        *(Entry(str(count) if count else "", kind=verdict.word if count else "") for verdict, count in found),
    ]


def _list(verdict: Verdict, own: Sequence[Group], runs: Runs) -> Grid:
    rows = []
    for group in own:
        number = group.printed
        where = Entry(table_in_words(number.table), link=number.table)
        fields = [printed_entry(number), measured_entry(group.best), Entry(group.best.setting)]
        rows.append([where, Entry(_what(group)), *fields, Entry(_remark(group, runs))])
    return Grid(f"Numbers: {verdict.word}", [Column(title) for title in _COLUMNS], rows)


def _what(group: Group) -> str:
    number = group.printed
    if number.table == "text":
        return f"{number.dataset}: {number.column}"
    column = COLUMNS.get(number.column, number.column)
    return ", ".join(filter(None, (dataset_in_words(number.dataset), row_in_words(number.row), column)))


def _remark(group: Group, runs: Runs) -> str:
    """Return what the reader of a verdict must know: a choice among settings, a band that proves little, a reason."""
    best, first = group.best, group.first
    parts = [*best.cell.note.splitlines(), best.cell.why_not, group.printed.note]
    if best.verdict is Verdict.UNJUDGED and not best.cell.why_not:
        parts.append(group.printed.unjudged)
    if best is not first:
        ours = measured_in_words(first.values, group.printed) if first.values else Verdict.NOT_RUN.word
        tried = sum(bool(result.values) for result in group.results)
        parts.append(f"nearest of {tried} run; compared first ({first.setting}): {first.verdict.mark} {ours}")
    attack, band = best.cell.attack, group.printed.band
    if attack is not None and attack.quantity == "max_aac" and band is not None:
        random = attack.of("random_bound").mean(runs)
        if best.verdict in (Verdict.WITHIN, Verdict.NEAR) and random >= band[0]:
            parts.append(f"guessing alone gives {random:.1f}")
    return "; ".join(part for part in parts if part)
