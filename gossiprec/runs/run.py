"""The reader's side of a run directory, for analysis and other tools."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gossiprec.base.errors import LogError, ResourceError, did_you_mean
from gossiprec.base.registry import combined_code_version
from gossiprec.runs import run_files, run_tables
from gossiprec.runs.lock import describe_status, is_locked, resolve_status
from gossiprec.runs.manifest import (
    file_faults,
    identify_results,
    manifest_fault,
    read_json,
    read_manifest,
    read_summary,
    read_yaml,
)
from gossiprec.runs.reader import Columns, EventLog, read_log
from gossiprec.runs.run_files import check_own_files
from gossiprec.runs.run_tables import read_by_user, read_lists

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


TABLES = ("metrics", "attacks", "findings", "by_user", "lists", "positions", "users", "items")
"""Tables of a run in addition to the log's events."""
ADVERSARIES = "adversaries"


def read_arrow_table(run: Run, name: str, *, observed: bool = False) -> pa.Table:
    """Return a table of a run, or its events of one kind, in the order in which they were written.

    Parameters
    ----------
    run : Run
    name : str
        ``metrics``, ``attacks``, ``findings``, ``by_user``, ``lists``, ``positions``, ``users``, ``items``,
        ``adversaries``, or a kind of event such as ``message``. A column with several numbers per row
        becomes a column of lists.
    observed : bool
        Append the rows of :attr:`Run.observed`, and add the column `observed`: the name, empty for rows of the run.

    Raises
    ------
    LogError
        If there is no such table; the message names the available ones.
    ResourceError
        From :meth:`Run.frame`, if pandas is not installed.
    """
    if observed:
        import pyarrow as pa

        parts = {"": run, **run.observed}.items()
        tables = [(read_arrow_table(each, name), mark) for mark, each in parts]
        marked = [t.append_column("observed", pa.array([mark] * len(t), pa.string())) for t, mark in tables]
        return pa.concat_tables([t for t in marked if t.num_columns > 1], promote_options="default")
    if name == ADVERSARIES:
        return to_arrow(_adversaries(run))
    if name in TABLES:
        return to_arrow(getattr(run, name))
    if name in run.log.kinds:
        return to_arrow(run.events(name))
    known = [*TABLES, ADVERSARIES, *run.log.kinds]
    raise LogError(f"{run.path} has no table {name!r}{did_you_mean(name, known)}; it has {', '.join(known)}")


def to_pandas(table: pa.Table, what: str) -> pd.DataFrame:
    """Return an Arrow table as a DataFrame.

    Parameters
    ----------
    table : pyarrow.Table
    what : str
        The caller of `frame`, for the message: ``run`` or ``study``.

    Raises
    ------
    ResourceError
        If pandas is not installed.
    """
    try:
        import pandas as pd  # noqa: F401  # Arrow's own message for its absence names no command
    except ImportError:
        raise ResourceError(
            f"{what}.frame needs pandas: pip install 'gossiprec[frames]'; {what}.table gives the "
            "same data without it"
        ) from None
    return table.to_pandas()


def to_arrow(columns: Columns) -> pa.Table:
    """Return columns as an Arrow table; a column with several numbers per row becomes a column of lists."""
    import pyarrow as pa

    return pa.table({name: _column(values) for name, values in columns.items()})


def _column(values: Any) -> pa.Array:
    import pyarrow as pa

    if values.ndim == 2:
        flat = pa.array(np.ascontiguousarray(values).reshape(-1))
        return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    return pa.array([np.asarray(row) for row in values]) if values.dtype == object else pa.array(values)


def _adversaries(run: Run) -> Columns:
    """Return a row per attack and adversary, with its accuracy at the attack's best round."""
    found = run.adversaries
    sizes = [len(nodes) for nodes, _ in found.values()]
    return {
        "attack": np.repeat(np.array([*found], dtype=object).astype(str), sizes),
        "node": np.concatenate([np.zeros(0, np.int64), *(nodes for nodes, _ in found.values())]).astype(
            np.int64
        ),
        "accuracy": np.concatenate([np.zeros(0), *(accuracies for _, accuracies in found.values())]),
    }


def run_headline(run: Run) -> dict[str, str]:
    """Return the known headline facts of a run: name, status, size and first results, as text."""
    summary = run.summary or {}
    facts = {"run": str(run.path), "scenario": str(run.scenario.get("name")), "status": run.status}
    if summary:
        facts["nodes"] = f"{summary['nodes']:,}"
        facts |= {
            name: f"{100 * value:.1f} %" for name, value in summary["utility"].items() if "=" not in name
        }
        for attack in summary["attacks"]:
            name = f"max AAC, {attack['observer']}, {attack['relevance']}"
            facts[name] = f"{100 * attack['max_aac']:.1f} %" if attack["max_aac"] is not None else "-"
    return facts


def describe_stop(stopped: Mapping[str, Any]) -> str:
    """Return how a run was ended by its rule, given ``stopped`` of its summary."""
    best = stopped["best"]
    since = f", best {best['value']:.4g} at round {best['round']}" if best else ", which has had no value"
    return (
        f"at round {stopped['round']}, after {stopped['patience']} reports without a better "
        f"{stopped['measure']}{since}"
    )


def run_html(run: Run) -> str:
    """Return :func:`run_headline` as an HTML table for notebooks."""
    import html

    left = "style='text-align:left'"
    rows = "".join(
        f"<tr><th {left}>{html.escape(name)}</th><td {left}>{html.escape(text)}</td></tr>"
        for name, text in run_headline(run).items()
    )
    return f"<table>{rows}</table>"


FIGURES = {
    "cdf": "gossiprec.figures.attack_cdf",
    "curves": "gossiprec.figures.curves",
    "epsilon": "gossiprec.figures.epsilon",
    "exposure": "gossiprec.figures.exposure",
    "position": "gossiprec.figures.position",
    "roc": "gossiprec.figures.roc",
}
"""Modules of the figures of runs, by name; they are in a layer above this one, which must not import them."""


class Run:
    """A run directory, finished or not; each file is read on first use. Open the run again to see it grown.

    Attributes
    ----------
    path : Path
    manifest : dict
        As written when the run was opened; :attr:`status` is the present status.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest: dict[str, Any] = read_manifest(path)

    def __repr__(self) -> str:
        """Return path, status and, once the run has ended, its size and first results."""
        _, _, (_, status), *facts = run_headline(self).items()
        return f"<Run {self.path}: {', '.join([status, *(f'{name} {text}' for name, text in facts[:3])])}>"

    def _repr_html_(self) -> str:
        """Return the HTML table for notebooks, with every attack."""
        return run_html(self)

    @property
    def status(self) -> str:
        """``running``, ``complete``, ``failed``, ``interrupted``; ``killed`` if no process runs it although it says so.

        If another machine began the run and it does not appear locked, the status is ``unknown``. On a file system
        without locks, a run counts as running until its marker is deleted.
        """
        status = str(self.manifest.get("status"))
        if status == "running" and not is_locked(self.path / run_files.EVENTS):
            return resolve_status(self.manifest.get("writer"))
        return status

    @property
    def status_text(self) -> str:
        """The status as text, with the process that writes the run, or wrote it until it was killed."""
        return describe_status(self.status, self.manifest.get("writer"))

    @property
    def code_version(self) -> str:
        """The version of all code that made the run: gossiprec's and its plug-ins'."""
        return combined_code_version(self.manifest["plugins"], self.manifest["code"])

    @cached_property
    def scenario(self) -> dict[str, Any]:
        """The fully resolved scenario."""
        return read_yaml(self.path / run_files.SCENARIO)

    @cached_property
    def summary(self) -> dict[str, Any] | None:
        """The summary, or None if the run has not written one."""
        path = self.path / run_files.SUMMARY
        return read_summary(path) if os.path.lexists(path) else None

    @cached_property
    def metrics(self) -> dict[str, npt.NDArray[Any]]:
        """Columns of ``metrics.csv``: time, round, metric, value."""
        return run_tables.read_run_table(self.path, run_tables.METRICS)

    @property
    def _n_nodes(self) -> int:
        """Number of nodes, or 0 if the run has not ended."""
        return int((self.summary or {}).get("nodes", 0))

    @cached_property
    def by_user(self) -> dict[str, npt.NDArray[Any]]:
        """Columns of ``metrics_by_user.parquet``: user (a node), time, round, metric, value; without undefined values.

        Raises
        ------
        LogError
            If the run has no such file, as runs of earlier versions, or it cannot be read.
        """
        tables = (self.metrics["time"], self.attacks["time"], self.findings.get("time", ()))
        return read_by_user(self.path, self._n_nodes * sum(map(len, tables)))

    @cached_property
    def lists(self) -> dict[str, npt.NDArray[Any]]:
        """Columns of ``lists.parquet``: user (a node), rank (from 1), item; best first, at the last report.

        Raises
        ------
        LogError
            If the run has no such file (``evaluate.keep_lists``), or it cannot be read.
        """
        length = (self.scenario.get("evaluate") or {}).get("keep_lists")
        return read_lists(self.path, self._n_nodes * (length if isinstance(length, int) else 0))

    @cached_property
    def attacks(self) -> dict[str, npt.NDArray[Any]]:
        """Columns of ``attacks.csv``."""
        return run_tables.read_run_table(self.path, run_tables.ATTACKS)

    @cached_property
    def findings(self) -> dict[str, npt.NDArray[Any]]:
        """Columns of ``findings.csv``, with labels as JSON text; empty in runs of versions without findings."""
        return self._table_if_written(run_tables.FINDINGS)

    @cached_property
    def adversaries(self) -> run_tables.Accuracies:
        """Attack key to (node ids, accuracies) at the attack's best round."""
        return run_tables.read_adversaries(self.path)

    @cached_property
    def hits(self) -> dict[str, npt.NDArray[Any]]:
        """Attack key to the hits at its best round: pairs of an adversary and a user, shape (n_hits, 2)."""
        return run_tables.read_arrays(self.path / run_files.HITS)

    @cached_property
    def version(self) -> dict[str, npt.NDArray[Any]]:
        """The coordinator's last version: ``items``, shared blocks by name, ``popularity``; empty if not kept."""
        return run_tables.read_arrays(self.path / run_files.VERSION)

    @cached_property
    def positions(self) -> dict[str, npt.NDArray[Any]]:
        """Columns of ``positions.csv``: node, measure, value; empty if the run has not written it."""
        return self._table_if_written(run_tables.POSITIONS)

    @cached_property
    def users(self) -> dict[str, npt.NDArray[Any]]:
        """Columns of ``users.csv``: node, name; empty if the data have no names."""
        return self._table_if_written(run_tables.USERS)

    @cached_property
    def items(self) -> dict[str, npt.NDArray[Any]]:
        """Columns of ``items.csv``: item, name; empty if the data have no names."""
        return self._table_if_written(run_tables.ITEMS)

    def _table_if_written(self, table: run_tables.TableSchema) -> dict[str, npt.NDArray[Any]]:
        return run_tables.read_run_table(self.path, table) if (self.path / table.file).exists() else {}

    @cached_property
    def log(self) -> EventLog:
        """The event log; it must be complete if the run's manifest says so.

        Raises
        ------
        LogError
            If it is not complete then, or cannot be read.
        """
        return read_log(self.path / run_files.EVENTS, strict=self.manifest.get("status") == "complete")

    def events(self, kind: str) -> Columns:
        """Return the columns of one kind of event; see :meth:`EventLog.events`."""
        return self.log.events(kind)

    @cached_property
    def observed(self) -> dict[str, Run]:
        """The results of observers that saw this run later (``gossiprec observe``), as runs, by name.

        Results of another run, which this directory held before, are left out.

        Raises
        ------
        LogError
            If files of the results were changed, or there is something else in the folder.
        """
        folder = self.path / run_files.OBSERVED
        if not folder.is_dir():
            return {}
        names = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
        runs = {name: open_run(folder / name) for name in names if not (folder / name).is_symlink()}
        own = {
            name: run
            for name, run in runs.items()
            if run.manifest.get("observes") == identify_results(self.manifest)
        }
        for run in own.values():
            fault = manifest_fault(run.manifest)
            faults = (
                [f"{run.path / run_files.MANIFEST} {fault}"] if fault else file_faults(run.path, run.manifest)
            )
            if faults:
                raise LogError(f"{faults[0]}; delete {run.path}, and observe the run again")
        return own

    def table(self, name: str, *, observed: bool = False) -> pa.Table:
        """Return ``metrics``, ``attacks``, ... or events such as ``message`` as an Arrow table.

        See :func:`gossiprec.runs.run.read_arrow_table`.
        """
        return read_arrow_table(self, name, observed=observed)

    def frame(self, name: str, *, observed: bool = False) -> pd.DataFrame:
        """Return a table or events as a pandas DataFrame; see :func:`gossiprec.runs.run.read_arrow_table`."""
        return to_pandas(self.table(name, observed=observed), "run")

    def plot(
        self, figure: str, out: str | os.PathLike[str] | None = None, *others: Run, **choice: Any
    ) -> list[Path]:
        """Draw ``cdf``, ``curves``, ``exposure`` or ``position``, as ``gossiprec plot`` does, and return the files.

        Parameters
        ----------
        figure : str
        out : path, optional
            Stem of the files, or a picture such as ``a.pdf``; inside the run directory if not given.
        *others : Run
            Runs to draw in the same figure.
        **choice
            Options of the figure, such as ``selection``.

        Raises
        ------
        LogError
            If there is no such figure, or the runs lack its data.
        """
        module = FIGURES.get(figure)
        if module is None:
            raise LogError(
                f"unknown figure {figure!r}{did_you_mean(figure, FIGURES)}; expected one of {', '.join(FIGURES)}"
            )
        return importlib.import_module(module).draw(
            [self, *others], Path(out) if out is not None else self.path / figure, **choice
        )


def open_run(path: str | os.PathLike[str]) -> Run:
    """Open a run directory.

    Raises
    ------
    LogError
        If the folder is not a run directory, or a run has only just begun there; the message names the missing file.
    """
    path = Path(path)
    check_own_files(path)
    if not path.is_dir():
        raise LogError(f"{path} is not a directory; pass a run directory such as runs/rand-gossip-s1")
    for name in (run_files.MANIFEST, run_files.SCENARIO, run_files.EVENTS):
        if not (path / name).is_file():
            raise LogError(f"{path} {_lack_of(path, name)}")
    return Run(path)


def _lack_of(path: Path, name: str) -> str:
    """Return the reason for which a run directory has no file of a name, and the next step."""
    if is_locked(path / run_files.EVENTS):
        return f"is in use by a running process and has no {name} yet; wait until it ends, or stop it"
    if name == run_files.SCENARIO and "gossiprec" in read_json(path / run_files.MANIFEST):
        return (
            f"has no {name}: the run ended before it was written, or it was deleted; start the run again: "
            f"gossiprec simulate SCENARIO --out {path} --overwrite"
        )
    return f"is not a run directory: it has no {name}"
