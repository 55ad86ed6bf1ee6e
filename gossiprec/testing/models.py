"""Contract of models: their formula, their initial rows, and equal results in all executors."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from gossiprec.data.split import Split
from gossiprec.emulation.assembly.data_loading import load_data
from gossiprec.models import MODELS, Model
from gossiprec.models.base.graph import GraphModel
from gossiprec.models.base.sequence_model import SequenceModel
from gossiprec.scenario import load_scenario
from gossiprec.testing import model_formula, model_runs
from gossiprec.testing.blinding import reachable
from gossiprec.testing.model_formula import ModelCase
from gossiprec.testing.model_runs import GraphModelCase
from gossiprec.testing.tiny_runs import (
    CENTRAL,
    CITY,
    GOSSIP,
    attribute_tables,
    check_claims,
    registered_as,
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
    attributes: AbstractContextManager[dict[str, Any]] = nullcontext({})
    if model_class.needs_features:
        attributes = attribute_tables()
    with registered_as(MODELS, model_class) as name, attributes as tables_of_data:
        protocol = CENTRAL if model_class.needs_graph else GOSSIP
        run = tiny_scenario(
            model={"name": name, **(options or {})}, protocol=protocol, dataset={**CITY, **tables_of_data}
        )
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
            check_claims(about, model_runs.__name__, graph_case=graph_case)
        else:
            check_claims(about, model_runs.__name__, run=run)
        central_run = {**run, "protocol": CENTRAL}
        check_claims(about, model_runs.__name__, central_run=central_run)


def _fitted(model: Model, data: Split, about: str) -> Model:
    """Return the model fitted to some data, of which it gets only the training items."""
    known = data.training_data()
    try:
        fitted = model.bind_to_data(known)
        found = (fitted, fitted.make_feed(data.training_data(for_feed=True)))
    except AttributeError as error:
        raise AssertionError(
            f"{about}: bind_to_data and make_feed are given training data only: {error}"
        ) from error
    for way, thing in reachable(found, "(model, feed)"):
        for name in ("validation", "test"):
            kept = getattr(data, name).values
            shared = isinstance(thing, np.ndarray) and thing.size and np.may_share_memory(thing, kept)
            assert not shared, f"{about}: {way} leads to the {name} items."
    return fitted
