"""Exponential, sigmoid and tanh for compiled loops, in a form that the compiler can vectorise."""

from __future__ import annotations

import numpy as np
from numpy import float32

from gossiprec.native.jit import float_of, inline


@inline
def exp32(x):
    """Return e to the x, to a few units in the last place; x is clamped to -87 .. 88.

    x is taken apart into n log 2 + r with an integer n and |r| below log(2) / 2; e to the r is a polynomial of degree
    7 (Moshier's Cephes library, 1989, expf).
    """
    x = float32(-87.0) if x < float32(-87.0) else x  # in this order NaN stays NaN
    x = float32(88.0) if x > float32(88.0) else x
    n = np.floor(x * float32(1.44269504) + float32(0.5))
    r = x - n * float32(0.693359375) + n * float32(2.12194440e-4)  # log 2 in two parts
    p = float32(1.9875691500e-4)
    p = p * r + float32(1.3981999507e-3)
    p = p * r + float32(8.3334519073e-3)
    p = p * r + float32(4.1665795894e-2)
    p = p * r + float32(1.6666665459e-1)
    p = p * r + float32(5.0000001201e-1)
    p = p * r * r + r + float32(1.0)
    return p * float_of(np.int32((np.int32(n) + np.int32(127)) << np.int32(23)))


@inline
def sigmoid(x):
    """Return ``1 / (1 + exp(-x))``."""
    return float32(1.0) / (float32(1.0) + exp32(-x))


@inline
def tanh32(x):
    """Return tanh x, to a few units in the last place; near zero a polynomial of degree 11 (Cephes, tanhf)."""
    s = x * x
    p = float32(-5.70498872745e-3)
    p = p * s + float32(2.06390887954e-2)
    p = p * s + float32(-5.37397155531e-2)
    p = p * s + float32(1.33314422036e-1)
    p = p * s + float32(-3.33332819422e-1)
    near = p * s * x + x
    far = float32(1.0) - float32(2.0) / (exp32(float32(2.0) * x) + float32(1.0))
    return near if abs(x) < float32(0.625) else far
