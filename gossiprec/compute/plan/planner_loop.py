"""The planner's loop, which turns events into tasks: plain Python on plain arrays, so that numba can compile it.

Small runs execute it uncompiled; large ones compile it (:mod:`gossiprec.compute.plan.planner` chooses).

A node's *version* is a row of the arena. Messages pin the version they carry; a task may overwrite its node's row only
when nothing else needs it. Delivered versions are merged when the receiver's model is next read, not before: the
result is the same, and the receiver's row is then loaded once for all of them.
"""

from __future__ import annotations

from gossiprec.compute.plan import program as at
from gossiprec.compute.plan import tape
from gossiprec.native.jit import jitable

UNMIXED = -1.0
"""Placeholder of the weight in a mix if the version that the node pushed last is not merged."""


@jitable
def to_int64(number):
    """Return an integer as int64, so that functions are not compiled for several widths."""
    return 0 + number


@jitable
def allocate_row(rows, free, counters):
    """Return a free arena row: the one released longest ago if there is one, else a fresh row."""
    if counters[at.FREE_COUNT] > counters[at.RESERVE] or counters[at.FRESH] >= len(rows):
        row = free[counters[at.FREE_HEAD]]
        counters[at.FREE_HEAD] = (counters[at.FREE_HEAD] + 1) % len(free)
        counters[at.FREE_COUNT] -= 1
        return row
    row = counters[at.FRESH]
    counters[at.FRESH] += 1
    return row


@jitable
def release_row(row, rows, free, counters):
    """Release one claim on a row."""
    rows[row, at.NEEDED] -= 1
    if rows[row, at.NEEDED] == 0:
        free[(counters[at.FREE_HEAD] + counters[at.FREE_COUNT]) % len(free)] = row
        counters[at.FREE_COUNT] += 1


@jitable
def emit_task(node, update, mixed, tables, output):
    """Append the task that merges the node's received versions and runs local update `update`.

    `update` is -1 if the task only merges. The version that the node pushed last is merged after all others, and the
    node's own keeps the weight `mixed`; it is not merged if `mixed` is UNMIXED.
    """
    nodes, rows, messages = tables.nodes, tables.rows, tables.messages
    free, counters = tables.free, tables.counters
    tasks, merges, merge_keep = output.tasks, output.merges, output.merge_keep
    source = nodes[node, at.CURRENT]
    wave = max(counters[at.BASE_WAVE], rows[source, at.WRITTEN]) + 1
    first = counters[at.MERGES]
    message = nodes[node, at.HEAD]
    while message != at.NONE:
        row = messages[message, at.CARRIED]
        merge = counters[at.MERGES]
        merges[merge, 0], merges[merge, 1], merge_keep[merge] = row, message, tables.keeps[message]
        counters[at.MERGES] += 1
        wave = max(wave, rows[row, at.WRITTEN] + 1)
        message = messages[message, at.NEXT]
    counters[at.QUEUED + nodes[node, at.INBOX]] -= counters[at.MERGES] - first
    nodes[node, at.HEAD] = nodes[node, at.TAIL] = at.NONE
    if mixed != UNMIXED:
        held, merge = nodes[node, at.HELD], counters[at.MERGES]
        merges[merge, 0], merges[merge, 1], merge_keep[merge] = held, nodes[node, at.PUSHED], mixed
        counters[at.MERGES] += 1
        wave = max(wave, rows[held, at.WRITTEN] + 1)
        nodes[node, at.HELD] = at.NONE  # its claim is released with the messages' claims
    target = source
    if rows[source, at.NEEDED] > 1:
        target = allocate_row(rows, free, counters)
        rows[target, at.NEEDED] = 1
        nodes[node, at.CURRENT] = target
    wave = max(wave, rows[target, at.WRITTEN] + 1, rows[target, at.READ] + 1)
    for merge in range(first, counters[at.MERGES]):
        row = merges[merge, 0]
        rows[row, at.READ] = max(rows[row, at.READ], wave)
        release_row(row, rows, free, counters)
    if target != source:
        rows[source, at.READ] = max(rows[source, at.READ], wave)
        release_row(source, rows, free, counters)
    rows[target, at.WRITTEN] = wave
    task = counters[at.TASKS]
    tasks[task, at.NODE], tasks[task, at.SOURCE], tasks[task, at.TARGET] = node, source, target
    tasks[task, at.UPDATE], tasks[task, at.WAVE] = update, wave
    counters[at.TASKS] += 1
    output.ends[task] = counters[at.MERGES]
    counters[at.LAST_WAVE] = max(counters[at.LAST_WAVE], wave)


@jitable
def release_base(node, nodes, rows, free, counters):
    """Release the node's base version."""
    if nodes[node, at.BASE] != at.NONE:
        release_row(nodes[node, at.BASE], rows, free, counters)
        nodes[node, at.BASE] = at.NONE


@jitable
def emit_encode_task(node, message, tables, output):
    """Append the task that rewrites the pushed version into a new row, for one message or for all; return the row.

    If a push depends on the one before, the task counts as a write of the version, so that the next one waits for it.
    """
    nodes, rows, counters = tables.nodes, tables.rows, tables.counters
    tasks, encodes = output.tasks, output.encodes
    source, base = nodes[node, at.CURRENT], nodes[node, at.BASE]
    target = allocate_row(rows, tables.free, counters)
    wave = max(counters[at.BASE_WAVE], rows[source, at.WRITTEN]) + 1
    wave = max(wave, rows[target, at.WRITTEN] + 1, rows[target, at.READ] + 1)
    if base != at.NONE:
        wave = max(wave, rows[base, at.WRITTEN] + 1)
        rows[base, at.READ] = max(rows[base, at.READ], wave)
    rows[source, at.READ] = max(rows[source, at.READ], wave)
    if nodes[node, at.REWRITES] & at.IN_ORDER:
        rows[source, at.WRITTEN] = wave
    rows[target, at.WRITTEN] = wave
    task, k = counters[at.TASKS], counters[at.ENCODES]
    tasks[task, at.NODE], tasks[task, at.SOURCE], tasks[task, at.TARGET] = node, source, target
    tasks[task, at.UPDATE], tasks[task, at.WAVE] = at.NONE, wave
    output.ends[task] = counters[at.MERGES]
    encodes[k, at.ENCODER], encodes[k, at.PUSH_NUMBER] = task, nodes[node, at.PUSHES]
    encodes[k, at.FROM], encodes[k, at.MESSAGE] = base, message
    counters[at.TASKS] += 1
    counters[at.ENCODES] += 1
    counters[at.LAST_WAVE] = max(counters[at.LAST_WAVE], wave)
    return target


@jitable
def remember_unsent_update(node, tables, output):
    """Append the task that remembers the node's local update, if nothing was sent after it; no version changes."""
    nodes, rows, counters = tables.nodes, tables.rows, tables.counters
    if nodes[node, at.REWRITES] & at.SUMS == 0 or nodes[node, at.BASE] == at.NONE:
        return
    source, base = nodes[node, at.CURRENT], nodes[node, at.BASE]
    wave = max(counters[at.BASE_WAVE], rows[source, at.WRITTEN], rows[base, at.WRITTEN]) + 1
    rows[base, at.READ] = max(rows[base, at.READ], wave)
    rows[source, at.READ], rows[source, at.WRITTEN] = max(rows[source, at.READ], wave), wave
    task, k, tasks, encodes = counters[at.TASKS], counters[at.ENCODES], output.tasks, output.encodes
    tasks[task, at.NODE], tasks[task, at.SOURCE], tasks[task, at.TARGET] = node, source, source
    tasks[task, at.UPDATE], tasks[task, at.WAVE] = at.NONE, wave
    output.ends[task] = counters[at.MERGES]
    encodes[k, at.ENCODER], encodes[k, at.PUSH_NUMBER] = task, at.UNSENT
    encodes[k, at.FROM], encodes[k, at.MESSAGE] = base, at.NONE
    counters[at.TASKS] += 1
    counters[at.ENCODES] += 1
    counters[at.LAST_WAVE] = max(counters[at.LAST_WAVE], wave)
    release_base(node, nodes, rows, tables.free, counters)


@jitable
def emit_update_task(node, tables, output):
    """Append the node's next local update, unless the node has spent its budget.

    If the node's pushes are rewritten, the version before the update is kept, because they may be encoded relative to
    it.
    """
    nodes, rows, free, counters = tables.nodes, tables.rows, tables.free, tables.counters
    update = to_int64(nodes[node, at.UPDATES])
    if update < nodes[node, at.LIMIT]:
        if nodes[node, at.REWRITES] & at.ROWS != 0:
            if nodes[node, at.HEAD] != at.NONE:
                emit_task(node, at.NONE, UNMIXED, tables, output)
            release_base(node, nodes, rows, free, counters)
            nodes[node, at.BASE] = nodes[node, at.CURRENT]
            rows[nodes[node, at.BASE], at.NEEDED] += 1
        emit_task(node, update, UNMIXED, tables, output)
        nodes[node, at.UPDATES] += 1


@jitable
def emit_reset(node, tables, output):
    """Reset a node to its first version, which is in row ``n_nodes + node``; nothing is copied.

    Arrived versions are merged before, so that observers see them. The node's next task waits for its last one.
    """
    nodes, rows, free, counters = tables.nodes, tables.rows, tables.free, tables.counters
    if nodes[node, at.HEAD] != at.NONE:
        emit_task(node, at.NONE, UNMIXED, tables, output)
    release_base(node, nodes, rows, free, counters)
    before, first = nodes[node, at.CURRENT], len(nodes) + node
    if before != first:
        rows[first, at.WRITTEN] = max(rows[first, at.WRITTEN], rows[before, at.WRITTEN])
        rows[first, at.NEEDED] += 1
        nodes[node, at.CURRENT] = first
        release_row(before, rows, free, counters)


@jitable
def enqueue_delivery(message, node, op, factor, tables, merging):
    """Queue a delivered version for merging by rule `op`; a weight or factor of zero changes nothing."""
    nodes, messages, counters = tables.nodes, tables.messages, tables.counters
    keeps, weights, mass = tables.keeps, merging.weights, merging.mass
    full = weights[messages[message, at.SENDER]]
    theirs = factor * full
    if op == tape.ADOPT:
        keeps[message] = 0.0
    elif op == tape.SCORE:
        keeps[message] = at.UNRESOLVED
    else:
        own = 0.0 if op == tape.POOL else weights[node]  # a pool counts no version of the node itself
        if op != tape.BLEND:  # a blend ignores earlier deliveries
            own += mass[node, at.WEIGHTED]
        keeps[message] = own / (own + theirs) if theirs > 0.0 else 1.0
        if op != tape.BLEND and theirs > 0.0:
            mass[node, at.WEIGHTED] += theirs
            mass[node, at.FULL] += full
        if nodes[node, at.INBOX] and theirs > 0.0:
            keeps[message] = at.UNRESOLVED
    counters[at.QUEUED + nodes[node, at.INBOX]] += 1
    messages[message, at.NEXT] = at.NONE
    if nodes[node, at.HEAD] == at.NONE:
        nodes[node, at.HEAD] = message
    else:
        messages[nodes[node, at.TAIL], at.NEXT] = message
    nodes[node, at.TAIL] = message


@jitable
def emit_pool_deliveries(message, node, tables, pools):
    """Append the pool deliveries of a delivered message; deliveries of one victim keep their order.

    A version that several members of a pool receive is seen once, for a copy adds nothing. ``pools_seen[push, pool]``
    is set once a pool has seen the version of a push.
    """
    rows, messages, counters, pool_deliveries = (
        tables.rows,
        tables.messages,
        tables.counters,
        pools.pool_deliveries,
    )
    pools_of, pool_waves, pools_seen = pools.pools_of, pools.pool_waves, pools.pools_seen
    row, victim, push = (
        messages[message, at.CARRIED],
        messages[message, at.SENDER],
        messages[message, at.PUSH],
    )
    for pool in range(pools_of.shape[1]):
        if pools_of[node, pool] and not pools_seen[push, pool]:
            pools_seen[push, pool] = True
            wave = max(counters[at.BASE_WAVE], rows[row, at.WRITTEN]) + 1
            wave = max(wave, pool_waves[pool, victim] + 1)
            pool_waves[pool, victim] = wave
            rows[row, at.READ] = max(rows[row, at.READ], wave)
            k = counters[at.POOL_DELIVERIES]
            pool_deliveries[k, at.POOL_ID], pool_deliveries[k, at.VICTIM], pool_deliveries[k, at.SEEN_ROW] = (
                pool,
                victim,
                row,
            )
            pool_deliveries[k, at.SEEN_WAVE], pool_deliveries[k, at.SEEN_MESSAGE] = wave, message
            counters[at.POOL_DELIVERIES] += 1
            counters[at.LAST_WAVE] = max(counters[at.LAST_WAVE], wave)


@jitable
def flush_inboxes(tables, output):
    """Append a task for every node with queued versions; inboxes wait until their node's model is read."""
    nodes = tables.nodes
    for i in range(len(nodes)):
        if nodes[i, at.HEAD] != at.NONE and not nodes[i, at.INBOX]:
            emit_task(i, at.NONE, UNMIXED, tables, output)


@jitable
def push_version(node, first, end, mixes, tables, mass, output):
    """Let the messages ``first .. end - 1`` carry a node's version; keep it if the node mixes with it later."""
    nodes, rows, free, counters = tables.nodes, tables.rows, tables.free, tables.counters
    messages = tables.messages
    if nodes[node, at.HEAD] != at.NONE:
        emit_task(node, at.NONE, UNMIXED, tables, output)
    mass[node, at.WEIGHTED] = mass[node, at.FULL] = 0.0
    row = nodes[node, at.CURRENT]
    while end > first and messages[end - 1, at.CARRIED] == at.NONE:
        end -= 1  # control messages come last
    if mixes:
        before = nodes[node, at.HELD]
        nodes[node, at.HELD] = row
        rows[row, at.NEEDED] += 1
        if before != at.NONE:
            release_row(before, rows, free, counters)
        if end > first:
            nodes[node, at.PUSHED] = first
    rewrites, each = nodes[node, at.REWRITES] & at.ROWS != 0, nodes[node, at.REWRITES] & at.EACH != 0
    for m in range(first, end):
        if rewrites and (each or m == first):
            message = to_int64(m) if each else to_int64(at.NONE)
            row = emit_encode_task(node, message, tables, output)
        rows[row, at.NEEDED] += 1
        messages[m, at.SENDER], messages[m, at.CARRIED] = node, row
        messages[m, at.PUSH] = m if each else first
    if nodes[node, at.REWRITES] != 0 and end > first:
        nodes[node, at.PUSHES] += 1
        release_base(node, nodes, rows, free, counters)


@jitable
def receive_message(message, node, ops, tables, merging, pools, output):
    """Carry out the operations of a node that receives a message the moment it is sent."""
    emit_pool_deliveries(message, node, tables, pools)
    merges = False
    for op in ops:
        if op == tape.TRAIN:
            emit_update_task(node, tables, output)
        elif op != tape.NOTHING and op != tape.SEND:
            enqueue_delivery(message, node, op, 1.0, tables, merging)
            merges = True
    remember_unsent_update(node, tables, output)
    if not merges:
        release_row(tables.messages[message, at.CARRIED], tables.rows, tables.free, tables.counters)


@jitable
def plan_event(e, sent, events, rules, tables, merging, pools, output):
    """Turn event number `e` into tasks and pool deliveries; return the id of the next message."""
    kind, message, count = events.kind[e], to_int64(events.message[e]), to_int64(events.count[e])
    node, nodes, mass, behaviours = to_int64(events.node[e]), tables.nodes, merging.mass, rules.behaviours
    if kind == tape.DROP:
        release_row(tables.messages[message, at.CARRIED], tables.rows, tables.free, tables.counters)
        return sent
    if kind == tape.RESET:
        emit_reset(node, tables, output)
        mass[node, at.WEIGHTED] = mass[node, at.FULL] = 0.0
        return sent
    if kind == tape.LOST_SIGNAL:
        return sent
    if kind == tape.DELIVER:
        emit_pool_deliveries(message, node, tables, pools)
    end = sent + count
    if len(events.control) > 0:
        for m in range(sent, end):
            if events.control[m - events.first_message] > 0:
                tables.messages[m, at.SENDER], tables.messages[m, at.CARRIED] = node, at.NONE
    slot = to_int64(tape.WAKING if kind == tape.WAKE else tape.RECEIVING)
    if len(events.slot) > 0 and events.slot[e] > 0:
        slot = to_int64(events.slot[e])
    mixing, merges = rules.mixing[nodes[node, at.ROLE]], False
    for op in behaviours[nodes[node, at.ROLE], slot]:
        if op == tape.TRAIN:
            emit_update_task(node, tables, output)
        elif op == tape.SEND:
            push_version(node, sent, end, mixing > 0.0, tables, mass, output)
            for m in range(sent, end if rules.inline else sent):
                receiver = to_int64(events.receiver[m - events.first_message])
                ops = behaviours[nodes[receiver, at.ROLE], tape.DELIVER]
                receive_message(m, receiver, ops, tables, merging, pools, output)
        elif op == tape.MIX:
            if mass[node, at.WEIGHTED] > 0.0:
                mixed = mixing * mass[node, at.WEIGHTED] / mass[node, at.FULL]
                emit_task(node, at.NONE, mixed, tables, output)
        elif op != tape.NOTHING:
            factor = events.factor[e] if len(events.factor) > 0 else 1.0
            enqueue_delivery(message, node, op, factor, tables, merging)
            merges = True
    remember_unsent_update(node, tables, output)
    if kind == tape.DELIVER and not merges:  # the protocol ignores the version
        release_row(tables.messages[message, at.CARRIED], tables.rows, tables.free, tables.counters)
    return end


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
        sends = count[e] * (2 if tables.nodes[events.node[e], at.REWRITES] & at.EACH else 1)
        if n_rows - counters[at.FRESH] + counters[at.FREE_COUNT] < 3 * n_nodes + sends + 1:
            return e, sent
        sent = plan_event(e, sent, events, rules, tables, merging, pools, output)
        in_use = counters[at.FRESH] - counters[at.FREE_COUNT]
        if in_use > rules.soft_limit and 8 * counters[at.QUEUED] > n_nodes:
            flush_inboxes(tables, output)
    if counters[at.QUEUED] > 0:
        flush_inboxes(tables, output)
    return len(count), sent
