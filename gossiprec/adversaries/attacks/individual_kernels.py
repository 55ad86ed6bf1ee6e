"""Compiled loops of single adversaries, for any model: observing, fitting user rows and planning slots.

The loops are templates: :func:`gossiprec.native.jit.specialise` replaces the `score_kept` and `fit_user` of this
module by the model's own (see :class:`gossiprec.models.base.kernel_interface.ModelKernels`).
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
from numpy import float32

from gossiprec.base.arrays import F32, I32, I64
from gossiprec.models.base.kernel_interface import ModelKernels
from gossiprec.native.jit import (
    NO_DENORMALS,
    borrow,
    copy_floats,
    inline,
    kernel,
    load_float32,
    specialise,
    swap_float_mode,
)
from gossiprec.numerics.float16_rows import widen_row
from gossiprec.numerics.merge import blend
from gossiprec.numerics.relevance import MEMBERS
from gossiprec.numerics.relevance_kernels import SCRATCH, compute_relevance, entropy


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
    memory : ndarray of float32, shape (n_positive_momenta, n)
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


def score_kept_rows(vector, user, user_at, shared, shared_at, asked, contexts, weights, dim, scores):
    """Stand in for the model's: fill `scores` of the queries on a kept vector ``[user | items | shared]``."""
    raise NotImplementedError


def fit_user(a, rows, row, begin, shared, n_items, now, state, recipe, dim):
    """Stand in for the model's: fit adversary a's fictive user to the version at index `row` of the flat `rows`."""
    raise NotImplementedError


@inline
def merge_into_own(own, keep, rows, user, shared, dim, user_travels):
    """Merge a version, given the offsets of its user row and shared weights, into ``[user | shared]``."""
    for k in range(0 if user_travels else dim, len(own)):
        value = load_float32(rows[user + k if k < dim else shared + k - dim])
        own[k] = value if keep == float32(0.0) else keep * own[k] + (float32(1.0) - keep) * value


@borrow
def blend_kept_model(kept, a, message, b, place, fresh):
    """Blend a fresh model into adversary a's momentum model, kept at index `place`, with momentum b.

    Returns
    -------
    int
        Where the momentum model begins in ``kept.memory[place]``; -1 if there is none, as the fresh model is the only
        one of its pair.
    """
    slot = kept.slot_of[message]
    if slot < 0:
        return np.int64(-1)
    at = kept.offsets[a] + slot * kept.lengths[a]
    held = kept.memory[place, at : at + len(fresh)]
    if kept.seen_before[message]:
        blend(held, fresh, kept.momenta[b])
    else:
        copy_floats(held, 0, fresh, 0, len(fresh))
    return at


def observe_individuals(
    rows, width, tasks, node, source, merge_offsets, merge_row, merge_keep, merge_message, sender_of, time_of, hides,
    adversary_of, asked_offsets, n_targets, kept, weights, lengths, slot_of, seen_before, memory, memory_offsets,
    momenta, rules, thresholds, fictive, recipe, latest, n_items, n_users, n_shared, dims, item_dims,
):  # fmt: skip
    """Show each receiver among the adversaries the models that it is about to merge.

    `rows` is flat, of float32 or of the bits of float16. `memory` has one row per positive momentum; adversary a's slot
    s begins at ``memory_offsets[a] + s * lengths[a]``. `latest` is (momentum, rule, adversary, victim). The user row
    of a victim that hides it is not read. `hides` is None if no victim hides its row; the machine code then leaves
    these branches out.
    """
    mode = swap_float_mode(NO_DENORMALS)
    dim, item_dim = len(dims), len(item_dims)
    begin = n_users * dim
    shared = begin + n_items * item_dim
    kept_offsets, kept_items, asked, contexts = kept
    longest = 0
    for a in range(len(n_targets)):
        longest = max(longest, asked_offsets[a + 1] - asked_offsets[a])
    fresh, scores, scratch = (
        np.zeros(max(lengths), float32),
        np.empty(longest, float32),
        np.empty(SCRATCH, float32),
    )
    looks_as_itself, users, due, own = fictive[0], fictive[1], fictive[3], np.zeros(dim + n_shared, float32)
    for task in tasks:
        a = adversary_of[node[task]]
        if a < 0:
            continue
        mine = kept_items[kept_offsets[a] : kept_offsets[a + 1]]
        low, high = asked_offsets[a], asked_offsets[a + 1]
        n, count, tail = n_targets[a], high - low, dim + len(mine) * item_dim
        size, my_user = tail + n_shared, 0 if n_users == 1 else node[task] * dim
        if looks_as_itself:
            at = np.int64(source[task]) * width
            merge_into_own(own, float32(0.0), rows, at + my_user, at + shared, dim, True)
        for merge in range(merge_offsets[task], merge_offsets[task + 1]):
            message, row = merge_message[merge], np.int64(merge_row[merge]) * width
            victim, hidden = sender_of[message], False
            if hides is not None:
                hidden = hides[victim]
            if looks_as_itself and merge_keep[merge] >= float32(
                0.0
            ):  # else an inbox, merged after its last delivery
                travels = n_users > 1 and not hidden
                merge_into_own(own, merge_keep[merge], rows, row + my_user, row + shared, dim, travels)
            if victim >= latest.shape[3]:
                continue  # the coordinator's model belongs to no user
            if hides is not None:  # noqa: SIM102 - the compiler removes only a line of this form
                if hidden and due[a] <= time_of[message]:
                    fit_user(a, rows, row, begin, shared, n_items, time_of[message], fictive, recipe, dim)
            if hidden:
                fresh[:dim] = float32(0.0)
            else:
                widen_row(fresh, 0, rows, row + (0 if n_users == 1 else victim * dim), dim)
            for j in range(len(mine)):
                widen_row(fresh, dim + j * item_dim, rows, row + begin + mine[j] * item_dim, item_dim)
            widen_row(fresh, tail, rows, row + shared, n_shared)
            slot = slot_of[message]
            place = 0
            for b in range(len(momenta)):
                vector = fresh[:size]
                if momenta[b] > 0.0:
                    if slot >= 0:
                        at = memory_offsets[a] + slot * lengths[a]
                        held = memory[place, at : at + size]
                        if seen_before[message]:
                            blend(held, vector, momenta[b])
                        else:
                            copy_floats(held, 0, vector, 0, size)
                        vector = held
                    place += 1
                query = (asked[low:high], contexts[low:high], weights[low:high])
                if not hidden:
                    score_kept_rows(vector, vector, 0, vector, tail, *query, dim, scores)
                elif looks_as_itself:
                    score_kept_rows(vector, own, 0, own, dim, *query, dim, scores)
                else:
                    score_kept_rows(vector, users[a], 0, vector, tail, *query, dim, scores)
                if rules[0] == MEMBERS:
                    for j in range(n):
                        scores[j] = entropy(scores[j])
                for r in range(len(rules)):
                    latest[b, r, a, victim] = compute_relevance(
                        rules[r], thresholds[r], scores[:n], scores[n:count], scratch
                    )
    swap_float_mode(mode)


def fit_users(rows, width, row_of, late, now, n_items, n_users, state, recipe, dims, item_dims):
    """Fit the user row of each adversary ``late[k]`` to version ``row_of[k]`` of the flat `rows`."""
    mode = swap_float_mode(NO_DENORMALS)
    dim = len(dims)
    begin = n_users * dim
    shared = begin + n_items * len(item_dims)
    for k in range(len(late)):
        a, row = np.int32(late[k]), np.int64(row_of[k]) * width  # the types above: compiled once for both
        fit_user(a, rows, row, begin, shared, n_items, now, state, recipe, dim)
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
    return _Specialised(specialise(observe_individuals, **own), specialise(fit_users, **own))
