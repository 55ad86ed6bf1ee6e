"""Fine-tuning: nodes continue training from the final models, without the users' data.

Notes
-----
Nothing is removed: what the users' data changed fades only if the others' data overwrite it. So it is the usual
cheap baseline. Models and Adam's moments continue; a coordinator's server optimizer starts again. Draws are
those of the first rounds of a run, because a draw is a function of seed, purpose, node and counter. With DP-SGD local
updates are numbered on, because noise that is drawn twice would cancel out. Noise keeps its size of the run, also if
this follows from an epsilon and the number of updates.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import Options
from gossiprec.defences.ldp import LDP
from gossiprec.emulation.assembly.prepare import PreparedRun
from gossiprec.emulation.unlearning import UNLEARNERS, Forgotten, Unlearner, UnlearningRequest
from gossiprec.scenario import Scenario


class FineTuneOptions(Options):
    """Options of fine-tuning."""

    fraction: Annotated[float, Field(gt=0, le=100)] = 0.1
    """further rounds (wakes in gossip) as a fraction of those of the run, at least one"""


def shortened(scenario: Scenario, fraction: float) -> Scenario:
    """Return a scenario with a fraction of its rounds or wakes, without changes and rules that refer to rounds.

    A coordinator also merges the answers to its last push.
    """
    options = scenario.protocol.options
    key = "rounds" if hasattr(options, "rounds") else "wakes"
    update = {key: max(1, round(fraction * getattr(options, key)))}
    if hasattr(options, "merge_last"):
        update["merge_last"] = not getattr(options, "close_epochs", False)
    protocol = scenario.protocol.model_copy(update={"options": options.model_copy(update=update)})
    return scenario.with_(protocol=protocol, changes=(), stop=None)


@UNLEARNERS.register("fine-tune")
class FineTune(Unlearner):
    """Further rounds without the users' data: cheap, and removes nothing by itself."""

    Options = FineTuneOptions
    options: FineTuneOptions

    def check(self, prepared: PreparedRun) -> None:
        """Refuse a run without nodes that train, and noise on messages, of which the first draws would come again.

        Raises
        ------
        ScenarioError
        """
        super().check(prepared)
        for policy in prepared.components.policies:
            if isinstance(policy, LDP) and policy.options.scale > 0:
                raise ScenarioError(
                    "method fine-tune: found the policy ldp, and its noise on messages would be drawn twice and cancel "
                    "out; expected noise in training (dp-sgd), or none; use retrain"
                )

    def forget(self, request: UnlearningRequest) -> Forgotten:
        """Return the models after further rounds."""
        live = request.start(shortened(request.without, self.options.fraction))
        ended = request.models.prepared
        live.prepared.executor.store.continue_from(ended.executor.store, ended.planner.current_rows)
        settings, of_run = (run.executor.work.node_settings for run in (live.prepared, ended))
        before = np.zeros_like(ended.planner.update_counts)
        if of_run.noise_multiplier.any() or of_run.update_noise.any():
            before = ended.planner.update_counts
            live.prepared.planner.continue_from(ended.planner)
            for name in ("noise_multiplier", "update_noise"):
                getattr(settings, name)[:] = getattr(of_run, name)
        return Forgotten.by_run(live, live.finish(), before)
