"""Effect of each training variant on Rand-Gossip, single and combined: none of them fits Tables 5, 6 and 8."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from analysis.cda_paper import ML_FULL_BATCH, ML_RAND, PUBLISHED, WITH_ALL, variant_experiments
from analysis.cda_paper.measures import AttackNumber
from analysis.cda_paper.tables import format_measured, format_printed
from analysis.papers.comparison import PrintedNumber
from analysis.papers.document import DocumentBlock, Grid, GridCell, GridColumn, Heading, ParagraphBlock
from analysis.papers.verdict import PerSeed, Runs, judge_agreement

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
