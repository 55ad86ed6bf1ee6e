"""The kinds of things that a scenario or an option can name, their members as text, and a scenario's plug-ins."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from gossiprec.base.errors import PluginError, ResourceError, ScenarioError, did_you_mean
from gossiprec.base.options import LARGEST, iter_registered, options_class
from gossiprec.base.registry import (
    PREFIX,
    Plugins,
    Registry,
    combined_code_version,
    distributions_used,
    entry_points,
    origin_of,
)
from gossiprec.measures import MEASURES
from gossiprec.measures.selectors import measure_name
from gossiprec.scenario.definition import Scenario

KINDS = {
    "datasets": "gossiprec.data:DATASETS",
    "splits": "gossiprec.data:SPLITS",
    "models": "gossiprec.models:MODELS",
    "recommenders": "gossiprec.federated:RECOMMENDERS",
    "similarities": "gossiprec.rules.similarities:SIMILARITIES",
    "protocols": "gossiprec.network.protocols:PROTOCOLS",
    "samplings": "gossiprec.network.overlay:SAMPLINGS",
    "topologies": "gossiprec.network.graphs:FAMILIES",
    "session_formats": "gossiprec.network.sessions:SESSION_FORMATS",
    "aggregators": "gossiprec.rules.aggregators:AGGREGATORS",
    "servers": "gossiprec.rules.servers:SERVERS",
    "policies": "gossiprec.defences:POLICIES",
    "attacks": "gossiprec.adversaries.attacks:ATTACKS",
    "poisoners": "gossiprec.adversaries.poisoners:POISONERS",
    "measures": "gossiprec.measures:MEASURES",
    "trackers": "gossiprec.trackers:TRACKERS",
    "unlearners": "gossiprec.emulation.unlearning:UNLEARNERS",
}
"""Location of the registry of each kind; a kind is named after its registry's group."""
OPTION_SETS = {"topologies": "gossiprec.network.overlay.graph_options:family_options"}
"""Location of the function that returns the option set of a name, for kinds of which the members do not hold it."""


def get_registry(kind: str) -> Registry[Any]:
    """Return the registry of a kind, imported on first use.

    Raises
    ------
    ScenarioError
        If there is no such kind; the message names the nearest name.
    """
    if kind not in KINDS:
        known = [*KINDS, "scenarios", "studies"]  # these are files: gossiprec.scenario.yaml_source
        raise ScenarioError(f"unknown kind {kind!r}; known: {', '.join(known)}{did_you_mean(kind, known)}")
    return cast("Registry[Any]", _import(KINDS[kind]))


def _import(location: str) -> Any:
    """Return the value at a location, such as ``gossiprec.data:SPLITS``."""
    module, _, name = location.partition(":")
    return getattr(importlib.import_module(module), name)


def _installed(kind: str) -> Callable[[], Registry[Any]]:
    return lambda: get_registry(kind)


@dataclass(frozen=True)
class Registries:
    """One registry for each kind that has a section, and of run modes: gossiprec's own, unless a test replaces them."""

    datasets: Registry[Any] = field(default_factory=_installed("datasets"))
    splits: Registry[Any] = field(default_factory=_installed("splits"))
    models: Registry[Any] = field(default_factory=_installed("models"))
    recommenders: Registry[Any] = field(default_factory=_installed("recommenders"))
    protocols: Registry[Any] = field(default_factory=_installed("protocols"))
    attacks: Registry[Any] = field(default_factory=_installed("attacks"))
    policies: Registry[Any] = field(default_factory=_installed("policies"))
    poisoners: Registry[Any] = field(default_factory=_installed("poisoners"))
    modes: Registry[Any] = field(default_factory=lambda: _import("gossiprec.modes:MODES"))


WORDS = {"integer": "whole number", "string": "text", "boolean": "true or false", "object": "mapping"}
"""Types of JSON Schema in the words of a YAML reader, if the two differ."""
BOUNDS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}


@dataclass(frozen=True)
class RegisteredThing:
    """A registered thing.

    Attributes
    ----------
    name : str
    origin : str
        ``gossiprec``, or distribution and version of a plug-in; several if they register the same name.
    summary : str
        The first line of its docstring.
    problem : str
        Why it cannot be used; empty if it can.
    trained : str
        Of a model: :meth:`gossiprec.models.base.Model.training_path`.
    """

    name: str
    origin: str
    summary: str = ""
    problem: str = ""
    trained: str = ""


@dataclass(frozen=True)
class OptionInfo:
    """An option of a registered thing.

    Attributes
    ----------
    key : str
        Key, dotted if it is in a section (``wake.mean``).
    type : str
        Allowed values, as text.
    required : bool
    default : object
        Plain data; None if it is required.
    description : str
    """

    key: str
    type: str
    required: bool
    default: Any
    description: str


def list_members(kind: str) -> list[RegisteredThing]:
    """Return the members of a kind in alphabetical order, including broken ones.

    Raises
    ------
    ScenarioError
        If there is no such kind.
    """
    return [describe_member(kind, name) for name in get_registry(kind)]


def describe_member(kind: str, name: str) -> RegisteredThing:
    """Return the description of a registered thing.

    Raises
    ------
    ScenarioError
        If there is no such kind or thing.
    """
    registry, origin = get_registry(kind), "several"
    try:
        point = registry.entry_point(name)
        origin = "gossiprec" if point is None else origin_of(point)
        thing = registry[name]
        doc = inspect.getdoc(inspect.unwrap(thing)) or ""
    except PluginError as error:
        return RegisteredThing(name, origin, problem=str(error))
    summary = doc.partition("\n")[0].replace("``", "").removeprefix("Return ")
    return RegisteredThing(name, origin, summary, trained=thing.training_path() if kind == "models" else "")


def unknown_plugin_groups() -> list[str]:
    """Return a message for each plug-in with an entry point in an unknown group, which is most likely misspelt."""
    groups = [PREFIX + kind for kind in KINDS]
    found = set()
    for group in entry_points().keys() - groups:
        what = f"the group {group}, which gossiprec does not know{did_you_mean(group, groups)}"
        points = itertools.chain.from_iterable(entry_points()[group].values())
        found |= {f"{origin_of(point)} has entry points in {what}" for point in points}
    return sorted(found)


def describe_options(kind: str, name: str) -> list[OptionInfo]:
    """Return the options of a registered thing, in the order of their declaration.

    Raises
    ------
    ScenarioError
        If there is no such kind or thing.
    PluginError
        If its plug-in cannot be used.
    """
    find = _import(OPTION_SETS[kind]) if kind in OPTION_SETS else partial(options_class, get_registry(kind))
    schema = find(name).model_json_schema()
    return list(_options(schema, schema.get("$defs", {})))


def _options(
    schema: Mapping[str, Any],
    defs: Mapping[str, Any],
    above: str = "",
    stated: Mapping[str, Any] | None = None,
) -> Iterator[OptionInfo]:
    """Yield the options of a section; `stated` are defaults of the section that take precedence over its keys'."""
    for key, about in schema.get("properties", {}).items():
        whole = _resolved(about, defs)
        if "const" in whole:  # distinguishes one section from another
            continue
        default = (stated or {}).get(key, about.get("default"))
        if "properties" in whole:
            yield from _options(whole, defs, f"{above}{key}.", default)
        else:
            required = key in schema.get("required", []) and key not in (stated or {})
            meaning = about.get("description", "")
            yield OptionInfo(f"{above}{key}", _type(about, defs), required, default, meaning)


def _resolved(about: Mapping[str, Any], defs: Mapping[str, Any]) -> Mapping[str, Any]:
    return defs[about["$ref"].rpartition("/")[2]] if "$ref" in about else about


def _type(about: Mapping[str, Any], defs: Mapping[str, Any]) -> str:
    """Return the allowed values as text."""
    about = _resolved(about, defs)
    branches = about.get("anyOf") or about.get("oneOf")
    if branches:
        return " or ".join(dict.fromkeys(_type(branch, defs) for branch in branches))
    if "const" in about or "enum" in about:
        values = about.get("enum", [about.get("const")])
        return "|".join(value if isinstance(value, str) else json.dumps(value) for value in values)
    if "properties" in about:
        return f"{{{', '.join(about['properties'])}}}"
    if about.get("type") == "array":
        return _list(about, defs)
    known = ((sign, about.get(key, LARGEST)) for key, sign in BOUNDS.items())
    bounds = [f"{sign} {bound}" for sign, bound in known if abs(bound) < LARGEST]
    kind = about.get("type", "anything")
    return f"{WORDS.get(kind, kind)} {', '.join(bounds)}".strip()


def _list(about: Mapping[str, Any], defs: Mapping[str, Any]) -> str:
    if "prefixItems" in about:
        return f"[{', '.join(_type(item, defs) for item in about['prefixItems'])}]"
    return f"list of {_type(about.get('items', {}), defs)}"


def scenario_plugins(scenario: Scenario) -> Plugins:
    """Return the distributions, other than gossiprec, that provide the things a scenario names."""
    points = (registry.entry_point(name) for registry, name in _named(scenario))
    return distributions_used(point for point in points if point is not None)


def scenario_code_version(scenario: Scenario) -> str:
    """Return the version of all code that a scenario uses (:func:`gossiprec.base.registry.combined_code_version`)."""
    return combined_code_version(scenario_plugins(scenario))


FIGURES = "matplotlib"
"""The module by which figures are drawn."""


def check_modules(scenario: Scenario) -> None:
    """Import the modules that the things of a scenario import late, named in their class attribute ``modules``.

    Raises
    ------
    ResourceError
        If a module cannot be imported.
    """
    needed = late_imports(scenario)
    if scenario.plots and importlib.util.find_spec(FIGURES) is None:  # it is imported when the run is over
        needed[FIGURES] = "plots: true"
    for module, thing in needed.items():
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise ResourceError(
                f"{thing} requires the module {module}, which cannot be imported ({error}); install "
                f"it, or remove {thing}"
            ) from error


def late_imports(scenario: Scenario) -> dict[str, str]:
    """Return the modules that the things of a scenario import late, each with the thing that needs it."""
    needed = {
        module: f"the {registry.kind} {name}"
        for registry, name in _named(scenario)
        for module in getattr(registry[name], "modules", ())
    }
    if scenario.recommender is not None:  # the modules it needs may depend on its options
        modules = getattr(scenario.recommender.options, "modules", ())
        needed |= dict.fromkeys(modules, f"the recommender {scenario.recommender.name}")
    return needed


def _named(scenario: Scenario) -> Iterator[tuple[Registry[Any], str]]:
    things = Registries()
    yield things.datasets, scenario.dataset.name
    yield things.splits, scenario.dataset.split.name
    yield things.models, scenario.model.name
    if scenario.recommender is not None:
        yield things.recommenders, scenario.recommender.name
    yield things.protocols, scenario.protocol.name
    yield from ((things.policies, choice.name) for choice in scenario.policies)
    yield from ((things.poisoners, choice.name) for choice in scenario.attackers)
    yield from ((things.attacks, choice.name) for choice in (*scenario.adversaries, *scenario.observers))
    yield from ((MEASURES, measure_name(metric)) for metric in scenario.evaluate.metrics)
    yield from iter_registered(scenario)
