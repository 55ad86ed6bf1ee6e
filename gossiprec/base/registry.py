"""Registries: one file adds one thing (a model, an attack, a policy, a data set, ...) under its name.

A registry knows the package of its members and imports the package's modules on first use, so a new file is found
without being listed anywhere. A file in any other package adds a thing in the same way: an entry point in the
registry's group names the module that registers it (:mod:`gossiprec.base.plugins`).
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint
from typing import Any, Generic, TypeVar

from gossiprec.base.errors import PluginError, ScenarioError, suggestion
from gossiprec.base.plugins import PREFIX, entry_points, import_plugin, origin_of

T = TypeVar("T")


class Registry(Generic[T]):
    """A registry of one kind of thing, by name.

    Parameters
    ----------
    kind : str
        Name of the kind, for messages (``"model"``).
    package : str
        Dotted name of the package with modules that register the members.
    group : str, optional
        Plural of the kind (``"models"``): plug-ins add members by entry points in the group ``gossiprec.models``.
        Without it, plug-ins cannot add members.
    """

    def __init__(self, kind: str, package: str, *, group: str | None = None) -> None:
        self.kind = kind
        self.group = group
        self._package = package
        self._members: dict[str, T] = {}
        self._loaded = False

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that registers its argument as `name`; a file that is run again replaces its members.

        A member is a class or a function, or an object that represents one, named by its ``__wrapped__``.

        Raises
        ------
        PluginError
            If the name is used: two files register the same name.
        """

        def file_under(member: T) -> T:
            known = self._members.get(name, member)
            if _place(known) != _place(member):
                raise PluginError(
                    f"the {self.kind} {name!r} is registered twice, by {_place(known)} and by {_place(member)}; "
                    "give one of them another name"
                )
            self._members[name] = member
            return member

        return file_under

    def __getitem__(self, name: str) -> T:
        """Return the member called `name`.

        Raises
        ------
        ScenarioError
            If there is none; the message names similar ones.
        PluginError
            If its plug-in cannot be imported, or several plug-ins provide it.
        """
        point = self.entry_point(name)
        if point is not None:
            return self._of_plugin(name, point)
        self._load_file_of(name)
        if name not in self._members:
            self._load_all()
        if name not in self._members:
            raise ScenarioError(
                f"unknown {self.kind} {name!r}; known: {', '.join(self)}{suggestion(name, self)}"
            )
        return self._members[name]

    def entry_point(self, name: str) -> EntryPoint | None:
        """Return the entry point of a plug-in's member, without importing it; None for other names.

        Raises
        ------
        PluginError
            If several plug-ins use the name.
        """
        points = self._entry_points().get(name)
        if not points:
            return None
        self._load_all()
        origins = [origin_of(None)] * self._is_ours(name) + sorted(map(origin_of, points))
        if len(origins) > 1:
            raise PluginError(
                f"the {self.kind} {name!r} is registered by {' and '.join(origins)}; uninstall the plug-in "
                "that you do not need, or register it under another name"
            )
        return points[0]

    def _of_plugin(self, name: str, point: EntryPoint) -> T:
        import_plugin(point, f"{self.kind} {name!r}")
        if name not in self._members:
            raise PluginError(
                f"the plug-in {origin_of(point)} declares the {self.kind} {name!r}, but {point.value} does "
                "not register it; the entry-point name and the name in the register decorator must be the "
                "same"
            )
        return self._members[name]

    def members(self) -> Iterator[tuple[str, T]]:
        """Yield names and members in alphabetical order; broken plug-ins are left out."""
        for name in self:
            try:
                yield name, self[name]
            except PluginError:
                continue

    def _load_file_of(self, name: str) -> None:
        """Import the file that a name suggests (``dp-sgd``: ``dp_sgd.py``), so that a run loads only what it uses."""
        module = f"{self._package}.{name.replace('-', '_')}"
        importlib.import_module(self._package)
        if (
            name not in self._members
            and name.replace("-", "_").isidentifier()
            and importlib.util.find_spec(module)
        ):
            importlib.import_module(module)

    def __contains__(self, name: object) -> bool:
        return name in set(self)

    def __iter__(self) -> Iterator[str]:
        """Yield all names in alphabetical order, without importing plug-ins."""
        self._load_all()
        return iter(sorted({*self._members, *self._entry_points()}))

    def _load_all(self) -> None:
        """Import all modules of the registry's package."""
        if not self._loaded:
            package = importlib.import_module(self._package)
            for module in sorted(m.name for m in pkgutil.iter_modules(package.__path__)):
                importlib.import_module(f"{self._package}.{module}")
            self._loaded = True

    def _is_ours(self, name: str) -> bool:
        return name in self._members and _place(self._members[name]).startswith(f"{self._package}.")

    def _entry_points(self) -> Mapping[str, list[EntryPoint]]:
        return {} if self.group is None else entry_points().get(PREFIX + self.group, {})


def _place(member: Any) -> str:
    """Return the module and the name under which a member was defined."""
    defined = inspect.unwrap(member)
    return f"{defined.__module__}.{getattr(defined, '__qualname__', repr(defined))}"
