"""Checks of a scenario as a whole: contradictions between sections, and values too large for the data.

The notes name options that have no effect because of another one.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gossiprec.base.registry import Registry
from gossiprec.measures.selectors import read_metric
from gossiprec.modes import RunMode
from gossiprec.network.sim.clock import NO_SECONDS, needs_seconds
from gossiprec.scenario.definition import Scenario
from gossiprec.scenario.problems import KeyPath, Problems


def check_sections(scenario: Scenario, problems: Problems, *, mode: RunMode, peers_meet: bool = True) -> None:
    """Note contradictions within a scenario that do not depend on the data.

    Parameters
    ----------
    scenario : Scenario
    problems : Problems
    mode : RunMode
    peers_meet : bool
        Whether nodes receive one another's models under the protocol.
    """
    mode.check_scenario(scenario, problems)
    plain = scenario.resolved()
    nodes_meet_none = mode.sends_messages and not peers_meet
    has_heads = plain["protocol"].get("head") == "server"
    problems.add_all([
        *_protocol_contradictions(scenario, plain),
        *_positives_of_all(scenario, mode),
        *_useless_observers(plain["observers"] if nodes_meet_none else (), has_heads=has_heads),
        *_evaluation_contradictions(scenario, plain, peers_meet=peers_meet or has_heads),
        *_sights_without_coordinator(scenario, peers_meet=peers_meet and mode.sends_messages),
        *_places_without_graph(scenario, plain, peers_meet=peers_meet),
        *_repeated_entries(plain),
        *change_problems(scenario),
        *_units_without_seconds(scenario, plain),
    ])  # fmt: skip


def _protocol_contradictions(scenario: Scenario, plain: dict[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """Yield the options of the protocol that contradict each other, the training or the network."""
    protocol, training = plain["protocol"], scenario.training
    view, fanout = _number(protocol.get("view"), "size"), protocol.get("fanout")
    if view is not None and isinstance(fanout, int) and fanout > view:
        yield (
            ("protocol", "fanout"),
            f"found {fanout}, but a view has {view} peers; lower fanout or raise view.size",
        )
    if protocol.get("upload") == "gradients" and (training.local_epochs > 1 or training.batch_size != "full"):
        yield (
            ("protocol", "upload"),
            "found 'gradients', of one step, but a client takes several steps (training.local_epochs "
            f"{training.local_epochs}, batch_size {training.batch_size}); set them to 1 and full, or remove "
            "upload",
        )
    aggregation = protocol.get("aggregation") or {}
    if aggregation.get("name") == "buffered" and _takes_no_time(plain["network"]):
        yield (
            ("protocol", "aggregation"),
            "buffered aggregation requires that answers take time, but network latency is 0 and computing "
            "takes no time, so all answers would arrive at once; set network.latency or network.compute",
        )


def _positives_of_all(scenario: Scenario, mode: RunMode) -> Iterator[tuple[KeyPath, str]]:
    """Yield positives that are drawn by user, if nodes have one user each."""
    found = scenario.training.positives_drawn
    if found != "all" and mode.sends_messages:
        yield (
            ("training", "positives_drawn"),
            f"found {found!r}, but with {scenario.protocol.name} a node has the positives of one user; expected 'all', "
            "or the protocol central",
        )


def _useless_observers(
    observers: Iterable[dict[str, Any]], *, has_heads: bool
) -> Iterator[tuple[KeyPath, str]]:
    """Yield the observers at nodes that receive no models from other nodes."""
    without = (
        "only heads without a user receive models of users; set who: heads, or protocol.head: user"
        if has_heads
        else "with a coordinator nodes receive no models from other nodes and can find nothing; set who: coordinator"
    )
    for index, entry in enumerate(observers):
        if entry.get("who") in ("single", "coalition") or (has_heads and entry.get("who") == "coordinator"):
            yield ("observers", index, "who"), f"found {entry['who']!r}, but {without}"


def _sights_without_coordinator(scenario: Scenario, *, peers_meet: bool) -> Iterator[tuple[KeyPath, str]]:
    """Yield the option of what a coordinator sees, if there is none."""
    if peers_meet and scenario.coordinator.sees != "updates":
        yield (
            ("coordinator", "sees"),
            f"found {scenario.coordinator.sees!r}, but in {scenario.protocol.name} nodes receive models from one "
            "another and no coordinator sums them; use fedavg, or remove the section",
        )


def _places_without_graph(
    scenario: Scenario, plain: dict[str, Any], *, peers_meet: bool
) -> Iterator[tuple[KeyPath, str]]:
    """Yield the places of poisoners, if there is no graph that is fixed during the run."""
    graph = (plain["protocol"].get("view") or {}).get("graph")
    if graph and "sequence" not in graph:
        return
    why = "peers change during the run" if peers_meet else "with a coordinator poisoners have no neighbours"
    for index, choice in enumerate(scenario.attackers):
        for key in ("placement", "edges"):
            if (value := getattr(choice, key)) is not None:
                yield (
                    ("attackers", index, key),
                    f"found {value!r}, but {why}; expected a fixed graph; use rand-gossip with view.graph, or "
                    f"remove {key}",
                )


def _evaluation_contradictions(
    scenario: Scenario, plain: dict[str, Any], *, peers_meet: bool
) -> Iterator[tuple[KeyPath, str]]:
    """Yield the options of the evaluation that need a coordinator or attackers which the scenario does not have."""
    if peers_meet and scenario.evaluate.keep_version:
        yield (
            ("evaluate", "keep_version"),
            f"found true, but in {plain['protocol']['name']} there is no coordinator with a version to save; use "
            "fedavg, or remove it",
        )
    if scenario.stop is not None and scenario.stop.measure not in scenario.evaluate.metrics:
        found = f"found {scenario.stop.measure!r}, which no report has; add it to evaluate.metrics"
        yield ("stop", "measure"), found
    if scenario.evaluate.sample is not None and scenario.evaluate.activity_groups is not None:
        yield (
            ("evaluate", "activity_groups"),
            "cannot be had for a sample of users; remove evaluate.sample, or take groups: {by: activity}",
        )
    if plain["evaluate"]["targets"] == "attacked" and not scenario.attackers:
        yield (
            ("evaluate", "targets"),
            "found 'attacked', but there are no attackers; list items, or add the section attackers",
        )


def change_problems(scenario: Scenario) -> Iterator[tuple[KeyPath, str]]:
    """Yield the changes of options that nothing or not everything would follow."""
    for section in ("recommender", "attackers", "adversaries"):
        if scenario.changes and getattr(scenario, section):
            yield (
                ("changes",),
                f"found changes of training, but {section} takes its numbers when the run is prepared; "
                f"remove changes or {section}",
            )
    seen: set[tuple[int, str]] = set()
    plans = {
        "network.compute plans the times of updates": scenario.network.compute is not None,
        "the noise of dp-sgd is planned": any(policy.name == "dp-sgd" for policy in scenario.policies),
    }
    planned = next((what for what, is_so in plans.items() if is_so), None)
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
            if scenario.training.optimizer == "sgd" and path != "training.learning_rate":
                yield (
                    (*at, "set"),
                    f"found {path!r}, which has no effect with training.optimizer: sgd; remove it",
                )
            if (change.at, path) in seen:
                yield (
                    (*at, "set"),
                    f"found {path!r}, which another change sets at round {change.at}; remove one",
                )
            seen.add((change.at, path))


def _repeated_entries(plain: dict[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """Yield the entries of lists that repeat an earlier entry."""
    for key in ("policies", "attackers", "adversaries", "observers"):
        seen: dict[str, int] = {}
        for index, entry in enumerate(plain.get(key, [])):
            first = seen.setdefault(json.dumps(entry, sort_keys=True, default=repr), index)
            if first != index:
                yield (key, index), f"repeats {key}.{first}; remove one of them"


def _units_without_seconds(scenario: Scenario, plain: dict[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """Yield the first unit of a file that needs the length of a wake period, if the scenario does not state it."""
    if scenario.seconds_per_wake is None:
        for section in ("protocol", "network", "churn"):
            for path, unit in itertools.islice(_units(plain[section], (section,)), 1):
                yield path, f"found {unit!r}, but {NO_SECONDS}"


def _units(holder: Any, at: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    """Yield the keys ``unit`` of a section that name a unit of seconds, at any depth."""
    if isinstance(holder, dict):
        if needs_seconds(holder.get("unit")):
            yield (*at, "unit"), holder["unit"]
        for key, value in holder.items():
            yield from _units(value, (*at, key))
    elif isinstance(holder, list):
        for index, value in enumerate(holder):
            yield from _units(value, (*at, index))


def _takes_no_time(network: dict[str, Any]) -> bool:
    latency = network["latency"]
    instant = latency.get("law") == "constant" and latency.get("value") == 0.0
    return instant and network["compute"] is None and not any(network["bandwidth"].values())


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
    problems = Problems()
    collect_size_problems(scenario, n_users, n_items, problems)
    problems.raise_any(scenario.source_map)


def check_validation(scenario: Scenario, n_validation: int) -> None:
    """Check that there are validation items, if a metric ranks them.

    Raises
    ------
    ScenarioError
    """
    problems, metrics = Problems(), scenario.evaluate.metrics
    for index, metric in enumerate(metrics if n_validation == 0 else ()):
        if read_metric(metric).on_validation:
            problems.add(
                ("evaluate", "metrics", index),
                f"found {metric!r}, but the split {scenario.dataset.split.name} has no validation items; add "
                "some (dataset.split.validation), or remove the metric",
            )
    problems.raise_any(scenario.source_map)


def check_rounds(scenario: Scenario, n_rounds: float) -> None:
    """Check that a run of about `n_rounds` is long enough for its rule to end it, and for its changes.

    Raises
    ------
    ScenarioError
    """
    problems, stop = Problems(), scenario.stop
    if stop is not None:
        before_end = itertools.takewhile(lambda due: due < n_rounds, scenario.evaluate.rounds())
        n_reports = 1 + sum(1 for _ in before_end)
        if stop.patience >= n_reports:
            problems.add(
                ("stop", "patience"),
                f"found {stop.patience}, but a run of about {n_rounds:.0f} rounds has about {n_reports} reports, so "
                "the rule could never end it; lower patience, or report more often (evaluate.every)",
            )
    for index, change in enumerate(scenario.changes):
        if change.at >= n_rounds:
            problems.add(
                ("changes", index, "at"),
                f"found {change.at}, but the run has about {n_rounds:.0f} rounds; lower it, or remove the change",
            )
    problems.raise_any(scenario.source_map)


def check_train_loss(scenario: Scenario, mode: RunMode) -> None:
    """Check that each user's model and samples are in this process, if the training loss is measured.

    Raises
    ------
    ScenarioError
    """
    problems = Problems()
    if scenario.evaluate.train_loss and (not mode.has_user_models or scenario.executor.name == "ray"):
        found = "an executor of shards" if mode.has_user_models else mode.title
        problems.add(
            ("evaluate", "train_loss"),
            f"found true with {found}; expected models of single users in one process; remove train_loss",
        )
    problems.raise_any(scenario.source_map)


def check_activity_groups(scenario: Scenario, n_tested: int) -> None:
    """Check that each group of users by activity would have one of the `n_tested` users with test items.

    Raises
    ------
    ScenarioError
    """
    problems, groups = Problems(), scenario.evaluate.activity_groups
    if groups is not None and groups > n_tested:
        lower = f"lower it to {n_tested} or less, or remove it" if n_tested > 1 else "remove it"
        found = f"found {groups}, but only {n_tested} users have test items; {lower}"
        problems.add(("evaluate", "activity_groups"), found)
    problems.raise_any(scenario.source_map)


def collect_size_problems(scenario: Scenario, n_users: int, n_items: int, problems: Problems) -> None:
    """Note every value that is too large for data of this size; see :func:`check_sizes`."""
    problems.add_all(_oversized(scenario.resolved(), n_users, n_items))


def _oversized(plain: dict[str, Any], n_users: int, n_items: int) -> Iterator[tuple[KeyPath, str]]:
    protocol = plain["protocol"]
    peers = {
        ("view", "size"): _number(protocol.get("view"), "size"),
        ("receivers",): _number(protocol, "receivers"),
    }
    for place, size in peers.items():
        if size is not None and size >= n_users:
            yield ("protocol", *place), f"found {size}, but a node has only {n_users - 1} possible peers"
    participation = _number(protocol, "participation")
    if participation is not None and round(participation * n_users) < 1:
        yield ("protocol", "participation"), f"found {participation}, which selects no node of {n_users}"
    concurrency = _number(protocol.get("aggregation"), "concurrency")
    if concurrency is not None and concurrency > n_users:
        clients = ("protocol", "aggregation", "concurrency")
        yield clients, f"found {concurrency}, but there are only {n_users} clients"
    sample = plain["evaluate"].get("sample")
    if sample is not None and sample > n_users:
        found = f"found {sample}, but there are only {n_users} users; lower it, or remove it"
        yield ("evaluate", "sample"), found
    for path, message in _beyond_items(plain["evaluate"], n_items):
        yield ("evaluate", *path), message
    for index, entry in enumerate(plain.get("attackers", [])):
        for path, message in _beyond_targets(entry["targets"], n_items):
            yield ("attackers", index, *path), message
        fraction = entry["fraction"]
        if fraction and poisoner_count(fraction, n_users) < 1:
            yield (
                ("attackers", index, "fraction"),
                f"found {fraction}, which gives no poisoner for {n_users} users; raise it to "
                f"{_least(n_users):.2g} or more, or set number: 1 instead",
            )
        for message in _wrong_edges(entry, n_users):
            yield ("attackers", index, "edges"), message
    for key in ("policies", "adversaries", "observers"):
        for index, entry in enumerate(plain.get(key, [])):
            yield from _population(entry, (key, index), n_users)
    for key in ("sessions", "join", "leave"):
        for index, entry in enumerate(plain["churn"][key]):
            yield from _population(entry, ("churn", key, index), n_users)
    for index, window in enumerate(plain["network"]["partitions"]):
        window_path: KeyPath = ("network", "partitions", index)
        for number, group in enumerate(window["groups"] or []):
            yield from _population({"nodes": group}, (*window_path, "groups", number), n_users)
        if (window["parts"] or 0) > n_users:
            yield (*window_path, "parts"), f"found {window['parts']}, but there are only {n_users} nodes"
    for index, entry in enumerate(plain["observers"]):
        for path, size in _values(entry, "community_size", ("observers", index)):
            most = largest_community(n_users)
            if size >= n_users:
                found = f"a community has no more than {n_users - 1} members (all other users)"
            else:
                found = f"of the {n_users - 1} other users, guessing finds {size / (n_users - 1):.0%}"
            if size > most:
                yield (
                    path,
                    f"found {size}, but {found}; a community can have up to half of the {n_users} users; "
                    f"lower it to {most} or less, or use more users",
                )


def _wrong_edges(entry: dict[str, Any], n_users: int) -> Iterator[str]:
    """Check the attack edges of an entry against the numbers of its poisoners and of users."""
    edges, count = entry["edges"], entry["number"]
    if edges is None:
        return
    count = poisoner_count(entry["fraction"], n_users) if count is None else count
    if edges > n_users:
        yield f"found {edges}, but there are only {n_users} users, each with at most one attack edge; lower it"
    elif edges < count and not entry["linked"]:
        yield (
            f"found {edges} for {count} poisoners; expected an edge for each; raise it, use fewer poisoners, or link "
            "them (linked: true)"
        )


def _beyond_items(evaluate: dict[str, Any], n_items: int) -> Iterator[tuple[KeyPath, str]]:
    """Check lists and targets against the number of items."""
    for index, text in enumerate(evaluate["metrics"]):
        metric = read_metric(text)
        if metric.full and metric.k >= n_items:
            yield ("metrics", index), f"found {text!r}, but there are only {n_items} items"
    if (evaluate.get("keep_lists") or 0) > n_items:
        yield ("keep_lists",), f"found {evaluate['keep_lists']}, but there are only {n_items} items"
    yield from _beyond_targets(evaluate["targets"], n_items)


def _beyond_targets(targets: Any, n_items: int) -> Iterator[tuple[KeyPath, str]]:
    """Check target items against the number of items."""
    for index, item in enumerate(targets if isinstance(targets, list) else []):
        if item >= n_items:
            yield ("targets", index), f"found item {item}, but item ids range from 0 to {n_items - 1}"
    count = _number(targets, "least_popular")
    if count is not None and count > n_items:
        yield ("targets", "least_popular"), f"found {count}, but there are only {n_items} items"


def largest_community(n_users: int) -> int:
    """Return the largest community size that a scenario may have: half of the users, so that guessing finds half."""
    return max(1, n_users // 2)


def poisoner_count(fraction: float, n_users: int) -> int:
    """Return the number of poisoners in a fraction of the users, rounded down up to floating-point error."""
    return int(fraction * n_users + 1e-9)


def _least(n_users: int) -> float:
    """Return the least fraction of the users that is at least one user, rounded up to two digits."""
    unit = 10.0 ** (math.floor(math.log10(1.0 / n_users)) - 1)
    return math.ceil(1.0 / n_users / unit - 1e-9) * unit


def _population(entry: dict[str, Any], at: KeyPath, n_users: int) -> Iterator[tuple[KeyPath, str]]:
    """Check the nodes that an entry names or draws: by id, or as a fraction of all."""
    nodes = entry.get("nodes")
    drawn = _values(nodes, "fraction", (*at, "nodes")) if isinstance(nodes, dict) else []
    for path, fraction in [*drawn, *_values(entry, "fraction", at)]:
        if round(fraction * n_users) < 1:
            yield (
                path,
                f"found {fraction}, which selects no node of {n_users}; raise it to {1 / n_users:.2g} or more",
            )
    for path, victim in _values(entry, "victim", at):
        if victim >= n_users:
            yield path, f"found node {victim}, but node ids range from 0 to {n_users - 1}"
        for place, fraction in _values(entry, "fraction", at):
            if round(fraction * n_users) == n_users:
                found = f"found {fraction}, with which the victim of an eclipse would collude too; lower it"
                yield place, found
    acts = "; a coordinator or head acts by protocol.server" if at[0] == "adversaries" else ""
    for key in ("nodes", "members"):
        ids = entry.get(key)
        for index, node_id in enumerate(ids if isinstance(ids, list) else []):
            if isinstance(node_id, int) and node_id >= n_users:
                yield (
                    (*at, key, index),
                    f"found node {node_id}, but node ids range from 0 to {n_users - 1}{acts}",
                )


def _values(holder: Mapping[str, Any], key: str, at: KeyPath) -> list[tuple[KeyPath, Any]]:
    """Return the numbers under a key that holds one or a list of them, each with its path."""
    value = holder.get(key)
    listed: list[tuple[KeyPath, Any]] = [((*at, key), value)]
    if isinstance(value, list):
        listed = [((*at, key, index), each) for index, each in enumerate(value)]
    return [(path, v) for path, v in listed if isinstance(v, (int, float)) and not isinstance(v, bool)]


def _number(holder: Any, key: str) -> Any:
    value = holder.get(key) if isinstance(holder, dict) else None
    return value if isinstance(value, (int, float)) else None


def check_interaction_graph(scenario: Scenario, problems: Problems, *, mode: RunMode, model: Any) -> None:
    """Note a model that uses the graph of all interactions, if no node that trains it has the graph.

    Parameters
    ----------
    scenario : Scenario
    problems : Problems
    mode : RunMode
    model : type
        The one that the scenario names.
    """
    if getattr(model, "needs_graph", False) and not mode.has_interaction_graph(model):
        at_clients = getattr(model, "at_clients", False)
        or_clients = ", or to {name: fedavg, client_model: none, ...}" if at_clients else ""
        problems.add(
            ("model", "name"),
            f"{scenario.model.name!r} uses the interaction graph of all users, which no node of "
            f"{scenario.protocol.name} has; set protocol to {{name: central}}{or_clients}, or choose another "
            "model, such as mf",
        )


WHY = (
    "executor.portable requires compiled kernels, because the last digits of torch's results depend on the "
    "processor"
)


def check_attack_sections(scenario: Scenario, problems: Problems, *, attacks: Registry[type]) -> None:
    """Refuse attacks that send under ``observers``, and attacks that only look under ``adversaries``."""
    for index, choice in enumerate(scenario.observers):
        if getattr(attacks[choice.name], "sends", False):
            problems.add(
                ("observers", index, "name"),
                f"found {choice.name!r}, which forges messages, but observers change nothing; list it under "
                "adversaries, with its nodes",
            )
    for index, choice in enumerate(scenario.adversaries):
        if not getattr(attacks[choice.name], "sends", False):
            problems.add(
                ("adversaries", index, "name"),
                f"found {choice.name!r}, which only observes; list it under observers, or name an adversary",
            )


def check_portable(scenario: Scenario, problems: Problems, *, mode: RunMode, attacks: Registry[type]) -> None:
    """Note parts of a portable scenario that would be computed by torch.

    Parameters
    ----------
    scenario : Scenario
    problems : Problems
    mode : RunMode
    attacks : Registry
        The registered attacks, which declare whether they use torch.
    """
    if scenario.executor.portable:
        for path, found in _by_torch(scenario, attacks, mode):
            problems.add(path, f"{found}; {WHY}")


def _by_torch(scenario: Scenario, attacks: Registry[type], mode: RunMode) -> Iterator[tuple[KeyPath, str]]:
    executor = scenario.executor
    if executor.name not in ("auto", "fused"):
        yield ("executor", "name"), f"found {executor.name!r}, must be fused or auto"
    if executor.device == "cuda":
        yield ("executor", "device"), "found 'cuda', must be cpu or auto"
    if mode.requires_torch:
        found = f"found {scenario.protocol.name!r}, in which the coordinator trains with torch"
        yield ("protocol", "name"), found
    if scenario.recommender is not None:
        name = scenario.recommender.name
        yield ("recommender", "name"), f"found {name!r}, but recommenders compute with torch; remove it"
    if scenario.attackers:
        yield ("attackers",), "poisoners compute with torch; remove them"
    for section in ("adversaries", "observers"):
        for index, attack in enumerate(getattr(scenario, section)):
            if getattr(attacks[attack.name], "uses_torch", False):
                found = f"found {attack.name!r}, which computes with torch or LAPACK; remove it"
                yield (section, index, "name"), found


def describe_ineffective_options(scenario: Scenario) -> list[str]:
    """Return a sentence for each option that has no effect because of another."""
    return [*_on_item_weight(scenario), *_on_drift(scenario), *_on_reduction(scenario)]


def _on_item_weight(scenario: Scenario) -> Iterator[str]:
    """Yield a note if Adam optimises only the item loss of PDC-FRS."""
    options = getattr(scenario.recommender, "options", None)
    if getattr(options, "item_optimizer", None) == "adam" and getattr(options, "item_weight", 0):
        yield (
            "recommender.item_weight: a new Adam optimises only the item loss (item_optimizer: adam), so "
            "every weight above 0 gives the same result up to rounding; set item_optimizer to sgd to make "
            "the weight effective"
        )


def _on_drift(scenario: Scenario) -> Iterator[str]:
    """Yield a note if a local update has one step, in which no item has drifted yet."""
    training = scenario.training
    if training.batch_size != "full" or training.local_epochs != 1:
        return
    for choice in scenario.policies:
        if choice.name == "share-less" and getattr(choice.options, "tau", False):
            yield (
                "policies: share-less: tau pulls items back to their values at the start of a local update, "
                "but with one step per update (training.batch_size: full, local_epochs: 1) no item has "
                "moved yet, so every tau gives the same result; raise training.local_epochs or set a batch "
                "size to make tau effective"
            )


def _on_reduction(scenario: Scenario) -> Iterator[str]:
    """Yield a note if Adam normalises away the sum of a loss that has no additional term."""
    summed = getattr(scenario.model.options, "loss_reduction", None) == "sum"
    adam = scenario.training.optimizer == "adam" and scenario.recommender is None
    drift = any(choice.name == "share-less" for choice in scenario.policies)
    gradients = getattr(scenario.protocol.options, "upload", None) == "gradients"
    if summed and adam and not drift and not gradients and scenario.model.name != "prme-g":
        yield (
            "model.loss_reduction: Adam normalises gradients, so without an additional loss the sum gives "
            "the result of the mean up to training.eps"
        )
