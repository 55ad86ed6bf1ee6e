"""What the report says beside tables and figures: how it stands in short, how item vectors lie, and times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.cl4fedrec import uniformity
from analysis.cl4fedrec.curves import AT_PRINT, LAST, LOOKS, chosen_epochs, level, score
from analysis.cl4fedrec.experiments import SETTINGS, TABLE_ROWS, Experiment, experiments, name_of
from analysis.cl4fedrec.orders import looks_of, orders, tally
from analysis.cl4fedrec.tables import epochs_in_words, measured
from analysis.papers.claims import HELD, NOT_HELD, NOT_MEASURED, UNDECIDED
from analysis.papers.document import Block, Column, Entry, Grid, Heading, Text
from analysis.papers.report_parts import duration
from analysis.papers.seeds import Runs
from analysis.papers.verdict import Verdict
from gossiprec.eventlog import Run


def overview(runs: Runs) -> Iterator[Block]:
    """Yield, for each setting, Original beside popularity and the print, and how many printed orders hold."""
    yield Heading(2, "In short", "short")
    found = [
        setting for setting in SETTINGS if any(Experiment.read(name).setting == setting for name in runs)
    ]
    if not found:
        yield Text("No run is finished.")
        return
    yield Text(
        "Recall@20 of the most popular items and of Original (printed 0.04444), and what became of the "
        f"{len(orders())} printed orders ([findings](findings.md)): held / not held / undecided. "
        "One seed decides nothing."
    )
    looks = [look for look in LOOKS if any(look in looks_of(runs, setting) for setting in found)] or [LAST]
    rows = [[Entry(setting), *_state(runs, setting, looks)] for setting in found]
    titles = ("popularity", "Original, last epoch", "Original passes its print")
    columns = [
        Column("setting"),
        *(Column(title) for title in titles),
        Column("printed orders", tuple(looks)),
    ]
    yield Grid("In short", columns, rows)


def _state(runs: Runs, setting: str, looks: Sequence[str]) -> list[Entry]:
    original = name_of(setting, "original")
    passed = list(chosen_epochs(runs, original, AT_PRINT).values())
    said = epochs_in_words(passed) if passed else "never" if original in runs else "–"
    counts = [tally(runs, setting, look) for look in looks]
    return [
        measured(level(runs, setting, "Recall@20", "popularity")),
        measured(score(runs, original, "Recall@20", LAST)),
        Entry(said),
        *(
            Entry(" / ".join(str(own[verdict]) for verdict in (HELD, NOT_HELD, UNDECIDED)))
            if own[NOT_MEASURED] < len(orders())
            else Entry("–", kind=Verdict.NOT_RUN.word)
            for own in counts
        ),
    ]


def item_vectors(runs: Runs) -> Iterator[Block]:
    """Yield how evenly item vectors lie at the end of each run of Table 2."""
    rows = []
    for setting in SETTINGS:
        for row, method in TABLE_ROWS["table2"].items():
            kept = [run for run in runs.get(name_of(setting, method), {}).values() if run.version]
            if kept:
                rows.append([Entry(setting), Entry(row), *_numbers(kept)])
    if rows:
        yield Heading(2, "Item vectors", "vectors")
        yield Text(
            "Uniformity (Wang and Isola: 0 where all point one way, lower where they are spread) among the 100 items "
            "with most training interactions and among the others, the mean cosine of one of each, and the correlation "
            "norm of the paper's equation 12; at the end, means over seeds."
        )
        titles = ("setting", "method", "popular", "others", "popular with others, cosine", "correlation norm")
        yield Grid("Item vectors", [Column(title) for title in titles], rows, 2)


def _numbers(kept: Sequence[Run]) -> list[Entry]:
    found = [uniformity.numbers(run.version["items"], run.version["popularity"]) for run in kept]
    return [Entry(f"{sum(own[name] for own in found) / len(found):z.3f}") for name in found[0]]


def times(runs: Runs, planned: int) -> Iterator[Block]:
    """Yield what runs took by loop, and about how long those that are missing would take."""
    taken: dict[str, list[float]] = {}
    for name, seeds in runs.items():
        for run in seeds.values():
            taken.setdefault(Experiment.read(name).loop, []).append(
                float((run.summary or {})["wall_seconds"])
            )
    yield Heading(2, "Times", "times")
    yield Text(f"All finished runs together took {duration(sum(sum(own) for own in taken.values()))}.")
    if not taken:
        return
    n_seeds = planned // len(experiments())
    rows = []
    for loop, own in taken.items():
        due = n_seeds * sum(Experiment.read(name).loop == loop for name in experiments())
        each, left = sum(own) / len(own), max(due - len(own), 0)
        said = (loop, f"{len(own)} of {due}", duration(each), duration(max(own)), duration(left * each))
        rows.append([Entry(text) for text in said])
    titles = ("loop", "finished", "time of a run", "longest", "the rest would take, one at a time")
    yield Grid("Times", [Column(title) for title in titles], rows)
