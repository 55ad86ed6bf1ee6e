"""Typed options: the base of every option set, and options that name a registered thing.

Such an option is the name only, or the name with the options of the thing next to it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
    field_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from gossiprec.base.errors import PluginError, ScenarioError, did_you_mean
from gossiprec.base.registry import Registry

LARGEST = 2**31 - 1
"""Largest value of any count; sums and products of such counts stay exact."""
MOST, LEAST = 1e30, 1e-100
"""Magnitudes of the largest and the smallest number but 0: single precision holds them, and squares stay above 0."""

Count = Annotated[int, Field(ge=1, le=LARGEST)]
"""A number of things, at least one."""
Fraction = Annotated[float, Field(ge=0, le=1)]

KeyPath: TypeAlias = tuple[str | int, ...]
Problem: TypeAlias = tuple[KeyPath, str]
"""The key path of a wrong value, and a message about it."""


class Options(BaseModel):
    """Options of one registered thing, or one section of a scenario.

    The docstring below an option is its description. Unknown keys are errors; the scenario layer turns them into
    messages with line, key path and a suggestion.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)

    def remarks(self) -> dict[str, str]:
        """Return comments that ``gossiprec scenario show`` prints after some keys, by key."""
        return {}

    def check_scenario(self, scenario: Any) -> Iterator[Problem]:
        """Yield the options that contradict other sections, by key; options inside these are asked, too."""
        return iter(())

    def check_sizes(self, n_users: int, n_items: int) -> Iterator[Problem]:
        """Yield the options that are too large for the data, by key; options inside these are asked, too."""
        return iter(())

    def describe_ineffective(self, scenario: Any) -> Iterator[str]:
        """Yield a sentence for each option that has no effect because of another one."""
        return iter(())

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the JSON Schema, with descriptions of one line."""
        found = handler(schema)
        for option in handler.resolve_ref_schema(found).get("properties", {}).values():
            if "description" in option:
                option["description"] = option["description"].replace("\n", " ")
        return found

    @field_validator("*")
    @classmethod
    def _computable(cls, value: Any) -> Any:
        """Refuse numbers that arithmetic would turn into infinity or into 0."""
        for number in value if isinstance(value, tuple | list) else (value,):
            if isinstance(number, float) and number and not LEAST <= abs(number) <= MOST:
                raise ValueError(f"found {number:g}; expected 0, or a magnitude from {LEAST:g} to {MOST:g}")
        return value


def listed(key: str, value: Any) -> list[tuple[KeyPath, Any]]:
    """Return the values of an option that holds one or a tuple of them, each with its key path; none of None."""
    if isinstance(value, tuple):
        return [((key, index), each) for index, each in enumerate(value)]
    return [] if value is None else [((key,), value)]


def small_fractions(key: str, fractions: Any, n_users: int) -> Iterator[Problem]:
    """Yield the fractions of an option that select no node."""
    for path, fraction in listed(key, fractions):
        if round(fraction * n_users) < 1:
            hint = f"raise it to {1 / n_users:.2g} or more"
            yield path, f"found {fraction}, which selects no node of {n_users}; {hint}"


def unknown_nodes(key: str, nodes: Any, n_users: int, hint: str = "") -> Iterator[Problem]:
    """Yield the nodes of an option that do not exist: node ids, or a fraction that selects none."""
    for path, message in small_fractions("fraction", getattr(nodes, "fraction", None), n_users):
        yield (key, *path), message
    for path, node in listed(key, nodes if isinstance(nodes, tuple | int) else None):
        if node >= n_users:
            yield path, f"found node {node}, but node ids range from 0 to {n_users - 1}{hint}"


class NoOptions(Options):
    """The option set of a thing that has none."""


def options_class(registry: Registry[Any], name: str) -> type[Options]:
    """Return the option set of a registered thing; a thing that declares none takes no options.

    Raises
    ------
    ScenarioError
        If no such thing is registered; the message names similar ones.
    PluginError
        If its plug-in cannot be used.
    """
    found = getattr(registry[name], "Options", NoOptions)
    if not (isinstance(found, type) and issubclass(found, Options)):
        raise PluginError(
            f"the {registry.kind} {name!r} has Options {found!r}; expected a class derived from "
            "gossiprec.base.options.Options"
        )
    return found


@dataclass(frozen=True, eq=False)
class RegisteredOptions:
    """Marker of an option set that names a registered thing and holds the thing's options next to the name.

    It is written ``view: Annotated[ExchangeOptions, RegisteredOptions(SAMPLINGS, "sampling")]``. Values are validated
    as the options of the thing they name, and its file or plug-in is imported only then. The JSON Schema knows all of
    them.

    Parameters
    ----------
    registry : Registry
    key : str
        Key that holds the name.
    options : callable
        Returns the option set of a name, instead of :func:`options_class`.
    """

    registry: Registry[Any]
    key: str = "name"
    options: Callable[[str], type[Options]] | None = None

    def registered_name_in(self, value: Any, annotated: Any) -> str | None:
        """Return the name in a value, or None if the value is not of the annotated type."""
        return getattr(value, self.key) if isinstance(value, annotated) else None

    def options_of(self, name: str) -> type[Options]:
        """Return the option set of the thing of this name.

        Raises
        ------
        ScenarioError
            If no such thing is registered.
        """
        return options_class(self.registry, name) if self.options is None else self.options(name)

    def options_class_for(self, raw: Any) -> type[Options] | None:
        """Return the option set named by plain data, or None if there is none of that name."""
        name = raw.get(self.key) if isinstance(raw, dict) else None
        try:
            return self.options_of(name) if isinstance(name, str) else None
        except ScenarioError:
            return None

    def __get_pydantic_core_schema__(self, base: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._valid)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        known = [self.options_of(name) for name, _ in self.registry.members()]
        return {"oneOf": [handler(options.__pydantic_core_schema__) for options in known]}

    def _valid(self, raw: Any) -> Any:
        if isinstance(raw, Options):
            return raw
        if not isinstance(raw, dict):
            raise ValueError(f"found {raw!r}, must be a mapping of keys")
        name = raw.get(self.key)
        if not isinstance(name, str):
            what = (
                f"found {self.key} {name!r}, must be" if self.key in raw else f"must have a key {self.key},"
            )
            raise ValueError(f"{what} one of {', '.join(self.registry)}")
        try:
            options = self.options_of(name)
        except ScenarioError as error:
            raise ValueError(str(error)) from error
        return options.model_validate(raw)


@dataclass(frozen=True, eq=False)
class RegisteredName(RegisteredOptions):
    """Marker of an option that is the name of a registered thing, or ``{name: ..., options}``.

    It is written ``Annotated[str | dict[str, Any], RegisteredName(AGGREGATORS)]``; the value is kept as written.
    """

    def registered_name_in(self, value: Any, annotated: Any) -> str | None:
        """Return the name."""
        return registered_name(value) if isinstance(value, str | dict) else None

    def options_class_for(self, raw: Any) -> None:
        """Return None: the value is no option set."""

    def __get_pydantic_core_schema__(self, base: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._valid, handler(base))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        name = {"enum": [*self.registry]}
        return {"anyOf": [name, {"type": "object", "properties": {"name": name}, "required": ["name"]}]}

    def _valid(self, raw: Any) -> Any:
        try:
            build_registered(self.registry, raw)
        except ScenarioError as error:
            raise ValueError(str(error)) from error
        return raw


def build_registered(registry: Registry[Any], spec: Any) -> Any:
    """Return the named thing, made with its options.

    Parameters
    ----------
    registry : Registry
        Registry of classes with ``Options``.
    spec : str or mapping
        ``name``, or ``{name: ..., options}``.

    Raises
    ------
    ScenarioError
        If no such thing is registered.
    ValueError
        If it has no such option.
    """
    if isinstance(spec, dict) and not isinstance(spec.get("name"), str):
        raise ValueError(f"found {spec!r}, must be a name or {{name: ...}} with one of {', '.join(registry)}")
    name = registered_name(spec)
    made = registry[name]
    try:
        options = (
            {key: value for key, value in spec.items() if key != "name"} if isinstance(spec, dict) else {}
        )
        return made(made.Options.model_validate(options))
    except ValidationError as error:
        raise ValueError("; ".join(_said(name, made, entry) for entry in error.errors())) from None


def registered_name(spec: Any) -> str:
    """Return the name in a name or a ``{name: ..., options}`` mapping."""
    return str(spec["name"] if isinstance(spec, dict) else spec)


def _said(name: str, made: Any, entry: Any) -> str:
    if not entry["loc"]:  # the options contradict each other
        return f"{name}: {entry['msg'].removeprefix('Value error, ')}"
    key, known = ".".join(map(str, entry["loc"][:1])), sorted(made.Options.model_fields)
    if entry["type"] == "extra_forbidden":
        return f"{name} has no option {key!r}{did_you_mean(key, known)} (known: {', '.join(known) or 'none'})"
    return f"{name}: {key}: found {entry['input']!r}, {entry['msg'][:1].lower()}{entry['msg'][1:]}"


def iter_registered(options: Options) -> Iterator[tuple[Registry[Any], str]]:
    """Yield the registered things that options name, at any depth, each with its registry."""
    for key, namings in _namings_by_key(type(options)):
        value = getattr(options, key)
        inner = value if isinstance(value, tuple) else (value,)
        for annotated, naming in namings:
            names = [naming.registered_name_in(item, annotated) for item in inner]
            yield from ((naming.registry, name) for name in names if name is not None)
        for item in inner:
            if isinstance(item, Options):
                yield from iter_registered(item)


@functools.cache
def _namings_by_key(kind: type[Options]) -> tuple[tuple[str, tuple[tuple[Any, RegisteredOptions], ...]], ...]:
    return tuple((key, (*_namings(info.rebuild_annotation()),)) for key, info in kind.model_fields.items())


def _namings(annotation: Any) -> Iterator[tuple[Any, RegisteredOptions]]:
    """Yield the markers of registered things in an annotation, each with the annotated type."""
    inner = get_args(annotation)
    if get_origin(annotation) is Annotated:
        yield from ((inner[0], extra) for extra in inner[1:] if isinstance(extra, RegisteredOptions))
        inner = inner[:1]
    for part in inner:
        yield from _namings(part)
