"""The position figure: accuracy and exposure of nodes against their position in the contact graph.

Each dot is a node. Left is its accuracy as an adversary. Right is its exposure as a victim: of the adversaries that
have it in their community, the fraction that found it. Both are taken at the best round of the attack. Lines join the
means of groups of nodes with similar values of the measure, with intervals of 1.96 standard errors. They describe one
run, in which nodes depend on one another, and are no statistical test. rho is Spearman's rank correlation over all
nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy.stats import spearmanr

from gossiprec.base.arrays import F64, I64
from gossiprec.base.errors import LogError
from gossiprec.base.rounding import paired_differences
from gossiprec.figures import style
from gossiprec.figures.attack_selection import (
    EVERYTHING,
    FIELDS,
    AttackKey,
    AttackSelection,
    run_names,
    select_attacks,
)
from gossiprec.figures.figure_files import Cell, write_figure
from gossiprec.figures.node_values import ByNode, group_by_position, values_by_node
from gossiprec.measures.selectors import FILTERS, attack_key
from gossiprec.runs import Run

QUANTITIES = {
    "accuracy": "accuracy as an adversary (%)",
    "found": "exposure as a victim (%)",
}
MEASURES = ("betweenness", "in_contacts")
"""Measures drawn by default: the first that a run has."""

CAPTION = (
    "Each dot is a node. Lines join means of groups of nodes, with bars of 1.96 standard errors. The rank correlation "
    "(Spearman's) is 1 or −1 if one side only rises or only falls with the other, and near 0 if they are unrelated."
)
DISTANCE = "distance"
"""Short name for ``distance[<observer>]`` of each attack's own observer."""

HEADER = (*FIELDS, "measure", "quantity", "kind", "node", "position", "value", "low", "high", "nodes")


@dataclass(frozen=True)
class PositionRelation:
    """A quantity of the nodes against a measure of their position.

    Attributes
    ----------
    key : AttackKey
    measure, quantity : str
    nodes : ndarray of int64, shape (n,)
    position, value : ndarray of float64, shape (n,)
    """

    key: AttackKey
    measure: str
    quantity: str
    nodes: I64
    position: F64
    value: F64

    @property
    def rho(self) -> float:
        """Spearman's rank correlation; NaN if either side varies at most by rounding errors."""
        position, value = (paired_differences(side, 0.0) for side in (self.position, self.value))
        if len(np.unique(position)) < 2 or len(np.unique(value)) < 2:
            return float("nan")
        return float(spearmanr(position, value).statistic)


def draw(
    runs: Sequence[Run],
    out_stem: Path,
    *,
    measures: Sequence[str] = (),
    selection: AttackSelection = EVERYTHING,
) -> list[Path]:
    """Draw leakage by position, a row of panels for each attack and measure; return the files written.

    Parameters
    ----------
    runs : sequence of Run
    out_stem : Path
    measures : sequence of str
        Names from ``positions.csv``, or ``distance``. The default is betweenness, or in_contacts in runs without it.
    selection : AttackSelection
        The attacks to show.

    Raises
    ------
    LogError
        If a run holds no positions, no such measure, or no attack that was selected.
    """
    tables = {name: values_by_node(run) for run, name in zip(runs, run_names(runs), strict=True)}
    attacks = [key for name, table in tables.items() for key in _attacks(name, table)]
    if not attacks:
        raise LogError(
            f"no attack results in {', '.join(str(run.path) for run in runs)}; a run has them if its scenario lists "
            "observers and it reached an evaluation"
        )
    keys = select_attacks(attacks, selection)
    rows = [row for key in keys for row in _relations(key, tables[key.run], measures)]
    if not rows:
        raise LogError(f"none of the attacks shown has the measure {DISTANCE}: only coalitions have it")
    table = [line for row in rows for relation in row for line in _lines(relation)]
    return write_figure(out_stem, HEADER, table, lambda: _figure(rows))


def _attacks(name: str, table: dict[str, ByNode]) -> list[AttackKey]:
    labels = (measure[len("found[") : -1] for measure in table if measure.startswith("found["))
    return [AttackKey.from_label(name, label) for label in labels]


def _relations(
    key: AttackKey, table: dict[str, ByNode], measures: Sequence[str]
) -> Iterator[list[PositionRelation]]:
    """Yield, per measure, the relations of an attack's quantities to it; for distances only the found quantity."""
    label = attack_key(**{name: getattr(key, name) for name in FILTERS})
    first = next((measure for measure in MEASURES if measure in table), MEASURES[-1])
    for measure in measures or [first]:
        name = f"{DISTANCE}[{key.observer}]" if measure == DISTANCE else measure
        if name not in table:
            if measure == DISTANCE:
                continue
            there = ", ".join(other for other in table if other.partition("[")[0] not in QUANTITIES)
            raise LogError(f"found no measure {measure!r} in {key.run}; it has: {there}")
        row = [
            _relation(key, name, quantity, table[name], table.get(f"{quantity}[{label}]", {}))
            for quantity in QUANTITIES
            if measure != DISTANCE or quantity == "found"  # colluders have no distance to themselves
        ]
        yield [relation for relation in row if len(relation.nodes)]


def _relation(
    key: AttackKey, measure: str, quantity: str, position: ByNode, value: ByNode
) -> PositionRelation:
    nodes = np.array(sorted(position.keys() & value.keys()), np.int64)
    at, found = (np.array([of[node] for node in nodes.tolist()]) for of in (position, value))
    return PositionRelation(key, measure, quantity, nodes, at, found)


def _lines(relation: PositionRelation) -> Iterator[list[Cell]]:
    """Yield the rows of the table: nodes, groups, and the correlation."""
    about, unknown = [*relation.key.cells(), relation.measure, relation.quantity], float("nan")
    columns = (relation.nodes, relation.position, relation.value)
    for node, position, value in zip(*(column.tolist() for column in columns), strict=True):
        yield [*about, "node", node, position, value, unknown, unknown, 1]
    for group in group_by_position(relation.position, relation.value):
        yield [*about, "mean", "", group.position, group.mean, group.low, group.high, group.nodes]
    yield [*about, "rho", "", unknown, relation.rho, unknown, unknown, len(relation.nodes)]


def _figure(rows: Sequence[Sequence[PositionRelation]]) -> Figure:
    several = len({relation.key.run for row in rows for relation in row}) > 1
    quantities = [name for name in QUANTITIES if any(name == shown.quantity for row in rows for shown in row)]
    width = style.PAGE_IN if len(quantities) > 1 else style.COLUMN_IN
    below = 0.45 + style.caption_height(CAPTION, width)
    margins = style.Margins(
        left=0.6, right=0.2, top=0.45, bottom=below, between_columns=0.6, between_rows=0.85
    )
    figure, grid = style.panel_grid(
        len(rows), len(quantities), width=width, panel_height=1.9, margins=margins
    )
    for row, panels in zip(rows, grid, strict=True):
        shown = {relation.quantity: relation for relation in row}
        for quantity, axes in zip(quantities, panels, strict=True):
            if quantity in shown:
                _panel(axes, shown[quantity], several=several)
            else:
                axes.remove()
    style.add_caption(figure, CAPTION)
    return figure


def _panel(axes: Axes, relation: PositionRelation, *, several: bool) -> None:
    look = style.line_style(list(QUANTITIES).index(relation.quantity))
    axes.scatter(
        relation.position, 100 * relation.value, s=7, color="0.6", alpha=0.45, linewidths=0, rasterized=True
    )
    means = group_by_position(relation.position, relation.value)
    x, y = [group.position for group in means], [100 * group.mean for group in means]
    low, high = (
        np.array([100 * getattr(group, end) for group in means]).clip(0, 100) for end in ("low", "high")
    )
    errors = np.nan_to_num([y - low, high - y])  # a share ends at 0 and 100 %
    axes.errorbar(x, y, yerr=errors.clip(0.0), capsize=2, elinewidth=1.0, **look.kwargs())
    positive = relation.position.min() > 0
    if positive and relation.position.max() > 30 * np.median(relation.position):
        axes.set_xscale("log")
    axes.set_ylim(-2.0, min(102.0, axes.get_ylim()[1]))
    if (relation.position % 1 == 0).all():
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel(_words(relation.measure))
    axes.set_ylabel(QUANTITIES[relation.quantity])
    axes.set_title(_title(relation, several=several))


def _words(measure: str) -> str:
    kind, _, observer = measure.rstrip("]").partition("[")
    if kind == DISTANCE:
        return f"hops to {style.short_name(observer)}"
    return "nodes that it received from" if measure == "in_contacts" else measure.replace("_", " ")


def _title(relation: PositionRelation, *, several: bool) -> str:
    key = relation.key
    rho = "not defined" if np.isnan(relation.rho) else f"{relation.rho:.2f}".replace("-", "−")
    names = ("run", "observer") if several else ("observer",)
    first = ", ".join(style.short_name(key.field_text(name)) for name in names)
    return f"{first}, relevance {key.relevance}\nrank correlation {rho}, {len(relation.nodes)} nodes"
