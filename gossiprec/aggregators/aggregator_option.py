"""A rule as an option of something else: its name, or its name and options."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from gossiprec.aggregators import AGGREGATORS
from gossiprec.aggregators.base import Aggregator
from gossiprec.registry_options import RegisteredName, build_registered, registered_name


def make_aggregator(told: Any) -> Aggregator:
    """Return a rule for one receiver, as an option of type :data:`Rule` tells of it."""
    rule: Aggregator = build_registered(AGGREGATORS, told)
    return rule


Rule: TypeAlias = Annotated[str | dict[str, Any], RegisteredName(AGGREGATORS)]
"""The name of a registered aggregator, or ``{name: ..., options}``."""


def reject_delta_rules(told: Any, key: str, senders: str, remedy: str = "") -> None:
    """Refuse a rule that is made of updates, where whole models are sent.

    Parameters
    ----------
    told : str or mapping
        Of the rule.
    key : str
        Under which it stands.
    senders : str
        Who sends.
    remedy : str
        What could be done besides.

    Raises
    ------
    ValueError
        If it is.
    """
    if not make_aggregator(told).of_changes:
        return
    over = isinstance(told, dict) and "over" in told
    which, other = (" with over: touched", "set over to all") if over else ("", "choose another rule")
    raise ValueError(
        f"found {key} {registered_name(told)!r}{which}, which reduces updates, but {senders} send whole models; "
        f"{remedy}{other}"
    )
