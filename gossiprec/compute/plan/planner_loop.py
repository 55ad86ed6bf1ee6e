"""The planner's loop, which turns events into tasks: plain Python on plain arrays, so that numba can compile it.

Small runs execute it uncompiled; large ones compile it (:mod:`gossiprec.compute.plan.planner` chooses).

A node's *version* is a row of the arena. Messages pin the version they carry; a task may overwrite its node's row only
when nothing else needs it. Delivered versions are merged when the receiver's model is next read, not before: the
result is the same, and the receiver's row is then loaded once for all of them.
"""

from __future__ import annotations

from gossiprec.compute.plan.planner_state import (
    APPRAISED,
    BASE,
    BASE_WAVE,
    CARRIED,
    CURRENT,
    ENCODER,
    ENCODES,
    FREE_COUNT,
    FREE_HEAD,
    FRESH,
    FROM,
    FULL,
    HEAD,
    HELD,
    INBOX,
    LAST_WAVE,
    LIMIT,
    MERGES,
    NEEDED,
    NEXT,
    NODE,
    NONE,
    POOL_ID,
    PUSH,
    PUSH_NUMBER,
    PUSHED,
    PUSHES,
    QUEUED,
    READ,
    RESERVE,
    REWRITES,
    ROLE,
    SEEN_MESSAGE,
    SEEN_ROW,
    SEEN_WAVE,
    SENDER,
    SIGHTINGS,
    SOURCE,
    TAIL,
    TARGET,
    TASKS,
    UPDATE,
    UPDATES,
    VICTIM,
    WAVE,
    WEIGHTED,
    WRITTEN,
)
from gossiprec.compute.plan.tape import (
    ADOPT,
    APPRAISE,
    BLEND,
    DELIVER,
    DROP,
    MIX,
    NOTHING,
    POOL,
    RESET,
    SEND,
    TRAIN,
)
from gossiprec.native.jit import jitable

UNMIXED = -1.0
"""Stands for the weight in a mix if the version that the node pushed last is not merged."""


@jitable
def to_int64(number):
    """Return an integer as int64, so that functions are not compiled for several widths."""
    return 0 + number


@jitable
def allocate_row(rows, free, counters):
    """Return a free arena row: the one released longest ago if there is one, else a fresh row."""
    if counters[FREE_COUNT] > counters[RESERVE] or counters[FRESH] >= len(rows):
        row = free[counters[FREE_HEAD]]
        counters[FREE_HEAD] = (counters[FREE_HEAD] + 1) % len(free)
        counters[FREE_COUNT] -= 1
        return row
    row = counters[FRESH]
    counters[FRESH] += 1
    return row


@jitable
def release_row(row, rows, free, counters):
    """Release one claim on a row."""
    rows[row, NEEDED] -= 1
    if rows[row, NEEDED] == 0:
        free[(counters[FREE_HEAD] + counters[FREE_COUNT]) % len(free)] = row
        counters[FREE_COUNT] += 1


@jitable
def emit_task(node, update, mixed, tables, output):
    """Append the task that merges the node's received versions and runs local update `update`.

    `update` is -1 if the task only merges. The version that the node pushed last is merged after all others, and the
    node's own keeps the weight `mixed`; it is not merged if `mixed` is UNMIXED.
    """
    nodes, rows, messages = tables.nodes, tables.rows, tables.messages
    free, counters = tables.free, tables.counters
    tasks, merges, merge_keep = output.tasks, output.merges, output.merge_keep
    source = nodes[node, CURRENT]
    wave = max(counters[BASE_WAVE], rows[source, WRITTEN]) + 1
    first = counters[MERGES]
    message = nodes[node, HEAD]
    while message != NONE:
        row = messages[message, CARRIED]
        merge = counters[MERGES]
        merges[merge, 0], merges[merge, 1], merge_keep[merge] = row, message, tables.keeps[message]
        counters[MERGES] += 1
        wave = max(wave, rows[row, WRITTEN] + 1)
        message = messages[message, NEXT]
    counters[QUEUED + nodes[node, INBOX]] -= counters[MERGES] - first
    nodes[node, HEAD] = nodes[node, TAIL] = NONE
    if mixed != UNMIXED:
        held, merge = nodes[node, HELD], counters[MERGES]
        merges[merge, 0], merges[merge, 1], merge_keep[merge] = held, nodes[node, PUSHED], mixed
        counters[MERGES] += 1
        wave = max(wave, rows[held, WRITTEN] + 1)
        nodes[node, HELD] = NONE  # its claim is released with the messages' claims
    target = source
    if rows[source, NEEDED] > 1:
        target = allocate_row(rows, free, counters)
        rows[target, NEEDED] = 1
        nodes[node, CURRENT] = target
    wave = max(wave, rows[target, WRITTEN] + 1, rows[target, READ] + 1)
    for merge in range(first, counters[MERGES]):
        row = merges[merge, 0]
        rows[row, READ] = max(rows[row, READ], wave)
        release_row(row, rows, free, counters)
    if target != source:
        rows[source, READ] = max(rows[source, READ], wave)
        release_row(source, rows, free, counters)
    rows[target, WRITTEN] = wave
    task = counters[TASKS]
    tasks[task, NODE], tasks[task, SOURCE], tasks[task, TARGET] = node, source, target
    tasks[task, UPDATE], tasks[task, WAVE] = update, wave
    counters[TASKS] += 1
    output.ends[task] = counters[MERGES]
    counters[LAST_WAVE] = max(counters[LAST_WAVE], wave)


@jitable
def release_base(node, nodes, rows, free, counters):
    """Release the node's base version."""
    if nodes[node, BASE] != NONE:
        release_row(nodes[node, BASE], rows, free, counters)
        nodes[node, BASE] = NONE


@jitable
def emit_encode_task(node, nodes, rows, free, counters, tasks, ends, encodes):
    """Append the task that rewrites the pushed version into a new row; return the row."""
    source, base = nodes[node, CURRENT], nodes[node, BASE]
    target = allocate_row(rows, free, counters)
    wave = max(counters[BASE_WAVE], rows[source, WRITTEN]) + 1
    wave = max(wave, rows[target, WRITTEN] + 1, rows[target, READ] + 1)
    if base != NONE:
        wave = max(wave, rows[base, WRITTEN] + 1)
        rows[base, READ] = max(rows[base, READ], wave)
    rows[source, READ] = max(rows[source, READ], wave)
    rows[target, WRITTEN] = wave
    task, k = counters[TASKS], counters[ENCODES]
    tasks[task, NODE], tasks[task, SOURCE], tasks[task, TARGET] = node, source, target
    tasks[task, UPDATE], tasks[task, WAVE] = NONE, wave
    ends[task] = counters[MERGES]
    encodes[k, ENCODER], encodes[k, PUSH_NUMBER], encodes[k, FROM] = task, nodes[node, PUSHES], base
    counters[TASKS] += 1
    counters[ENCODES] += 1
    counters[LAST_WAVE] = max(counters[LAST_WAVE], wave)
    nodes[node, PUSHES] += 1
    release_base(node, nodes, rows, free, counters)
    return target


@jitable
def emit_update_task(node, tables, output):
    """Append the node's next local update, unless the node has spent its budget.

    If the node's pushes are rewritten, the version before the update is kept, because they may be encoded relative to
    it.
    """
    nodes, rows, free, counters = tables.nodes, tables.rows, tables.free, tables.counters
    update = to_int64(nodes[node, UPDATES])
    if update < nodes[node, LIMIT]:
        if nodes[node, REWRITES]:
            if nodes[node, HEAD] != NONE:
                emit_task(node, NONE, UNMIXED, tables, output)
            release_base(node, nodes, rows, free, counters)
            nodes[node, BASE] = nodes[node, CURRENT]
            rows[nodes[node, BASE], NEEDED] += 1
        emit_task(node, update, UNMIXED, tables, output)
        nodes[node, UPDATES] += 1


@jitable
def emit_reset(node, tables, output):
    """Reset a node to its first version, which is in row ``n_nodes + node``; nothing is copied.

    Arrived versions are merged before, so that observers see them. The node's next task waits for its last one.
    """
    nodes, rows, free, counters = tables.nodes, tables.rows, tables.free, tables.counters
    if nodes[node, HEAD] != NONE:
        emit_task(node, NONE, UNMIXED, tables, output)
    release_base(node, nodes, rows, free, counters)
    before, first = nodes[node, CURRENT], len(nodes) + node
    if before != first:
        rows[first, WRITTEN] = max(rows[first, WRITTEN], rows[before, WRITTEN])
        rows[first, NEEDED] += 1
        nodes[node, CURRENT] = first
        release_row(before, rows, free, counters)


@jitable
def enqueue_delivery(message, node, op, factor, tables, merging):
    """Queue a delivered version for merging by rule `op`; a weight or factor of zero changes nothing."""
    nodes, messages, counters = tables.nodes, tables.messages, tables.counters
    keeps, weights, mass = tables.keeps, merging.weights, merging.mass
    full = weights[messages[message, SENDER]]
    theirs = factor * full
    if op == ADOPT:
        keeps[message] = 0.0
    elif op == APPRAISE:
        keeps[message] = APPRAISED
    else:
        own = 0.0 if op == POOL else weights[node]  # a pool counts no version of the node itself
        if op != BLEND:  # a blend ignores earlier deliveries
            own += mass[node, WEIGHTED]
        keeps[message] = own / (own + theirs) if theirs > 0.0 else 1.0
        if op != BLEND and theirs > 0.0:
            mass[node, WEIGHTED] += theirs
            mass[node, FULL] += full
        if nodes[node, INBOX] and theirs > 0.0:
            keeps[message] = APPRAISED
    counters[QUEUED + nodes[node, INBOX]] += 1
    messages[message, NEXT] = NONE
    if nodes[node, HEAD] == NONE:
        nodes[node, HEAD] = message
    else:
        messages[nodes[node, TAIL], NEXT] = message
    nodes[node, TAIL] = message


@jitable
def emit_pool_deliveries(message, node, tables, pools):
    """Append the pool deliveries of a delivered message; deliveries of one victim keep their order.

    A version that several members of a pool receive is seen once, for a copy adds nothing. ``pools_seen[push, pool]``
    is set once a pool has seen the version of a push.
    """
    rows, messages, counters, sightings = tables.rows, tables.messages, tables.counters, pools.sightings
    pools_of, pool_waves, pools_seen = pools.pools_of, pools.pool_waves, pools.pools_seen
    row, victim, push = messages[message, CARRIED], messages[message, SENDER], messages[message, PUSH]
    for pool in range(pools_of.shape[1]):
        if pools_of[node, pool] and not pools_seen[push, pool]:
            pools_seen[push, pool] = True
            wave = max(counters[BASE_WAVE], rows[row, WRITTEN]) + 1
            wave = max(wave, pool_waves[pool, victim] + 1)
            pool_waves[pool, victim] = wave
            rows[row, READ] = max(rows[row, READ], wave)
            k = counters[SIGHTINGS]
            sightings[k, POOL_ID], sightings[k, VICTIM], sightings[k, SEEN_ROW] = pool, victim, row
            sightings[k, SEEN_WAVE], sightings[k, SEEN_MESSAGE] = wave, message
            counters[SIGHTINGS] += 1
            counters[LAST_WAVE] = max(counters[LAST_WAVE], wave)


@jitable
def flush_inboxes(tables, output):
    """Append a task for every node with queued versions; inboxes wait until their node's model is read."""
    nodes = tables.nodes
    for i in range(len(nodes)):
        if nodes[i, HEAD] != NONE and not nodes[i, INBOX]:
            emit_task(i, NONE, UNMIXED, tables, output)


@jitable
def push_version(node, first, end, mixes, tables, mass, output):
    """Let the messages ``first .. end - 1`` carry a node's version; keep it if the node mixes with it later."""
    nodes, rows, free, counters = tables.nodes, tables.rows, tables.free, tables.counters
    messages = tables.messages
    if nodes[node, HEAD] != NONE:
        emit_task(node, NONE, UNMIXED, tables, output)
    mass[node, WEIGHTED] = mass[node, FULL] = 0.0
    row = nodes[node, CURRENT]
    if mixes:
        before = nodes[node, HELD]
        nodes[node, HELD] = row
        rows[row, NEEDED] += 1
        if before != NONE:
            release_row(before, rows, free, counters)
        if end > first:
            nodes[node, PUSHED] = first
    if nodes[node, REWRITES] and end > first:
        row = emit_encode_task(node, nodes, rows, free, counters, output.tasks, output.ends, output.encodes)
    rows[row, NEEDED] += end - first
    for m in range(first, end):
        messages[m, SENDER], messages[m, CARRIED], messages[m, PUSH] = node, row, first


@jitable
def receive_message(message, node, ops, tables, merging, pools, output):
    """Carry out the operations of a node that receives a message the moment it is sent."""
    emit_pool_deliveries(message, node, tables, pools)
    for op in ops:
        if op == TRAIN:
            emit_update_task(node, tables, output)
        elif op != NOTHING and op != SEND:
            enqueue_delivery(message, node, op, 1.0, tables, merging)


@jitable
def plan_event(e, sent, events, rules, tables, merging, pools, output):
    """Turn event number `e` into tasks and pool deliveries; return the id of the next message."""
    kind, message, count = events.kind[e], to_int64(events.message[e]), to_int64(events.count[e])
    node, nodes, mass, behaviours = to_int64(events.node[e]), tables.nodes, merging.mass, rules.behaviours
    if kind == DROP:
        release_row(tables.messages[message, CARRIED], tables.rows, tables.free, tables.counters)
        return sent
    if kind == RESET:
        emit_reset(node, tables, output)
        mass[node, WEIGHTED] = mass[node, FULL] = 0.0
        return sent
    if kind == DELIVER:
        emit_pool_deliveries(message, node, tables, pools)
    mixing = rules.mixing[nodes[node, ROLE]]
    for op in behaviours[nodes[node, ROLE], kind]:
        if op == TRAIN:
            emit_update_task(node, tables, output)
        elif op == SEND:
            end = sent + count
            push_version(node, sent, end, mixing > 0.0, tables, mass, output)
            for m in range(sent, end if rules.inline else sent):
                receiver = to_int64(events.receiver[m - events.first_message])
                ops = behaviours[nodes[receiver, ROLE], DELIVER]
                receive_message(m, receiver, ops, tables, merging, pools, output)
            sent = end
        elif op == MIX:
            if mass[node, WEIGHTED] > 0.0:
                mixed = mixing * mass[node, WEIGHTED] / mass[node, FULL]
                emit_task(node, NONE, mixed, tables, output)
        elif op != NOTHING:
            factor = events.factor[e] if len(events.factor) > 0 else 1.0
            enqueue_delivery(message, node, op, factor, tables, merging)
    return sent


def plan_events(start, sent, events, rules, tables, merging, pools, output):
    """Turn events from number `start` on into tasks and pool deliveries; update the state tables.

    numba compiles a function again if both the kernel and a function below it call it. So nearly all calls are in
    :func:`plan_event`.

    Parameters
    ----------
    start, sent : int
        Number of the first event, and id of the next message.
    events : TapeColumns
    rules : PlanRules
    tables : VersionTables
    merging : MergeTables
    pools : PoolTables
    output : TaskTables

    Returns
    -------
    event, sent : int
        The next event and message. The loop stops before an event for which the rows might not suffice; `event` is the
        number of events once all are planned.
    """
    count, n_nodes, n_rows, counters = events.count, len(tables.nodes), len(tables.rows), tables.counters
    for e in range(start, len(count)):
        if n_rows - counters[FRESH] + counters[FREE_COUNT] < 3 * n_nodes + count[e] + 1:
            return e, sent
        sent = plan_event(e, sent, events, rules, tables, merging, pools, output)
        in_use = counters[FRESH] - counters[FREE_COUNT]
        if in_use > rules.soft_limit and 8 * counters[QUEUED] > n_nodes:
            flush_inboxes(tables, output)
    if counters[QUEUED] > 0:
        flush_inboxes(tables, output)
    return len(count), sent
