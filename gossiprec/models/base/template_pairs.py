"""The parts of the loops of :mod:`.template_kernels` for pairs of a positive and a negative, in a context.

A sample is a positive, one of its negatives, and the item before the positive, its context. Its loss is ``-log
sigmoid(score(positive) - score(negative))`` plus the model's penalty. Items lie in the workspace as for labelled items:
a positive, then its negatives.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy import float32

from gossiprec.models.base.item_records import load_record, touch_record
from gossiprec.models.base.template_formula import (
    CONTEXT,
    ITEM,
    OF_CONTEXT,
    OF_ITEM,
    OF_SHARED,
    OF_USER,
    ROOM,
    SHARED,
    USER,
    WEIGHTS,
    ContextRows,
    Formula,
    add_gradient,
    clear,
    core_slopes,
    room_places,
    score,
)
from gossiprec.native.jit import borrow, constants, length, part, specialise
from gossiprec.numerics.flat_ops import exp32


class PairFunctions(NamedTuple):
    """The further functions of a model of pairs, plain Python (:func:`gossiprec.models.base.kernel_template.pairs`).

    Attributes
    ----------
    set_weights : function
        ``set_weights(weights, constants, item, context, numbers)`` fills the weights of a query.
    add_penalty : function
        ``add_penalty(p, other, share, slopes, of_other, numbers)`` adds the gradient of a sample's penalty, times
        `share`; `p` is the positive's, `other` the negative's.
    n_weights : int
        Numbers of weights of a query.
    constants : str
        Name of the model's constants.
    numbers : function
        From the model's options to the `numbers`, a tuple of float.
    """

    set_weights: Any
    add_penalty: Any
    n_weights: int
    constants: str
    numbers: Any


def set_weights(weights, constants, item, context, numbers):
    """Stand in for the model's: fill the weights of a query."""
    raise NotImplementedError


def add_penalty(p, other, share, slopes, of_other, numbers):
    """Stand in for the model's: add the gradient of a sample's penalty, times `share`."""
    raise NotImplementedError


@borrow
def count_pairs(n_positives, rule):
    """Return the number of samples of a local update: each positive once per negative."""
    return n_positives * rule.negatives


def load_pairs(n_positives, low, begin, row, space, rule, sizes, options):
    """Make a record of each item and context, and fill the weights of queries; return the number of records."""
    count, dim, size, n = 0, length(sizes.item_dims), 1 + rule.negatives, length(options.weight_dims)
    for t in range(n_positives):
        context = options.contexts[low + t]
        space.before[t] = -1
        if context >= 0:
            count = load_record(context, count, begin, dim, row, rule.adam, space)
            space.before[t] = space.record_of[context]
        for place in range(t * size, (t + 1) * size):
            item = space.items[place]
            count = load_record(item, count, begin, dim, row, rule.adam, space)
            weights = part(space.weights, place * n, n, WEIGHTS)
            set_weights(weights, options.constants, item, context, options.numbers)
    return count


@borrow
def touch_pair(s, count, step, space, rule, dim, one_segment, epsilon):
    """List the records of a sample; return the number of listed records."""
    t = s // rule.negatives
    records = (
        space.record_of[space.items[t * (1 + rule.negatives)]], space.record_of[space.items[s + t + 1]],
        space.before[t],
    )  # fmt: skip
    for c in records:
        if c >= 0:
            count = touch_record(c, count, step, space, dim, rule.adam, one_segment, epsilon)
    return count


def fill_pair_gradients(batch, touched, space, rule, sizes, options):
    """Fill the gradients of the batch's records and of the core."""
    dim, n, core, records = length(sizes.dims), length(sizes.item_dims), space.core, space.records
    items, record_of, n_weights, size = (
        space.items,
        space.record_of,
        length(options.weight_dims),
        1 + rule.negatives,
    )
    spare = len(records) // (4 * n) - 1
    room, shape = part(space.room, room_places(sizes).rest, options.n_room, ROOM), constants(options.shape)
    user, shared = part(core, 0, dim, USER), part(core, dim, sizes.n_shared, SHARED)
    at_user, at_shared = core_slopes(sizes)
    of_user, of_shared = part(core, at_user, dim, OF_USER), part(core, at_shared, sizes.n_shared, OF_SHARED)
    clear(of_user)
    clear(of_shared)
    for c in touched:
        clear(part(records, (4 * c + 3) * n, n, OF_ITEM))
    clear(part(records, (4 * spare + 3) * n, n, OF_CONTEXT))
    share = float32(1.0) if rule.summed else float32(1.0) / float32(len(batch))
    for s in batch:
        t = s // rule.negatives
        one, other, before = record_of[items[t * size]], record_of[items[s + t + 1]], space.before[t]
        known = before if before >= 0 else one
        apart = before >= 0 and before != one and before != other  # no array overlaps another
        at = (4 * (before if apart else spare) + 3) * n
        context, of_context = part(records, 4 * known * n, n, CONTEXT), part(records, at, n, OF_CONTEXT)
        weights = part(space.weights, t * size * n_weights, n_weights, WEIGHTS)
        other_weights = part(space.weights, (s + t + 1) * n_weights, n_weights, WEIGHTS)
        p = ContextRows(user, part(records, 4 * one * n, n, ITEM), shared, context, weights)
        q = ContextRows(user, part(records, 4 * other * n, n, ITEM), shared, context, other_weights)
        of_p = ContextRows(
            of_user, part(records, (4 * one + 3) * n, n, OF_ITEM), of_shared, of_context, weights
        )
        of_q = ContextRows(
            of_user, part(records, (4 * other + 3) * n, n, OF_ITEM), of_shared, of_context, weights
        )
        slope = share / (float32(1.0) + exp32(score(p, room, shape) - score(q, room, shape)))
        add_gradient(p, -slope, of_p, room, shape)
        add_gradient(q, slope, of_q, room, shape)
        add_penalty(p, q, share, of_p, of_q, options.numbers)
        if not apart:
            for k in range(n):
                if before >= 0:
                    records[(4 * before + 3) * n + k] += of_context[k]
                of_context[k] = float32(0.0)


def fill_query_weights(items, contexts, constants, numbers, out):
    """Fill `out`, (n_queries, n_weights), with the weights of queries."""
    n = out.shape[1]
    for j in range(len(items)):
        set_weights(part(out, j * n, n, WEIGHTS), constants, items[j], contexts[j], numbers)


def specialise_pairs(of: Formula, pairs: PairFunctions) -> tuple[Any, Any, dict[str, Any]]:
    """Return the functions of a step's gradients and of touched records, and those of a local update by their stubs."""
    weigh = {"set_weights": borrow(pairs.set_weights)}
    fill = specialise(fill_pair_gradients, borrow, **of.gradient, add_penalty=borrow(pairs.add_penalty))
    load = specialise(load_pairs, borrow, **weigh)
    return fill, touch_pair, {"count_samples": count_pairs, "load_samples": load}
