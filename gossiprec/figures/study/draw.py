"""Figures of a study: lines with bands over seeds, heat maps, utility against privacy, differences to the baseline.

They read the folder of a study alone: ``table.parquet`` and ``study.json``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from matplotlib.figure import Figure

from gossiprec.figures import style
from gossiprec.figures.output import Cell, csv_bytes, save
from gossiprec.figures.study.front import front
from gossiprec.figures.study.heat import heat
from gossiprec.figures.study.lines import lines
from gossiprec.figures.study.paired import differences
from gossiprec.figures.study.panels import Choice
from gossiprec.figures.study.table import StudyTable, read_study

KINDS: dict[str, Callable[[StudyTable, Choice], tuple[Figure, list[str], list[list[Cell]]]]] = {
    "lines": lines,
    "heat": heat,
    "front": front,
    "paired": differences,
}


def draw(
    folder: Path, out_stem: Path, *, kind: str, choice: Choice, where: Mapping[str, str] | None = None
) -> list[Path]:
    """Draw a figure of a study.

    Parameters
    ----------
    folder : Path
        Of the study.
    out_stem : Path
        Files go to ``<out_stem>.csv``, ``.png`` and ``.svg``.
    kind : str
        One of :data:`KINDS`.
    choice : Choice
        What it shows.
    where : mapping of str to str, optional
        Only the runs in which these axes have these values.

    Raises
    ------
    LogError
        If the study does not hold what is asked for.
    """
    table = read_study(folder).where(where or {})
    with style.house_look():
        figure, header, rows = KINDS[kind](table, choice)
        return save(figure, csv_bytes(header, rows), out_stem)
