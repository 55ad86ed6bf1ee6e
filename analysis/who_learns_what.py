"""Who learns what, about whom, under which threat model and defence: all privacy instruments on the same runs.

python -m analysis.who_learns_what --data ../shared/data --out study/

The report has one table and one picture: leakage by instrument, next to utility and bytes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.papers import report
from analysis.papers.comparison import finding, read_by_seed, summary_value
from analysis.papers.document import DocumentBlock, GridRow, Heading, ImageBlock, ParagraphBlock, make_grid
from analysis.papers.figures import draw_heat_map
from analysis.papers.study import PaperStudyFile, StudyCommand
from analysis.papers.verdict import PerSeed, Runs, mean
from gossiprec.figures.figure_files import Cell, write_figure
from gossiprec.figures.style import LABEL_PT, PAGE_IN, add_caption
from gossiprec.runs import Run

STUDY = PaperStudyFile(Path(__file__).with_name("who_learns_what") / "study.yaml")
MEMBERSHIP = ("loss-mia", "update-mia", "imia")


@dataclass(frozen=True)
class RowGroup:
    """A protocol with its recommender, and the observer of all its rows, as in ``plan.yaml``.

    Attributes
    ----------
    label : str
    sees : str
        The threat model: who observes, and what it receives.
    rows : mapping of str to str
        The defence of each experiment.
    """

    label: str
    sees: str
    rows: Mapping[str, str]


@cache
def row_groups() -> dict[str, RowGroup]:
    """Return the groups of rows in the order of the table."""
    return {name: RowGroup(**own) for name, own in STUDY.plan["rows"].items()}


@cache
def selectable_names() -> dict[str, tuple[str, ...]]:
    """Return the experiments that each name of ``--only`` selects: the rows of a group, or one."""
    groups = {f"all-{name}": tuple(group.rows) for name, group in row_groups().items()}
    return {**groups, **{name: (name,) for name in STUDY.experiments}}


@dataclass(frozen=True)
class Leak:
    """What an instrument finds, next to the value by chance and to the largest possible value."""

    value: float
    chance: float
    ceiling: float = 1.0

    @property
    def share(self) -> float:
        """The part of the way from chance to the ceiling, between 0 and 1."""
        way = self.ceiling - self.chance
        return float(np.clip((self.value - self.chance) / way, 0.0, 1.0)) if way > 0 else 0.0


def communities(run: Run) -> Leak | None:
    """Return the accuracy of the community attack at the end of the run."""
    attack = next(iter(summary_value(run, "attacks") or ()), None)
    return None if attack is None else Leak(attack["last_aac"], attack["random_bound"])


def membership(measure: str, chance: float, *attacks: str) -> Callable[[Run], Leak | None]:
    """Return a function that reads a membership measure, the largest of several attacks."""

    def read(run: Run) -> Leak | None:
        found = [value for one in attacks if (value := finding(run, one, measure)) is not None]
        return Leak(max(found), chance) if found else None

    return read


def attribute(name: str) -> Callable[[Run], Leak | None]:
    """Return a function that reads an attribute's balanced accuracy: from updates, or from items if there are none."""

    def read(run: Run) -> Leak | None:
        for features in ("updates", "items"):
            value, guess, ceiling = (
                finding(
                    run,
                    "attribute-inference",
                    f"attribute_{kind}balanced_accuracy",
                    attribute=name,
                    features=features,
                )
                for kind in ("", "majority_", "ceiling_")
            )
            if value is not None and guess is not None and ceiling is not None:
                return Leak(value, guess, ceiling)
        return None

    return read


def reconstruction(run: Run) -> Leak | None:
    """Return the F1 of the items that were reconstructed, next to as many popular items."""
    value, popular = (
        finding(run, "reconstruction", f"reconstruction_{kind}f1") for kind in ("", "popularity_")
    )
    return None if value is None or popular is None else Leak(value, popular)


INSTRUMENTS: dict[str, Callable[[Run], Leak | None]] = {
    "taste: CDA (AAC)": communities,
    "items: loss-mia (AUC)": membership("item_auc", 0.5, "loss-mia"),
    "items: update-mia (AUC)": membership("item_auc", 0.5, "update-mia"),
    "items: imia (AUC)": membership("item_auc", 0.5, "imia"),
    "surest items: best MIA (TPR at 1 %)": membership("item_tpr_at_1", 0.01, *MEMBERSHIP),
    "user's data: best MIA (AUC)": membership("user_auc", 0.5, *MEMBERSHIP),
    "gender (balanced accuracy)": attribute("gender"),
    "age (balanced accuracy)": attribute("age"),
    "item sets (F1 of reconstruction)": reconstruction,
}
"""Instruments by title, in the order of the columns."""


def megabytes(run: Run) -> float:
    """Return the megabytes that a node sends in the run, on average; a client to the coordinator."""
    sent = summary_value(run, "bytes")
    return float(sent.get("up", sent["sent"])) / 1e6 / float(summary_value(run, "nodes"))


PRICES: dict[str, Callable[[Run], float | None]] = {
    "users heard": lambda run: finding(run, "reconstruction", "reconstruction_heard"),
    "HR@20": lambda run: summary_value(run, "utility", "hr@20"),
    "Recall@20": lambda run: summary_value(run, "utility", "recall@20"),
    "MB sent per node": megabytes,
}
"""Other columns by title."""


def leak(runs: Runs, experiment: str, title: str, part: str = "value") -> PerSeed:
    """Return ``value``, ``chance``, ``ceiling`` or ``share`` of an instrument, by seed."""
    return read_by_seed(runs.get(experiment, {}), _leak_part, title, part)


def _leak_part(run: Run, title: str, part: str) -> float | None:
    found = INSTRUMENTS[title](run)
    return None if found is None else float(getattr(found, part))


def price(runs: Runs, experiment: str, title: str) -> PerSeed:
    """Return another number of a row, by seed."""
    return read_by_seed(runs.get(experiment, {}), PRICES[title])


def table_rows(runs: Runs) -> Iterator[GridRow]:
    """Yield the table's rows: a line per experiment, then chance and ceiling, means over all runs."""
    for group in row_groups().values():
        for name, defence in group.rows.items():
            leaks = (report.mean_cell(leak(runs, name, title), 3) for title in INSTRUMENTS)
            prices = (
                report.mean_cell(price(runs, name, title), 1 if "MB" in title else 3) for title in PRICES
            )
            yield [group.label, defence, *leaks, *prices]
    for part in ("chance", "ceiling"):
        found = (
            [v for name in runs for v in leak(runs, name, title, part).values()] for title in INSTRUMENTS
        )
        means = (f"{np.mean(values):.3f}" if values else report.DASH for values in found)
        yield [part, "", *means, *(report.DASH for _ in PRICES)]


_ROW_IN, _HEAD_IN, _LABEL_IN, _BAR_IN, _FOOT_IN = 0.215, 1.45, 1.72, 0.55, 0.5
BARS = ("users heard", "Recall@20", "MB sent per node")
"""Columns drawn as bars."""


def draw_map(runs: Runs) -> Figure:
    """Return the picture: leakage by row and instrument as a heat map, next to recall and bytes."""
    lines: list[tuple[str, str | None]] = []
    for group in row_groups().values():
        own = [(defence, name) for name, defence in group.rows.items() if name in runs]
        lines += [(group.label, None), *own] if own else []
    height = _HEAD_IN + _ROW_IN * len(lines) + _FOOT_IN
    figure = Figure(figsize=(PAGE_IN, height))
    left, top, bottom = _LABEL_IN / PAGE_IN, 1 - _HEAD_IN / height, _FOOT_IN / height
    step = (_BAR_IN + 0.14) / PAGE_IN
    bars = len(BARS) * step
    cells = figure.add_axes((left, bottom, 1 - left - bars - 0.04, top - bottom))
    _draw_cells(cells, lines, runs)
    for place, title in enumerate(BARS):
        axes = figure.add_axes(
            (1 - bars + place * step, bottom, _BAR_IN / PAGE_IN, top - bottom), sharey=cells
        )
        _draw_bars(axes, lines, runs, title)
    add_caption(figure, STUDY.plan["caption"])
    return figure


def _draw_cells(axes: Axes, lines: Sequence[tuple[str, str | None]], runs: Runs) -> None:
    """Draw the heat map with its row and column labels."""
    shares = np.array(
        [
            [100 * mean(leak(runs, name, title, "share") if name else {}) for title in INSTRUMENTS]
            for _, name in lines
        ]
    )
    blank = ["" if name is None else report.DASH for _, name in lines]
    draw_heat_map(axes, shares, blank, colours="Blues", white_above=65)
    for row, (label, name) in enumerate(lines):
        weight = "bold" if name is None else "normal"
        at = -_LABEL_IN + 0.08 if name is None else -_LABEL_IN + 0.2
        axes.annotate(
            *(label, (0, row), (at * 72, 0), ("axes fraction", "data"), "offset points"),
            va="center",
            fontweight=weight,
        )
    axes.set_xticks(range(len(INSTRUMENTS)), [_short(title) for title in INSTRUMENTS], rotation=60, ha="left")
    axes.tick_params(labelleft=False, pad=1)
    axes.set_ylim(len(lines) - 0.5, -0.5)


def _short(title: str) -> str:
    """Return the title of a column without its unit."""
    return title.partition(" (")[0]


def _draw_bars(axes: Axes, lines: Sequence[tuple[str, str | None]], runs: Runs, title: str) -> None:
    """Draw a column of bars with their numbers."""
    for row, (_, name) in enumerate(lines):
        values = price(runs, name, title) if name else {}
        if values:
            axes.barh(row, mean(values), height=0.7, color="0.75")
            text = f"{mean(values):.3f}" if title == "Recall@20" else f"{mean(values):.2g}"
            axes.text(0, row, f" {text}", va="center")
    if title == "Recall@20":
        metric = "recall@20[popularity]"
        found = [read_by_seed(own, summary_value, "utility", metric) for own in runs.values()]
        popular = [value for own in found for value in own.values()]
        if popular:
            axes.axvline(float(np.mean(popular)), color="black", linewidth=0.9, linestyle=":")
    axes.set_title(
        title.replace(" sent per", "\nper").replace(" heard", "\nheard"), loc="left", fontsize=LABEL_PT
    )
    axes.tick_params(length=0, labelleft=False, labelbottom=False)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.spines.left.set_visible(True)


class LeakageReport(report.StudyReport):
    """The report: threat models, picture, table, times and missing runs."""

    experiments = tuple(STUDY.experiments)
    csv_header = ("experiment", "group", "defence", "number", "part", "seed", "value")

    def make_pages(self, study: report.ReportInput, figures: Path) -> report.Pages:
        """Return the only page, and draw its picture."""
        runs = study.runs
        blocks: list[DocumentBlock] = [
            study.opening_paragraph("All instruments observe the same runs. {progress}"),
            Heading(2, "Threat models", "models"),
            ParagraphBlock("\n".join(f"- **{one.label}**: {one.sees}." for one in row_groups().values())),
        ]
        if runs:
            rows = self.csv_rows(study)
            write_figure(figures / "leakage", self.csv_header, rows, lambda: draw_map(runs))
            blocks.append(ImageBlock("figures/leakage.svg", STUDY.plan["caption"], "figures/leakage.csv"))
        columns = ("protocol", "defence", *INSTRUMENTS, *PRICES)
        blocks += [
            Heading(2, "All numbers", "table"),
            ParagraphBlock(report.INTERVALS),
            make_grid("Leakage, utility and bytes", columns, table_rows(runs), heads=2),
            *report.run_time_blocks(runs, study.planned, self.experiments, "protocol", _group_of),
            *report.missing_blocks(study.reasons),
        ]
        return {"report": ("Who learns what", blocks)}

    def csv_rows(self, study: report.ReportInput) -> Iterator[list[Cell]]:
        """Yield each number by experiment and seed; of instruments also chance, ceiling and share."""
        for group in row_groups().values():
            for name, defence in group.rows.items():
                parts = itertools.product(INSTRUMENTS, ("value", "chance", "ceiling", "share"))
                found = [(title, part, leak(study.runs, name, title, part)) for title, part in parts]
                found += [(title, "value", price(study.runs, name, title)) for title in PRICES]
                for title, part, values in found:
                    for seed, value in values.items():
                        yield [name, group.label, defence, title, part, seed, value]


def _group_of(experiment: str) -> str:
    return next(group.label for group in row_groups().values() if experiment in group.rows)


if __name__ == "__main__":
    StudyCommand(STUDY, selectable_names(), LeakageReport()).main()
