"""Estimates of progress: how much of the network a node can have met, as the protocol predicts."""

from __future__ import annotations

from gossiprec.emulation.run.run_part import RUN_PARTS, ReportInProgress, RunContext, RunPart
from gossiprec.network.protocols import Protocol


@RUN_PARTS.register("predicted-reach")
class PredictedReach(RunPart):
    """The shares of users that a node can have met and heard of, for ``metrics.csv``.

    Parameters
    ----------
    protocol : Protocol
    """

    def __init__(self, protocol: Protocol) -> None:
        self._protocol = protocol

    @classmethod
    def make(cls, run: RunContext) -> PredictedReach:
        """Return the shares; a protocol without a prediction has none."""
        return cls(run.prepared.components.protocol)

    def after_utility(self, report: ReportInProgress) -> bool:
        """Add the predictions of a report."""
        for name in ("predicted_fraction_met", "predicted_fraction_heard"):
            predicted = getattr(self._protocol, name)(report.round)
            if predicted is not None:
                report.metrics[name] = predicted
        return False
