"""Reports: one HTML page about runs and studies, read from their folders, that needs no network.

Sections consist of blocks: plain data that the page's scripts draw, one class per kind of block.
Accuracies, shares and metrics are fractions; the page converts an axis or column marked as a percentage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

Numbers = Sequence[float] | npt.NDArray[Any]

DIGITS = 6
"""Significant digits of a number in the page."""


@dataclass(frozen=True)
class TextParagraphs:
    """Paragraphs; `fixed` is text in a fixed-width font, folded away under its title."""

    tag: ClassVar[str] = "text"
    paragraphs: Sequence[str]
    title: str = ""
    fixed: bool = False


@dataclass(frozen=True)
class Tile:
    """A formatted number under its name, with a short explanation."""

    tag: ClassVar[str] = "tile"
    name: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Tiles:
    """A row of headline figures."""

    tag: ClassVar[str] = "tiles"
    tiles: Sequence[Tile]


@dataclass(frozen=True)
class ChartAxis:
    """An axis of a chart.

    Attributes
    ----------
    label : str
    percent : bool
        Whether its values are fractions, shown in percent.
    zero : bool
        Whether it has to show zero.
    log : bool
    names : sequence of str
        Names of the positions 0, 1, ... if the axis is not numeric.
    ticks : sequence of float
        Positions of the tick labels; chosen by the page if empty.
    """

    tag: ClassVar[str] = "axis"
    label: str
    percent: bool = False
    zero: bool = False
    log: bool = False
    names: Sequence[str] = ()
    ticks: Sequence[float] = ()


def percent_axis(label: str) -> ChartAxis:
    """Return an axis of fractions that begins at 0."""
    return ChartAxis(label, percent=True, zero=True)


@dataclass(frozen=True)
class ChartSeries:
    """A named series of points in a chart; sequences have the length of `y`.

    Attributes
    ----------
    name : str
    x : sequence of sequences of float
        Positions of the points, for each horizontal axis of the chart.
    y : sequence of float
    low, high, left, right : sequence of float
        Ends of intervals in y and in x; empty if there are none.
    texts : sequence of str
        Label of each point.
    hollow : sequence of bool
        Whether each point is drawn as a ring.
    faint : bool
        Whether it is drawn thin and dotted: a bound, not a finding.
    mark : str, optional
        Kind of mark, if it differs from the chart's.
    colour : int, optional
        Index of its colour; by default its index among the series, or grey if it is faint.
    """

    tag: ClassVar[str] = "series"
    name: str
    x: Sequence[Numbers]
    y: Numbers
    low: Numbers = ()
    high: Numbers = ()
    left: Numbers = ()
    right: Numbers = ()
    texts: Sequence[str] = ()
    hollow: Sequence[bool] = ()
    faint: bool = False
    mark: str | None = None
    colour: int | None = None


@dataclass(frozen=True)
class Chart:
    """Lines, steps or dots on common axes; with several horizontal axes the reader chooses one.

    Attributes
    ----------
    title : str
    x : sequence of ChartAxis
    y : ChartAxis
    series : sequence of ChartSeries
    mark : str
        ``line``, ``step``, ``dot`` or ``area``.
    note : str
    upright : mapping of str to float
        Vertical lines by name.
    details : mapping of str to TableBlock
        Table that a click on a point opens, by the point's label.
    """

    tag: ClassVar[str] = "chart"
    title: str
    x: Sequence[ChartAxis]
    y: ChartAxis
    series: Sequence[ChartSeries]
    mark: str = "line"
    note: str = ""
    upright: Mapping[str, float] = field(default_factory=dict)
    details: Mapping[str, TableBlock] = field(default_factory=dict)


@dataclass(frozen=True)
class TableColumn:
    """A column of a table: ``text``, ``number``, ``percent`` or ``link`` (text and address)."""

    tag: ClassVar[str] = "column"
    name: str
    kind: str = "number"


def text_columns(*names: str) -> list[TableColumn]:
    """Return columns of text."""
    return [TableColumn(name, "text") for name in names]


@dataclass(frozen=True)
class TableBlock:
    """A table that can be sorted and saved."""

    tag: ClassVar[str] = "table"
    title: str
    columns: Sequence[TableColumn]
    rows: Sequence[Sequence[Any]]
    note: str = ""


@dataclass(frozen=True)
class IntervalMark:
    """A value between two ends: the range of possible values, or an interval."""

    tag: ClassVar[str] = "span"
    name: str
    value: float | None
    low: float | None
    high: float | None
    note: str = ""


@dataclass(frozen=True)
class IntervalChart:
    """Values between ends, in rows on a common scale that includes zero.

    Attributes
    ----------
    title : str
    spans : sequence of IntervalMark
    words : sequence of str
        Names of low, value and high.
    percent : bool
    note : str
    apart : bool
        Whether intervals that exclude zero are marked.
    """

    tag: ClassVar[str] = "spans"
    title: str
    spans: Sequence[IntervalMark]
    words: Sequence[str] = ("low", "value", "high")
    percent: bool = True
    note: str = ""
    apart: bool = False


@dataclass(frozen=True)
class NetworkGraph:
    """The network of contacts between nodes.

    Attributes
    ----------
    title : str
    n_nodes : int
    links : sequence of int
        The links drawn: both ends of the first, of the second, ...
    values : mapping of str to sequence of float
        Values of each node by measure, for colours.
    shares : sequence of str
        The measures that are fractions.
    met : str
        Rows of bits in base64: whether node u received a message from node v.
    finders : mapping of str to sequence of int
        By attack: pairs of an adversary and a user that it found, one after the other.
    note : str
    """

    tag: ClassVar[str] = "graph"
    title: str
    n_nodes: int
    links: Sequence[int]
    values: Mapping[str, Numbers]
    shares: Sequence[str]
    met: str
    finders: Mapping[str, Numbers] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Picture:
    """A picture that is drawn already, with its numbers.

    Attributes
    ----------
    title : str
    svg : str
        The picture in base64.
    table : TableBlock
    """

    tag: ClassVar[str] = "picture"
    title: str
    svg: str
    table: TableBlock


@dataclass(frozen=True)
class BlockChoice:
    """Blocks of which the reader sees one, chosen by name."""

    tag: ClassVar[str] = "choice"
    label: str
    blocks: Mapping[str, Any]


Block = TextParagraphs | Tiles | Chart | TableBlock | IntervalChart | NetworkGraph | Picture | BlockChoice


@dataclass(frozen=True)
class Section:
    """A part of a report with its own heading."""

    tag: ClassVar[str] = "section"
    title: str
    blocks: Sequence[Block]
    note: str = ""


def to_plain_data(value: Any) -> Any:
    """Return blocks as data for JSON: a block with its tag as `kind`, numbers that are not finite as null.

    Parameters
    ----------
    value : any
        Blocks, mappings, sequences, arrays, text and numbers.
    """
    if is_dataclass(value) and not isinstance(value, type):
        content = {item.name: to_plain_data(getattr(value, item.name)) for item in fields(value)}
        return {"kind": vars(type(value))["tag"], **content}
    if isinstance(value, Mapping):
        return {str(name): to_plain_data(item) for name, item in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [to_plain_data(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None
    return value


def block_or_choice(label: str, blocks: Mapping[str, Block]) -> Block:
    """Return the only block, or a choice among several."""
    return BlockChoice(label, blocks) if len(blocks) > 1 else next(iter(blocks.values()))
