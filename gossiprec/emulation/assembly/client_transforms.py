"""What leaves clients that hold no model of their own (``protocol.client_model: none``)."""

from __future__ import annotations

import numpy as np

from gossiprec.compute.messages import OutgoingTransforms, Transform
from gossiprec.models import BlockRole, Layout
from gossiprec.modes.client_updates import unsupported_with_updates
from gossiprec.protocols import Protocol
from gossiprec.scenario import Scenario
from gossiprec.servers import Server


class WithholdPrivatePart(Transform):
    """Leaves the user's row at home; private weights never leave."""

    hides = frozenset({BlockRole.USER})


def withhold_user_rows(
    scenario: Scenario,
    protocol: Protocol,
    outgoing: OutgoingTransforms,
    layout: Layout,
    server: Server | None,
    n_telling: int,
) -> None:
    """Let nobody send a user's row but the first `n_telling` nodes, and refuse what does not go with updates yet.

    Raises
    ------
    ScenarioError
    """
    if layout.user_width:
        outgoing.add("protocol.client_model", WithholdPrivatePart(), np.arange(n_telling, protocol.n_nodes))
    if scenario.executor.storage != "float32":
        raise unsupported_with_updates(
            f"executor.storage: found {scenario.executor.storage!r}; expected 'float32'"
        )
    if scenario.churn.model == "reset":
        raise unsupported_with_updates(
            "churn.model: found 'reset'; expected 'kept', because a client has no model to lose"
        )
    if scenario.network.bandwidth.limited:
        raise unsupported_with_updates(
            "network.bandwidth: not supported here, because transfers are planned before the sizes "
            "of updates are known; remove it"
        )
    if server is not None and server.n_versions > 1:
        raise unsupported_with_updates(
            "protocol.server: clients without a model are evaluated with a single version; choose a "
            "server that publishes one version"
        )
