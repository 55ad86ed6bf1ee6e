"""Names of array types for the whole package, one per kind of number."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

F16 = npt.NDArray[np.float16]
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.floating]
Texts = npt.NDArray[np.object_]
"""An array of str."""


def are_all_finite(numbers: Floats) -> bool:
    """Return whether all numbers are finite; the sum nearly always decides it, in a third of the time."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = numbers.sum()
    return bool(np.isfinite(total) or np.isfinite(numbers).all())


def in_sorted(wanted: I64, ascending: I64) -> Bools:
    """Return whether each number is among ascending ones; np.isin hashes, which takes ten times as long."""
    if not len(ascending):
        return np.zeros(len(wanted), np.bool_)
    places = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    return np.asarray(ascending[places] == wanted)


MOST_COUNT = 2**40
"""Upper bound of every count of a run; a larger number in a checkpoint is invalid."""


def check_array(name: str, found: object, like: npt.NDArray[Any], *, grows: bool = False) -> None:
    """Refuse an object that is no array of the type and shape of another.

    Parameters
    ----------
    name : str
        Name of the array, for the message.
    found : object
    like : ndarray
    grows : bool
        Whether the first dimension may differ.

    Raises
    ------
    ValueError
    """
    if not isinstance(found, np.ndarray) or found.dtype != like.dtype:
        kind = found.dtype if isinstance(found, np.ndarray) else type(found).__name__
        raise ValueError(f"{name}: found {kind}; expected an array of {like.dtype}")
    skipped = 1 if grows else 0
    if found.ndim != like.ndim or found.shape[skipped:] != like.shape[skipped:]:
        raise ValueError(f"{name}: found shape {found.shape}; expected {like.shape}")


def check_range(name: str, found: npt.NDArray[Any], low: int, high: int) -> None:
    """Refuse integers outside of ``low .. high``.

    Raises
    ------
    ValueError
    """
    if not np.issubdtype(found.dtype, np.integer):
        raise ValueError(f"{name}: found {found.dtype}; expected integers")
    if found.size and (int(found.min()) < low or int(found.max()) > high):
        raise ValueError(f"{name}: found {found.min()} to {found.max()}; expected {low} to {high}")
