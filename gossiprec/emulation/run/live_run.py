"""Runs in steps from Python, from report to report."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, Unpack

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F32, I64
from gossiprec.base.errors import LogError, ScenarioError
from gossiprec.emulation.assembly.prepare import PreparedRun
from gossiprec.emulation.assembly.schedule import PrecomputedSchedule
from gossiprec.emulation.progress import StopRequest, read_clocks
from gossiprec.emulation.run.active_run import ActiveRun
from gossiprec.emulation.run.execution import RunSteps, finish_steps
from gossiprec.emulation.run.run_options import RunOptions, SimulateKeywords, make_run_options
from gossiprec.emulation.run.run_part import START, Report
from gossiprec.emulation.run.simulate import ScenarioSource, new_run, start_run
from gossiprec.models.base.parameter_blocks import Layout
from gossiprec.runs import Run, open_run
from gossiprec.scenario import Scenario

if TYPE_CHECKING:
    from gossiprec.emulation.assembly.carrier import Carrier


class DeliveredMessage(NamedTuple):
    """A message that was delivered, as in the event log.

    Attributes
    ----------
    time : float
        When it was delivered.
    sender, receiver : int
    sent_at : float
    size_bytes : int
    queued : float
        Delay caused by other messages on shared bandwidth.
    """

    time: float
    sender: int
    receiver: int
    sent_at: float
    size_bytes: int
    queued: float


OnReport = TypeVar("OnReport", bound=Callable[[Report], object])
OnMessage = TypeVar("OnMessage", bound=Callable[[DeliveredMessage], object])


class LiveRun(AbstractContextManager["LiveRun"]):
    """A run at a report, or before its first event, which continues on request.

    Made by :func:`gossiprec.prepare`. It is a context manager that closes the run, and an iterator over the reports
    that are left.

    Attributes
    ----------
    path : Path
        The run directory.

    Notes
    -----
    A step ends at a report: there results and checkpoints are written. At a report all events up to its time have been
    carried out, and none after it. ``evaluate.every`` and ``evaluate.also`` define the times of reports. Between two
    reports local updates are computed in waves, in an order that is not that of virtual time; :meth:`pause` cuts the
    events at any time, which changes no result.
    """

    def __init__(self, steps: RunSteps, stop: StopRequest) -> None:
        self._steps, self._stop = steps, stop
        self._ended: Run | None = None
        self._paused = 0.0
        self._on_report: list[Callable[[Report], object]] = []
        self._on_message: list[Callable[[DeliveredMessage], object]] = []
        self._active: ActiveRun = next(steps)
        self.path = self._active.directory.path

    @classmethod
    def begin(
        cls,
        scenario: Scenario,
        path: Path,
        options: RunOptions,
        *,
        overwrite: bool = False,
        carrier: Carrier | None = None,
    ) -> LiveRun:
        """Return the run of a scenario in a new directory, with its own carrier if none is given."""
        begin, stop = read_clocks(), StopRequest()
        steps = start_run(
            scenario, path, options, begin=begin, overwrite=overwrite, stop=stop, carrier=carrier
        )
        return cls(steps, stop)

    def __repr__(self) -> str:
        """Return path, virtual time, and the status if the run has ended."""
        return f"<LiveRun {self.path}: time {self.time:g}{f', {self._ended.status}' if self._ended else ''}>"

    def __exit__(self, *error: object) -> None:
        """Close the run."""
        self.close()

    def __iter__(self) -> Iterator[Report]:
        """Yield each report that is left."""
        while not self._is_last:
            yield self.step()

    @property
    def report(self) -> Report | None:
        """The last report; None before the first one."""
        return None if self._active.report is START else self._active.report

    @property
    def time(self) -> float:
        """Virtual time: of the last report or pause, or 0."""
        return max(self._paused, self._report_time)

    @property
    def _is_last(self) -> bool:
        """Whether the last report has been made."""
        return self._active.report.last

    @property
    def _report_time(self) -> float:
        return self._active.report.time

    @property
    def round(self) -> int:
        """Rounds so far: at the last report, or 0."""
        return self._active.report.round

    def step(self) -> Report:
        """Carry the run on to its next report, call the callbacks, and return it.

        Raises
        ------
        LogError
            If the run has ended, or has made its last report.
        KeyboardInterrupt
            On Ctrl-C: the run is then closed, and can be resumed from its last checkpoint.
        GossipRecError
            As in :func:`gossiprec.simulate`.
        """
        self._check_open()
        self._advance()
        return self._show_report()

    def _show_report(self) -> Report:
        """Return the present report, and show it and its messages to the callbacks."""
        report = self._active.report
        if self._on_message:
            columns = self._active.recording.messages
            for row in zip(*(columns[name].tolist() for name in DeliveredMessage._fields), strict=True):
                for callback in self._on_message:
                    callback(DeliveredMessage(*row))
        for on_report in self._on_report:
            on_report(report)
        return report

    def until(self, time: float) -> list[Report]:
        """Carry the run on to its first report at `time` or later, or to its last one; return the reports passed.

        Raises
        ------
        ScenarioError
            If `time` is not a number.
        GossipRecError
            As in :meth:`step`.
        """
        if math.isnan(time):
            raise ScenarioError(f"until: found {time}; expected a virtual time, such as 20.0")
        self._check_open(or_last=True)
        found: list[Report] = []
        while self._report_time < time and not self._is_last:
            found.append(self.step())
        return found

    @property
    def next_event(self) -> float:
        """Virtual time of the next event, infinite if there is none: ``run.pause(run.next_event)`` carries it out.

        Raises
        ------
        ScenarioError
            As in :meth:`pause`.
        """
        return self._known_schedule().next_event(self.time)

    def pause(self, time: float) -> list[Report]:
        """Carry out all events up to `time`, also between two reports; return the reports passed.

        Models and scores are those of this time. Files, callbacks, changes and checkpoints wait for the next report; a
        run that is closed here first continues to it. The results do not depend on pauses.

        Raises
        ------
        ScenarioError
            If `time` is not a number, or the run is divided or chooses peers by the values of models: it can then only
            be cut where all its processes, and resumed runs, cut it, too.
        GossipRecError
            As in :meth:`step`.
        """
        schedule, found = self._known_schedule(), list[Report]()
        if math.isnan(time):
            raise ScenarioError(f"pause: found {time}; expected a virtual time, such as 20.5")
        self._check_open(or_last=True)
        schedule.pause_at = time
        while self.time < time and not self._is_last:
            before = self.report
            self._advance()
            if self.report is before:
                self._paused = time
            else:
                found.append(self._show_report())
        schedule.pause_at = math.inf
        return found

    def _known_schedule(self) -> PrecomputedSchedule:
        prepared = self._active.prepared
        if prepared.carrier.is_divided or not isinstance(prepared.schedule, PrecomputedSchedule):
            divided, chooses = "is divided among shards", "chooses peers by values of models"
            why = divided if prepared.carrier.is_divided else chooses
            raise ScenarioError(
                f"pause: the run {why}, and can only stop at reports; use until(), or set evaluate.every"
            )
        return prepared.schedule

    def _advance(self) -> None:
        """Carry the run on to its next report or pause."""
        try:
            next(self._steps)
        except StopIteration as end:  # by Ctrl-C
            self._ended = end.value
            raise KeyboardInterrupt from None

    def model(self, node: int) -> dict[str, npt.NDArray[np.float32]]:
        """Return a copy of the present model of a node: each block of the model by its name, in float32.

        Blocks of users and of items have a row for each; a node that keeps only its own user's row has one row. A
        coordinator has the node id after the last user's. A client without a model has its own row, with the last
        version of the coordinator.

        Parameters
        ----------
        node : int

        Raises
        ------
        ScenarioError
            If there is no such node, or the run is divided among shards and has made no report.
        LogError
            If the run is divided and has ended.
        """
        components = self.prepared.components
        most = components.protocol.n_nodes - 1
        if not 0 <= node <= most:
            raise ScenarioError(f"model: found node {node}; expected a node id from 0 to {most}")
        if self.prepared.carrier.is_divided:
            self._check_open(or_last=True)
            if self.report is None:
                raise ScenarioError("model: the other shards have not begun; call step() first")
        return _blocks(components.layout, self._active.model(node))

    @property
    def prepared(self) -> PreparedRun:
        """The parts of the run: data, network, executor and models."""
        return self._active.prepared

    def scores(self, users: I64) -> F32:
        """Return the scores of all items by the present models of some users, shape (n_users, n_items).

        Parameters
        ----------
        users : ndarray of int64, shape (n_users,)
        """
        return self._active.scores(users)

    def change(self, option: str, value: Any) -> None:
        """Change an option of training from here on; the manifest and the log record it.

        A resumed or replayed run makes the same change. The options are those of the
        section ``changes`` of scenarios (``docs/scenarios.md``), such as ``training.learning_rate``.

        Raises
        ------
        ScenarioError
            If the option cannot be changed, or has no such value.
        LogError
            If the run has ended, or has made its last report.
        """
        self._check_open()
        if self._paused > self._report_time:
            raise ScenarioError(
                f"change: found a pause at time {self.time:g}; expected a report, after which changes hold; call step()"
            )
        self._active.change(option, value)

    def on_report(self, callback: OnReport) -> OnReport:
        """Call a function with each following report; usable as a decorator."""
        self._on_report.append(callback)
        return callback

    def on_message(self, callback: OnMessage) -> OnMessage:
        """Call a function with each following message that is delivered; usable as a decorator.

        Messages come at the next report, in the order of the event log and before the callbacks of the report. Their
        content is gone by then: what looks into messages is an attack (``docs/extending.md``).
        """
        self._on_message.append(callback)
        return callback

    def finish(self) -> Run:
        """Carry out the rest of the run and return it; the files have the bytes of :func:`gossiprec.simulate`.

        Raises
        ------
        GossipRecError
            As in :meth:`step`.
        """
        if self._ended is None:
            for _ in self:
                pass
            self._ended = finish_steps(self._steps)
        return self._ended

    def close(self) -> Run:
        """End the run here, and return it.

        It is marked ``interrupted`` with a checkpoint of the last report, from which :func:`gossiprec.resume`
        continues; before the first report, or if the scenario wants no checkpoints, without one. After the last report
        it is complete.
        """
        if self._ended is None:
            self._stop.wanted = True
            try:
                self._ended = finish_steps(self._steps)
            finally:
                self._ended = self._ended or open_run(self.path)
        return self._ended

    def _check_open(self, *, or_last: bool = False) -> None:
        """Refuse a run that has ended or, without `or_last`, has made its last report."""
        if self._is_last and self._ended is None and not or_last:
            raise LogError(f"{self.path} has made its last report, at time {self.time:g}; call finish()")
        if self._ended is not None:
            status = self._ended.status
            resume = f", or continue it: gossiprec resume {quote(str(self.path))}"
            hint = "" if status == "complete" else resume
            raise LogError(f"{self.path} has ended ({status}); open it with gossiprec.open_run{hint}")


def _blocks(layout: Layout, row: F32) -> dict[str, npt.NDArray[np.float32]]:
    """Return the blocks of a row by name."""
    shapes = layout.tables
    ends = np.cumsum([math.prod(shape) for shape in shapes.values()])
    parts = np.split(row[: ends[-1]], ends[:-1])
    tables = {name: part.reshape(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}
    return layout.blocks_by_name(tables)


def prepare(
    scenario: ScenarioSource,
    *,
    overrides: Iterable[str] = (),
    out: str | os.PathLike[str] | None = None,
    on_exists: Literal["refuse", "overwrite", "new"] = "refuse",
    **options: Unpack[SimulateKeywords],
) -> LiveRun:
    """Prepare the run of a scenario, to be carried out in steps.

    Parameters
    ----------
    scenario : Scenario, path or mapping
        As for :func:`gossiprec.simulate`, like `overrides` and `out`.
    overrides : iterable of str
    out : path, optional
    on_exists : {"refuse", "overwrite", "new"}
        The handling of an earlier run there.
    **options
        As in :func:`gossiprec.simulate`.

    Returns
    -------
    LiveRun
        The run before its first event; it holds the directory until it is closed.

    Raises
    ------
    GossipRecError
        As in :func:`gossiprec.simulate`.
    """
    run_options = make_run_options(**options)
    scenario, path, overwrite = new_run(scenario, overrides, out, on_exists)
    return LiveRun.begin(scenario, path, run_options, overwrite=overwrite)
