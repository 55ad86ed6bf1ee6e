"""Compiled products, exponentials and stretches, beside numpy's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossiprec.native.jit import kernel
from gossiprec.native.tiles import LANES, Matrix
from gossiprec.numerics.flat_ops import exp32, logistic_gradient, relu_backward, relu_range, sigmoid, tanh32
from gossiprec.numerics.small_matmul import add_inner_products, add_product

product, inner_products = kernel(add_product.py_func), kernel(add_inner_products.py_func)

SIZES = {
    "outer": st.integers(0, 9),
    "inner": st.integers(0, 9),
    "tiles": st.integers(0, 3),
    "rest": st.integers(0, 40),
    "at": st.integers(0, 3),
    "beyond": st.integers(0, 5),
    "seed": st.integers(0, 99),
}


def placed(matrix, at, row):
    """Return a flat array in which a matrix begins at a place, with `row` numbers from a row to the next."""
    flat = np.full(at + len(matrix) * row + matrix.shape[1], 7.0, np.float32)
    for k, line in enumerate(matrix):
        flat[at + k * row : at + k * row + len(line)] = line
    return flat


@settings(max_examples=60, deadline=None)
@given(**SIZES)
def test_a_product_is_added_where_it_belongs_and_nowhere_else(outer, inner, tiles, rest, at, beyond, seed):
    draw, columns = np.random.default_rng(seed), tiles * LANES + rest % LANES
    a, b, c = (
        draw.normal(size=shape).astype(np.float32)
        for shape in ((outer, inner), (inner, columns), (outer, columns))
    )
    row = columns + beyond
    for left, a_row, a_column in (
        (placed(a, at, inner + 2), inner + 2, 1),
        (placed(a.T, at, outer + 1), 1, outer + 1),
    ):
        found = placed(c, at, row)
        product(
            Matrix(found, at, row, 1), Matrix(left, at, a_row, a_column), Matrix(placed(b, at, row), at, row, 1),
            outer, inner, columns,
        )  # fmt: skip
        np.testing.assert_allclose(found, placed(c + a @ b, at, row), rtol=1e-5, atol=1e-5)


@settings(max_examples=60, deadline=None)
@given(**SIZES)
def test_inner_products_are_added_where_they_belong_and_nowhere_else(
    outer, inner, tiles, rest, at, beyond, seed
):
    draw, length = np.random.default_rng(seed), tiles * LANES + rest % LANES
    a, b, c = (
        draw.normal(size=shape).astype(np.float32)
        for shape in ((outer, length), (inner, length), (outer, inner))
    )
    row, c_row = length + beyond, inner + beyond
    found = placed(c, at, c_row)
    inner_products(
        Matrix(found, at, c_row, 1), Matrix(placed(a, at, row), at, row, 1), Matrix(placed(b, at, row), at, row, 1),
        outer, inner, length,
    )  # fmt: skip
    np.testing.assert_allclose(found, placed(c + a @ b.T, at, c_row), rtol=1e-4, atol=1e-4)


@kernel
def exponentials(values, found):
    for k in range(len(values)):
        found[k] = exp32(values[k])


def test_exponentials_are_numpys_to_some_units_in_the_last_place():
    values = np.concatenate([np.linspace(-87, 88, 20_001), [0.0, -1e-30]]).astype(np.float32)
    found = np.empty_like(values)
    exponentials(values, found)
    np.testing.assert_allclose(found, np.exp(values.astype(np.float64)), rtol=4e-7)


def test_an_exponential_goes_on_at_its_ends_and_tells_what_is_no_number():
    values = np.array([-1e9, -np.inf, 1e9, np.inf, np.nan], np.float32)
    found = np.empty_like(values)
    exponentials(values, found)
    np.testing.assert_allclose(found[:4], np.exp(np.array([-87.0, -87.0, 88.0, 88.0])), rtol=1e-6)
    assert np.isnan(found[4])


@kernel
def squashed(values, tangents, sigmoids):
    for k in range(len(values)):
        tangents[k], sigmoids[k] = tanh32(values[k]), sigmoid(values[k])


def test_squashing_functions_are_numpys_near_zero_and_at_their_ends():
    sizes = np.concatenate([np.logspace(-12, 2, 4_001), np.linspace(0.5, 0.75, 501), [0.0, np.inf]])
    values = np.concatenate([sizes, -sizes]).astype(np.float32)
    tangents, sigmoids = np.empty_like(values), np.empty_like(values)
    squashed(values, tangents, sigmoids)
    exact = values.astype(np.float64)
    np.testing.assert_allclose(tangents, np.tanh(exact), rtol=5e-7)
    np.testing.assert_allclose(sigmoids, 1 / (1 + np.exp(-exact)), rtol=5e-7, atol=2e-38)


@kernel
def through(values, others, samples, positives):
    relu_range(values, 1, 3)
    relu_backward(others, 1, values, 1, 3)
    logistic_gradient(samples, 0, positives, positives, 0, len(samples))


@pytest.mark.parametrize("logit", [-100.0, -1.5, 0.0, 2.0, 100.0])
def test_stretches_leave_what_is_beside_them_and_numbers_that_are_none(logit):
    values = np.array([-1.0, -2.0, np.nan, 3.0, -4.0], np.float32)
    others, logits = np.arange(5, dtype=np.float32), np.full(3, logit, np.float32)
    share = np.array([0.25, 0.5, 1.0], np.float32)
    through(values, others, logits, share)
    np.testing.assert_array_equal(values, np.array([-1.0, 0.0, np.nan, 3.0, -4.0], np.float32))
    np.testing.assert_array_equal(others, np.array([0.0, 0.0, 0.0, 3.0, 4.0], np.float32))
    np.testing.assert_allclose(logits, share / (1 + np.exp(-logit)) - share, rtol=1e-5, atol=1e-7)
