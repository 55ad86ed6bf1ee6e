"""Run parts: mechanisms that look at a run at its reports; a part may end the run, and changes no value in a wave.

A file in :mod:`gossiprec.emulation.run_parts` is a part: it is found without being listed anywhere. The files are
imported with every run, so what only some runs need is imported late.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gossiprec.base.arrays import F64, I64
from gossiprec.base.registry import Registry
from gossiprec.runs.checkpoint_state import Stateful
from gossiprec.runs.reader import Columns

if TYPE_CHECKING:
    from typing import Self

    from gossiprec.emulation.assembly.prepare import PreparedRun
    from gossiprec.emulation.run.event_recorder import EventRecorder
    from gossiprec.emulation.run.run_options import RunOptions
    from gossiprec.emulation.scoring.utility import UtilityEvaluator
    from gossiprec.runs import RunDirectory
    from gossiprec.scenario import Scenario


@dataclass(frozen=True)
class RunContext:
    """The run that a part looks at.

    Attributes
    ----------
    prepared : PreparedRun
    directory : RunDirectory
    recording : EventRecorder
    utility : UtilityEvaluator
        Also has the values of single users and the lists of the last report.
    options : RunOptions
    """

    prepared: PreparedRun
    directory: RunDirectory
    recording: EventRecorder
    utility: UtilityEvaluator
    options: RunOptions

    @property
    def scenario(self) -> Scenario:
        """The scenario of the run."""
        return self.prepared.components.scenario


@dataclass(frozen=True)
class Report:
    """The results of a run at a report.

    Attributes
    ----------
    time : float
        Virtual time; all events up to it have been carried out, and none after it.
    round : int
    metrics : dict of str to float
        The values in ``metrics.csv``, by name.
    attacks, findings : list of dict
        The rows in ``attacks.csv`` and ``findings.csv``.
    last : bool
        Whether this is the last report.
    """

    time: float
    round: int
    metrics: dict[str, float]
    attacks: list[dict[str, Any]]
    findings: list[dict[str, Any]]
    last: bool


START = Report(0.0, 0, {}, [], [], last=False)
"""An empty report, used before the first one."""


@dataclass
class ReportInProgress:
    """A report while it is made.

    Attributes
    ----------
    time : float
        Virtual time.
    round : int
    ends_schedule : bool
        Whether no event comes after it.
    updates, pushes : ndarray of int64, shape (n_nodes,)
        Local updates, and rewritten pushes, of each node so far.
    utility : dict of str to float
        The metrics of recommendations.
    metrics : dict of str to float
        Further values for ``metrics.csv``; parts add theirs after the utility.
    per_node : dict of str to pair of ndarrays
        Nodes, and the value of each, by measure; attacks add theirs before :meth:`RunPart.after_attacks`.
    is_best : bool
        Whether it is the best report by validation items so far.
    """

    time: float
    round: int
    ends_schedule: bool
    updates: I64
    pushes: I64
    utility: dict[str, float] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    per_node: dict[str, tuple[I64, F64]] = field(default_factory=dict)
    is_best: bool = False


class RunPart(Stateful):
    """A mechanism that takes part in a run at its reports, in the order of the methods below.

    Parts are called in alphabetical order of their names. A checkpoint holds the state of each part.

    Parameters
    ----------
    run : RunContext
    """

    def __init__(self, run: RunContext) -> None:
        self._run = run

    @classmethod
    def check_options(cls, options: RunOptions) -> None:
        """Refuse options of a run that the part cannot follow, before data are loaded.

        Raises
        ------
        ScenarioError, ResourceError
        """

    @classmethod
    def make(cls, run: RunContext) -> Self | None:
        """Return the part of a run, or None if the run does not have it."""
        return cls(run)

    def change(self, option: str, value: Any) -> None:
        """Change an option of training after the last report.

        Raises
        ------
        ScenarioError
            If the option cannot be changed, or has no such value.
        """

    def before_events(self, after: int, *, time: float, round: int) -> None:
        """Prepare for the events after report number `after`, 0 being the start, at a virtual time and in a round."""

    def after_utility(self, report: ReportInProgress) -> bool:
        """Take the utility of a report into account, and return whether the run ends with this report."""
        return False

    def after_attacks(self, report: ReportInProgress) -> None:
        """Take the results of attacks into account, which come after the utility."""

    def rows(self, report: ReportInProgress) -> Iterable[tuple[str, Columns]]:
        """Return the rows of a report for the event log, by kind of event."""
        return ()

    def after_report(self, report: Report) -> None:
        """Take a report into account when all its results are written."""

    def close(self, directory: RunDirectory) -> None:
        """Write the final files of the part."""

    def summary(self) -> Mapping[str, Any]:
        """Return sections of the summary; a section ``utility`` is added to the utility of the last report."""
        return {}

    def end(self, status: str, summary: Mapping[str, Any]) -> None:
        """Take the end of the run into account, with its summary, which is empty if the run failed."""


RUN_PARTS: Registry[type[RunPart]] = Registry("run part", "gossiprec.emulation.run_parts")


def make_parts(run: RunContext) -> dict[str, RunPart]:
    """Return the parts of a run by name."""
    found: Iterator[tuple[str, RunPart | None]] = (
        (name, part.make(run)) for name, part in RUN_PARTS.members()
    )
    return {name: part for name, part in found if part is not None}
