"""What a study will run: every combination and seed resolved and checked before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gossiprec.measures.names import Measure
from gossiprec.scenario.cross_checks import note_oversized
from gossiprec.scenario.load import build_scenario
from gossiprec.scenario.model import Scenario
from gossiprec.scenario.overrides import Override
from gossiprec.scenario.problems import KeyPath, Problems
from gossiprec.scenario.source import Layer
from gossiprec.study.deduplication import Simulation, clashes, share
from gossiprec.study.gathering import Gathered
from gossiprec.study.identity import canonical, run_hash
from gossiprec.study.load import Study
from gossiprec.study.measures import check_measures, parse_measures
from gossiprec.study.points import Label, Point, find_setting, make_points
from gossiprec.study.spec import seed_list


@dataclass(frozen=True)
class Variant:
    """One combination of the axes with one seed.

    Attributes
    ----------
    labels : dict of str to Label
        What the table says of each axis.
    scenario : Scenario
    hash : str
        Of its own scenario, before observers are merged.
    """

    labels: dict[str, Label]
    scenario: Scenario
    hash: str

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.scenario.seed


@dataclass(frozen=True)
class Plan:
    """A study that could start now.

    Attributes
    ----------
    study : Study
    variants : list of Variant
        In the order of the table.
    simulations : list of Simulation
        What is run; each serves one or more variants.
    measures : list of Measure or None
        None: all that there are.
    baseline : dict of str to Label
    """

    study: Study
    variants: list[Variant]
    simulations: list[Simulation]
    measures: list[Measure] | None
    baseline: dict[str, Label]

    @property
    def n_repeated(self) -> int:
        """How many variants say the same as an earlier one."""
        return len(self.variants) - len({variant.hash for variant in self.variants})

    @property
    def simulation_of(self) -> dict[str, Simulation]:
        """The simulation that serves each variant, by the variant's hash."""
        return {served: simulation for simulation in self.simulations for served in simulation.serves}


def make_plan(study: Study, *, check_data: bool = True, limit: int | None = None) -> Plan:
    """Resolve and check all runs of a study.

    Parameters
    ----------
    study : Study
    limit : int, optional
        Only the first so many combinations.
    check_data : bool
        Whether the data are read to see that they can carry the runs; not needed to look up runs that are there.

    Raises
    ------
    ScenarioError
        With every problem of every run, each said once: where it was written, its key path, what was found.
    DataError
        If a data set cannot be read.
    """
    problems = Problems()
    problems.absorb(study.problems, study.source.source_map)
    points = make_points(study, problems)[:limit]
    _check_seed_keys(study, problems)
    variants = [] if problems else _variants(study, points, problems)
    measures = parse_measures(study, problems)
    baseline = _baseline(study, problems)
    problems.raise_any(study.source.source_map)
    _check_observers(study, variants, problems)
    if check_data:
        _check_against_data(study, variants, problems)
    if measures is not None:
        check_measures(measures, [variant.scenario for variant in variants], problems)
    problems.raise_any(study.source.source_map)
    simulations = share({v.hash: v.scenario for v in variants}, merge=study.file.share)
    return Plan(study, variants, simulations, measures, baseline)


def _check_seed_keys(study: Study, problems: Problems) -> None:
    """Refuse a second way to say the seed: rows of the table are told apart by it."""
    said: list[KeyPath] = [("set", key) for key in study.file.sets if key == "seed"]
    for name, axis in study.file.axes.items():
        if axis.key is None and isinstance(axis.values, dict):
            said += [("axes", name, "values", label) for label, sets in axis.values.items() if "seed" in sets]
        elif axis.key == "seed":
            said.append(("axes", name))
    for path in said:
        problems.add(
            path,
            "seed is set here; write seeds: [1, 2, 3] instead, at the top of the study or next to a base",
        )


def _variants(study: Study, points: Sequence[Point], problems: Problems) -> list[Variant]:
    common = list(_common(study))
    variants = []
    gathered = Gathered(study)
    for point in points:
        chosen = [override for setting in point.values() for override in setting.overrides]
        labels = {name: setting.label for name, setting in point.items()}
        for given in _seeds(study, point):
            found = Problems()
            scenario, source_map = build_scenario(_base(study, point), [*common, *chosen, *given], found)
            gathered.add(found, source_map, labels)
            if scenario is not None and not found:
                variants.append(Variant(labels, scenario.located(source_map), run_hash(scenario)))
            if found:
                break  # other seeds have the same problems
    gathered.tell(problems, len(points))
    return variants


def _base(study: Study, point: Point) -> Layer:
    """Return the base of a combination: that of the last axis that brings one, or the study's."""
    own = [setting.base for setting in point.values() if setting.base is not None]
    return own[-1] if own else study.bases[("base",)]


def _seeds(study: Study, point: Point) -> list[list[Override]]:
    """Return what sets each seed of a combination; nothing where the base's own is used."""
    own = [setting.seeds for setting in point.values() if setting.seeds is not None]
    seeds = own[-1] if own else seed_list(study.file.seeds)
    return [[]] if seeds is None else [[Override(("seed",), seed, study.origin("seeds"))] for seed in seeds]


def _common(study: Study) -> Iterator[Override]:
    for key, value in study.file.sets.items():
        yield Override(tuple(key.split(".")), value, study.origin("set", key))


def _baseline(study: Study, problems: Problems) -> dict[str, Label]:
    chosen: dict[str, Label] = {}
    for name, value in (study.file.baseline or {}).items():
        axis = study.file.axes.get(name)
        if axis is None:
            known = ", ".join(study.file.axes) or "none"
            problems.add(("baseline", name), f"is not an axis; axes are: {known}")
        elif axis.values is None:
            problems.add(("baseline", name), "is a range, but a baseline must be a value of an axis")
        else:
            setting = find_setting(study, name, value)
            if setting is None:
                problems.add(
                    ("baseline", name), f"found {value!r}, must be one of {', '.join(map(str, axis.values))}"
                )
            else:
                chosen[name] = setting.label
    return chosen


def _check_against_data(study: Study, variants: Sequence[Variant], problems: Problems) -> None:
    """Check every distinct scenario against the size of its data; a data set is read once, whatever the seeds.

    Data that would take long to draw are not: their sizes are known.
    """
    from gossiprec.emulation.assembly.data import outline_data

    sizes: dict[str, tuple[int, int]] = {}
    checked: set[str] = set()
    gathered = Gathered(study)
    for variant in variants:
        scenario = variant.scenario
        told = canonical({**scenario.resolved(), "seed": None})
        if told in checked:
            continue
        checked.add(told)
        data = canonical(scenario.dataset.plain())
        if data not in sizes:
            outline = outline_data(scenario)
            sizes[data] = (outline.n_users, outline.split.n_items)
        found = Problems()
        note_oversized(scenario, *sizes[data], found)
        gathered.add(found, scenario.source_map, variant.labels)
    gathered.tell(problems, len(checked))


def _check_observers(study: Study, variants: Sequence[Variant], problems: Problems) -> None:
    """Refuse observers of one run that its tables could not tell apart."""
    gathered = Gathered(study)
    for variant in variants:
        found, scenario = Problems(), variant.scenario
        for index, name in clashes(scenario):
            found.add(
                ("observers", index),
                f"an earlier observer has the same key {name}; change the fraction, momentum, relevance or "
                "community_size of one of them",
            )
        gathered.add(found, scenario.source_map, variant.labels)
    gathered.tell(problems, len(variants))
