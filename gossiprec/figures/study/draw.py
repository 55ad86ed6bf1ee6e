"""Figures of a study: lines with bands over seeds, heat maps, utility against privacy, differences to the baseline.

They read the folder of a study alone: ``table.parquet`` and ``study.json``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from gossiprec.figures.output import write_figure
from gossiprec.figures.study.front import front
from gossiprec.figures.study.heat import heat
from gossiprec.figures.study.lines import lines
from gossiprec.figures.study.paired import differences
from gossiprec.figures.study.panels import Choice, Drawing
from gossiprec.figures.study.table import StudyTable, read_study

KINDS: dict[str, Callable[[StudyTable, Choice], Drawing]] = {
    "lines": lines,
    "heat": heat,
    "front": front,
    "paired": differences,
}


def draw(
    folder: Path, out_stem: Path, *, kind: str, choice: Choice, where: Mapping[str, str] | None = None
) -> list[Path]:
    """Draw a figure of one of :data:`KINDS` from the folder of a study; return the files written.

    Parameters
    ----------
    folder, out_stem : Path
    kind : str
    choice : Choice
    where : mapping of str to str, optional
        Only the runs in which these axes have these values.

    Raises
    ------
    LogError
        If the study does not hold what is asked for.
    """
    return write_figure(out_stem, *KINDS[kind](read_study(folder).where(where or {}), choice))
