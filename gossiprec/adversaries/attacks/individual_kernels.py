"""Compiled loops of single adversaries, for any model: observing, fitting user rows and planning slots.

The loops are templates: :func:`gossiprec.native.jit.specialise` replaces the `score_kept` and `fit_user` of this
module by the model's own (see :class:`gossiprec.models.base.kernel_interface.ModelKernels`).
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
from numpy import float32, uint64

from gossiprec.adversaries.attacks.observations import Merges
from gossiprec.base.arrays import F32, I32, I64
from gossiprec.models.base.kernel_interface import KeptQueries, ModelKernels
from gossiprec.native.jit import (
    NO_DENORMALS,
    borrow,
    copy_floats,
    inline,
    is_float32,
    kernel,
    length,
    load_float32,
    specialise,
    store_rounded,
    swap_float_mode,
)
from gossiprec.numerics.merge import blend, mix, widen_row
from gossiprec.numerics.noise import HALF_A_PLACE
from gossiprec.numerics.relevance import MEMBERS
from gossiprec.numerics.relevance_kernels import SCRATCH, compute_relevance, entropy


class Receptions(NamedTuple):
    """What the adversaries among the receivers of tasks are about to merge, and the relevance that they find.

    Attributes
    ----------
    rows : ndarray
        Flat, of float32 or of the bits of float16.
    columns : Merges
    sender_of, time_of : ndarray
        Of each message.
    latest : ndarray of float32, shape (n_momenta, n_rules, n_adversaries, n_users)
    """

    rows: Any
    columns: Merges
    sender_of: I32
    time_of: Any
    latest: F32


class ObserverMemory(NamedTuple):
    """The kept rows of all adversaries, and their momentum models of victims.

    Attributes
    ----------
    adversary_of : ndarray of int32, shape (n_nodes,)
        -1 for other nodes.
    kept_offsets, kept_items
        Adversary a keeps ``kept_items[kept_offsets[a]:kept_offsets[a + 1]]``.
    lengths : ndarray of int64, shape (n_adversaries,)
        Numbers of a kept model.
    slot_of, seen_before : ndarray, shape (n_messages,)
        Of each message: the slot of its pair, -1 for none, and whether the pair has had a delivery before.
    memory : ndarray of float32, or of the bits of float16, shape (n_positive_momenta, n)
        Adversary a's slot s begins at ``offsets[a] + s * lengths[a]``.
    offsets : ndarray of int64, shape (n_adversaries + 1,)
    momenta : ndarray of float32, shape (n_momenta,)
    """

    adversary_of: I32
    kept_offsets: I64
    kept_items: I32
    lengths: I64
    slot_of: I32
    seen_before: Any
    memory: F32
    offsets: I64
    momenta: F32


def score_kept_rows(vector, user, user_at, shared, shared_at, queries, sizes, scores):
    """Stand in for the model's: fill `scores` of the queries on a kept vector ``[user | items | shared]``.

    The user row begins at ``user[user_at]``, the shared weights at ``shared[shared_at]``: arguments of their own, so
    that the compiler knows constants. `queries` is a KeptQueries.
    """
    raise NotImplementedError


def fit_user(a, rows, row, now, state, recipe, sizes):
    """Stand in for the model's: fit adversary a's fictive user to the version at index `row` of the flat `rows`.

    Parameters
    ----------
    a : int
    rows : ndarray
    row : int
    now : float
    state : FictiveState
    recipe : NamedTuple
        See :meth:`gossiprec.models.base.kernel_interface.ModelKernels.fit_recipe`.
    sizes : Sizes
    """
    raise NotImplementedError


@inline
def merge_into_own(own, keep, rows, user, shared, dim, user_travels):
    """Merge a version, given the offsets of its user row and shared weights, into ``[user | shared]``."""
    for k in range(0 if user_travels else dim, len(own)):
        value = load_float32(rows[user + k if k < dim else shared + k - dim])
        own[k] = value if keep == float32(0.0) else mix(own[k], value, keep)


@borrow
def load_kept_model(fresh, mine, rows, row, victim, hidden, sizes):
    """Fill `fresh` with ``[user | kept items | shared]`` of the victim's version at index `row` of the flat `rows`.

    A hidden user row becomes zero, and is not read.
    """
    dim, item_dim = length(sizes.dims), length(sizes.item_dims)
    begin = sizes.n_users * dim
    if hidden:
        fresh[:dim] = float32(0.0)
    else:
        widen_row(fresh, 0, rows, row + (0 if sizes.n_users == 1 else victim * dim), dim)
    for j in range(len(mine)):
        widen_row(fresh, dim + j * item_dim, rows, row + begin + mine[j] * item_dim, item_dim)
    shared = begin + sizes.n_items * item_dim
    widen_row(fresh, dim + len(mine) * item_dim, rows, row + shared, sizes.n_shared)


@borrow
def blend_kept_model(kept, a, message, b, place, fresh, wide):
    """Blend a fresh model into adversary a's momentum model, kept at index `place`, with momentum b, and copy that.

    `wide` gets the copy. It becomes the fresh model if that is the only one of its pair. Rows of float16 are blended in
    float32 and rounded to the nearest.
    """
    slot, n = kept.slot_of[message], len(fresh)
    if slot < 0:
        copy_floats(wide, 0, fresh, 0, n)
        return
    at, memory, again = (
        kept.offsets[a] + slot * kept.lengths[a],
        kept.memory[place],
        kept.seen_before[message],
    )
    if is_float32(memory):
        held = memory[at : at + n]
        if again:
            blend(held, fresh, kept.momenta[b])
        else:
            copy_floats(held, 0, fresh, 0, n)
        copy_floats(wide, 0, held, 0, n)
        return
    keep = kept.momenta[b] if again else float32(0.0)
    give = float32(1.0) - keep
    for j in range(n):
        k = uint64(at) + uint64(j)
        before = load_float32(memory[k]) if again else float32(0.0)
        memory[k] = store_rounded(memory, keep * before + give * fresh[j], np.uint32(HALF_A_PLACE))
        wide[j] = load_float32(memory[k])


@borrow
def longest_query(queries):
    """Return the largest number of queries of an adversary."""
    longest = 0
    for a in range(len(queries.n_targets)):
        longest = max(longest, queries.offsets[a + 1] - queries.offsets[a])
    return longest


@borrow
def fill_relevance(scores, n, queries, scratch, found):
    """Fill `found` with the relevance of scores by every rule; the first `n` are of targets."""
    rules, thresholds = queries.rules, queries.thresholds
    if rules[0] == MEMBERS:
        for j in range(n):
            scores[j] = entropy(scores[j])
    for r in range(len(rules)):
        found[r] = compute_relevance(rules[r], thresholds[r], scores[:n], scores[n:], scratch)


class ObserverRoom(NamedTuple):
    """The tasks of a thread, and its working arrays."""

    tasks: I64
    scores: F32
    room: F32
    scratch: F32
    fresh: F32
    wide: F32
    own: F32


def observe_tasks(seen, hides, queries, kept, fictive, recipe, room, sizes):
    """Show the receivers of tasks what they are about to merge (:func:`observe_individuals`); counts no arrays."""
    dim = length(sizes.dims)
    rows, columns, n_users = seen.rows, seen.columns, sizes.n_users
    scores, own, latest = room.scores, room.own, seen.latest
    shared = n_users * dim + sizes.n_items * length(sizes.item_dims)
    width, zero = np.int64(dim), np.int64(0)  # no constants for `score_kept_rows`: its sums keep their order
    for task in room.tasks:
        a = kept.adversary_of[columns.node[task]]
        if a < 0:
            continue
        mine = kept.kept_items[kept.kept_offsets[a] : kept.kept_offsets[a + 1]]
        low, high = queries.offsets[a], queries.offsets[a + 1]
        query = KeptQueries(
            queries.items[low:high], queries.contexts[low:high], queries.weights[low:high], room.room, recipe
        )
        n, count, tail = queries.n_targets[a], high - low, dim + len(mine) * length(sizes.item_dims)
        size, my_user = tail + sizes.n_shared, 0 if n_users == 1 else columns.node[task] * dim
        if fictive.own:
            at = np.int64(columns.source[task]) * sizes.width
            merge_into_own(own, float32(0.0), rows, at + my_user, at + shared, dim, True)
        for merge in range(columns.merge_offsets[task], columns.merge_offsets[task + 1]):
            message, row = columns.merge_message[merge], np.int64(columns.merge_row[merge]) * sizes.width
            victim, keep, hidden = seen.sender_of[message], columns.merge_keep[merge], False
            if hides is not None:
                hidden = hides[victim]
            if fictive.own and keep >= float32(0.0):  # else an inbox, merged after its last delivery
                travels = n_users > 1 and not hidden
                merge_into_own(own, keep, rows, row + my_user, row + shared, dim, travels)
            if victim >= latest.shape[3]:
                continue  # the coordinator's model belongs to no user
            if hides is not None:  # noqa: SIM102 - the compiler removes only a line of this form
                if hidden and fictive.due[a] <= seen.time_of[message]:
                    fit_user(a, rows, row, seen.time_of[message], fictive, recipe, sizes)
            load_kept_model(room.fresh, mine, rows, row, victim, hidden, sizes)
            place = 0
            for b in range(len(kept.momenta)):
                vector = room.fresh[:size]
                if kept.momenta[b] > 0.0:
                    blend_kept_model(kept, a, message, b, place, vector, room.wide)
                    vector = room.wide[:size]
                    place += 1
                if not hidden:
                    score_kept_rows(vector, vector, zero, vector, tail, query, sizes, scores)
                elif fictive.own:
                    score_kept_rows(vector, own, zero, own, width, query, sizes, scores)
                else:
                    score_kept_rows(vector, fictive.users[a], zero, vector, tail, query, sizes, scores)
                fill_relevance(scores[:count], n, queries, room.scratch, latest[b, :, a, victim])


def observe_individuals(tasks, seen, hides, queries, kept, fictive, recipe, sizes):
    """Show each receiver among the adversaries the models that it is about to merge.

    Parameters
    ----------
    tasks : ndarray of int64
    seen, queries, kept, fictive, sizes : Receptions, AdversaryQueries, ObserverMemory, FictiveState, Sizes
        Items of queries are places among the adversary's kept items; `recipe` is of :func:`fit_user`.
    hides : ndarray of bool, shape (n_nodes,), or None
        Whether nodes hide their user row, which then is not read; the machine code for None has no such branch.
    """
    mode, longest = swap_float_mode(NO_DENORMALS), max(kept.lengths)
    room = ObserverRoom(
        tasks, np.empty(longest_query(queries), float32), np.zeros(queries.room_size, float32),
        np.empty(SCRATCH, float32),
        np.zeros(longest, float32), np.zeros(longest, float32),
        np.zeros(length(sizes.dims) + sizes.n_shared, float32),
    )  # fmt: skip
    observe_tasks(seen, hides, queries, kept, fictive, recipe, room, sizes)
    swap_float_mode(mode)


def fit_users(rows, row_of, late, now, state, recipe, sizes):
    """Fit the user row of each adversary ``late[k]`` to version ``row_of[k]`` of the flat `rows`."""
    mode = swap_float_mode(NO_DENORMALS)
    for k in range(len(late)):
        # the types of a and row: compiled once for both callers
        a, row = np.int32(late[k]), np.int64(row_of[k]) * sizes.width
        fit_user(a, rows, row, now, state, recipe, sizes)
    swap_float_mode(mode)


class SlotTables(NamedTuple):
    """Tables of the slots, filled by :func:`plan_slots`.

    Attributes
    ----------
    again, slot_at, free : ndarray of int8, int32 and int32, shape (n_adversaries, n_nodes)
        Working memory: 0, but -1 for `slot_at`.
    n_free : ndarray of int32, shape (n_adversaries,)
        Working memory: 0.
    used : ndarray of int64, shape (n_adversaries,)
        The largest number of slots that each adversary needs.
    slot_of, seen_before : ndarray of int32 and bool, shape (n_messages,)
        Slot of each message, and whether its pair had a delivery before.
    """

    again: Any
    slot_at: Any
    free: Any
    n_free: Any
    used: Any
    slot_of: Any
    seen_before: Any


@kernel
def plan_slots(message, sender, receiver, adversary_of, tables):
    """Give each pair of adversary and victim a slot from its first to its last delivery, if it has more than one.

    Slots of one adversary are numbered from 0 and reused.
    """
    again, slot_at, free, n_free, used, slot_of, seen_before = tables
    for d in range(len(message) - 1, -1, -1):
        a = adversary_of[receiver[d]]
        if a >= 0:
            slot_of[message[d]] = again[a, sender[d]]
            again[a, sender[d]] = 1
    for d in range(len(message)):
        a = adversary_of[receiver[d]]
        if a < 0:
            continue
        m, victim = message[d], sender[d]
        more = slot_of[m] == 1
        slot = slot_at[a, victim]
        seen_before[m] = slot >= 0
        if slot < 0 and more:
            if n_free[a] > 0:
                n_free[a] -= 1
                slot = free[a, n_free[a]]
            else:
                slot = used[a]
                used[a] += 1
            slot_at[a, victim] = slot
        elif slot >= 0 and not more:
            free[a, n_free[a]] = slot
            n_free[a] += 1
            slot_at[a, victim] = -1
        slot_of[m] = slot


class _Specialised(NamedTuple):
    """The loops for one model."""

    observe_individuals: Any
    fit_users: Any


@functools.cache
def specialise_kernels(kind: type[ModelKernels]) -> _Specialised:
    """Return the loops with the model's own functions in place."""
    own = {"score_kept_rows": kind.score_kept, "fit_user": kind.fit_user}
    observe = specialise(observe_individuals, observe_tasks=specialise(observe_tasks, borrow, **own))
    return _Specialised(observe, specialise(fit_users, fit_user=kind.fit_user))
