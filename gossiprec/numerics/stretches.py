"""Loops over stretches of flat arrays, compiled: several numbers at a time, because each begins at 0 of a view."""

from __future__ import annotations

from numpy import float32

from gossiprec.numerics.exponential import exponential
from gossiprec.numerics.jit import inline


@inline
def put(values, at, n, number):
    """Set `n` numbers."""
    some = values[at : at + n]
    for k in range(len(some)):
        some[k] = number


@inline
def copy(values, at, others, others_at, n):
    """Set `n` numbers to others."""
    some, given = values[at : at + n], others[others_at : others_at + n]
    for k in range(len(some)):
        some[k] = given[k]


@inline
def total(values, at, n):
    """Return the sum of `n` numbers."""
    some, found = values[at : at + n], float32(0.0)
    for k in range(len(some)):
        found += some[k]
    return found


@inline
def dot(values, at, others, others_at, n):
    """Return the sum of the products of `n` numbers with others."""
    some, given, found = values[at : at + n], others[others_at : others_at + n], float32(0.0)
    for k in range(len(some)):
        found += some[k] * given[k]
    return found


@inline
def add_times(values, at, others, others_at, n, factor):
    """Add `n` others times a factor."""
    some, given = values[at : at + n], others[others_at : others_at + n]
    for k in range(len(some)):
        some[k] += given[k] * factor


@inline
def set_times(values, at, others, others_at, n, factor):
    """Set `n` numbers to others times a factor; they may be the same ones."""
    some, given = values[at : at + n], others[others_at : others_at + n]
    for k in range(len(some)):
        some[k] = given[k] * factor


@inline
def multiply(values, at, factors, factors_at, n):
    """Multiply `n` numbers by others."""
    some, given = values[at : at + n], factors[factors_at : factors_at + n]
    for k in range(len(some)):
        some[k] *= given[k]


@inline
def rectify(values, at, n):
    """Set those of `n` numbers to zero that are below."""
    some = values[at : at + n]
    for k in range(len(some)):
        x = some[k]
        some[k] = float32(0.0) if x < float32(0.0) else x


@inline
def keep_where_positive(values, at, others, others_at, n):
    """Set those of `n` numbers to zero whose others are not above zero."""
    some, given = values[at : at + n], others[others_at : others_at + n]
    for k in range(len(some)):
        x = some[k]
        some[k] = x if given[k] > float32(0.0) else float32(0.0)


@inline
def pull(values, at, samples, positives, of, n):
    """Turn `n` logits into the derivatives of ``sum(samples * softplus(z) - positives * z)`` by them."""
    some, all_, liked = values[at : at + n], samples[of : of + n], positives[of : of + n]
    for k in range(len(some)):
        some[k] = all_[k] / (float32(1.0) + exponential(-some[k])) - liked[k]
