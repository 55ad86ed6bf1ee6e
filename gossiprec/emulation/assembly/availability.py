"""The availability of nodes: a scenario's churn, known before the run."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gossiprec.base.arrays import F64, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.rng import purpose_id
from gossiprec.emulation.assembly.components import select_nodes
from gossiprec.emulation.assembly.network_setup import make_distribution
from gossiprec.network.protocols import Protocol
from gossiprec.network.sim.availability import (
    AlternatingAvailability,
    Availability,
    Lives,
    PeriodicAvailability,
    clip_sessions,
)
from gossiprec.network.sim.distributions import Uniform
from gossiprec.scenario import Scenario
from gossiprec.scenario.network import PeriodicSessions, TraceSessions

JOIN, LEAVE = purpose_id("join"), purpose_id("leave")
MOST_CHANGES = 20_000_000
HEADERS = [("node", "time", "online"), ("node", "from", "until")]


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
    if churn.plain:
        return Availability.forever(protocol.n_nodes)
    horizon = protocol.horizon
    starts = [True] * protocol.n_nodes
    changes = [np.zeros(0)] * protocol.n_nodes
    last_seen = np.full(n_users, math.inf)  # the time at which a node leaves permanently
    taken = np.zeros(n_users, np.bool_)
    for number, options in enumerate(churn.sessions):
        key = f"churn.sessions.{number}"
        nodes, (online, times), for_good = _sessions(options, key, n_users, horizon, scenario.seed, note)
        if taken[nodes].any():
            twice = nodes[taken[nodes]][0]
            raise ScenarioError(
                f"{key}: node {twice} already has sessions from an earlier entry; give each node one entry"
            )
        taken[nodes] = True
        for node, is_online, row in zip(nodes.tolist(), online.tolist(), times, strict=True):
            starts[node], changes[node] = is_online, row
            if for_good and not is_online ^ bool(len(row) % 2):
                last_seen[node] = row[-1] if len(row) else 0.0
    begin, end = (_for_good(getattr(churn, key), key, n_users, scenario.seed) for key in ("join", "leave"))
    for node in np.flatnonzero((begin > 0.0) | np.isfinite(end)).tolist():
        if begin[node] >= end[node] and np.isfinite(end[node]):
            raise ScenarioError(
                f"churn: node {node} leaves at {end[node]:g}, but joins only at {begin[node]:g}"
            )
        starts[node], changes[node] = clip_sessions(starts[node], changes[node], begin[node], end[node])
    availability = Availability(starts, changes)
    _refuse_impossible(availability, np.minimum(last_seen, end), horizon)
    return availability


def _sessions(
    options: Any, key: str, n_users: int, horizon: float, seed: int, note: Callable[[str], None]
) -> tuple[I64, Lives, bool]:
    """Return the nodes of an entry, their sessions, and whether the last state is permanent."""
    if isinstance(options, TraceSessions):
        nodes, lives = _traced(options, key, n_users, horizon, note)
        return nodes, lives, options.end == "hold"
    nodes = select_nodes(options.nodes, n_users, seed, "session-nodes")
    law: PeriodicAvailability | AlternatingAvailability
    if isinstance(options, PeriodicSessions):
        law = PeriodicAvailability(
            options.period, options.offline_from, options.offline_until, options.jitter
        )
        cycle = options.period
    else:
        online, offline = (
            make_distribution(getattr(options, part), f"{key}.{part}", positive=True)
            for part in ("online", "offline")
        )
        law = AlternatingAvailability(online, offline, options.start == "stationary")
        cycle = online.mean + offline.mean
    _refuse_countless(len(nodes) * horizon / cycle, key)
    return nodes, law.lives(nodes, horizon, seed), False


def _refuse_countless(cycles: float, key: str) -> None:
    if 2.0 * cycles > MOST_CHANGES:
        raise ScenarioError(
            f"{key}: nodes would go online or offline {2.0 * cycles:.2g} times, but at most {MOST_CHANGES:,} "
            "changes are supported; use longer sessions or a shorter run"
        )


def _for_good(entries: Any, key: str, n_users: int, seed: int) -> F64:
    """Return the time at which each node joins (0 means at the start) or leaves (inf means never)."""
    joins = key == "join"
    when = np.full(n_users, 0.0 if joins else math.inf)
    for number, entry in enumerate(entries):
        nodes = select_nodes(entry.nodes, n_users, seed, f"{key}-nodes")
        at = entry.at if isinstance(entry.at, float) else None
        law = Uniform(at, at) if at is not None else Uniform(entry.at.low, entry.at.high)
        times = law.draw(seed, number, nodes, JOIN if joins else LEAVE)
        when[nodes] = np.maximum(when[nodes], times) if joins else np.minimum(when[nodes], times)
    return when


def _traced(
    options: TraceSessions, key: str, n_users: int, horizon: float, note: Callable[[str], None]
) -> tuple[I64, Lives]:
    """Return the sessions in a file, over the whole run."""
    from gossiprec.emulation.assembly.input_files import (  # pyarrow, which few runs need
        check_node_ids,
        read_csv_records,
    )

    path, where = options.trace, f"{key}.trace"
    header, rows = read_csv_records(path, where, HEADERS)
    numbers = rows[:, 1:]
    if not (np.isfinite(numbers) & (numbers >= 0.0)).all():
        raise ScenarioError(f"{where}: {path}: times must be finite and at least 0")
    ids = check_node_ids(rows[:, 0], path, where, n_users)
    span = float(rows[:, 1].max() if header == HEADERS[0] else rows[:, 2].max())
    if span <= 0.0:
        raise ScenarioError(f"{where}: {path} ends at time 0; expected a trace of positive length")
    if span < horizon:
        if options.end == "refuse":
            raise ScenarioError(
                f"{where}: {path} ends at {span:g}, but the run lasts until {horizon:g}; "
                "write end: repeat or end: hold, or shorten the run"
            )
        ending = "repeated" if options.end == "repeat" else "held in its last state"
        note(f"{where}: the trace ends at {span:g} and the run at {horizon:g}, so the trace is {ending}")
    nodes = np.unique(ids)
    _refuse_countless(len(rows) * max(1.0, horizon / span), key)
    lives = []
    for node in nodes.tolist():
        mine = rows[ids == node]
        states = _stated(mine, path, where) if header == HEADERS[0] else _spells(mine, path, where)
        lives.append(_repeated(*states, span, horizon) if options.end == "repeat" else states)
    return nodes, (np.array([online for online, _ in lives], np.bool_), [times for _, times in lives])


def _stated(rows: F64, path: str, key: str) -> tuple[bool, F64]:
    """Return a node's sessions from rows (node, time, online), which give its state from a time on."""
    rows = rows[np.argsort(rows[:, 1], kind="stable")]
    if not np.isin(rows[:, 2], (0.0, 1.0)).all():
        raise ScenarioError(f"{key}: {path}: node {rows[0, 0]:g}: online must be 0 or 1")
    if (np.diff(rows[:, 1]) == 0.0).any():
        raise ScenarioError(f"{key}: {path}: node {rows[0, 0]:g} has two rows for the same time")
    times, states = rows[:, 1], rows[:, 2] == 1.0
    starts = bool(states[0]) if times[0] == 0.0 else not states[0]
    changed = states != np.append(starts, states[:-1])
    return starts, times[changed]


def _spells(rows: F64, path: str, key: str) -> tuple[bool, F64]:
    """Return a node's sessions from rows (node, from, until)."""
    rows = rows[np.argsort(rows[:, 1], kind="stable")]
    flat = rows[:, 1:].ravel()
    if (rows[:, 1] >= rows[:, 2]).any() or (np.diff(flat) < 0.0).any():
        raise ScenarioError(
            f"{key}: {path}: node {rows[0, 0]:g}: sessions must end after they begin and not overlap"
        )
    keep = np.ones(len(flat), np.bool_)
    joint = np.flatnonzero(np.diff(flat) == 0.0)  # one session begins where another ends
    keep[joint] = keep[joint + 1] = False
    flat = flat[keep]
    return (True, flat[1:]) if flat[0] == 0.0 else (False, flat)


def _repeated(online: bool, times: F64, span: float, horizon: float) -> tuple[bool, F64]:
    """Return sessions that are repeated after every span."""
    times = times[times < span]
    if len(times) % 2:
        times = np.append(times, span)  # back to the first state
    rounds = np.arange(int(horizon / span) + 1) * span
    whole = (rounds[:, None] + times).ravel()
    return online, whole[whole <= horizon]


def _refuse_impossible(availability: Availability, last_seen: F64, horizon: float) -> None:
    """Refuse churn under which no two nodes can ever exchange models, or all nodes leave before the end."""
    n_users = len(last_seen)
    if last_seen.max() < horizon:
        raise ScenarioError(
            f"churn: all {n_users} nodes are permanently offline from time {last_seen.max():g}, but the run "
            f"lasts until {horizon:g}; let some nodes stay, or shorten the run"
        )
    time, _, online = availability.log()
    steps = np.cumsum(2 * online[time <= horizon].astype(np.int64) - 1)
    together = int(availability.starts_online.sum() + max(0, steps.max(initial=0)))
    if together < 2:
        raise ScenarioError(
            f"churn: at most {together} of {len(availability.changes)} nodes are online at the same time "
            f"until the end of the run at {horizon:g}; at least two must be online to exchange models"
        )
