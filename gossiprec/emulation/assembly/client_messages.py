"""What leaves clients that hold no model of their own (``protocol.client_model: none``)."""

from __future__ import annotations

import numpy as np

from gossiprec.compute.messages import Outgoing, Transform
from gossiprec.errors import ScenarioError
from gossiprec.models import Layout, Role
from gossiprec.protocols import Protocol
from gossiprec.scenario import Scenario
from gossiprec.servers import Server


class KeepsOwnPart(Transform):
    """Leaves the user's row at home; private weights never leave."""

    hides = frozenset({Role.USER})


def keep_own_parts(
    scenario: Scenario,
    protocol: Protocol,
    outgoing: Outgoing,
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
        outgoing.add("protocol.client_model", KeepsOwnPart(), np.arange(n_telling, protocol.n_nodes))
    if scenario.executor.storage != "float32":
        raise refused(f"executor.storage: found {scenario.executor.storage!r}; expected 'float32'")
    if scenario.churn.model == "reset":
        raise refused("churn.model: found 'reset'; expected 'kept', because a client has no model to lose")
    if scenario.network.bandwidth.limited:
        raise refused(
            "network.bandwidth: not supported here, because transfers are planned before the sizes "
            "of updates are known; remove it"
        )
    if server is not None and server.n_versions > 1:
        raise refused(
            "protocol.server: clients without a model are evaluated with a single version; choose a "
            "server that publishes one version"
        )


def refused(why: str) -> ScenarioError:
    """Return the error of a scenario that asks for what updates cannot do."""
    return ScenarioError(f"{why}, or set protocol.client_model to own")
