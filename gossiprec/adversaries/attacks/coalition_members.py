"""Coalitions: nodes that collude, drawn at random or placed by the deliveries between nodes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gossiprec.adversaries.attacks.base import AttackContext, fraction_to_count
from gossiprec.adversaries.attacks.observer_names import as_unique_list, placement_specs
from gossiprec.base.arrays import I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.rng import generator


def draw_members(context: AttackContext, fraction: float) -> I64:
    """Return a random share of the nodes; a larger share contains each smaller one."""
    order = generator(context.seed, "observers").permutation(context.n_users)
    return np.sort(order[: coalition_size(context, fraction)])


def coalition_size(context: AttackContext, fraction: float) -> int:
    """Return the number of nodes in a fraction of the users, at least one."""
    return fraction_to_count(context.n_users, fraction)


def choose_coalitions(context: AttackContext, options: Any) -> list[I64]:
    """Return the members of each coalition, in the order of :func:`.observer_names.observer_names`.

    Parameters
    ----------
    context : AttackContext
    options : ObserverOptions
        With one or several fractions and placements.

    Raises
    ------
    ScenarioError
        If a placement needs contacts that are not known.
    """
    where = placement_specs(options)
    choose = _Chooser(context, options.placement_until) if any(how != "random" for how, _ in where) else None
    return [
        draw_members(context, fraction)
        if choose is None or how == "random"
        else choose(fraction, how, victim)
        for fraction in as_unique_list(options.fraction)
        for how, victim in where
    ]


class _Chooser:
    """Placement of colluders by the deliveries of a run."""

    def __init__(self, context: AttackContext, until: float | None) -> None:
        if context.coordinator is not None:
            raise ScenarioError(
                "observers: placement uses contacts between nodes, but with a coordinator nodes receive "
                "models only from it; use placement: random, or list the colluders under members"
            )
        if not context.meetings.complete:
            raise ScenarioError(
                "observers: placement requires contacts that are known in advance, but with this protocol "
                "they depend on model performance; use placement: random, list the colluders under members, "
                "or use protocol rand-gossip"
            )
        self._context = context
        self._contacts = context.contacts(math.inf if until is None else until)
        if not self._contacts.nnz:
            found, remedy = "in this run", "use placement: random"
            if until is not None:
                found, remedy = f"by placement_until: {until:g}", "raise it"
            raise ScenarioError(
                f"observers: no message arrives {found}, so there are no contacts to place colluders "
                f"by; {remedy}"
            )

    def __call__(self, fraction: float, how: str, victim: int | None) -> I64:
        from gossiprec.network.graphs.placement import place_colluders

        context = self._context
        seed = int(generator(context.seed, "placement").integers(2**63))
        return place_colluders(
            self._contacts, coalition_size(context, fraction), how, seed=seed, victim=victim
        )
