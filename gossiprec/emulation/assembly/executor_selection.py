"""Which executor a run takes: what ``executor: auto`` stands for."""

from __future__ import annotations

from gossiprec.compute.executors import EXECUTORS
from gossiprec.compute.train.local_update import TrainingSettings
from gossiprec.compute.train.node_settings import NodeSettings, TrainingMode
from gossiprec.emulation.assembly.client_transforms import unsupported_with_updates
from gossiprec.errors import ScenarioError
from gossiprec.feeds import SequenceFeed
from gossiprec.machine import usable_cores
from gossiprec.models import Layout, Model
from gossiprec.recommenders import Recommender
from gossiprec.recommenders.analytic_support import missing_analytic_gradient
from gossiprec.scenario import Scenario

FEW_EPOCHS = 3_000
"""Local epochs below which ``executor: auto`` takes the reference: compiling would last longer."""
FEW_PRIVATE_EPOCHS = 300
"""The same under DP-SGD, where the reference takes one sample after the other."""
FEW_CLIENT_EPOCHS = 300
"""The same of clients that hold no model."""


def choose_executor(
    scenario: Scenario,
    model: Model,
    training: TrainingSettings,
    settings: NodeSettings,
    epochs: int,
    layout: Layout,
) -> str:
    """Return the name of what trains and scores the models that nodes hold.

    Parameters
    ----------
    scenario : Scenario
    model : Model
    training : TrainingSettings
    settings : NodeSettings
    epochs : int
        Local epochs of the whole run.
    layout : Layout
        Of the models that nodes hold.

    Raises
    ------
    ScenarioError
        If the run is to be portable, and the model or its training has no kernels.
    """
    executor = scenario.executor
    if executor.portable:
        _need_kernels(EXECUTORS["fused"].lacks(model, training, executor.storage, settings, layout))
        return "fused"
    if executor.computes != "auto":
        return executor.computes
    if executor.device == "cuda":
        return "batched"
    private = (settings.kinds == TrainingMode.PRIVATE).any()
    if epochs < (FEW_PRIVATE_EPOCHS if private else FEW_EPOCHS):
        return "reference"
    lacking = EXECUTORS["fused"].lacks(model, training, executor.storage, settings, layout)
    return "fused" if lacking is None else "batched"


def choose_central_executor(scenario: Scenario) -> str:
    """Return the name of what trains and scores a coordinator's model of everybody's data."""
    return "batched" if scenario.executor.name == "auto" else scenario.executor.name


def choose_client_executors(
    scenario: Scenario,
    model: Model,
    training: TrainingSettings,
    recommender: Recommender | None,
    settings: NodeSettings,
    epochs: int,
) -> tuple[str, str]:
    """Return the names of the executors that train clients without a model, and that score.

    Raises
    ------
    ScenarioError
        If the scenario asks for ``fused``, and the gradient of what it trains is not written out; or for ``portable``,
        and something is not compiled.
    """
    executor, name = scenario.executor, scenario.executor.computes
    lacking = _lacks_gradient(model, training, recommender, settings)
    if name == "fused" and lacking:
        raise unsupported_with_updates(
            f"executor.name: 'fused' has no analytic gradient for {lacking}; use 'batched' or 'auto'"
        )
    if name == "fused" and executor.device == "cuda":
        raise unsupported_with_updates("executor.device: 'fused' computes on the CPU; use 'batched' for cuda")
    own_row = model.layout(1)  # of the users' rows, clients hold their own
    uncompiled = EXECUTORS["fused"].lacks(model, training, "float32", settings, own_row)
    if executor.portable:
        _need_kernels(lacking or uncompiled)
        return "fused", "fused"
    compiled = uncompiled is None
    if name == "fused":
        return "fused", "fused" if compiled else "batched"
    if name != "auto":
        return name, name
    if executor.device == "cuda":
        return "batched", "batched"
    few = epochs < FEW_CLIENT_EPOCHS
    trains = "fused" if lacking is None else "reference" if few else "batched"
    scores = "fused" if compiled and not few else "reference" if trains == "reference" else "batched"
    return trains, scores


def _need_kernels(lacking: str | None) -> None:
    if lacking is not None:
        raise ScenarioError(
            f"executor.portable: found true, but there are no compiled kernels for {lacking}, and the last "
            "digits of torch's results depend on the processor; remove executor.portable"
        )


def _lacks_gradient(
    model: Model, training: TrainingSettings, recommender: Recommender | None, settings: NodeSettings
) -> str | None:
    """Return what no gradient is written out for, or None."""
    lacking = missing_analytic_gradient(model, recommender)
    if lacking is not None:
        return lacking
    if training.batch_size is not None and model.feed is not SequenceFeed:  # of which a client has one
        return f"batches of {training.batch_size} (training.batch_size)"
    if (settings.kinds != TrainingMode.PLAIN).any():
        return "training that policies change"
    return None


def thread_count(scenario: Scenario) -> int:
    """Return how many threads compute."""
    asked, shards = scenario.executor.threads, scenario.executor.shards
    return max(1, usable_cores() // shards) if asked == "auto" else asked
