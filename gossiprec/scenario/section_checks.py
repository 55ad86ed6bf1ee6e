"""Checks of a scenario as a whole: contradictions between sections, and values too large for the data.

A part states what concerns its own entry in its options (:meth:`gossiprec.base.options.Options.check_scenario`,
:meth:`~gossiprec.base.options.Options.check_sizes`). What concerns several sections is a function of :data:`CHECKS`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from gossiprec.base.options import KeyPath, Options, Problem
from gossiprec.base.registry import Registry
from gossiprec.measures.selectors import read_metric
from gossiprec.network.sim.clock import NO_SECONDS, needs_seconds
from gossiprec.scenario.definition import RegisteredChoice, Scenario
from gossiprec.scenario.problems import Problems
from gossiprec.scenario.registries import Registries


@dataclass(frozen=True)
class ScenarioFacts:
    """What the things that a scenario names state about themselves.

    Attributes
    ----------
    mode : RunMode
    model : type
    attacks : Registry
    has_coordinator : bool
    peers_meet : bool
        Whether nodes receive one another's models under the protocol.
    """

    mode: Any
    model: Any
    attacks: Registry[Any]
    has_coordinator: bool
    peers_meet: bool

    @classmethod
    def of(cls, scenario: Scenario, things: Registries) -> ScenarioFacts:
        """Return the facts of a scenario with the registered things."""
        protocol, options = things.protocols[scenario.protocol.name], scenario.protocol.options
        mode, model = things.modes[protocol.mode_of(options)](), things.models[scenario.model.name]
        return cls(mode, model, things.attacks, protocol.has_coordinator, protocol.users_meet(options))


def section_problems(scenario: Scenario, facts: ScenarioFacts) -> Iterator[Problem]:
    """Yield all contradictions within a scenario that do not depend on the data."""
    return itertools.chain.from_iterable(check(scenario, facts) for check in CHECKS)


def nested_options(options: Options, at: KeyPath = ()) -> Iterator[tuple[KeyPath, Options]]:
    """Yield options and all options inside them, each with its key path."""
    yield at, options
    for key, info in type(options).model_fields.items():
        value = getattr(options, key)
        is_beside_name = isinstance(options, RegisteredChoice) and key == "options"
        path = at if is_beside_name else (*at, info.alias or key)
        if isinstance(value, Options):
            yield from nested_options(value, path)
        for index, each in enumerate(value if isinstance(value, tuple) else ()):
            if isinstance(each, Options):
                yield from nested_options(each, (*path, index))


def _of_mode(scenario: Scenario, facts: ScenarioFacts) -> Iterator[Problem]:
    """Yield the sections and keys that do not fit the mode."""
    yield from facts.mode.check_scenario(scenario)


def _of_parts(scenario: Scenario, facts: ScenarioFacts) -> Iterator[Problem]:
    """Yield the problems that the parts find in their own entries."""
    for path, options in nested_options(scenario):
        for key, message in options.check_scenario(scenario):
            yield (*path, *key), message


def _drawn_positives(scenario: Scenario, facts: ScenarioFacts) -> Iterator[Problem]:
    """Yield positives that are drawn by user, if nodes have one user each."""
    found = scenario.training.positives_drawn
    if found != "all" and facts.mode.sends_messages:
        yield (
            ("training", "positives_drawn"),
            f"found {found!r}, but with {scenario.protocol.name} a node has the positives of one user; expected 'all', "
            "or the protocol central",
        )


def _useless_observers(scenario: Scenario, facts: ScenarioFacts) -> Iterator[Problem]:
    """Yield the observers at nodes that receive no models from other nodes."""
    if facts.peers_meet or not facts.mode.sends_messages:
        return
    if facts.has_coordinator:
        useless = {"single", "coalition"}
        without = "nodes receive no models from other nodes and can find nothing; set who: coordinator"
        without = f"with a coordinator {without}"
    else:
        useless = {"single", "coalition", "coordinator"}
        without = "only heads without a user receive models of users; set who: heads, or protocol.head: user"
    for index, choice in enumerate(scenario.observers):
        who = getattr(choice.options, "who", None)
        if who in useless:
            yield ("observers", index, "who"), f"found {who!r}, but {without}"


def _sights_without_coordinator(scenario: Scenario, facts: ScenarioFacts) -> Iterator[Problem]:
    """Yield the option of what a coordinator sees, if there is none."""
    if facts.peers_meet and facts.mode.sends_messages and scenario.coordinator.sees != "updates":
        yield (
            ("coordinator", "sees"),
            f"found {scenario.coordinator.sees!r}, but in {scenario.protocol.name} nodes receive models from one "
            "another and no coordinator sums them; use fedavg, or remove the section",
        )


def _places_without_graph(scenario: Scenario, facts: ScenarioFacts) -> Iterator[Problem]:
    """Yield the places of poisoners, if there is no graph that is fixed during the run."""
    if getattr(getattr(scenario.protocol.options, "view", None), "is_fixed_graph", False):
        return
    why = "peers change during the run"
    if not facts.peers_meet:
        why = "with a coordinator poisoners have no neighbours"
    for index, choice in enumerate(scenario.attackers):
        for key in ("placement", "edges"):
            if (value := getattr(choice, key)) is not None:
                yield (
                    ("attackers", index, key),
                    f"found {value!r}, but {why}; expected a fixed graph; use rand-gossip with view.graph, or "
                    f"remove {key}",
                )


def _attacked_targets(scenario: Scenario, facts: ScenarioFacts) -> Iterator[Problem]:
    """Yield the targets of attackers that the scenario does not have."""
    if scenario.evaluate.targets == "attacked" and not scenario.attackers:
        found = "found 'attacked', but there are no attackers; list items, or add the section attackers"
        yield ("evaluate", "targets"), found


def _repeated_entries(scenario: Scenario, facts: ScenarioFacts) -> Iterator[Problem]:
    """Yield the entries of lists that repeat an earlier entry."""
    for key in ("policies", "attackers", "adversaries", "observers"):
        entries = getattr(scenario, key)
        for index, entry in enumerate(entries):
            if (first := entries.index(entry)) != index:
                yield (key, index), f"repeats {key}.{first}; remove one of them"


def _units_without_seconds(scenario: Scenario, facts: ScenarioFacts) -> Iterator[Problem]:
    """Yield the first unit of a file that needs the length of a wake period, if the scenario does not state it."""
    for section in ("protocol", "network", "churn") if scenario.seconds_per_wake is None else ():
        for path, options in nested_options(getattr(scenario, section), (section,)):
            if needs_seconds(unit := getattr(options, "unit", None)):
                yield (*path, "unit"), f"found {unit!r}, but {NO_SECONDS}"
                break


def _interaction_graph(scenario: Scenario, facts: ScenarioFacts) -> Iterator[Problem]:
    """Yield a model that uses the graph of all interactions, if no node that trains it has the graph."""
    if getattr(facts.model, "needs_graph", False) and not facts.mode.has_interaction_graph(facts.model):
        at_clients = getattr(facts.model, "at_clients", False)
        or_clients = ", or to {name: fedavg, client_model: none, ...}" if at_clients else ""
        yield (
            ("model", "name"),
            f"{scenario.model.name!r} uses the interaction graph of all users, which no node of "
            f"{scenario.protocol.name} has; set protocol to {{name: central}}{or_clients}, or choose another "
            "model, such as mf",
        )


def _misplaced_attacks(scenario: Scenario, facts: ScenarioFacts) -> Iterator[Problem]:
    """Yield attacks that send under ``observers``, and attacks that only look under ``adversaries``."""
    forges = "which forges messages, but observers change nothing; list it under adversaries, with its nodes"
    looks = "which only observes; list it under observers, or name an adversary"
    for section, sends, why in (("observers", True, forges), ("adversaries", False, looks)):
        for index, choice in enumerate(getattr(scenario, section)):
            if getattr(facts.attacks[choice.name], "sends", False) == sends:
                yield (section, index, "name"), f"found {choice.name!r}, {why}"


def _computed_by_torch(scenario: Scenario, facts: ScenarioFacts) -> Iterator[Problem]:
    """Yield the parts of a portable scenario that would be computed by torch."""
    why = "because the last digits of torch's results depend on the processor"
    for path, found in _torch_parts(scenario, facts) if scenario.executor.portable else ():
        yield path, f"{found}; executor.portable requires compiled kernels, {why}"


def _torch_parts(scenario: Scenario, facts: ScenarioFacts) -> Iterator[Problem]:
    executor = scenario.executor
    if executor.name not in ("auto", "fused"):
        yield ("executor", "name"), f"found {executor.name!r}, must be fused or auto"
    if executor.device == "cuda":
        yield ("executor", "device"), "found 'cuda', must be cpu or auto"
    if facts.mode.requires_torch:
        found = f"found {scenario.protocol.name!r}, in which the coordinator trains with torch"
        yield ("protocol", "name"), found
    if scenario.recommender is not None:
        name = scenario.recommender.name
        yield ("recommender", "name"), f"found {name!r}, but recommenders compute with torch; remove it"
    if scenario.attackers:
        yield ("attackers",), "poisoners compute with torch; remove them"
    for section in ("adversaries", "observers"):
        for index, attack in enumerate(getattr(scenario, section)):
            if getattr(facts.attacks[attack.name], "uses_torch", False):
                found = f"found {attack.name!r}, which computes with torch or LAPACK; remove it"
                yield (section, index, "name"), found


def check_sizes(scenario: Scenario, n_users: int, n_items: int) -> None:
    """Check a scenario against the size of its data.

    Parameters
    ----------
    scenario : Scenario
    n_users, n_items : int
        Size of the data set as the run uses it (after `limit_users`).

    Raises
    ------
    ScenarioError
        If a value is too large for the data; every such value is listed, one per line.
    """
    _raise_all(scenario, size_problems(scenario, n_users, n_items))


def size_problems(scenario: Scenario, n_users: int, n_items: int) -> Iterator[Problem]:
    """Yield every value that is too large for data of this size."""
    for path, options in nested_options(scenario):
        for key, message in options.check_sizes(n_users, n_items):
            yield (*path, *key), message
    yield from _long_lists(scenario, n_items)


def check_validation(scenario: Scenario, n_validation: int) -> None:
    """Check that there are validation items, if a metric ranks them.

    Raises
    ------
    ScenarioError
    """
    why = f"but the split {scenario.dataset.split.name} has no validation items"
    remedy = "add some (dataset.split.validation), or remove the metric"
    metrics = enumerate(() if n_validation else scenario.evaluate.metrics)
    ranking = [(index, metric) for index, metric in metrics if read_metric(metric).on_validation]
    _raise_all(scenario, ((("evaluate", "metrics", k), f"found {m!r}, {why}; {remedy}") for k, m in ranking))


def check_rounds(scenario: Scenario, n_rounds: float) -> None:
    """Check that a run of about `n_rounds` is long enough for its rule to end it, and for its changes.

    Raises
    ------
    ScenarioError
    """
    _raise_all(scenario, [*_long_patience(scenario, n_rounds), *_late_changes(scenario, n_rounds)])


def _raise_all(scenario: Scenario, found: Iterable[Problem]) -> None:
    problems = Problems()
    problems.add_all(found)
    problems.raise_any(scenario.source_map)


def describe_ineffective_options(scenario: Scenario) -> list[str]:
    """Return a sentence for each option that has no effect because of another."""
    parts = (options for _, options in nested_options(scenario))
    return [note for options in parts for note in options.describe_ineffective(scenario)]


# What follows concerns run parts: the sections stop and changes, and some keys of evaluate.


def _version_of_nobody(scenario: Scenario, facts: ScenarioFacts) -> Iterator[Problem]:
    """Yield the coordinator's version to save, if there is no coordinator."""
    if scenario.evaluate.keep_version and not facts.has_coordinator:
        yield (
            ("evaluate", "keep_version"),
            f"found true, but in {scenario.protocol.name} there is no coordinator with a version to save; use "
            "fedavg, or remove it",
        )


def _long_lists(scenario: Scenario, n_items: int) -> Iterator[Problem]:
    """Yield saved lists of more items than there are."""
    length = scenario.evaluate.keep_lists
    if length is not None and length > n_items:
        yield ("evaluate", "keep_lists"), f"found {length}, but there are only {n_items} items"


def _unmeasured_stop(scenario: Scenario, facts: ScenarioFacts) -> Iterator[Problem]:
    """Yield the measure of the rule that ends a run, if reports do not have it."""
    if scenario.stop is not None and scenario.stop.measure not in scenario.evaluate.metrics:
        found = f"found {scenario.stop.measure!r}, which no report has; add it to evaluate.metrics"
        yield ("stop", "measure"), found


def _long_patience(scenario: Scenario, n_rounds: float) -> Iterator[Problem]:
    """Yield the patience of the rule that ends a run, if the run has too few reports for it."""
    if scenario.stop is not None:
        before_end = itertools.takewhile(lambda due: due < n_rounds, scenario.evaluate.rounds())
        n_reports = 1 + sum(1 for _ in before_end)
        if scenario.stop.patience >= n_reports:
            yield (
                ("stop", "patience"),
                f"found {scenario.stop.patience}, but a run of about {n_rounds:.0f} rounds has about {n_reports} "
                "reports, so the rule could never end it; lower patience, or report more often (evaluate.every)",
            )


def _late_changes(scenario: Scenario, n_rounds: float) -> Iterator[Problem]:
    """Yield changes of options after the end of the run."""
    for index, change in enumerate(scenario.changes):
        if change.at >= n_rounds:
            yield (
                ("changes", index, "at"),
                f"found {change.at}, but the run has about {n_rounds:.0f} rounds; lower it, or remove the change",
            )


def change_problems(scenario: Scenario, facts: ScenarioFacts | None = None) -> Iterator[Problem]:
    """Yield the changes of options that nothing or not everything would follow."""
    for section in ("recommender", "attackers", "adversaries"):
        if scenario.changes and getattr(scenario, section):
            yield (
                ("changes",),
                f"found changes of training, but {section} takes its numbers when the run is prepared; "
                f"remove changes or {section}",
            )
    seen: set[tuple[int, str]] = set()
    noisy = [choice.name for choice in scenario.policies if getattr(choice.options, "plans_noise", False)]
    planned = f"the noise of {noisy[0]} is planned" if noisy else None
    if scenario.network.compute is not None:
        planned = "network.compute plans the times of updates"
    for index, change in enumerate(scenario.changes):
        at: KeyPath = ("changes", index)
        for path in change.set if planned else ():
            if path in ("training.local_epochs", "training.negatives"):
                yield (*at, "set"), f"found {path!r}, but {planned} by it before the run; remove it"
        if not scenario.evaluate.has_report_at(change.at):
            every = scenario.evaluate.every
            yield (
                (*at, "at"),
                f"found {change.at}, a round without a report; expected one with a report, such as "
                f"{(change.at // every + 1) * every} (evaluate.every, evaluate.also)",
            )
        for path in change.set:
            found = f"found {path!r}, which"
            if scenario.training.optimizer == "sgd" and path != "training.learning_rate":
                yield (*at, "set"), f"{found} has no effect with training.optimizer: sgd; remove it"
            if (change.at, path) in seen:
                yield (*at, "set"), f"{found} another change sets at round {change.at}; remove one"
            seen.add((change.at, path))


def _groups_of_sample(scenario: Scenario, facts: ScenarioFacts) -> Iterator[Problem]:
    """Yield groups of users by activity, if only a sample of users is measured."""
    if scenario.evaluate.sample is not None and scenario.evaluate.activity_groups is not None:
        why = "cannot be had for a sample of users; remove evaluate.sample, or take groups: {by: activity}"
        yield ("evaluate", "activity_groups"), why


def check_activity_groups(scenario: Scenario, n_tested: int) -> None:
    """Check that each group of users by activity would have one of the `n_tested` users with test items.

    Raises
    ------
    ScenarioError
    """
    groups = scenario.evaluate.activity_groups
    if groups is not None and groups > n_tested:
        lower = f"lower it to {n_tested} or less, or remove it" if n_tested > 1 else "remove it"
        found = f"found {groups}, but only {n_tested} users have test items; {lower}"
        _raise_all(scenario, [(("evaluate", "activity_groups"), found)])


def check_train_loss(scenario: Scenario, mode: Any) -> None:
    """Check that each user's model and samples are in this process, if the training loss is measured.

    Raises
    ------
    ScenarioError
    """
    if scenario.evaluate.train_loss and (not mode.has_user_models or scenario.executor.name == "ray"):
        found = "an executor of shards" if mode.has_user_models else mode.title
        expected = "models of single users in one process; remove train_loss"
        _raise_all(scenario, [(("evaluate", "train_loss"), f"found true with {found}; expected {expected}")])


CHECKS: tuple[Callable[[Scenario, ScenarioFacts], Iterator[Problem]], ...] = (
    _of_mode,
    _of_parts,
    _drawn_positives,
    _useless_observers,
    _version_of_nobody,
    _unmeasured_stop,
    _groups_of_sample,
    _attacked_targets,
    _sights_without_coordinator,
    _places_without_graph,
    _repeated_entries,
    change_problems,
    _units_without_seconds,
    _interaction_graph,
    _misplaced_attacks,
    _computed_by_torch,
)
"""All checks of what concerns several sections, in the order in which their problems are listed."""
