"""The measures of its runs that a study collects."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from gossiprec.adversaries.attacks import ATTACKS
from gossiprec.adversaries.attacks.observer_names import TableKey, key_to_labels
from gossiprec.base.errors import suggestion
from gossiprec.measures.metric import read_metric
from gossiprec.measures.selectors import (
    FILTERS,
    OF_ATTACKS,
    MeasureSelector,
    read_measure,
    split_baseline_name,
)
from gossiprec.runs.adversaries import attack_key
from gossiprec.scenario.definition import Scenario
from gossiprec.scenario.problems import Problems
from gossiprec.study.deduplication import scenario_table_keys
from gossiprec.study.load import LoadedStudy

BY_DEFAULT = ("max_aac", "last_aac", "upper_bound", "random_bound")
OF_RUNS = (
    "nodes", "items", "interactions", "wakes", "messages", "node_updates", "virtual_time", "bytes.sent", "bytes.up",
    "bytes.down", "rounds.mean_answers", "rounds.late", "rounds.given_up", "privacy.nodes",
    "privacy.delta", "privacy.epsilon_max", "privacy.epsilon_mean", "privacy.noise_multiplier_min",
    "privacy.noise_multiplier_max", "privacy.epsilon_per_coordinate", "privacy.coordinates_max",
    "contribution.epsilon_item", "contribution.epsilon_set_mean",
    "contribution.epsilon_set_max", "contribution.kept", "contribution.similarity", "contribution.leaks.cda",
    "contribution.leaks.cda_random", "contribution.leaks.mia_auc", "contribution.leaks.mia_auc_popularity",
    "contribution.leaks.auxiliary_cda", "contribution.leaks.auxiliary_mia_auc",
    "privacy.told_rows.epsilon_max", "privacy.told_rows.epsilon_mean", "clusters.times", "clusters.unknown",
    "told_vectors.received_mean", "told_vectors.received_max", "told_vectors.leaks.exact.cda",
    *(
        f"told_vectors.leaks.{how}.{name}"
        for how in ("nearest", "likeliest", "random")
        for name in (
            "reidentified", "own_first", "own_rank", "cda",
            *(("own_first_of_means", "own_rank_of_means", "cda_of_means") if how != "random" else ()),
        )
    ),
)  # fmt: skip
VARYING = (
    "wall_seconds", "processor_seconds", "node_updates_per_second", "peak_rss_mib", "seconds", "attack_seconds",
    "needed_mib", "threads",
)  # fmt: skip
"""Keys of a summary that vary between runs of the same scenario, and are therefore no measures."""


def parse_measures(study: LoadedStudy, problems: Problems) -> list[MeasureSelector] | None:
    """Return the measures of a study file, or None if it names none and all are collected."""
    texts = study.file.measures
    if texts is None:
        return None
    parsed: list[MeasureSelector] = []
    for place, text in enumerate(texts):
        try:
            found = _known(read_measure(text))
        except ValueError as error:
            problems.add(("measures", place), str(error))
            continue
        if found in parsed:
            problems.add(("measures", place), f"found {text!r} twice; remove one")
        parsed.append(found)
    return parsed


def check_measures(
    measures: Sequence[MeasureSelector], scenarios: Iterable[Scenario], problems: Problems
) -> None:
    """Refuse measures that no run will have."""
    scenarios = list(scenarios)
    metrics = {metric for scenario in scenarios for metric in scenario.evaluate.measured()}
    attacks = {choice.name for scenario in scenarios for choice in scenario.observers}
    found = [scenario_table_keys(scenario) for scenario in scenarios]
    keys = None if any(own is None for own in found) else {key for own in found for key in own or ()}
    for place, measure in enumerate(measures):
        at, name = ("measures", place), measure.name
        if "@" in name and name not in metrics:
            known = ", ".join(sorted(metrics))
            problems.add(at, f"no run measures {name!r}: evaluate.metrics has {known}; add it there")
        elif name in _reported() and name not in _reported(attacks):
            problems.add(at, f"no run has an attack that reports {name!r}; add such an attack to observers")
        elif name in (*OF_ATTACKS, *_reported()) and keys is not None and not _is_of_any(measure, keys):
            there = ", ".join(sorted({attack_key(**key_to_labels(key)) for key in keys})) or "none"
            problems.add(
                at, f"no run has such an attack; expected one of (observer/relevance/momentum/size): {there}"
            )


def _is_of_any(measure: MeasureSelector, keys: Iterable[TableKey]) -> bool:
    """Return whether a measure selects any of these attacks, judged by the labels in their keys."""
    filters = {name: value for name, value in measure.filters.items() if name in FILTERS}
    return any(MeasureSelector(measure.name, filters).takes(key_to_labels(key)) for key in keys)


def _known(measure: MeasureSelector) -> MeasureSelector:
    """Return a measure if runs can have it.

    Raises
    ------
    ValueError
        If they cannot; the message names similar measures.
    """
    name = measure.name
    if name.partition(".")[0] in VARYING:
        raise ValueError(
            f"{name!r} differs between runs of the same scenario, so it cannot be collected; see the "
            "runs' summary.json"
        )
    of_attacks = (*OF_ATTACKS, *_reported())
    if "@" in name:
        read_metric(split_baseline_name(name)[0])
    elif name not in of_attacks and name not in OF_RUNS:
        known = [*of_attacks, *OF_RUNS]
        raise ValueError(
            f"unknown measure {name!r}{suggestion(name, known)} (metrics such as hr@20, or: {', '.join(known)})"
        )
    if measure.filters and name not in of_attacks:
        raise ValueError(f"{name!r} describes the whole run; remove the brackets")
    return measure


def _reported(attacks: Container[str] = ATTACKS) -> list[str]:
    """Return the names of the measures in findings of these attacks; broken plug-ins are left out."""
    found = (measure for name, attack in ATTACKS.members() if name in attacks for measure in attack.measures)
    return list(dict.fromkeys(found))
