"""What a run needs whose clients hold no model of their own (``protocol.client_model: none``)."""

from __future__ import annotations

import numpy as np

from gossiprec.compute.executors import EXECUTORS, Workload
from gossiprec.compute.executors.clients import AT_ONCE, ClientExecutor
from gossiprec.compute.messages import Outgoing, Transform
from gossiprec.compute.store.arena import Arena
from gossiprec.compute.store.updates import UpdateStore
from gossiprec.compute.train.local_update import TrainingSettings
from gossiprec.compute.train.node_settings import Kind, NodeSettings
from gossiprec.errors import ScenarioError
from gossiprec.feeds import Feed
from gossiprec.models import Layout, Model, Role
from gossiprec.protocols import Protocol
from gossiprec.scenario import Scenario
from gossiprec.servers import Server

FEW_EPOCHS = 300
"""Local epochs below which ``executor: auto`` takes the reference."""
VERSIONS = 4
"""Versions that are expected to be alive at a time: answers to an earlier one may be on their way."""


class KeepsOwnPart(Transform):
    """Leaves the user's row at home; private weights never leave."""

    hides = frozenset({Role.USER})


def make_client_executor(
    scenario: Scenario,
    n_nodes: int,
    model: Model,
    feed: Feed,
    layout: Layout,
    training: TrainingSettings,
    node_settings: NodeSettings,
    epochs: int,
) -> ClientExecutor:
    """Return what trains clients on the rows that they touch.

    Raises
    ------
    ScenarioError
        If the scenario asks for something that updates cannot do.
    """
    if (node_settings.kinds == Kind.PRIVATE).any():
        raise _refused(
            "policies: dp-sgd adds noise to every item, so that a client would touch them all and its update be no "
            "smaller than a model; leave the policy out"
        )
    if model.constants:
        raise _refused(
            f"model.name: {scenario.model.name} knows its items by constants, which go with whole models; take another"
        )
    name: str = scenario.executor.name
    if name == "auto":
        small = epochs < FEW_EPOCHS and scenario.executor.device != "cuda"
        name = "reference" if small else "batched"
    if name == "fused":
        raise _refused("executor.name: 'fused' trains whole models; use 'batched' or 'auto'")
    moments = training.optimizer == "adam"
    empty = Arena(layout, n_nodes=1, capacity=1, moments=False)
    work = Workload(model, layout, training, feed, empty, scenario.seed, node_settings)
    store = UpdateStore(model, layout, n_nodes=n_nodes, seed=scenario.seed, moments=moments)
    return ClientExecutor(EXECUTORS[name](work, scenario.executor.device), store)


def keep_own_parts(
    scenario: Scenario, protocol: Protocol, outgoing: Outgoing, layout: Layout, server: Server | None
) -> None:
    """Let nobody send a user's row, and refuse what does not go with updates yet.

    Raises
    ------
    ScenarioError
    """
    if layout.user_width:
        outgoing.add("protocol.client_model", KeepsOwnPart(), np.arange(protocol.n_nodes))
    rewriting = next((name for node in range(protocol.n_users) for name, _ in outgoing.rewriting(node)), None)
    if rewriting:
        raise _refused(f"policies: {rewriting} rewrites whole models; leave the policy out")
    if scenario.executor.storage != "float32":
        raise _refused(f"executor.storage: found {scenario.executor.storage!r}, must be float32")
    if scenario.churn.model == "reset":
        raise _refused("churn.model: found 'reset', must be 'kept': a client has no model to lose")
    if scenario.network.bandwidth.limited:
        raise _refused(
            "network.bandwidth: transfers are planned before it is known how large updates are; leave it out"
        )
    if server is not None and server.n_versions > 1:
        raise _refused(
            "protocol.server: clients without a model are evaluated with one version; take a server of one"
        )


def needed_by_clients(layout: Layout, training: TrainingSettings, feed: Feed, answers: int) -> dict[str, int]:
    """Return the bytes of versions, of so many answers on their way, and of what clients keep; by part."""
    touched = float(np.minimum(feed.n_samples(training.negatives), layout.n_items).mean())
    own = len(feed.positives) * (layout.size - layout.merged.stop + layout.merged.start)
    kept = 3 if training.optimizer == "adam" else 1
    return {
        "versions": 4 * VERSIONS * layout.row_size,
        "updates": int(4 * answers * (touched * (1 + layout.item_width) + layout.n_shared)),
        "clients": 4 * kept * own,
        "training": 4 * 4 * AT_ONCE,
    }


def _refused(why: str) -> ScenarioError:
    return ScenarioError(f"{why}, or set protocol.client_model to own")
