"""Functions that Python and kernels call alike."""

from __future__ import annotations

from typing import Any

from numba.extending import register_jitable

from gossiprec.numerics.kernel_linking import link_only


def jitable(function: Any) -> Any:
    """Return the function as it is; kernels that call it compile it for themselves."""
    link_only(function)
    return register_jitable(function)
