"""Studies from Python: running one, and its result with its table, its runs, its figures and its report."""

from __future__ import annotations

import html
import os
from collections.abc import Generator, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from gossiprec.base.errors import LogError, did_you_mean
from gossiprec.figures.study.estimates import NOTE, mean_with_interval, tabulate_means
from gossiprec.figures.study.paper_table import TableOptions, format_table
from gossiprec.figures.study.quantity import format_label
from gossiprec.figures.study.table_reader import ROW_BYTES, StudyTable, order_quantities, read_study
from gossiprec.measures.selectors import FILTERS
from gossiprec.runs import Run, open_run, run
from gossiprec.runs.lock import LOCK, is_locked
from gossiprec.runs.run_files import BY_USER, open_to_read, read_parquet
from gossiprec.study.folder import MARK, RUNS, StudyFolder, read_study_status
from gossiprec.study.plan import StudyPlan, make_plan
from gossiprec.study.runner import StaleRuns, StudyProgress, StudyRunner
from gossiprec.study.spec import load_study, with_overrides
from gossiprec.study.study_table import PARQUET
from gossiprec.study.task import DataCache, StudyTask, TaskResult, run_task, threads_per_job
from gossiprec.study.worker_pool import WorkerPool, leave_if_imported_by_worker

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


TABLES = ("points", "runs", "by_user")
MOST_ROWS, MOST_COLUMNS = 60, 8
"""Limits of the table in a notebook."""


class StudyResult:
    """The folder of a study, finished or not; open it again to see it grown.

    Attributes
    ----------
    path : Path
    mark : dict
        Content of ``study.json`` when the study was opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.mark = read_study_status(path / MARK)

    def __repr__(self) -> str:
        """Return name, status and varying axes of the study."""
        return f"<StudyResult {self.path}: {self._words()}>"

    def _repr_html_(self) -> str:
        """Return an HTML table for notebooks, with the means over seeds in a row per combination."""
        means = tabulate_means(self._found, most_rows=MOST_ROWS, most_columns=MOST_COLUMNS)
        head = _cells("th", [*means.axes, *means.headings], n_left=len(means.axes))
        rows = "".join(f"<tr>{_cells('td', row, n_left=len(means.axes))}</tr>" for row in means.rows)
        more = f" {means.more_rows} more combinations and {means.more_columns} more measures: <code>.frame()</code>."
        note = NOTE + (more if means.more_rows or means.more_columns else "")
        about = f"<b>{html.escape(str(self.path))}</b>: {html.escape(self._words())}"
        return f"{about}<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{note}"

    def _words(self) -> str:
        mark, table = self.mark, self._found
        failed = f", {len(mark['failed'])} failed" if mark["failed"] else ""
        axes = " x ".join(f"{name} ({len(table.axis_values(name))})" for name in table.varying)
        finished = f"{mark['finished']} of {mark['simulations']} runs finished{failed}"
        return ", ".join([self.status, finished, *([axes] if axes else [])])

    @property
    def status(self) -> str:
        """The status, as for a run: ``running``, ``complete``, ``failed``, ``interrupted``, or ``killed``."""
        status = str(self.mark["status"])
        return "killed" if status == "running" and not is_locked(self.path / LOCK) else status

    @cached_property
    def _found(self) -> StudyTable:
        return read_study(self.path, or_empty=True)

    def table(self, name: str = "points") -> pa.Table:
        """Return the results as an Arrow table.

        Parameters
        ----------
        name : {"points", "runs", "by_user"}
            "points" has a row per combination of the axes and measure, with the mean over seeds and the ends of its
            95 % interval; quantities that differ only by the axes are joined. "runs" is ``table.parquet``, a row per
            run and measure. "by_user" is ``metrics_by_user.parquet``, a row per run, user, report and metric.

        Raises
        ------
        LogError
            If there is no such table, or the study has not written it.
        """
        import pyarrow.parquet as pq

        if name not in TABLES:
            raise LogError(
                f"unknown table {name!r}{did_you_mean(name, TABLES)}; a study has {', '.join(TABLES)}"
            )
        path = self.path / (BY_USER if name == "by_user" else PARQUET)
        if not path.exists():
            raise LogError(
                f"{self.path} has no {path.name}; expected a study that has ended, with such runs; run it again: "
                "gossiprec study FILE, which keeps finished runs"
            )
        with open_to_read(path) as file:
            runs = read_parquet(path, pq.ParquetFile(file), ROW_BYTES)
        return self._points(runs.schema) if name == "points" else runs

    def frame(self, name: str = "points") -> pd.DataFrame:
        """Return a table of results as a pandas DataFrame.

        Raises
        ------
        LogError
            If there is no such table.
        ResourceError
            If pandas is not installed.
        """
        return run.to_pandas(self.table(name), "study")

    def _points(self, of_runs: pa.Schema) -> pa.Table:
        import pyarrow as pa

        rows = []
        for quantity in order_quantities(self._found):
            for point, seeds in self._found.values[quantity].items():
                mean, low, high, n = vars(mean_with_interval(seeds.values())).values()
                about = dict(
                    zip((*self._found.axes, "measure", *FILTERS), (*point, *quantity.cells()), strict=True)
                )
                known = {name: None if value == "" else value for name, value in about.items()}
                rows.append({**known, "n": n, "mean": mean, "low": low, "high": high})
        kinds = [(name, of_runs.field(name).type) for name in (*self._found.axes, "measure", *FILTERS)]
        numbers = [("n", pa.int64()), *((name, pa.float64()) for name in ("mean", "low", "high"))]
        return pa.Table.from_pylist(rows, schema=pa.schema([*kinds, *numbers]))

    def runs(self, **labels: Any) -> list[Run]:
        """Return the finished runs of the table, in its order, in which axes (or ``seed``) have these values.

        A run that serves several combinations, which differ only in observers, is returned once.

        Raises
        ------
        LogError
            If there is no such axis.
        """
        known = (*self._found.axes, "seed")
        for name in labels:
            if name not in known:
                raise LogError(
                    f"{self.path} has no axis {name!r}{did_you_mean(name, known)}; it has {', '.join(known)}"
                )
        rows = self.table("runs").select([*known, "run", "status"]).to_pylist()
        wanted = [
            row["run"]
            for row in rows
            if row["status"] == "complete"
            and all(format_label(row[name]) == format_label(value) for name, value in labels.items())
        ]
        return [open_run(self.path / RUNS / run) for run in dict.fromkeys(wanted)]

    def plot(
        self,
        kind: str | None = None,
        out: str | os.PathLike[str] | None = None,
        *,
        where: Mapping[str, Any] | None = None,
        to: Mapping[str, Any] | None = None,
        **choice: Any,
    ) -> list[Path]:
        """Draw ``lines``, ``heat``, ``paired`` or ``front``, as ``gossiprec plot study`` does, and return the files.

        Parameters
        ----------
        kind : str, optional
            The default is the figure that the study file names, if no other option is given; otherwise ``lines``.
        out : path, optional
            Stem of the files, or a picture such as ``a.pdf``; inside the folder if not given.
        where : mapping, optional
            Restrict the figure to runs in which these axes have these values.
        to : mapping, optional
            Reference of differences, instead of the study's baseline.
        **choice
            ``x``, ``by``, ``y`` (one measure or several), ``against``.

        Raises
        ------
        LogError
            If there is no such figure, or the study lacks its data.
        """
        from gossiprec.figures.study.draw import KINDS, draw
        from gossiprec.figures.study.panels import StudyFigureOptions

        if kind is not None and kind not in KINDS:
            raise LogError(
                f"unknown figure {kind!r}{did_you_mean(kind, KINDS)}; expected one of {', '.join(KINDS)}"
            )
        chosen, against = (
            {name: format_label(value) for name, value in (labels or {}).items()} for labels in (where, to)
        )
        stem = Path(out) if out is not None else None
        return draw(self.path, stem, kind=kind, choice=StudyFigureOptions(**choice, to=against), where=chosen)

    def format_table(self, format: str = "markdown", **choice: Any) -> str:
        """Return a table for a paper, as ``gossiprec table`` prints it.

        Parameters
        ----------
        format : {"markdown", "latex", "csv", "html"}
        **choice
            The fields of :class:`~gossiprec.figures.study.paper_table.TableOptions`: ``rows``, ``columns``,
            ``measures``, ``where``, ``to``, ``units``, ``digits``, ``interval``.

        Raises
        ------
        LogError
            If an option is unknown, or the study lacks its data.
        """
        return format_table(read_study(self.path), format, TableOptions(**choice))

    def report(self, out: str | os.PathLike[str] | None = None) -> Path:
        """Write the report of the study, one HTML page, and return its path, by default ``report.html``.

        Raises
        ------
        LogError
            If the study cannot be read.
        """
        from gossiprec.report.page import write_report

        page = Path(out) if out is not None else self.path / "report.html"
        write_report([self.path], page)
        return page


def _cells(tag: str, texts: list[str], *, n_left: int) -> str:
    """Return cells of an HTML table, the first `n_left` of them left-aligned."""
    sides = ["left" if place < n_left else "right" for place in range(len(texts))]
    return "".join(
        f"<{tag} style='text-align:{side};vertical-align:bottom'>{html.escape(text).replace(chr(10), '<br>')}</{tag}>"
        for side, text in zip(sides, texts, strict=True)
    )


def open_study(path: str | os.PathLike[str]) -> StudyResult:
    """Open the folder of a study, also while it is running.

    Raises
    ------
    LogError
        If it is no study folder.
    """
    folder = Path(path)
    if not (folder / MARK).is_file():
        raise LogError(f"{folder} is not a study folder: it has no {MARK}; pass one such as studies/churn")
    return StudyResult(folder)


class StudyKeywords(TypedDict, total=False):
    """The keywords of :func:`study` for its runs in progress and its finished runs.

    Attributes
    ----------
    stale_runs : {"refuse", "again", "keep"}
        Treatment of finished runs of another version of the code, or of other data; refuse by default.
    track : iterable of str
        Trackers that show the curves of each run in progress, as in :func:`gossiprec.simulate`.
    progress : StudyProgress
        Receives the progress.
    """

    stale_runs: StaleRuns
    track: Iterable[str]
    progress: StudyProgress | None


def study(
    study: str | os.PathLike[str] | Mapping[str, Any],
    *,
    overrides: Iterable[str] = (),
    seeds: int | None = None,
    limit: int | None = None,
    out: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    **options: Unpack[StudyKeywords],
) -> StudyResult:
    """Run a study, or its unfinished part, and return the result.

    Parameters
    ----------
    study : path or mapping
        A study file, or its content as plain data.
    overrides : iterable of str
        ``key.path=value`` for every run, as with ``--set``.
    seeds : int, optional
        Use seeds 1 to `seeds` instead of the file's.
    limit : int, optional
        Run only the first `limit` combinations.
    out : path, optional
        The folder; ``studies/<name>`` if not given.
    jobs : int
        Number of worker processes. With 1, runs are made in this process, one after the other, on all
        cores. A script that uses more must call this under ``if __name__ == "__main__":``, because workers import it.
    **options
        ``stale_runs``, ``track`` and ``progress`` (:class:`StudyKeywords`).

    Returns
    -------
    StudyResult
        Also if some runs failed: :attr:`StudyResult.mark` names them and the reasons.

    Raises
    ------
    GossipRecError
        If the study is bad, the folder holds something else, or a script uses `jobs` above 1 without a main guard.
    KeyboardInterrupt
        After Ctrl-C; the table then holds the finished runs, and the same call continues the study.
    """
    leave_if_imported_by_worker()
    if unknown := sorted(options.keys() - StudyKeywords.__annotations__):
        raise TypeError(f"study() got an unexpected keyword argument {unknown[0]!r}")
    loaded = with_overrides(load_study(study), overrides, seeds)
    folder = StudyFolder(Path(out) if out is not None else Path("studies") / loaded.name)
    folder.check(loaded.name)
    plan = make_plan(loaded, limit=limit)
    if loaded.file.search.method == "optuna":
        return _search(plan, folder, options.get("stale_runs", "refuse"), limit)
    runner = StudyRunner(plan, folder, options.get("track", ()))
    runner.check_target()
    start = _here if jobs == 1 else WorkerPool(jobs, threads_per_job(jobs), _nothing).carry_out
    with folder.locked(plan.study.name):
        todo = runner.find_unfinished(stale_runs=options.get("stale_runs", "refuse"))
        runner.carry_out(todo, start, options.get("progress") or _NoProgress())
    return StudyResult(folder.path)


def _search(plan: StudyPlan, folder: StudyFolder, stale_runs: StaleRuns, limit: int | None) -> StudyResult:
    """Run the trials of a search."""
    from gossiprec.study.search import Search

    with folder.locked(plan.study.name):
        Search(plan, folder, stale_runs, limit).run()
    return StudyResult(folder.path)


def _here(tasks: list[StudyTask]) -> Generator[TaskResult, None, None]:
    """Carry out tasks in this process, one after the other."""
    load = DataCache()
    for task in tasks:
        done = run_task(task, threads=threads_per_job(1), load=load)
        if done.problem and Path(task.path).exists() and open_run(task.path).status == "interrupted":
            raise KeyboardInterrupt
        yield done


def _nothing(hash_: str, what: str) -> None:
    """Ignore the activity of a simulation."""


class _NoProgress:
    """A progress display that shows nothing."""

    def begin(self, *, total: int, kept: int) -> None:
        """Ignore the begin of the study."""

    def split(self, hash_: str, number: int, kept: int) -> None:
        """Ignore the replacement of a simulation."""

    def ended(self, done: TaskResult, label: str, headline: str) -> None:
        """Ignore the end of a simulation."""
