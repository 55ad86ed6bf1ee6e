"""A run in progress: its synchronised parts, its reports, its state, and its end."""

from __future__ import annotations

import functools
import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gossiprec.base.arrays import F32, I64
from gossiprec.base.machine import peak_rss_mib
from gossiprec.emulation.assembly.attack_hook import attack_seconds_by_label
from gossiprec.emulation.assembly.prepare import PreparedRun
from gossiprec.emulation.assembly.schedule import ReportTick
from gossiprec.emulation.assembly.user_groups import make_groups
from gossiprec.emulation.progress import ClockReadings, Status, StopRequest, Stopwatch, read_clocks
from gossiprec.emulation.run.checkpoint_writer import CheckpointWriter
from gossiprec.emulation.run.event_recorder import EventRecorder
from gossiprec.emulation.run.index_check import check_indices
from gossiprec.emulation.run.run_options import RunOptions
from gossiprec.emulation.run.run_part import START, Report, ReportInProgress, RunContext, make_parts
from gossiprec.emulation.scoring.attack_results import make_attack_results, membership_metric_rows
from gossiprec.emulation.scoring.positions import write_positions
from gossiprec.emulation.scoring.remarks import make_remarks
from gossiprec.emulation.scoring.utility import make_utility_evaluator
from gossiprec.runs import RunDirectory
from gossiprec.runs.run_tables import labels_to_json
from gossiprec.scenario.network import Churn, NetworkOptions


@dataclass(frozen=True)
class RunCosts:
    """Rounds done, and their cost: wall seconds in total and by part, processor seconds, and memory."""

    rounds: int = 0
    simulating: float = 0.0
    wall: float = 0.0
    processor: float = 0.0
    peak_rss_mib: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)
    attack_seconds: dict[str, float] = field(default_factory=dict)


def _add_times(earlier: Mapping[str, float], later: Mapping[str, float]) -> dict[str, float]:
    """Return the sum of times by part, in the order of the later process."""
    return {part: earlier.get(part, 0.0) + later.get(part, 0.0) for part in (*later, *earlier)}


def _check_entries(part: str, found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    names = (expected.keys() - found.keys(), found.keys() - expected.keys())
    missing, surplus = (", ".join(sorted(keys)) or "nothing" for keys in names)
    if any(names):
        raise ValueError(f"{part} lacks {missing} and has {surplus} in excess")


class ActiveRun:
    """A run in progress, with its records and its times.

    Parameters
    ----------
    prepared : PreparedRun
    directory : RunDirectory
    options : RunOptions
    begin : ClockReadings
        The clock readings when work on the run began.

    Attributes
    ----------
    report : Report
        The last report; :data:`.START` before the first one.
    """

    def __init__(
        self, prepared: PreparedRun, directory: RunDirectory, options: RunOptions, begin: ClockReadings
    ) -> None:
        self.prepared = prepared
        self._carrier = prepared.carrier
        self.directory = directory
        self._progress = progress = options.progress
        self._begin = begin
        self._simulating = 0.0
        self._earlier = RunCosts()
        self._timed = Stopwatch()
        self._timed.seconds.update(prepared.seconds)
        self._done, self._updates = 0, 0
        self._reached, self._rounds = 0.0, 0
        self._ends_early = False
        self.report = START
        self._attacks = make_attack_results(
            prepared, make_groups(prepared.components.scenario, prepared.components.split)
        )
        if len(adversaries := self._attacks.first_adversaries):
            progress.phase("computing ground-truth communities")
            with self._timed("communities"):
                self._attacks.rankings.find_communities(adversaries)
        progress.phase("initialising metrics")
        with self._timed("setup"):
            self._utility = make_utility_evaluator(prepared)
        self._utility_now: dict[str, float] = {}
        self.recording = EventRecorder(directory.log, prepared)
        self.parts = make_parts(RunContext(prepared, directory, self.recording, self._utility, options))
        self._tape_runner = prepared.tape_runner(self._timed)

    def state(self, now: float) -> dict[str, Any]:
        """Return the state of the run at a report at virtual time `now`, for a checkpoint.

        Raises
        ------
        NotImplementedError
            If an attack cannot return its state.
        """
        prepared = self.prepared
        return {
            **{name: part.state() for name, part in self._stateful().items()},
            "arena": prepared.executor.store.state(prepared.planner.needed_rows),
            "attacks": [attack.state(now) for attack in prepared.attacks],
            "done": self._done,
            "reached": self._reached,
            "utility": self._utility_now,
            "times": vars(self._times()),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the state that :meth:`state` returned.

        Raises
        ------
        ValueError
            If it holds other entries, as the state of another version of the code may, or impossible indices.
        """
        parts, fresh = self._stateful(), self.state(0.0)
        _check_entries("the state", state, fresh)
        for name in parts:
            _check_entries(name, state[name], fresh[name])
        check_indices(state, fresh, self.prepared.components.split.n_items)
        for name, part in parts.items():
            part.restore(state[name])
        store = self.prepared.executor.store
        store.grow(self.prepared.planner.capacity)
        store.restore(state["arena"])
        for attack, attack_state in zip(self.prepared.attacks, state["attacks"], strict=True):
            attack.restore(attack_state)
        self._done, self._reached, self._updates = state["done"], state["reached"], self._count_updates()
        self._utility_now = state["utility"]
        self._earlier = RunCosts(**state["times"])
        self._rounds = self._earlier.rounds

    def _stateful(self) -> dict[str, Any]:
        """Return the parts of the run that have a state, by name."""
        own = {"carrier": self._tape_runner, "attack_results": self._attacks, "recording": self.recording}
        return self.prepared.stateful | own | self.parts

    def execute(self, stop: StopRequest, after: int = 0) -> Iterator[None]:
        """Carry out the tape, segment by segment; continue after `after` reports if the state was restored.

        It yields before the first event, after each report, and at a pause of the schedule. No event is half done then,
        and the time until the next request does not count as time of the run.

        Raises
        ------
        KeyboardInterrupt
            If a stop is requested before the last report; a checkpoint of the report before then exists.
        """
        prepared, tape_runner = self.prepared, self._tape_runner
        checkpoints = CheckpointWriter(
            self.directory, prepared.components.scenario.checkpoint, self._progress, done=self._earlier.rounds
        )
        self._progress.phase("simulating" if after == 0 else f"resuming at virtual time {self._reached:g}")
        self._simulating, complete = time.perf_counter(), False
        try:
            if (yield from self._pause(stop)):
                raise KeyboardInterrupt
            self._begin_events(after)
            self._carrier.begin(after, tape_runner)
            number = after
            for tick in prepared.schedule.play(
                tape_runner.run_segment, after=after, replay_segment=tape_runner.replay_segment
            ):
                if tick.is_pause:  # no state for a checkpoint: a wanted stop waits for the next report
                    yield from self._pause(stop)
                    continue
                number += 1
                self._record_segment(tick)
                last = self._report(tick, self._times().simulating)
                ends_here = (yield from self._pause(stop)) and not last
                with self._timed("checkpoints"):
                    state = functools.partial(self._full_state, tick.time)
                    if not last:
                        checkpoints.start_if_due(tick, number, state, at_once=ends_here)
                    self._carrier.release_remote_rows()
                ends = ends_here or last
                changed = not ends and self._begin_events(number)
                self._carrier.continue_or_end(number, end=ends and not tick.last, changed=changed)
                if ends_here:
                    raise KeyboardInterrupt
                if last:
                    break
            complete = True
        finally:
            self._timed.seconds["bookkeeping"] = tape_runner.bookkeeping_seconds
            checkpoints.end_pending_write(keep=not complete)

    def _record_segment(self, tick: ReportTick) -> None:
        """Write the events up to a report to the log, and note how far the run is."""
        tape_runner, prepared = self._tape_runner, self.prepared
        with self._timed("log"):
            self._carrier.gather_update_sizes()
            self.recording.append_segment(*tape_runner.take_segments(), until=tick.time, last=tick.last)
        before, self._updates = self._updates, self._count_updates()
        self._done += (self._updates - before) * prepared.executor.work.training.local_epochs
        self._reached, self._rounds = tick.time, tick.round

    def _count_updates(self) -> int:
        """Return the number of local updates so far."""
        return int(self.prepared.planner.update_counts.sum()) - self._tape_runner.n_refused

    def change(self, option: str, value: Any) -> None:
        """Change an option of training after the last report (:meth:`.RunPart.change`)."""
        for part in self.parts.values():
            part.change(option, value)

    def _begin_events(self, after: int) -> bool:
        """Let the parts prepare for the events after a report; return whether the settings of training changed."""
        executor = self.prepared.executor
        before = executor.work.training
        for part in self.parts.values():
            part.before_events(after, time=self._reached, round=self._rounds)
        return executor.work.training is not before

    def _pause(self, stop: StopRequest) -> Generator[None, None, bool]:
        """Yield, leave the time until the next request out of the run's times, and return whether a stop is wanted."""
        before = read_clocks()
        yield
        idle = [now - then for now, then in zip(read_clocks(), before, strict=True)]
        self._begin = ClockReadings(*(begin + time for begin, time in zip(self._begin, idle, strict=True)))
        self._simulating += idle[0]
        return stop.wanted

    def _full_state(self, now: float) -> dict[str, Any]:
        self._carrier.gather_full_state()
        return self.state(now)

    def _times(self) -> RunCosts:
        """Return the costs of this process and of the processes before it."""
        now, before = read_clocks(), self._earlier
        seconds = {**self._timed.seconds, "bookkeeping": self._tape_runner.bookkeeping_seconds}
        if compiling := self._tape_runner.compiling_seconds:  # a part of "compute"
            seconds |= {
                "compile": seconds.get("compile", 0.0) + compiling,
                "compute": seconds["compute"] - compiling,
            }
        return RunCosts(
            rounds=self._rounds,
            simulating=before.simulating + now.wall - self._simulating,
            wall=before.wall + now.wall - self._begin.wall,
            processor=before.processor + now.processor - self._begin.processor,
            peak_rss_mib=max(before.peak_rss_mib, peak_rss_mib()),
            seconds=_add_times(before.seconds, seconds),
            attack_seconds=_add_times(before.attack_seconds, attack_seconds_by_label(self.prepared.meters)),
        )

    def _report(self, tick: ReportTick, seconds: float) -> bool:
        """Score the models and the attacks, write the results, and return whether this is the last report."""
        planner = self.prepared.planner
        report = ReportInProgress(
            tick.time, tick.round, tick.last, planner.update_counts, planner.push_counts
        )
        if not self._carrier.read_models(planner.current_rows):
            self._write_report(report, [], [], [], early=False)
            self.report = Report(tick.time, tick.round, {}, [], [], tick.last)
            return tick.last
        with self._timed("utility"):
            early = self._ends_early = self._score_models(report)
        last = tick.last or early
        with self._timed("log"):
            self._carrier.write(planner.current_rows, last=last)
        with self._timed("attacks"):
            for scheme in self.prepared.seams.schemes if last else ():
                scheme.show_final_model(self.prepared)
            self._carrier.gather_observer_state()
            rows, findings = self._attacks.report(time=tick.time, round=tick.round)
            report.per_node |= self._attacks.now_per_node
            for part in self.parts.values():
                part.after_attacks(report)
        metrics = [*report.utility.items(), *report.metrics.items(), *membership_metric_rows(findings)]
        with self._timed("log"):
            self._write_report(report, metrics, rows, findings, early=early)
        self.report = Report(tick.time, tick.round, dict(metrics), rows, findings, last)
        for part in self.parts.values():
            part.after_report(self.report)
        headline = {f"AAC {row['observer']}": row["aac"] for row in rows[:1]}
        headline.update(list(report.utility.items())[:1])
        self._progress.tick(
            Status(
                time=tick.time,
                round=tick.round,
                updates=self._done,
                total_updates=self.prepared.counts.epochs,
                seconds=seconds,
                headline=headline,
            )
        )
        return last

    def _score_models(self, report: ReportInProgress) -> bool:
        """Compute the utility of the models, and return whether it ends the run before its last report."""
        prepared = self.prepared
        inputs = self._carrier.gather_metric_inputs(self._utility)
        self._utility_now = report.utility = self._utility.measure(prepared.planner.current_rows, inputs)
        ends = [part.after_utility(report) for part in self.parts.values()]
        return any(ends)

    def _write_report(
        self,
        report: ReportInProgress,
        metrics: list[tuple[str, float]],
        rows: list[dict[str, Any]],
        findings: list[dict[str, Any]],
        *,
        early: bool,
    ) -> None:
        """Write the results to the log and the tables."""
        at, round_ = report.time, report.round
        for part in self.parts.values():
            for kind, columns in part.rows(report):
                self.directory.log.append(kind, columns)
        for event in ("round", "evaluate", *(["stop"] if early else [])):
            self.recording.append_round_event(event, time=at, round=round_)
        self.directory.metrics.append(
            {"time": at, "round": round_, "metric": name, "value": value} for name, value in metrics
        )
        self.directory.attacks.append(rows)
        self.directory.findings.append({**row, "labels": labels_to_json(row["labels"])} for row in findings)

    def _traffic(self) -> dict[str, Any]:
        """Return the counts of messages by outcome, unless every message simply arrives."""
        scenario = self.prepared.components.scenario
        if scenario.network == NetworkOptions() and scenario.churn == Churn():
            return {}
        online = self.prepared.components.protocol.availability.mean_online(self._reached)
        return {"network": self.recording.traffic.summary(online), "messages": self.recording.traffic.sent}

    def _counts(self) -> dict[str, int]:
        """Return the counts of wakes and messages so far, for a run that ends before its last report."""
        rows = self.directory.log.rows
        return {"wakes": rows["wake"] + rows["miss"], "messages": self.recording.traffic.sent}

    def model(self, node: int) -> F32:
        """Return a copy of the present model of a node, a row in the layout of the run."""
        prepared, nodes = self.prepared, np.array([node], np.int64)
        self._carrier.bring(nodes)
        return prepared.executor.store.models(prepared.planner.current_rows, nodes)[0].astype(np.float32)

    def scores(self, users: I64) -> F32:
        """Return the scores of all items by the present models of some users before their test items."""
        return self._utility.scores_of_all(self.prepared.planner.current_rows, users, "test")

    def close(self, status: str) -> None:
        """Write the final records and end the run."""
        prepared = self.prepared
        self._progress.phase("measuring positions")
        with self._timed("positions"):
            of_attacks = self._attacks.values_per_node()
            write_positions(
                self.directory, prepared.attacks, of_attacks, prepared.components.protocol.n_nodes
            )
        with self._timed("utility"):
            remarks = make_remarks(prepared, self._utility, self._utility_now, self._reached)
        notes = [
            *self.directory.notes,
            *remarks.notes(),
            *self._attacks.notes(),
            *prepared.seams.reducer.notes(),
        ]
        times = self._times()
        for part in self.parts.values():
            part.close(self.directory)
        self.directory.add_to_manifest({} if self._carrier.trains else {"stored_versions": True})
        self.directory.write_adversaries(self._attacks.rankings.adversaries())
        self.directory.write_hits(self._attacks.rankings.hits())
        summary: dict[str, Any] = {
            **prepared.sizes(),
            "status": status,
            "node_updates": self._done,
            "virtual_time": self._reached,
            "wall_seconds": times.wall,
            "processor_seconds": times.processor,
            "node_updates_per_second": self._done / times.wall,
            "peak_rss_mib": times.peak_rss_mib,
            "needed_mib": {name: size / 2**20 for name, size in prepared.memory_bytes.items()},
            "seconds": times.seconds,
            **self.directory.checkpoints.summary(),
            "utility": self._utility_now,
            **self._utility.sample_summary(),
            **self._attacks.summary(),
            "attack_seconds": times.attack_seconds,
            **prepared.components.protocol.report(),
            **prepared.seams.reducer.report(),
            **self._recommender_report(),
            "bytes": self.recording.traffic.bytes,
            **self._carrier.summary(),
            **self._traffic(),
            **({} if status == "complete" and not self._ends_early else self._counts()),
            **remarks.summary(),
            **({"notes": notes} if notes else {}),
        }
        for part in self.parts.values():
            found = dict(part.summary())
            summary["utility"] = summary["utility"] | found.pop("utility", {})
            summary |= found
        self.directory.write_summary(summary)
        self.directory.finish(status)
        self.end_parts(status, summary)

    def end_parts(self, status: str, summary: Mapping[str, Any] | None = None) -> None:
        """End the parts; without a summary, because the run failed."""
        for part in self.parts.values():
            part.end(status, summary or {})

    def _recommender_report(self) -> dict[str, Any]:
        """Return the recommender's report, with the figures of its attack on uploads."""
        prepared = self.prepared
        report = prepared.recommender_report()
        with self._timed("attacks"):
            for section, figures in self._attacks.figures_of_uploads():
                report[section]["leaks"] = figures
        return report
