"""Client updates: clients hold no model except their own part, and answer a version with an update."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gossiprec.base.errors import ScenarioError
from gossiprec.modes import MODES, MemoryInputs, RunMode, StoreMemory, TrainingOutline, require_kernels

if TYPE_CHECKING:
    from gossiprec.base.arrays import I64
    from gossiprec.compute.executors import Executor, ExecutorContext
    from gossiprec.compute.executors.clients import ClientTrainer
    from gossiprec.compute.local_update import NodeSettings
    from gossiprec.compute.messages import OutgoingTransforms
    from gossiprec.compute.store.update_store import UpdateStore
    from gossiprec.emulation.assembly.components import RunComponents
    from gossiprec.rules.servers import Server
    from gossiprec.scenario import Scenario
    from gossiprec.scenario.definition import RegisteredChoice

FEW_CLIENT_EPOCHS = 300
"""Local epochs below which ``executor: auto`` takes the reference: compiling would last longer."""
VERSIONS = 4
"""Number of versions expected to be in use at once: answers to an earlier version may be in transit."""
SIDE_BY_SIDE = 2
"""Copies of waiting updates that a robust rule stacks to compare them."""
HANDLES_PER_ANSWER = 4
"""Planner handles of a client in a round: received, trained and sent versions."""


@MODES.register("client-updates")
class ClientUpdates(RunMode):
    """The mode in which clients hold no model except their own part."""

    title = "clients without a model"
    plans_by_round = True
    sizes_follow_training = True
    reveals_items = True

    def has_interaction_graph(self, model: type) -> bool:
        """Return whether the model can be trained on the graph of each client's own interactions."""
        return bool(getattr(model, "at_clients", False))

    def training_executor(self, outline: TrainingOutline) -> str:
        """Return the name of the executor that trains clients."""
        return self.select_executors(outline)[0]

    def select_executors(self, outline: TrainingOutline) -> tuple[str, str]:
        """Return the names of the executors that train clients, and that score.

        Raises
        ------
        ScenarioError
            If the scenario requires ``fused``, and the training has no compiled gradient; or
            ``portable``, and something is not compiled.
        """
        from gossiprec.compute.executors import EXECUTORS

        model, training, executor = outline.model, outline.training, outline.scenario.executor
        name = executor.computing_executor
        missing = self.uncompiled_part(outline)
        if name == "fused" and missing:
            raise unsupported_with_updates(
                f"executor.name: 'fused' has no compiled gradient for {missing}; use 'batched' or 'auto'"
            )
        if name == "fused" and executor.device == "cuda":
            raise unsupported_with_updates(
                "executor.device: 'fused' computes on the CPU; use 'batched' for cuda"
            )
        own_row = model.layout(1)  # of the users' rows, a client holds its own
        fused = EXECUTORS["fused"]
        uncompiled = fused.missing_scores(model)
        uncompiled = uncompiled or fused.missing_feature(
            model, training, "float32", outline.settings, own_row
        )
        if executor.portable:
            require_kernels(missing or uncompiled)
            return "fused", "fused"
        compiled = uncompiled is None
        if name == "fused":
            return "fused", "fused" if compiled else "batched"
        if name != "auto":
            return name, name
        if executor.device == "cuda":
            return "batched", "batched"
        few = outline.epochs < FEW_CLIENT_EPOCHS
        trains = "fused" if missing is None else "reference" if few else "batched"
        scores = "fused" if compiled and not few else "reference" if trains == "reference" else "batched"
        return trains, scores

    def uncompiled_part(self, outline: TrainingOutline) -> str | None:
        """Return the part of the training without a compiled gradient, or None."""
        return _missing_gradient(outline)

    def make_executor(
        self, components: RunComponents, outline: TrainingOutline, *, divided: bool
    ) -> Executor:
        """Return the executor that trains clients on the rows that they touch, with its store of updates."""
        from gossiprec.compute.executors import EXECUTORS, ExecutorContext
        from gossiprec.compute.executors.clients import ClientExecutor
        from gossiprec.compute.store.arena import Arena

        self._check_model(components, outline.settings)
        scenario, model, layout = components.scenario, components.model, components.layout
        empty = Arena(layout, n_nodes=1, capacity=1, moments=False)
        work = ExecutorContext(
            model, layout, components.training, components.feed, empty, scenario.seed, outline.settings,
            recommender=components.coordination.recommender,
        )  # fmt: skip
        store = _make_store(components)
        training, scoring = self.select_executors(outline)
        device = scenario.executor.device
        return ClientExecutor(_make_trainer(training, work, store, device), EXECUTORS[scoring](work, device))

    def _check_model(self, components: RunComponents, settings: NodeSettings) -> None:
        """Refuse models and training for which an update would need more than the rows that a client touches."""
        from gossiprec.compute.local_update import TrainingMode
        from gossiprec.models.base.sequence_model import SequenceModel

        model, name = components.model, components.scenario.model.name
        if ((settings.training_modes == TrainingMode.PRIVATE) | (settings.update_clip > 0)).any():
            raise unsupported_with_updates(
                "policies: dp-sgd adds noise to every item, so a client would touch all items and its update "
                "would be as large as a model; remove the policy"
            )
        if model.constants:
            raise unsupported_with_updates(
                f"model.name: {name} identifies items by constants, which are part of "
                "whole models; choose another model"
            )
        if isinstance(model, SequenceModel) and model.needs_all_items:
            chosen = "loss" in type(model.options).model_fields
            found = f"model.loss: {name} with loss 'all'" if chosen else f"model.name: {name}"
            raise unsupported_with_updates(
                f"{found} contrasts an item with all other items, but a client without a model holds only a few; "
                + ("set it to sampled" if chosen else "choose another model")
            )

    def check_recommender(self, choice: RegisteredChoice) -> None:
        """Allow all recommenders: they add to the computation of clients and coordinator."""

    def check_node_observer(self, label: str) -> None:
        """Refuse the attack: clients receive the coordinator's versions only."""
        raise unsupported_with_updates(
            f"observers: {label} observes what single clients receive, but these hold no model and receive "
            "only the coordinator's; use cda or entropy-mia with who: coordinator, or aia"
        )

    def add_transforms(
        self, outgoing: OutgoingTransforms, scenario: Scenario, server: Server | None, nodes: I64
    ) -> None:
        """Leave the user's row out of messages, and refuse messages and networks that updates cannot have."""
        from gossiprec.compute.messages import WithholdUserRow

        if outgoing.layout.user_width:
            outgoing.add("protocol.client_model", WithholdUserRow(), nodes)
        storage = scenario.executor.storage
        if storage != "float32":
            raise unsupported_with_updates(f"executor.storage: found {storage!r}; expected 'float32'")
        if scenario.churn.model == "reset":
            raise unsupported_with_updates(
                "churn.model: found 'reset'; expected 'kept', because a client has no model to lose"
            )
        if scenario.network.bandwidth.is_limited:
            raise unsupported_with_updates(
                "network.bandwidth: not supported here, because transfers are planned before the sizes "
                "of updates are known; remove it"
            )
        if server is not None and server.n_versions > 1:
            raise unsupported_with_updates(
                "protocol.server: clients without a model are evaluated with a single version; choose a "
                "server that publishes one version"
            )

    def memory(self, inputs: MemoryInputs) -> StoreMemory:
        """Return the memory of versions, answers in transit, clients' own parts and small models."""
        from gossiprec.compute.executors.submodel_trainer import AT_ONCE
        from gossiprec.federated import RECOMMENDERS

        choice = inputs.scenario.recommender
        layout, n_clients = inputs.layout, inputs.protocol.n_users
        touched = float(np.minimum(inputs.samples, layout.n_items).mean())
        own = n_clients * (layout.size - layout.merged.stop + layout.merged.start)
        kept = 3 if inputs.has_moments else 1
        updates = int(4 * inputs.waiting * (touched * (1 + layout.item_width) + layout.n_shared))
        sizes = {
            "versions": 4 * VERSIONS * layout.row_size,
            "updates": updates,
            **({"updates side by side": SIDE_BY_SIDE * updates} if inputs.stacks_updates else {}),
            "clients": 4 * kept * own,
            "training": 4 * 4 * AT_ONCE,
        }
        if choice and (held := RECOMMENDERS[choice.name].coordinator_bytes(layout, n_clients)):
            sizes["recommender"] = held
        return StoreMemory(sizes, inputs.protocol.n_nodes + inputs.waiting)

    def waiting_handles(self, waiting: int) -> int:
        """Return the handles of the versions that clients receive, train and send."""
        return HANDLES_PER_ANSWER * waiting


def _make_store(components: RunComponents) -> UpdateStore:
    """Return the store of updates, with the recommender's additions to the coordinator."""
    from gossiprec.compute.store.update_store import UpdateStore
    from gossiprec.federated import overrides_method

    store = UpdateStore(
        components.model,
        components.layout,
        n_nodes=components.protocol.n_nodes,
        seed=components.scenario.seed,
        moments=components.training.optimizer == "adam",
        user_upload_width=components.user_upload_width,
    )
    hook, recommender = components.coordination.hook, components.coordination.recommender
    if hook is not None:
        store.set_first_models(hook.start)
        store.own_extras = hook.own_extras
    if recommender is not None and overrides_method(recommender, "personal_models"):
        store.mixture = recommender.personal_models
    return store


def _make_trainer(name: str, work: ExecutorContext, store: UpdateStore, device: str) -> ClientTrainer:
    from gossiprec.compute.executors import EXECUTORS
    from gossiprec.compute.executors.submodel_trainer import SubmodelTrainer

    if name != "fused":
        return SubmodelTrainer(work, store, EXECUTORS[name], device)
    from gossiprec.compute.executors.analytic_trainer import make_analytic_trainer  # imports compilers

    return make_analytic_trainer(work, store)


def _missing_gradient(outline: TrainingOutline) -> str | None:
    """Return the part of the training that has no compiled gradient, or None."""
    from gossiprec.compute.local_update import TrainingMode
    from gossiprec.federated import missing_gradient, overrides_method
    from gossiprec.models.feeds import PairwiseFeed

    model, batch_size = outline.model, outline.training.batch_size
    missing = missing_gradient(model, outline.recommender)
    if missing is not None:
        return missing
    recommender = outline.recommender
    if batch_size is not None and (  # of sequences, a client has one batch
        model.feed is PairwiseFeed or (recommender is not None and overrides_method(recommender, "draws"))
    ):
        return f"batches of {batch_size} (training.batch_size)"
    if (outline.settings.training_modes != TrainingMode.PLAIN).any():
        return "training that policies or terms change"
    return None


def unsupported_with_updates(why: str) -> ScenarioError:
    """Return the error of a scenario with a feature that client updates do not support."""
    return ScenarioError(f"{why}, or set protocol.client_model to own")
