"""The option sets of registered things, and options that name a registered thing themselves."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from gossiprec.errors import PluginError, ScenarioError
from gossiprec.options import NoOptions, Options
from gossiprec.registry import Registry


def options_class(registry: Registry[Any], name: str) -> type[Options]:
    """Return the option set of a registered thing; a thing that declares none takes no options.

    Raises
    ------
    ScenarioError
        If no such thing is registered; the message names the near ones.
    PluginError
        If it is of a plug-in that cannot be used.
    """
    found = getattr(registry[name], "Options", NoOptions)
    if not (isinstance(found, type) and issubclass(found, Options)):
        raise PluginError(
            f"the {registry.kind} {name!r} has Options that are {found!r}; must be a class derived from "
            "gossiprec.options.Options"
        )
    return found


@dataclass(frozen=True, eq=False)
class Naming:
    """Says of an annotated value that it names a registered thing.

    Parameters
    ----------
    registry : Registry
    """

    registry: Registry[Any]

    @abstractmethod
    def name_in(self, value: Any, annotated: Any) -> str | None:
        """Return the name in a value, if it is one of what is annotated."""


@dataclass(frozen=True, eq=False)
class OneOf(Naming):
    """Says of an annotated option set that it names a registered thing, and holds that thing's options beside the name.

    Written ``view: Annotated[ExchangeOptions, OneOf(SAMPLINGS, "sampling")]``. Values are validated as the options of
    the thing they name, whose file or plug-in is imported only then; the JSON Schema knows all of them.

    Parameters
    ----------
    registry : Registry
    key : str
        Under which the name stands.
    options : callable
        Returns the option set of a name, in place of :func:`options_class`.
    """

    key: str
    options: Callable[[str], type[Options]] | None = None

    def name_in(self, value: Any, annotated: Any) -> str | None:
        """Return the name under the key."""
        return getattr(value, self.key) if isinstance(value, annotated) else None

    def options_of(self, name: str) -> type[Options]:
        """Return the option set of the thing of this name.

        Raises
        ------
        ScenarioError
            As of :func:`options_class`.
        """
        return options_class(self.registry, name) if self.options is None else self.options(name)

    def meant_by(self, raw: Any) -> type[Options] | None:
        """Return the option set that plain data name; None if they name none that there is."""
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

    def _valid(self, raw: Any) -> Options:
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


def named_in(options: Options) -> Iterator[tuple[Registry[Any], str]]:
    """Yield the registered things that options name, at any depth, each with its registry."""
    for key, info in type(options).model_fields.items():
        value = getattr(options, key)
        inner = value if isinstance(value, tuple) else (value,)
        for annotated, naming in _namings(info.rebuild_annotation()):
            names = [naming.name_in(item, annotated) for item in inner]
            yield from ((naming.registry, name) for name in names if name is not None)
        for item in inner:
            if isinstance(item, Options):
                yield from named_in(item)


def _namings(annotation: Any) -> Iterator[tuple[Any, Naming]]:
    """Yield what an annotation says to name a registered thing, with the type that it says it of."""
    inner = get_args(annotation)
    if get_origin(annotation) is Annotated:
        yield from ((inner[0], extra) for extra in inner[1:] if isinstance(extra, Naming))
        inner = inner[:1]
    for part in inner:
        yield from _namings(part)
