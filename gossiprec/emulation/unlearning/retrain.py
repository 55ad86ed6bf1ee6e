"""Retraining: the whole run again without the users' data, which is the counterfactual itself."""

from __future__ import annotations

from gossiprec.emulation.assembly.prepare import PreparedRun
from gossiprec.emulation.unlearning import UNLEARNERS, Forgotten, Unlearner, UnlearningRequest


@UNLEARNERS.register("retrain")
class Retrain(Unlearner):
    """The run again from the start, without the users' data: exact, and as costly as the run."""

    def check(self, prepared: PreparedRun) -> None:
        """Allow all runs."""

    def forget(self, request: UnlearningRequest) -> Forgotten:
        """Return the models of the counterfactual run."""
        live = request.start(request.without)
        return Forgotten.by_run(live, live.finish())
