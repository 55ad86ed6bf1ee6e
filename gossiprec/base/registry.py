"""Registries: one file adds one thing (a model, an attack, a policy, a data set, ...) under its name.

A registry knows the package of its members and imports the package's modules on first use, so a new file is found
without being listed anywhere. A file in any other package adds a thing in the same way: an entry point in the
registry's group names the module that registers it. Entry points are found without importing the plug-ins.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
import inspect
import itertools
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Generic, TypeVar

from gossiprec.base.errors import GossipRecError, PluginError, ScenarioError, did_you_mean
from gossiprec.version import __version__, code_version, source_fingerprint

PREFIX = "gossiprec."
"""Prefix of the groups of entry points: ``gossiprec.models`` and so on."""

Plugins = dict[str, dict[str, str]]
"""Distribution name to its ``version`` and ``code``, the fingerprint of its sources; plain data."""


@functools.cache
def entry_points() -> Mapping[str, Mapping[str, list[EntryPoint]]]:
    """Return the entry points of all installed plug-ins by group and name; none of them is imported."""
    by_distribution: dict[str, list[EntryPoint]] = {}
    for dist in importlib.metadata.distributions():
        ours = [point for point in dist.entry_points if point.group.startswith(PREFIX)]
        if ours:  # the first of a name on sys.path is the one that is imported
            by_distribution.setdefault(re.sub(r"[-_.]+", "-", dist.name).lower(), ours)
    found: dict[str, dict[str, list[EntryPoint]]] = {}
    for point in itertools.chain.from_iterable(by_distribution.values()):
        found.setdefault(point.group, {}).setdefault(point.name, []).append(point)
    return found


def origin_of(point: EntryPoint | None) -> str:
    """Return distribution and version of an entry point, or gossiprec's for None."""
    return f"gossiprec {__version__}" if point is None else f"{_name(point)} {_version(point)}"


def import_plugin(point: EntryPoint, what: str) -> None:
    """Import the module of an entry point, which registers its member.

    Parameters
    ----------
    point : EntryPoint
    what : str
        The requested thing, for the message (``"model 'item-pop'"``).

    Raises
    ------
    PluginError
        If the import fails for any reason.
    """
    try:
        point.load()
    except (Exception, SystemExit) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise PluginError(
            f"{what} belongs to the plug-in {origin_of(point)}, which cannot be imported ({reason}); `python "
            f"-c 'import {point.module}'` shows the cause; fix, update or uninstall {_name(point)}"
        ) from error


def distributions_used(points: Iterable[EntryPoint]) -> Plugins:
    """Return the distributions behind some entry points, in alphabetical order."""
    modules: dict[str, set[str]] = {}
    versions: dict[str, str] = {}
    for point in points:
        modules.setdefault(_name(point), set()).add(point.module)
        versions[_name(point)] = _version(point)
    return {
        name: {"version": versions[name], "code": _code(*sorted(modules[name]))} for name in sorted(modules)
    }


def check_plugins_installed(plugins: Plugins, subject: str, error: type[GossipRecError]) -> None:
    """Refuse to continue without the plug-ins of a run; their versions may differ.

    Parameters
    ----------
    plugins : Plugins
    subject : str
        Subject and verb of the message (``"the run runs/x uses"``).
    error : type
        Class of the error.

    Raises
    ------
    GossipRecError
        If a plug-in is missing; the message names what to install.
    """
    absent = [name for name in plugins if not any(importlib.metadata.distributions(name=name))]
    if absent:
        wanted = " ".join(f"{name}=={plugins[name]['version']}" for name in absent)
        raise error(f"{subject} plug-ins that are not installed; install them with: pip install {wanted}")


def combined_code_version(plugins: Plugins, code: str | None = None) -> str:
    """Return the version of all code that a run uses: gossiprec's and its plug-ins'.

    Parameters
    ----------
    plugins : Plugins
    code : str, optional
        Version of gossiprec; by default of the running one.
    """
    return " + ".join([code or code_version(), *map(" ".join, plugin_versions(plugins).items())])


def plugin_versions(plugins: Plugins) -> dict[str, str]:
    """Return the version of each plug-in and of its code, as text."""
    return {name: f"{about['version']} ({about['code']})" for name, about in plugins.items()}


@functools.cache
def _code(*modules: str) -> str:
    """Return the fingerprint of the packages that contain some modules."""
    return source_fingerprint(*dict.fromkeys(path for module in modules for path in _sources(module)))


def _sources(module: str) -> list[Path]:
    """Return the folder of the outermost package around a module, or its file if it is in none.

    A namespace package does not count, because other distributions share it.
    """
    parts = module.split(".")
    for length in range(1, len(parts) + 1):
        spec = importlib.util.find_spec(".".join(parts[:length]))
        if spec is not None and spec.has_location:
            return [Path(path) for path in spec.submodule_search_locations or [str(spec.origin)]]
    return []


def _name(point: EntryPoint) -> str:
    return "" if point.dist is None else point.dist.name


def _version(point: EntryPoint) -> str:
    return "" if point.dist is None else point.dist.version


T = TypeVar("T")


_NAMES: dict[object, str] = {}
"""The name of each registered class or function."""


def registry_name(thing: object) -> str:
    """Return the name under which the class of an object is registered, for messages; its class name if it is not."""
    return _NAMES.get(type(thing), type(thing).__name__)


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
            _NAMES.setdefault(getattr(member, "__wrapped__", member), name)
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
                f"unknown {self.kind} {name!r}; known: {', '.join(self)}{did_you_mean(name, self)}"
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
