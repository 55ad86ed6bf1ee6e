"""Figures of a study: lines with bands over seeds, heat maps, utility against privacy, differences to the baseline.

They read only the folder of a study: ``table.parquet`` and ``study.json``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from gossiprec.base.errors import LogError
from gossiprec.figures.figure_files import write_figure
from gossiprec.figures.study.heat_map import heat_map
from gossiprec.figures.study.lines import lines
from gossiprec.figures.study.paired_differences import paired_differences
from gossiprec.figures.study.panels import Drawing, StudyFigureOptions
from gossiprec.figures.study.pareto_front import pareto_front
from gossiprec.figures.study.table_reader import StudyTable, read_study

KINDS: dict[str, Callable[[StudyTable, StudyFigureOptions], Drawing]] = {
    "lines": lines,
    "heat": heat_map,
    "front": pareto_front,
    "paired": paired_differences,
}
FIRST = "lines"
"""Kind of figure that is drawn by default."""


def draw(
    folder: Path,
    out_stem: Path | None = None,
    *,
    kind: str | None = None,
    choice: StudyFigureOptions | None = None,
    where: Mapping[str, str] | None = None,
) -> list[Path]:
    """Draw a figure of one of :data:`KINDS` from the folder of a study; return the files written.

    Parameters
    ----------
    folder : Path
    out_stem : Path, optional
        The default is named after the kind, inside the folder.
    kind : str, optional
    choice : StudyFigureOptions, optional
    where : mapping of str to str, optional
        Restrict the figure to runs in which these axes have these values.

    Raises
    ------
    LogError
        If the study lacks a requested axis, measure or value.

    Notes
    -----
    Without a choice, the figure that the study file names is drawn.
    """
    table = read_study(folder)
    requested = choice or StudyFigureOptions()
    if kind is None and requested == StudyFigureOptions() and not where:
        options = dict(table.picture)
        kind, where = options.pop("kind", None), options.pop("where", None)
        requested = StudyFigureOptions(**options)
    kind = kind or FIRST
    if requested.to and kind != "paired":
        raise LogError(
            f"--to sets the baseline of differences, but --kind {kind} shows no differences; add --kind paired"
        )
    return write_figure(out_stem or folder / kind, *KINDS[kind](table.restrict_to(where or {}), requested))
