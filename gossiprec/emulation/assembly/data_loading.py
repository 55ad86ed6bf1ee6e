"""Loading the data that a scenario names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gossiprec.base.errors import GossipRecError
from gossiprec.base.inputs import changed_files
from gossiprec.data import load_split
from gossiprec.data.data_sizes import DataSizes, estimate_sizes
from gossiprec.data.split import Split, data_fingerprint
from gossiprec.scenario import Scenario


def load_data(scenario: Scenario) -> Split:
    """Return the scenario's data, split into parts.

    Raises
    ------
    DataError
        If a file is missing or damaged.
    """
    return load_split(**_named(scenario))


def data_sizes(scenario: Scenario) -> DataSizes:
    """Return the sizes of the scenario's data, which are read, or generated if that is quick.

    Raises
    ------
    DataError
        If a file is missing or damaged.
    """
    return estimated_data_sizes(scenario) or DataSizes.of(load_data(scenario))


def estimated_data_sizes(scenario: Scenario) -> DataSizes | None:
    """Return estimated sizes of the scenario's data, or None if the data can be loaded quickly."""
    return estimate_sizes(**_named(scenario))


def reads_files(scenario: Scenario) -> bool:
    """Return whether the scenario's data come from files, which may change."""
    choice = scenario.dataset
    options = [*vars(choice.options).values(), *vars(choice.split.options).values()]
    return any(isinstance(option, Path) for option in options)


def changed_data_fingerprint(scenario: Scenario, then: str) -> str | None:
    """Return the fingerprint of the scenario's data if it differs from `then`, or None; missing data do not differ."""
    try:
        now = data_fingerprint(load_data(scenario))
    except GossipRecError:
        return None
    return None if now == then else now


def changed_since(scenario: Scenario, manifest: Mapping[str, Any]) -> str | None:
    """Return a description of the input files that changed since a run, or None; missing files do not count.

    Parameters
    ----------
    scenario : Scenario
    manifest : mapping
        The manifest of the run. Earlier versions wrote only the fingerprint of the data.
    """
    inputs, data = manifest.get("inputs"), manifest.get("data") or {}
    changed = [] if inputs is None else changed_files(inputs)
    if (changed or inputs is None) and data and reads_files(scenario):
        then = str(data["fingerprint"])
        now = changed_data_fingerprint(scenario, then)
        if now is not None:
            return f"fingerprint {then} then, {now} now"
    return f"{', '.join(changed)} changed" if changed else None


def _named(scenario: Scenario) -> dict[str, Any]:
    choice = scenario.dataset
    return {
        "dataset_name": choice.name,
        "dataset_options": choice.options,
        "split_name": choice.split.name,
        "split_options": choice.split.options,
        "seed": scenario.seed,
        "limit_users": choice.limit_users,
    }
