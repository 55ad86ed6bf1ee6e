"""Dense Adam on a large table of which few rows have a gradient.

Torch's Adam moves every row at every step, because moments outlive gradients. A row without gradient over steps
p+1 .. q of an epoch that began at step count t moves by ::

    -sum_j  lr b1^(j-p) m / (1 - b1^(t+j))  /  (sqrt(b2^(j-p) v / (1 - b2^(t+j))) + eps)
  = -M sum_j a_j / (S r_j + eps)

with M and S the row's moments referred to the start of a *segment* of steps, and a_j, r_j numbers that no row enters.
Within a segment r_j stays within 3.5 % of a centre r, so with r_j = r (1 + q_j), D = S r + eps and x = S r / D ::

    sum_j a_j / (S r_j + eps) = (A0 - x A1 + x^2 A2 - x^3 A3 + x^4 A4) / D,   A_n = sum_j a_j q_j^n,

up to a relative error of q^5 < 6e-8, below float32's rounding. So any number of steps costs one square root and one
division per number instead of one each per step, and rows are brought up to date only when they are read.
In the first steps of a run r_j changes fast and segments are single steps: the formula is then Adam's own.

Adam's own formula, for kernels of any model, is :func:`step_number`; :func:`step_vector` has it in double precision.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy import float32, uint64

from gossiprec.native.jit import borrow, inline, noinline

SPREAD = 1.07
"""Largest ratio of two r_j within a segment."""
LONGEST = 64
"""Longest segment, in steps: keeps b1^-LONGEST small."""


class AdamTables(NamedTuple):
    """The tables of one epoch of lazy steps.

    Attributes
    ----------
    sums : ndarray of float64, shape (n_steps + 1, 5)
        A0 to A4 from the begin of each step's segment.
    segment, begin : ndarray of int64, shape (n_steps + 2,)
        Segment of each step, and step before each segment.
    centre : ndarray of float64, shape (n_steps + 1,)
    powers : ndarray of float64, shape (2, n_steps + LONGEST + 1)
    """

    sums: np.ndarray
    segment: np.ndarray
    begin: np.ndarray
    centre: np.ndarray
    powers: np.ndarray


class AdamStep(NamedTuple):
    """The constants of one step of torch.optim.Adam, in single precision.

    `rate` is lr / (1 - b1^t) and `correction` 1 / sqrt(1 - b2^t). `rest1` and `rest2`, 1 - b1 and 1 - b2, are
    differences in double precision: 1 - 0.999 has few bits in single.
    """

    rate: float32
    correction: float32
    beta1: float32
    rest1: float32
    beta2: float32
    rest2: float32
    epsilon: float32


@borrow
def adam_step(step, rate, beta1, beta2, epsilon):
    """Return the constants of step number `step`, from 1."""
    return AdamStep(
        float32(rate / (1.0 - beta1**step)),
        float32(1.0 / math.sqrt(1.0 - beta2**step)),
        float32(beta1),
        float32(1.0 - beta1),
        float32(beta2),
        float32(1.0 - beta2),
        float32(epsilon),
    )


@inline
def new_tables(n_steps):
    """Return the tables of one epoch."""
    return AdamTables(
        np.empty((n_steps + 1, 5)),
        np.empty(n_steps + 2, np.int64),
        np.empty(n_steps + 2, np.int64),
        np.empty(n_steps + 1),
        np.empty((2, n_steps + LONGEST + 1)),
    )


@borrow
def fill_tables(tables, t, n_steps, rate, beta1, beta2):
    """Fill the tables for steps t + 1 .. t + n_steps; return the number of segments."""
    sums, segment, begin, centre, powers = tables
    root2 = math.sqrt(beta2)
    powers[0, LONGEST] = powers[1, LONGEST] = 1.0
    for k in range(LONGEST, LONGEST + n_steps):
        powers[0, k + 1], powers[1, k + 1] = powers[0, k] * beta1, powers[1, k] * root2
    for k in range(LONGEST, max(LONGEST - n_steps, 0), -1):
        powers[0, k - 1], powers[1, k - 1] = powers[0, k] / beta1, powers[1, k] / root2
    for j in range(1, n_steps + 1):
        sums[j, 0] = rate / (1.0 - beta1 ** (t + j))
        sums[j, 1] = 1.0 / math.sqrt(1.0 - beta2 ** (t + j))
    count, start = 0, 0
    while start < n_steps:
        low = high = root2 * sums[start + 1, 1]
        stop = start + 1
        while stop < n_steps and stop - start < LONGEST:
            r = powers[1, LONGEST + stop + 1 - start] * sums[stop + 1, 1]
            if max(high, r) > SPREAD * min(low, r):
                break
            low, high = min(low, r), max(high, r)
            stop += 1
        begin[count], centre[count] = start, math.sqrt(low * high)
        a0 = a1 = a2 = a3 = a4 = 0.0
        for j in range(start + 1, stop + 1):
            a = powers[0, LONGEST + j - start] * sums[j, 0]
            q = powers[1, LONGEST + j - start] * sums[j, 1] / centre[count] - 1.0
            a0 += a
            a1 += a * q
            a2 += a * q * q
            a3 += a * q * q * q
            a4 += a * q * q * q * q
            sums[j, 0], sums[j, 1], sums[j, 2], sums[j, 3], sums[j, 4] = a0, a1, a2, a3, a4
            segment[j] = count
        count += 1
        start = stop
    begin[count] = n_steps
    return count


@borrow
def coefficients(tables, s, p, q):
    """Return segment s's part of a row's move over steps p + 1 .. q: A0..A4, the scales of m and of sqrt(v)."""
    sums, _segment, begin, centre, powers = tables
    stop = min(q, begin[s + 1])
    a0, a1, a2, a3, a4 = sums[stop, 0], sums[stop, 1], sums[stop, 2], sums[stop, 3], sums[stop, 4]
    if p > begin[s]:
        a0, a1, a2, a3 = a0 - sums[p, 0], a1 - sums[p, 1], a2 - sums[p, 2], a3 - sums[p, 3]
        a4 -= sums[p, 4]
    since = begin[s] - p + LONGEST
    scale1, scale2 = powers[0, since], powers[1, since] * centre[s]
    return float32(a0), float32(a1), float32(a2), float32(a3), float32(a4), float32(scale1), float32(scale2)


@borrow
def lazy_move(first, second, about, epsilon):
    """Return by how much a number falls over the steps of one segment, given :func:`coefficients`."""
    a0, a1, a2, a3, a4, scale1, scale2 = about
    root = np.sqrt(second) * scale2
    inverse = float32(1.0) / (root + epsilon)
    x = root * inverse
    return first * scale1 * inverse * (a0 - x * (a1 - x * (a2 - x * (a3 - x * a4))))


@borrow
def advance_rows(theta, first, second, tables, p, q, epsilon):
    """Move rows without gradient from step p to step q; three arrays of equal length.

    Moments fade in the pass of the last segment: a pass of their own takes a fifth of the time.
    """
    segment, powers = tables.segment, tables.powers
    for s in range(segment[p + 1], segment[q]):
        about = coefficients(tables, s, p, q)
        for k in range(len(theta)):
            theta[k] -= lazy_move(first[k], second[k], about, epsilon)
    about = coefficients(tables, segment[q], p, q)
    decay1, decay2 = float32(powers[0, q - p + LONGEST]), float32(powers[1, q - p + LONGEST] ** 2)
    for k in range(len(theta)):
        theta[k] -= lazy_move(first[k], second[k], about, epsilon)
        first[k] *= decay1
        second[k] *= decay2


@borrow
def record_offsets(c, dim):
    """Return the places of record c's values, of its two moments and of its gradient.

    Unsigned: numba tests signed places for being negative, which keeps the compiler from using vectors. One flat array
    instead of a view per record: views are counted, and the counting costs more than the arithmetic.
    """
    width = uint64(dim)
    theta = uint64(c) * uint64(4) * width
    return theta, theta + width, theta + uint64(2) * width, theta + uint64(3) * width


@borrow
def fill_moves(tables, q, moves):
    """Fill ``moves[p]``, p < q, with the coefficients of a record's move from step p to q in one segment."""
    powers = tables.powers
    for p in range(q):
        a0, a1, a2, a3, a4, scale1, scale2 = coefficients(tables, 0, p, q)
        moves[p, 0], moves[p, 1], moves[p, 2], moves[p, 3] = a0, a1, a2, a3
        moves[p, 4], moves[p, 5], moves[p, 6] = a4, scale1, scale2
        moves[p, 7] = powers[0, q - p + LONGEST]
        moves[p, 8] = powers[1, q - p + LONGEST] ** 2


@borrow
def move_record(records, c, dim, moves, p, epsilon):
    """Move record c, ``[theta | m | v | ...]``, by row p of :func:`fill_moves`."""
    a0, a1, a2, a3, a4 = moves[p, 0], moves[p, 1], moves[p, 2], moves[p, 3], moves[p, 4]
    scale1, scale2, decay1, decay2 = moves[p, 5], moves[p, 6], moves[p, 7], moves[p, 8]
    theta, first, second, _ = record_offsets(c, dim)
    for j in range(dim):
        k = uint64(j)
        root = np.sqrt(records[second + k]) * scale2
        inverse = float32(1.0) / (root + epsilon)
        x = root * inverse
        shift = scale1 * inverse * (a0 - x * (a1 - x * (a2 - x * (a3 - x * a4))))
        records[theta + k] -= records[first + k] * shift
        records[first + k] *= decay1
        records[second + k] *= decay2


@noinline
def advance_record(records, c, dim, tables, p, q, epsilon):
    """Move record c from step p to step q across segments, as the early epochs need."""
    record = records[4 * c * dim : 4 * (c + 1) * dim]
    advance_rows(record[:dim], record[dim : 2 * dim], record[2 * dim : 3 * dim], tables, p, q, epsilon)


@borrow
def step_number(first, second, g, adam):
    """Return by how much a number falls in a step along its gradient `g`, and its next moments."""
    m = adam.beta1 * first + adam.rest1 * g
    v = adam.beta2 * second + adam.rest2 * g * g
    return adam.rate * m / (np.sqrt(v) * adam.correction + adam.epsilon), m, v


@borrow
def step_range(theta, first, second, gradient, adam):
    """Take a step of all numbers of `theta`."""
    for k in range(len(theta)):
        g = gradient[
            k
        ]  # read first: the order in which numbers are read decides which product is fused with a sum
        move, m, v = step_number(first[k], second[k], g, adam)
        first[k] = m
        second[k] = v
        theta[k] -= move


@borrow
def step_record(records, c, dim, factor, adam):
    """Take one step of Adam of record c, ``[theta | m | v | gradient]``, with `factor` times its gradient."""
    theta, first, second, gradient = record_offsets(c, dim)
    for j in range(dim):
        k = uint64(j)
        g = factor * records[gradient + k]
        move, m, v = step_number(records[first + k], records[second + k], g, adam)
        records[first + k] = m
        records[second + k] = v
        records[theta + k] -= move


@inline
def step_vector(theta, first, second, gradient, count, step, rate):
    """Take step `step` of dense Adam at its usual betas; the gradient is a sum to be divided by `count`.

    Moments are in double precision, and corrected as in the paper; :func:`step_range` rounds otherwise.
    """
    for k in range(len(first)):
        g = gradient[k] / count
        first[k] = 0.9 * first[k] + 0.1 * g
        second[k] = 0.999 * second[k] + 0.001 * g * g
        away = math.sqrt(second[k] / (1.0 - 0.999**step)) + 1e-8
        theta[k] -= rate * first[k] / (1.0 - 0.9**step) / away
