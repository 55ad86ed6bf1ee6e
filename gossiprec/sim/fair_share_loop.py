"""The loop of shared bandwidth. Plain Python on plain arrays, so that numba can compile it.

A transfer's rate is ``min(up / n_up, down / n_down)``: its sender's upload rate over the sender's transfers under way,
and likewise for its receiver. It changes only when a transfer at one of its ends starts or ends; only then is it
touched. A tournament over the transfers finds the next to end.
"""

from __future__ import annotations

import math

from numba.extending import register_jitable

TICKET, SENDER, RECEIVER, NEXT_UP, PREV_UP, NEXT_DOWN, PREV_DOWN = range(7)
"""Columns of a transfer's integers; the links chain the transfers of a sender, and of a receiver."""
LEFT, RATE, SINCE, END, CUT, KEY = range(6)
"""Columns of a transfer's numbers: bytes left at SINCE, its end, when its sender goes, the earlier of both."""
N_UP, N_DOWN, HEAD_UP, HEAD_DOWN = range(4)
"""Columns of a node's integers."""
FREE, FOUND = range(2)
"""Counters: first free place, transfers ended so far."""
NONE = -1


@register_jitable
def settle(place, amounts, tree):
    """Let the tournament know that the key of a place has changed."""
    node = (len(tree) // 2 + place) // 2
    while node >= 1:
        one, other = tree[2 * node], tree[2 * node + 1]
        winner = one if amounts[one, KEY] <= amounts[other, KEY] else other
        if winner != place and tree[node] == winner:
            return
        tree[node] = winner
        node //= 2


@register_jitable
def touch(place, now, capacity, transfers, amounts, nodes, tree):
    """Account for what a transfer has sent, and give it its new rate."""
    sender, receiver = transfers[place, SENDER], transfers[place, RECEIVER]
    left = max(0.0, amounts[place, LEFT] - amounts[place, RATE] * (now - amounts[place, SINCE]))
    rate = min(capacity[sender, 0] / nodes[sender, N_UP], capacity[receiver, 1] / nodes[receiver, N_DOWN])
    amounts[place, LEFT], amounts[place, RATE], amounts[place, SINCE] = left, rate, now
    amounts[place, END] = now + left / rate
    amounts[place, KEY] = min(amounts[place, END], amounts[place, CUT])
    settle(place, amounts, tree)


@register_jitable
def touch_ends(sender, receiver, now, capacity, transfers, amounts, nodes, tree):
    """Touch all transfers that share an end with one that starts or ends."""
    place = nodes[sender, HEAD_UP]
    while place != NONE:
        touch(place, now, capacity, transfers, amounts, nodes, tree)
        place = transfers[place, NEXT_UP]
    place = nodes[receiver, HEAD_DOWN]
    while place != NONE:
        touch(place, now, capacity, transfers, amounts, nodes, tree)
        place = transfers[place, NEXT_DOWN]


@register_jitable
def chain(place, node, head, succ, pred, transfers, nodes):
    """Put a transfer at the head of a node's chain."""
    first = nodes[node, head]
    transfers[place, succ], transfers[place, pred] = first, NONE
    if first != NONE:
        transfers[first, pred] = place
    nodes[node, head] = place


@register_jitable
def unchain(place, node, head, succ, pred, transfers, nodes):
    """Take a transfer out of a node's chain."""
    after, before = transfers[place, succ], transfers[place, pred]
    if before == NONE:
        nodes[node, head] = after
    else:
        transfers[before, succ] = after
    if after != NONE:
        transfers[after, pred] = before


@register_jitable
def start(row, capacity, transfers, amounts, nodes, tree, counters):
    """Start a transfer: time, ticket, sender, receiver, bytes, time at which the sender goes."""
    place = counters[FREE]
    counters[FREE] = transfers[place, NEXT_UP]
    sender, receiver = int(row[2]), int(row[3])
    transfers[place, TICKET] = int(row[1])
    transfers[place, SENDER], transfers[place, RECEIVER] = sender, receiver
    amounts[place, LEFT], amounts[place, RATE], amounts[place, SINCE] = row[4], 0.0, row[0]
    amounts[place, CUT] = row[5]
    nodes[sender, N_UP] += 1
    nodes[receiver, N_DOWN] += 1
    chain(place, sender, HEAD_UP, NEXT_UP, PREV_UP, transfers, nodes)
    chain(place, receiver, HEAD_DOWN, NEXT_DOWN, PREV_DOWN, transfers, nodes)
    touch_ends(sender, receiver, row[0], capacity, transfers, amounts, nodes, tree)


@register_jitable
def end_all(now, capacity, transfers, amounts, nodes, tree, counters, tickets, whole):
    """End all transfers due at a time, then touch their neighbours once."""
    ended = 0
    while amounts[tree[1], KEY] == now:
        place = tree[1]
        found = counters[FOUND]
        tickets[found] = transfers[place, TICKET]
        whole[found] = amounts[place, END] <= amounts[place, CUT]
        counters[FOUND] += 1
        sender, receiver = transfers[place, SENDER], transfers[place, RECEIVER]
        nodes[sender, N_UP] -= 1
        nodes[receiver, N_DOWN] -= 1
        unchain(place, sender, HEAD_UP, NEXT_UP, PREV_UP, transfers, nodes)
        unchain(place, receiver, HEAD_DOWN, NEXT_DOWN, PREV_DOWN, transfers, nodes)
        amounts[place, KEY] = math.inf
        settle(place, amounts, tree)
        transfers[place, NEXT_UP] = counters[FREE]
        counters[FREE] = place
        ended += 1
    place = counters[FREE]
    for _ in range(ended):
        sender, receiver = transfers[place, SENDER], transfers[place, RECEIVER]
        touch_ends(sender, receiver, now, capacity, transfers, amounts, nodes, tree)
        place = transfers[place, NEXT_UP]


def share_bandwidth(
    starts, first, limit, capacity, transfers, amounts, nodes, tree, counters, tickets, times, whole
):
    """Carry transfers on up to and including time `limit`; starts number `first` and later are still to come.

    At one time, what ends comes before what starts. It stops before a start for which there is no place.

    Returns
    -------
    int
        Number of the first start that is still to come.
    """
    while True:
        now = amounts[tree[1], KEY]
        begin = starts[first, 0] if first < len(starts) else math.inf
        if now <= begin:
            if now > limit or now == math.inf:
                return first
            found = counters[FOUND]
            end_all(now, capacity, transfers, amounts, nodes, tree, counters, tickets, whole)
            times[found : counters[FOUND]] = now
        else:
            if begin > limit or counters[FREE] == NONE:
                return first
            start(starts[first], capacity, transfers, amounts, nodes, tree, counters)
            first += 1
