"""Perturbation of a user's vector before it is uploaded: clipping in L1 norm and Laplace noise.

References
----------
The FedCL paper (specification, section 6). C. Dwork, A. Roth, "The algorithmic foundations of differential privacy",
2014, theorems 3.6 (the Laplace mechanism) and 3.16 (composition): two vectors of L1 norm up to `bound` are
up to ``2 bound`` apart, so that noise of scale ``2 bound / epsilon`` on each number spends epsilon each time.
"""

from __future__ import annotations

import numpy as np

from gossiprec.base.arrays import F32, F64

_SHORT = np.finfo(np.float32)
LARGEST_SCALE = float(_SHORT.max) / 1e3
"""Largest scale of noise: draws never reach a thousand times as much."""
SMALLEST_SCALE = float(_SHORT.tiny)


def laplace_scale(bound: float, epsilon: float) -> float:
    """Return the scale of the noise that spends a budget of epsilon.

    Parameters
    ----------
    bound : float
        L1 norm that no vector exceeds.
    epsilon : float

    Raises
    ------
    ValueError
        If the noise would be infinite or zero in numbers of 32 bits.
    """
    scale = 2.0 * bound / epsilon if epsilon > 0 else np.inf
    if not SMALLEST_SCALE <= scale <= LARGEST_SCALE:
        kind = "none" if scale < SMALLEST_SCALE else "infinite"
        raise ValueError(
            f"found epsilon {epsilon:g} with clip {bound:g}, for which noise of scale {scale:g} would be "
            f"{kind}; set an epsilon such as 4, or null for no noise"
        )
    return scale


def clip_l1(vectors: F32, bound: float) -> F64:
    """Return the vectors, shape (n, d), scaled down to the L1 norm `bound` if their norm is larger."""
    exact = vectors.astype(np.float64)
    norms = np.abs(exact).sum(axis=-1, keepdims=True)
    return np.asarray(exact * np.minimum(1.0, bound / np.maximum(norms, bound)))


def add_laplace_noise(vectors: F64, scale: float, draws: list[np.random.Generator]) -> F32:
    """Return vectors with Laplace noise, each from its own draws, shape (n, d)."""
    noise = [draw.laplace(0.0, scale, vectors.shape[1]) for draw in draws]
    found: F32 = (vectors + np.array(noise).reshape(vectors.shape)).astype(np.float32)
    return found
