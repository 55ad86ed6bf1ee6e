"""Running a scenario."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gossiprec.data.split import Split
from gossiprec.emulation.accuracy import AttackRecord
from gossiprec.emulation.membership import metric_rows
from gossiprec.emulation.memory import peak_rss_mib
from gossiprec.emulation.metering import seconds_by_label
from gossiprec.emulation.prepare import Prepared, prepare
from gossiprec.emulation.privacy import Ledger
from gossiprec.emulation.progress import Progress, Silent, Status, Stopwatch
from gossiprec.emulation.recording import Recording
from gossiprec.emulation.utility import Utility
from gossiprec.eventlog import Run, RunDirectory, open_run
from gossiprec.eventlog.rundir import check_free
from gossiprec.scenario import Scenario, load_scenario


def simulate(
    scenario: Scenario | str | os.PathLike[str] | Mapping[str, Any],
    *,
    overrides: Iterable[str] = (),
    out: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    load: Callable[[Scenario], Split] | None = None,
) -> Run:
    """Run a scenario and return the run it wrote.

    Parameters
    ----------
    scenario : Scenario, path or mapping
        A scenario, a YAML file, or the same as plain data.
    overrides : iterable of str
        ``key.path=value``, as with ``--set``.
    out : path, optional
        Run directory; ``runs/<name>-s<seed>`` if not given.
    overwrite : bool
        Replace an earlier run there.
    progress : Progress, optional
        Is told what happens.
    load : callable, optional
        Gives the data in place of :func:`gossiprec.emulation.prepare.load_data`.

    Returns
    -------
    Run
        Complete; or marked ``interrupted`` if Ctrl-C stopped it: everything up to the last report is there.

    Raises
    ------
    GossipRecError
        See :mod:`gossiprec.errors`. The run directory is then marked ``failed`` if it had been begun.
    """
    say = progress or Silent()
    begin = time.perf_counter()
    if not isinstance(scenario, Scenario):
        scenario = load_scenario(scenario, list(overrides))
    path = Path(out) if out is not None else Path("runs") / f"{scenario.name}-s{scenario.seed}"
    check_free(path, overwrite=overwrite)
    prepared = prepare(scenario, say, load=load)
    view_size = prepared.protocol.view_size
    directory = RunDirectory.create(
        path,
        scenario=scenario.resolved(),
        seed=scenario.seed,
        sizes={} if view_size is None else {"view_size": view_size},
        overwrite=overwrite,
    )
    try:
        run = _Running(prepared, directory, say, begin)
        run.close(_carried_out(run))
    except BaseException:
        directory.finish("failed")
        raise
    return open_run(path)


def _carried_out(run: _Running) -> str:
    """Carry out a run; return its status."""
    try:
        run.execute()
    except KeyboardInterrupt:
        return "interrupted"
    return "complete"


class _Running:
    """A run under way: its records and its times."""

    def __init__(self, prepared: Prepared, directory: RunDirectory, say: Progress, begin: float) -> None:
        self._prepared = prepared
        self._directory = directory
        self._say = say
        self._begin = begin
        self._timed = Stopwatch()
        self._timed.seconds.update(prepared.seconds)
        self._done = 0
        self._reached = 0.0
        scenario, split = prepared.scenario, prepared.split
        sizes = [size for attack in prepared.attacks for r in attack.rankings() for size in r.community_sizes]
        self._record = AttackRecord(split, max(sizes, default=0))
        self._utility = Utility(split, scenario.evaluate.metrics, prepared.executor, scenario.seed)
        self._utility_now: dict[str, float] = {}
        self._ledger = Ledger(prepared.policies, prepared.protocol.n_nodes)
        self._membership_now: list[dict[str, Any]] = []
        self._recording = self._new_recording()

    def _new_recording(self) -> Recording:
        prepared = self._prepared
        work = prepared.executor.work
        training, layout, treatment = work.training, work.layout, work.treatment
        return Recording(
            self._directory.log,
            behaviours=prepared.protocol.behaviours,
            roles=prepared.protocol.roles,
            samples=work.data.n_samples(training.negatives) * training.local_epochs,
            epochs=training.local_epochs,
            message_bytes=np.where(
                treatment.hides_user, layout.message_bytes - 4 * layout.user_width, layout.message_bytes
            ),
            most_updates=treatment.most_updates,
            view_size=prepared.protocol.view_size,
            inline=prepared.course.inline,
        )

    def execute(self) -> None:
        """Carry out the tape, stretch by stretch."""
        prepared = self._prepared
        self._say.phase("simulating")
        begin = time.perf_counter()
        carrier = prepared.carrier(self._timed)

        try:
            for tick in prepared.course.play(carrier.carry_out):
                with self._timed("log"):
                    self._recording.write(*carrier.taken())
                updates = int(prepared.planner.updates.sum()) - carrier.n_refused
                self._done = updates * prepared.executor.work.training.local_epochs
                self._reached = tick.time
                self._report(tick.time, tick.round, time.perf_counter() - begin)
        finally:
            self._timed.seconds["bookkeeping"] = carrier.bookkeeping_seconds

    def _report(self, at: float, round_: int, seconds: float) -> None:
        """Score the models and the attacks, and write what was found."""
        prepared = self._prepared
        with self._timed("utility"):
            self._utility_now = self._utility.measure(prepared.planner.current)
        with self._timed("attacks"):
            rankings = [r for meter in prepared.meters for r in meter.call(meter.attack.rankings)]
            rows = self._record.score(rankings, time=at, round=round_)
            guesses = (guess for attack in prepared.attacks for guess in attack.guesses())
            self._membership_now = self._record.judge(guesses, round=round_)
        with self._timed("log"):
            self._recording.spend(*self._ledger.changes(prepared.planner.updates), time=at)
            self._recording.mark("round", time=at, round=round_)
            self._recording.mark("evaluate", time=at, round=round_)
            self._directory.metrics.append(
                {"time": at, "round": round_, "metric": name, "value": value}
                for name, value in self._metrics(round_)
            )
            self._directory.attacks.append(rows)
        headline = {f"AAC {row['observer']}": row["aac"] for row in rows[:1]}
        headline.update(list(self._utility_now.items())[:1])
        self._say.tick(
            Status(
                time=at,
                round=round_,
                updates=self._done,
                total_updates=prepared.epochs,
                seconds=seconds,
                headline=headline,
            )
        )

    def _metrics(self, round_: int) -> Iterator[tuple[str, float]]:
        yield from self._utility_now.items()
        met = self._prepared.protocol.predicted_fraction_met(round_)
        if met is not None:
            yield "predicted_fraction_met", met
        yield from metric_rows(self._membership_now)

    def close(self, status: str) -> None:
        """Write the summary and end the run."""
        seconds = time.perf_counter() - self._begin
        self._directory.write_adversaries(self._record.adversaries())
        membership = self._record.membership()
        self._directory.write_summary(
            {
                **self._prepared.sizes(),
                "status": status,
                "node_updates": self._done,
                "virtual_time": self._reached,
                "wall_seconds": seconds,
                "node_updates_per_second": self._done / seconds,
                "peak_rss_mib": peak_rss_mib(),
                "needed_mib": {name: size / 2**20 for name, size in self._prepared.needed.items()},
                "seconds": self._timed.seconds,
                "utility": self._utility_now,
                "attacks": self._record.summary(),
                "privacy": self._ledger.summary(),
                "attack_seconds": seconds_by_label(self._prepared.meters),
                **({"membership": membership} if membership else {}),
            }
        )
        self._directory.finish(status)
