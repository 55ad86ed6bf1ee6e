"""Estimates of progress: how much of the network a node can have met, as the protocol predicts."""

from __future__ import annotations

from gossiprec.emulation.run.run_part import RUN_PARTS, ReportInProgress, RunPart


@RUN_PARTS.register("predicted-reach")
class PredictedReach(RunPart):
    """The shares of users that a node can have met and heard of, if the protocol predicts them."""

    def after_utility(self, report: ReportInProgress) -> bool:
        """Add the predictions of a report."""
        for name in ("predicted_fraction_met", "predicted_fraction_heard"):
            predicted = getattr(self._run.prepared.components.protocol, name)(report.round)
            if predicted is not None:
                report.metrics[name] = predicted
        return False
