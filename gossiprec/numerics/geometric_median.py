"""The geometric median of points in compiled loops: damped Newton steps on the smoothed sum of distances.

The sum of weighted distances is convex, and Weiszfeld's iterations towards its minimum stall near a point. So distances
below a radius, which is tiny next to the distances to most of the points, are replaced by a parabola (the smoothing of
RFA), and each step is Newton's, shortened until the sum falls, or else Weiszfeld's. A gradient g, divided by the sum of
the weights, bounds how far the sum is above its minimum: by ``|g|`` times the distance to the minimum.
"""

from __future__ import annotations

import numpy as np

from gossiprec.base.arrays import F64
from gossiprec.native import jit_cached
from gossiprec.native.jit import jitable

TOLERANCE = 5e-7
"""Largest gradient at the result, as a share of the gradient of all points together if they lay in one direction."""
NEAR = 1e-7
"""The smoothing radius, as a share of the radius of a ball around the first estimate with most of the points."""
DAMPING = 1e-13
"""Share of the largest curvature that is added to all: points on a line have none along it."""
HALVINGS = 50


@jitable
def _typical_distance(points, weights):
    """Return the radius around zero of a ball with most of the points; 0 if the points at zero outweigh the others.

    If most points are at zero and do not outweigh the others, it is the distance of the next one.
    """
    n, width = points.shape
    norms, pull, held = np.empty(n), np.zeros(width), 0.0
    for j in range(n):
        norms[j] = np.sqrt((points[j] * points[j]).sum())
        if norms[j] > 0.0:
            pull += weights[j] / norms[j] * points[j]
        else:
            held += weights[j]
    norms = np.sort(norms)
    if norms[n // 2] > 0.0 or np.sqrt((pull * pull).sum()) <= held:
        return norms[n // 2]
    place = n // 2
    while norms[place] == 0.0:
        place += 1
    return norms[place]


@jitable
def _set_slopes(points, weights, radius, at, distances, slope, curvature):
    """Set the distances to all points, and slope and curvature of the smoothed sum; return the largest curvature."""
    n, width = points.shape
    most = 0.0
    slope[:] = 0.0
    curvature[:] = 0.0
    for j in range(n):
        square = 0.0
        for k in range(width):
            square += (points[j, k] - at[k]) * (points[j, k] - at[k])
        distances[j] = np.sqrt(square)
        pull = weights[j] / max(distances[j], radius)
        most += pull
        rest = pull / square if distances[j] > radius else 0.0
        for k in range(width):
            away = at[k] - points[j, k]
            slope[k] += pull * away
            for i in range(k + 1):
                curvature[k, i] -= rest * away * (at[i] - points[j, i])
    for k in range(width):
        curvature[k, k] += most
    return most


@jitable
def _solve(matrix, right, found):
    """Set the solution of a positive definite system, of which only the lower triangle is read, and is overwritten."""
    n = len(right)
    for j in range(n):
        for i in range(j, n):
            rest = matrix[i, j]
            for k in range(j):
                rest -= matrix[i, k] * matrix[j, k]
            matrix[i, j] = np.sqrt(max(rest, 1e-300)) if i == j else rest / matrix[j, j]
    for j in range(n):
        rest = right[j]
        for k in range(j):
            rest -= matrix[j, k] * found[k]
        found[j] = rest / matrix[j, j]
    for j in range(n - 1, -1, -1):
        rest = found[j]
        for k in range(j + 1, n):
            rest -= matrix[k, j] * found[k]
        found[j] = rest / matrix[j, j]


@jitable
def _smoothed(distance, radius):
    return distance if distance > radius else distance * distance / (2.0 * radius) + radius / 2.0


@jitable
def _rise(points, weights, radius, at, distances, step, length):
    """Return by how much a step changes the smoothed sum, exactly also next to a point that is far away."""
    n, width = points.shape
    total, own = 0.0, 0.0
    for k in range(width):
        own += length * step[k] * length * step[k]
    for j in range(n):
        square, along = 0.0, 0.0
        for k in range(width):
            away = at[k] - points[j, k]
            moved = away + length * step[k]
            square += moved * moved
            along += length * step[k] * away
        after = np.sqrt(square)
        if after > radius and distances[j] > radius:
            total += weights[j] * (own + 2.0 * along) / (after + distances[j])
        else:
            total += weights[j] * (_smoothed(after, radius) - _smoothed(distances[j], radius))
    return total


@jitable
def _move(points, weights, radius, at, distances, slope, step, most):
    """Take the step, halved until it lowers the smoothed sum, or Weiszfeld's; return whether one of them does."""
    expected = (slope * step).sum()
    length = 1.0
    for _ in range(HALVINGS):
        if _rise(points, weights, radius, at, distances, step, length) <= 1e-4 * length * expected < 0.0:
            at += length * step
            return True
        length /= 2.0
    step[:] = -slope / most
    if _rise(points, weights, radius, at, distances, step, 1.0) < 0.0:
        at += step
        return True
    return False


@jitable
def median_shares(points, weights, limit, shares):
    """Set the share of each point in the geometric median; return whether `limit` steps are enough.

    Parameters
    ----------
    points : ndarray of float64, shape (n, width)
        Relative to the first estimate, next to which most of them must be.
    weights : ndarray of float64, shape (n,)
    limit : int
    shares : ndarray of float64, shape (n,)
        Is set; their sum is 1.
    """
    n, width = points.shape
    total, radius = weights.sum(), NEAR * _typical_distance(points, weights)
    if radius == 0.0:
        for j in range(n):
            shares[j] = weights[j] if (points[j] * points[j]).sum() == 0.0 else 0.0
        shares /= shares.sum()
        return True
    at, slope, step = np.zeros(width), np.empty(width), np.empty(width)
    distances, curvature = np.empty(n), np.empty((width, width))
    is_done = False
    for _ in range(limit):
        most = _set_slopes(points, weights, radius, at, distances, slope, curvature)
        if np.sqrt((slope * slope).sum()) <= TOLERANCE * total:
            is_done = True
            break
        for k in range(width):
            curvature[k, k] += DAMPING * most
        _solve(curvature, -slope, step)
        if not _move(points, weights, radius, at, distances, slope, step, most):
            is_done = True  # no step lowers the sum in double precision
            break
    for j in range(n):
        shares[j] = weights[j] / max(distances[j], radius)
    shares /= shares.sum()
    return is_done


@jitable
def _set_coordinates(products, points):
    """Set points with the given scalar products (Cholesky); one that depends on those before adds no direction."""
    n = len(products)
    points[:] = 0.0
    for j in range(n):
        rest = products[j, j]
        for k in range(j):
            rest -= points[j, k] * points[j, k]
        if rest <= n * 2.3e-16 * products[j, j]:
            continue
        points[j, j] = np.sqrt(rest)
        for i in range(j + 1, n):
            rest = products[i, j]
            for k in range(j):
                rest -= points[i, k] * points[j, k]
            points[i, j] = rest / points[j, j]


@jitable
def _add_products(rows, products):
    """Add the scalar products of all rows to the lower triangle."""
    n, width = rows.shape
    for i in range(n):
        for j in range(i + 1):
            total = 0.0
            for k in range(width):
                total += rows[i, k] * rows[j, k]
            products[i, j] += total


def _shares_of_products(products, weights, limit, shares):
    points = np.empty(products.shape)
    _set_coordinates(products, points)
    return median_shares(points, weights, limit, shares)


def _medians_of_items(values, start, limit, found):
    n_items, n, width = values.shape
    weights, shares = np.ones(n), np.empty(n)
    for item in range(n_items):
        away = values[item] - start[item]
        if width > n:
            products, points = np.zeros((n, n)), np.empty((n, n))
            _add_products(away, products)
            _set_coordinates(products, points)
            away = points
        if not median_shares(away, weights, limit, shares):
            return False
        for k in range(width):
            total = 0.0
            for j in range(n):
                total += shares[j] * values[item, j, k]
            found[item, k] = total
    return True


def _add_products_of(rows, products):
    _add_products(rows, products)


def add_products(rows: F64, products: F64) -> None:
    """Add the scalar products of rows, shape (n, width), to the lower triangle of `products`, shape (n, n)."""
    jit_cached(_add_products_of)(rows, products)


def shares_of_products(products: F64, weights: F64, limit: int, shares: F64) -> bool:
    """Set the share of each point in the geometric median, from scalar products; as :func:`median_shares`.

    Parameters
    ----------
    products : ndarray of float64, shape (n, n)
        Of the points relative to the first estimate; the lower triangle is read.
    weights : ndarray of float64, shape (n,)
    limit : int
    shares : ndarray of float64, shape (n,)
        Is set.
    """
    return bool(jit_cached(_shares_of_products)(products, weights, limit, shares))


def medians_of_items(values: F64, start: F64, limit: int, found: F64) -> bool:
    """Set the geometric median of each item's points; return whether `limit` steps are enough.

    Parameters
    ----------
    values : ndarray of float64, shape (n_items, n, width)
    start, found : ndarray of float64, shape (n_items, width)
        The first estimate, and the result.
    limit : int
    """
    return bool(jit_cached(_medians_of_items)(values, start, limit, found))
