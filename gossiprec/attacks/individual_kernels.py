"""What single adversaries see, compiled, for GMF."""

from __future__ import annotations

import numpy as np
from numpy import float32

from gossiprec.attacks.cda_kernels import blend, relevance_of
from gossiprec.attacks.entropy_kernels import entropy
from gossiprec.attacks.fitting_kernels import fit_user
from gossiprec.attacks.relevance import CUTOFF
from gossiprec.numerics.jit import NO_DENORMALS, copy_floats, inline, kernel, swap_float_mode


@inline
def score_kept(vector, n_items, dim, user, user_at, shared, shared_at, scores):
    """Fill `scores` from a kept vector ``[user | items | h | b]``, with a user row and shared weights from anywhere."""
    mixed = np.empty(dim, float32)
    for k in range(dim):
        mixed[k] = user[user_at + k] * shared[shared_at + k]
    bias = shared[shared_at + dim]
    for j in range(n_items):
        item = vector[(1 + j) * dim : (2 + j) * dim]
        z = bias
        for k in range(dim):
            z += mixed[k] * item[k]
        scores[j] = z


@inline
def adopt_own(own, keep, row, user, shared, dim, user_travels):
    """Merge a received version into the receiver's ``[user | h | b]``, as its model will do."""
    for k in range(0 if user_travels else dim, 2 * dim + 1):
        value = row[user + k if k < dim else shared + k - dim]
        own[k] = value if keep == 0.0 else keep * own[k] + (float32(1.0) - keep) * value


@kernel
def observe_individuals(
    rows, tasks, node, source, merge_offsets, merge_row, merge_keep, merge_message, sender_of, time_of, hides,
    adversary_of, kept_offsets, kept_items, n_targets, lengths, slot_of, seen_before, memory, memory_offsets, momenta,
    rules, thresholds, fictive, latest, n_items, n_users, dims,
):  # fmt: skip
    """Let every receiver among the adversaries observe what it is about to merge.

    `memory` has one row per positive momentum; adversary a's slot s lies at ``memory_offsets[a] + s * length``.
    `latest` is (momentum, rule, adversary, victim). Of a victim that hides it, the user row is not read.
    """
    mode = swap_float_mode(NO_DENORMALS)
    dim = len(dims)
    begin = n_users * dim
    shared = begin + n_items * dim
    longest = 0
    for a in range(len(n_targets)):
        longest = max(longest, kept_offsets[a + 1] - kept_offsets[a])
    fresh, scores, best = (
        np.zeros(max(lengths), float32),
        np.empty(longest, float32),
        np.empty(CUTOFF, float32),
    )
    looks_as_itself, users, due, own = fictive[0], fictive[1], fictive[3], np.zeros(2 * dim + 1, float32)
    for task in tasks:
        a = adversary_of[node[task]]
        if a < 0:
            continue
        kept = kept_items[kept_offsets[a] : kept_offsets[a + 1]]
        length, tail = lengths[a], (1 + len(kept)) * dim
        my_user = 0 if n_users == 1 else node[task] * dim
        if looks_as_itself:
            adopt_own(own, float32(0.0), rows[source[task]], my_user, shared, dim, True)
        for merge in range(merge_offsets[task], merge_offsets[task + 1]):
            message = merge_message[merge]
            victim, row = sender_of[message], rows[merge_row[merge]]
            hidden = hides[victim]
            if looks_as_itself:
                adopt_own(own, abs(merge_keep[merge]), row, my_user, shared, dim, n_users > 1 and not hidden)
            if victim >= latest.shape[3]:
                continue  # the coordinator's model is nobody's
            if hidden and due[a] <= time_of[message]:
                fit_user(a, row, begin, shared, time_of[message], fictive, dim)
            if hidden:
                fresh[:dim] = float32(0.0)
            else:
                copy_floats(fresh, 0, row, 0 if n_users == 1 else victim * dim, dim)
            for j in range(len(kept)):
                copy_floats(fresh, (1 + j) * dim, row, begin + kept[j] * dim, dim)
            copy_floats(fresh, tail, row, shared, dim)
            fresh[tail + dim] = row[shared + dim]
            slot = slot_of[message]
            place = 0
            for b in range(len(momenta)):
                vector = fresh[:length]
                if momenta[b] > 0.0:
                    if slot >= 0:
                        low = memory_offsets[a] + slot * length
                        held = memory[place, low : low + length]
                        if seen_before[message]:
                            blend(held, vector, momenta[b])
                        else:
                            copy_floats(held, 0, vector, 0, length)
                        vector = held
                    place += 1
                if not hidden:
                    score_kept(vector, len(kept), dim, vector, 0, vector, tail, scores)
                elif looks_as_itself:
                    score_kept(vector, len(kept), dim, own, 0, own, dim, scores)
                else:
                    score_kept(vector, len(kept), dim, users[a], 0, vector, tail, scores)
                if rules[0] == 3:
                    for j in range(n_targets[a]):
                        scores[j] = entropy(scores[j])
                for r in range(len(rules)):
                    latest[b, r, a, victim] = relevance_of(
                        rules[r],
                        thresholds[r],
                        scores[: n_targets[a]],
                        scores[n_targets[a] : len(kept)],
                        best,
                    )
    swap_float_mode(mode)
