"""A rule as an option of something else: its name, or its name and options."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, ValidationError

from gossiprec.aggregators import AGGREGATORS
from gossiprec.aggregators.base import Aggregator
from gossiprec.errors import suggestion


def make_rule(rule: Any) -> Aggregator:
    """Return a rule for one receiver.

    Parameters
    ----------
    rule : str or mapping
        As an option of type :data:`Rule` holds it.

    Raises
    ------
    ScenarioError
        If no such rule is registered.
    ValueError
        If it does not take an option.
    """
    name, own = _parts(rule)
    made = AGGREGATORS[name]
    try:
        return made(made.Options.model_validate(own))
    except ValidationError as error:
        raise ValueError("; ".join(_said(name, made, entry) for entry in error.errors())) from None


def name_of(rule: Any) -> str:
    """Return the name of a rule."""
    return _parts(rule)[0]


def _parts(rule: Any) -> tuple[str, dict[str, Any]]:
    if isinstance(rule, str):
        return rule, {}
    if not isinstance(rule.get("name"), str):
        raise ValueError(
            f"found {rule!r}, must be a name or {{name: ...}} with one of {', '.join(AGGREGATORS)}"
        )
    return rule["name"], {key: value for key, value in rule.items() if key != "name"}


def _said(name: str, made: type[Aggregator], entry: Any) -> str:
    key, known = ".".join(map(str, entry["loc"][:1])), sorted(made.Options.model_fields)
    if entry["type"] == "extra_forbidden":
        return f"{name} has no option {key!r}{suggestion(key, known)} (allowed: {', '.join(known) or 'none'})"
    return f"{name}: {key}: found {entry['input']!r}, {entry['msg'][:1].lower()}{entry['msg'][1:]}"


def _checked(rule: Any) -> Any:
    """Return a rule as it was written, if there is one of that name that takes these options."""
    make_rule(rule)
    return rule


Rule: TypeAlias = Annotated[str | dict[str, Any], AfterValidator(_checked)]
"""The name of a registered aggregator, or ``{name: ..., options}``."""
