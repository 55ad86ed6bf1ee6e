"""The interface of schemes of messages, by which receivers do not read whole models one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from gossiprec.base.arrays import I32, I64
from gossiprec.base.registry import Registry
from gossiprec.rules.aggregators import InboxConfig
from gossiprec.runs.checkpoint_state import Stateful

if TYPE_CHECKING:
    from gossiprec.adversaries.attacks import Attack
    from gossiprec.compute.executors import Executor
    from gossiprec.compute.inbox_reducer import ReceiverConfig
    from gossiprec.compute.messages import OutgoingTransforms
    from gossiprec.compute.plan.tape import TapeSegment
    from gossiprec.compute.waves import WaveStep
    from gossiprec.defences import Policy
    from gossiprec.emulation.assembly.attack_hook import AttackHook, Completion, Piece
    from gossiprec.emulation.assembly.components import NodeLoad, RunComponents
    from gossiprec.emulation.assembly.prepare import PreparedRun
    from gossiprec.emulation.assembly.schedule import Schedule
    from gossiprec.modes import RunMode
    from gossiprec.network.protocols import Protocol
    from gossiprec.rules.servers import Server
    from gossiprec.runs.reader import Columns
    from gossiprec.scenario import Scenario


NamedRules: TypeAlias = list[tuple[str, I64, InboxConfig | None]]
"""Rules of aggregation, each with the part of the scenario that names it, and with its nodes."""


class MessageScheme(Stateful):
    """A scheme by which receivers do not read whole models one by one: what it changes in each seam of a run.

    Class methods are called while the components are made, the others in the order below.

    Parameters
    ----------
    components : RunComponents
    executor : Executor
    schedule : Schedule
    """

    control_kinds: Sequence[str] = ()
    """Kinds of messages without a model that it adds to the log."""
    steps: Sequence[WaveStep] = ()
    """Steps of each wave, after inboxes are reduced and before messages are rewritten."""
    pieces: Sequence[Piece] = ()
    """What an observer sees under each virtual node of a sender; none if nodes send under their own ids."""

    def __init__(self, components: RunComponents, executor: Executor, schedule: Schedule) -> None:
        self.packed: I64 = np.zeros(components.protocol.n_nodes, np.int64)
        """Count of numbers in the packed rows that each node sends; 0 for other rows."""

    @classmethod
    def change_outgoing(
        cls, scenario: Scenario, protocol: Protocol, outgoing: OutgoingTransforms, server: Server | None
    ) -> None:
        """Add transforms to the nodes' messages.

        Raises
        ------
        ScenarioError
            If the scheme does not fit the protocol.
        """

    @classmethod
    def more_rules(cls, protocol: Protocol, rules: NamedRules) -> NamedRules:
        """Return further rules by which nodes aggregate, given those of policies and of the coordinator.

        Raises
        ------
        ScenarioError
            If a given rule cannot reduce the messages.
        """
        return []

    @classmethod
    def check(cls, components: RunComponents) -> None:
        """Refuse components that need whole models of single senders.

        Raises
        ------
        ScenarioError
        """

    @classmethod
    def node_load(cls, components: RunComponents) -> NodeLoad:
        """Return the sizes of messages, and the training samples.

        Raises
        ------
        ScenarioError
        """
        return components.node_load

    def views(self, attacks: list[Attack]) -> Completion | None:
        """Return the completion of models for attacks, or None if these are whole."""
        return None

    def hide(self, meters: list[AttackHook]) -> None:
        """Hide from attacks what their nodes do not see."""

    def receivers(self, receivers: dict[int, ReceiverConfig]) -> dict[int, ReceiverConfig]:
        """Return how nodes reduce what they received."""
        return receivers

    def read_segment(self, segment: TapeSegment) -> None:
        """Read a segment of tape before it is planned."""

    def replay_segment(self, segment: TapeSegment) -> None:
        """Read a segment of tape that an earlier process carried out."""

    def set_sizes(self, sizes: I32, segment: TapeSegment) -> None:
        """Set the bytes of those of a segment's messages of which the scheme decides the size."""

    def control_rows(self) -> Iterator[Columns]:
        """Yield messages without a model since the last call, as columns of the log's kind ``control``."""
        return iter(())

    def show_final_model(self, prepared: PreparedRun) -> None:
        """Show attacks the model at the end, if they see no other."""


SCHEMES: Registry[type[MessageScheme]] = Registry("scheme of messages", "gossiprec.emulation.schemes")


def find_schemes(
    scenario: Scenario, policies: Sequence[Policy], outgoing: OutgoingTransforms, mode: RunMode
) -> list[type[MessageScheme]]:
    """Return the schemes that the coordinator, the policies and the transforms of messages ask for."""
    parts = outgoing.nodes_with("is_partial").any() and not mode.sizes_follow_training
    asked = scenario.coordinator.scheme, *(policy.scheme for policy in policies), "parts" if parts else None
    return [SCHEMES[name] for name in dict.fromkeys(asked) if name is not None]
