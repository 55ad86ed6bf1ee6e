"""Robust merging in gossip: what a node receives waits in an inbox, and an aggregation rule makes one model of it."""

from __future__ import annotations

from pydantic import Field, model_validator

from gossiprec.aggregators import InboxRule
from gossiprec.aggregators.base import Invalid
from gossiprec.aggregators.rule import Rule, make_rule, refuse_changes
from gossiprec.compute.plan.tape import Behaviour, Op
from gossiprec.errors import ScenarioError
from gossiprec.named import name_of
from gossiprec.options import LARGEST, Options
from gossiprec.policies import POLICIES
from gossiprec.policies.base import Policy


class RobustMergeOptions(Options):
    """Options of robust merging."""

    rule: Rule = Field(description="an aggregator, such as median, or {name: krum, byzantine: 2}")
    buffer: int = Field(
        default=8, ge=1, le=LARGEST, description="of what came since the last wake, only so many models count"
    )
    invalid: Invalid = Field(
        default="fatal",
        description="models with a number that is not finite: fatal ends the run, discard leaves them out",
    )

    @model_validator(mode="after")
    def _of_models(self) -> RobustMergeOptions:
        refuse_changes(self.rule, "rule", "nodes of gossip")
        return self


@POLICIES.register("robust-merge")
class RobustMerge(Policy):
    """Until its next wake a node collects models; it then goes on with what the rule makes of them and its own."""

    Options = RobustMergeOptions
    options: RobustMergeOptions

    def check_behaviour(self, behaviour: Behaviour) -> None:
        """Refuse nodes that do not merge what they receive by weights, or that read their model at once."""
        if behaviour.on_receive in ((Op.BLEND,), (Op.AVERAGE,)):
            return
        streams = (
            "adopts it" if Op.ADOPT in behaviour.on_receive
            else "trains on what it receives at once (train_on: receive)" if Op.BLEND in behaviour.on_receive
            else "weighs each model by its performance as it comes"
        )  # fmt: skip
        raise ScenarioError(
            f"policies: robust-merge: {name_of(self.options.rule)!r} wants an inbox, but with this protocol a node "
            f"{streams}; use rand-gossip with train_on: wake, or for a coordinator protocol.merge of fedavg"
        )

    def inbox(self) -> InboxRule:
        """Return the rule."""
        rule, buffer = self.options.rule, self.options.buffer
        return InboxRule(
            name_of(rule), lambda: make_rule(rule), buffer, buffer, buffer + 1, self.options.invalid
        )
