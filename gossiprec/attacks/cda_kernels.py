"""The community detection attack compiled, for GMF.

Codes of the relevance rules: see :func:`gossiprec.attacks.relevance.rule_code`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy import float32

from gossiprec.attacks.entropy_kernels import members
from gossiprec.attacks.relevance import CUTOFF
from gossiprec.numerics.jit import NO_DENORMALS, copy_floats, inline, kernel, swap_float_mode

GAINS = 1.0 / np.log2(np.arange(CUTOFF) + 2.0)
FLAT = 1e-20
"""Relative spread below which float32 scores are equal: two that differ do so by 2**-24, squared and halved 2**-49."""


@inline
def mean_of(values):
    """Return the mean, summed in double precision."""
    total = 0.0
    for value in values:
        total += value
    return total / len(values)


@inline
def certainty(score):
    """Return the predicted probability of a logit."""
    return float32(1.0) / (float32(1.0) + np.exp(-score))


@inline
def mean_certainty(scores):
    """Return the mean predicted probability (``mean_score``)."""
    total = 0.0
    for score in scores:
        total += certainty(score)
    return total / len(scores)


@inline
def mean_gain(targets, references, best):
    """Return the mean NDCG; `best` holds the best references, ascending from its end. Ties count against a target."""
    count, lost = 0, 0
    for score in references:
        if np.isnan(score):
            lost += 1
        elif count < CUTOFF or score > best[count - 1]:
            place = count if count < CUTOFF else CUTOFF - 1
            while place > 0 and best[place - 1] < score:
                best[place] = best[place - 1]
                place -= 1
            best[place] = score
            count = min(count + 1, CUTOFF)
    total = 0.0
    for score in targets:
        rank = 0
        while rank < count and not best[rank] < score:
            rank += 1
        if rank + lost < CUTOFF:
            total += GAINS[rank + lost]
    return total / len(targets)


@inline
def mean_gains(scores, set_offsets, sets, is_target, ahead, total):
    """Fill `total` with the NDCG sums of all target sets for one model, walking its items from the best down.

    Item i occurs in the sets ``sets[set_offsets[i]:set_offsets[i + 1]]``, as target or as reference. `ahead` counts a
    set's references so far. Among equal scores references come first: ties count against a target.
    """
    order = np.argsort(-scores)
    for a in range(len(ahead)):
        ahead[a], total[a] = 0, 0.0
    open_sets, k = len(ahead), 0
    while k < len(order) and open_sets:
        stop = k + 1
        while stop < len(order) and scores[order[stop]] == scores[order[k]]:
            stop += 1
        for item in order[k:stop]:
            for entry in range(set_offsets[item], set_offsets[item + 1]):
                a = sets[entry]
                if not is_target[entry]:
                    ahead[a] += 1
                    open_sets -= ahead[a] == CUTOFF
        for item in order[k:stop]:
            for entry in range(set_offsets[item], set_offsets[item + 1]):
                a = sets[entry]
                if is_target[entry] and ahead[a] < CUTOFF:
                    total[a] += GAINS[ahead[a]]
        k = stop


@inline
def standard_gap(targets, references):
    """Return ``standardized``."""
    middle = mean_of(references)
    spread = 0.0
    for score in references:
        spread += (score - middle) ** 2
    if spread <= FLAT * middle**2:
        return 0.0
    return (mean_of(targets) - middle) / math.sqrt(spread / len(references))


@inline
def relevance_of(rule, threshold, targets, references, best):
    """Return the relevance by the rule's code; for the rule ``members``, `targets` are entropies."""
    if rule == 0:
        return last_if_nan(mean_certainty(targets))
    if rule == 1:
        return mean_gain(targets, references, best)
    if rule == 3:
        return last_if_nan(members(targets, threshold))
    return last_if_nan(standard_gap(targets, references))


@inline
def last_if_nan(value):
    """Return the value; what is no number ranks last."""
    return -np.inf if np.isnan(value) else value


@inline
def blend(memory, fresh, momentum):
    """Momentum: M <- beta M + (1 - beta) Theta (CDA paper, eq. 6)."""
    rest = float32(1.0) - momentum
    for k in range(len(fresh)):
        memory[k] = momentum * memory[k] + rest * fresh[k]


@inline
def mean_of_columns(columns, picked, out):
    """Fill `out` with the mean of some rows of `columns`, over all victims side by side."""
    for v in range(len(out)):
        out[v] = 0.0
    for item in picked:
        column = columns[item]
        for v in range(len(out)):
            out[v] += column[v]
    for v in range(len(out)):
        out[v] /= len(picked)


@kernel
def rank_by_mean(scores, victims, offsets, items, n_targets, standardize, latest):
    """Fill ``latest[target set, victim]`` with ``mean_score``, or ``standardized``, from scores (n_victims, n_items).

    Sums run over all victims side by side, item by item: whole vectors instead of single picks.
    """
    n = len(victims)
    columns = np.empty((scores.shape[1], n), float32)
    for item in range(len(columns)):
        for v in range(n):
            columns[item, v] = scores[v, item] if standardize else certainty(scores[v, item])
    own, middle, spread = np.empty(n), np.empty(n), np.empty(n)
    for a in range(len(n_targets)):
        kept = items[offsets[a] : offsets[a + 1]]
        mean_of_columns(columns, kept[: n_targets[a]], own)
        if standardize:
            references = kept[n_targets[a] :]
            mean_of_columns(columns, references, middle)
            for v in range(n):
                spread[v] = 0.0
            for item in references:
                column = columns[item]
                for v in range(n):
                    spread[v] += (column[v] - middle[v]) ** 2
            for v in range(n):
                flat = spread[v] <= FLAT * middle[v] ** 2
                own[v] = 0.0 if flat else (own[v] - middle[v]) / math.sqrt(spread[v] / len(references))
        for v in range(n):
            latest[a, victims[v]] = last_if_nan(own[v])


@kernel
def rank_by_gain(scores, victims, offsets, items, n_targets, set_offsets, sets, is_target, latest):
    """Fill ``latest[target set, victim]`` with ``ndcg``, from scores (n_victims, n_items)."""
    ahead, total = np.empty(len(n_targets), np.int64), np.empty(len(n_targets))
    picked, best = np.empty(scores.shape[1], float32), np.empty(CUTOFF, float32)
    for v in range(len(victims)):
        if not np.isnan(scores[v]).any():
            mean_gains(scores[v], set_offsets, sets, is_target, ahead, total)
            for a in range(len(n_targets)):
                latest[a, victims[v]] = total[a] / n_targets[a]
            continue
        for a in range(len(n_targets)):
            kept = items[offsets[a] : offsets[a + 1]]
            for j in range(len(kept)):
                picked[j] = scores[v, kept[j]]
            latest[a, victims[v]] = mean_gain(picked[: n_targets[a]], picked[n_targets[a] : len(kept)], best)


@kernel
def blend_rows(rows, row, pool, victim, hides, begin, memory, momenta, met, n):
    """Blend sightings into ``memory[momentum, pool, victim]``; the first sighting is copied.

    Of a victim that hides it, the user part, all that lies before `begin`, is not read.
    """
    mode = swap_float_mode(NO_DENORMALS)
    for s in range(len(row)):
        low = begin if hides[victim[s]] else 0
        fresh = rows[row[s], low:n]
        for b in range(len(momenta)):
            held = memory[b, pool[s], victim[s], low:n]
            if met[pool[s], victim[s]]:
                blend(held, fresh, momenta[b])
            else:
                copy_floats(held, 0, fresh, 0, n - low)
        met[pool[s], victim[s]] = True
    swap_float_mode(mode)


@kernel
def plan_slots(
    message, sender, receiver, adversary_of, again, slot_at, free, n_free, used, slot_of, seen_before
):
    """Give each pair of adversary and victim a slot from its first to its last meeting, if it meets more than once.

    Slots of one adversary are numbered from 0 and used again; `used` is how many it needs at most. All tables are
    (n_adversaries, n_nodes) and start at zero but for `slot_at`, which starts at -1.
    """
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
