"""Aggregation rules as options: a name, or a name with options."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from gossiprec.base.registry_options import RegisteredName, build_registered, registered_name
from gossiprec.rules.aggregators import AGGREGATORS
from gossiprec.rules.aggregators.base import Aggregator


def make_aggregator(told: Any) -> Aggregator:
    """Return a rule for one receiver, as specified by an option of type :data:`Rule`."""
    rule: Aggregator = build_registered(AGGREGATORS, told)
    return rule


Rule: TypeAlias = Annotated[str | dict[str, Any], RegisteredName(AGGREGATORS)]
"""The name of a registered aggregator, or ``{name: ..., options}``."""


def reject_delta_rules(told: Any, key: str, senders: str, remedy: str = "") -> None:
    """Refuse a rule that reduces updates if whole models are sent.

    Parameters
    ----------
    told : str or mapping
        The option that specifies the rule.
    key : str
        The key of this option.
    senders : str
        Name of the senders.
    remedy : str
        Another possible fix.

    Raises
    ------
    ValueError
        If the rule reduces updates.
    """
    if not make_aggregator(told).of_changes:
        return
    over = isinstance(told, dict) and "over" in told
    which, other = (" with over: touched", "set over to all") if over else ("", "choose another rule")
    raise ValueError(
        f"found {key} {registered_name(told)!r}{which}, which reduces updates, but {senders} send whole models; "
        f"{remedy}{other}"
    )
