"""Plug-ins of other installed distributions, found by their entry points."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import itertools
import re
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path

from gossiprec.base.errors import GossipRecError, PluginError
from gossiprec.version import __version__, code_version, source_fingerprint

PREFIX = "gossiprec."
"""Prefix of the groups of entry points: ``gossiprec.models`` and so on."""

Plugins = dict[str, dict[str, str]]
"""Distribution name to its ``version`` and ``code``, the fingerprint of its sources; plain data."""


@functools.cache
def entry_points() -> Mapping[str, Mapping[str, list[EntryPoint]]]:
    """Return the entry points of all installed plug-ins by group and name; none of them is imported."""
    of_each: dict[str, list[EntryPoint]] = {}
    for dist in importlib.metadata.distributions():
        ours = [point for point in dist.entry_points if point.group.startswith(PREFIX)]
        if ours:  # the first of a name on sys.path is the one that is imported
            of_each.setdefault(re.sub(r"[-_.]+", "-", dist.name).lower(), ours)
    found: dict[str, dict[str, list[EntryPoint]]] = {}
    for point in itertools.chain.from_iterable(of_each.values()):
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
            f"-c 'import {point.module}'` shows where; fix, update or uninstall {_name(point)}"
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


def check_plugins_installed(plugins: Plugins, whose: str, error: type[GossipRecError]) -> None:
    """Refuse to continue without the plug-ins of a run; their versions may differ.

    Parameters
    ----------
    plugins : Plugins
    whose : str
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
        raise error(f"{whose} plug-ins that are not installed; install them with: pip install {wanted}")


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
