"""The community detection attack compiled, for PRME-G: adversaries score moves between places.

Rows come flat, as float32 or as the bits of float16; what observers keep is float32. `weights` has, for every move
asked about, those of the two squared distances in D (CDA paper, eq. 2); a score is ``-D``.
"""

from __future__ import annotations

import numpy as np
from numpy import float32, uint64

from gossiprec.attacks.cda_kernels import blend, last_if_nan, mean_of, relevance_of
from gossiprec.attacks.moves_fitting import fit_mover
from gossiprec.attacks.relevance import CUTOFF
from gossiprec.models.prme_g.kernels import gap_squared
from gossiprec.numerics.half import BLOCK, narrow_row, widen, widen_row
from gossiprec.numerics.jit import NO_DENORMALS, copy_floats, inline, kernel, swap_float_mode


@inline
def stored_gap(rows, one, other, dim):
    """Return the squared distance of the stored vectors at `one` and `other`."""
    total = float32(0.0)
    for j in range(dim):
        gap = widen(rows[uint64(one) + uint64(j)]) - widen(rows[uint64(other) + uint64(j)])
        total += gap * gap
    return total


@inline
def user_gap(rows, at, user, dim):
    """Return the squared distance of the stored vector at `at` and a user row."""
    total = float32(0.0)
    for j in range(dim):
        gap = widen(rows[uint64(at) + uint64(j)]) - user[uint64(j)]
        total += gap * gap
    return total


@inline
def relevance_of_moves(rule, targets, references, best):
    """Return the relevance by the rule's code; ``mean_score`` is the mean score, there being no probability."""
    if rule == 0:
        return last_if_nan(mean_of(targets))
    return relevance_of(rule, float32(0.0), targets, references, best)


@inline
def score_moves(vector, user, asked, contexts, weights, dim, scores):
    """Fill `scores` for moves among the kept rows ``[user | P S | P S ...]``, with a user row from anywhere."""
    for s in range(len(asked)):
        at = dim + asked[s] * 2 * dim
        distance = weights[s, 0] * gap_squared(vector, at, user, 0, dim)
        if contexts[s] >= 0:
            before = 2 * dim + contexts[s] * 2 * dim
            distance += weights[s, 1] * gap_squared(vector, at + dim, vector, before, dim)
        scores[s] = -distance


@inline
def adopt_user(own, keep, rows, at, dim):
    """Merge the receiver's row of a received user table into its own, as its model will do."""
    for k in range(dim):
        value = widen(rows[uint64(at) + uint64(k)])
        own[k] = value if keep == float32(0.0) else keep * own[k] + (float32(1.0) - keep) * value


@kernel
def observe_individuals(
    rows, width, tasks, node, source, merge_offsets, merge_row, merge_keep, merge_message, sender_of, time_of, hides,
    adversary_of, asked_offsets, n_targets, kept, weights, lengths, slot_of, seen_before, memory, memory_offsets,
    momenta, rules, fictive, recipe, latest, n_users, dims,
):  # fmt: skip
    """Let every receiver among the adversaries observe what it is about to merge.

    `memory` has one row per positive momentum; adversary a's slot s lies at ``memory_offsets[a] + s * lengths[a]``.
    `latest` is (momentum, rule, adversary, victim). Of a victim that hides it, the user row is not read.
    """
    mode = swap_float_mode(NO_DENORMALS)
    dim = len(dims)
    begin = n_users * dim
    kept_offsets, kept_items, asked, contexts = kept
    longest = 0
    for a in range(len(n_targets)):
        longest = max(longest, asked_offsets[a + 1] - asked_offsets[a])
    fresh, scores, best = (
        np.zeros(max(lengths), float32),
        np.empty(longest, float32),
        np.empty(CUTOFF, float32),
    )
    looks_as_itself, users, due, own = fictive[0], fictive[1], fictive[3], np.zeros(dim, float32)
    for task in tasks:
        a = adversary_of[node[task]]
        if a < 0:
            continue
        mine = kept_items[kept_offsets[a] : kept_offsets[a + 1]]
        low, high = asked_offsets[a], asked_offsets[a + 1]
        n, size = n_targets[a], dim + len(mine) * 2 * dim
        my_user = 0 if n_users == 1 else node[task] * dim
        if looks_as_itself:
            adopt_user(own, float32(0.0), rows, np.int64(source[task]) * width + my_user, dim)
        for merge in range(merge_offsets[task], merge_offsets[task + 1]):
            message, row = merge_message[merge], np.int64(merge_row[merge]) * width
            victim = sender_of[message]
            hidden = hides[victim]
            if looks_as_itself and n_users > 1 and not hidden:
                adopt_user(own, abs(merge_keep[merge]), rows, row + my_user, dim)
            if victim >= latest.shape[3]:
                continue  # the coordinator's model is nobody's
            if hidden and due[a] <= time_of[message]:
                fit_mover(a, rows, row, begin, time_of[message], fictive, recipe, dim)
            if hidden:
                fresh[:dim] = float32(0.0)
            else:
                widen_row(fresh, 0, rows, row + (0 if n_users == 1 else victim * dim), dim)
            for j in range(len(mine)):
                widen_row(fresh, dim + j * 2 * dim, rows, row + begin + mine[j] * 2 * dim, 2 * dim)
            slot = slot_of[message]
            place = 0
            for b in range(len(momenta)):
                vector = fresh[:size]
                if momenta[b] > float32(0.0):
                    if slot >= 0:
                        at = memory_offsets[a] + slot * lengths[a]
                        held = memory[place, at : at + size]
                        if seen_before[message]:
                            blend(held, vector, momenta[b])
                        else:
                            copy_floats(held, 0, vector, 0, size)
                        vector = held
                    place += 1
                user = vector[:dim]
                if hidden and looks_as_itself:
                    user = own
                elif hidden:
                    user = users[a]
                score_moves(vector, user, asked[low:high], contexts[low:high], weights[low:high], dim, scores)
                for r in range(len(rules)):
                    latest[b, r, a, victim] = relevance_of_moves(
                        rules[r], scores[:n], scores[n : high - low], best
                    )
    swap_float_mode(mode)


@kernel
def blend_rows(rows, width, row, pool, victim, keys, hides, begin, memory, momenta, met, n):
    """Blend sightings into ``memory[momentum, pool, victim]``, which is flat and kept like `rows`; the first is copied.

    `keys` are those of rounding, where rows are float16. Of a victim that hides it, the user part, all that lies before
    `begin`, is not read.
    """
    mode = swap_float_mode(NO_DENORMALS)
    fresh, blended = np.empty(BLOCK, float32), np.empty(BLOCK, float32)
    for s in range(len(row)):
        for b in range(len(momenta)):
            keep = momenta[b] if met[pool[s], victim[s]] else float32(0.0)
            held = ((b * met.shape[0] + pool[s]) * met.shape[1] + victim[s]) * width
            for low in range(begin if hides[victim[s]] else 0, n, BLOCK):
                count = min(BLOCK, n - low)
                widen_row(fresh, 0, rows, np.int64(row[s]) * width + low, count)
                if keep > float32(0.0):
                    widen_row(blended, 0, memory, held + low, count)
                    blend(blended, fresh[:count], keep)
                    narrow_row(memory, held + low, low, blended, 0, count, keys[s])
                else:
                    narrow_row(memory, held + low, low, fresh, 0, count, keys[s])
        met[pool[s], victim[s]] = True
    swap_float_mode(mode)


@kernel
def rank(
    rows, width, row, victims, hides, users, asked_offsets, items, contexts, n_targets, weights, rules, latest, n_items,
    n_users, dims,
):  # fmt: skip
    """Fill ``latest[rule, adversary, victim]`` for victims whose models are ``rows[row]``.

    One that hides its user row is seen with each adversary's own of `users`.
    """
    mode = swap_float_mode(NO_DENORMALS)
    dim = len(dims)
    begin = n_users * dim
    longest = 0
    for a in range(len(n_targets)):
        longest = max(longest, asked_offsets[a + 1] - asked_offsets[a])
    scores, best, user = np.empty(longest, float32), np.empty(CUTOFF, float32), np.empty(dim, float32)
    near = np.empty(n_items, float32)
    for v in range(len(victims)):
        hidden, low = hides[victims[v]], np.int64(row[v]) * width
        table = low + begin
        if not hidden:
            widen_row(user, 0, rows, low + (0 if n_users == 1 else victims[v] * dim), dim)
            for item in range(n_items):
                near[item] = user_gap(rows, table + item * 2 * dim, user, dim)
        for a in range(len(n_targets)):
            first, n = asked_offsets[a], n_targets[a]
            count = asked_offsets[a + 1] - first
            for s in range(count):
                item, before = np.int64(items[first + s]), np.int64(contexts[first + s])
                at = table + item * 2 * dim
                gap = user_gap(rows, at, users[a], dim) if hidden else near[item]
                distance = weights[first + s, 0] * gap
                if before >= 0:
                    start = table + before * 2 * dim + dim
                    distance += weights[first + s, 1] * stored_gap(rows, at + dim, start, dim)
                scores[s] = -distance
            for r in range(len(rules)):
                latest[r, a, victims[v]] = relevance_of_moves(rules[r], scores[:n], scores[n:count], best)
    swap_float_mode(mode)
