"""A registered thing as an option of something else: its name, or its name and options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from gossiprec.errors import ScenarioError, suggestion
from gossiprec.member_options import Naming
from gossiprec.registry import Registry


@dataclass(frozen=True, eq=False)
class Named(Naming):
    """Says of an option that it is the name of a registered thing, or ``{name: ..., options}``.

    Written ``Annotated[str | dict[str, Any], Named(AGGREGATORS)]``; the value stays as it is written.
    """

    def name_in(self, value: Any, annotated: Any) -> str | None:
        """Return the name."""
        return name_of(value) if isinstance(value, str | dict) else None

    def __get_pydantic_core_schema__(self, annotated: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._checked, handler(annotated))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        name = {"enum": [*self.registry]}
        return {"anyOf": [name, {"type": "object", "properties": {"name": name}, "required": ["name"]}]}

    def _checked(self, told: Any) -> Any:
        """Return what was written, if there is a thing of that name that takes these options."""
        try:
            make_named(self.registry, told)
        except ScenarioError as error:
            raise ValueError(str(error)) from error
        return told


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
