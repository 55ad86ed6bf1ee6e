"""Robust merging in gossip: received models wait in an inbox, and an aggregation rule reduces them to one."""

from __future__ import annotations

from pydantic import model_validator

from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import Count, Options, registered_name
from gossiprec.compute.plan.tape import MERGING, Behaviour, Op
from gossiprec.defences import POLICIES, Policy
from gossiprec.rules import UsesRootData
from gossiprec.rules.aggregators import InboxConfig, Invalid, Rule, make_aggregator, reject_delta_rules


class RobustMergeOptions(Options):
    """Options of robust merging."""

    rule: Rule
    """an aggregator, such as median, or {name: krum, byzantine: 2}"""
    buffer: Count = 8
    """maximum number of models since the last wake that count"""
    invalid: Invalid = "fatal"
    """models with NaN or infinite values: fatal ends the run, discard drops them"""

    @model_validator(mode="after")
    def _of_models(self) -> RobustMergeOptions:
        reject_delta_rules(self.rule, "rule", "nodes of gossip")
        if isinstance(make_aggregator(self.rule), UsesRootData):
            raise ValueError(
                f"found rule {registered_name(self.rule)!r}, which computes on public data of a coordinator, but nodes "
                "of gossip have none; choose another rule, or set protocol.merge of fedavg"
            )
        return self


@POLICIES.register("robust-merge")
class RobustMerge(Policy):
    """A node collects models until its next wake; it then continues with the rule's result of them and its own."""

    Options = RobustMergeOptions
    options: RobustMergeOptions

    def check_behaviour(self, behaviour: Behaviour) -> None:
        """Refuse nodes that do not merge received models by weights, or that read their model at once."""
        found = behaviour.on_any_receive
        if found & MERGING and found <= {Op.BLEND, Op.AVERAGE, Op.PUSH}:
            return
        streams = (
            "adopts it" if Op.ADOPT in found
            else "trains immediately on each received model (train_on: receive)" if Op.BLEND in found
            else "weights each model by its performance on arrival"
        )  # fmt: skip
        raise ScenarioError(
            f"policies: robust-merge: {registered_name(self.options.rule)!r} requires an inbox, but with this "
            f"protocol a node {streams}; use rand-gossip with train_on: wake, or set protocol.merge of "
            "fedavg for a coordinator"
        )

    def inbox(self) -> InboxConfig:
        """Return the rule with its buffer."""
        rule, buffer = self.options.rule, self.options.buffer
        return InboxConfig(
            registered_name(rule),
            lambda: make_aggregator(rule),
            buffer,
            buffer,
            buffer + 1,
            self.options.invalid,
        )
