"""The figure of epsilon: the matrix of victims and observers, and epsilon by the number of hops between them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from gossiprec.base.errors import LogError
from gossiprec.figures import style
from gossiprec.figures.attack_selection import run_names
from gossiprec.figures.figure_files import Cell, write_figure
from gossiprec.runs import Run
from gossiprec.runs.run_tables import epsilon_bytes, read_arrays

Arrays = dict[str, NDArray[np.float64]]
COLUMNS = ("hops", "epsilon", "reach", "linear", "sampled")


def draw(runs: Sequence[Run], out_stem: Path) -> list[Path]:
    """Draw the epsilons of several runs, one below the other; return the files written.

    Raises
    ------
    LogError
        If a run has no epsilons yet.
    """
    found = {name: _read(run) for run, name in zip(runs, run_names(runs), strict=True)}
    header = ("run", "victim", "observer", *COLUMNS, "local")
    return write_figure(out_stem, header, _rows(found), lambda: _figure(found))


def _read(run: Run) -> Arrays:
    path = run.path / "epsilon.npz"
    if not path.is_file():
        raise LogError(
            f"{path}: found no such file; expected the epsilons of the run; write it with: "
            f"gossiprec epsilon {quote(str(run.path))}"
        )
    return read_arrays(path, epsilon_bytes(run.summary))


def _rows(found: dict[str, Arrays]) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for name, arrays in found.items():
        columns = [arrays[column].tolist() if column in arrays else None for column in COLUMNS]
        for i, victim in enumerate(arrays["victims"].tolist()):
            for j, observer in enumerate(arrays["observers"].tolist()):
                if not np.isnan(arrays["epsilon"][i][j]):
                    cells = [None if column is None else column[i][j] for column in columns]
                    rows.append(
                        [name if len(found) > 1 else "", victim, observer, *cells, float(arrays["local"][i])]
                    )
    return rows


def _figure(found: dict[str, Arrays]) -> Figure:
    margins = style.Margins(top=0.3, right=0.7, between_rows=0.95, between_columns=0.9)
    figure, grid = style.panel_grid(len(found), 2, width=style.PAGE_IN, panel_height=2.6, margins=margins)
    for (name, arrays), (matrix, lines) in zip(found.items(), grid, strict=True):
        title = name if len(found) > 1 else ""
        _draw_matrix(matrix, arrays, title)
        _draw_by_hops(figure, lines, arrays)
    return figure


def _draw_matrix(axes: Axes, arrays: Arrays, title: str) -> None:
    values = arrays["epsilon"]
    finite = values[np.isfinite(values)]
    shown = np.ma.masked_invalid(np.where(np.isposinf(values), finite.max(initial=0.0), values))
    image = axes.imshow(shown, cmap="cividis", aspect="auto", interpolation="nearest", vmin=0.0)
    axes.figure.colorbar(image, ax=axes, pad=0.02, label="epsilon")
    axes.grid(False)
    axes.set_title(title or "epsilon of a victim towards an observer")
    for kind, ids in (("x", arrays["observers"]), ("y", arrays["victims"])):
        places = np.unique(np.linspace(0, len(ids) - 1, min(len(ids), 6)).round().astype(int))
        axes.set(**{f"{kind}ticks": places, f"{kind}ticklabels": [str(int(ids[place])) for place in places]})
    axes.set_xlabel("observer (node)")
    axes.set_ylabel("victim (node)")


def _draw_by_hops(figure: Figure, axes: Axes, arrays: Arrays) -> None:
    known = ~np.isnan(arrays["epsilon"])
    hops = np.unique(arrays["hops"][known & np.isfinite(arrays["hops"])])
    local = np.broadcast_to(arrays["local"][:, None], known.shape)
    drawn = {"local": local, "reach": arrays["reach"], "linear": arrays.get("linear")}
    ends = []
    for place, (name, values) in enumerate(drawn.items()):
        if values is None or not len(hops):
            continue
        groups = [values[known & (arrays["hops"] == away)] for away in hops]
        look, means = style.line_style(place), [float(group.mean()) for group in groups]
        axes.plot(hops, means, **look.kwargs())
        ends.append(style.LineEnd(float(hops[-1]), means[-1], name, look))
        if name != "local":
            low, high = [group.min() for group in groups], [group.max() for group in groups]
            axes.fill_between(hops, low, high, alpha=0.15, linewidth=0, color=look.kwargs()["color"])
    axes.set_ylim(bottom=0)
    axes.set_title("means by distance; bands: lowest to highest")
    axes.set_xlabel("hops from victim to observer")
    axes.set_ylabel("epsilon")
    style.label_ends(figure, axes, ends)
