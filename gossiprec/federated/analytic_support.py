"""Analytic gradients: whether the clients of a model and a recommender can train with them."""

from __future__ import annotations

from gossiprec.base.registry import registry_name
from gossiprec.federated.base import Recommender, overrides_method, overrides_term
from gossiprec.models.base import Model
from gossiprec.models.base.analytic_gradients import (
    defined_by_same_class,
    has_own_gradient,
    has_own_pair_gradient,
    has_own_sequence_gradient,
)
from gossiprec.models.feeds import PairwiseFeed, PointwiseFeed, SequenceFeed


def missing_analytic_gradient(model: Model, recommender: Recommender | None) -> str | None:
    """Return the part of the training that has no analytic gradient, or None."""
    if model.feed is PairwiseFeed:
        has_gradient = model.pair_gradient() is not None and has_own_pair_gradient(model)
        return _lacking_for_drawn(model, recommender, has_gradient=has_gradient)
    if model.feed is SequenceFeed:
        has_gradient = model.sequence_gradient() is not None and has_own_sequence_gradient(model)
        return _lacking_for_drawn(model, recommender, has_gradient=has_gradient)
    gradient = model.analytic_gradient()
    if gradient is None or not has_own_gradient(model) or model.feed is not PointwiseFeed:
        return registry_name(model)
    if recommender is None:
        return None
    has_term = overrides_term(recommender) and recommender.analytic_term(gradient) is not None
    if not (has_term or leaves_loss_unchanged(recommender)):
        return _losses_of(recommender)
    if overrides_method(recommender, "changed_samples"):
        return f"the samples that recommender {registry_name(recommender)} changes"
    return None


def leaves_loss_unchanged(recommender: Recommender) -> bool:
    """Return whether a recommender leaves the loss unchanged; False for a subclass that changes the loss."""
    return not recommender.adds_to_loss and defined_by_same_class(
        recommender, "adds_to_loss", "loss", "draws"
    )


def _lacking_for_drawn(model: Model, recommender: Recommender | None, *, has_gradient: bool) -> str | None:
    """Return the part without an analytic gradient if samples are drawn ahead, so that recommenders may change them."""
    if not has_gradient:
        return registry_name(model)
    if recommender is None or leaves_loss_unchanged(recommender):
        return None
    return _losses_of(recommender)


def _losses_of(recommender: Recommender) -> str:
    return f"the losses that recommender {registry_name(recommender)} adds, with these options"
