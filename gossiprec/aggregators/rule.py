"""A rule as an option of something else: its name, or its name and options."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from gossiprec.aggregators import AGGREGATORS
from gossiprec.aggregators.base import Aggregator
from gossiprec.named import Named, make_named


def make_rule(told: Any) -> Aggregator:
    """Return a rule for one receiver, as an option of type :data:`Rule` tells of it."""
    rule: Aggregator = make_named(AGGREGATORS, told)
    return rule


Rule: TypeAlias = Annotated[str | dict[str, Any], Named(AGGREGATORS)]
"""The name of a registered aggregator, or ``{name: ..., options}``."""
