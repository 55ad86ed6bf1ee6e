"""What computes where a coordinator holds everybody's interactions (``protocol: {name: central}``)."""

from __future__ import annotations

from gossiprec.compute.executors import EXECUTORS, Executor, Workload
from gossiprec.compute.store.one_model import OneModel
from gossiprec.compute.train.node_settings import NodeSettings
from gossiprec.emulation.assembly.choosing import choose_central_executor
from gossiprec.emulation.assembly.participants import Cast
from gossiprec.errors import ScenarioError


def make_central_executor(cast: Cast, settings: NodeSettings) -> Executor:
    """Return what trains the coordinator's model, with its first version.

    The users' rows, the items and the shared weights begin as they do in a federation of the same seed.

    Raises
    ------
    ScenarioError
        If an epoch does not fill one batch.
    """
    from gossiprec.compute.executors.central import CentralExecutor  # torch is slow to import

    scenario, model, layout, training = cast.scenario, cast.model, cast.layout, cast.training
    n_samples = int(cast.load.samples[-1]) // training.local_epochs
    if training.batch_size is not None and training.batch_size > n_samples:
        raise ScenarioError(
            f"training.batch_size: found {training.batch_size}, but an epoch has only {n_samples} samples; "
            "lower it, or set it to full"
        )
    arena = OneModel(layout, moments=training.optimizer == "adam")
    arena.rows[0] = model.initial_row(layout, scenario.seed)
    work = Workload(model, layout, training, cast.feed, arena, scenario.seed, settings)
    return CentralExecutor(work, EXECUTORS[choose_central_executor(scenario)](work, "cpu"))
