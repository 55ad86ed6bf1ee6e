"""The plug-ins and the Python modules that a scenario uses."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from gossiprec.base.errors import ResourceError
from gossiprec.base.options import iter_registered
from gossiprec.base.registry import Plugins, Registry, combined_code_version, distributions_used
from gossiprec.measures import MEASURES
from gossiprec.measures.metric import measure_name
from gossiprec.scenario.definition import Scenario
from gossiprec.scenario.registries import Registries


def scenario_plugins(scenario: Scenario) -> Plugins:
    """Return the distributions, other than gossiprec, that provide the things a scenario names."""
    points = (registry.entry_point(name) for registry, name in _named(scenario))
    return distributions_used(point for point in points if point is not None)


def scenario_code_version(scenario: Scenario) -> str:
    """Return the version of all code that a scenario uses (:func:`gossiprec.base.registry.combined_code_version`)."""
    return combined_code_version(scenario_plugins(scenario))


def check_modules(scenario: Scenario) -> None:
    """Import the modules that the things of a scenario import late, named in their class attribute ``modules``.

    Raises
    ------
    ResourceError
        If a module cannot be imported.
    """
    for module, thing in modules_of(scenario).items():
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise ResourceError(
                f"{thing} requires the module {module}, which cannot be imported ({error}); install "
                f"it, or remove {thing}"
            ) from error


def modules_of(scenario: Scenario) -> dict[str, str]:
    """Return the modules that the things of a scenario import late, each with the thing that needs it."""
    needed = {
        module: f"the {registry.kind} {name}"
        for registry, name in _named(scenario)
        for module in getattr(registry[name], "modules", ())
    }
    if scenario.recommender is not None:  # the modules it needs may depend on its options
        asked = getattr(scenario.recommender.options, "modules", ())
        needed |= dict.fromkeys(asked, f"the recommender {scenario.recommender.name}")
    if scenario.plots:
        needed["matplotlib.figure"] = "plots: true"
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
    yield from ((things.attacks, choice.name) for choice in scenario.observers)
    yield from ((MEASURES, measure_name(metric)) for metric in scenario.evaluate.metrics)
    yield from iter_registered(scenario)
