"""Contract of models: their formula, their initial rows, and equal results in all executors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gossiprec.base.arrays import F32, F64
from gossiprec.base.errors import ScenarioError
from gossiprec.compute.executors import EXECUTORS
from gossiprec.compute.executors.tensors import Tensors, to_tensor
from gossiprec.data.split import Split
from gossiprec.emulation import PreparedRun, prepare
from gossiprec.emulation.assembly.data_loading import load_data
from gossiprec.models import MODELS, Model
from gossiprec.models.base.graph import GraphModel, InteractionGraph
from gossiprec.models.base.sequence_model import SequenceModel
from gossiprec.models.feeds import Feed
from gossiprec.scenario import load_scenario
from gossiprec.testing import model_formula
from gossiprec.testing.blinding import reachable
from gossiprec.testing.model_formula import SEED, ModelCase
from gossiprec.testing.tiny_runs import (
    CENTRAL,
    CITY,
    FEDERATED,
    GOSSIP,
    PERSONAL,
    WITHHELD,
    attribute_tables,
    check_claims,
    current_models,
    registered_as,
    run_to_end,
    tiny_scenario,
)


def check_model(model_class: type[Model], options: Mapping[str, Any] | None = None) -> None:
    """Check a model's declarations, and run it in every executor that can, and with a coordinator that has all data.

    Parameters
    ----------
    model_class : type of Model
        The class; it need not be registered.
    options : mapping, optional
        Options as in a scenario. Data for a model with `needs_features` have the columns ``gender``, ``occupation`` and
        ``age`` of users, and ``genres`` of items.

    Raises
    ------
    AssertionError
        If a claim does not hold; the message lists all of them.
    PluginError
        If two blocks have the same name.
    """
    about = f"the model {model_class.__name__}"
    attributes = attribute_tables(needed=model_class.needs_features)
    with registered_as(MODELS, model_class) as name, attributes as tables_of_data:
        protocol = CENTRAL if model_class.needs_graph else GOSSIP
        section, data_section = {"name": name, **(options or {})}, {**CITY, **tables_of_data}
        run = tiny_scenario(model=section, protocol=protocol, dataset=data_section)
        chosen = load_scenario(run)
        data = load_data(chosen)
        model = _fitted(model_class(chosen.model.options), data, about)
        for n_users, tables in ((1, ""), (data.n_users, ", with the rows of all users at every node,")):
            case = ModelCase(model, data, model.layout(data.n_items, n_users))
            check_claims(about + tables, model_formula.__name__, case=case)
        if isinstance(model, SequenceModel):  # a batch consists of users, and there are few
            run["training"] = {**run["training"], "batch_size": 4}
        if isinstance(model, GraphModel):
            graph_case = GraphModelCase(case, model)
            check_claims(about, __name__, graph_case=graph_case)
        else:
            check_claims(about, __name__, run=run)
        central_run = {**run, "protocol": CENTRAL}
        check_claims(about, __name__, central_run=central_run)


def _fitted(model: Model, data: Split, about: str) -> Model:
    """Return the model fitted to some data, of which it gets only the training items."""
    known = data.training_data()
    try:
        fitted = model.bind_to_data(known)
        found = (fitted, fitted.make_feed(data.training_data(for_feed=True)))
    except AttributeError as error:
        message = f"{about}: bind_to_data and make_feed are given training data only: {error}"
        raise AssertionError(message) from error
    for way, thing in reachable(found, "(model, feed)"):
        for name in ("validation", "test"):
            kept = getattr(data, name).values
            shared = isinstance(thing, np.ndarray) and thing.size and np.may_share_memory(thing, kept)
            assert not shared, f"{about}: {way} leads to the {name} items."
    return fitted


OBSERVED = {"name": "cda", "community_size": 3, "reference_items": 8, "momentum": [0, 0.9]}
OBSERVERS = [
    {**OBSERVED, **who, "relevance": ["standardized", "mean_score"]}
    for who in ({"who": "single", "refit_every": 2}, {"who": "coalition", "members": [0, 1, 6]})
]
SAME = 1e-3
"""Tolerance relative to all models' movement (Frobenius norm): float32 rounding (6e-8) over some hundred steps."""
SCORES = 5e-3
"""Tolerance of observers' scores, which divide differences of models by deviations that may be small."""


VARIANTS: dict[str, dict[str, Any]] = {
    "rows of all users, two negatives": {
        "protocol": {**FEDERATED, "user_table": "averaged"},
        "training": {"negatives": 2},
    },
    "adam, full batches, two local epochs": {
        "training": {
            "optimizer": "adam", "learning_rate": 0.01, "batch_size": "full", "local_epochs": 2,
        },
    },
    "dp-sgd": {"policies": [{"name": "dp-sgd", "epsilon": 10, "clip_norm": 0.1}]},
    "float16": {},
}  # fmt: skip
"""Sections of a scenario that kernels must compute or refuse."""
STORED = {"float16": {"storage": "float16"}}
COARSE = 0.05
"""Tolerance like :data:`SAME` for rows that are rounded to float16 at random."""


def executors_agree(run: Mapping[str, Any]) -> None:
    """Train equally in every executor that can, and be observed equally."""
    _compare(run, {"observers": OBSERVERS})


def executors_agree_if_user_rows_are_withheld(run: Mapping[str, Any]) -> None:
    """Train and be observed equally if some nodes withhold their user row."""
    if prepare(load_scenario(dict(run))).executor.work.layout.user_width:
        _compare(run, {"observers": OBSERVERS, "policies": [WITHHELD]})


def executors_agree_on_performance(run: Mapping[str, Any]) -> None:
    """Merge by performance equally in every executor that can."""
    _compare(run, {"protocol": PERSONAL})


def kernels_compute_or_refuse(run: Mapping[str, Any]) -> None:
    """Have kernels that run, and that train like plain torch unless missing_feature() names what they cannot do."""
    kernels = MODELS[run["model"]["name"]].kernels()
    if kernels is None:
        return
    prepared = prepare(load_scenario(dict(run)))
    if kernels.missing_part(prepared.executor.work.model) is not None:  # no kernels with these options
        return
    missing = [_lacks(prepared, "fused")]
    for about, sections in VARIANTS.items():
        training = {**run["training"], **sections.get("training", {})}
        varied = {**run, **sections, "training": training}
        try:
            expected, first = run_to_end(varied, name="reference", threads=2, **STORED.get(about, {}))
        except ScenarioError:  # an error of the model, not of the kernels
            continue
        lacks = _lacks(expected, "fused")
        if lacks is not None:
            missing.append(lacks)
            continue
        found, _ = run_to_end(varied, name="fused", threads=2, **STORED.get(about, {}))
        models = current_models(expected)
        distance = np.linalg.norm(current_models(found) - models) / np.linalg.norm(models - first)
        limit = COARSE if about in STORED else SAME
        assert distance < limit, (
            f"With {about} kernels end {distance:.2g} of their movement off; let missing_feature() name it."
        )
    assert missing[0] is None or len(missing) <= len(VARIANTS), (
        f"Its kernels never run: they lack {', '.join(dict.fromkeys(filter(None, missing)))}."
    )


def _compare(run: Mapping[str, Any], sections: Mapping[str, Any]) -> None:
    expected, first = run_to_end({**run, **sections}, name="reference", threads=2)
    models, scores = current_models(expected), _scores(expected)
    moved = np.linalg.norm(models - first)
    assert 0 < moved < np.inf, "The models have not moved, or are not finite."
    observed = any(np.isfinite(part).any() for part in scores)
    assert observed or "observers" not in sections, "No node was observed."
    for name in EXECUTORS:
        if name == "reference" or _lacks(expected, name):
            continue
        found, _ = run_to_end({**run, **sections}, name=name, threads=2)
        distance = np.linalg.norm(current_models(found) - models) / moved
        assert distance < SAME, f"{name}: models end {distance:.2g} of their movement off the reference's."
        for one, other in zip(scores, _scores(found), strict=True):
            message = f"{name}: observers' scores differ"
            np.testing.assert_allclose(other, one, rtol=SCORES, atol=SCORES, err_msg=message)


def _lacks(prepared: PreparedRun, name: str) -> str | None:
    work = prepared.executor.work
    storage, settings = work.arena.rows.dtype.name, work.node_settings
    return EXECUTORS[name].missing_feature(work.model, work.training, storage, settings, work.layout)


def _scores(prepared: PreparedRun) -> list[F32]:
    return [ranking.scores for attack in prepared.attacks for ranking in attack.rankings()]


def a_coordinator_trains_it(central_run: Mapping[str, Any]) -> None:
    """Be trained on the samples of all users: to finite numbers, byte-identical for any number of threads."""
    prepared, first = run_to_end(central_run, threads=1)
    models, again = current_models(prepared), current_models(run_to_end(central_run, threads=2)[0])
    assert np.isfinite(models).all(), "The model is not finite."
    assert (models != first).any(), "The model has not moved."
    assert models.tobytes() == again.tobytes(), "The number of threads changes the model."


def executors_score_equally(central_run: Mapping[str, Any]) -> None:
    """Get the same scores, for all users, from every executor that supports a coordinator's run."""
    runs = (run_to_end(central_run, name=name)[0] for name in ("reference", "batched"))
    plain, batched = map(_central_scores, runs)
    np.testing.assert_allclose(batched, plain, rtol=1e-4, atol=1e-5)


def _central_scores(prepared: PreparedRun) -> F64:
    users = np.arange(prepared.components.split.n_users)
    executor = prepared.executor
    models = executor.store.scoring_view(prepared.planner.current_rows, users)
    contexts = executor.work.feed.next_contexts(prepared.components.split)
    return executor.score_all(replace(models, contexts=contexts), prepared.threads).astype(np.float64)


@dataclass(frozen=True)
class GraphModelCase:
    """A graph model on small data, with a node that holds all users' rows."""

    case: ModelCase
    model: GraphModel

    @cached_property
    def feed(self) -> Feed:
        """The interactions of all users."""
        return self.case.feed

    @cached_property
    def graph(self) -> InteractionGraph:
        """The graph of all users' interactions."""
        return InteractionGraph.of(self.feed.positives, self.case.layout.n_items)

    @cached_property
    def p(self) -> Tensors:
        """The blocks of a random version."""
        return self.case.parameters(self.case.row)

    @cached_property
    def batch(self) -> Tensors:
        """The samples of all users."""
        columns = self.feed.samples_of_all(update=0, negatives=1, seed=SEED)
        batch = {name: to_tensor(column) for name, column in columns.items()}
        return {**batch, "weights": torch.ones(len(batch["user"]), dtype=torch.float64)}

    def encoded(self, graph: InteractionGraph, p: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the encoded rows of users and of items."""
        found = self.model.encode(p, graph)
        return found["users"], found["items"]

    def step(self, epoch: int = 0) -> Tensor:
        """Return the gradient of a training step with respect to the rows of users."""
        users = self.p["users"].detach().clone().requires_grad_()
        draw = np.random.default_rng(epoch)
        views = self.model.draw_views(self.graph, draw)
        p = self.model.encode_step({**self.p, "users": users}, self.graph, views, draw)
        (slopes,) = torch.autograd.grad(self.model.loss(p, self.batch), users)
        return slopes


def encoding_keeps_shapes_and_inputs(graph_case: GraphModelCase) -> None:
    """Encode to finite rows of the same shapes, and do not change the input."""
    p = graph_case.p
    before = {name: part.clone() for name, part in p.items()}
    for found, name in zip(graph_case.encoded(graph_case.graph, p), ("users", "items"), strict=True):
        assert found.shape == before[name].shape, f"Found {name} of shape {tuple(found.shape)}."
        assert found.isfinite().all(), f"Found {name} that are not finite."
    assert all(torch.equal(p[name], part) for name, part in before.items()), "It changes its input."


def encoding_depends_on_the_graph(graph_case: GraphModelCase) -> None:
    """Encode differently without some edges, and to finite rows without any."""
    users, _ = graph_case.encoded(graph_case.graph, graph_case.p)
    halved = graph_case.graph.drop_random_edges(0.5, np.random.default_rng(0))
    less, _ = graph_case.encoded(halved, graph_case.p)
    assert not torch.equal(users, less), "Half of the edges change nothing."
    none = np.zeros(0, np.int64)
    isolated = graph_case.encoded(replace(graph_case.graph, users=none, items=none), graph_case.p)
    assert all(rows.isfinite().all() for rows in isolated), "Rows without an edge are not finite."


def numbers_of_items_have_no_meaning(graph_case: GraphModelCase) -> None:
    """Encode equally up to rounding if items have other numbers."""
    number = np.random.default_rng(1).permutation(graph_case.graph.n_items)
    other = replace(graph_case.graph, items=number[graph_case.graph.items])
    back = torch.from_numpy(number)
    shuffled = torch.empty_like(graph_case.p["items"])
    shuffled[back] = graph_case.p["items"]
    users, items = graph_case.encoded(graph_case.graph, graph_case.p)
    found = graph_case.encoded(other, {**graph_case.p, "items": shuffled})
    torch.testing.assert_close(found[0], users, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(found[1][back], items, rtol=1e-6, atol=1e-6)


def a_step_depends_on_its_draws_only(graph_case: GraphModelCase) -> None:
    """Have a finite gradient that is byte-identical for the same draws, and reaches users through the graph."""
    slopes = graph_case.step()
    assert slopes.isfinite().all(), "Found a gradient that is not finite."
    assert slopes.any(1).all(), "Rows of some users are not trained."
    assert torch.equal(graph_case.step(), slopes), "The same draws give another gradient."
