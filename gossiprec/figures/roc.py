"""The ROC figure: items of victims found by membership inference, against false alarms, at the last report.

Both axes are logarithmic, because an attack that is sure of a few items harms their owners although its area under the
curve is near that of guessing. The dotted line is guessing.

References
----------
Carlini et al., "Membership inference attacks from first principles", S&P 2022.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gossiprec.base.errors import LogError
from gossiprec.figures import style
from gossiprec.figures.attack_selection import RocCurve, roc_curves, run_names
from gossiprec.figures.figure_files import Cell, write_figure
from gossiprec.runs import Run

LEAST = 1e-3
"""Lower end of both axes."""


def draw(runs: Sequence[Run], out_stem: Path) -> list[Path]:
    """Draw the ROC curves of membership inference of several runs in one panel; return the files written.

    Raises
    ------
    LogError
        If no run has such a curve.
    """
    names = run_names(runs)
    found = {
        (name if len(runs) > 1 else "", about): curve
        for run, name in zip(runs, names, strict=True)
        for about, curve in roc_curves(run).items()
    }
    if not found:
        raise LogError(
            f"{runs[0].path}: found no ROC curve in findings.csv; expected an attack on single items such as loss-mia; "
            "add one to observers"
        )
    rows: list[list[Cell]] = [
        [run, attack, fpr, tpr] for (run, attack), curve in found.items() for fpr, tpr in curve
    ]
    return write_figure(out_stem, ("run", "attack", "fpr", "tpr"), rows, lambda: _figure(found))


def _figure(found: dict[tuple[str, str], RocCurve]) -> Figure:
    lines = [
        style.Series(", ".join(filter(None, key)), *zip(*[(100 * x, 100 * y) for x, y in curve], strict=True))
        for key, curve in found.items()
    ]
    return style.draw_panels(
        [style.Panel("", lines)],
        x=style.Axis("false positive rate (%)", (100 * LEAST, 100)),
        y=style.Axis("true positive rate (%)", (100 * LEAST, 100)),
        look=style.PanelLook(dress=_logarithmic),
    )


def _logarithmic(axes: Axes) -> None:
    ends = [100 * LEAST, 100]
    axes.plot(ends, ends, color=style.GREY, linewidth=0.9, linestyle=":")
    axes.text(0.62, 0.5, "guessing", transform=axes.transAxes, color=style.GREY)
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
