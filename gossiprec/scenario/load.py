"""Loading: from YAML, presets and overrides to a typed scenario, or to the list of all its problems."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from gossiprec.base.errors import GossipRecError, ScenarioError, did_you_mean
from gossiprec.base.options import KeyPath, NoOptions, Options, options_class
from gossiprec.base.registry import Registry
from gossiprec.base.text import format_value
from gossiprec.scenario.definition import (
    FIXED,
    AdversaryChoice,
    AttackerChoice,
    DatasetChoice,
    PolicyChoice,
    RegisteredChoice,
    Scenario,
    ScenarioHeader,
)
from gossiprec.scenario.problems import (
    Problems,
    SourceMap,
    add_validation_problems,
    reject_disguised_numbers,
    unknown_key_message,
)
from gossiprec.scenario.registries import Registries
from gossiprec.scenario.section_checks import ScenarioFacts, section_problems
from gossiprec.scenario.yaml_source import (
    Override,
    SourceLayer,
    apply_overrides,
    apply_preset,
    parse_overrides,
    read_file,
    read_mapping,
)

C = TypeVar("C", bound=RegisteredChoice)

_NO_CHOICE = RegisteredChoice(name="none", options=NoOptions())
"""Placeholder for a section that could not be built."""


def load_scenario(
    source: str | os.PathLike[str] | Mapping[str, Any],
    overrides: Iterable[str] = (),
    registries: Registries | None = None,
) -> Scenario:
    """Return the scenario in a file or mapping, with `overrides` set.

    Parameters
    ----------
    source : path or mapping
        A YAML file, or its content as data.
    overrides : iterable of str
        ``key.path=value`` with the value in YAML; a number is an index into a list (``observers.0.momentum=0.5``).
    registries : Registries, optional
        The things a scenario can name; gossiprec's own if not given.

    Raises
    ------
    ScenarioError
        If there are problems. Each is listed on one line: its origin, its key path, the value found, and the values
        allowed.
    """
    problems = Problems()
    own = read_source(source, problems)
    scenario, source_map = build_scenario(own, parse_overrides(overrides, problems), problems, registries)
    problems.raise_any(source_map)
    assert scenario is not None, "a scenario that cannot be built has problems"
    return scenario.with_source_map(source_map)


def read_source(
    source: str | os.PathLike[str] | Mapping[str, Any], problems: Problems, keys: str = "name, dataset, ..."
) -> SourceLayer:
    """Return the values of a file or mapping, before presets and overrides; `keys` are named if it is no mapping.

    Raises
    ------
    ScenarioError
        If it cannot be read as a mapping at all.
    """
    own = read_mapping(source, problems) if isinstance(source, Mapping) else read_file(Path(source), problems)
    if own.data is None and not problems:
        raise ScenarioError(f"{own.whole}: is empty; start from a file that `gossiprec init` writes")
    if not isinstance(own.data, dict):
        raise ScenarioError(
            f"{own.whole}: found {format_value(own.data)}, must be a mapping of keys ({keys})"
        )
    if "axes" in own.data and "dataset" not in own.data:
        raise ScenarioError(
            f"{own.whole}: is a study, not a scenario; run it with: gossiprec study {quote(str(own.whole))}"
        )
    return own


def build_scenario(
    own: SourceLayer, overrides: Sequence[Override], problems: Problems, registries: Registries | None = None
) -> tuple[Scenario | None, SourceMap]:
    """Return the scenario of `own` with `overrides` set, and the origins of its values.

    Parameters
    ----------
    own : SourceLayer
        From :func:`read_source`; it is not modified, so that one file can serve many variants.
    overrides : sequence of Override
    problems : Problems
        Receives the problems; the scenario is None if they prevent building it.
    registries : Registries, optional
        The things a scenario can name; gossiprec's own if not given.
    """
    layer, known = _layered(own, overrides, problems)
    if not known:  # without the preset's values everything else would seem to be missing
        return None, layer.source_map
    things = registries or Registries()
    scenario = _Builder(things, problems).scenario(layer.data)
    _say_how_to_change_names(overrides, problems, layer.source_map)
    if scenario is not None:
        problems.add_all(section_problems(scenario, ScenarioFacts.of(scenario, things)))
    return scenario, layer.source_map


def _say_how_to_change_names(
    overrides: Sequence[Override], problems: Problems, source_map: SourceMap
) -> None:
    """Explain how to change a name by an override, if keys of the old choice remain in its section."""
    found = problems.with_origins(source_map)
    unknown = {path[0] for path, text, _ in found if len(path) == 2 and "unknown key" in text}
    for override in overrides:
        if len(override.keys) == 2 and override.keys[1] == "name" and override.keys[0] in unknown:
            section = override.keys[0]
            problems.add(
                (section,),
                "the keys of the previous choice are kept; replace the whole section: --set "
                f"'{section}={{name: {override.value}, ...}}'",
                origin=override.origin,
            )


def _layered(own: SourceLayer, overrides: Sequence[Override], problems: Problems) -> tuple[SourceLayer, bool]:
    """Return preset, file and overrides merged, and whether the preset, if any, is known."""
    chosen = [override for override in overrides if override.keys == ("preset",)]
    if chosen:
        own = SourceLayer(own.data, own.whole, {**own.origins, ("preset",): chosen[-1].origin})
    preset = chosen[-1].value if chosen else own.data.get("preset")
    before = len(problems)
    layer = apply_preset(own, preset, problems)
    if len(problems) > before:
        return own, False
    rest = [override for override in overrides if override not in chosen]
    return apply_overrides(layer, rest, problems), True


class _Builder:
    """A builder that validates section by section, so that one bad section does not hide problems of another."""

    def __init__(self, registries: Registries, problems: Problems) -> None:
        self._registries = registries
        self._problems = problems

    def scenario(self, data: dict[str, Any]) -> Scenario | None:
        things = self._registries
        for key in data:
            if key not in Scenario.model_fields:
                known = [*Scenario.model_fields, "preset"]
                message = unknown_key_message(key, known, elsewhere=self._paths_to(key, data))
                self._problems.add((key,), message)
        parts: dict[str, Any] = {
            "dataset": self._dataset(data),
            "model": self._choice(RegisteredChoice, data, ("model",), things.models),
            "protocol": self._choice(RegisteredChoice, data, ("protocol",), things.protocols),
            "policies": self._choices(PolicyChoice, data, "policies", things.policies),
            "attackers": self._choices(AttackerChoice, data, "attackers", things.poisoners),
            "adversaries": self._choices(AdversaryChoice, data, "adversaries", things.attacks),
            "observers": self._choices(RegisteredChoice, data, "observers", things.attacks),
        }
        if data.get("recommender") is not None:
            parts["recommender"] = self._choice(RegisteredChoice, data, ("recommender",), things.recommenders)
        header = {key: data[key] for key in ScenarioHeader.model_fields if key in data}
        identity = self._valid(ScenarioHeader, header, ())
        for key, section in FIXED.items():
            parts[key] = self._valid(section, data.get(key, {}), (key,))
        if identity is None or any(part is None for part in parts.values()):
            return None
        return Scenario.model_validate({**dict(identity), **parts})

    def _paths_to(self, key: str, data: dict[str, Any]) -> list[str]:
        """Return the paths in sections that have a key that was given at the top."""
        registries = {"protocol": self._registries.protocols, "model": self._registries.models}
        sections: dict[str, type[BaseModel]] = {**FIXED}
        for name, registry in registries.items():
            chosen = data.get(name)
            if isinstance(chosen, dict) and chosen.get("name") in registry:
                sections[name] = options_class(registry, chosen["name"])
        return [f"{name}.{key}" for name, section in sections.items() if key in section.model_fields]

    def _dataset(self, data: dict[str, Any]) -> DatasetChoice | None:
        datasets, raw = self._registries.datasets, data.get("dataset")
        if not isinstance(raw, dict):
            return self._choice(DatasetChoice, data, ("dataset",), datasets)
        split = self._choice(RegisteredChoice, raw, ("dataset", "split"), self._registries.splits)
        dataset = self._named(DatasetChoice, raw, ("dataset",), datasets, split=split or _NO_CHOICE)
        return dataset if split else None

    def _choices(
        self, kind: type[C], data: dict[str, Any], key: str, registry: Registry[Any]
    ) -> tuple[C, ...] | None:
        raw = data.get(key, [])
        if not isinstance(raw, list):
            self._problems.add((key,), f"found {format_value(raw)}, must be a list of {{name: ..., ...}}")
            return None
        chosen = [self._named(kind, item, (key, index), registry) for index, item in enumerate(raw)]
        whole = tuple(choice for choice in chosen if choice is not None)
        return whole if len(whole) == len(chosen) else None

    def _choice(
        self, kind: type[C], holder: dict[str, Any], at: KeyPath, registry: Registry[Any]
    ) -> C | None:
        key = str(at[-1])
        if key in holder:
            return self._named(kind, holder[key], at, registry)
        self._problems.add(at, f"is missing; expected {{name: ...}} with one of {', '.join(registry)}")
        return None

    def _named(
        self, kind: type[C], raw: Any, at: KeyPath, registry: Registry[Any], **built: RegisteredChoice
    ) -> C | None:
        """Validate ``{name: X, **own keys, **options of X}``; `built` are own keys validated already."""
        options = self._options_class(raw, at, registry)
        if options is None:
            return None
        own = kind.own_keys()
        rest = {key: value for key, value in raw.items() if key != "name" and key not in own}
        valid = self._valid(options, rest, at, also_allowed=("name", *own))
        held = {key: raw[key] for key in own if key in raw and key not in built}
        whole = {"name": raw["name"], "options": valid or NoOptions(), **held, **built}
        try:
            choice = kind.model_validate(whole)
        except ValidationError as error:
            add_validation_problems(error, kind, raw, at, self._problems)
            return None
        reject_disguised_numbers(held, choice, at, self._problems)
        return choice if valid else None

    def _options_class(self, raw: Any, at: KeyPath, registry: Registry[Any]) -> type[Options] | None:
        if not isinstance(raw, dict):
            name = raw if isinstance(raw, str) and raw in registry else next(iter(registry), "...")
            self._problems.add(at, f"found {format_value(raw)}, must be a mapping such as {{name: {name}}}")
        elif not isinstance(raw.get("name"), str):
            near = [key for key in raw if did_you_mean(str(key), ["name"])]
            what = f"is missing, found {near[0]!r}; expected" if near else "is missing; expected"
            what = f"found {format_value(raw['name'])}, must be" if "name" in raw else what
            self._problems.add((*at, "name"), f"{what} one of {', '.join(registry)}")
        else:
            try:
                return options_class(registry, raw["name"])
            except ScenarioError as error:
                self._problems.add((*at, "name"), str(error))
        return None

    def _valid(
        self, options: type[Options], raw: Any, at: KeyPath, *, also_allowed: Iterable[str] = ()
    ) -> Any:
        """Return `raw` as an instance of `options`, or None with the problems noted."""
        try:
            valid: BaseModel = options.model_validate(raw)
        except ValidationError as error:
            add_validation_problems(error, options, raw, at, self._problems, also_allowed=also_allowed)
            return None
        except GossipRecError as error:  # the thing's own check already gives a message in the house form
            self._problems.add(at, str(error))
            return None
        reject_disguised_numbers(raw, valid, at, self._problems)
        return valid
