"""Aggregation rules combine the models that a node receives: one file per rule, and the option that names a rule."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from gossiprec.base.options import RegisteredName, build_registered, registered_name
from gossiprec.base.registry import Registry
from gossiprec.rules.aggregators.base import Aggregator, Inbox, InboxConfig

AGGREGATORS: Registry[type[Aggregator]] = Registry("aggregator", __name__, group="aggregators")

__all__ = [
    "AGGREGATORS",
    "Aggregator",
    "Inbox",
    "InboxConfig",
    "Rule",
    "make_aggregator",
    "reject_delta_rules",
]


def make_aggregator(spec: Any) -> Aggregator:
    """Return a rule for one receiver, as specified by an option of type :data:`Rule`."""
    rule: Aggregator = build_registered(AGGREGATORS, spec)
    return rule


Rule: TypeAlias = Annotated[str | dict[str, Any], RegisteredName(AGGREGATORS)]
"""The name of a registered aggregator, or ``{name: ..., options}``."""


def reject_delta_rules(spec: Any, key: str, senders: str, remedy: str = "") -> None:
    """Refuse a rule that reduces updates if whole models are sent.

    Parameters
    ----------
    spec : str or mapping
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
    if not make_aggregator(spec).uses_deltas:
        return
    over = isinstance(spec, dict) and "over" in spec
    which, other = (" with over: touched", "set over to all") if over else ("", "choose another rule")
    raise ValueError(
        f"found {key} {registered_name(spec)!r}{which}, which reduces updates, but {senders} send whole models; "
        f"{remedy}{other}"
    )
