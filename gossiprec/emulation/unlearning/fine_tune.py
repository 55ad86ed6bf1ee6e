"""Fine-tuning: nodes continue training from the final models, without the users' data.

Notes
-----
Nothing is removed: what the users' data changed fades only if the others' data overwrite it. So it is the usual
cheap baseline. Models and Adam's moments continue; a coordinator's server optimizer starts again. Draws are
those of the first rounds of a run, because a draw is a function of seed, purpose, node and counter.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gossiprec.base.options import Options
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

    def forget(self, request: UnlearningRequest) -> Forgotten:
        """Return the models after further rounds."""
        live, ended = (
            request.start(shortened(request.without, self.options.fraction)),
            request.models.prepared,
        )
        live.prepared.executor.store.continue_from(ended.executor.store, ended.planner.current_rows)
        return Forgotten.by_run(live, live.finish())
