"""Tables of a run as Arrow and pandas have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gossiprec.errors import LogError, ResourceError, suggestion
from gossiprec.eventlog.reader import Columns

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from gossiprec.eventlog.run import Run

TABLES = ("metrics", "attacks", "findings", "positions", "users", "items")
"""Beside the events of the log, by kind."""
ADVERSARIES = "adversaries"


def table_of(run: Run, name: str) -> pa.Table:
    """Return a table of a run, or its events of one kind, in the order in which they were written.

    Parameters
    ----------
    run : Run
    name : str
        ``metrics``, ``attacks``, ``findings``, ``positions``, ``users``, ``items``, ``adversaries``, or a kind of event
        such as ``message``. A column of several numbers a row is one of lists.

    Raises
    ------
    LogError
        If there is no such table: the message names what there is.
    """
    if name == ADVERSARIES:
        return arrow_of(_adversaries(run))
    if name in TABLES:
        return arrow_of(getattr(run, name))
    if name in run.log.kinds:
        return arrow_of(run.events(name))
    known = [*TABLES, ADVERSARIES, *run.log.kinds]
    raise LogError(f"{run.path} has no table {name!r}{suggestion(name, known)}; it has {', '.join(known)}")


def frame_of(run: Run, name: str) -> pd.DataFrame:
    """Return :func:`table_of` as a DataFrame.

    Raises
    ------
    LogError
        If there is no such table.
    ResourceError
        If pandas is not installed.
    """
    return as_frame(table_of(run, name), "run")


def as_frame(table: pa.Table, what: str) -> pd.DataFrame:
    """Return an Arrow table as a DataFrame.

    Parameters
    ----------
    table : pyarrow.Table
    what : str
        Whose method `frame` is called: ``run``, ``study``.

    Raises
    ------
    ResourceError
        If pandas is not installed.
    """
    try:
        import pandas as pd  # noqa: F401  # Arrow's own words for its absence name no command
    except ImportError:
        raise ResourceError(
            f"{what}.frame needs pandas: pip install 'gossiprec[frames]'; {what}.table gives the "
            "same data without it"
        ) from None
    return table.to_pandas()


def arrow_of(columns: Columns) -> pa.Table:
    """Return columns as an Arrow table; one of several numbers a row becomes one of lists."""
    import pyarrow as pa

    return pa.table({name: _column(values) for name, values in columns.items()})


def _column(values: Any) -> pa.Array:
    import pyarrow as pa

    if values.ndim == 2:
        flat = pa.array(np.ascontiguousarray(values).reshape(-1))
        return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    return pa.array([np.asarray(row) for row in values]) if values.dtype == object else pa.array(values)


def _adversaries(run: Run) -> Columns:
    """Return a row for each attack and adversary, with its accuracy at the attack's best round."""
    found = run.adversaries
    sizes = [len(nodes) for nodes, _ in found.values()]
    return {
        "attack": np.repeat(np.array([*found], dtype=object).astype(str), sizes),
        "node": np.concatenate([np.zeros(0, np.int64), *(nodes for nodes, _ in found.values())]).astype(
            np.int64
        ),
        "accuracy": np.concatenate([np.zeros(0), *(accuracies for _, accuracies in found.values())]),
    }


def headline(run: Run) -> dict[str, str]:
    """Return what a run is and found, in words, as far as it is known."""
    summary = run.summary or {}
    facts = {"run": str(run.path), "scenario": str(run.scenario.get("name")), "status": run.status}
    if summary:
        facts["nodes"] = f"{summary['nodes']:,}"
        facts |= {name: f"{100 * value:.1f} %" for name, value in summary["utility"].items()}
        for attack in summary["attacks"]:
            name = f"max AAC, {attack['observer']}, {attack['relevance']}"
            facts[name] = f"{100 * attack['max_aac']:.1f} %" if attack["max_aac"] is not None else "-"
    return facts


def as_html(run: Run) -> str:
    """Return :func:`headline` as a table for notebooks."""
    import html

    left = "style='text-align:left'"
    rows = "".join(
        f"<tr><th {left}>{html.escape(name)}</th><td {left}>{html.escape(text)}</td></tr>"
        for name, text in headline(run).items()
    )
    return f"<table>{rows}</table>"
