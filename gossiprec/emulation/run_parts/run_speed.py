"""The speed of a run, recorded on this machine for later estimates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gossiprec.emulation.assembly.prepare import PreparedRun
from gossiprec.emulation.estimate.timing import RunTiming, record_timing, run_kind, training_work
from gossiprec.emulation.run.run_part import RUN_PARTS, RunContext, RunPart


@RUN_PARTS.register("run-speed")
class RunSpeed(RunPart):
    """The speed of a run that trains its models.

    Parameters
    ----------
    prepared : PreparedRun
    """

    def __init__(self, prepared: PreparedRun) -> None:
        self._prepared = prepared

    @classmethod
    def make(cls, run: RunContext) -> RunSpeed | None:
        """Return the speed, unless models are read in place of training."""
        return cls(run.prepared) if run.trains else None

    def end(self, status: str, summary: Mapping[str, Any]) -> None:
        """Record the speed of a complete run."""
        if status != "complete":
            return
        prepared, parts = self._prepared, summary["seconds"]
        mean = float(prepared.components.feed.n_samples(prepared.components.training.negatives).mean())
        samples = prepared.components.mode.samples_per_epoch(mean, prepared.components.protocol.n_users)
        work = training_work(
            prepared.components.model,
            prepared.components.layout,
            epochs=summary["node_updates"],
            samples=samples,
        )
        seconds = summary["wall_seconds"] - sum(parts.get(part, 0.0) for part in ("load", "compile", "setup"))
        if work > 0 and seconds > 0:
            kind = run_kind(prepared.components.scenario, prepared.executor.name)
            record_timing(kind, RunTiming(work, seconds, prepared.threads.size))
