"""The settings of a run's scenario as one line of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Section = Mapping[str, Any]


def format_settings(scenario: Section) -> str:
    """Return model, recommender, training and protocol of a resolved scenario as text."""
    parts = (
        _model(scenario["model"]),
        _added(scenario),
        _training(scenario),
        _protocol(scenario),
    )
    return "; ".join(part for part in parts if part)


def _model(model: Section) -> str:
    """Return a model's name and sizes."""
    sizes = [f"d = {model['dim']}"]
    sizes += (
        [f"layers {'-'.join(map(str, model['hidden']))}"] if isinstance(model.get("hidden"), list) else []
    )
    sizes += [f"{key} {model[key]}" for key in ("layers", "loss") if key in model]
    return f"{model['name']} ({', '.join(sizes)})"


def _added(scenario: Section) -> str:
    """Return the recommender and the policies, with the options that set the amount of noise."""
    recommender, found = scenario.get("recommender"), []
    if recommender:
        told = [f"{key} {recommender[key]:g}" for key in ("epsilon", "augmented") if key in recommender]
        found.append(recommender["name"] + (f" ({', '.join(told)})" if told else ""))
    for policy in scenario.get("policies", ()):
        scale = f" {policy['noise']} {policy['scale']:g}" if policy.get("scale") else ""
        found.append(f"{policy['name']}{scale}")
    return ", ".join(found)


def _training(scenario: Section) -> str:
    """Return the optimizer, its rate, the batches and the negatives."""
    training, batch = scenario["training"], scenario["training"]["batch_size"]
    batches = "full batches" if batch in (None, "full") else f"batches of {batch}"
    return f"{training['optimizer']} {training['learning_rate']:g}, {batches}, {_negatives(scenario)}"


def _negatives(scenario: Section) -> str:
    """Return the number and kind of negatives per positive, if they are drawn."""
    recommender = scenario.get("recommender") or {}
    if "local_negatives" in recommender:
        semi_hard = f" and {recommender['semi_hard']} semi-hard" if "semi_hard" in recommender else ""
        return f"{recommender['local_negatives']} local{semi_hard} negatives"
    if scenario["model"].get("loss") == "all":
        return "all items as negatives"
    number = scenario["training"]["negatives"]
    return f"{number} negative{'s' if number > 1 else ''}"


def _protocol(scenario: Section) -> str:
    """Return the number of rounds and epochs, the selected clients, and the aggregation."""
    protocol, each = scenario["protocol"], scenario["training"]["local_epochs"]
    if protocol["name"] == "central":
        return f"{protocol['epochs']} epochs"
    of = f"of {each} local epoch{'s' if each > 1 else ''}"
    if "wakes" in protocol:
        return f"{protocol['wakes']} wakes {of}"
    return ", ".join([f"{protocol['rounds']} rounds {of}", *_asked(protocol)])


def _asked(protocol: Section) -> Iterator[str]:
    """Yield the clients selected per round, the aggregation rule and the server."""
    if protocol.get("slice"):
        yield f"slices of {protocol['slice']}"
    elif protocol["participation"] < 1:
        yield f"{100 * protocol['participation']:g} % of the clients each"
    merge, server = protocol["merge"], protocol.get("server")
    yield str(merge["name"] if isinstance(merge, Mapping) else merge)
    if server:
        yield f"{server['name']} {server['learning_rate']:g} at the coordinator"
