"""The speed of a run, recorded on this machine for later estimates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gossiprec.emulation.estimate.timing import RunTiming, record_timing, run_kind, training_work
from gossiprec.emulation.run.run_part import RUN_PARTS, RunContext, RunPart


@RUN_PARTS.register("run-speed")
class RunSpeed(RunPart):
    """The speed of a run that trains its models."""

    @classmethod
    def make(cls, run: RunContext) -> RunSpeed | None:
        """Return the speed, unless models are read in place of training."""
        return cls(run) if run.prepared.carrier.trains else None

    def end(self, status: str, summary: Mapping[str, Any]) -> None:
        """Record the speed of a complete run."""
        if status != "complete":
            return
        prepared, components, parts = self._run.prepared, self._run.prepared.components, summary["seconds"]
        mean = float(components.feed.n_samples(components.training.negatives).mean())
        samples = components.mode.samples_per_epoch(mean, components.protocol.n_users)
        epochs = summary["node_updates"]
        work = training_work(components.model, components.layout, epochs=epochs, samples=samples)
        seconds = summary["wall_seconds"] - sum(parts.get(part, 0.0) for part in ("load", "compile", "setup"))
        if work > 0 and seconds > 0:
            kind = run_kind(components.scenario, prepared.executor.name)
            record_timing(kind, RunTiming(work, seconds, prepared.threads.size))
