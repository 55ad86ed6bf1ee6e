"""Sections that several studies have: a table per setting, numbers of summaries, and the price of federation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from analysis.papers.comparison import BEST, Comparison
from analysis.papers.curves import has_converged, read_by_seed, reported_score, summary_value
from analysis.papers.document import DocumentBlock, Grid, GridCell, GridColumn, Heading, ParagraphBlock
from analysis.papers.tables import DASH, format_mean
from analysis.papers.verdict import PerSeed, Runs, Verdict

Rows = Iterable[Sequence[GridCell]]


def setting_tables(
    title: str,
    name: str,
    about: str,
    columns: Iterable[GridColumn | str],
    rows: Mapping[str, Rows],
    heads: int = 1,
) -> Iterator[DocumentBlock]:
    """Yield a section with a table per setting that has rows; nothing if none has.

    Parameters
    ----------
    title, name : str
        Title of the section, and the name of its link.
    about : str
        The explanation above the tables.
    columns : iterable of GridColumn or str
    rows : mapping of str to iterable
        Rows by setting.
    heads : int
        Number of first columns that are row headings.
    """
    found = {setting: own for setting, some in rows.items() if (own := list(some))}
    titles = [GridColumn(column) if isinstance(column, str) else column for column in columns]
    if found:
        yield Heading(2, title, name)
        yield ParagraphBlock(about)
    for setting, own in found.items():
        yield Heading(3, f"Setting {setting}", f"{name}-{setting}")
        yield Grid(f"{title}, {setting}", titles, own, heads)


@dataclass(frozen=True)
class SummaryColumns:
    """Columns of a table with numbers from ``summary.json``, as a plan declares them.

    Attributes
    ----------
    about : str
        What the columns mean.
    columns : mapping of str to str
        The key of each column's number in a summary, with dots.
    digits : mapping of str to int
        Number of decimals of a column, if it is not four.
    """

    about: str
    columns: Mapping[str, str]
    digits: Mapping[str, int] = field(default_factory=dict)

    def values_by_seed(self, runs: Runs, experiment: str, column: str) -> PerSeed:
        """Return the number of a column, by seed, for runs that report it."""
        path = self.columns[column].split(".")
        return read_by_seed(runs.get(experiment, {}), lambda run: summary_value(run, *path))

    def make_cells(self, runs: Runs, experiment: str) -> list[GridCell]:
        """Return the fields of an experiment's row."""
        return [
            format_mean(self.values_by_seed(runs, experiment, column), digits=self.digits.get(column, 4))
            for column in self.columns
        ]


@dataclass(frozen=True)
class FederatedRow:
    """A federated row of a table and the centralised row of the same model, each with its experiment."""

    row: str
    experiment: str
    central_row: str
    central: str


@dataclass(frozen=True)
class FederationPrice:
    """Federated rows compared with centralised rows of the same model, each at its best validation report.

    Attributes
    ----------
    paper : Comparison
    rows_in : callable
        Maps a setting to its federated rows.
    """

    paper: Comparison
    rows_in: Callable[[str], Iterable[FederatedRow]]

    def kept_utility(self, runs: Runs, row: FederatedRow, column: str) -> PerSeed:
        """Return the utility of a federated row in percent of the centralised row's, by seed."""
        ours, central = (
            reported_score(self.paper, runs, one, column, BEST) for one in (row.experiment, row.central)
        )
        return {seed: 100 * value / central[seed] for seed, value in ours.items() if central.get(seed)}

    def printed_kept_utility(self, setting: str, row: FederatedRow, column: str) -> float:
        """Return the printed utility of a federated row in percent of the centralised row's."""
        table = self.paper.main_table(setting)
        ours, central = (
            self.paper.published.printed_value(table, one, column) for one in (row.row, row.central_row)
        )
        return 100 * ours / central

    def tables(self, runs: Runs, shown: Iterable[str], **heading: Any) -> Iterator[DocumentBlock]:
        """Yield a table per setting with runs: the shown metrics of both rows, and the utility kept.

        `heading` has the title, the name and the explanation of the section.
        """
        shown = tuple(shown)
        parts = ("federated", "centralised", "kept, %", "kept as published, %")
        columns: list[GridColumn | str] = [
            "row",
            "centralised row",
            "best is last",
            *(GridColumn(column, parts) for column in shown),
        ]
        rows = {
            setting: [
                self._line(runs, setting, row, shown)
                for row in self.rows_in(setting)
                if row.experiment in runs
            ]
            for setting in self.paper.settings
        }
        yield from setting_tables(columns=columns, rows=rows, heads=2, **heading)

    def _line(self, runs: Runs, setting: str, row: FederatedRow, shown: Sequence[str]) -> list[GridCell]:
        is_last = "no" if has_converged(self.paper, runs, row.experiment) else "yes"
        fields = [GridCell(row.row), GridCell(row.central_row), GridCell(is_last)]
        for column in shown:
            fields += [
                format_mean(reported_score(self.paper, runs, one, column, BEST))
                for one in (row.experiment, row.central)
            ]
            kept = self.kept_utility(runs, row, column)
            fields.append(format_mean(kept, digits=0) if kept else GridCell(DASH, kind=Verdict.NOT_RUN.word))
            fields.append(GridCell(f"{self.printed_kept_utility(setting, row, column):.0f}", kind="printed"))
        return fields
