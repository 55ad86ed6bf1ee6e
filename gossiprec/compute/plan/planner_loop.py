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
def emit_task(
    node, update, mixed, nodes, rows, messages, keeps, free, counters, tasks, ends, merges, merge_keep
):
    """Append the task that merges the node's received versions and runs local update `update`.

    `update` is -1 if the task only merges. The version that the node pushed last is merged after all others, and the
    node's own keeps the weight `mixed`; it is not merged if `mixed` is UNMIXED.
    """
    source = nodes[node, CURRENT]
    wave = max(counters[BASE_WAVE], rows[source, WRITTEN]) + 1
    first = counters[MERGES]
    message = nodes[node, HEAD]
    while message != NONE:
        row = messages[message, CARRIED]
        merge = counters[MERGES]
        merges[merge, 0], merges[merge, 1], merge_keep[merge] = row, message, keeps[message]
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
    ends[task] = counters[MERGES]
    counters[LAST_WAVE] = max(counters[LAST_WAVE], wave)


@jitable
def retain_base(node, nodes, rows, messages, keeps, free, counters, tasks, ends, merges, merge_keep):
    """Keep the version that the node is about to train; its push may be encoded relative to it."""
    if nodes[node, HEAD] != NONE:
        emit_task(
            node, NONE, UNMIXED, nodes, rows, messages, keeps, free, counters, tasks, ends, merges, merge_keep
        )
    release_base(node, nodes, rows, free, counters)
    nodes[node, BASE] = nodes[node, CURRENT]
    rows[nodes[node, BASE], NEEDED] += 1


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
    wave = max(counters[BASE_WAVE], rows[source, WRITTEN], rows[target, WRITTEN], rows[target, READ]) + 1
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
def emit_update_task(node, nodes, rows, messages, keeps, free, counters, tasks, ends, merges, merge_keep):
    """Append the node's next local update, unless the node has spent its budget."""
    update, out = to_int64(nodes[node, UPDATES]), (tasks, ends, merges, merge_keep)
    if update < nodes[node, LIMIT]:
        if nodes[node, REWRITES]:
            retain_base(node, nodes, rows, messages, keeps, free, counters, *out)
        emit_task(node, update, UNMIXED, nodes, rows, messages, keeps, free, counters, *out)
        nodes[node, UPDATES] += 1


@jitable
def retain_pushed_version(node, row, first, count, nodes, rows, free, counters):
    """Keep the version that a node pushes, to mix it with the versions pooled until its next push."""
    before = nodes[node, HELD]
    nodes[node, HELD] = row
    rows[row, NEEDED] += 1
    if before != NONE:
        release_row(before, rows, free, counters)
    if count > 0:
        nodes[node, PUSHED] = first


@jitable
def emit_reset(node, nodes, rows, messages, keeps, free, counters, tasks, ends, merges, merge_keep):
    """Reset a node to its first version, which is in row ``n_nodes + node``; nothing is copied.

    Arrived versions are merged before, so that observers see them. The node's next task waits for its last one.
    """
    if nodes[node, HEAD] != NONE:
        emit_task(
            node, NONE, UNMIXED, nodes, rows, messages, keeps, free, counters, tasks, ends, merges, merge_keep
        )
    release_base(node, nodes, rows, free, counters)
    before, first = nodes[node, CURRENT], len(nodes) + node
    if before != first:
        rows[first, WRITTEN] = max(rows[first, WRITTEN], rows[before, WRITTEN])
        rows[first, NEEDED] += 1
        nodes[node, CURRENT] = first
        release_row(before, rows, free, counters)


@jitable
def enqueue_delivery(message, node, op, factor, nodes, messages, keeps, weights, mass, counters):
    """Queue a delivered version for merging by rule `op`; a weight or factor of zero changes nothing."""
    full = weights[messages[message, SENDER]]
    theirs = factor * full
    if op == 4:  # Op.ADOPT
        keeps[message] = 0.0
    elif op == 6:  # Op.APPRAISE
        keeps[message] = APPRAISED
    else:
        own = 0.0 if op == 5 else weights[node]  # Op.POOL counts no version of the node itself
        if op != 3:  # Op.BLEND ignores earlier deliveries
            own += mass[node, WEIGHTED]
        keeps[message] = own / (own + theirs) if theirs > 0.0 else 1.0
        if op != 3 and theirs > 0.0:
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
def emit_pool_deliveries(
    message, node, rows, messages, pools_of, pool_waves, pools_seen, counters, sightings
):
    """Append the pool deliveries of a delivered message; deliveries of one victim keep their order.

    A version that several members of a pool receive is seen once, for a copy adds nothing. ``pools_seen[push, pool]``
    is set once a pool has seen the version of a push.
    """
    row, victim, push = messages[message, CARRIED], messages[message, SENDER], messages[message, PUSH]
    for pool in range(pools_of.shape[1]):
        if pools_of[node, pool] and not pools_seen[push, pool]:
            pools_seen[push, pool] = True
            wave = max(counters[BASE_WAVE], rows[row, WRITTEN], pool_waves[pool, victim]) + 1
            pool_waves[pool, victim] = wave
            rows[row, READ] = max(rows[row, READ], wave)
            k = counters[SIGHTINGS]
            sightings[k, POOL_ID], sightings[k, VICTIM], sightings[k, SEEN_ROW] = pool, victim, row
            sightings[k, SEEN_WAVE], sightings[k, SEEN_MESSAGE] = wave, message
            counters[SIGHTINGS] += 1
            counters[LAST_WAVE] = max(counters[LAST_WAVE], wave)


@jitable
def flush_inboxes(nodes, rows, messages, keeps, free, counters, tasks, ends, merges, merge_keep):
    """Append a task for every node with queued versions; inboxes wait until their node's model is read."""
    for i in range(len(nodes)):
        if nodes[i, HEAD] != NONE and not nodes[i, INBOX]:
            emit_task(
                i,
                NONE,
                UNMIXED,
                nodes,
                rows,
                messages,
                keeps,
                free,
                counters,
                tasks,
                ends,
                merges,
                merge_keep,
            )


def plan_events(
    start, kind, node, message, count, factor, receiver, first_message, sent, inline, settle, soft_limit, behaviours,
    mixing, nodes, rows, messages, keeps, weights, mass, free, counters, pools_of, pool_waves, pools_seen,
    tasks, ends, merges, merge_keep, sightings, encodes,
):  # fmt: skip
    """Turn events from number `start` on into tasks and pool deliveries; update the state tables.

    `inline` is whether a message is delivered the moment it is sent and has no event. `sent` is the id of the next
    message. `factor` has one number per event, or none. `mixing` has one number per role, 0 if it does not mix.
    `settle` says that all queued versions are merged at the end, so that every node's row is its current model.

    Returns
    -------
    event, sent : int
        The next event and message. The loop stops before an event for which the rows might not suffice; `event` is the
        number of events once all are planned.
    """
    out = (tasks, ends, merges, merge_keep)
    for e in range(start, len(kind)):
        if len(rows) - counters[FRESH] + counters[FREE_COUNT] < 3 * len(nodes) + count[e] + 1:
            return e, sent
        if kind[e] == 2:  # Event.DROP
            release_row(to_int64(messages[message[e], CARRIED]), rows, free, counters)
            continue
        i = to_int64(node[e])
        if kind[e] == 3:  # Event.RESET
            emit_reset(i, nodes, rows, messages, keeps, free, counters, *out)
            mass[i, WEIGHTED] = mass[i, FULL] = 0.0
            continue
        if kind[e] == 1:
            emit_pool_deliveries(
                to_int64(message[e]), i, rows, messages, pools_of, pool_waves, pools_seen, counters, sightings
            )
        for op in behaviours[nodes[i, ROLE], kind[e]]:
            if op == 1:  # Op.TRAIN
                emit_update_task(i, nodes, rows, messages, keeps, free, counters, *out)
            elif op == 2:  # Op.PUSH
                if nodes[i, HEAD] != NONE:
                    emit_task(i, NONE, UNMIXED, nodes, rows, messages, keeps, free, counters, *out)
                mass[i, WEIGHTED] = mass[i, FULL] = 0.0
                row, push = nodes[i, CURRENT], sent
                if mixing[nodes[i, ROLE]] > 0.0:
                    retain_pushed_version(i, row, sent, count[e], nodes, rows, free, counters)
                if nodes[i, REWRITES] and count[e] > 0:
                    row = emit_encode_task(i, nodes, rows, free, counters, tasks, ends, encodes)
                rows[row, NEEDED] += count[e]
                for m in range(sent, sent + count[e]):
                    messages[m, SENDER], messages[m, CARRIED], messages[m, PUSH] = i, row, push
                    if inline:
                        r = to_int64(receiver[m - first_message])
                        emit_pool_deliveries(
                            m, r, rows, messages, pools_of, pool_waves, pools_seen, counters, sightings
                        )
                        for reply in behaviours[nodes[r, ROLE], 1]:
                            if reply == 1:
                                emit_update_task(r, nodes, rows, messages, keeps, free, counters, *out)
                            elif reply > 2:
                                enqueue_delivery(
                                    m, r, reply, 1.0, nodes, messages, keeps, weights, mass, counters
                                )
                sent += count[e]
            elif op == 7:  # Op.MIX
                if mass[i, WEIGHTED] > 0.0:
                    mixed = mixing[nodes[i, ROLE]] * mass[i, WEIGHTED] / mass[i, FULL]
                    emit_task(i, NONE, mixed, nodes, rows, messages, keeps, free, counters, *out)
            elif op > 2:
                share = factor[e] if len(factor) > 0 else 1.0
                enqueue_delivery(
                    to_int64(message[e]), i, op, share, nodes, messages, keeps, weights, mass, counters
                )
        in_use = counters[FRESH] - counters[FREE_COUNT]
        if in_use > soft_limit and 8 * counters[QUEUED] > len(nodes):
            flush_inboxes(nodes, rows, messages, keeps, free, counters, *out)
    if settle and counters[QUEUED] > 0:
        flush_inboxes(nodes, rows, messages, keeps, free, counters, *out)
    return len(kind), sent
