"""The engine conditions of a run: distributions of times, network, compute times, and trace lengths."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gossiprec.base.arrays import F64, I64, Bools
from gossiprec.base.errors import ScenarioError
from gossiprec.base.rng import generator, purpose_id, uniforms
from gossiprec.compute.plan.tape import Behaviour, Op
from gossiprec.network.protocols import Protocol
from gossiprec.network.sim import distributions
from gossiprec.network.sim.clock import ComputeTime
from gossiprec.network.sim.fair_share import FairShare
from gossiprec.network.sim.network import Latency, MatrixLatency, Network, Partition
from gossiprec.network.sim.transport import Transport
from gossiprec.scenario import Scenario


def make_distribution(options: Any, key: str, *, positive: bool = False) -> distributions.Distribution:
    """Return the distribution of times that a scenario section describes.

    Parameters
    ----------
    options : Options
        Options with a key `law`, see :mod:`gossiprec.scenario.network`.
    key : str
        The key of the section, for messages.
    positive : bool
        Whether times of zero are refused in a trace.

    Raises
    ------
    ScenarioError
        If a trace cannot be read.
    """
    match options.law:
        case "constant":
            return distributions.Constant(options.value)
        case "uniform":
            return distributions.Uniform(options.low, options.high)
        case "exponential":
            return distributions.Exponential(options.mean)
        case "lognormal":
            return distributions.Lognormal(options.median, options.sigma)
        case "weibull":
            return distributions.Weibull(options.scale, options.shape)
    from gossiprec.emulation.assembly.input_files import read_column  # pyarrow, which few runs need

    values = read_column(options.path, f"{key}.path", column=options.column, positive=positive)
    return distributions.Empirical(values, order=options.order, end=options.end)


UP, DOWN = purpose_id("upload-rate"), purpose_id("download-rate")
PLACE = purpose_id("node-coordinates")

SLOWEST = 1e-3
"""Lowest rate that a file may hold."""
MANY = 20_000
"""Number of messages from which the loop of shared bandwidth is compiled."""


@dataclass(frozen=True)
class NodeLoad:
    """The message size and the training samples of every node.

    Attributes
    ----------
    message_bytes : ndarray of int64, shape (n_nodes,)
        Size of each node's messages.
    samples : ndarray of int64, shape (n_nodes,)
        Training samples of one local update, all epochs.
    """

    message_bytes: I64
    samples: I64


def _latency(options: Any, n_nodes: int, seed: int) -> Latency:
    key = "network.latency"
    if options.law == "pairs":
        from gossiprec.emulation.assembly.input_files import read_matrix  # pyarrow, which few runs need

        return MatrixLatency(read_matrix(options.path, f"{key}.path", n_nodes))
    if options.law == "geographic":
        places = _coordinates(options.coordinates, f"{key}.coordinates", n_nodes, seed)
        return MatrixLatency(options.base + _kilometres(places) / options.speed_km)
    law = make_distribution(options, key)
    return Latency(law, per=getattr(options, "per", "message"), n_nodes=n_nodes, seed=seed)


def _coordinates(source: str, key: str, n_nodes: int, seed: int) -> F64:
    """Return latitude and longitude of every node in degrees, shape (n_nodes, 2)."""
    if source == "random":  # uniform on the sphere: the sine of the latitude is uniform
        height, turn = (uniforms(seed, k, np.arange(n_nodes), PLACE) for k in (0, 1))
        globe = np.stack([np.arcsin(2.0 * height - 1.0), np.pi * (2.0 * turn - 1.0)], axis=1)
        return np.asarray(np.degrees(globe), np.float64)
    from gossiprec.emulation.assembly.input_files import check_node_ids, read_csv_records

    _, rows = read_csv_records(source, key, [("node", "latitude", "longitude")])
    nodes = check_node_ids(rows[:, 0], source, key, n_nodes)
    counts = np.bincount(nodes, minlength=n_nodes)
    if (counts != 1).any():
        node = int(np.argmax(counts != 1))
        raise ScenarioError(
            f"{key}: {source} has {counts[node]} rows for node {node}; expected one for each node"
        )
    off = ~((np.abs(rows[:, 1]) <= 90.0) & (np.abs(rows[:, 2]) <= 180.0))
    if off.any():
        row = rows[off][0]
        raise ScenarioError(
            f"{key}: {source}: node {row[0]:g} is at latitude {row[1]:g}, longitude {row[2]:g}; must be -90 "
            "to 90 and -180 to 180 degrees"
        )
    places = np.empty((n_nodes, 2))
    places[nodes] = rows[:, 1:]
    return places


def _kilometres(places: F64) -> F64:
    """Return the great-circle distances between all nodes, shape (n_nodes, n_nodes)."""
    from haversine import haversine_vector

    distances: F64 = np.asarray(haversine_vector(places, places, comb=True, check=False), np.float64)
    return distances


def _partition(options: Any, n_nodes: int, number: int, seed: int) -> Partition:
    group = np.zeros(n_nodes, np.int64)
    for k, members in enumerate(options.groups or (), 1):
        group[list(members)] = k
    if options.parts is not None:
        shuffled = generator(seed, "partition", number).permutation(n_nodes)
        group[shuffled] = np.arange(n_nodes) % options.parts
    return Partition(options.begin, options.until, group)


@dataclass(frozen=True)
class EngineConditions:
    """The network, compute times and availability that the engine needs in addition to a protocol."""

    transport: Transport
    work: ComputeTime | None

    @property
    def implied(self) -> bool:
        """Whether every message arrives at the moment it is sent."""
        return self.transport.instant and self.work is None


def make_engine_conditions(scenario: Scenario, protocol: Protocol, load: NodeLoad) -> EngineConditions:
    """Return the conditions of a run at time 0.

    Raises
    ------
    ScenarioError
        If a file of the scenario does not fit.
    """
    return EngineConditions(_transport(scenario, protocol, load), _work(scenario, protocol, load))


def _transport(scenario: Scenario, protocol: Protocol, load: NodeLoad) -> Transport:
    """Return the transport of a run's messages."""
    options, n_nodes, seed = scenario.network, protocol.n_nodes, scenario.seed
    network = Network(
        _latency(options.latency, n_nodes, seed),
        loss=options.loss,
        duplication=options.duplication,
        reordering=(options.reordering.share, options.reordering.delay),
        partitions=[_partition(p, n_nodes, k, seed) for k, p in enumerate(options.partitions)],
        hub=protocol.has_coordinator,
        seed=seed,
    )
    return Transport(
        network,
        protocol.availability,
        held=scenario.churn.messages == "held",
        in_order=options.in_order,
        sharing=_sharing(scenario, protocol, load),
    )


def _sharing(scenario: Scenario, protocol: Protocol, load: NodeLoad) -> FairShare | None:
    options = scenario.network.bandwidth
    if not options.limited:
        return None
    up, down = (
        _rates(rate, purpose, f"network.bandwidth.{key}", protocol, options.coordinator, scenario.seed)
        for key, rate, purpose in (("up", options.up, UP), ("down", options.down, DOWN))
    )
    expected = (
        len(protocol.clock.node_ids) * protocol.wakes * (protocol.messages_per_wake or protocol.n_users)
    )
    return FairShare(up, down, load.message_bytes.astype(np.float64), compiled=expected >= MANY)


def _rates(
    options: Any, purpose: int, key: str, protocol: Protocol, coordinator: float | None, seed: int
) -> F64:
    n_users = protocol.n_users
    nodes = np.arange(n_users)
    if options is None:
        rates = np.full(n_users, math.inf)
    elif isinstance(options, float):
        rates = np.full(n_users, options)
    elif options.law == "file":
        from gossiprec.emulation.assembly.input_files import read_column

        rates = read_column(options.path, f"{key}.path", positive=True)
        if rates.min() < SLOWEST:
            found = f"has a rate of {rates.min():g}, must be {SLOWEST:g} or more"
            raise ScenarioError(f"{key}.path: {options.path} {found}")
        if len(rates) != n_users:
            raise ScenarioError(
                f"{key}.path: {options.path} has {len(rates)} rates; expected one for each of {n_users} nodes"
            )
    elif options.law == "uniform":
        rates = distributions.Uniform(options.low, options.high).draw(seed, 0, nodes, purpose)
    else:
        rates = distributions.Lognormal(options.median, options.sigma).draw(seed, 0, nodes, purpose)
    centre = math.inf if coordinator is None else coordinator
    return np.append(rates, [centre] * protocol.has_coordinator)


def _work(scenario: Scenario, protocol: Protocol, load: NodeLoad) -> ComputeTime | None:
    """Return the compute time of nodes, or None if computing takes no time."""
    options = scenario.network.compute
    if options is None:
        return None
    on_wake, on_receive = trains_on_event(protocol.behaviours)[protocol.roles].T
    return ComputeTime(
        make_distribution(options.time, "network.compute.time"),
        per=options.per,
        scale=load.samples.astype(np.float64) if options.per_sample else np.ones(protocol.n_nodes),
        on_wake=on_wake,
        on_receive=on_receive,
        seed=scenario.seed,
    )


def trains_on_event(behaviours: Sequence[Behaviour]) -> Bools:
    """Return whether each role trains on a wake and on a delivery, shape (n_roles, 2)."""
    return np.array([[Op.TRAIN in b.on_wake, Op.TRAIN in b.on_receive] for b in behaviours])


def check_trace_lengths(scenario: Scenario, *, messages: int, updates: int) -> None:
    """Refuse a run that needs more values than a trace that must not be repeated.

    Parameters
    ----------
    messages, updates : int
        The largest number of messages that a node sends, and of local updates that a node runs.

    Raises
    ------
    ScenarioError
    """
    compute = scenario.network.compute
    used: list[tuple[str, Any, int, str]] = [
        ("network.latency", scenario.network.latency, messages, "messages")
    ]
    if compute is not None and compute.per == "update":
        used.append(("network.compute.time", compute.time, updates, "local updates"))
    for key, options, count, what in used:
        length = make_distribution(options, key).length if options.law == "trace" else None
        if length is not None and count > length:
            raise ScenarioError(
                f"{key}: {options.path} has {length} times, but a node has {count} {what}; "
                "write end: repeat or end: hold, or shorten the run"
            )
