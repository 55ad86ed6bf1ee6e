"""A registered thing as an option of something else: its name, or its name and options."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from gossiprec.errors import suggestion
from gossiprec.registry import Registry


def make_named(registry: Registry[Any], told: Any) -> Any:
    """Return the thing that is told of, made with its options.

    Parameters
    ----------
    registry : Registry
        Of classes with ``Options``.
    told : str or mapping
        ``name``, or ``{name: ..., options}``.

    Raises
    ------
    ScenarioError
        If nothing of that name is registered.
    ValueError
        If it does not take an option.
    """
    if isinstance(told, dict) and not isinstance(told.get("name"), str):
        raise ValueError(f"found {told!r}, must be a name or {{name: ...}} with one of {', '.join(registry)}")
    name = name_of(told)
    made = registry[name]
    try:
        options = (
            {key: value for key, value in told.items() if key != "name"} if isinstance(told, dict) else {}
        )
        return made(made.Options.model_validate(options))
    except ValidationError as error:
        raise ValueError("; ".join(_said(name, made, entry) for entry in error.errors())) from None


def name_of(told: Any) -> str:
    """Return the name of what is told of."""
    return str(told["name"] if isinstance(told, dict) else told)


def _said(name: str, made: Any, entry: Any) -> str:
    key, known = ".".join(map(str, entry["loc"][:1])), sorted(made.Options.model_fields)
    if entry["type"] == "extra_forbidden":
        return f"{name} has no option {key!r}{suggestion(key, known)} (allowed: {', '.join(known) or 'none'})"
    return f"{name}: {key}: found {entry['input']!r}, {entry['msg'][:1].lower()}{entry['msg'][1:]}"
