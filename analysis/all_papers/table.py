"""The one table: a line for each row, its numbers beside what they are read against."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from analysis.all_papers.experiments import ATTACKED, WATCHED, Row
from analysis.all_papers.numbers import (
    advantage,
    by_seed,
    cda,
    epochs_a_client,
    guesses,
    near_best,
    sent,
    summary,
    told,
    utility,
)
from analysis.all_papers.settings import in_one_line
from analysis.papers.document import Column, Entry, Grid
from analysis.papers.seeds import PerSeed, Runs, interval, mean
from analysis.papers.tables import DASH
from gossiprec.eventlog import Run

METRICS = ("recall@20", "full_ndcg@20")
EXPOSURES = ("er@5", "er@20")
LEVELS = ("popularity", "random")
TOLD = {
    "contributed sets": ("contribution", "leaks", "cda"),
    "told vectors": ("told_vectors", "leaks", "likeliest", "cda_of_means"),
}
"""What users tell besides, and which number of a summary says how well their communities are found by it."""
_LONGEST = 200
"""Characters of a reason that are shown."""
COLUMNS = (
    Column("row"),
    Column("settings"),
    Column("utility", METRICS),
    Column("exposure under A-hum", EXPOSURES),
    Column("communities found (CDA)"),
    Column("who has what (MIA), advantage"),
    Column("the adversary sees"),
    Column("bytes a client and local epoch", ("up", "down")),
    Column("local epochs to 95 %"),
    Column("seconds", ("wall", "processor")),
)
Numbers = dict[str, PerSeed]
"""What is measured -> its number by seed."""


@dataclass(frozen=True)
class Line:
    """A row with its runs.

    Attributes
    ----------
    row : Row
    runs, reasons : mapping
        Of the whole study: runs by experiment and seed, and why others are missing.
    """

    row: Row
    runs: Runs
    reasons: Mapping[str, str]

    def seeds(self, end: str = "") -> Mapping[int, Run]:
        """Return the row's runs by seed: the plain ones, or those of an end of its name."""
        return self.runs.get(f"{self.row.runs}{end}", {})

    def numbers(self) -> Numbers:
        """Return all that is measured of the row."""
        plain, attacked = self.seeds(), self.seeds(ATTACKED)
        watched = {} if self.row.unwatched else self.seeds(WATCHED)
        found = {metric: by_seed(plain, utility(f"{metric}[validated]")) for metric in METRICS}
        for metric in EXPOSURES:
            found[metric] = by_seed(attacked, utility(f"{metric}[validated]"))
            found[f"{metric} at the end"] = by_seed(attacked, utility(metric))
        found |= {name: by_seed(watched, cda(name)) for name in ("max_aac", "upper_bound", "random_bound")}
        found["advantage"] = by_seed(watched, advantage)
        found |= {f"bytes {way}": by_seed(plain, sent(way)) for way in ("up", "down")}
        near = {seed: at for seed, run in plain.items() if (at := near_best(run)) is not None}
        found["rounds to 95 %"] = {seed: float(at[0]) for seed, at in near.items()}
        found["local epochs to 95 %"] = {seed: at[1] for seed, at in near.items()}
        found["local epochs"] = by_seed(plain, epochs_a_client)
        for clock in ("wall", "processor"):
            found[f"{clock} seconds"] = by_seed(plain, told(f"{clock}_seconds"))
        return found

    def fields(self) -> list[Entry]:
        """Return the line of the table."""
        numbers, plain = self.numbers(), self.seeds()
        some = next(iter(plain.values()), None)
        return [
            Entry(self.row.row, (self.row.paper,)),
            self._settings(some, numbers["local epochs"]),
            *(_shown(numbers[metric], digits=4) for metric in METRICS),
            *self._exposure(numbers),
            self._communities(numbers),
            self._guesses(numbers),
            Entry(self.row.sees),
            *(_shown(numbers[f"bytes {way}"]) for way in ("up", "down")),
            self._near_best(numbers, some),
            *self._seconds(numbers, some),
        ]

    def _settings(self, some: Run | None, epochs: PerSeed) -> Entry:
        if some is None:
            return _dash(self._missing(""))
        return Entry(in_one_line(some.scenario), (f"{mean(epochs):.3g} local epochs",))

    def _exposure(self, numbers: Numbers) -> Iterator[Entry]:
        for metric in EXPOSURES:
            last = numbers[f"{metric} at the end"]
            why = self.row.unattacked or self._missing(ATTACKED) if metric == EXPOSURES[0] else ""
            small = (f"{mean(last):.3f} at the end",) if last else ()
            yield _shown(numbers[metric], *small, digits=3, why=why)

    def _communities(self, numbers: Numbers) -> Entry:
        bounds = (("upper", "upper_bound"), ("by guessing", "random_bound"))
        small = (f"{words} {mean(numbers[key]):.3f}" for words, key in bounds if numbers[key])
        why = self.row.unwatched or self._missing(WATCHED)
        return _shown(numbers["max_aac"], *small, *self._told(), digits=3, why=why)

    def _told(self) -> Iterator[str]:
        """Yield what else than models tells of communities, where users have told it."""
        for words, path in TOLD.items():
            found = by_seed(self.seeds(), told(*path))
            if found:
                yield f"by {words} {mean(found):.3f}"

    def _guesses(self, numbers: Numbers) -> Entry:
        best = [found for run in self.seeds(WATCHED).values() if (found := guesses(run)) is not None]
        small = [
            f"precision {one.precision:.2f}, recall {one.recall:.2f}, rho {one.threshold:g}" for one in best
        ]
        return _shown(numbers["advantage"], *small[:1], digits=3, why=self.row.no_guesses)

    def _near_best(self, numbers: Numbers, some: Run | None) -> Entry:
        unit = "wake" if some is not None and "wakes" in some.scenario["protocol"] else "round"
        rounds = numbers["rounds to 95 %"]
        small = (f"{unit} {mean(rounds):.0f}",) if rounds else ()
        return _shown(numbers["local epochs to 95 %"], *small)

    def _seconds(self, numbers: Numbers, some: Run | None) -> Iterator[Entry]:
        executor = (f"executor {summary(some, 'executor')}",) if some is not None else ()
        yield _shown(numbers["wall seconds"], *executor)
        yield _shown(numbers["processor seconds"])

    def _missing(self, end: str) -> str:
        """Return why an experiment of the row has no run; nothing if it has one."""
        return self.reasons.get(f"{self.row.runs}{end}", "")


def _shown(values: PerSeed, *small: str, digits: int = 0, why: str = "") -> Entry:
    """Return a mean over seeds with half of its 95 % interval, or a dash and why there is none."""
    if not values:
        return _dash(why)
    half = interval(values)[1] - mean(values)
    error = f" ± {half:.{digits}f}" if half > 0 else ""  # NaN with one seed
    return Entry(f"{mean(values):.{digits}f}{error}", small)


def _dash(why: str) -> Entry:
    return Entry(DASH, (" ".join(why.split())[:_LONGEST],) if why else (), kind="not run")


def table(rows: Iterable[Row], runs: Runs, reasons: Mapping[str, str]) -> Grid:
    """Return the table: all rows, and below them orders that nobody learns."""
    fields = [Line(row, runs, reasons).fields() for row in rows]
    return Grid("All recommenders", COLUMNS, [*fields, *(_level(order, runs) for order in LEVELS)])


def level(order: str, metric: str, runs: Runs) -> PerSeed:
    """Return a metric of an order that nobody learns, by seed: the same in every run that has it."""
    found: PerSeed = {}
    for seeds in runs.values():
        found = {**by_seed(seeds, utility(f"{metric}[{order}]")), **found}
    return dict(sorted(found.items()))


def _level(order: str, runs: Runs) -> list[Entry]:
    numbers = (level(order, metric, runs) for metric in METRICS)
    shown = [Entry(f"{mean(own):.4f}" if own else DASH) for own in numbers]
    width = sum(len(column.titles) for column in COLUMNS)
    return [Entry(order), Entry("learns nothing"), *shown, *[Entry(DASH)] * (width - 2 - len(shown))]
