"""The conditions under which the engine plays a run: network, compute times and availability of nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gossiprec.base.arrays import F64, I64, Bools
from gossiprec.base.errors import DataError, ScenarioError
from gossiprec.base.geodesy import great_circle_km
from gossiprec.base.options import build_registered
from gossiprec.base.rng import generator, purpose_id, uniforms
from gossiprec.compute.plan.tape import Behaviour, Op, operations_by_slot
from gossiprec.data.sources import FileSource
from gossiprec.emulation.assembly.components import NodeLoad, select_nodes
from gossiprec.emulation.assembly.data_loading import (
    check_node_ids,
    line_of_record,
    read_column,
    read_csv_records,
    read_matrix,
    read_sites,
)
from gossiprec.network.protocols import Protocol
from gossiprec.network.sessions import (
    SESSION_FORMATS,
    draw_rows,
    first_bad_span,
    lives_of,
    recording_of_spans,
)
from gossiprec.network.sim import clock
from gossiprec.network.sim.availability import (
    AlternatingAvailability,
    Availability,
    Lives,
    PeriodicAvailability,
    clip_sessions,
    repeat_sessions,
)
from gossiprec.network.sim.clock import ComputeTime, bytes_per_wake, units_per_wake
from gossiprec.network.sim.network import Latency, MatrixLatency, Network, Partition, SiteLatency
from gossiprec.network.sim.transport import SHARINGS, BandwidthSharing, Transport
from gossiprec.scenario import Scenario
from gossiprec.scenario.network import (
    DeviceSessions,
    PeriodicSessions,
    SitesLatency,
    TableRate,
    TraceSessions,
)

UP, DOWN, PLACE = purpose_id("upload-rate"), purpose_id("download-rate"), purpose_id("node-coordinates")
JOIN, LEAVE = purpose_id("join"), purpose_id("leave")
MIN_RATE = 1e-3
"""Lowest rate that a file may hold."""
MIN_COMPILED = 20_000
"""Number of messages from which the loop of shared bandwidth is compiled."""
MAX_CHANGES = 20_000_000
"""Largest number of times that nodes go online or offline in one entry of a scenario."""
TRACE_HEADERS = [("node", "time", "online"), ("node", "from", "until")]


def make_distribution(options: Any, key: str, *, positive: bool = False) -> clock.Distribution:
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
            return clock.Constant(options.value)
        case "uniform":
            return clock.Uniform(options.low, options.high)
        case "exponential":
            return clock.Exponential(options.mean)
        case "lognormal":
            return clock.Lognormal(options.median, options.sigma)
        case "weibull":
            return clock.Weibull(options.scale, options.shape)
    values = read_column(options.path, f"{key}.path", column=options.column, positive=positive)
    return clock.Empirical(values, order=options.order, end=options.end)


def _latency(scenario: Scenario, n_nodes: int) -> Latency:
    key, options, seed = "network.latency", scenario.network.latency, scenario.seed
    if isinstance(options, SitesLatency):
        matrix = read_sites(options.sites, f"{key}.sites", fill=options.missing == "fill")
        per_wake = units_per_wake(options.unit, scenario.seconds_per_wake, f"{key}.unit")
        sites = draw_rows(len(matrix), n_nodes, seed=seed, purpose="latency-sites")
        return SiteLatency(matrix / ((1 + options.round_trip) * per_wake), sites)
    if options.law == "pairs":
        return MatrixLatency(read_matrix(options.path, f"{key}.path", n_nodes))
    if options.law == "geographic":
        places = _coordinates(options.coordinates, f"{key}.coordinates", n_nodes, seed)
        kilometres = great_circle_km(places, places, every_pair=True)
        return MatrixLatency(options.base + kilometres / options.speed_km)
    distribution = make_distribution(options, key)
    return Latency(distribution, per=getattr(options, "per", "message"), n_nodes=n_nodes, seed=seed)


def _coordinates(source: str, key: str, n_nodes: int, seed: int) -> F64:
    """Return latitude and longitude of every node in degrees, shape (n_nodes, 2)."""
    if source == "random":  # uniform on the sphere: the sine of the latitude is uniform
        height, turn = (uniforms(seed, k, np.arange(n_nodes), PLACE) for k in (0, 1))
        globe = np.stack([np.arcsin(2.0 * height - 1.0), np.pi * (2.0 * turn - 1.0)], axis=1)
        return np.asarray(np.degrees(globe), np.float64)
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
        _latency(scenario, n_nodes),
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


def _sharing(scenario: Scenario, protocol: Protocol, load: NodeLoad) -> BandwidthSharing | None:
    options = scenario.network.bandwidth
    if not options.is_limited:
        return None
    up, down = (_rates(scenario, protocol, key, purpose) for key, purpose in (("up", UP), ("down", DOWN)))
    n_wakes = len(protocol.clock.node_ids) * protocol.wakes
    expected = n_wakes * (protocol.messages_per_wake or protocol.n_users)
    sizes = load.planned_bytes.astype(np.float64)
    return SHARINGS[options.sharing](up, down, sizes, compiled=expected >= MIN_COMPILED)


def _rates(scenario: Scenario, protocol: Protocol, direction: str, purpose: int) -> F64:
    """Return the rate of every node in one direction, ``up`` or ``down``."""
    n_users, key = protocol.n_users, f"network.bandwidth.{direction}"
    options: Any = getattr(scenario.network.bandwidth, direction)
    if options is None or isinstance(options, float):
        rates = np.full(n_users, math.inf if options is None else options)
    elif options.law == "file":
        rates = read_column(options.path, f"{key}.path", positive=True)
        if len(rates) != n_users:
            raise ScenarioError(
                f"{key}.path: {options.path} has {len(rates)} rates; expected one for each of {n_users} nodes"
            )
    elif isinstance(options, TableRate):
        table = read_column(options.table, f"{key}.table", column=options.column, positive=True)
        scale = bytes_per_wake(options.unit, scenario.seconds_per_wake, f"{key}.unit")
        rates = scale * table[draw_rows(len(table), n_users, seed=scenario.seed, purpose="bandwidth-rows")]
    else:
        rates = make_distribution(options, key).draw(scenario.seed, 0, np.arange(n_users), purpose)
    if rates.min() < MIN_RATE:
        raise ScenarioError(
            f"{key}: found a rate of {rates.min():g} bytes per wake period; expected {MIN_RATE:g} or more"
        )
    coordinator = scenario.network.bandwidth.coordinator
    centre = math.inf if coordinator is None else coordinator
    return np.append(rates, [centre] * protocol.n_servers)


def _work(scenario: Scenario, protocol: Protocol, load: NodeLoad) -> ComputeTime | None:
    """Return the compute time of nodes, or None if computing takes no time."""
    options = scenario.network.compute
    if options is None:
        return None
    trains = trains_on_event(protocol.role_behaviours)[protocol.roles]
    return ComputeTime(
        make_distribution(options.time, "network.compute.time"),
        per=options.per,
        scale=load.samples.astype(np.float64) if options.per_sample else np.ones(protocol.n_nodes),
        on_wake=trains[:, 0],
        on_receive=trains[:, 1:],
        seed=scenario.seed,
    )


def trains_on_event(behaviours: Sequence[Behaviour]) -> Bools:
    """Return whether each role trains when it wakes, when it receives, and so on, shape (n_roles, n_slots)."""
    return np.array([[Op.TRAIN in ops for ops in slots] for slots in operations_by_slot(behaviours)])


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
    traces: list[tuple[str, Any, int, str]]
    traces = [("network.latency", scenario.network.latency, messages, "messages")]
    if compute is not None and compute.per == "update":
        traces.append(("network.compute.time", compute.time, updates, "local updates"))
    for key, options, count, what in traces:
        length = make_distribution(options, key).length if options.law == "trace" else None
        if length is not None and count > length:
            raise ScenarioError(
                f"{key}: {options.path} has {length} times, but a node has {count} {what}; "
                "write end: repeat or end: hold, or shorten the run"
            )


def make_availability(
    scenario: Scenario, protocol: Protocol, note: Callable[[str], None], n_users: int
) -> Availability:
    """Return the online times of every node; poisoners and a coordinator are always online.

    Parameters
    ----------
    note : callable
        Receives notes for the user, for example that a trace is repeated.
    n_users : int
        The number of users; their nodes come first and may go offline.

    Raises
    ------
    ScenarioError
        If a file does not fit, or the churn leaves no node to talk to.
    """
    churn = scenario.churn
    if churn.is_always_online:
        return Availability.always_online(protocol.n_nodes)
    horizon = protocol.horizon
    starts = [True] * protocol.n_nodes
    changes = [np.zeros(0)] * protocol.n_nodes
    last_seen = np.full(n_users, math.inf)  # the time at which a node leaves permanently
    taken = np.zeros(n_users, np.bool_)
    for number in range(len(churn.sessions)):
        key = f"churn.sessions.{number}"
        nodes, (online, times), is_permanent = _sessions(scenario, number, n_users, horizon, note)
        if taken[nodes].any():
            twice = nodes[taken[nodes]][0]
            raise ScenarioError(
                f"{key}: node {twice} already has sessions from an earlier entry; give each node one entry"
            )
        taken[nodes] = True
        for node, is_online, row in zip(nodes.tolist(), online.tolist(), times, strict=True):
            starts[node], changes[node] = is_online, row
            if is_permanent and not is_online ^ bool(len(row) % 2):
                last_seen[node] = row[-1] if len(row) else 0.0
    begin, end = (_join_or_leave_times(scenario, key, n_users) for key in ("join", "leave"))
    for node in np.flatnonzero((begin > 0.0) | np.isfinite(end)).tolist():
        if begin[node] >= end[node] and np.isfinite(end[node]):
            raise ScenarioError(
                f"churn: node {node} leaves at {end[node]:g}, but joins only at {begin[node]:g}"
            )
        starts[node], changes[node] = clip_sessions(starts[node], changes[node], begin[node], end[node])
    availability = Availability(starts, changes)
    _check_online(availability, np.minimum(last_seen, end), horizon)
    return availability


def _sessions(
    scenario: Scenario, number: int, n_users: int, horizon: float, note: Callable[[str], None]
) -> tuple[I64, Lives, bool]:
    """Return the nodes of an entry, their sessions, and whether the last state is permanent."""
    options, key, seed = scenario.churn.sessions[number], f"churn.sessions.{number}", scenario.seed
    if isinstance(options, TraceSessions):
        return *_read_sessions(options, key, n_users, horizon, note), options.end == "hold"
    nodes = select_nodes(options.nodes, n_users, seed, "session-nodes")
    if isinstance(options, DeviceSessions):
        return nodes, _device_sessions(scenario, number, len(nodes), horizon), options.end == "hold"
    cycles: PeriodicAvailability | AlternatingAvailability
    if isinstance(options, PeriodicSessions):
        length = options.period
        cycles = PeriodicAvailability(length, options.offline_from, options.offline_until, options.jitter)
    else:
        online, offline = (
            make_distribution(getattr(options, part), f"{key}.{part}", positive=True)
            for part in ("online", "offline")
        )
        length = online.mean + offline.mean
        cycles = AlternatingAvailability(online, offline, options.start == "stationary")
    _check_changes(len(nodes) * horizon / length, key)
    return nodes, cycles.draw_sessions(nodes, horizon, seed), False


def _device_sessions(scenario: Scenario, number: int, n_nodes: int, horizon: float) -> Lives:
    """Return the sessions of nodes onto which recordings of devices are drawn."""
    options: Any = scenario.churn.sessions[number]
    key = f"churn.sessions.{number}"
    per_wake = units_per_wake(options.unit, scenario.seconds_per_wake, f"{key}.unit")
    try:
        source = FileSource(Path(options.trace))
        recordings = build_registered(SESSION_FORMATS, options.format).checked_recordings(source)
    except DataError as error:
        raise ScenarioError(f"{key}.trace: {error}") from error
    n_read, longest = len(recordings), max(recording.length for recording in recordings) / per_wake
    if options.end == "refuse":
        recordings = [recording for recording in recordings if recording.length / per_wake >= horizon]
    if len(recordings) < (1 if options.reuse else n_nodes):
        long_enough = f", {len(recordings)} of them as long as the run" if options.end == "refuse" else ""
        steps = "write end: repeat or end: hold, shorten the run, " if options.end == "refuse" else ""
        raise ScenarioError(
            f"{key}.trace: {options.trace} has {n_read} recordings of up to {longest:g} wake periods{long_enough}; "
            f"expected one for each of {n_nodes} nodes, over {horizon:g} wake periods; {steps}set reuse: true, or "
            "use fewer nodes"
        )
    rows = draw_rows(len(recordings), n_nodes, seed=scenario.seed, purpose=f"session-devices-{number}")
    drawn = [recordings[row] for row in rows.tolist()]
    repeats = options.end == "repeat"
    rounds = [max(1.0, horizon / (one.length / per_wake)) if repeats else 1.0 for one in drawn]
    _check_changes(sum(len(one.changes) * n for one, n in zip(drawn, rounds, strict=True)) / 2, key)
    return lives_of(drawn, per_wake=per_wake, horizon=horizon, repeat=repeats)


def _check_changes(cycles: float, key: str) -> None:
    if 2.0 * cycles > MAX_CHANGES:
        raise ScenarioError(
            f"{key}: nodes would go online or offline {2.0 * cycles:.2g} times, but only {MAX_CHANGES:,} "
            "changes are supported; use longer sessions or a shorter run"
        )


def _join_or_leave_times(scenario: Scenario, key: str, n_users: int) -> F64:
    """Return the time at which each node joins (0 means at the start) or leaves (inf means never)."""
    seed, joins = scenario.seed, key == "join"
    times = np.full(n_users, 0.0 if joins else math.inf)
    for number, entry in enumerate(getattr(scenario.churn, key)):
        nodes = select_nodes(entry.nodes, n_users, seed, f"{key}-nodes")
        low, high = (entry.at,) * 2 if isinstance(entry.at, float) else (entry.at.low, entry.at.high)
        drawn = clock.Uniform(low, high).draw(seed, number, nodes, JOIN if joins else LEAVE)
        times[nodes] = (np.maximum if joins else np.minimum)(times[nodes], drawn)
    return times


def _read_sessions(
    options: TraceSessions, key: str, n_users: int, horizon: float, note: Callable[[str], None]
) -> tuple[I64, Lives]:
    """Return the sessions in a file, over the whole run."""
    path, place = options.trace, f"{key}.trace"
    header, rows = read_csv_records(path, place, TRACE_HEADERS)
    if not (np.isfinite(rows[:, 1:]) & (rows[:, 1:] >= 0.0)).all():
        raise ScenarioError(f"{place}: {path}: times must be finite and at least 0")
    ids = check_node_ids(rows[:, 0], path, place, n_users)
    has_states = header == TRACE_HEADERS[0]
    span = float(rows[:, 1 if has_states else 2].max())
    if span <= 0.0:
        raise ScenarioError(f"{place}: {path} ends at time 0; expected a trace of positive length")
    if span < horizon:
        if options.end == "refuse":
            raise ScenarioError(
                f"{place}: {path} ends at {span:g}, but the run lasts until {horizon:g}; "
                "write end: repeat or end: hold, or shorten the run"
            )
        ending = "repeated" if options.end == "repeat" else "held in its last state"
        note(f"{place}: the trace ends at {span:g} and the run at {horizon:g}, so the trace is {ending}")
    nodes = np.unique(ids)
    _check_changes(len(rows) * max(1.0, horizon / span), key)
    read = _sessions_of_states if has_states else _sessions_of_spans
    if not has_states and (bad := first_bad_span(ids, rows[:, 1], rows[:, 2])) is not None:
        node, begin, until = rows[bad].tolist()
        raise ScenarioError(
            f"{place}: {path}: line {line_of_record(path, header, bad)}: node {node:g} is online from {begin:g} until "
            f"{until:g}; sessions must end after they begin and not overlap"
        )
    rows = rows[np.argsort(rows[:, 1], kind="stable")]
    lives = [read(rows[rows[:, 0] == node], f"{place}: {path}: node {node:g}") for node in nodes.tolist()]
    if options.end == "repeat":
        lives = [repeat_sessions(*life, span, horizon) for life in lives]
    return nodes, (np.array([online for online, _ in lives], np.bool_), [times for _, times in lives])


def _sessions_of_states(rows: F64, place: str) -> tuple[bool, F64]:
    """Return a node's sessions from rows (node, time, online) by time, each of which gives its state from then on."""
    if not np.isin(rows[:, 2], (0.0, 1.0)).all():
        raise ScenarioError(f"{place}: online must be 0 or 1")
    if (np.diff(rows[:, 1]) == 0.0).any():
        raise ScenarioError(f"{place} has two rows for the same time")
    times, states = rows[:, 1], rows[:, 2] == 1.0
    starts = bool(states[0]) if times[0] == 0.0 else not states[0]
    changed = states != np.append(starts, states[:-1])
    return starts, times[changed]


def _sessions_of_spans(rows: F64, place: str) -> tuple[bool, F64]:
    """Return a node's sessions from rows (node, from, until) by time."""
    spans = recording_of_spans(place, rows[:, 1], rows[:, 2], math.inf)
    return spans.online, spans.changes


def _check_online(availability: Availability, last_seen: F64, horizon: float) -> None:
    """Refuse churn under which no two nodes can ever exchange models, or all nodes leave before the end."""
    n_users = len(last_seen)
    if last_seen.max() < horizon:
        raise ScenarioError(
            f"churn: all {n_users} nodes are permanently offline from time {last_seen.max():g}, but the run "
            f"lasts until {horizon:g}; let some nodes stay, or shorten the run"
        )
    time, _, online = availability.all_changes()
    steps = np.cumsum(2 * online[time <= horizon].astype(np.int64) - 1)
    together = int(availability.starts_online.sum() + max(0, steps.max(initial=0)))
    if together < 2:
        raise ScenarioError(
            f"churn: no more than {together} of {len(availability.changes)} nodes are online at the same time "
            f"until the end of the run at {horizon:g}; at least two must be online to exchange models"
        )
